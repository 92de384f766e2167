"""Injection: what the devices asked for change in an OCI runtime configuration. Pure; the document given is never changed.

Order, as in the reference: for each device asked for, the common edits of its spec (once per spec), then its own; all of that
is put together and applied kind by kind: env, device nodes, network devices, mounts, hooks, Intel RDT, groups. Unlike the
reference, a failure leaves nothing half done, because the result is a new document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from regauge.cdi.catalog import Catalog
from regauge.cdi.model import NO_EDITS, ContainerEdits, DeviceNode, Hook, IntelRdt, Mount
from regauge.cdi.validation import edit_errors

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A device node of the host: `type` b, c or p; `file_mode` the permission bits."""

    type: str
    major: int
    minor: int
    file_mode: int


@dataclass(frozen=True, slots=True)
class NoHostDevice:
    """Why there is no device node at a path of the host."""

    reason: str


class Host(Protocol):
    """What injection asks of the host."""

    def device(self, path: str) -> HostDevice | NoHostDevice:
        """The device node at `path`; symbolic links are not followed."""


@dataclass(frozen=True, slots=True)
class RecordedHost:
    """A host known from a record: device nodes by path."""

    devices: Mapping[str, HostDevice]

    def device(self, path: str) -> HostDevice | NoHostDevice:
        return self.devices.get(path) or NoHostDevice("no such file or directory")


@dataclass(frozen=True, slots=True)
class Injected:
    """The new runtime configuration."""

    document: Document


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing was injected. `unresolved` are the names that no spec defines, or that are in conflict."""

    reason: str
    unresolved: tuple[str, ...] = ()


class _Failure(Exception):
    """An edit that cannot be applied. Turned into `Refused`."""


def inject(document: Mapping[str, Any], names: Sequence[str], catalog: Catalog, host: Host) -> Injected | Refused:
    """`document` (an OCI runtime configuration) with the devices of these qualified names, or why not."""
    unresolved = tuple(name for name in names if name not in catalog.devices)
    if unresolved:
        reasons = "; ".join(catalog.why_not(name) or "" for name in dict.fromkeys(unresolved))
        return Refused(f"unresolvable CDI devices {', '.join(unresolved)}: {reasons}", unresolved)
    return apply_edits(document, edits_for(names, catalog), host)


def edits_for(names: Sequence[str], catalog: Catalog) -> ContainerEdits:
    """All edits for these devices in one. Raises `KeyError` for a name that the catalog does not have."""
    parts: list[ContainerEdits] = []
    seen: set[str] = set()
    for name in names:
        entry = catalog.devices[name]
        if entry.file.path not in seen and entry.file.spec is not None:
            seen.add(entry.file.path)
            parts.append(entry.file.spec.container_edits)
        parts.append(entry.device.container_edits)
    return merge_edits(parts)


def merge_edits(parts: Sequence[ContainerEdits]) -> ContainerEdits:
    """Edits one after the other as one; of several Intel RDT settings the last wins, whole."""
    return ContainerEdits(
        env=tuple(item for part in parts for item in part.env),
        device_nodes=tuple(node for part in parts for node in part.device_nodes),
        net_devices=tuple(device for part in parts for device in part.net_devices),
        hooks=tuple(hook for part in parts for hook in part.hooks),
        mounts=tuple(mount for part in parts for mount in part.mounts),
        intel_rdt=next((part.intel_rdt for part in reversed(parts) if part.intel_rdt is not None), None),
        additional_gids=tuple(gid for part in parts for gid in part.additional_gids),
    )


def apply_edits(document: Mapping[str, Any], edits: ContainerEdits, host: Host) -> Injected | Refused:
    """`document` with these edits, or why they cannot be applied."""
    if edits == NO_EDITS:
        return Injected(dict(document))
    for finding in edit_errors(edits):
        return Refused(str(finding))
    editor = _Editor(dict(document))
    try:
        if edits.env:
            editor.add_env(edits.env)
        for node in edits.device_nodes:
            editor.add_device(node, host)
        for device in edits.net_devices:
            editor.open("linux", "netDevices")[device.host_interface_name] = {"name": device.name}
        if edits.mounts:
            editor.add_mounts(edits.mounts)
        for hook in edits.hooks:
            editor.items("hooks", hook.hook_name).append(_oci_hook(hook))
        if edits.intel_rdt is not None:
            editor.open("linux")["intelRdt"] = _oci_rdt(edits.intel_rdt)
        for gid in edits.additional_gids:
            editor.add_group(gid)
    except _Failure as failure:
        return Refused(str(failure))
    return Injected(editor.document)


class _Editor:
    """A document being edited. Whatever is touched is copied first, once, so the original keeps what it had."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._owned: set[int] = {id(document)}

    def open(self, *path: str) -> Document:
        """The mapping at `path`, ours to change, made when missing."""
        here = self.document
        for depth, name in enumerate(path):
            here = self._own(here, name, dict(here.get(name) or _FRESH.get(path[: depth + 1], {})))
        return here

    def items(self, *path: str) -> list[Any]:
        """The list at `path`, ours to change, made when missing."""
        parent = self.open(*path[:-1])
        owned: list[Any] = self._own(parent, path[-1], list(parent.get(path[-1]) or []))
        return owned

    def _own(self, parent: Document, name: str, copy: Any) -> Any:
        if id(parent.get(name)) not in self._owned:
            parent[name] = copy
            self._owned.add(id(copy))
        return parent[name]

    def add_env(self, env: Sequence[str]) -> None:
        """Replace variables in place (the last one of a name, if the input has it twice), append new ones."""
        present = self.items("process", "env")
        place = {item.partition("=")[0]: index for index, item in enumerate(present)}
        for item in env:
            name = item.partition("=")[0]
            if name in place:
                present[place[name]] = item
            else:
                place[name] = len(present)
                present.append(item)

    def add_device(self, node: DeviceNode, host: Host) -> None:
        """Add the device node in place of one with the same path, and allow it in the device cgroup."""
        device = _oci_device(node, host)
        user = (self.document.get("process") or {}).get("user") or {}
        for name in ("uid", "gid"):
            if name not in device and user.get(name, 0) > 0:
                device[name] = user[name]
        devices = self.items("linux", "devices")
        _remove_first(devices, "path", node.path)
        devices.append(device)
        if device["type"] in ("b", "c"):
            rule = {"allow": True, "type": device["type"], "major": device["major"], "minor": device["minor"]}
            if node.permissions != "none":
                rule["access"] = node.permissions or "rwm"
            self.items("linux", "resources", "devices").append(rule)

    def add_mounts(self, mounts: Sequence[Mount]) -> None:
        """Add mounts in place of those with exactly the same destination, then sort all by depth, stably."""
        present = self.items("mounts")
        mapped = _maps_ids(self.document)
        for mount in mounts:
            _remove_first(present, "destination", mount.container_path)
            present.append(_oci_mount(mount, mapped))
        present.sort(key=lambda mount: clean_path(mount.get("destination", "")).count("/"))

    def add_group(self, gid: int) -> None:
        """Add a supplementary group, once; 0 is passed over."""
        if gid:
            groups = self.items("process", "user", "additionalGids")
            if gid not in groups:
                groups.append(gid)


# What the runtime specification requires of parts that are made because they were missing.
_FRESH: Mapping[tuple[str, ...], Document] = {
    ("process",): {"user": {"uid": 0, "gid": 0}, "cwd": ""},
    ("process", "user"): {"uid": 0, "gid": 0},
}


def clean_path(path: str) -> str:
    """The shortest path that means the same by its text alone: no doubled slashes, no "." and no "..", as far as they go."""
    rooted = path.startswith("/")
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            kept.append(part)
        elif kept and kept[-1] != "..":
            kept.pop()
        elif not rooted:
            kept.append(part)
    return "/" + "/".join(kept) if rooted else "/".join(kept) or "."


def _remove_first(items: list[Any], key: str, value: str) -> None:
    for index, item in enumerate(items):
        if item.get(key) == value:
            del items[index]
            return


def _oci_device(node: DeviceNode, host: Host) -> Document:
    """The node for the runtime; what the spec does not say is taken from the host."""
    path = node.host_path or node.path
    complete = node.type != "" and (node.major != 0 or node.type == "p")
    found = host.device(path)
    kind, major, minor, mode = node.type, node.major, node.minor, node.file_mode
    if isinstance(found, NoHostDevice):
        # A node that says type and number can be made without its twin on the host.
        if not complete:
            raise _Failure(f"device node {node.path}: the host has no device {path}: {found.reason}")
    else:
        mode = found.file_mode if mode is None else mode
        if not complete:
            kind = kind or found.type
            if kind != found.type:
                raise _Failure(
                    f"device node {node.path}: the spec says type {kind}, {path} on the host is {found.type}"
                )
            if kind != "p" and major == 0:
                major, minor = found.major, found.minor
    device: Document = {"path": node.path, "type": kind, "major": major, "minor": minor}
    optional = {"fileMode": mode, "uid": node.uid, "gid": node.gid}
    return device | {name: value for name, value in optional.items() if value is not None}


def _oci_mount(mount: Mount, mapped: bool) -> Document:
    options = list(mount.options)
    if mapped and not {"idmap", "ridmap"} & set(options):
        kinds = {"bind": "idmap", "rbind": "ridmap"}
        wanted = [kinds[option] for option in options if option in kinds] or [kinds["bind"]] * (mount.type == "bind")
        options += wanted[-1:]
    document: Document = {"destination": mount.container_path, "source": mount.host_path}
    if mount.type:
        document["type"] = mount.type
    if options:
        document["options"] = options
    return document


def _oci_hook(hook: Hook) -> Document:
    document: Document = {"path": hook.path}
    if hook.args:
        document["args"] = list(hook.args)
    if hook.env:
        document["env"] = list(hook.env)
    if hook.timeout is not None:
        document["timeout"] = hook.timeout
    return document


def _oci_rdt(rdt: IntelRdt) -> Document:
    document: Document = msgspec.json.decode(msgspec.json.encode(rdt))
    return {name: value for name, value in document.items() if value}


def _maps_ids(document: Document) -> bool:
    """Whether the container has a user namespace of its own with both mappings: only then can mounts be mapped."""
    linux = document.get("linux") or {}
    if not (linux.get("uidMappings") and linux.get("gidMappings")):
        return False
    return any(namespace.get("type") == "user" for namespace in linux.get("namespaces") or [])
