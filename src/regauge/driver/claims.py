"""What a claim asks of this node, decided from the claim, the description and what is prepared already. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regauge.base import InputError
from regauge.driver.checkpoint import HeldDevice, PreparedClaim
from regauge.driver.counters import overdrawn
from regauge.driver.description import Description, Stack
from regauge.driver.opaque import for_request
from regauge.model import Object, view
from regauge.model.resource import DeviceRequestAllocationResult, ResourceClaim
from regauge.pluginapi import ClaimRef, PreparedDevice, PrepareResult

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a claim cannot be prepared, in the words that end in the pod's event."""

    text: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """What the node serves and to whom it belongs: `owners` by device name, as it is now and not as it is described."""

    description: Description
    owners: Mapping[str, Stack]
    pool: str


def plan(
    ref: ClaimRef, claim: Object, assigned: Assigned, prepared: Iterable[PreparedClaim]
) -> tuple[HeldDevice, ...] | Refusal:
    """The devices to prepare for a claim as it was read back from the API server, or why not."""
    try:
        seen = view(claim, ResourceClaim)
    except InputError as error:
        return Refusal(f"the claim cannot be understood: {error}")
    if seen.metadata.uid != ref.uid:
        return Refusal(
            f"claim {ref.namespace}/{ref.name} was replaced: it has uid {seen.metadata.uid} now, asked for was {ref.uid}"
        )
    allocation = seen.status.allocation
    if allocation is None:
        return Refusal(f"claim {ref.namespace}/{ref.name} is not allocated")
    driver = assigned.description.driver
    results = [result for result in allocation.devices.results if result.driver == driver]
    if not results:
        return Refusal(f"claim {ref.namespace}/{ref.name} has no device of {driver}")
    held: dict[tuple[str, str | None], HeldDevice] = {}
    for result in results:
        problem = _problem(result, assigned)
        if problem:
            return Refusal(problem)
        config = for_request(allocation.devices.config, driver, result.request)
        _add(held, result, assigned.description, config)
    prepared = tuple(prepared)
    overdraft = overdrawn(ref.uid, held.values(), assigned.description, prepared)
    if overdraft is not None:
        return Refusal(overdraft)
    return _busy(ref, tuple(held.values()), assigned, prepared) or tuple(held.values())


def pod_claim_of(claim: Object) -> str:
    """What the Pod calls a claim that was made from a template for it; else nothing."""
    return str((claim.get("metadata", {}).get("annotations") or {}).get(POD_CLAIM_ANNOTATION, ""))


def _problem(result: DeviceRequestAllocationResult, assigned: Assigned) -> str | None:
    if result.pool != assigned.pool:
        return f"device {result.device} is of pool {result.pool}, this node serves {assigned.pool}"
    if assigned.description.device(result.device) is None:
        return f"device {result.device} is not on this node (any more)"
    owner = assigned.owners.get(result.device)
    if owner is not Stack.DRA:
        return f"device {result.device} is served by the device plugin {assigned.description.resource}, not by claims"
    return None


def _add(
    held: dict[tuple[str, str | None], HeldDevice],
    result: DeviceRequestAllocationResult,
    description: Description,
    config: tuple[Object, ...],
) -> None:
    """One entry per device and share; requests of the claim, without the part after the slash of a subrequest."""
    request, slash, _ = result.request.partition("/")
    key = (result.device, result.share_id)
    old = held.get(key)
    requests = (*(old.requests if old else ()), request)
    held[key] = HeldDevice(
        device=result.device,
        pool=result.pool,
        requests=tuple(dict.fromkeys(requests)),
        subrequests=(*(old.subrequests if old else ()), *((result.request,) if slash else ())),
        share_id=result.share_id,
        admin=bool(result.admin_access) and (old is None or old.admin),
        identity=_identity(result.device, description),
        consumed={**(old.consumed if old else {}), **{k: str(v) for k, v in result.consumed_capacity.items()}},
        config=(*(old.config if old else ()), *(one for one in config if old is None or one not in old.config)),
    )


def _busy(
    ref: ClaimRef, wanted: tuple[HeldDevice, ...], assigned: Assigned, prepared: Iterable[PreparedClaim]
) -> Refusal | None:
    """The last line of defence: whatever the API says, one device is not given to two claims."""
    for other in prepared:
        if other.uid == ref.uid:
            continue
        for wish in wanted:
            for device in other.devices:
                if wish.admin or device.admin or not _is_same(wish, device):
                    continue
                if not _shared(wish, device, assigned.description):
                    alias = "" if wish.device == device.device else f" as {device.device}"
                    return Refusal(
                        f"device {wish.device} is still prepared{alias} for claim {other.title}:"
                        " it is given on when that claim is unprepared"
                    )
    return None


def _identity(name: str, description: Description) -> tuple[str, ...]:
    device = description.device(name)
    return device.identity.values() if device is not None else ()


def _is_same(one: HeldDevice, other: HeldDevice) -> bool:
    return one.device == other.device or bool(set(one.identity) & set(other.identity))


def _shared(one: HeldDevice, other: HeldDevice, description: Description) -> bool:
    if one.share_id is not None and other.share_id is not None:
        return one.share_id != other.share_id
    device = description.device(one.device)
    return device is not None and device.shared


def claim_device_name(uid: str, held: HeldDevice) -> str:
    """The name of a device in the claim's own CDI spec. It begins with a letter, so that old runtimes read it."""
    name = f"claim-{uid}-{held.device}"
    return f"{name}-{held.share_id}" if held.share_id is not None else name


def answer(claim: PreparedClaim) -> PrepareResult:
    """What the kubelet is told about a prepared claim."""
    return PrepareResult(
        tuple(
            PreparedDevice(held.pool, held.device, held.requests, held.cdi_ids, held.share_id) for held in claim.devices
        )
    )
