"""The DRA stack's answers (dra/v1 and v1beta1): prepare and unprepare, in steps that survive a crash between any two.

Prepare: read the claims back, decide, write STARTED, prepare the devices, write the CDI spec, write COMPLETED. Unprepare:
take the devices back, remove the CDI spec, forget. A claim found in the middle is rolled back before it is tried again.
Calls wait for each other, so a claim that two pods bring at the same moment is prepared once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from regauge.base import Clock, InputError, RegaugeError
from regauge.driver.checkpoint import Checkpoint, ClaimState, HeldDevice, PreparedClaim
from regauge.driver.claims import Refusal, answer, plan, pod_claim_of
from regauge.driver.description import Device, Stack
from regauge.driver.device_metadata import DeviceMetadata, Known
from regauge.driver.fleet import Fleet
from regauge.driver.instances import Turns
from regauge.driver.kinds import ClaimUse, Configs, DeviceKind, Report, Reports
from regauge.driver.notices import Notice, Tell
from regauge.driver.opaque import read_configs
from regauge.driver.reports import check_report
from regauge.driver.signals import Signal, wait_at_most
from regauge.driver.specs import Specs, with_extra
from regauge.kube import KubeClient, NotFound
from regauge.model import Object
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.pluginapi import ClaimRef, DeviceHealth, Health, PrepareResult

HEALTH_TIMEOUT_S = 30
HEALTH_RESEND_S = 10.0
TOGETHER = (
    100  # calls carried out with one write of the checkpoint; more of them take turns, so that none waits for all
)


@dataclass(slots=True, eq=False)
class _Asked:
    """One call that waits for its answer."""

    claims: tuple[ClaimRef, ...]
    results: dict[str, PrepareResult] | None = None


class Claims:
    """`DRAPlugin`: claims of this node, prepared and unprepared."""

    def __init__(
        self,
        fleet: Fleet,
        kind: DeviceKind,
        checkpoint: Checkpoint,
        specs: Specs,
        kube: KubeClient | None,
        tell: Tell,
        turns: Turns,
        metadata: DeviceMetadata,
    ) -> None:
        self._fleet = fleet
        self._kind = kind
        self._checkpoint = checkpoint
        self._specs = specs
        self._kube = kube
        self._tell = tell
        self._turns = turns
        self._metadata = metadata
        self._asked: list[_Asked] = []
        self._unreported: dict[str, str] = {}
        self.released = Signal()
        self.settled = Signal()  # a claim was prepared, or released

    @property
    def prepared(self) -> Mapping[str, PreparedClaim]:
        return self._checkpoint.record.claims

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Calls that wait for each other are carried out together: with one write of the checkpoint for all of them."""
        mine = _Asked(tuple(claims))
        self._asked.append(mine)
        try:
            async with self._turns.mine():
                if mine.results is None:
                    await self._prepare_asked()
        finally:
            if mine in self._asked:  # given up
                self._asked.remove(mine)
        assert mine.results is not None
        for ref in claims:
            self._report(ref, mine.results[ref.uid])
        return mine.results

    async def _prepare_asked(self) -> None:
        together, self._asked = self._asked[:TOGETHER], self._asked[TOGETHER:]
        try:
            results = await self._prepare_all({ref.uid: ref for asked in together for ref in asked.claims})
        except BaseException:
            self._asked = [*together, *self._asked]  # whoever waits behind this caller starts anew
            raise
        for asked in together:
            asked.results = {ref.uid: results[ref.uid] for ref in asked.claims}

    async def _prepare_all(self, refs: Mapping[str, ClaimRef]) -> dict[str, PrepareResult]:
        results = {uid: answer(known) for uid in refs if (known := self._ready(uid)) is not None}
        if len(results) == len(refs):
            return results
        asked = [ref for ref in refs.values() if ref.uid not in results]
        read = await asyncio.gather(*(self._read(ref) for ref in asked))
        begun: dict[str, PreparedClaim] = {}
        for ref, found in zip(asked, read, strict=True):
            started = await self._decide(ref, found, tuple(begun.values()))
            if isinstance(started, PrepareResult):
                results[ref.uid] = started
            else:
                begun[ref.uid] = started
        return results | await self._carry_out(tuple(begun.values()))

    def _ready(self, uid: str) -> PreparedClaim | None:
        """A claim that is prepared, with all that containers need of it still there."""
        known = self.prepared.get(uid)
        if known is None or known.state is not ClaimState.COMPLETED or not known.name or not self._specs.has_claim(uid):
            return None
        return known if not known.metadata or self._metadata.is_whole(known) else None

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        async with self._turns.mine():
            return await self._unprepare_all([ref.uid for ref in claims])

    async def unprepare(self, uid: str) -> str:
        """The same for one claim that the driver itself knows to be gone. Returns what went wrong, or empty text."""
        try:
            async with self._turns.mine():
                return await self._unprepare(uid)
        except OSError as error:
            return str(error)

    async def roll_back(self, claim: PreparedClaim) -> None:
        """Undo a claim that was cut off. For whoever has the turn."""
        problem = await self._unprepare(claim.uid)
        self._tell(Notice("rolled-back", problem or f"a claim left {claim.state} is undone", about=claim.title))

    async def drained(self) -> None:
        """Come back when no call is being carried out here."""
        await self._turns.idle()

    async def _read(self, ref: ClaimRef) -> Object | Refusal | None:
        """The claim from the API server; None when what is prepared for it already will do."""
        known = self.prepared.get(ref.uid)
        if known is not None and known.state is ClaimState.COMPLETED and known.name:
            return None
        if self._kube is None:
            return Refusal("the driver runs without an API server, so it cannot read the claim")
        try:
            return await self._kube.get(RESOURCE_CLAIM, ref.name, ref.namespace)
        except NotFound:
            return Refusal(f"claim {ref.namespace}/{ref.name} does not exist (any more)")
        except RegaugeError as error:
            return Refusal(f"claim {ref.namespace}/{ref.name} cannot be read: {error}")

    async def _decide(
        self, ref: ClaimRef, found: Object | Refusal | None, begun: tuple[PreparedClaim, ...]
    ) -> PrepareResult | PreparedClaim:
        """An answer, or the claim as it is to be prepared now."""
        known = self.prepared.get(ref.uid)
        if known is not None and found is None:
            return msgspec.structs.replace(known, state=ClaimState.STARTED)
        if isinstance(found, Refusal) or found is None:
            return PrepareResult(error=found.text if found else f"claim {ref.uid} was unprepared meanwhile")
        if known is not None and known.state is ClaimState.STARTED:
            problem = await self._unprepare(ref.uid)
            if problem:
                return PrepareResult(error=f"an earlier try is not rolled back: {problem}")
        planned = plan(ref, found, self._fleet.assigned(), (*self.prepared.values(), *begun))
        if isinstance(planned, Refusal):
            return PrepareResult(error=planned.text)
        try:
            for held in planned:
                read_configs(held.config, self._kind.CONFIGS)
        except InputError as error:
            return PrepareResult(error=f"claim {ref.namespace}/{ref.name}: {error}")
        return PreparedClaim(
            uid=ref.uid,
            namespace=ref.namespace,
            name=ref.name,
            state=ClaimState.STARTED,
            devices=planned,
            pod_claim=pod_claim_of(found),
            metadata=self._fleet.description.metadata,
        )

    async def _carry_out(self, begun: tuple[PreparedClaim, ...]) -> dict[str, PrepareResult]:
        if not begun:
            return {}
        try:
            self._checkpoint.put(*begun)
        except OSError as error:
            return {claim.uid: PrepareResult(error=f"the checkpoint cannot be written: {error}") for claim in begun}
        results: dict[str, PrepareResult] = {}
        done: list[PreparedClaim] = []
        for claim in begun:
            await asyncio.sleep(0)  # others are heard in between, however many there are
            try:
                done.append(await self._prepare(claim))
            except Exception as error:  # whatever a kind raises is this claim's error and no other's
                results[claim.uid] = PrepareResult(error=await self._rolled_back(claim.uid, str(error)))
        try:
            self._checkpoint.put(*done)
        except OSError as error:
            for claim in done:
                text = f"the checkpoint cannot be written: {error}"
                results[claim.uid] = PrepareResult(error=await self._rolled_back(claim.uid, text))
            return results
        if done:
            self.settled.set()
        return results | {claim.uid: answer(claim) for claim in done}

    async def _prepare(self, claim: PreparedClaim) -> PreparedClaim:
        edits, devices = [], []
        for held in claim.devices:
            device = self._device(held.device)
            config = read_configs(held.config, self._kind.CONFIGS)
            extra = await self._kind.prepare(device, use_of(claim, held, config))
            edits.append((msgspec.structs.replace(held, cdi_ids=device.cdi_names), with_extra(device, extra)))
            devices.append(device)
        named = self._specs.write_claim(claim.uid, edits)
        if claim.metadata:
            pairs = zip(named, devices, strict=True)
            named = self._metadata.write(claim, [Known(h, d, await self.report(claim, h, d)) for h, d in pairs])
        return msgspec.structs.replace(claim, state=ClaimState.COMPLETED, devices=named)

    async def report(self, claim: PreparedClaim, held: HeldDevice, device: Device) -> Report | None:
        """What the kind tells of a device of a claim; None when it tells nothing, or cannot, which is told."""
        if not isinstance(self._kind, Reports):
            return None
        try:
            report = await self._kind.report(device, use_of(claim, held, configs_of(held, self._kind.CONFIGS)))
            check_report(report, device.name)
        except Exception as error:  # whatever a kind raises: the device is ready all the same
            if self._unreported.get(device.name) != str(error):
                self._unreported[device.name] = str(error)
                self._tell(Notice("report-failed", str(error), "warning", claim.title))
            return None
        self._unreported.pop(device.name, None)
        return report

    async def update_metadata(self, uid: str, reports: Sequence[Report | None]) -> None:
        """Write what is known by now of the devices of a claim, in their order, where it differs. Raises `OSError`."""
        async with self._turns.mine():
            claim = self.prepared.get(uid)
            devices = [self._fleet.description.device(held.device) for held in claim.devices] if claim else []
            if claim is not None and claim.metadata and len(devices) == len(reports):
                triples = zip(claim.devices, devices, reports, strict=True)
                known = [Known(held, device, report) for held, device, report in triples if device is not None]
                if len(known) == len(devices) and self._metadata.update(claim, known):
                    self._tell(
                        Notice("metadata-updated", "what is known of the devices has changed", about=claim.title)
                    )

    async def _rolled_back(self, uid: str, text: str) -> str:
        problem = await self._unprepare(uid)
        return f"{text}; and it is not rolled back: {problem}" if problem else text

    async def _unprepare(self, uid: str) -> str:
        return (await self._unprepare_all([uid]))[uid]

    async def _unprepare_all(self, uids: Sequence[str]) -> dict[str, str]:
        """Release claims, with one write of the checkpoint for all. Returns what went wrong with each, or empty text."""
        claims = {uid: self.prepared.get(uid) for uid in uids}
        left, problems = dict(self.prepared), {}
        for uid, claim in claims.items():
            problems[uid] = await self._taken_back(uid, claim, left)
            if not problems[uid]:
                left.pop(uid, None)
        done = [uid for uid, problem in problems.items() if not problem]
        try:
            self._checkpoint.forget(*done)
        except OSError as error:
            problems.update(dict.fromkeys(done, f"the checkpoint cannot be written: {error}"))
        for uid, claim in claims.items():
            if problems[uid]:
                self._tell(Notice("unprepare-failed", problems[uid], "error", claim.title if claim else uid))
            elif claim is not None:
                self._tell(Notice("unprepared", "devices released", about=claim.title))
                self.released.set()
                self.settled.set()
        return problems

    async def _taken_back(self, uid: str, claim: PreparedClaim | None, left: Mapping[str, PreparedClaim]) -> str:
        """Undo all that was done for a claim, but for its place in the checkpoint. Returns what went wrong."""
        try:
            for held in claim.devices if claim else ():
                device = self._fleet.description.device(held.device)
                if claim is not None and device is not None:
                    await self._kind.unprepare(device, use_of(claim, held, configs_of(held, self._kind.CONFIGS)))
            self._specs.remove_claim(uid)
            if claim is not None and claim.metadata:
                self._metadata.remove(claim, left.values())
        except Exception as error:  # whatever a kind raises is told to the kubelet, which calls again
            return str(error) or type(error).__name__
        return ""

    def _device(self, name: str) -> Device:
        device = self._fleet.description.device(name)
        if device is None:
            raise LookupError(f"device {name} is not on this node (any more)")
        return device

    def _report(self, ref: ClaimRef, result: PrepareResult) -> None:
        about = f"{ref.namespace}/{ref.name} ({ref.uid})"
        if result.error:
            self._tell(Notice("prepare-failed", result.error, "error", about))
        else:
            names = ", ".join(device.device_name for device in result.devices)
            self._tell(Notice("prepared", f"devices {names}", about=about))


def use_of(claim: PreparedClaim, held: HeldDevice, config: tuple[Any, ...]) -> ClaimUse:
    """For whom a device of a claim is, as a kind is told."""
    return ClaimUse(claim.uid, claim.namespace, claim.name, held.requests, held.share_id, held.consumed, config)


def configs_of(held: HeldDevice, known: Configs) -> tuple[Any, ...]:
    """The parameters of a device. Those that another version of the driver took and this one does not know release their
    device all the same."""
    try:
        return read_configs(held.config, known)
    except InputError:
        return ()


class HealthReports:
    """`DRAHealth`: a full report at once, at each change, and again in time before the kubelet calls it stale."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock

    async def node_watch_resources(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        while True:
            seen = self._fleet.changed.version
            yield self.report()
            await wait_at_most(self._fleet.changed, seen, self._clock, HEALTH_RESEND_S)

    def report(self) -> tuple[DeviceHealth, ...]:
        """The health of every device of this stack."""
        now_s = int(self._clock.now_s())
        conditions = [(device.name, self._fleet.condition(device.name)) for device in self._fleet.of(Stack.DRA)]
        return tuple(
            DeviceHealth(
                self._fleet.pool,
                name,
                Health.HEALTHY if condition.healthy else Health.UNHEALTHY,
                now_s,
                HEALTH_TIMEOUT_S,
                condition.message,
            )
            for name, condition in conditions
        )
