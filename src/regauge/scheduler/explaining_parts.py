"""What decides about a pod or claim from aside: classes that stand for resources, rules that taint devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regauge.inventory import taint_text
from regauge.model.core import NodeAllocatableResourceClaimStatus
from regauge.model.resource import DEVICE_CLASS_PREFIX, DeviceClass
from regauge.scheduler.extended import may_be_devices
from regauge.scheduler.nodes import NodeInfo, PodInfo
from regauge.scheduler.results import ExtendedClaim
from regauge.scheduler.shortfalls import counted
from regauge.scheduler.state import State

_NEVER_BOUND = "scheduler-claim-beside-plugin-resource"
_MOST = 8
_RULE_GATE, _TAINT_GATE, _EXTENDED_GATE = "DRADeviceTaintRules", "DRADeviceTaints", "DRAExtendedResource"


def class_notes(state: State, info: PodInfo) -> Iterable[str]:
    """Which class stands for each extended resource of the pod, and why not another one of the same name."""
    for name, count in info.requests.items():
        if not count or not may_be_devices(name):
            continue
        others = [one for one in state.devices.classes if name in _names(one)]
        if not state.rules.on(_EXTENDED_GATE):
            if others:
                yield f"{count} {name}: device class {_all(others)} would stand for it, but {_EXTENDED_GATE} is off"
            continue
        found = state.resolver.find(name)
        if found is None:
            continue
        explicit = found.spec.extended_resource_name == name
        how = "spec.extendedResourceName" if explicit else f"the name behind {DEVICE_CLASS_PREFIX}"
        rest = [one for one in others if one.metadata.name != found.metadata.name]
        lost = f"; class {_all(rest)} has the same name, and of several the newest counts, then the first by name"
        yield (
            f"{count} {name}: device class {found.metadata.name} stands for it ({how}), on nodes where no device plugin "
            f"serves it{lost if rest else ''}"
        )


def _names(class_: DeviceClass) -> tuple[str, str]:
    return class_.spec.extended_resource_name or "", DEVICE_CLASS_PREFIX + class_.metadata.name


def _all(classes: Sequence[DeviceClass]) -> str:
    return ", ".join(one.metadata.name for one in classes)


def never_bound_notes(state: State, info: PodInfo, nodes: Iterable[NodeInfo]) -> Iterable[str]:
    """That the pod is placed again and again and never bound: it has claims, and a class stands for a resource that one of
    the nodes that fit serves by a device plugin."""
    if _NEVER_BOUND not in state.rules.quirks or not info.pod.spec.resource_claims:
        return
    fitting = list(nodes)
    for name in counted(info):
        served = [node.name for node in fitting if node.allocatable.get(name)]
        if served and state.rules.on(_EXTENDED_GATE) and state.resolver.find(name) is not None:
            yield (
                f"on {', '.join(served[:_MOST])} it is never bound: it has claims, a device plugin serves {name} there, and "
                f"a device class stands for {name}, too, so that an empty claim is made for it and refused "
                f"({_NEVER_BOUND}, not fixed yet)"
            )


def container_notes(node: str, special: ExtendedClaim | None) -> Iterable[str]:
    """Which container gets which resource from which request of the claim that is made for the pod."""
    if special is None:
        return
    counts = {one.name: one.exactly.count if one.exactly else 0 for one in special.requests}
    for one in special.mappings:
        shared = sum(other.request_name == one.request_name for other in special.mappings) > 1
        with_others = ", which other containers use at another time" if shared else ""
        yield (
            f"on {node} container {one.container_name} gets its {one.resource_name} from request {one.request_name} "
            f"({counts.get(one.request_name, 0)}) of a claim that is made for the pod{with_others}"
        )


def mapped_details(statuses: Iterable[NodeAllocatableResourceClaimStatus]) -> tuple[str, ...]:
    """What devices take of the node's own resources."""
    return tuple(
        f"claim {one.resource_claim_name} takes of the node's own {', '.join(_taken(one))} for "
        f"{', '.join(one.containers) or 'the pod (no container uses it)'}"
        for one in statuses
    )


def _taken(status: NodeAllocatableResourceClaimStatus) -> Iterable[str]:
    yield from (f"{name} {value}" for name, value in sorted(status.resources.items()))
    yield from (f"{one.name} {one.quantity}" for one in status.mapping)
    for one in status.overhead:
        parts = [f"{one.per_pod}"] if one.per_pod is not None else []
        if one.per_container is not None:
            parts.append(f"{len(status.containers)} times {one.per_container}")
        yield f"{one.name} {' and '.join(parts)} (overhead)"


def taint_rule_notes(state: State) -> Iterable[str]:
    """What DeviceTaintRules add to devices, or that they are not heeded."""
    for rule in state.devices.taint_rules:
        text = f"DeviceTaintRule {rule.metadata.name} ({taint_text(rule.spec.taint)})"
        off = [gate for gate in (_RULE_GATE, _TAINT_GATE) if not state.rules.on(gate)]
        if off:
            yield f"{text} is not heeded: {' and '.join(off)} is off"
        else:
            yield f"{text} taints {state.devices.tainted_by(rule)} devices"
