"""Whether an object can be what it says on a Kubernetes minor with its gates: versions, and fields behind gates. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.base import InputError
from regauge.model import Object, Rules, from_v1, split_api_version, to_v1
from regauge.model.kinds import DEVICE_CLASS

GROUP = DEVICE_CLASS.group
_VERSIONS = ("v1", "v1beta1", "v1beta2", "v1alpha3")
_OF_REQUEST = {
    "adminAccess": "DRAAdminAccess",
    "tolerations": "DRADeviceTaints",
    "capacity": "DRAConsumableCapacity",
    "derivedAttributes": "DRADerivedAttributes",
}
_OF_DEVICE = {
    "consumesCounters": "DRAPartitionableDevices",
    "taints": "DRADeviceTaints",
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "bindsToNode": "DRADeviceBindingConditions",
    "bindingConditions": "DRADeviceBindingConditions",
}
_OF_SLICE = {"sharedCounters": "DRAPartitionableDevices", "perDeviceNodeSelection": "DRAPartitionableDevices"}


def at_version(object_: Object, rules: Rules) -> Object:
    """An object in the version of its kind that a minor has: v1 where there is one. Others come back unchanged.

    Raises `InputError` for a version without counterpart, and for a minor that has no version of the kind.
    """
    if split_api_version(str(object_.get("apiVersion", "")))[0] != GROUP:
        return _pod_references(object_)
    kind = str(object_.get("kind"))
    newest = to_v1(object_)
    found = [version for version in _VERSIONS if kind in rules.api.get(f"{GROUP}/{version}", ())]
    if not found:
        raise InputError(f"Kubernetes {rules.minor} has no {kind} that is known here", fix="aim at a newer version")
    return object_ if object_.get("apiVersion") == f"{GROUP}/{found[0]}" else from_v1(newest, found[0])


def _pod_references(object_: Object) -> Object:
    """A pod's claims as they are written since 1.31, where the template or claim stood under `source`."""
    spec = object_.get("spec")
    entries = spec.get("resourceClaims") if isinstance(spec, dict) and object_.get("kind") == "Pod" else None
    if not isinstance(spec, dict) or not isinstance(entries, list):
        return object_
    flat = [_flat(entry) for entry in entries]
    return object_ if flat == entries else {**object_, "spec": {**spec, "resourceClaims": flat}}


def _flat(entry: object) -> object:
    source = entry.get("source") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(source, dict):
        return entry
    return {**{key: value for key, value in entry.items() if key != "source"}, **source}


def gate_reasons(object_: Object, rules: Rules) -> tuple[str, ...]:
    """Which fields of a v1 object of resource.k8s.io the target would refuse or drop, with the gate of each."""
    wanted = dict.fromkeys(_gated(object_))
    return tuple(
        f"{field} needs the gate {gate}, which is off on {rules.minor}" for field, gate in wanted if not rules.on(gate)
    )


def _gated(object_: Object) -> Iterator[tuple[str, str]]:
    spec = object_.get("spec")
    if not isinstance(spec, dict) or split_api_version(str(object_.get("apiVersion", "")))[0] != GROUP:
        return
    kind = object_.get("kind")
    if kind == "DeviceClass" and spec.get("extendedResourceName"):
        yield "spec.extendedResourceName", "DRAExtendedResource"
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        inner = spec if kind == "ResourceClaim" else spec.get("spec")
        devices = inner.get("devices") if isinstance(inner, dict) else None
        yield from _of_claim(devices if isinstance(devices, dict) else {})
    if kind == "ResourceSlice":
        yield from ((field, gate) for field, gate in _OF_SLICE.items() if spec.get(field))
        for device in spec.get("devices") or ():
            yield from ((f"devices[].{field}", gate) for field, gate in _OF_DEVICE.items() if device.get(field))


def _of_claim(devices: Object) -> Iterator[tuple[str, str]]:
    for request in devices.get("requests") or ():
        if request.get("firstAvailable"):
            yield "firstAvailable", "DRAPrioritizedList"
        for part in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            yield from ((f"requests[].{field}", gate) for field, gate in _OF_REQUEST.items() if part.get(field))
    if any(item.get("distinctAttribute") for item in devices.get("constraints") or ()):
        yield "constraints[].distinctAttribute", "DRAConsumableCapacity"
