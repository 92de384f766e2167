"""Which change in the cluster may help which waiting pod: the plugin that refused it decides.

Pure. Source: EventsToRegister and the queueing hints of kube-scheduler's plugins in 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regauge.model.core import Node, Pod
from regauge.model.resource import DEVICE_CLASS_PREFIX, DeviceClass
from regauge.scheduler import group_key, matches_required_affinity, untolerated

Test = Callable[[Pod], bool]
Wakes = Mapping[str, Test]

DYNAMIC_RESOURCES = "DynamicResources"


def always(_pod: Pod) -> bool:
    return True


def node_wakes(old: Node | None, new: Node | None) -> Wakes:
    """A node came, changed or went."""
    if new is None:
        return {"PodTopologySpread": always}
    if old is None:
        return {
            **_where_new_is_good(None, new),
            **dict.fromkeys(
                (
                    "NodeName",
                    "NodePorts",
                    "NodeResourcesFit",
                    "PodTopologySpread",
                    "InterPodAffinity",
                    DYNAMIC_RESOURCES,
                ),
                always,
            ),
        }
    wakes: dict[str, Test] = _where_new_is_good(old, new)
    if old.status.allocatable != new.status.allocatable:
        wakes |= {"NodeResourcesFit": always, DYNAMIC_RESOURCES: always}
    if old.metadata.labels != new.metadata.labels:
        wakes |= dict.fromkeys(("PodTopologySpread", "InterPodAffinity", DYNAMIC_RESOURCES), always)
    if old.spec.taints != new.spec.taints:
        wakes["PodTopologySpread"] = always
    return wakes


def _where_new_is_good(old: Node | None, new: Node) -> dict[str, Test]:
    """Plugins that look at the node alone: they wake a pod for which the node has become good."""

    def tolerated(node: Node, pod: Pod) -> bool:
        return untolerated(node.spec.taints, pod.spec.tolerations) is None

    wakes: dict[str, Test] = {}
    if old is None or old.spec.taints != new.spec.taints:
        wakes["TaintToleration"] = lambda pod: tolerated(new, pod) and (old is None or not tolerated(old, pod))
    if old is None or old.metadata.labels != new.metadata.labels:
        wakes["NodeAffinity"] = lambda pod: (
            matches_required_affinity(pod.spec, new) and (old is None or not matches_required_affinity(pod.spec, old))
        )
    if not new.spec.unschedulable and (old is None or old.spec.unschedulable):
        wakes["NodeUnschedulable"] = always
    return wakes


def placed_pod_wakes(old: Pod | None, new: Pod | None) -> Wakes:
    """A pod that takes something of a node came (`old` None), went (`new` None) or changed."""
    if new is None:
        freed = ("NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity")
        return dict.fromkeys(freed, always)
    if old is None or old.metadata.labels != new.metadata.labels:
        return {"PodTopologySpread": always, "InterPodAffinity": always}
    return {}


def own_wakes(old: Pod, new: Pod) -> Wakes:
    """The waiting pod itself changed."""
    wakes: dict[str, Test] = {}
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        wakes[DYNAMIC_RESOURCES] = always
    if old.spec.tolerations != new.spec.tolerations:
        wakes |= {"TaintToleration": always, "NodeUnschedulable": always}
    if old.spec.scheduling_gates != new.spec.scheduling_gates:
        wakes |= {"SchedulingGates": always, DYNAMIC_RESOURCES: always}
    if old.metadata.labels != new.metadata.labels:
        wakes |= {"PodTopologySpread": always, "InterPodAffinity": always}
    if old.spec.node_selector != new.spec.node_selector or old.spec.affinity != new.spec.affinity:
        wakes["NodeAffinity"] = always
    return wakes


def class_wakes(old: DeviceClass | None, new: DeviceClass) -> Wakes:
    """A device class came or changed: it may also begin to stand for an extended resource."""
    names = {new.spec.extended_resource_name} if new.spec.extended_resource_name else set()
    if old is None:
        names.add(DEVICE_CLASS_PREFIX + new.metadata.name)
    elif old.spec.extended_resource_name == new.spec.extended_resource_name:
        return {DYNAMIC_RESOURCES: always}

    def asks(pod: Pod) -> bool:
        everyone = (*pod.spec.init_containers, *pod.spec.containers)
        return any(names & item.resources.requests.keys() for item in everyone)

    return {DYNAMIC_RESOURCES: always, "NodeResourcesFit": asks}


def group_wakes(group: tuple[str, str]) -> Wakes:
    """A pod group came, or a pod of it: its other pods may be enough now. `group`: namespace and name."""
    return {"GangScheduling": lambda pod: group_key(pod) == group}
