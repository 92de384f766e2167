"""One workload between limits and claim: documents in, documents out, everything else in them kept.

To a claim: each container that counted a resource gets a request of its own in one ResourceClaimTemplate and refers to it,
so that every container sees the devices it had. An init container shares the request of a later container that asks for at
least as many, as the kubelet lets it reuse those devices. Back again gives the object there was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from regauge.base import InputError, Where
from regauge.inventory import whole
from regauge.migrate.workloads import TEMPLATE_PATHS, template_of
from regauge.model import Document, Kind, Object
from regauge.model.kinds import RESOURCE_CLAIM_TEMPLATE

MAX_NAME = 253
CLAIM_ENTRY = "devices"


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move: the workload's new document, objects that come with it, and what a reader should know."""

    workload: Object
    objects: tuple[Object, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Use:
    """One container's count of the resource."""

    container: Object
    count: int
    init: bool
    sidecar: bool


def to_claim(document: Document, resource_name: str, device_class: str) -> Moved:
    """The workload asking for `device_class` by claim where it counted `resource_name` by limits.

    Raises `InputError` when the kind has no pod template known here, when it does not count the resource, or when it
    already has a claim entry of the name that would be used.
    """
    kind = _kind(document)
    workload = _as_written(document.object)
    template = template_of(workload, kind)
    spec = template.setdefault("spec", {})
    uses = list(_uses(spec, resource_name))
    if not uses:
        raise InputError(
            f"no container asks for {resource_name}", where=_where(document), fix="name one that it asks for"
        )
    _check_entry_free(spec, document)
    requests, notes = _requests(uses, device_class)
    claim_template = _claim_template(document, requests)
    for use in uses:
        _drop_resource(use.container, resource_name)
    spec.setdefault("resourceClaims", []).append(
        {"name": CLAIM_ENTRY, "resourceClaimTemplateName": claim_template["metadata"]["name"]}
    )
    return Moved(workload, (claim_template,), tuple(notes))


def to_limits(moved: Object, kind: Kind, claim_template: Object, resource_name: str) -> Object:
    """The way back: the workload counting `resource_name` again. The inverse of `to_claim` for what `to_claim` made."""
    workload = copy.deepcopy(moved)
    spec = template_of(workload, kind).get("spec", {})
    counts = {
        request["name"]: request["exactly"].get("count", 1)
        for request in claim_template["spec"]["spec"]["devices"]["requests"]
    }
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        resources = container.get("resources", {})
        mine = [claim for claim in resources.get("claims", ()) if claim.get("name") == CLAIM_ENTRY]
        if not mine:
            continue
        asked = resources.setdefault("limits", {})
        asked[resource_name] = str(counts[mine[0]["request"]])
        resources["claims"] = [claim for claim in resources["claims"] if claim not in mine]
        if not resources["claims"]:
            del resources["claims"]
    spec["resourceClaims"] = [entry for entry in spec.get("resourceClaims", ()) if entry.get("name") != CLAIM_ENTRY]
    if not spec["resourceClaims"]:
        del spec["resourceClaims"]
    return workload


def _kind(document: Document) -> Kind:
    kind = document.known
    if kind is None or kind not in TEMPLATE_PATHS:
        raise InputError(
            f"{document.kind} has no pod template that is known here",
            where=_where(document),
            fix=f"move one of {', '.join(sorted(kind.kind for kind in TEMPLATE_PATHS))}",
        )
    return kind


def _where(document: Document) -> Where:
    return Where(document.where.file, document.where.line, document.title)


def _as_written(object_: Object) -> Object:
    """A copy without what the API server added, so that it can be applied anew."""
    new = copy.deepcopy(object_)
    new.pop("status", None)
    metadata = new.get("metadata")
    if isinstance(metadata, dict):
        for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"):
            metadata.pop(name, None)
    if new.get("kind") == "Job":
        _drop_job_selector(new.get("spec") or {})
    if new.get("kind") == "Pod":
        (new.get("spec") or {}).pop(
            "nodeName", None
        )  # a pod with a node is never scheduled, and its claim never allocated
    return new


def _drop_job_selector(spec: Object) -> None:
    """A Job's selector and its labels are made for each Job anew, unless the user chose the selector."""
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for name in ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"):
        labels.pop(name, None)


def _uses(spec: Object, resource_name: str) -> Iterator[_Use]:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            count = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.get(resource_name)
            if count is not None and whole(count):
                init = field == "initContainers"
                yield _Use(container, whole(count), init, init and container.get("restartPolicy") == "Always")


def _check_entry_free(spec: Object, document: Document) -> None:
    if any(entry.get("name") == CLAIM_ENTRY for entry in spec.get("resourceClaims") or ()):
        raise InputError(
            f"it already has a claim entry named {CLAIM_ENTRY}", where=_where(document), fix="rename that entry"
        )


def _requests(uses: Iterable[_Use], device_class: str) -> tuple[list[Object], list[str]]:
    """One request per container, init containers put onto a later container's request where one is large enough."""
    requests: list[Object] = []
    notes: list[str] = []
    large: list[tuple[str, int]] = []
    for use in uses:
        name = use.container["name"]
        enough = [(count, request) for request, count in large if count >= use.count]
        shared = min(enough)[1] if enough else None
        if use.init and not use.sidecar and shared is not None:
            notes.append(f"init container {name} uses the devices of {shared}, as it did under the device plugin")
            _refer(use.container, shared)
            continue
        if use.init and not use.sidecar:
            notes.append(
                f"init container {name} asks for more than any later container: its devices stay held all along"
            )
        if not use.init:
            large.append((name, use.count))
        exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": use.count}
        requests.append({"name": name, "exactly": exactly})
        _refer(use.container, name)
    return requests, notes


def _refer(container: Object, request: str) -> None:
    resources = container.setdefault("resources", {})
    resources.setdefault("claims", []).append({"name": CLAIM_ENTRY, "request": request})


def _drop_resource(container: Object, resource_name: str) -> None:
    resources: dict[str, Any] = container["resources"]
    for part in ("limits", "requests"):
        if resource_name in (resources.get(part) or {}):
            del resources[part][resource_name]
            if not resources[part]:
                del resources[part]


def _claim_template(document: Document, requests: list[Object]) -> Object:
    name = f"{document.name[: MAX_NAME - len(CLAIM_ENTRY) - 1]}-{CLAIM_ENTRY}"
    metadata = {"name": name, **({"namespace": document.namespace} if document.namespace else {})}
    return {
        "apiVersion": RESOURCE_CLAIM_TEMPLATE.api_version,
        "kind": RESOURCE_CLAIM_TEMPLATE.kind,
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
