"""The pod resources API (v1): which devices the pods of a node hold, and which there are. Every device is told once.

Source: pkg/kubelet/apis/podresources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from regauge.cluster.kubelet.device_manager import DeviceManager
from regauge.cluster.kubelet.dra_manager import DRAManager
from regauge.model.core import Container, Pod
from regauge.pluginapi import ContainerDevices, ContainerResources, PodResources, RpcError


@dataclass(slots=True)
class PodResourcesServer:
    """`PodResourcesLister` of a node. `pods` gives the pods whose containers may run."""

    pods: Callable[[], Iterable[Pod]]
    devices: DeviceManager
    dra: DRAManager

    async def list(self) -> tuple[PodResources, ...]:
        return tuple(self._pod(pod) for pod in self.pods())

    async def get(self, namespace: str, name: str) -> PodResources:
        for pod in self.pods():
            if (pod.metadata.namespace, pod.metadata.name) == (namespace, name):
                return self._pod(pod)
        raise RpcError("Unknown", f"pod {name} in namespace {namespace} not found")

    async def get_allocatable_resources(self) -> tuple[ContainerDevices, ...]:
        table = self.devices.table
        return tuple(
            ContainerDevices(resource, (id_,), table.devices[resource][id_].numa_nodes)
            for resource, ids in table.healthy.items()
            for id_ in ids
        )

    def _pod(self, pod: Pod) -> PodResources:
        sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
        containers = tuple(self._container(pod, one) for one in (*sidecars, *pod.spec.containers))
        return PodResources(pod.metadata.name, pod.metadata.namespace, containers)

    def _container(self, pod: Pod, container: Container) -> ContainerResources:
        nodes: dict[tuple[str, str], list[int]] = {}
        for entry in self.devices.table.held(pod.metadata.uid, container.name):
            for node, ids in entry.device_ids.items():
                for id_ in ids:
                    nodes.setdefault((entry.resource, id_), []).extend([node] if node >= 0 else [])
        devices = tuple(ContainerDevices(resource, (id_,), tuple(at)) for (resource, id_), at in nodes.items())
        return ContainerResources(container.name, devices, self.dra.dynamic_resources(pod, container))
