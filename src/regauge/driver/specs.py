"""The CDI specs of the driver: one file for the devices of the device plugin stack, one for each prepared claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from regauge.base import Files, InputError
from regauge.cdi import ContainerEdits, Spec, is_spec_file, merge_edits, spec_file_name, spec_name
from regauge.cdi import Device as CdiDevice
from regauge.cdi.directory import SpecDirectories, read_file
from regauge.driver.checkpoint import HeldDevice, PreparedClaim
from regauge.driver.claims import claim_device_name
from regauge.driver.description import Device


class Specs:
    """The specs of one CDI kind in one directory. Every write is whole or not at all, and repeating it is fine."""

    def __init__(self, files: Files, directory: str, kind: str) -> None:
        self._files = files
        self._directory = directory.rstrip("/")
        self._kind = kind
        self._specs = SpecDirectories(files, (self._directory,))

    def write_base(self, devices: Iterable[Device]) -> None:
        """The devices by their own names, for the device plugin stack; without any the file is removed."""
        entries = tuple(CdiDevice(name=device.name, container_edits=device.edits) for device in devices)
        name = spec_name(self._kind)
        if entries:
            self._write(Spec(kind=self._kind, devices=entries), name)
        else:
            self._specs.remove(name)

    def write_claim(self, uid: str, held: Iterable[tuple[HeldDevice, ContainerEdits]]) -> tuple[HeldDevice, ...]:
        """The spec of one claim, with each device's edits. Returns the devices with their CDI name added."""
        entries: dict[str, ContainerEdits] = {}
        named = []
        for device, edits in held:
            name = claim_device_name(uid, device)
            entries[name] = edits
            named.append(msgspec.structs.replace(device, cdi_ids=(*device.cdi_ids, f"{self._kind}={name}")))
        devices = tuple(CdiDevice(name=name, container_edits=edits) for name, edits in entries.items())
        self._write(Spec(kind=self._kind, devices=devices), spec_name(self._kind, uid))
        return tuple(named)

    def has_claim(self, uid: str) -> bool:
        return self._files.exists(self._path(spec_name(self._kind, uid)))

    def remove_claim(self, uid: str) -> None:
        self._specs.remove(spec_name(self._kind, uid))

    def remove_orphans(self, claims: Mapping[str, PreparedClaim]) -> tuple[str, ...]:
        """Remove the specs of claims that are not prepared. Returns their uids."""
        orphans = tuple(uid for uid in self._uids() if uid not in claims)
        for uid in orphans:
            self.remove_claim(uid)
        return orphans

    def claims(self, devices: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The claims that have a spec, by uid, and which of these devices each of them has."""
        known = frozenset(devices)
        found = {}
        for uid in self._uids():
            try:
                spec = read_file(self._files, self._path(spec_name(self._kind, uid)))
            except InputError:
                continue
            names = [entry.name.removeprefix(f"claim-{uid}-") for entry in spec.devices]
            found[uid] = tuple(_longest(name, known) for name in names if _longest(name, known))
        return found

    def _uids(self) -> tuple[str, ...]:
        prefix = spec_name(self._kind) + "_"
        try:
            names = self._files.names(self._directory)
        except FileNotFoundError:
            return ()
        claims = [name for name in names if name.startswith(prefix) and is_spec_file(name)]
        return tuple(name[len(prefix) :].rpartition(".")[0] for name in claims)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{spec_file_name(name)}"

    def _write(self, spec: Spec, name: str) -> None:
        """Write unless the file says the same already: a restart does not disturb runtimes that read it."""
        try:
            old = read_file(self._files, self._path(name))
        except InputError:
            old = None
        if old is None or msgspec.structs.replace(old, cdi_version="") != spec:
            self._specs.write(spec, name)


def _longest(name: str, known: frozenset[str]) -> str:
    """The device in a name that may have a share's id behind it."""
    return max((one for one in known if name == one or name.startswith(f"{one}-")), key=len, default="")


def with_extra(device: Device, extra: ContainerEdits) -> ContainerEdits:
    """A device's edits and what its kind adds for one claim. An interface that both name is called as the kind says."""
    if extra.is_empty():
        return device.edits
    named = {one.host_interface_name for one in extra.net_devices}
    left = tuple(one for one in device.edits.net_devices if one.host_interface_name not in named)
    return merge_edits((msgspec.structs.replace(device.edits, net_devices=left), extra))
