"""What nodes tell of their devices, from the files that were read on them: who lists which device, who holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from regauge.collect.estate import Estate
from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport
from regauge.model.kinds import POD
from regauge.model.node_files import NodeFiles

DEVICE_CHECKPOINT = "kubelet_internal_checkpoint"


class _Entry(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID", default="")
    container: str = msgspec.field(name="ContainerName", default="")
    resource: str = msgspec.field(name="ResourceName", default="")
    device_ids: dict[str, list[str]] = msgspec.field(name="DeviceIDs", default_factory=dict)


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries", default=None)
    registered: dict[str, list[str]] | None = msgspec.field(name="RegisteredDevices", default=None)


class _Checkpoint(msgspec.Struct):
    data: _Data = msgspec.field(name="Data", default_factory=_Data)


def reports_of(estate: Estate) -> tuple[NodeReport, ...]:
    """One report for each node whose device manager's checkpoint was read and can be understood.

    A pod that is no longer in the estate is told by its uid.
    """
    known = estate.snapshot.documents(POD) if estate.nodes else ()
    pods = {str(item.metadata.get("uid", "")): (item.namespace, item.name) for item in known}
    found = (_report(name, files, pods) for name, files in sorted(estate.nodes.items()))
    return tuple(report for report in found if report is not None)


def _report(name: str, files: NodeFiles, pods: Mapping[str, tuple[str, str]]) -> NodeReport | None:
    data = next((file.data for file in files.kubelet if file.path.endswith(f"/{DEVICE_CHECKPOINT}")), None)
    return None if data is None else checkpoint_report(name, data, pods)


def checkpoint_report(name: str, data: bytes, pods: Mapping[str, tuple[str, str]]) -> NodeReport | None:
    """What the device manager's checkpoint of a node tells; None where it cannot be understood. `pods`: uid to namespace
    and name."""
    try:
        checkpoint = msgspec.json.decode(data, type=_Checkpoint).data
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    devices = tuple(
        PluginDeviceReport(resource, id_)
        for resource, ids in sorted((checkpoint.registered or {}).items())
        for id_ in sorted(ids)
    )
    return NodeReport(name, devices, tuple(_holders(checkpoint.entries or (), pods)))


def _holders(entries: Iterable[_Entry], pods: Mapping[str, tuple[str, str]]) -> Iterator[PluginDeviceHolder]:
    for entry in entries:
        namespace, pod = pods.get(entry.pod_uid, ("", f"uid {entry.pod_uid}"))
        ids = tuple(sorted(id_ for ids in entry.device_ids.values() for id_ in ids))
        yield PluginDeviceHolder(namespace, pod, entry.container, entry.resource, ids, entry.pod_uid)
