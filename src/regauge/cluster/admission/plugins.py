"""Admission that changes or refuses new pods: priority, runtime class, tolerations that every pod gets.

Source: plugin/pkg/admission/{priority,runtimeclass,defaulttolerationseconds} of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.cluster.admission.classes import SYSTEM_PRIORITIES
from regauge.cluster.refusals import forbidden
from regauge.cluster.store import Store
from regauge.kube import Forbidden
from regauge.model import Kind, Object, Quantity
from regauge.model.kinds import POD, PRIORITY_CLASS, RUNTIME_CLASS

_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NOT_READY_SECONDS = 300


def pods_only(kind: Kind) -> bool:
    return kind.group == "" and kind.plural == "pods"


def default_tolerations(_store: Store, kind: Kind, object_: Object) -> Object:
    """Every pod tolerates a node that is not ready or not reachable for 300 s, unless it says otherwise."""
    if not pods_only(kind):
        return object_
    spec = dict(object_.get("spec") or {})
    tolerations = list(spec.get("tolerations") or [])
    for key in _NOT_READY:
        if not any(_tolerates(item, key) for item in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _NOT_READY_SECONDS,
                }
            )
    return {**object_, "spec": {**spec, "tolerations": tolerations}}


def _tolerates(item: Mapping[str, Any], key: str) -> bool:
    return item.get("key") in (None, "", key) and item.get("effect") in (None, "", "NoExecute")


def priority(store: Store, kind: Kind, object_: Object) -> Object:
    """The pod's priority and preemption policy from its class, or from the class that is the default."""
    if not pods_only(kind):
        return object_
    spec = dict(object_.get("spec") or {})
    name = spec.get("priorityClassName") or ""
    found = priority_of_class(store, name)
    if found is None:
        raise _refused(object_, f"no PriorityClass with name {name} was found")
    class_, value, policy = found
    if class_:
        spec["priorityClassName"] = class_
    if spec.get("priority") is not None and spec["priority"] != value:
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission"
        )
        raise _refused(object_, f"{text} controller computed {value} from the given PriorityClass name")
    spec["priority"] = value
    if not spec.get("preemptionPolicy"):
        spec["preemptionPolicy"] = policy
    return {**object_, "spec": spec}


def priority_of_class(store: Store, name: str) -> tuple[str, int, str] | None:
    """The name, value and preemption policy of a class, with "" of the default one; None when there is no such class."""
    policy = "PreemptLowerPriority"
    if name in SYSTEM_PRIORITIES:
        return name, SYSTEM_PRIORITIES[name], policy
    found = store.find(PRIORITY_CLASS, ("", name)) if name else _default_class(store)
    if found is None:
        return None if name else ("", 0, policy)
    return found["metadata"]["name"], found.get("value", 0), found.get("preemptionPolicy") or policy


def _default_class(store: Store) -> Object | None:
    """Of several default classes the one with the lowest value holds."""
    defaults = [item for item in store.list(PRIORITY_CLASS) if item.get("globalDefault")]
    return min(defaults, key=lambda item: item.get("value", 0), default=None)


def runtime_class(store: Store, kind: Kind, object_: Object) -> Object:
    """The overhead, node selector and tolerations of the pod's RuntimeClass. A class that is missing refuses the pod."""
    if not pods_only(kind):
        return object_
    spec = dict(object_.get("spec") or {})
    name = spec.get("runtimeClassName")
    found = None
    if name is not None:
        found = store.find(RUNTIME_CLASS, ("", name))
        if found is None:
            raise _refused(object_, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and not overhead:
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _refused(object_, text)
    if spec.get("overhead") and _amounts(spec["overhead"]) != _amounts(overhead or {}):
        text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise _refused(object_, text)
    if overhead:
        spec["overhead"] = dict(overhead)
    _schedule(object_, spec, (found or {}).get("scheduling") or {})
    return {**object_, "spec": spec}


def _amounts(resources: Mapping[str, Any]) -> dict[str, Quantity]:
    return {name: Quantity.from_document(value) for name, value in resources.items()}


def _schedule(pod: Object, spec: dict[str, Any], scheduling: Mapping[str, Any]) -> None:
    wanted = scheduling.get("nodeSelector") or {}
    have = dict(spec.get("nodeSelector") or {})
    for key, value in sorted(wanted.items()):
        if key in have and have[key] != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise _refused(pod, f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {have[key]}")
        have[key] = value
    if have:
        spec["nodeSelector"] = have
    added = [item for item in scheduling.get("tolerations") or [] if item not in (spec.get("tolerations") or [])]
    if added:
        spec["tolerations"] = [*(spec.get("tolerations") or []), *added]


def _refused(pod: Object, why: str) -> Forbidden:
    metadata = pod["metadata"]
    return forbidden(POD, metadata.get("name") or metadata.get("generateName") or "Unknown", why)
