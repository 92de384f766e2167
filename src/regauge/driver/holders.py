"""Who holds a device now, as far as can be seen from this node. What cannot be seen is said, not taken for free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regauge.base import Files, RegaugeError
from regauge.driver.checkpoint import Checkpoint
from regauge.driver.description import Stack
from regauge.driver.fleet import Fleet
from regauge.driver.kubelet_checkpoint import read_kubelet_checkpoint
from regauge.kube import KubeClient
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.pluginapi import PluginNet, RpcError


@dataclass(frozen=True, slots=True)
class Held:
    """By whom, in words."""

    by: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why it cannot be seen."""

    why: str


Holders = Mapping[str, Held] | Unknown


class HolderSearch:
    """Asks the kubelet, the API server and the driver's own checkpoint."""

    def __init__(
        self,
        fleet: Fleet,
        checkpoint: Checkpoint,
        kubelet_dir: str,
        net: PluginNet,
        kube: KubeClient | None,
        files: Files,
    ) -> None:
        self._fleet = fleet
        self._checkpoint = checkpoint
        self._kubelet_dir = kubelet_dir
        self._net = net
        self._kube = kube
        self._files = files

    async def holders(self, stack: Stack) -> Holders:
        """The devices that pods hold through a stack, by name."""
        return await self._by_claims() if stack is Stack.DRA else await self._by_device_plugin()

    async def _by_claims(self) -> Holders:
        found = {
            held.device: Held(f"claim {claim.title}, prepared here")
            for claim in self._checkpoint.record.claims.values()
            for held in claim.devices
        }
        if self._kube is None:
            return found
        try:
            claims = (await self._kube.list(RESOURCE_CLAIM)).items
        except RegaugeError as error:
            return Unknown(f"the claims cannot be listed: {error}")
        for claim in claims:
            allocation = claim.get("status", {}).get("allocation") or {}
            for result in allocation.get("devices", {}).get("results", []):
                mine = (self._fleet.description.driver, self._fleet.pool)
                if (result.get("driver"), result.get("pool")) == mine:
                    metadata = claim["metadata"]
                    by = Held(f"claim {metadata.get('namespace')}/{metadata.get('name')}, allocated")
                    found.setdefault(result["device"], by)
        return found

    async def _by_device_plugin(self) -> Holders:
        resource = self._fleet.description.resource
        if not resource:
            return {}
        try:
            channel = await self._net.connect(f"{self._kubelet_dir}/pod-resources/kubelet.sock", timeout_s=2.0)
        except RpcError:
            return self._by_kubelet_checkpoint(resource)
        try:
            pods = await channel.pod_resources().list()
        except RpcError:
            return self._by_kubelet_checkpoint(resource)
        finally:
            await channel.close()
        return {
            id_: Held(f"pod {pod.namespace}/{pod.name}, container {container.name}")
            for pod in pods
            for container in pod.containers
            for devices in container.devices
            if devices.resource_name == resource
            for id_ in devices.device_ids
        }

    def _by_kubelet_checkpoint(self, resource: str) -> Holders:
        found = read_kubelet_checkpoint(self._files, self._kubelet_dir)
        if isinstance(found, str):
            return Unknown(found)
        return {
            id_: Held(f"pod {one.pod_uid}, container {one.container}, by the kubelet's checkpoint")
            for one in found.holdings
            if one.resource == resource
            for ids in one.device_ids.values()
            for id_ in ids
        }
