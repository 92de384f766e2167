"""The kubelet's two checkpoint files in upstream's own formats, read and written with their checksums. Pure.

`kubelet_internal_checkpoint` (device plugin allocations): the checksum is FNV-1a, 32 bits, over Go's reflection print of
the data. `dra_manager_state` (prepared claims): the data is a JSON text inside JSON, the checksum is its CRC-32.
Source: pkg/kubelet/cm/devicemanager/checkpoint, pkg/kubelet/cm/dra/state, pkg/kubelet/checkpointmanager/checksum.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from regauge.base import InputError, Where
from regauge.cluster.kubelet.allocation_bytes import decode_allocation, encode_allocation
from regauge.pluginapi import ContainerAllocateResponse

DEVICE_CHECKPOINT_NAME = "kubelet_internal_checkpoint"
DRA_CHECKPOINT_NAME = "dra_manager_state"
DRA_CHECKPOINT_VERSION = "checkpoint.dra.kubelet.k8s.io/v1"
WITHOUT_NUMA = -1


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """What one container holds of one device plugin resource. `device_ids` is by NUMA node, -1 for devices without one.

    `answer` is the protobuf of the plugin's answer as it was stored, so that reading and writing changes no byte.
    """

    pod_uid: str
    container: str
    resource: str
    device_ids: Mapping[int, tuple[str, ...]]
    answer: bytes

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(id_ for ids in self.device_ids.values() for id_ in ids)

    @property
    def allocation(self) -> ContainerAllocateResponse:
        """Raises `ValueError` when the stored bytes are no such message."""
        return decode_allocation(self.answer)


def device_entry(
    pod_uid: str, container: str, resource: str, ids: Mapping[int, tuple[str, ...]], answer: ContainerAllocateResponse
) -> DeviceEntry:
    return DeviceEntry(pod_uid, container, resource, ids, encode_allocation(answer))


@dataclass(frozen=True, slots=True)
class DeviceCheckpoint:
    """The content of kubelet_internal_checkpoint. `registered` holds the healthy devices by resource."""

    entries: tuple[DeviceEntry, ...] = ()
    registered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One prepared device as dra_manager_state keeps it."""

    pool: str
    device: str
    share_id: str | None = None
    requests: tuple[str, ...] | None = None
    cdi_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClaimState:
    """One claim of dra_manager_state. A driver whose devices are None was not asked yet, or did not answer."""

    uid: str
    name: str
    namespace: str
    pod_uids: frozenset[str]
    drivers: Mapping[str, tuple[ClaimDevice, ...] | None]


def encode_device_checkpoint(checkpoint: DeviceCheckpoint) -> bytes:
    """The file as upstream writes it."""
    return _go_json(_with_checksum(_device_data(checkpoint)))


def decode_device_checkpoint(raw: bytes, file: str) -> DeviceCheckpoint:
    """The content of a file. Raises `InputError` when it is no such file or its checksum does not hold."""
    document = _document(raw, file)
    data, checksum = document.get("Data"), document.get("Checksum")
    if not isinstance(data, dict):
        raise _corrupt(file, "the field Data is missing", "Data")
    try:
        found = device_checksum(data)
        entries = tuple(_entry(item) for item in data.get("PodDeviceEntries") or ())
        registered = {name: tuple(ids or ()) for name, ids in (data.get("RegisteredDevices") or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise _corrupt(file, f"it does not have the fields of such a file: {error!r}", "Data") from None
    if found != checksum:
        raise _corrupt(file, f"the checksum is {checksum} and the data's is {found}", "Checksum")
    return DeviceCheckpoint(entries, registered)


def device_checksum(data: Mapping[str, Any]) -> int:
    """FNV-1a (32 bits) over the print of `data`, the parsed JSON of the field Data."""
    value = 0x811C9DC5
    for byte in _printed(data).encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def encode_dra_checkpoint(claims: Sequence[ClaimState]) -> bytes:
    """The file as upstream writes it: the claims in the order given."""
    data = _go_json(
        {
            "kind": "DRACheckpoint",
            "apiVersion": DRA_CHECKPOINT_VERSION,
            "ClaimInfoStateList": [_claim_document(claim) for claim in claims],
        }
    )
    return _go_json({"Data": data.decode(), "Checksum": zlib.crc32(data)})


def decode_dra_checkpoint(raw: bytes, file: str) -> tuple[ClaimState, ...]:
    """The claims of a file, whatever its apiVersion (as upstream reads it). Raises `InputError` when it is corrupt."""
    document = _document(raw, file)
    data, checksum = document.get("Data"), document.get("Checksum")
    if not isinstance(data, str):
        raise _corrupt(file, "the field Data is missing", "Data")
    found = zlib.crc32(data.encode())
    if found != checksum:
        raise _corrupt(file, f"the checksum is {checksum} and the data's is {found}", "Checksum")
    claims = _document(data.encode(), file).get("ClaimInfoStateList") or ()
    try:
        return tuple(_claim_state(item) for item in claims)
    except (KeyError, TypeError, AttributeError) as error:
        raise _corrupt(file, f"it does not have the fields of such a file: {error!r}", "Data") from None


def _document(raw: bytes, file: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise _corrupt(file, f"it is not JSON: {error}", None) from None


def _corrupt(file: str, what: str, field_: str | None) -> InputError:
    return InputError(
        f"the checkpoint is corrupted: {what}",
        where=Where(file=file, field=field_),
        fix="compare what runs on the node with the API, then remove the file",
    )


def _go_json(value: Any) -> bytes:
    """JSON as Go's encoder writes it: no spaces, and <, > and & escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character, escaped in (
        ("&", "\\u0026"),
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        text = text.replace(character, escaped)
    return text.encode()


def _with_checksum(data: dict[str, Any]) -> dict[str, Any]:
    return {"Data": data, "Checksum": device_checksum(data)}


def _device_data(checkpoint: DeviceCheckpoint) -> dict[str, Any]:
    entries = [
        {
            "PodUID": entry.pod_uid,
            "ContainerName": entry.container,
            "ResourceName": entry.resource,
            "DeviceIDs": {str(node): list(entry.device_ids[node]) for node in sorted(entry.device_ids)},
            "AllocResp": base64.b64encode(entry.answer).decode(),
        }
        for entry in checkpoint.entries
    ]
    registered = {name: list(checkpoint.registered[name]) for name in sorted(checkpoint.registered)}
    return {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}


def _entry(item: Mapping[str, Any]) -> DeviceEntry:
    ids = {int(node): tuple(ids or ()) for node, ids in (item["DeviceIDs"] or {}).items()}
    answer = base64.b64decode(item["AllocResp"] or "", validate=True)
    entry = DeviceEntry(item["PodUID"], item["ContainerName"], item["ResourceName"], ids, answer)
    decode_allocation(answer)
    return entry


def _printed(data: Mapping[str, Any]) -> str:
    """The data as Go's spew prints it for hashing: types shown, keys sorted, byte slices as numbers."""
    entries = data.get("PodDeviceEntries")
    listed = "<nil>" if entries is None else "[" + " ".join(_printed_entry(item) for item in entries) + "]"
    registered = data.get("RegisteredDevices")
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){listed} "
        f"RegisteredDevices:(map[string][]string){_printed_map(registered, str)}}}"
    )


def _printed_entry(item: Mapping[str, Any]) -> str:
    answer = item["AllocResp"]
    raw = "<nil>" if answer is None else "[" + " ".join(map(str, base64.b64decode(answer))) + "]"
    return (
        f"{{PodUID:(string){item['PodUID']} ContainerName:(string){item['ContainerName']} "
        f"ResourceName:(string){item['ResourceName']} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA){_printed_map(item['DeviceIDs'], int)} AllocResp:([]uint8){raw}}}"
    )


def _printed_map(value: Mapping[str, Sequence[str] | None] | None, key: type[int] | type[str]) -> str:
    if value is None:
        return "<nil>"
    names = sorted(value, key=lambda name: key(name) if key is int else name.encode())
    return "map[" + " ".join(f"{name}:{_printed_list(value[name])}" for name in names) + "]"


def _printed_list(value: Sequence[str] | None) -> str:
    return "<nil>" if value is None else "[" + " ".join(value) + "]"


def _claim_document(claim: ClaimState) -> dict[str, Any]:
    return {
        "ClaimUID": claim.uid,
        "ClaimName": claim.name,
        "Namespace": claim.namespace,
        "PodUIDs": {uid: {} for uid in sorted(claim.pod_uids)},
        "DriverState": {name: {"Devices": _device_documents(claim.drivers[name])} for name in sorted(claim.drivers)},
    }


def _device_documents(devices: tuple[ClaimDevice, ...] | None) -> list[dict[str, Any]] | None:
    if devices is None:
        return None
    return [
        {
            "PoolName": device.pool,
            "DeviceName": device.device,
            "ShareID": device.share_id,
            "RequestNames": None if device.requests is None else list(device.requests),
            "CDIDeviceIDs": None if device.cdi_ids is None else list(device.cdi_ids),
        }
        for device in devices
    ]


def _claim_state(item: Mapping[str, Any]) -> ClaimState:
    drivers = {
        name: None if state["Devices"] is None else tuple(_claim_device(device) for device in state["Devices"])
        for name, state in (item["DriverState"] or {}).items()
    }
    return ClaimState(item["ClaimUID"], item["ClaimName"], item["Namespace"], frozenset(item["PodUIDs"] or ()), drivers)


def _claim_device(item: Mapping[str, Any]) -> ClaimDevice:
    requests, cdi_ids = item.get("RequestNames"), item.get("CDIDeviceIDs")
    return ClaimDevice(
        item["PoolName"],
        item["DeviceName"],
        item.get("ShareID"),
        None if requests is None else tuple(requests),
        None if cdi_ids is None else tuple(cdi_ids),
    )
