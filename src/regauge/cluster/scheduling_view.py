"""The scheduler's picture of the cluster, kept up to date from watch events, and which waiting pods a change wakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from regauge.cluster.port import Key
from regauge.cluster.scheduling_queue import SchedulingQueue, Waiting
from regauge.cluster.scheduling_wakes import (
    DYNAMIC_RESOURCES,
    Wakes,
    always,
    class_wakes,
    group_wakes,
    node_wakes,
    own_wakes,
    placed_pod_wakes,
)
from regauge.kube import WatchEvent
from regauge.model import Kind, Object, view
from regauge.model.core import Node, Pod
from regauge.model.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from regauge.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from regauge.model.scheduling import PodGroup
from regauge.scheduler import SURROUNDING_KINDS, State, group_key, held, is_terminal, pod_claims

WATCHED = (*SURROUNDING_KINDS, NODE, DEVICE_CLASS, RESOURCE_SLICE, DEVICE_TAINT_RULE, POD_GROUP, RESOURCE_CLAIM, POD)
DEFAULT_SCHEDULER = "default-scheduler"


class SchedulerView:
    """`state` follows the events; pods that this scheduler is responsible for go through `queue`.

    `abandon` is called when a pod goes while its binding may be under way.
    """

    def __init__(self, state: State, queue: SchedulingQueue, abandon: Callable[[Key], None]) -> None:
        self.state = state
        self._queue = queue
        self._abandon = abandon
        self._pods: dict[Key, Pod] = {}
        self._users: dict[Key, set[Key]] = {}
        self._now_s = 0.0

    def pod(self, key: Key) -> Pod | None:
        """The pod as last seen."""
        return self._pods.get(key)

    def holder(self, waiting: Waiting) -> str:
        """The plugin that keeps a pod from being tried, or ""."""
        pod = self._pods.get(waiting.key)
        found = held(pod, self.state) if pod is not None else None
        return found.plugin if found else ""

    def observe(self, kind: Kind, event: WatchEvent, now_s: float) -> None:
        """Take one change in."""
        self._now_s = now_s
        object_, gone = event.object, event.type == "DELETED"
        match kind:
            case _ if kind == POD:
                self._pod_changed(view(object_, Pod), gone)
            case _ if kind == RESOURCE_CLAIM:
                self._claim_changed(view(object_, ResourceClaim), gone)
            case _ if kind == NODE:
                self._node_changed(view(object_, Node), gone)
            case _:
                self._other_changed(kind, object_, gone)

    def freed(self, now_s: float) -> None:
        """A pod that was assumed on a node is not there after all."""
        self._now_s = now_s
        self._wake(placed_pod_wakes(Pod(), None))

    def _wake(self, wakes: Wakes, keys: Iterable[Key] | None = None) -> None:
        if not wakes:
            return

        def concerns(waiting: Waiting) -> bool:
            pod = self._pods.get(waiting.key)
            return pod is not None and any(plugin in wakes and wakes[plugin](pod) for plugin in waiting.plugins)

        self._queue.wake(concerns, self._now_s, self.holder, keys)

    # -- pods

    def _pod_changed(self, new: Pod, gone: bool) -> None:
        key = (new.metadata.namespace, new.metadata.name)
        old = self._pods.get(key)
        if old is not None and (gone or old.metadata.uid != new.metadata.uid):
            self._pod_gone(key, old)
            old = None
        if gone:
            return
        self._pods[key] = new
        for name in _claim_names(new):
            self._users.setdefault((key[0], name), set()).add(key)
        if new.spec.node_name or is_terminal(new):
            self._placed(key, old, new)
        else:
            self._waits(key, old, new)
        group = group_key(new)
        if old is None and group is not None:
            self._wake(group_wakes(group))

    def _pod_gone(self, key: Key, old: Pod) -> None:
        del self._pods[key]
        for name in _claim_names(old):
            self._users.get((key[0], name), set()).discard(key)
        was_assumed = self.state.is_assumed(key)
        self._queue.drop(key)
        self._abandon(key)
        self.state.drop_pod(key)
        if was_assumed or (old.spec.node_name and not is_terminal(old)):
            self._wake(placed_pod_wakes(old, None))

    def _placed(self, key: Key, old: Pod | None, new: Pod) -> None:
        self._queue.drop(key)
        self.state.put_pod(new)
        was_there = old is not None and bool(old.spec.node_name) and not is_terminal(old)
        if is_terminal(new):
            if was_there:
                self._wake(placed_pod_wakes(old, None))
        else:
            self._wake(placed_pod_wakes(old if was_there else None, new))

    def _waits(self, key: Key, old: Pod | None, new: Pod) -> None:
        self.state.put_pod(new)
        if new.spec.scheduler_name != DEFAULT_SCHEDULER:
            return
        if old is None:
            found = held(new, self.state)
            priority = new.spec.priority or 0
            self._queue.add(key, new.metadata.uid, priority, self._now_s, found.plugin if found else "")
        else:
            self._wake(own_wakes(old, new), (key,))

    # -- the rest

    def _claim_changed(self, new: ResourceClaim, gone: bool) -> None:
        key = (new.metadata.namespace, new.metadata.name)
        old = self.state.claims.get(key)
        if gone:
            self.state.drop_claim(key)
            if old is not None and old.status.allocation is not None:
                self._wake({DYNAMIC_RESOURCES: always})
            return
        self.state.put_claim(new)
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            self._wake({DYNAMIC_RESOURCES: self._claims_are_there})
        elif old is None or old.metadata.uid != new.metadata.uid or old.status != new.status:
            self._wake({DYNAMIC_RESOURCES: self._claims_are_there}, tuple(self._users.get(key, ())))

    def _claims_are_there(self, pod: Pod) -> bool:
        return not isinstance(pod_claims(self.state, pod), str)

    def _node_changed(self, new: Node, gone: bool) -> None:
        known = self.state.nodes.get(new.metadata.name)
        old = known.node if known is not None else None
        if gone:
            self.state.drop_node(new.metadata.name)
        else:
            self.state.put_node(new)
        self._wake(node_wakes(old, None if gone else new))

    def _other_changed(self, kind: Kind, object_: Object, gone: bool) -> None:
        name, namespace = object_["metadata"]["name"], object_["metadata"].get("namespace", "")
        if kind in SURROUNDING_KINDS:
            if gone:
                self.state.around.drop(kind, namespace, name)
            else:
                self.state.around.put(kind, object_)
            if kind == NAMESPACE:
                self._wake({"InterPodAffinity": always})
        elif kind == POD_GROUP:
            self._group_changed(view(object_, PodGroup), gone)
        elif kind == DEVICE_CLASS:
            self._class_changed(view(object_, DeviceClass), gone)
        elif kind == RESOURCE_SLICE:
            if gone:
                self.state.drop_slice(name)
            else:
                self.state.put_slice(view(object_, ResourceSlice))
                self._wake({DYNAMIC_RESOURCES: always})
        elif kind == DEVICE_TAINT_RULE:
            if gone:
                self.state.drop_taint_rule(name)
            else:
                self.state.put_taint_rule(view(object_, DeviceTaintRule))
            self._wake({DYNAMIC_RESOURCES: always})

    def _group_changed(self, new: PodGroup, gone: bool) -> None:
        key = (new.metadata.namespace, new.metadata.name)
        old = self.state.groups.get(key)
        if gone:
            self.state.drop_group(key)
            return
        self.state.put_group(new)
        if old is None or old.metadata.uid != new.metadata.uid:
            self._wake(group_wakes(key))

    def _class_changed(self, new: DeviceClass, gone: bool) -> None:
        old = self.state.devices.find_class(new.metadata.name)
        if gone:
            self.state.drop_class(new.metadata.name)
            return
        self.state.put_class(new)
        self._wake(class_wakes(old, new))


def _claim_names(pod: Pod) -> Iterable[str]:
    generated = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or generated.get(entry.name)
        if name:
            yield name
