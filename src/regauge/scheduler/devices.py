"""Slices, classes and what is in use, kept up to date, and the answers of the allocator, remembered per node.

A claim's devices are counted once: while its allocation is in flight (chosen, not yet written) or once it is written.
An answer for a node holds as long as nothing that it read has changed, so that a thousand like pods cost one question per
node and one more for each node that was chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec

from regauge.allocator import (
    Abort,
    Allocator,
    DeviceId,
    Exhausted,
    Fit,
    Inventory,
    NodeView,
    NoFit,
    Outcome,
    PoolId,
    Problem,
    Unsupported,
    Usage,
    compile_claims,
    selectors_of,
    settings_of,
    solve,
    view,
)
from regauge.inventory import taint_rule_selects, tainted_slice
from regauge.model import Rules
from regauge.model.core import Node
from regauge.model.resource import (
    AllocationResult,
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from regauge.scheduler.filters import REFUSING_EFFECTS
from regauge.scheduler.results import Refusal

PLUGIN = "DynamicResources"
CANNOT_ALLOCATE = "cannot allocate all claims"
REMEMBERED_PROBLEMS = 128

T = TypeVar("T")
Answer = tuple[AllocationResult, ...] | Refusal | str


class _NoChance:
    """Randomness for attempts that may come to nothing: IDs of shares are drawn when a node is chosen."""

    def getrandbits(self, k: int, /) -> int:
        return 0

    def random(self) -> float:
        return 0.0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start

    def choice(self, seq: Sequence[T]) -> T:
        return seq[0]


class _Stamp(NamedTuple):
    """What an answer depends on."""

    epoch: int
    node: Node
    shared: int
    local: int


class _Holding(NamedTuple):
    claim: ResourceClaim
    allocation: AllocationResult


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Devices of one pool: all, those in use (also if only in part), those with a taint. `node`: "" for several."""

    driver: str
    pool: str
    node: str
    devices: int
    used: int
    tainted: int = 0

    @property
    def free(self) -> int:
        return self.devices - self.used


class Devices:
    """The devices of the cluster under `rules`."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._settings = settings_of(rules)
        self._selectors = selectors_of(rules)
        self._rules_taint = rules.on("DRADeviceTaintRules") and rules.on("DRADeviceTaints")
        shared = not isinstance(self._settings, Unsupported) and self._settings.consumable_capacity
        self._usage = Usage(shared_devices=shared)
        self._held: dict[str, _Holding] = {}
        self._flying: dict[str, _Holding] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._inventory = Inventory.of(())
        self._changed: dict[str, ResourceSlice | None] = {}
        self._homes: dict[PoolId, str] = {}
        self._views: dict[str, tuple[int, Node, NodeView | Abort]] = {}
        self._answers: dict[bytes, dict[str, tuple[_Stamp, Answer]]] = {}
        self._epoch = 0
        self._shared_use = 0
        self._local_use: dict[str, int] = {}

    # -- classes, slices, taint rules

    def find_class(self, name: str) -> DeviceClass | None:
        return self._classes.get(name)

    def put_class(self, class_: DeviceClass) -> None:
        self._classes[class_.metadata.name] = class_
        self._epoch += 1

    def drop_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._epoch += 1

    def put_slice(self, slice_: ResourceSlice) -> None:
        self._slices[slice_.metadata.name] = slice_
        self._changed[slice_.metadata.name] = slice_

    def drop_slice(self, name: str) -> None:
        if self._slices.pop(name, None) is not None:
            self._changed[name] = None

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        self._taint_rules[rule.metadata.name] = rule
        self._changed |= self._slices

    def drop_taint_rule(self, name: str) -> None:
        if self._taint_rules.pop(name, None) is not None:
            self._changed |= self._slices

    @property
    def classes(self) -> Iterable[DeviceClass]:
        """All classes by name."""
        return (class_ for _, class_ in sorted(self._classes.items()))

    @property
    def taint_rules(self) -> Iterable[DeviceTaintRule]:
        """All rules by name, whether they are heeded or not."""
        return (rule for _, rule in sorted(self._taint_rules.items()))

    def tainted_by(self, rule: DeviceTaintRule) -> int:
        """How many devices a rule is for."""
        return sum(
            taint_rule_selects(rule, slice_, device)
            for slice_ in self._slices.values()
            for device in slice_.spec.devices
        )

    def find_device(self, pool: str, device: str) -> Device | None:
        """A device by the names of its pool and itself, whatever its driver, as upstream looks it up."""
        for slice_ in self._slices.values():
            if slice_.spec.pool.name == pool:
                for item in slice_.spec.devices:
                    if item.name == device:
                        return item
        return None

    def pool_slices(self, driver: str, pool: str) -> Iterable[ResourceSlice]:
        """All slices of a pool, of whatever generation."""
        self._refresh()
        return (entry.view for entry in self._inventory.by_pool.get(PoolId(driver, pool), ()))

    def published(self, id_: DeviceId) -> Device | None:
        """The device as it is offered now, with the taints of rules, or None when no slice has it."""
        self._refresh()
        for entry in self._inventory.by_pool.get(PoolId(id_.driver, id_.pool), ()):
            for item in entry.view.spec.devices:
                if item.name == id_.device:
                    return item
        return None

    def pool_use(self) -> list[PoolUse]:
        """How much of each device pool is in use now, by driver and pool. Only the newest generation counts."""
        self._refresh()
        found = []
        for pool, entries in sorted(self._inventory.by_pool.items()):
            newest = max(entry.generation for entry in entries)
            devices = [one for entry in entries if entry.generation == newest for one in entry.view.spec.devices]
            held = self._usage.of_pool(pool)
            used = sum(one.name in held.whole or one.name in held.shares for one in devices)
            tainted = sum(any(taint.effect in REFUSING_EFFECTS for taint in one.taints) for one in devices)
            found.append(PoolUse(pool.driver, pool.pool, self._homes.get(pool, ""), len(devices), used, tainted))
        return found

    def _tainted(self, slice_: ResourceSlice) -> ResourceSlice:
        """The slice with the taints that rules add to its devices."""
        if not self._rules_taint or not self._taint_rules:
            return slice_
        return tainted_slice(slice_, self.taint_rules)

    def _refresh(self) -> None:
        if not self._changed:
            return
        gone = [name for name, slice_ in self._changed.items() if slice_ is None]
        changed = [self._tainted(slice_) for slice_ in self._changed.values() if slice_ is not None]
        self._inventory = self._inventory.update(changed, gone)
        self._changed = {}
        self._epoch += 1
        self._homes = {}
        for pool, entries in self._inventory.by_pool.items():
            names = {entry.view.spec.node_name or "" for entry in entries}
            if len(names) == 1:
                self._homes[pool] = names.pop()

    # -- use

    def hold(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """The claim is allocated."""
        known = self._held.get(claim.metadata.uid)
        if known is not None and known.allocation == allocation:
            self.land(claim.metadata.uid)
            return
        self.release(claim.metadata.uid)
        self.land(claim.metadata.uid)
        self._held[claim.metadata.uid] = self._count(_Holding(claim, allocation), add=True)

    def release(self, uid: str) -> None:
        """The claim is not allocated any more."""
        known = self._held.pop(uid, None)
        if known is not None:
            self._count(known, add=False)

    def fly(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Devices are chosen for the claim and not yet written."""
        self.land(claim.metadata.uid)
        self._flying[claim.metadata.uid] = self._count(_Holding(claim, allocation), add=True)

    def land(self, uid: str) -> None:
        """The choice is written, or given up."""
        known = self._flying.pop(uid, None)
        if known is not None:
            self._count(known, add=False)

    def is_flying(self, uid: str) -> bool:
        return uid in self._flying

    def _count(self, holding: _Holding, *, add: bool) -> _Holding:
        change = self._usage.add if add else self._usage.remove
        self._usage = change(holding.claim, holding.allocation)
        for result in holding.allocation.devices.results:
            home = self._homes.get(PoolId(result.driver, result.pool))
            if home:
                self._local_use[home] = self._local_use.get(home, 0) + 1
            else:
                self._shared_use += 1
        return holding

    # -- questions

    @property
    def has_parts(self) -> bool:
        """Whether any device takes a part of something that others take parts of, or may be given to several claims."""
        self._refresh()
        return any(
            device.consumes_any or device.view.allow_multiple_allocations
            for entry in self._inventory.slices
            for device in entry.devices
        )

    def plan(self, claims: Iterable[ResourceClaim]) -> Plan:
        """Ask for these claims together, of one node after the other."""
        self._refresh()
        asked = tuple(claims)
        key = msgspec.json.encode([claim.spec for claim in asked])
        if key not in self._answers and len(self._answers) >= REMEMBERED_PROBLEMS:
            del self._answers[next(iter(self._answers))]
        return Plan(self, asked, self._answers.setdefault(key, {}))

    def allocator(self, *, backwards: bool = False) -> Allocator:
        """The allocator with everything as it is now, for explanations. `backwards`: the slices in the opposite order."""
        self._refresh()
        inventory = self._inventory
        if backwards:
            inventory = Inventory(tuple(reversed(inventory.slices)))
        return Allocator(
            inventory, self._classes, self._usage, self._rules, randomness=_NoChance(), selectors=self._selectors
        )

    def stamp(self, node: Node) -> _Stamp:
        return _Stamp(self._epoch, node, self._shared_use, self._local_use.get(node.metadata.name, 0))

    def compile(self, claims: tuple[ResourceClaim, ...]) -> Problem | Unsupported:
        return compile_claims(claims, self._classes, self._settings, self._selectors)

    def solve(self, problem: Problem | Unsupported, node: Node) -> Outcome:
        """The allocator's own answer for one node."""
        if isinstance(problem, Unsupported) or isinstance(self._settings, Unsupported):
            return problem if isinstance(problem, Unsupported) else Unsupported("this set of features")
        known = self._views.get(node.metadata.name)
        if known is None or known[0] != self._epoch or known[1] is not node:
            known = (self._epoch, node, view(self._inventory, node, self._settings))
            self._views[node.metadata.name] = known
        return solve(problem, known[2], self._usage, _NoChance())


@dataclass(slots=True)
class Plan:
    """One question to many nodes."""

    devices: Devices
    claims: tuple[ResourceClaim, ...]
    answers: dict[str, tuple[_Stamp, Answer]]
    problem: Problem | Unsupported | None = None

    def on(self, node: Node) -> Answer:
        """One allocation for each claim, a refusal of this node, or the text of an error that ends the attempt."""
        stamp = self.devices.stamp(node)
        known = self.answers.get(node.metadata.name)
        if known is not None and _holds(known[0], stamp):
            return known[1]
        if self.problem is None:
            self.problem = self.devices.compile(self.claims)
        answer = _in_words(self.devices.solve(self.problem, node), node)
        if not isinstance(answer, str):
            self.answers[node.metadata.name] = (stamp, answer)
        return answer


def _holds(old: _Stamp, new: _Stamp) -> bool:
    return old.node is new.node and old.epoch == new.epoch and old.shared == new.shared and old.local == new.local


def _in_words(outcome: Outcome, node: Node) -> Answer:
    match outcome:
        case Fit():
            return outcome.results
        case NoFit():
            return Refusal(PLUGIN, (CANNOT_ALLOCATE,))
        case Abort():
            return Refusal(PLUGIN, (outcome.text,)) if outcome.on_node else outcome.text
        case Exhausted():
            return f"node {node.metadata.name}: timed out trying to allocate devices"
        case Unsupported():
            return outcome.text or f"unsupported: {outcome.feature}"
