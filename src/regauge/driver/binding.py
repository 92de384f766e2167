"""Devices that are got ready before a Pod is bound to their node (KEP-5007).

The scheduler chooses such a device, writes the claim's allocation, and waits until the claim's status says that the device's
binding conditions hold, or one of its failure conditions. This is who says it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from regauge.base import Clock, InputError, RegaugeError
from regauge.driver.claim_status import StatusWriter
from regauge.driver.fleet import Fleet
from regauge.driver.kinds import Binds, Bound, ClaimUse, Configs
from regauge.driver.notices import Notice, Tell
from regauge.driver.opaque import for_request, read_configs
from regauge.driver.reports import Entry, Said
from regauge.kube import Gone, KubeClient
from regauge.model import Object, view
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.model.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim

PERIOD_S = 2.0
WATCH_RETRY_S = 5.0


def awaited(claim: ResourceClaim, driver: str, pool: str) -> tuple[DeviceRequestAllocationResult, ...]:
    """The devices of this driver and pool that a claim has and whose Pod still waits for them."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    mine = (one for one in results if (one.driver, one.pool) == (driver, pool) and one.binding_conditions)
    return tuple(one for one in mine if not _decided(one, claim.status.devices))


def _decided(result: DeviceRequestAllocationResult, entries: Iterable[AllocatedDeviceStatus]) -> bool:
    key = (result.driver, result.pool, result.device, result.share_id)
    entry = next((one for one in entries if (one.driver, one.pool, one.device, one.share_id) == key), None)
    holding = {one.type for one in entry.conditions if one.status == "True"} if entry else set()
    return holding.issuperset(result.binding_conditions) or not holding.isdisjoint(result.binding_failure_conditions)


class Binding:
    """Asks the kind for the devices that Pods wait for, and writes what it says into their claims."""

    def __init__(
        self,
        fleet: Fleet,
        kind: Binds,
        configs: Configs,
        kube: KubeClient,
        writer: StatusWriter,
        clock: Clock,
        tell: Tell,
    ) -> None:
        self._fleet = fleet
        self._kind = kind
        self._configs = configs
        self._kube = kube
        self._writer = writer
        self._clock = clock
        self._tell = tell
        self._waiting: dict[str, ResourceClaim] = {}
        self._trouble: dict[str, str] = {}

    async def run(self) -> None:
        """Follow the claims as long as there are devices for which a Pod waits. Runs until it is cancelled."""
        seen = self._fleet.changed.version
        while not any(device.binding_conditions for device in self._fleet.description.devices):
            seen = await self._fleet.changed.wait(seen)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            while True:
                await self._clock.sleep(PERIOD_S)
                for uid, claim in tuple(self._waiting.items()):
                    if await self._bind(claim) and self._waiting.get(uid) is claim:
                        del self._waiting[uid]

    async def _watch(self) -> None:
        while True:
            try:
                found = await self._kube.list(RESOURCE_CLAIM)
                self._waiting = {}
                for claim in found.items:
                    self._see(claim, "ADDED")
                async for event in self._kube.watch(RESOURCE_CLAIM, resource_version=found.resource_version):
                    self._see(event.object, event.type)
            except Gone:
                pass  # the list has what was missed
            except RegaugeError as error:
                self._tell(Notice("watch-failed", f"claims are not watched: {error}", "warning"))
            await self._clock.sleep(WATCH_RETRY_S)

    def _see(self, document: Object, event: str) -> None:
        claim = view(document, ResourceClaim)
        self._waiting.pop(claim.metadata.uid, None)
        if event != "DELETED" and awaited(claim, self._fleet.description.driver, self._fleet.pool):
            self._waiting[claim.metadata.uid] = claim

    async def _bind(self, claim: ResourceClaim) -> bool:
        """Returns whether nothing is awaited any more."""
        results = awaited(claim, self._fleet.description.driver, self._fleet.pool)
        entries = []
        for result in results:
            bound = await self._asked(claim, result)
            if bound is not None:
                entries.append(_entry(result, bound))
        metadata = claim.metadata
        written = await self._writer.write(metadata.name, metadata.namespace, metadata.uid, tuple(entries))
        if written:
            for entry in entries:
                text = f"device {entry.device}: {entry.conditions[0].reason}"
                self._tell(Notice("bound", text, about=f"{metadata.namespace}/{metadata.name} ({metadata.uid})"))
        return written and len(entries) == len(results)

    async def _asked(self, claim: ResourceClaim, result: DeviceRequestAllocationResult) -> Bound | None:
        device = self._fleet.description.device(result.device)
        if device is None:
            return Bound(False, "the device is not found on its node any more")
        metadata, allocation = claim.metadata, claim.status.allocation
        title = f"{metadata.namespace}/{metadata.name} ({metadata.uid})"
        try:
            opaque = for_request(allocation.devices.config if allocation else (), result.driver, result.request)
            use = ClaimUse(
                metadata.uid,
                metadata.namespace,
                metadata.name,
                (result.request.partition("/")[0],),
                result.share_id,
                {name: str(value) for name, value in result.consumed_capacity.items()},
                read_configs(opaque, self._configs),
            )
        except InputError as error:
            return Bound(False, str(error))
        try:
            return await self._kind.bind(device, use)
        except Exception as error:  # whatever a kind raises: it is asked again
            if self._trouble.get(device.name) != str(error):
                self._trouble[device.name] = str(error)
                self._tell(Notice("bind-failed", f"device {device.name}: {error}; tried again", "warning", title))
            return None


def _entry(result: DeviceRequestAllocationResult, bound: Bound) -> Entry:
    types = result.binding_conditions if bound.ready else result.binding_failure_conditions[:1]
    reason = "DeviceReady" if bound.ready else "DeviceNotReady"
    said = tuple(Said(type_, True, reason, bound.message) for type_ in types)
    return Entry(result.pool, result.device, result.share_id, said)
