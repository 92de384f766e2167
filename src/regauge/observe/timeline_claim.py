"""What a claim itself and the devices it holds tell of its life: times, managed fields, conditions, taints. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.inventory import taint_rule_selects, taint_text
from regauge.model import Document, Snapshot
from regauge.model.kinds import DEVICE_TAINT_RULE, RESOURCE_CLAIM
from regauge.model.resource import EXTENDED_RESOURCE_CLAIM_ANNOTATION, DeviceTaintRule, ResourceClaim
from regauge.observe.correlation import seconds
from regauge.observe.timeline_parts import CLAIM, Certainty, Moment, Step

_REFERENCE = "k:"


def claim_moments(claim: ResourceClaim, snapshot: Snapshot) -> Iterator[Moment]:
    """What the claim's own fields tell."""
    metadata, allocation = claim.metadata, claim.status.allocation
    created = seconds(metadata.creation_timestamp)
    if created is not None:
        yield Moment(created, Step.created, CLAIM, f"created{_for_whom(claim)}", "claim metadata.creationTimestamp")
    managed = _managed(claim, snapshot)
    if allocation is not None:
        devices = ", ".join(f"{one.pool}/{one.device}" for one in allocation.devices.results) or "no devices"
        at_s = seconds(allocation.allocation_timestamp)
        if at_s is not None:
            yield Moment(
                at_s, Step.allocated, CLAIM, f"allocated {devices}", "claim status.allocation.allocationTimestamp"
            )
        yield from _by_managers(managed, "f:allocation", Step.allocated, f"allocated {devices}", created)
    yield from _reservations(claim, managed, created)
    deleted = seconds(metadata.deletion_timestamp)
    if deleted is not None:
        kept = f", kept by finalizer {', '.join(metadata.finalizers)}" if metadata.finalizers else ""
        yield Moment(deleted, Step.deleted, CLAIM, f"deletion asked for{kept}", "claim metadata.deletionTimestamp")
    yield from _reports(claim)


def _for_whom(claim: ResourceClaim) -> str:
    owner = next((one for one in claim.metadata.owner_references if one.controller), None)
    if owner is None:
        return ""
    bridge = EXTENDED_RESOURCE_CLAIM_ANNOTATION in (claim.metadata.annotations or {})
    return f" for {owner.kind.lower()} {owner.name}{', which counts devices by name' if bridge else ''}"


def _managed(claim: ResourceClaim, snapshot: Snapshot) -> list[Mapping[str, Any]]:
    entries = _document(claim, snapshot).get("managedFields")
    return [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []


def _document(claim: ResourceClaim, snapshot: Snapshot) -> Mapping[str, Any]:
    wanted = (claim.metadata.namespace, claim.metadata.name)
    found: Document | None = next(
        (one for one in snapshot.documents(RESOURCE_CLAIM) if (one.namespace, one.name) == wanted), None
    )
    return found.metadata if found is not None else {}


def _by_managers(
    managed: list[Mapping[str, Any]], field: str, step: Step, text: str, since_s: float | None
) -> Iterator[Moment]:
    """A bound from the last write of whoever manages a field of the status."""
    for entry in managed:
        at_s = seconds(entry.get("time"))
        if at_s is not None and field in _status_fields(entry):
            source = f"claim managedFields: the last write of {entry.get('manager', 'somebody')} to the status"
            yield _bounded(at_s, step, text, source, since_s)


def _bounded(at_s: float, step: Step, text: str, source: str, since_s: float | None) -> Moment:
    certainty = Certainty.between if since_s is not None else Certainty.at_most
    return Moment(at_s, step, CLAIM, text, source, certainty, since_s)


def _status_fields(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = entry.get("fieldsV1")
    status = fields.get("f:status") if isinstance(fields, dict) else None
    return status if isinstance(status, dict) else {}


def _reservations(claim: ResourceClaim, managed: list[Mapping[str, Any]], created: float | None) -> Iterator[Moment]:
    allocation = claim.status.allocation
    since_s = (seconds(allocation.allocation_timestamp) if allocation else None) or created
    for entry in managed:
        at_s = seconds(entry.get("time"))
        reserved = _status_fields(entry).get("f:reservedFor")
        if at_s is None or not isinstance(reserved, dict):
            continue
        source = f"claim managedFields: the last write of {entry.get('manager', 'somebody')} to the status"
        for one in claim.status.reserved_for:
            whole = not any(key.startswith(_REFERENCE) for key in reserved)
            if whole or any(key.startswith(_REFERENCE) and f'"{one.uid}"' in key for key in reserved):
                what = "pod" if one.resource == "pods" else one.resource
                yield _bounded(at_s, Step.reserved, f"reserved for {what} {one.name}", source, since_s)


def _reports(claim: ResourceClaim) -> Iterator[Moment]:
    """What drivers wrote into the status of the claim's devices."""
    for device in claim.status.devices:
        for one in device.conditions:
            at_s = seconds(one.last_transition_time)
            if at_s is not None:
                why = f" ({one.message or one.reason})" if one.message or one.reason else ""
                text = f"{device.driver} reports {one.type}={one.status}{why}"
                subject = f"device {device.pool}/{device.device}"
                source = "claim status.devices, condition lastTransitionTime"
                yield Moment(at_s, Step.reported, subject, text, source)


def device_moments(claim: ResourceClaim, snapshot: Snapshot) -> Iterator[Moment]:
    """Taints on the devices that the claim holds, published or by rules."""
    allocation = claim.status.allocation
    held = {(one.driver, one.pool, one.device) for one in allocation.devices.results} if allocation else set()
    rules = [snapshot.view(one, DeviceTaintRule) for one in snapshot.documents(DEVICE_TAINT_RULE)] if held else []
    for slice_ in snapshot.slices if held else ():
        for device in slice_.spec.devices:
            if (slice_.spec.driver, slice_.spec.pool.name, device.name) not in held:
                continue
            subject = f"device {slice_.spec.pool.name}/{device.name}"
            for taint in device.taints:
                at_s = seconds(taint.time_added)
                if at_s is not None:
                    text = f"tainted {taint_text(taint)} by {slice_.spec.driver}"
                    yield Moment(at_s, Step.tainted, subject, text, "slice taint timeAdded")
            for rule in rules:
                at_s = seconds(rule.spec.taint.time_added)
                if at_s is not None and taint_rule_selects(rule, slice_, device):
                    text = f"tainted {taint_text(rule.spec.taint)} by rule {rule.metadata.name}"
                    yield Moment(at_s, Step.tainted, subject, text, f"DeviceTaintRule {rule.metadata.name} timeAdded")
