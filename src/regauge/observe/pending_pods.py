"""Why pods wait that ask for devices, over both stacks, in the words of `Reason`. Pure.

A pod that counts devices has no claim to ask: it is held against what its nodes have left. Where a device class serves the
counted name, there is no claim before the pod is placed either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from regauge.audit import Ground
from regauge.inventory import Stack, claim_names, is_extended_resource, pod_ask
from regauge.model.core import Pod
from regauge.model.resource import DEVICE_CLASS_PREFIX, DeviceClass
from regauge.observe.correlation import Holding
from regauge.observe.pending import Reason, is_unschedulable
from regauge.scheduler import is_terminal


class PendingPods:
    """The pods of one moment that wait. `claims` are the reasons of claims that wait, by namespace and name."""

    def __init__(self, ground: Ground, claims: Mapping[tuple[str, str], Reason], holdings: Iterable[Holding]) -> None:
        self._ground = ground
        self._claims = claims
        self._held = {"/".join(one.key) for one in holdings if not one.admin_access}

    def reasons(self) -> Iterator[tuple[Pod, Stack, Reason]]:
        """Every pod that waits and asks for devices, once for each stack that it asks."""
        for pod in self._ground.snapshot.pods:
            if pod.spec.node_name or is_terminal(pod):
                continue
            asked = pod_ask(pod.spec.containers, pod.spec.init_containers)
            counted = {name: count for name, count in asked.items() if is_extended_resource(name)}
            by_class = {
                name: count for name, count in counted.items() if self._serving(name) and not self._on_nodes(name)
            }
            by_plugin = {name: count for name, count in counted.items() if name not in by_class}
            if by_plugin:
                yield pod, Stack.DEVICE_PLUGIN, self._reason(pod, (self._counted(*one) for one in by_plugin.items()))
            if by_class or pod.spec.resource_claims:
                yield pod, Stack.DRA, self._reason(pod, self._claimed(pod, by_class))

    def _reason(self, pod: Pod, found: Iterable[Reason | None]) -> Reason:
        """The first reason of a pod's asks; when all of them could be served it is something else."""
        if pod.spec.scheduling_gates:
            return Reason.GATED
        first = next((one for one in found if one is not None and one is not Reason.SCHEDULER), None)
        return first or (Reason.ELSEWHERE if is_unschedulable(pod) else Reason.SCHEDULER)

    # -- device plugins

    def _counted(self, name: str, count: int) -> Reason | None:
        nodes = self._on_nodes(name)
        if not nodes:
            return Reason.NO_DEVICES
        if all(allocatable < count for allocatable, _ in nodes):
            return Reason.TOO_MANY
        return Reason.IN_USE if all(free < count for _, free in nodes) else None

    def _on_nodes(self, name: str) -> list[tuple[int, int]]:
        return self._nodes.get(name, [])

    @cached_property
    def _nodes(self) -> Mapping[str, list[tuple[int, int]]]:
        """Of every counted name what nodes that have it allow, and what of it is left."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for one in self._ground.inventory.counted:
            if one.allocatable:
                found[one.resource_name].append((one.allocatable, one.allocatable - one.requested))
        return found

    # -- claims

    def _claimed(self, pod: Pod, by_class: Mapping[str, int]) -> Iterator[Reason | None]:
        names = claim_names(pod)
        made = {one.name for one in pod.status.resource_claim_statuses}
        if any(one.resource_claim_template_name and one.name not in made for one in pod.spec.resource_claims):
            yield Reason.NO_CLAIM
        for name in sorted(names):
            key = (pod.metadata.namespace, name)
            yield self._claims.get(key) if key in self._there else Reason.NO_CLAIM
        for name, count in by_class.items():
            yield self._of_class(self._serving(name), count)

    @cached_property
    def _there(self) -> frozenset[tuple[str, str]]:
        return frozenset((one.metadata.namespace, one.metadata.name) for _, one in self._ground.claims)

    def _serving(self, name: str) -> DeviceClass | None:
        return self._classes.get(name)

    @cached_property
    def _classes(self) -> Mapping[str, DeviceClass]:
        """The classes by the names under which they can be counted."""
        found = {f"{DEVICE_CLASS_PREFIX}{one.metadata.name}": one for _, one in self._ground.classes}
        found |= {
            one.spec.extended_resource_name: one for _, one in self._ground.classes if one.spec.extended_resource_name
        }
        return found

    def _of_class(self, one: DeviceClass | None, count: int) -> Reason | None:
        by_node: dict[str, list[str]] = defaultdict(list)
        for device, node in self._ground.matched(one).devices if one is not None else ():
            by_node[node].append(device)
        if not by_node:
            return Reason.NOT_SELECTED
        if all(len(devices) < count for devices in by_node.values()):
            return Reason.TOO_MANY
        free = (sum(device not in self._held for device in devices) for devices in by_node.values())
        return Reason.IN_USE if all(left < count for left in free) else None
