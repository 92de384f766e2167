"""Shared counters and compatibility groups of the pools of one node, during a search.

Source: checkAvailableCounters in allocator_*.go, compatibility_groups.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from regauge.allocator.inventory import CounterKey, DeviceEntry
from regauge.allocator.pools import NodeView, PoolView
from regauge.allocator.settings import Settings
from regauge.allocator.usage import PoolUsage, Usage


@dataclass(slots=True)
class PoolCounters:
    """What a pool's counters have left for new claims, and what was chosen so far consumes of it."""

    available: dict[CounterKey, int]
    consumed: dict[CounterKey, int] = field(default_factory=dict)
    overcommitted: bool = False


# The groups that all devices on a counter set have in common; None: all of them declare none.
Groups = frozenset[str] | None


class Counters:
    """What is left of the counters, after allocated devices and those chosen so far."""

    def __init__(self, view: NodeView, usage: Usage, settings: Settings) -> None:
        self.view = view
        self.usage = usage
        self.settings = settings
        self.pools: dict[int, PoolCounters] = {}
        self._by_slice: dict[str, PoolCounters] = {}
        self.grouped: dict[int, dict[str, Groups]] = {}

    def pool(self, place: int) -> PoolCounters:
        """The counters of a pool, worked out when first asked for."""
        known = self.pools.get(place)
        if known is None:
            known = self.pools[place] = self._same_name(place) or self._fresh(place)
        return known

    def _same_name(self, place: int) -> PoolCounters | None:
        """The counters of a pool of this name that was looked at before, where upstream takes them for the same."""
        if not self.settings.quirk("counters-by-pool-name"):
            return None
        name = self.view.pools[place].id.pool
        return next((one for known, one in self.pools.items() if self.view.pools[known].id.pool == name), None)

    def _fresh(self, place: int) -> PoolCounters:
        pool = self.view.pools[place]
        available = dict(pool.counters)
        for entry in self._allocated(pool):
            for key, amount in entry.consumes:
                if key in available:
                    available[key] -= amount
        return PoolCounters(available, overcommitted=any(value < 0 for value in available.values()))

    def _of(self, device: int) -> PoolCounters:
        """The counters that the device uses: its pool's, or its slice's own as before 1.35."""
        if not self.settings.quirk("counters-by-slice"):
            return self.pool(self.view.pool_of[device])
        entry = self.view.devices[device].slice
        known = self._by_slice.get(entry.name)
        if known is None:
            held = self.usage.of_pool(entry.pool).whole
            available = {(name, key): value for name, values in entry.counters for key, value in values.items()}
            for one in entry.devices:
                for key, amount in one.consumes if one.name in held else ():
                    if key in available:
                        available[key] -= amount
            known = PoolCounters(available, overcommitted=True)
            self._by_slice[entry.name] = known
        return known

    def take(self, device: int) -> bool:
        """Charge the device, unless any counter of its pool would then be short."""
        entry, pool = self.view.devices[device], self._of(device)
        for key, amount in entry.consumes:
            pool.consumed[key] = pool.consumed.get(key, 0) + amount
        keys = pool.available if pool.overcommitted else [key for key, _ in entry.consumes]
        if all(pool.available[key] >= pool.consumed.get(key, 0) for key in keys if key in pool.available):
            return True
        self.give_back(device)
        return False

    def give_back(self, device: int) -> None:
        """Undo `take`."""
        pool = self._of(device)
        for key, amount in self.view.devices[device].consumes:
            pool.consumed[key] -= amount

    def short(self, device: int) -> tuple[CounterKey, int, int] | None:
        """The first counter that keeps the device away: its key, what is wanted, what is left."""
        entry, pool = self.view.devices[device], self._of(device)
        wanted: dict[CounterKey, int] = {}
        for key, amount in entry.consumes:
            wanted[key] = wanted.get(key, 0) + amount
        for key in (*wanted, *(pool.available if pool.overcommitted else ())):
            left = pool.available.get(key, 0) - pool.consumed.get(key, 0)
            if key in pool.available and wanted.get(key, 0) > left:
                return key, wanted.get(key, 0), left
        return None

    # -- compatibility groups

    def join(self, device: int) -> dict[str, Groups] | None:
        """Put the device on its counter sets: the state before, for `leave`; None where groups do not meet."""
        place = self.view.pool_of[device]
        before = self.grouped.get(place)
        if before is None:
            before = self.grouped[place] = self._allocated_groups(self.view.pools[place])
        now = dict(before)
        for part in self.view.devices[device].view.consumes_counters:
            joined = _joined(now, part.counter_set, frozenset(part.compatibility_groups))
            if joined is False:
                return None
        self.grouped[place] = now
        return before

    def leave(self, device: int, before: dict[str, Groups]) -> None:
        """Undo `join`."""
        self.grouped[self.view.pool_of[device]] = before

    def groups_key(self, place: int) -> object:
        """What later decisions about groups in a pool depend on."""
        found = self.grouped.get(place)
        return None if found is None else frozenset(found.items())

    def _allocated_groups(self, pool: PoolView) -> dict[str, Groups]:
        found: dict[str, Groups] = {}
        for entry in self._allocated(pool):
            for part in entry.view.consumes_counters:
                groups = frozenset(part.compatibility_groups)
                have = found.get(part.counter_set, groups or None) if part.counter_set in found else (groups or None)
                if have is not None and groups:
                    have = have & groups
                found[part.counter_set] = have
        return found

    def _allocated(self, pool: PoolView) -> list[DeviceEntry]:
        """The allocated devices of a pool, on any node. Shares count as soon as their device is shared."""
        held: PoolUsage = self.usage.of_pool(pool.id)
        names = set(held.whole)
        if not self.settings.basic and not self.settings.quirk("shares-charge-no-counters"):
            names.update(held.shares)
        if not names:
            return []
        return [one for part in (*pool.slices, *pool.elsewhere) for one in part.devices if one.name in names]


def _joined(state: dict[str, Groups], counter_set: str, groups: frozenset[str]) -> bool:
    """Put a device with `groups` on a counter set; False where it may not be there with the others."""
    if counter_set not in state:
        state[counter_set] = groups or None
        return True
    have = state[counter_set]
    if have is None or not groups:
        return have is None and not groups
    if not have & groups:
        return False
    state[counter_set] = have & groups
    return True
