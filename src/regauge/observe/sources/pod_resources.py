"""What the kubelet of this node tells of devices in use: its pod resources API, else the checkpoint of its device manager."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from regauge.base import Files
from regauge.collect import checkpoint_report
from regauge.model import NodeReport, PluginDeviceHolder, PluginDeviceReport
from regauge.observe.ports import Readings, Trouble
from regauge.pluginapi import ContainerDevices, PluginNet, PodResources, RpcError

SOCKET = "pod-resources/kubelet.sock"
CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class PodResourcesSource:
    """`Source` of one node's report. `kubelet_dir` is absolute; of it only the socket and the checkpoint are read."""

    name: str
    node: str
    net: PluginNet
    files: Files
    kubelet_dir: str = "/var/lib/kubelet"
    timeout_s: float = TIMEOUT_S

    async def read(self, now_s: float) -> Readings:
        address = f"{self.kubelet_dir}/{SOCKET}"
        try:
            async with asyncio.timeout(self.timeout_s):
                report = await self._ask(address)
            return Readings(self.name, reports=(report,))
        except TimeoutError:
            trouble = Trouble(self.name, address, "slow", f"the kubelet did not answer within {self.timeout_s:g} s")
        except RpcError as error:
            reason = (
                "refused" if error.code in ("PermissionDenied", "Unimplemented", "ResourceExhausted") else "unreachable"
            )
            trouble = Trouble(self.name, address, reason, str(error))
        kept = await asyncio.to_thread(self._kept)
        return Readings(self.name, reports=() if kept is None else (kept,), troubles=(trouble,))

    async def close(self) -> None:
        return None

    async def _ask(self, address: str) -> NodeReport:
        channel = await self.net.connect(address)
        try:
            lister = channel.pod_resources()
            return node_report(self.node, await lister.get_allocatable_resources(), await lister.list())
        finally:
            await channel.close()

    def _kept(self) -> NodeReport | None:
        """What the checkpoint tells: devices of deleted pods stand in it until the kubelet needs one."""
        try:
            return checkpoint_report(self.node, self.files.read(f"{self.kubelet_dir}/{CHECKPOINT}"), {})
        except OSError:
            return None


def node_report(node: str, allocatable: Iterable[ContainerDevices], pods: Iterable[PodResources]) -> NodeReport:
    """A node's report from what its pod resources API answers. Upstream repeats entries: each device is told once."""
    devices = {(entry.resource_name, one): None for entry in allocatable for one in entry.device_ids}
    held: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for pod in pods:
        for container in pod.containers:
            for entry in container.devices:
                if entry.device_ids:
                    key = (pod.namespace, pod.name, container.name, entry.resource_name)
                    held.setdefault(key, {}).update(dict.fromkeys(entry.device_ids))
    return NodeReport(
        node,
        tuple(PluginDeviceReport(resource, one) for resource, one in devices),
        tuple(PluginDeviceHolder(*key, tuple(ids)) for key, ids in held.items()),
    )
