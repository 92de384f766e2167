"""Which stack a flavor is rendered for: its rules in order, each with what it was found to be. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from regauge.base import InputError
from regauge.inventory import pool_of, whole
from regauge.migrate.flavors import Choice, Flavor, version_holds
from regauge.migrate.ground import Ground
from regauge.migrate.workloads import AskStack
from regauge.model.core import Node


@dataclass(frozen=True, slots=True)
class Chosen:
    """The stack, and why: the rules that were tried, in words."""

    stack: AskStack
    why: str


def choose_stack(flavor: Flavor, node_selector: Mapping[str, str], ground: Ground, forced: AskStack | None) -> Chosen:
    """The stack for a flavor on pods with a node selector. Raises `InputError` when the flavor is not written for it."""
    if forced is not None:
        if forced not in flavor.stacks:
            known = ", ".join(stack.value for stack in flavor.stacks)
            raise InputError(
                f"the flavor {flavor.name} is not written for {forced.value}", fix=f"choose one of {known}, or write it"
            )
        return Chosen(forced, "as asked")
    tried: list[str] = []
    for number, rule in enumerate(flavor.spec.choose, start=1):
        stack = AskStack(rule.stack)
        failing = _failing(flavor, rule, stack, node_selector, ground)
        if failing is None:
            return Chosen(stack, "; ".join((*tried, f"rule {number} holds ({_said(rule)})")))
        tried.append(f"rule {number} does not hold ({failing})")
    default = AskStack(flavor.spec.default) if flavor.spec.default else flavor.stacks[0]
    return Chosen(default, "; ".join((*tried, "the default")))


def _said(rule: Choice) -> str:
    parts = [f"Kubernetes {rule.kube_version}"] if rule.kube_version else []
    parts += [f"pools {', '.join(rule.pools)}"] if rule.pools else []
    if rule.served is not None:
        parts.append(f"{'served' if rule.served else 'not served'} there")
    return ", ".join(parts) or "without condition"


def _failing(
    flavor: Flavor, rule: Choice, stack: AskStack, node_selector: Mapping[str, str], ground: Ground
) -> str | None:
    """The first condition of a rule that does not hold, in words; None when all hold."""
    if rule.kube_version and not version_holds(rule.kube_version, ground.rules.minor):
        return f"Kubernetes {ground.rules.minor} is not {rule.kube_version}"
    if not rule.pools and rule.served is None:
        return None
    if ground.snapshot is None:
        return "no estate was given to look at its pools"
    wanted = {**_node_selector(flavor, stack), **node_selector}
    nodes = [node for node in ground.snapshot.nodes if _admits(node, wanted)]
    if rule.pools:
        outside = sorted({pool_of(node) for node in nodes} - set(rule.pools))
        if not nodes:
            return "no node is admitted"
        if outside:
            return f"it may run in {', '.join(outside)} too"
    if rule.served is not None and _is_served(flavor, stack, nodes, ground) is not rule.served:
        return f"{stack.value} {'does not serve' if rule.served else 'serves'} it on the nodes where it may run"
    return None


def _node_selector(flavor: Flavor, stack: AskStack) -> dict[str, str]:
    form = flavor.spec.dra if stack is AskStack.CLAIM else flavor.counted(stack)
    return form.node_selector if form is not None else {}


def _admits(node: Node, wanted: Mapping[str, str]) -> bool:
    labels = node.metadata.labels or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _is_served(flavor: Flavor, stack: AskStack, nodes: list[Node], ground: Ground) -> bool:
    """Whether some node has what one unit of the flavor is, taken or not."""
    if stack is AskStack.CLAIM and flavor.spec.dra is not None:
        held = [
            (
                request.count,
                Counter(item.node for item in ground.matching(request.device_class_name, request.selectors)),
            )
            for request in flavor.spec.dra.requests
        ]
        return any(all(by_node[node.metadata.name] >= count for count, by_node in held) for node in nodes)
    form = flavor.counted(stack)
    if form is None:
        return False
    if stack is AskStack.BRIDGE:
        return all(ground.choose(item.name).target is not None for item in form.resources)
    return any(
        all(whole(node.status.capacity.get(item.name, 0)) >= item.count for item in form.resources) for node in nodes
    )
