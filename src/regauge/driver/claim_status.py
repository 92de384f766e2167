"""Writes what is said of devices into their claims' status, and says of the prepared ones how they are (KEP-4817).

Nothing waits for these writes. What cannot be written is told once and tried again, ever more slowly.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from regauge.base import Clock, RegaugeError
from regauge.driver.checkpoint import ClaimState, HeldDevice, PreparedClaim
from regauge.driver.dra import Claims
from regauge.driver.fleet import Fleet
from regauge.driver.kinds import Report
from regauge.driver.notices import Notice, Tell
from regauge.driver.reports import READY, Entry, Said, with_entries
from regauge.driver.server import Server
from regauge.driver.signals import Signal, wait_at_most
from regauge.kube import Conflict, KubeClient, NotFound
from regauge.model.kinds import RESOURCE_CLAIM

GATE = "DRAResourceClaimDeviceStatus"
PAUSE_S = 1.0  # between two looks, however often health changes
LOOK_AGAIN_S = 60.0
RETRY_FIRST_S = 5.0
RETRY_LAST_S = 600.0


class StatusWriter:
    """One entry per device in a claim's status, written when it differs. `closed_until_s` keeps it from asking in vain."""

    def __init__(self, driver: str, kube: KubeClient, clock: Clock, tell: Tell) -> None:
        self._driver = driver
        self._kube = kube
        self._server = Server(kube, tell)
        self._clock = clock
        self._tell = tell
        self._told = ""
        self._retry_s = RETRY_FIRST_S
        self._closed_until_s = 0.0

    async def write(self, name: str, namespace: str, uid: str, entries: tuple[Entry, ...]) -> bool:
        """Make the claim's status say this of its devices. Returns whether it does, or never will: the claim is gone."""
        if self._clock.monotonic_s() < self._closed_until_s:
            return False
        try:
            if not (await self._server.rules()).on(GATE):
                self._close(f"the server does not have it: gate {GATE} is off")
                return False
            return await self._write(name, namespace, uid, entries)
        except Conflict:
            return False
        except RegaugeError as error:
            self._close(str(error))
            return False

    async def _write(self, name: str, namespace: str, uid: str, entries: tuple[Entry, ...]) -> bool:
        try:
            claim = await self._kube.get(RESOURCE_CLAIM, name, namespace)
        except NotFound:
            return True
        if claim["metadata"].get("uid") != uid:
            return True
        wanted = with_entries(claim, self._driver, entries, self._now())
        if wanted is None:
            return True
        try:
            stored = await self._kube.update(RESOURCE_CLAIM, wanted, namespace, subresource="status")
        except NotFound:
            return True
        if not (stored.get("status") or {}).get("devices"):
            self._close(f"the API server dropped status.devices: gate {GATE} is off")
            return False
        self._told, self._retry_s = "", RETRY_FIRST_S
        return True

    def _close(self, why: str) -> None:
        self._closed_until_s = self._clock.monotonic_s() + self._retry_s
        if why != self._told:
            self._told = why
            text = f"the status of claims is not written: {why}; tried again in {self._retry_s:g} s, then more slowly"
            self._tell(Notice("status-not-written", text, "warning", self._driver))
        self._retry_s = min(self._retry_s * 2, RETRY_LAST_S)

    def _now(self) -> str:
        return datetime.fromtimestamp(int(self._clock.now_s()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ClaimStatus:
    """Tells in the status of prepared claims how their devices are."""

    def __init__(self, fleet: Fleet, claims: Claims, writer: StatusWriter, clock: Clock, tell: Tell) -> None:
        self._fleet = fleet
        self._claims = claims
        self._writer = writer
        self._clock = clock
        self._tell = tell
        self._written: dict[str, tuple[Entry, ...]] = {}
        self._touched = Signal()

    async def run(self) -> None:
        """Write, and again whenever claims or health change. Runs until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for signal in (self._claims.settled, self._fleet.changed):
                tasks.create_task(self._follow(signal))
            while True:
                seen = self._touched.version
                done = await self.look()
                await self._clock.sleep(PAUSE_S)
                await wait_at_most(self._touched, seen, self._clock, LOOK_AGAIN_S if done else RETRY_FIRST_S)

    async def _follow(self, signal: Signal) -> None:
        seen = signal.version
        while True:
            seen = await signal.wait(seen)
            self._touched.set()

    async def look(self) -> bool:
        """Write once what differs. Returns whether nothing is left to write."""
        prepared = {uid: one for uid, one in self._claims.prepared.items() if _is_ready(one)}
        self._written = {uid: entries for uid, entries in self._written.items() if uid in prepared}
        done = True
        for uid, claim in prepared.items():
            entries = await self._entries(claim)
            if entries == self._written.get(uid):
                continue
            if claim.metadata:
                done = await self._update_metadata(uid, entries) and done
            if await self._writer.write(claim.name, claim.namespace, uid, entries):
                self._written[uid] = entries
            else:
                done = False
        return done

    async def _update_metadata(self, uid: str, entries: tuple[Entry, ...]) -> bool:
        try:
            await self._claims.update_metadata(uid, [entry.report for entry in entries])
        except OSError as error:
            self._tell(Notice("metadata-not-written", str(error), "error", uid))
            return False
        return True

    async def _entries(self, claim: PreparedClaim) -> tuple[Entry, ...]:
        return tuple(
            [
                Entry(held.pool, held.device, held.share_id, (self._ready(held),), await self._report(claim, held))
                for held in claim.devices
            ]
        )

    async def _report(self, claim: PreparedClaim, held: HeldDevice) -> Report | None:
        device = self._fleet.description.device(held.device)
        return None if device is None else await self._claims.report(claim, held, device)

    def _ready(self, held: HeldDevice) -> Said:
        condition = self._fleet.condition(held.device)
        if self._fleet.description.device(held.device) is None:
            return Said(READY, False, "Vanished", "the device is not found on its node any more")
        if condition.healthy:
            return Said(READY, True, "Prepared", "the device is ready")
        return Said(READY, False, "Unhealthy", condition.message)


def _is_ready(claim: PreparedClaim) -> bool:
    return bool(claim.name) and claim.state is ClaimState.COMPLETED
