"""What only a node knows: the devices its plugins list, and who holds them. Made by `collect` or by a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PluginDeviceReport:
    """One device that a device plugin lists. `identity` is what is physically known: uuid, pci, device (major:minor)."""

    resource_name: str
    device_id: str
    healthy: bool = True
    identity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginDeviceHolder:
    """A container that the kubelet gave devices of a device plugin to. `pod_uid` is "" where the source does not tell it

    (pod resources do not); `namespace` is "" where only the uid is known.
    """

    namespace: str
    pod: str
    container: str
    resource_name: str
    device_ids: tuple[str, ...]
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node's own view. `identities` tells more of DRA devices than their attributes do: (driver, pool, device)."""

    node: str
    plugin_devices: tuple[PluginDeviceReport, ...] = ()
    holders: tuple[PluginDeviceHolder, ...] = ()
    identities: Mapping[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)
