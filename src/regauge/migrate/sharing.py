"""How devices are shared or split on each node pool under the device plugin, and what takes its place by claim. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from regauge.inventory import is_extended_resource, pool_of, whole
from regauge.model.core import Node

MAX_EVIDENCE = 3


class _Setup(msgspec.Struct, frozen=True):
    how: str
    by_claim: str
    feature: str
    labels: dict[str, str] = {}
    annotations: tuple[str, ...] = ()
    resources: str = ""


class _Table(msgspec.Struct):
    setups: tuple[_Setup, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """One way of sharing on one pool: on how many nodes, what shows it, and what there is instead by claim."""

    pool: str
    how: str
    nodes: int
    evidence: tuple[str, ...]
    by_claim: str
    feature: str


@cache
def _table() -> _Table:
    return msgspec.json.decode(files("regauge.migrate").joinpath("data/sharing.json").read_bytes(), type=_Table)


def find_sharing(nodes: Iterable[Node]) -> tuple[Sharing, ...]:
    """Every set-up that labels, annotations or counted names of nodes show, by pool and in the order of the table."""
    seen: dict[tuple[str, str], tuple[int, dict[str, None]]] = {}
    for node in nodes:
        pool = pool_of(node)
        for setup in _table().setups:
            evidence = list(_evidence(setup, node))
            if evidence:
                count, told = seen.setdefault((pool, setup.how), (0, {}))
                told.update(dict.fromkeys(evidence))
                seen[pool, setup.how] = count + 1, told
    pools = sorted({pool for pool, _ in seen})
    return tuple(
        Sharing(pool, setup.how, count, tuple(told)[:MAX_EVIDENCE], setup.by_claim, setup.feature)
        for pool in pools
        for setup in _table().setups
        for count, told in [seen.get((pool, setup.how), (0, {}))]
        if count
    )


def _evidence(setup: _Setup, node: Node) -> Iterator[str]:
    labels = node.metadata.labels or {}
    for label, pattern in setup.labels.items():
        if label in labels and re.fullmatch(pattern, labels[label]):
            yield f"{label}={labels[label]}"
    for name in node.metadata.annotations or {} if setup.annotations else ():
        if any(re.fullmatch(pattern, name) for pattern in setup.annotations):
            yield name
    if setup.resources:
        for name, count in node.status.capacity.items():
            if is_extended_resource(name) and whole(count) and re.fullmatch(setup.resources, name):
                yield name
