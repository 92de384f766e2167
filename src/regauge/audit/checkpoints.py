"""Checkpoints of a node as claims: the kubelet's `dra_manager_state`, and those of drivers whose form is known."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from regauge.model.node_files import NodeFile

KUBELET_STATE = "dra_manager_state"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
COMPLETED = "PrepareCompleted"

_PLUGIN_PATH = re.compile(r"/plugins/([^/]+)/[^/]+$")
_CLAIMS_FIELDS = ("preparedClaims", "claims", "PreparedClaims")
_STATE_FIELDS = ("state", "checkpointState", "State")


@dataclass(frozen=True, slots=True)
class KubeletClaim:
    """A claim that the kubelet has, and the CDI devices that it will ask the runtime for, by driver."""

    uid: str
    namespace: str
    name: str
    cdi_devices: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class KubeletState:
    """The kubelet's state; `error` says why it cannot be used."""

    file: NodeFile
    claims: tuple[KubeletClaim, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class DriverCheckpoint:
    """A driver's claims by uid, with their state ("" where it keeps none). `driver` is "" where the path does not say.

    `devices` are those that it owns, where its form tells. `error` says why it cannot be used.
    """

    file: NodeFile
    driver: str
    claims: Mapping[str, str]
    error: str = ""
    devices: frozenset[str] = frozenset()


def kubelet_state(file: NodeFile) -> KubeletState:
    """The kubelet's claims: JSON in a text in JSON, with a CRC-32 over the text."""
    if file.data is None:
        return KubeletState(file, error=file.error)
    try:
        outer = msgspec.json.decode(file.data, type=_Outer)
        claims = msgspec.json.decode(outer.data, type=_Inner).claims or ()
    except (msgspec.DecodeError, RecursionError) as error:
        return KubeletState(file, error=f"not a checkpoint: {error}")
    if zlib.crc32(outer.data.encode()) != outer.checksum:
        return KubeletState(file, error="its checksum does not match its content")
    return KubeletState(file, tuple(_claim(claim) for claim in claims))


def driver_checkpoint(file: NodeFile) -> DriverCheckpoint:
    """A driver's claims, where the file has them by uid: at the top, below a version, or on a line of its own."""
    found = _PLUGIN_PATH.search(file.path)
    driver = found[1] if found else ""
    if file.data is None:
        return DriverCheckpoint(file, driver, {}, file.error)
    head, _, body = file.data.partition(b"\n")
    ours = _head(head)
    if ours is not None and ours.sha256 != hashlib.sha256(body.rstrip(b"\n")).hexdigest():
        return DriverCheckpoint(file, driver, {}, "its checksum does not match its content")
    claims: dict[str, str] = {}
    devices: frozenset[str] = frozenset()
    known = ours is not None  # it leaves claims out when there are none
    for document in _documents(file.data):
        if ours is not None and isinstance(document, dict) and isinstance(document.get("owners"), dict):
            devices = frozenset(document["owners"])
        for table in _claim_tables(document):
            known = True
            claims |= {uid: _state(claim) for uid, claim in table.items()}
    return DriverCheckpoint(file, driver, claims, "" if known else "its form is not known", devices)


class _Head(msgspec.Struct):
    """The first line of this project's driver's checkpoint; the second is what the checksum is of."""

    format: Literal["regauge.dev/driver-checkpoint"]
    sha256: str


def _head(line: bytes) -> _Head | None:
    try:
        return msgspec.json.decode(line, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return None


class _Device(msgspec.Struct):
    ids: list[str] | None = msgspec.field(default=None, name="CDIDeviceIDs")


class _Driver(msgspec.Struct):
    devices: list[_Device] | None = msgspec.field(default=None, name="Devices")


class _Claim(msgspec.Struct):
    uid: str = msgspec.field(default="", name="ClaimUID")
    name: str = msgspec.field(default="", name="ClaimName")
    namespace: str = msgspec.field(default="", name="Namespace")
    drivers: dict[str, _Driver] | None = msgspec.field(default=None, name="DriverState")


class _Inner(msgspec.Struct):
    claims: list[_Claim] | None = msgspec.field(default=None, name="ClaimInfoStateList")


class _Outer(msgspec.Struct):
    data: str = msgspec.field(name="Data")
    checksum: int = msgspec.field(name="Checksum")


def _claim(claim: _Claim) -> KubeletClaim:
    devices = {
        driver: tuple(name for device in state.devices or () for name in device.ids or ())
        for driver, state in (claim.drivers or {}).items()
    }
    return KubeletClaim(claim.uid, claim.namespace, claim.name, devices)


def _documents(data: bytes) -> Iterator[Any]:
    """The whole as JSON, or each line that is."""
    for text in (data, *data.splitlines()):
        try:
            yield msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if text is data:
            return


def _claim_tables(document: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, dict):
        return
    versions = (value for key, value in document.items() if re.fullmatch(r"[vV]\d\w*", key) and isinstance(value, dict))
    for place in (document, *versions):
        for name in _CLAIMS_FIELDS:
            table = place.get(name)
            if isinstance(table, dict) and all(UID.fullmatch(uid) for uid in table):
                yield table


def _state(claim: Any) -> str:
    if not isinstance(claim, dict):
        return ""
    return next((claim[name] for name in _STATE_FIELDS if isinstance(claim.get(name), str)), "")
