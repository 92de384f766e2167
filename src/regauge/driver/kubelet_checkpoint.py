"""The kubelet's own file about device plugins, for when the kubelet does not answer. Pure but for the reading.

It keeps the devices of a deleted pod until it allocates the next time, and a plugin that has gone for five minutes.
"""

from __future__ import annotations

import msgspec

from regauge.base import Files


class Holding(msgspec.Struct, frozen=True):
    """What one container holds of one resource: device ids by NUMA node."""

    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    device_ids: dict[str, list[str]] = msgspec.field(name="DeviceIDs", default_factory=dict)


class _Data(msgspec.Struct, frozen=True):
    holdings: list[Holding] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices", default=None)


class _File(msgspec.Struct, frozen=True):
    data: _Data = msgspec.field(name="Data")


class KubeletCheckpoint(msgspec.Struct, frozen=True):
    """What is held, and by resource the ids of the healthy devices that its plugin listed last."""

    holdings: tuple[Holding, ...] = ()
    registered: tuple[tuple[str, tuple[str, ...]], ...] = ()


def read_kubelet_checkpoint(files: Files, kubelet_dir: str) -> KubeletCheckpoint | str:
    """The file's content, or why it cannot be told, in words."""
    path = f"{kubelet_dir}/device-plugins/kubelet_internal_checkpoint"
    try:
        data = msgspec.json.decode(files.read(path), type=_File).data
    except FileNotFoundError:
        return "neither the kubelet's pod resources socket nor its checkpoint is there"
    except (OSError, msgspec.MsgspecError) as error:
        return f"the kubelet's checkpoint {path} cannot be read: {error}"
    registered = tuple((name, tuple(ids or ())) for name, ids in sorted((data.registered or {}).items()))
    return KubeletCheckpoint(tuple(data.holdings or ()), registered)
