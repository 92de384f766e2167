"""Stand-ins for vendors' drivers: to a kubelet they are what a dump tells of them, and they touch no device.

A dump says which extended resources a node counts and which devices a driver published, not how a vendor prepares them. So
these answer as a well-behaved driver would: every allocation gets a CDI device that only sets a variable.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from regauge.base import Files, TransientError
from regauge.cdi import ContainerEdits, Device, Spec, spec_name
from regauge.cdi.directory import SpecDirectories
from regauge.kube import AlreadyExists, ApiError, KubeClient
from regauge.model import Object, view
from regauge.model.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.model.resource import DeviceRequestAllocationResult, ResourceClaim
from regauge.pluginapi import (
    DEVICE_PLUGIN_VERSION,
    DRA_PLUGIN_TYPE,
    DRA_V1,
    DRA_V1BETA1,
    HEALTHY,
    UNHEALTHY,
    ClaimRef,
    ContainerAllocateResponse,
    DevicePluginOptions,
    PluginDevice,
    PluginInfo,
    PluginNet,
    PreferredAllocationRequest,
    PreparedDevice,
    PrepareResult,
    RegisterRequest,
    RegistrationStatus,
    Services,
)

CLAIM_CLASS = "claim"
DEVICES_VARIABLE = "REGAUGE_DEVICES"
REPUBLISH_S = 10.0
LACKS = "regauge.dev/rehearsal-lacks"
"""The annotation by which a user lets a node's driver publish so many devices less: a broken device, for rehearsals."""
MOST_DIGITS = 4
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class StandInPlugin:
    """A device plugin of one resource: `healthy` devices that work and `unhealthy` ones that do not."""

    resource_name: str
    healthy: int
    unhealthy: int = 0

    @property
    def device_ids(self) -> tuple[str, ...]:
        short = self.resource_name.rpartition("/")[2]
        return tuple(f"{short}-{number}" for number in range(self.healthy + self.unhealthy))

    async def run(self, net: PluginNet, kubelet_dir: str) -> None:
        """Serve, register, and stay until cancelled."""
        endpoint = _UNSAFE.sub("-", self.resource_name) + ".sock"
        served = await net.serve(f"{kubelet_dir}/device-plugins/{endpoint}", Services(device_plugin=self))
        try:
            channel = await net.connect(f"{kubelet_dir}/device-plugins/kubelet.sock")
            request = RegisterRequest(DEVICE_PLUGIN_VERSION, endpoint, self.resource_name)
            await channel.kubelet_registration().register(request)
            await channel.close()
            await asyncio.Event().wait()
        finally:
            await served.stop()

    async def get_options(self) -> DevicePluginOptions:
        return DevicePluginOptions()

    async def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        yield tuple(
            PluginDevice(id_, HEALTHY if number < self.healthy else UNHEALTHY)
            for number, id_ in enumerate(self.device_ids)
        )
        await asyncio.Event().wait()

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        return tuple(request.available_ids[: request.allocation_size] for request in requests)

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        return tuple(ContainerAllocateResponse(envs={DEVICES_VARIABLE: ",".join(ids)}) for ids in requests)

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        """Nothing to reset."""


class StandInDriver:
    """A DRA driver on one node: prepares any claim that was allocated to it, by a CDI spec of the claim's own.

    `publishes` are the slices of the node that it keeps while it runs; none where the slices come from elsewhere. Where
    the node's annotation regauge.dev/rehearsal-lacks is a number, so many devices are missing in the first of them.
    """

    def __init__(
        self, driver: str, kube: KubeClient, files: Files, cdi_dir: str, publishes: tuple[Object, ...] = ()
    ) -> None:
        self._driver = driver
        self._publishes = publishes
        self._kube = kube
        self._specs = SpecDirectories(files, (cdi_dir,))
        self._endpoint = ""

    async def run(self, net: PluginNet, kubelet_dir: str) -> None:
        """Serve, be found in the registry, and stay until cancelled."""
        self._endpoint = f"{kubelet_dir}/plugins/{self._driver}.sock"
        served = await net.serve(self._endpoint, Services(dra=self))
        registry = f"{kubelet_dir}/plugins_registry/{self._driver}-reg.sock"
        registered = await net.serve(registry, Services(plugin_registration=self))
        try:
            while self._publishes:
                await self._publish()
                await asyncio.sleep(REPUBLISH_S)
            await asyncio.Event().wait()
        finally:
            await registered.stop()
            await served.stop()

    async def _publish(self) -> None:
        """The slices are there: a kubelet that starts removes them, a driver that lives puts them back."""
        for number, slice_ in enumerate(self._publishes):
            with contextlib.suppress(ApiError, TransientError):
                wanted = slice_ if number else await self._with_lacks(slice_)
                try:
                    await self._kube.create(RESOURCE_SLICE, wanted)
                except AlreadyExists:
                    await self._correct(wanted)

    async def _correct(self, wanted: Object) -> None:
        there = await self._kube.get(RESOURCE_SLICE, wanted["metadata"]["name"])
        devices = wanted["spec"]["devices"]
        if len(there["spec"].get("devices") or ()) != len(devices):
            await self._kube.update(RESOURCE_SLICE, {**there, "spec": {**there["spec"], "devices": devices}})

    async def _with_lacks(self, slice_: Object) -> Object:
        node = await self._kube.get(NODE, slice_["spec"]["nodeName"])
        text = (node["metadata"].get("annotations") or {}).get(LACKS, "")
        lacks = int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else 0
        devices = slice_["spec"]["devices"]
        return {**slice_, "spec": {**slice_["spec"], "devices": devices[: max(0, len(devices) - lacks)]}}

    async def get_info(self) -> PluginInfo:
        return PluginInfo(DRA_PLUGIN_TYPE, self._driver, self._endpoint, (DRA_V1, DRA_V1BETA1))

    async def notify_registration_status(self, status: RegistrationStatus) -> None:
        """The kubelet's word is of no use here."""

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        return {claim.uid: await self._prepare(claim) for claim in claims}

    async def _prepare(self, claim: ClaimRef) -> PrepareResult:
        try:
            found = view(await self._kube.get(RESOURCE_CLAIM, claim.name, claim.namespace), ResourceClaim)
        except ApiError as error:
            return PrepareResult(error=str(error))
        if found.metadata.uid != claim.uid or found.status.allocation is None:
            return PrepareResult(error=f"claim {claim.namespace}/{claim.name} was replaced or is not allocated")
        results = [item for item in found.status.allocation.devices.results if item.driver == self._driver]
        names = [f"{number}-{_UNSAFE.sub('-', item.device)}" for number, item in enumerate(results)]
        kind = f"{self._driver}/{CLAIM_CLASS}"
        devices = tuple(
            Device(name=f"{claim.uid}-{name}", container_edits=_edits(item)) for name, item in zip(names, results)
        )
        if devices:
            self._specs.write(Spec(cdi_version="0.6.0", kind=kind, devices=devices), spec_name(kind, claim.uid))
        return PrepareResult(
            tuple(
                PreparedDevice(
                    pool_name=item.pool,
                    device_name=item.device,
                    request_names=(item.request.partition("/")[0],),
                    cdi_device_ids=(f"{kind}={device.name}",),
                    share_id=item.share_id,
                )
                for item, device in zip(results, devices)
            )
        )

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        for claim in claims:
            self._specs.remove(spec_name(f"{self._driver}/{CLAIM_CLASS}", claim.uid))
        return {claim.uid: "" for claim in claims}


def _edits(result: DeviceRequestAllocationResult) -> ContainerEdits:
    name = f"REGAUGE_DEVICE_{_UNSAFE.sub('_', result.device).replace('-', '_').replace('.', '_')}"
    return ContainerEdits(env=(f"{name}={result.driver}/{result.pool}/{result.device}",))
