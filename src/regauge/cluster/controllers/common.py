"""What the workload controllers share: owners, pods from templates, readiness, conditions, the hash of a template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from regauge.base import canonical_json
from regauge.cluster.deletion import seconds_of
from regauge.cluster.port import ClusterApi, Key
from regauge.kube import ApiError, NotFound, WatchEvent
from regauge.model import Kind, Object, find_kind
from regauge.model.core import ENDED_PHASES
from regauge.model.kinds import POD

POD_TEMPLATE_HASH = "pod-template-hash"
_SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FNV_START, _FNV_PRIME = 2166136261, 16777619


class WorkloadApi(ClusterApi, Protocol):
    """`ClusterApi` with the look-up that every controller of pods lives by."""

    def owned(self, kind: Kind, uid: str) -> tuple[Object, ...]:
        """The objects of a kind that the object with this uid controls, sorted by namespace and name."""


def template_hash(template: Mapping[str, Any]) -> str:
    """A short name for a pod template: FNV-1a over its canonical JSON, in letters that spell nothing.

    Upstream hashes a dump of Go values, which cannot be had here; the names differ, their use does not.
    """
    return short_hash(canonical_json(template))


def short_hash(text: bytes | str) -> str:
    """FNV-1a (32 bits) of a text in letters that spell nothing."""
    value = _FNV_START
    for byte in text.encode() if isinstance(text, str) else text:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_SAFE_LETTERS[ord(digit) % len(_SAFE_LETTERS)] for digit in str(value))


def controller_of(object_: Object) -> Mapping[str, Any] | None:
    """The owner reference with controller true, if any."""
    owners = object_["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def owns(owner: Object, object_: Object) -> bool:
    """Whether the one object controls the other."""
    found = controller_of(object_)
    return found is not None and found.get("uid") == owner["metadata"]["uid"]


def owner_reference(kind: Kind, owner: Object) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def keys_of(own: Kind, kind: Kind, event: WatchEvent) -> Iterable[Key]:
    """The key of the controller's own object, or of the one that controls what changed."""
    metadata = event.object["metadata"]
    if kind == own:
        return ((metadata.get("namespace", ""), metadata["name"]),)
    owner = controller_of(event.object)
    if owner is None or find_kind(owner.get("apiVersion", ""), owner.get("kind", "")) != own:
        return ()
    return ((metadata.get("namespace", ""), owner["name"]),)


def owned_pods(api: WorkloadApi, owner: Object) -> list[Object]:
    """All pods that the object controls, those that end too."""
    return list(api.owned(POD, owner["metadata"]["uid"]))


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_finished(pod: Object) -> bool:
    return phase(pod) in ENDED_PHASES


def is_terminating(object_: Object) -> bool:
    return bool(object_["metadata"].get("deletionTimestamp"))


def is_active(pod: Object) -> bool:
    return not is_finished(pod) and not is_terminating(pod)


def condition(object_: Object, type_: str) -> Mapping[str, Any] | None:
    conditions = (object_.get("status") or {}).get("conditions") or []
    return next((item for item in conditions if item.get("type") == type_), None)


def is_ready(pod: Object) -> bool:
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def available_in_s(pod: Object, min_ready_s: int, now_s: float) -> float | None:
    """Seconds until a pod counts as available: 0 when it does now, None when it is not ready."""
    found = condition(pod, "Ready")
    if found is None or found.get("status") != "True":
        return None
    if not min_ready_s:
        return 0.0
    since = found.get("lastTransitionTime")
    ready_s = seconds_of(since) if since else now_s
    return max(0.0, ready_s + min_ready_s - now_s)


def pod_from(template: Mapping[str, Any], kind: Kind, owner: Object) -> dict[str, Any]:
    """A pod as a template makes it, without a name, owned by `owner`."""
    metadata = template.get("metadata") or {}
    copied = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}
    return {
        "metadata": {
            **copied,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "spec": dict(template.get("spec") or {}),
    }


def create_pod(api: ClusterApi, owner: Object, pod: Object) -> Object:
    """Create a pod and tell it as an event of its owner. A refusal is told too, and raised."""
    try:
        made = api.create(POD, pod, owner["metadata"]["namespace"])
    except ApiError as error:
        if not _namespace_ends(error):
            api.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
        raise
    api.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
    return made


def delete_pod(api: ClusterApi, owner: Object, pod: Object) -> None:
    """Delete a pod and tell it as an event of its owner. One that is gone already is fine."""
    name = pod["metadata"]["name"]
    try:
        api.delete(POD, name, pod["metadata"]["namespace"], uid=pod["metadata"]["uid"])
    except NotFound:
        return
    api.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")


def _namespace_ends(error: ApiError) -> bool:
    causes = (error.status.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def write_status(api: ClusterApi, kind: Kind, object_: Object, status: Mapping[str, Any]) -> bool:
    """Write a status when it differs from the stored one. Returns whether it did."""
    current = api.find(kind, object_["metadata"]["name"], object_["metadata"]["namespace"])
    if current is None or (current.get("status") or {}) == status:
        return False
    api.update(kind, {**current, "status": dict(status)}, subresource="status")
    return True


def without_zero(status: Mapping[str, Any], *keep: str) -> dict[str, Any]:
    """A status as Go writes it: counts that are zero and lists that are empty are left out, `keep` stay."""
    return {key: value for key, value in status.items() if key in keep or value not in (0, None, [], "")}


def with_condition(conditions: Iterable[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions with `new` in place of its type. The transition time stays while the status does.

    A condition that says the same as before is kept as it is.
    """
    result = [dict(item) for item in conditions]
    for index, item in enumerate(result):
        if item.get("type") != new["type"]:
            continue
        if item.get("status") == new["status"] and item.get("reason") == new.get("reason"):
            return result
        kept = item.get("lastTransitionTime") if item.get("status") == new["status"] else None
        del result[index]
        return [*result, {**new, **({"lastTransitionTime": kept} if kept else {})}]
    return [*result, dict(new)]


def without_condition(conditions: Iterable[Mapping[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [dict(item) for item in conditions if item.get("type") != type_]


def first_to_go(pods: Iterable[Object]) -> list[Object]:
    """Pods in the order in which they are given up: unassigned, pending, not ready, cheap, young ones first."""

    def rank(pod: Object) -> tuple[Any, ...]:
        annotations = pod["metadata"].get("annotations") or {}
        cost = annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
        return (
            bool((pod.get("spec") or {}).get("nodeName")),
            {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
            is_ready(pod),
            int(cost) if cost.lstrip("-").isdigit() else 0,
        )

    youngest_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
    return sorted(youngest_first, key=rank)


def scaled(value: int | str | None, of: int, *, up: bool) -> int:
    """A number, or a percentage of `of` rounded up or down, as maxSurge and maxUnavailable give it."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    text = value.strip().removesuffix("%")
    if not text.isdigit():
        return 0
    product = int(text) * of
    return -(-product // 100) if up else product // 100


def earliest(*seconds: float | None) -> float | None:
    """The smallest of the delays that are given."""
    given = [item for item in seconds if item is not None]
    return min(given) if given else None
