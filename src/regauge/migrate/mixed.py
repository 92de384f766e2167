"""Labels that say less of a node's devices than they seem to: not every device there is what the label says. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regauge.migrate.ground import Found, Ground, value_of
from regauge.migrate.labels import LabelRule, Selected, rule_of, to_selector
from regauge.migrate.workloads import Workload, admits
from regauge.model.core import Node

MOST_TOLD = 10


@dataclass(frozen=True, slots=True)
class MixedLabel:
    """One label of one node. `devices` are those the label is about, `as_said` those of them that are what it says.

    `seen` are the values that the devices publish, with how many have each; `workloads` choose nodes by the label and may
    get a device of either sort.
    """

    node: str
    label: str
    value: str
    devices: int
    as_said: int
    seen: tuple[str, ...]
    workloads: tuple[str, ...]


def find_mixed(nodes: Iterable[Node], workloads: Iterable[Workload], ground: Ground) -> tuple[MixedLabel, ...]:
    """Every label of every node that holds for some of its published devices and not for others, or for none of them."""
    on_node: dict[str, list[Found]] = defaultdict(list)
    for found in ground.devices:
        if found.node:
            on_node[found.node].append(found)
    choosing = [(item, set(_labels_of(item))) for item in workloads]
    return tuple(
        mixed
        for node in nodes
        if node.metadata.name in on_node
        for mixed in _on_node(node, on_node[node.metadata.name], choosing, ground)
    )


def _on_node(
    node: Node, found: list[Found], choosing: list[tuple[Workload, set[str]]], ground: Ground
) -> Iterator[MixedLabel]:
    for label, value in sorted((node.metadata.labels or {}).items()):
        rule = rule_of(label)
        selected = to_selector(label, "In", (value,)) if rule is not None and rule.kind == "device" else None
        if rule is None or not isinstance(selected, Selected):
            continue
        about = [one for one in found if one.driver == selected.driver and _value(one, rule) is not None]
        fitting = sum(ground.accepts(selected.expression, one.driver, one.device) for one in about)
        if not about or fitting == len(about):
            continue
        values = Counter(str(_value(one, rule)) for one in about)
        seen = tuple(f"{count} x {text}" for text, count in sorted(values.items()))
        users = [item for item, labels in choosing if label in labels and admits(item, node)]
        titles = tuple(one.title for one in users[:MOST_TOLD])
        yield MixedLabel(node.metadata.name, label, value, len(about), fitting, seen, titles)


def _value(found: Found, rule: LabelRule) -> object:
    if rule.capacity:
        capacity = found.device.capacity.get(rule.capacity)
        return capacity.value if capacity is not None else None
    return value_of(found.driver, found.device, rule.attribute)


def _labels_of(workload: Workload) -> Iterator[str]:
    """The labels that a workload's pods choose their nodes by."""
    spec = workload.template.spec
    yield from spec.node_selector
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    for term in required.node_selector_terms if required else ():
        yield from (expression.key for expression in term.match_expressions)
