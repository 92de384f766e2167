"""What the resource claim controller decides, apart from what it writes. Pure.

Source: pkg/controller/resourceclaim/controller.go and dynamic-resource-allocation/resourceclaim of 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from regauge.model import Kind, Object
from regauge.model.core import ENDED_PHASES
from regauge.model.kinds import POD, POD_GROUP
from regauge.model.resource import FINALIZER, POD_CLAIM_NAME_ANNOTATION

MAX_GENERATE_NAME = 57

FindClaim = Callable[[str], Object | None]
Reference = dict[str, Any]


def is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES


def is_done(pod: Object) -> bool:
    """Whether the pod will never use its claims (again)."""
    if is_terminal(pod):
        return True
    return bool(pod["metadata"].get("deletionTimestamp")) and not (pod.get("spec") or {}).get("nodeName")


def entries(pod: Object) -> list[Object]:
    """The pod's claim entries."""
    return list((pod.get("spec") or {}).get("resourceClaims") or [])


def generated_name(pod: Object, entry: Object) -> tuple[str | None, bool]:
    """The claim's name as the pod's status tells it, and whether the status tells of the entry at all."""
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or []:
        if status.get("name") == entry["name"]:
            return status.get("resourceClaimName"), True
    return None, False


def claim_name(pod: Object, entry: Object) -> str | None:
    """The name of the claim that an entry means, as far as it is known."""
    if entry.get("resourceClaimName") is not None:
        return str(entry["resourceClaimName"])
    return generated_name(pod, entry)[0]


def special_name(pod: Object) -> str | None:
    """The name of the claim that stands for the pod's extended resources."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return status.get("resourceClaimName")


def group_name(pod: Object) -> str | None:
    """The name of the pod group that the pod belongs to."""
    return ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")


def _is_group(owner: Object) -> bool:
    return owner.get("kind") == POD_GROUP.kind and str(owner.get("apiVersion")).startswith(f"{POD_GROUP.group}/")


def owned_by(claim: Object, pod: Object) -> bool:
    """Whether the pod, or its group, controls the claim."""
    group = group_name(pod)
    return any(
        owner.get("controller")
        and (owner.get("uid") == pod["metadata"]["uid"] or (_is_group(owner) and group == owner.get("name")))
        for owner in claim["metadata"].get("ownerReferences") or []
    )


def is_for_group(entry: Object, group: Object | None) -> bool:
    """Whether an entry of a pod means a claim of the pod's group."""
    fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
    claims = ((group or {}).get("spec") or {}).get("resourceClaims") or []
    return any(all(entry.get(field) == item.get(field) for field in fields) for item in claims)


def group_user(group: Object) -> Reference:
    """The group as the user of a claim."""
    metadata = group["metadata"]
    named = {"apiGroup": POD_GROUP.group, "resource": POD_GROUP.plural}
    return {**named, "name": metadata["name"], "uid": metadata["uid"]}


def claim_names_of_group(group: Object) -> list[str]:
    """The names of a group's claims, as far as they are known."""
    told = {
        item["name"]: item.get("resourceClaimName")
        for item in (group.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    claims = (group.get("spec") or {}).get("resourceClaims") or ()
    named = (item.get("resourceClaimName") or told.get(item["name"]) for item in claims)
    return [str(name) for name in named if name]


def owner_uid(claim: Object) -> str | None:
    """The uid of the pod or pod group that the claim was made for."""
    for owner in claim["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and (_is_group(owner) or _is_pod(owner)):
            return str(owner["uid"])
    return None


def _is_pod(owner: Object) -> bool:
    return owner.get("apiVersion") == "v1" and owner.get("kind") == "Pod"


def owning_pod(claim: Object) -> tuple[str, str] | None:
    """Name and uid of the pod that controls the claim."""
    for owner in claim["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and _is_pod(owner):
            return owner["name"], owner["uid"]
    return None


def users(claim: Object) -> list[Reference]:
    return list((claim.get("status") or {}).get("reservedFor") or [])


def is_reserved_for(claim: Object, pod: Object) -> bool:
    """Whether the claim lists the pod, or its group, as a user."""
    group = group_name(pod)
    return any(
        user.get("uid") == pod["metadata"]["uid"]
        or (is_group_user(user) and group is not None and user.get("name") == group)
        for user in users(claim)
    )


def is_group_user(user: Reference) -> bool:
    return (user.get("apiGroup"), user.get("resource")) == (POD_GROUP.group, POD_GROUP.plural)


def must_generate(pod: Object, entry: Object, find: FindClaim) -> bool:
    """Whether a claim has yet to be made (or found again) for an entry that names a template."""
    if entry.get("resourceClaimName") is not None or entry.get("resourceClaimTemplateName") is None:
        return False
    name, told = generated_name(pod, entry)
    if not told:
        return True
    if name is None:
        return False
    claim = find(name)
    return claim is None or not owned_by(claim, pod)


def must_reserve(pod: Object, claim: Object) -> bool:
    """Whether a claim that is allocated has yet to list a pod that is on its node already."""
    if not (pod.get("spec") or {}).get("nodeName"):
        return False
    return bool((claim.get("status") or {}).get("allocation")) and not is_reserved_for(claim, pod)


def pod_needs_work(pod: Object, find: FindClaim) -> bool:
    """Whether the controller has something to do for a pod."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    for entry in entries(pod):
        if must_generate(pod, entry, find):
            return True
        name = claim_name(pod, entry)
        claim = find(name) if name else None
        if claim is not None and must_reserve(pod, claim) and (not _generated(entry) or owned_by(claim, pod)):
            return True
    return False


def _generated(entry: Object) -> bool:
    return entry.get("resourceClaimName") is None


def generate_name(pod: str, entry: str) -> str:
    """The beginning of a generated claim's name; both parts are cut in proportion where it would be too long."""
    name = f"{pod}-{entry}-"
    if len(name) <= MAX_GENERATE_NAME:
        return name
    return f"{pod[: len(pod) * MAX_GENERATE_NAME // len(name)]}-{entry[: len(entry) * MAX_GENERATE_NAME // len(name)]}"


def claim_from_template(user: Object, entry: Object, template: Object, kind: Kind = POD) -> Object:
    """The claim to create for an entry of a pod, or of what `kind` says."""
    body = template["spec"]
    metadata = body.get("metadata") or {}
    owner = {
        "apiVersion": user.get("apiVersion") or kind.api_version,
        "kind": kind.kind,
        "name": user["metadata"]["name"],
        "uid": user["metadata"]["uid"],
        "controller": True,
    }
    return {
        "metadata": {
            "generateName": generate_name(user["metadata"]["name"], entry["name"]),
            "namespace": user["metadata"]["namespace"],
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME_ANNOTATION: entry["name"]},
            **({"labels": metadata["labels"]} if metadata.get("labels") else {}),
            "ownerReferences": [owner],
        },
        "spec": body["spec"],
    }


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """The next write for a claim. `status`: its new status; `metadata`: its new metadata; `delete`: delete it."""

    status: Object | None = None
    metadata: Object | None = None
    delete: bool = False


def claim_step(claim: Object, remaining: list[Reference], owner_done: bool) -> ClaimStep | None:
    """What has to be written next, given the users that remain; None when the claim is as it should be.

    Each write leaves a state from which the rest follows, so an interruption between two writes does no harm:
    the status loses its users (with the last one the allocation, too), then the finalizer goes, then the claim.
    """
    status = claim.get("status") or {}
    has_finalizer = FINALIZER in (claim["metadata"].get("finalizers") or [])
    if len(remaining) < len(users(claim)):
        return ClaimStep(status=_released(status, remaining, deallocate=not remaining and has_finalizer))
    if remaining:
        return None
    deleting = bool(claim["metadata"].get("deletionTimestamp"))
    if has_finalizer and deleting and status.get("allocation"):
        return ClaimStep(status=_released(status, remaining, deallocate=True))
    if has_finalizer and (deleting or (owner_done and not status.get("allocation"))):
        return ClaimStep(metadata=without_finalizer(claim))
    return ClaimStep(delete=True) if owner_done and not deleting else None


def _released(status: Object, remaining: list[Reference], *, deallocate: bool) -> Object:
    gone = ("reservedFor", "allocation") if deallocate else ("reservedFor",)
    new = {key: value for key, value in status.items() if key not in gone}
    return {**new, "reservedFor": remaining} if remaining else new


def without_finalizer(claim: Object) -> Object:
    """The claim's metadata without the finalizer that keeps allocated claims."""
    kept = [name for name in claim["metadata"].get("finalizers") or [] if name != FINALIZER]
    return {**claim["metadata"], "finalizers": kept}


def finalizer_after_release(claim: Object) -> bool:
    """Whether the finalizer goes right after the write that took the allocation away."""
    return FINALIZER in (claim["metadata"].get("finalizers") or []) and not (claim.get("status") or {}).get(
        "allocation"
    )


def feature_trouble(template: Object, *, admin_access: bool, prioritized_list: bool) -> str:
    """Why claims of this template are not generated with these features, or ""."""
    requests: Iterable[Object] = ((template["spec"].get("spec") or {}).get("devices") or {}).get("requests") or []
    for request in requests:
        if not admin_access and (request.get("exactly") or {}).get("adminAccess"):
            return "admin access is requested, but the feature is disabled"
        if not prioritized_list and request.get("firstAvailable"):
            return "template includes a prioritized list of subrequests, but the feature is disabled"
    return ""
