"""DaemonSets: one pod on every node that fits. Source: pkg/controller/daemon of 1.36."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regauge.base import Clock
from regauge.cluster.controllers import common
from regauge.cluster.controllers.common import WorkloadApi
from regauge.cluster.port import Key
from regauge.kube import ApiError, WatchEvent
from regauge.model import Kind, Object, matches_node, view
from regauge.model.core import Node, PodSpec, Taint, Toleration
from regauge.model.kinds import DAEMON_SET, NODE, POD

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class DaemonSetController:
    """One DaemonSet a key. Keeps nothing."""

    name = "daemonset-controller"
    watches = (DAEMON_SET, NODE, POD)

    def __init__(self, api: WorkloadApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def keys(self, kind: Kind, event: WatchEvent) -> Iterable[Key]:
        if kind != NODE:
            return common.keys_of(DAEMON_SET, kind, event)
        found = (item["metadata"] for item in self._api.list(DAEMON_SET))
        return [(metadata["namespace"], metadata["name"]) for metadata in found]

    def reconcile(self, key: Key) -> float | None:
        set_ = self._api.find(DAEMON_SET, key[1], key[0])
        if set_ is None:
            return None
        failure: ApiError | None = None
        if not common.is_terminating(set_):
            try:
                self._manage(set_)
                self._update(set_)
            except ApiError as error:
                failure = error
        again_s = self._tell(set_)
        if failure is not None:
            raise failure
        return again_s

    def _by_node(self, set_: Object) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for pod in common.owned_pods(self._api, set_):
            found.setdefault(_node_of(pod), []).append(pod)
        return found

    def _fitting(self, set_: Object) -> dict[str, tuple[bool, bool]]:
        """Whether a pod of the set should be made, and may stay, on each node."""
        spec = view(self._template_spec(set_), PodSpec)
        return {node["metadata"]["name"]: fits(spec, view(node, Node)) for node in self._api.list(NODE)}

    def _template_spec(self, set_: Object) -> dict[str, Any]:
        spec = dict(set_["spec"]["template"].get("spec") or {})
        keys = [*_ALWAYS_TOLERATED, *([_HOST_NETWORK] if spec.get("hostNetwork") else [])]
        always = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in keys]
        have = list(spec.get("tolerations") or [])
        return {**spec, "tolerations": have + [item for item in always if item not in have]}

    def _manage(self, set_: Object) -> None:
        by_node = self._by_node(set_)
        fitting = self._fitting(set_)
        for node, (wanted, may_stay) in fitting.items():
            pods = [pod for pod in by_node.get(node, []) if not common.is_terminating(pod)]
            failed = [pod for pod in pods if common.is_finished(pod)]
            living = [pod for pod in pods if not common.is_finished(pod)]
            if not may_stay:
                for pod in living:
                    common.delete_pod(self._api, set_, pod)
                continue
            for pod in failed:
                text = (
                    f"Found failed daemon pod {pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}"
                )
                self._api.event(set_, "Warning", "FailedDaemonPod", f"{text}, will try to kill it")
                common.delete_pod(self._api, set_, pod)
            for pod in sorted(living, key=lambda item: item["metadata"]["creationTimestamp"])[1:]:
                common.delete_pod(self._api, set_, pod)
            if wanted and not by_node.get(node):
                self._create(set_, node)
        for node, pods in by_node.items():
            if node not in fitting:
                for pod in pods:
                    common.delete_pod(self._api, set_, pod)

    def _create(self, set_: Object, node: str) -> None:
        pod = common.pod_from(set_["spec"]["template"], DAEMON_SET, set_)
        metadata = pod["metadata"]
        metadata["generateName"] = f"{set_['metadata']['name']}-"
        labels = {HASH_LABEL: self._hash(set_), GENERATION_LABEL: str(set_["metadata"].get("generation", 1))}
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        pod["spec"] = pinned(self._template_spec(set_), node)
        common.create_pod(self._api, set_, pod)

    def _hash(self, set_: Object) -> str:
        return common.template_hash(set_["spec"]["template"])

    def _update(self, set_: Object) -> None:
        """Old pods go as far as maxUnavailable allows; the next look makes new ones in their place."""
        strategy = set_["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "RollingUpdate":
            return
        hash_, now_s = self._hash(set_), self._clock.now_s()
        by_node = self._by_node(set_)
        wanted = [node for node, (make, _) in self._fitting(set_).items() if make]
        room = common.scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(wanted), up=True)
        old: list[tuple[bool, Object]] = []
        unwell = 0
        for node in wanted:
            pods = [pod for pod in by_node.get(node, []) if not common.is_terminating(pod)]
            well = any(common.available_in_s(pod, 0, now_s) == 0 for pod in pods)
            unwell += not well
            old += [(well, pod) for pod in pods if not _is_updated(pod, set_, hash_)]
        for ready, pod in sorted(old, key=lambda item: (item[0], item[1]["metadata"]["name"])):
            if ready:
                if unwell >= room:
                    return
                unwell += 1
            common.delete_pod(self._api, set_, pod)

    def _tell(self, set_: Object) -> float | None:
        hash_, now_s = self._hash(set_), self._clock.now_s()
        counts = dict.fromkeys(("current", "misscheduled", "desired", "ready", "updated", "available"), 0)
        delays: list[float] = []
        by_node = self._by_node(set_)
        for node, (wanted, _) in self._fitting(set_).items():
            pods = sorted(by_node.get(node, []), key=lambda item: item["metadata"]["creationTimestamp"])
            counts["desired"] += wanted
            if not wanted:
                counts["misscheduled"] += bool(pods)
            elif pods:
                counts["current"] += 1
                delay = common.available_in_s(pods[0], set_["spec"].get("minReadySeconds") or 0, now_s)
                counts["ready"] += delay is not None
                counts["available"] += delay == 0
                counts["updated"] += _is_updated(pods[0], set_, hash_)
                delays += [delay] if delay else []
        status = {
            "currentNumberScheduled": counts["current"],
            "numberMisscheduled": counts["misscheduled"],
            "desiredNumberScheduled": counts["desired"],
            "numberReady": counts["ready"],
            "observedGeneration": set_["metadata"].get("generation", 0),
            "updatedNumberScheduled": counts["updated"],
            "numberAvailable": counts["available"],
            "numberUnavailable": counts["desired"] - counts["available"],
        }
        kept = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        common.write_status(self._api, DAEMON_SET, set_, common.without_zero(status, *kept))
        return common.earliest(*delays)


def _is_updated(pod: Object, set_: Object, hash_: str) -> bool:
    """Whether a pod is of the present template: by its hash, or by the generation that old DaemonSets counted."""
    labels = pod["metadata"].get("labels") or {}
    generation = (set_["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION)
    return labels.get(HASH_LABEL) == hash_ or (generation is not None and labels.get(GENERATION_LABEL) == generation)


def _node_of(pod: Object) -> str:
    """Where a pod runs, or is meant to run by the affinity that this controller gave it."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    terms = _required(spec).get("nodeSelectorTerms") or []
    fields = [field for term in terms for field in term.get("matchFields") or []]
    values = [field["values"] for field in fields if field.get("key") == "metadata.name" and field.get("values")]
    return str(values[0][0]) if values else ""


def _required(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}


def pinned(spec: dict[str, Any], node: str) -> dict[str, Any]:
    """The spec with an affinity to one node by name, in place of required terms of its own."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def fits(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Whether a pod should be made on the node, and whether one that is there may stay."""
    labels = node.metadata.labels or {}
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False, False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is not None and affinity.required is not None and not matches_node(affinity.required, node):
        return False, False
    taints = list(node.spec.taints)
    if node.spec.unschedulable:
        taints.append(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"))
    bad = [taint for taint in taints if not any(_tolerates(item, taint) for item in spec.tolerations)]
    wanted = not any(taint.effect in ("NoSchedule", "NoExecute") for taint in bad)
    return wanted, not any(taint.effect == "NoExecute" for taint in bad)


def _tolerates(item: Toleration, taint: Taint) -> bool:
    if item.effect and item.effect != taint.effect:
        return False
    if item.key and item.key != taint.key:
        return False
    if item.operator == "Exists":
        return True
    return bool(item.key) and item.operator in ("", "Equal") and item.value == taint.value
