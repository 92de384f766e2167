"""CDI specs as values, up to version 1.1.0 of the specification. Frozen; field names on disk are those of the specification.

A value here is what a file says. Whether that is valid is asked of `validation`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What every part of a spec has in common: keyword arguments only, defaults left out on disk, nothing unknown."""


class DeviceNode(_Part, frozen=True, kw_only=True):
    """A device node to make in the container. Unknown numbers (0) and type ("") are taken from the host."""

    path: str
    host_path: str = field(default="", name="hostPath")
    type: str = ""
    major: Int64 = 0
    minor: Int64 = 0
    file_mode: UInt32 | None = field(default=None, name="fileMode")
    permissions: str = ""
    uid: UInt32 | None = None
    gid: UInt32 | None = None


class NetDevice(_Part, frozen=True, kw_only=True):
    """A network interface of the host to move into the container under a new name (1.1.0)."""

    host_interface_name: str = field(name="hostInterfaceName")
    name: str


class Hook(_Part, frozen=True, kw_only=True):
    """A program the runtime runs at a named moment of the container's life. `timeout` is in seconds."""

    hook_name: str = field(name="hookName")
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: Int64 | None = None


class Mount(_Part, frozen=True, kw_only=True):
    """A mount to add to the container."""

    host_path: str = field(name="hostPath")
    container_path: str = field(name="containerPath")
    options: tuple[str, ...] = ()
    type: str = ""


class IntelRdt(_Part, frozen=True, kw_only=True):
    """Intel resource director settings (0.7.0). `schemata` that is given, even empty, asks for 1.1.0."""

    clos_id: str = field(default="", name="closID")
    l3_cache_schema: str = field(default="", name="l3CacheSchema")
    mem_bw_schema: str = field(default="", name="memBwSchema")
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = field(default=False, name="enableMonitoring")


class ContainerEdits(_Part, frozen=True, kw_only=True):
    """What a runtime changes in a container's configuration."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = field(default=(), name="deviceNodes")
    net_devices: tuple[NetDevice, ...] = field(default=(), name="netDevices")
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = field(default=None, name="intelRdt")
    additional_gids: tuple[UInt32, ...] = field(default=(), name="additionalGids")

    def is_empty(self) -> bool:
        """Whether nothing would be changed. Settings without a value (`intelRdt: {}`) count as a change."""
        lists = (self.env, self.device_nodes, self.net_devices, self.hooks, self.mounts, self.additional_gids)
        return self.intel_rdt is None and not any(lists)


NO_EDITS = ContainerEdits()


class Device(_Part, frozen=True, kw_only=True):
    """One device of a spec: its unqualified name and what it takes to use it."""

    name: str
    annotations: dict[str, str] = {}
    container_edits: ContainerEdits = field(default=NO_EDITS, name="containerEdits")


class Spec(_Part, frozen=True, kw_only=True):
    """A CDI spec: the devices of one kind ("vendor/class") and edits that every one of them needs."""

    cdi_version: str = field(default="", name="cdiVersion")
    kind: str
    annotations: dict[str, str] = {}
    devices: tuple[Device, ...] = ()
    container_edits: ContainerEdits = field(default=NO_EDITS, name="containerEdits")
