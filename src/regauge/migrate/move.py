"""Pods between limits and claims: one description of a pod changed in place, everything else in it kept.

To a claim: each container that counted a resource gets a request of its own in one ResourceClaimTemplate and refers to it,
so that every container sees the devices it had. An init container shares the request of a later container that asks for at
least as many, as the kubelet lets it reuse those devices. Back again gives the object there was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.base import InputError, Where
from regauge.inventory import whole
from regauge.migrate.sites import Site, Slot, list_in, mapping_in, own_copy, paths_of, sites_of
from regauge.model import Document, Kind, Object
from regauge.model.kinds import RESOURCE_CLAIM_TEMPLATE

MAX_NAME = 253
MAX_REQUEST_NAME = 63
CLAIM_ENTRY = "devices"


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move: the workload's new document, objects that come with it, and what a reader should know."""

    workload: Object
    objects: tuple[Object, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What a counted resource becomes: a class, and selectors on its devices (CEL)."""

    resource_name: str
    device_class: str
    selectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requested:
    """One request of a claim, and the resource it stands for."""

    name: str
    target: Target
    count: int

    def as_document(self) -> Object:
        exactly: Object = {
            "deviceClassName": self.target.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if self.target.selectors:
            exactly["selectors"] = [{"cel": {"expression": text}} for text in self.target.selectors]
        return {"name": self.name, "exactly": exactly}


def to_claim(document: Document, resource_name: str, device_class: str) -> Moved:
    """The workload asking for `device_class` by claim where it counted `resource_name` by limits.

    Raises `InputError` when the kind has no pod template known here, when it does not count the resource, or when it
    already has a claim entry of the name that would be used.
    """
    if not paths_of(document.object):
        raise InputError(
            f"{document.kind} has no pod template that is known here",
            where=where_of(document),
            fix="move one of a kind that has, or name the path to it",
        )
    workload = as_written(document.object)
    objects, notes = [], []
    sites = sites_of(workload)
    asking = [site for site in sites if resource_name in counted(site)]
    if not asking:
        raise InputError(
            f"no container asks for {resource_name}", where=where_of(document), fix="name one that it asks for"
        )
    for site in asking:
        check_entry_free(site, document)
        name = claim_name(document.name, site.name if len(asking) > 1 else "")
        requests, told = claim_for(site, (Target(resource_name, device_class),), name)
        objects.append(claim_template(name, document.namespace, requests))
        notes += told
    return Moved(workload, tuple(objects), tuple(notes))


def to_limits(moved: Object, kind: Kind, claim_template: Object, resource_name: str) -> Object:
    """The way back: the workload counting `resource_name` again. The inverse of `to_claim` for what `to_claim` made."""
    workload = copy.deepcopy(moved)
    counts = {
        request["name"]: (resource_name, request["exactly"].get("count", 1))
        for request in claim_template["spec"]["spec"]["devices"]["requests"]
    }
    for site in sites_of(workload):
        limits_for(site, CLAIM_ENTRY, counts)
    return workload


def where_of(document: Document) -> Where:
    """The place of a document, for errors."""
    return Where(document.where.file, document.where.line, document.title)


def as_written(object_: Object) -> Object:
    """A copy without what the API server added, so that it can be applied anew."""
    new: Object = own_copy(object_)
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


def counted(site: Site) -> dict[str, int]:
    """What the containers of a pod description count, by resource name: the largest count of any one of them."""
    found: dict[str, int] = {}
    for slot in site.slots:
        for name, count in counts_of(slot).items():
            found[name] = max(found.get(name, 0), count)
    return found


def counts_of(slot: Slot) -> dict[str, int]:
    """What one container counts, by resource name. A count of nothing is left out."""
    resources = _mapping(slot.holder.get(slot.field))
    merged = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
    counts = {name: whole(count) for name, count in merged.items() if isinstance(count, (str, int, float))}
    return {name: count for name, count in counts.items() if count}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def check_entry_free(site: Site, document: Document) -> None:
    """Raises `InputError` when the pod already has a claim of the name that a move gives."""
    if any(entry.get("name") == CLAIM_ENTRY for entry in site.spec.get(site.claims_field) or ()):
        raise InputError(
            f"it already has a claim entry named {CLAIM_ENTRY}", where=where_of(document), fix="rename that entry"
        )


def claim_name(workload: str, site: str) -> str:
    """The name of the claim template of one pod description of a workload."""
    end = f"-{site}-{CLAIM_ENTRY}" if site else f"-{CLAIM_ENTRY}"
    return workload[: MAX_NAME - len(end)] + end


def claim_for(site: Site, targets: Iterable[Target], name: str) -> tuple[list[Requested], list[str]]:
    """Change one pod description from counts to a claim from the template `name`. Its requests, and notes."""
    by_name = {target.resource_name: target for target in targets}
    requests: list[Requested] = []
    notes: list[str] = []
    large: list[Requested] = []
    for slot in site.slots:
        mine = {resource: count for resource, count in counts_of(slot).items() if resource in by_name}
        for resource, count in mine.items():
            enough = [item for item in large if item.target.resource_name == resource and item.count >= count]
            shared = min(enough, key=lambda item: (item.count, item.name)) if enough else None
            if slot.init and not slot.sidecar and shared is not None:
                notes.append(
                    f"init container {slot.name} uses the devices of {shared.name}, as it did under the device plugin"
                )
                _refer(site, slot, shared.name)
                continue
            if slot.init and not slot.sidecar:
                notes.append(
                    f"init container {slot.name} asks for more than any later container: its devices stay held all along"
                )
            made = Requested(_request_name(slot, resource, mine, requests), by_name[resource], count)
            requests.append(made)
            if not slot.init:
                large.append(made)
            _refer(site, slot, made.name)
        for resource in by_name:
            _drop_resource(slot, resource)
    notes += _could_share(large)
    list_in(site.spec, site.claims_field).append({"name": CLAIM_ENTRY, "resourceClaimTemplateName": name})
    return requests, notes


def _could_share(requests: list[Requested]) -> Iterator[str]:
    """A count gives each container devices of its own; a claim need not."""
    for resource in dict.fromkeys(item.target.resource_name for item in requests):
        names = [item.name for item in requests if item.target.resource_name == resource]
        if len(names) > 1:
            yield (
                f"containers ask for {resource} apart, so each gets devices of its own ({', '.join(names)}), as it did;"
                f" where they may share, let all of them name request {names[0]} and leave the others out"
            )


def _request_name(slot: Slot, resource: str, mine: Mapping[str, int], taken: Iterable[Requested]) -> str:
    """The container's name, with the resource's where it asks for several; another number where that is taken."""
    end = ""
    if len(mine) > 1:
        end = "-" + resource.rpartition("/")[2].lower().replace(".", "-").replace("_", "-").strip("-")
    names = {item.name for item in taken}
    name = (slot.name[: MAX_REQUEST_NAME - len(end)] + end)[:MAX_REQUEST_NAME].strip("-")
    number = 2
    while name in names:
        name = f"{name[: MAX_REQUEST_NAME - 4].rstrip('-')}-{number}"
        number += 1
    return name


def _refer(site: Site, slot: Slot, request: str) -> None:
    if site.refers:
        resources = mapping_in(slot.holder, slot.field)
        list_in(resources, "claims").append({"name": CLAIM_ENTRY, "request": request})


def _drop_resource(slot: Slot, resource_name: str) -> None:
    resources = _mapping(slot.holder.get(slot.field))
    for part in ("limits", "requests"):
        if resource_name in _mapping(resources.get(part)):
            del resources[part][resource_name]
            if not resources[part]:
                del resources[part]
    if slot.field != "resources" and not resources:
        slot.holder.pop(slot.field, None)


def claim_template(
    name: str, namespace: str, requests: Iterable[Requested], constraints: Iterable[Object] = ()
) -> Object:
    """The ResourceClaimTemplate of these requests, in v1."""
    devices: Object = {"requests": [request.as_document() for request in requests]}
    constraints = list(constraints)
    if constraints:
        devices["constraints"] = constraints
    return {
        "apiVersion": RESOURCE_CLAIM_TEMPLATE.api_version,
        "kind": RESOURCE_CLAIM_TEMPLATE.kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"spec": {"devices": devices}},
    }


def limits_for(site: Site, entry: str, counts: Mapping[str, tuple[str, int]]) -> None:
    """Change one pod description from the claim `entry` to counts: (resource name, count) of each request by its name."""
    for slot, requests in take_claim(site, entry):
        for request in requests:
            resource, count = counts[request]
            limits = mapping_in(mapping_in(slot.holder, slot.field), "limits")
            limits[resource] = str(whole(limits.get(resource, 0)) + count)


def take_claim(site: Site, entry: str) -> list[tuple[Slot, list[str]]]:
    """Take a claim out of one pod description, and tell which requests of it each container referred to."""
    found = []
    for slot in site.slots:
        resources = _mapping(slot.holder.get(slot.field))
        claims = resources.get("claims") or []
        mine = [claim for claim in claims if claim.get("name") == entry]
        if mine:
            found.append((slot, [str(claim["request"]) for claim in mine if claim.get("request")]))
            resources["claims"] = [claim for claim in claims if claim not in mine]
            if not resources["claims"]:
                del resources["claims"]
    entries = [item for item in site.spec.get(site.claims_field) or () if item.get("name") != entry]
    site.spec[site.claims_field] = entries
    if not entries:
        del site.spec[site.claims_field]
    return found
