"""Every device belongs to one stack; it goes to the other only when nobody holds it.

A device on its way belongs to nobody: it is taken from the old stack, the holders are asked again once that is public, and
only then the new stack gets it. A device that somebody holds stays where it is, and is asked for again later. The owners are
in the checkpoint, so a description that changes while the driver is away makes no difference.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from regauge.base import Clock
from regauge.driver.checkpoint import Checkpoint, Owner
from regauge.driver.description import Device, Stack, part_mark
from regauge.driver.fleet import Fleet
from regauge.driver.holders import HolderSearch, Unknown
from regauge.driver.instances import Turns
from regauge.driver.neighbours import Neighbours
from regauge.driver.notices import Notice, Tell
from regauge.driver.signals import Signal, wait_at_most

RETRY_S = 10.0


class Handover:
    """Brings the owners to what the description says. `withdrawn` waits until a stack no longer advertises a device."""

    def __init__(
        self,
        fleet: Fleet,
        checkpoint: Checkpoint,
        search: HolderSearch,
        neighbours: Neighbours,
        clock: Clock,
        tell: Tell,
        ready: Callable[[Mapping[str, Stack]], None],
        turns: Turns,
    ) -> None:
        self._fleet = fleet
        self._checkpoint = checkpoint
        self._search = search
        self._neighbours = neighbours
        self._clock = clock
        self._tell = tell
        self._told: dict[str, str] = {}
        self._ready = ready
        self._turns = turns
        self._settled = False
        self.described = Signal()

    def released(self) -> None:
        """Somebody gave devices back. Without a device that waits for that there is nothing to do."""
        if not self._settled:
            self.described.set()

    async def begin(self) -> None:
        """Owners at the start: as recorded, and for devices seen the first time as described unless a pod holds them."""
        recorded = self._checkpoint.record.owners
        owners: dict[str, Stack] = {}
        present = self._present()
        fresh = [device for device in present if device.name not in recorded]
        held = await self._search.holders(Stack.DEVICE_PLUGIN) if any(d.stack is Stack.DRA for d in fresh) else {}
        taken = await self._taken(fresh)
        for device in present:
            known = recorded.get(device.name)
            owners[device.name] = known.stack if known else device.stack
            if known is None and not isinstance(held, Unknown) and device.name in held:
                owners[device.name] = Stack.DEVICE_PLUGIN
        async with self._turns.mine():
            self._set({name: owner for name, owner in owners.items() if name not in taken})

    async def run(self, withdrawn: Callable[[Stack, str], Awaitable[None]]) -> None:
        """Hand over what is described otherwise, at the start and whenever the description changes. Runs on."""
        while True:
            seen, self._settled = self.described.version, False
            try:
                waiting = await self._add_new()
                for name, target in self._moving().items():
                    await self._move(name, target, withdrawn)
            except OSError as error:
                waiting = True
                self._tell(Notice("owners-not-written", str(error), "error"))
            if waiting or self._moving():
                await wait_at_most(self.described, seen, self._clock, RETRY_S)
            else:
                self._settled = True
                await self.described.wait(seen)

    def _moving(self) -> dict[str, Stack]:
        owners = self._fleet.owners
        return {
            device.name: device.stack
            for device in self._fleet.description.devices
            if device.name in owners and owners[device.name] is not device.stack
        }

    async def _add_new(self) -> bool:
        """Give devices that have no owner yet to their stack. Returns whether one is held back for a neighbour's sake."""
        fresh = [one for one in self._present() if one.name not in self._fleet.owners]
        taken = await self._taken(fresh)
        free = {one.name for one in fresh} - taken
        async with self._turns.mine():
            names = {one.name: one.stack for one in self._present()}
            owners = {name: owner for name, owner in self._fleet.owners.items() if name in names}
            owners.update({name: stack for name, stack in names.items() if name in free and name not in owners})
            self._set(owners)
        return bool(taken)

    def _present(self) -> list[Device]:
        return [one for one in self._fleet.description.devices if one.name not in self._fleet.retired]

    async def _taken(self, devices: list[Device]) -> frozenset[str]:
        """Which of these devices somebody else on the node advertises."""
        if not devices:
            return frozenset()
        claimants = {**await self._neighbours.claimants(devices), **await self._former(devices), **self._whole(devices)}
        for name, by in claimants.items():
            if self._told.get(name) != by:
                self._told[name] = by
                text = f"not advertised: {by}; looked at again every {RETRY_S:g} s"
                self._tell(Notice("advertised-twice", text, "error", name))
        return frozenset(claimants)

    async def _former(self, devices: list[Device]) -> dict[str, str]:
        """Which of these devices somebody holds under the name that it had in an earlier description."""
        names = {device.name for device in self._fleet.description.devices} - self._fleet.retired
        found: dict[str, str] = {}
        for old, owner in tuple(self._checkpoint.record.owners.items()):
            if old in names:
                continue
            reason = await self._reason_to_stay(old, owner.stack)
            if reason:
                same = [one.name for one in devices if one.is_of(old, owner.identity)]
                found.update(dict.fromkeys(same, f"it was {old} before: {reason}"))
            else:
                async with self._turns.mine():
                    self._checkpoint.own({k: v for k, v in self._checkpoint.record.owners.items() if k != old})
        return found

    def _whole(self, devices: list[Device]) -> dict[str, str]:
        """Which of these devices are parts of one that the other stack still has whole, or in other parts."""
        owners = {name: owner.stack for name, owner in self._checkpoint.record.owners.items()} | self._fleet.owners
        present = {device.name: device for device in self._fleet.description.devices}
        found: dict[str, str] = {}
        for device in devices:
            whole = owners.get(device.part_of)
            if device.part_of in present and whole is device.stack.other and device.name != device.part_of:
                found[device.name] = f"{device.part_of}, of which it is a part, is the {whole}'s still"
        return found

    async def _move(self, name: str, target: Stack, withdrawn: Callable[[Stack, str], Awaitable[None]]) -> None:
        old, device = target.other, self._fleet.description.device(name)
        reason = await self._reason_to_stay(name, old)
        if device is not None and not reason:
            reason = await self._neighbours.clash(device)
        if reason:
            self._refuse(name, target, reason)
            return
        left = {other: owner for other, owner in self._fleet.owners.items() if other != name}
        self._fleet.give(left, {name: old})
        await withdrawn(old, name)
        reason = await self._reason_to_stay(name, old)
        async with (
            self._turns.mine()
        ):  # nothing in it waits for others; what was prepared since the question is on record
            reason = reason or self._prepared_meanwhile(name)
            self._set({**self._fleet.owners, name: old if reason else target})
        if reason:
            self._refuse(name, target, reason)
            return
        self._told.pop(name, None)
        self._tell(Notice("handed-over", f"from {old} to {target}", about=name))

    async def _reason_to_stay(self, name: str, stack: Stack) -> str:
        holders = await self._search.holders(stack)
        if isinstance(holders, Unknown):
            return f"whether a pod holds it is unknown: {holders.why}"
        record = self._checkpoint.record.owners.items()
        parts = [other for other, owner in record if owner.stack is stack and part_mark(name) in owner.identity]
        held = next((holders[one] for one in (name, *parts) if one in holders), None)
        return f"held by {held.by}" if held else ""

    def _prepared_meanwhile(self, name: str) -> str:
        claims = self._checkpoint.record.claims.values()
        holder = next((claim for claim in claims if any(held.device == name for held in claim.devices)), None)
        return f"held by claim {holder.title}, prepared here" if holder else ""

    def _refuse(self, name: str, target: Stack, reason: str) -> None:
        if self._told.get(name) != reason:
            self._told[name] = reason
            text = f"not handed to {target}: {reason}; asked again every {RETRY_S:g} s"
            self._tell(Notice("handover-refused", text, "warning", name))

    def _set(self, owners: Mapping[str, Stack]) -> None:
        """What is advertised is ready and on disk before. Devices that are left out of the description stay on record
        until nobody holds them."""
        self._ready(owners)
        record = dict(self._checkpoint.record.owners)
        for device in self._fleet.description.devices:
            if device.name in owners:
                record[device.name] = Owner(owners[device.name], device.marks())
        self._checkpoint.own(record)
        self._fleet.give(owners)
