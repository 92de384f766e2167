"""What users of a claim may know of the devices that they got: the claim's `status.devices` (KEP-4817). Pure.

An entry belongs to the driver, the conditions in it to whoever sets their type; so conditions of other types stay. When the
claim is deallocated the API server removes the entries itself.
"""

from __future__ import annotations

import copy
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.base import InputError, canonical_json
from regauge.model import Object

CONDITIONS_LIMIT = 8
DATA_LIMIT_BYTES = 10 * 1024
IPS_LIMIT = 16
INTERFACE_LIMIT_BYTES = 256
HARDWARE_ADDRESS_LIMIT_BYTES = 128
MESSAGE_LIMIT = 1024
READY = "Ready"


@dataclass(frozen=True, slots=True)
class Network:
    """A network device in its Pod. `ips` are addresses with their prefix, such as 192.0.2.5/24."""

    interface: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""

    def document(self) -> Object:
        named = (("interfaceName", self.interface), ("ips", list(self.ips)), ("hardwareAddress", self.hardware_address))
        return {name: value for name, value in named if value}


@dataclass(frozen=True, slots=True)
class Report:
    """What a kind tells of a device that is prepared. `data` is JSON of its own shape, for the claim's status; `attributes`,
    as a ResourceSlice holds them, go beside the published ones into device metadata; `network` into both."""

    data: Mapping[str, Any] = field(default_factory=dict)
    network: Network | None = None
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """A condition of a device."""

    type: str
    holds: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is said of one device of a claim; without a report what stands there of data and network stays."""

    pool: str
    device: str
    share_id: str | None = None
    conditions: tuple[Said, ...] = ()
    report: Report | None = None


def check_report(report: Report, device: str) -> None:
    """Raises `InputError` for what an API server would refuse."""
    size = len(canonical_json(dict(report.data))) if report.data else 0
    if size > DATA_LIMIT_BYTES:
        raise InputError(f"the data of device {device} takes {size} bytes, at most {DATA_LIMIT_BYTES} are possible")
    network = report.network or Network()
    if len(network.interface.encode()) > INTERFACE_LIMIT_BYTES:
        raise InputError(f"the interface of device {device} has a name of more than {INTERFACE_LIMIT_BYTES} bytes")
    if len(network.hardware_address.encode()) > HARDWARE_ADDRESS_LIMIT_BYTES:
        raise InputError(f"the hardware address of device {device} is longer than {HARDWARE_ADDRESS_LIMIT_BYTES} bytes")
    if len(network.ips) > IPS_LIMIT or len(set(network.ips)) != len(network.ips):
        raise InputError(f"device {device} has {len(network.ips)} addresses: at most {IPS_LIMIT}, each once")
    for address in network.ips:
        try:
            ipaddress.ip_interface(address)
        except ValueError:
            raise InputError(f"{address!r} of device {device} is not an address with its prefix") from None
        if "/" not in address:
            raise InputError(f"{address!r} of device {device} has no prefix", fix="such as 192.0.2.5/24")


def with_entries(claim: Object, driver: str, entries: Iterable[Entry], now: str) -> Object | None:
    """The claim with these entries in its status; None when they stand there already, or none of the devices is allocated.

    `now` (RFC 3339) is when conditions change that change.
    """
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    allocated = {_key(one) for one in results if one.get("driver") == driver}
    said = {(entry.pool, entry.device, entry.share_id): entry for entry in entries}
    devices: list[Object] = list(status.get("devices") or [])
    places = {_key(one): index for index, one in enumerate(devices) if one.get("driver") == driver}
    for key, entry in said.items():
        if key not in allocated:
            continue
        old = devices[places[key]] if key in places else {}
        new = _entry(old, driver, entry, now)
        if key in places:
            devices[places[key]] = new
        else:
            devices.append(new)
    if devices == (status.get("devices") or []):
        return None
    result = copy.deepcopy(claim)
    result.setdefault("status", {})["devices"] = devices
    return result


def _key(one: Mapping[str, Any]) -> tuple[str, str, str | None]:
    return one.get("pool", ""), one.get("device", ""), one.get("shareID")


def _entry(old: Mapping[str, Any], driver: str, entry: Entry, now: str) -> Object:
    new: Object = {"driver": driver, "pool": entry.pool, "device": entry.device}
    if entry.share_id is not None:
        new["shareID"] = entry.share_id
    new |= {name: old[name] for name in ("conditions", "data", "networkData") if old.get(name)}
    conditions = {one["type"]: one for one in old.get("conditions") or []}
    for said in entry.conditions:
        conditions[said.type] = _condition(conditions.get(said.type, {}), said, now)
    new["conditions"] = list(conditions.values())[:CONDITIONS_LIMIT]
    if entry.report is not None:
        for name, value in (
            ("data", dict(entry.report.data)),
            ("networkData", entry.report.network.document() if entry.report.network else {}),
        ):
            new.pop(name, None)
            if value:
                new[name] = value
    return new


def _condition(old: Mapping[str, Any], said: Said, now: str) -> Object:
    status = "True" if said.holds else "False"
    since = old["lastTransitionTime"] if old.get("status") == status else now
    return {
        "type": said.type,
        "status": status,
        "reason": said.reason,
        "message": said.message[:MESSAGE_LIMIT],
        "lastTransitionTime": since,
    }
