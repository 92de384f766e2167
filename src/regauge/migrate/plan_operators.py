"""Operators that own the DaemonSets of a stack: what they allow, from data with sources. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

from regauge.model import Document, split_api_version


class Operator(msgspec.Struct, frozen=True):
    """An operator, known by the kind of the object that owns its DaemonSets. `granularity` is node, pool or cluster."""

    name: str
    owner: str
    group: str
    granularity: str
    why: str
    instead: str
    source: str


class _Table(msgspec.Struct):
    operators: tuple[Operator, ...]


@cache
def operators() -> tuple[Operator, ...]:
    """The packaged table."""
    data = files("regauge.migrate").joinpath("data/operators.json").read_bytes()
    return msgspec.json.decode(data, type=_Table).operators


def operator_of(daemon_set: Document) -> Operator | None:
    """The operator that a DaemonSet belongs to; None where none is known to own it."""
    for group, kind in _owners(daemon_set):
        for operator in operators():
            if (operator.group, operator.owner) == (group, kind):
                return operator
    return None


def _owners(daemon_set: Document) -> Iterator[tuple[str, str]]:
    for owner in daemon_set.object["metadata"].get("ownerReferences") or ():
        if isinstance(owner, dict):
            yield split_api_version(str(owner.get("apiVersion", "")))[0], str(owner.get("kind", ""))


def owned_why(daemon_set: Document) -> str:
    """Why nodes cannot be switched by changing a DaemonSet; empty text where they can."""
    operator = operator_of(daemon_set)
    if operator is None or operator.granularity == "node":
        return ""
    title = f"DaemonSet {daemon_set.namespace}/{daemon_set.name} belongs to the {operator.name}"
    return f"{title}: {operator.why} ({operator.source}); {operator.instead}"
