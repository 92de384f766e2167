"""Why a device is, or is not, there for a request: the first thing in upstream's order that keeps it away.

Only what holds before any device is chosen: what the choice of other devices rules out is told by bounds and by
relaxing the claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from regauge.allocator.hints import Reads, false_parts, hints, values_seen
from regauge.allocator.problem import Check, Slot
from regauge.allocator.state import Attempt
from regauge.allocator.table import Table
from regauge.allocator.usage import DeviceId
from regauge.allocator.values import Value

FREE = "free"
CHOSEN = "chosen"
IN_USE = "in use"
TAINT = "tainted"
CAPACITY = "too little capacity"
COUNTERS = "too little left of shared counters"
CONSTRAINT = "lacks the attribute of a constraint"
SELECTOR = "not selected"
NODE = "offered to other nodes"
GATE = "a feature is off"
ERROR = "error"

# From the nearest miss to the farthest.
NEARNESS = (CHOSEN, FREE, IN_USE, TAINT, CAPACITY, COUNTERS, CONSTRAINT, GATE, SELECTOR, NODE, ERROR)
_PARTS_FAR = 8


@dataclass(frozen=True, slots=True)
class DeviceReason:
    """One device and one request: `kind` is one of the words above, `text` the sentence for people.

    `distance` orders the misses of one kind, nearest first. `seen` are the values that an expression looked at.
    """

    device: DeviceId
    kind: str
    text: str
    distance: int = 0
    seen: tuple[tuple[str, str], ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller is nearer."""
        return NEARNESS.index(self.kind), self.distance


class Reasons:
    """The reasons on one node, for one usage."""

    def __init__(self, table: Table, reads: Reads) -> None:
        self.table = table
        self.attempt = Attempt(table)
        self.reads = reads

    def of(self, slot: Slot, device: int) -> DeviceReason:
        """The first thing that keeps the device from the slot, or FREE."""
        table, entry = self.table, self.table.view.devices[device]
        if not slot.admin and table.in_use(device):
            holders = table.held[table.view.pool_of[device]].whole[entry.name]
            names = ", ".join(str(one) for one in holders if str(one)) or "another claim"
            return DeviceReason(entry.id, IN_USE, f"in use by {names}")
        cell = table.cell(slot, device)
        if cell is not True:
            return self._unselected(slot, device, cell)
        return self._short(slot, device) or DeviceReason(entry.id, FREE, "matches and is free")

    def _unselected(self, slot: Slot, device: int, cell: bool | str) -> DeviceReason:
        entry = self.table.view.devices[device]
        if entry.view.binding_conditions and not self.table.settings.binding_conditions:
            return DeviceReason(entry.id, GATE, "has binding conditions, and the feature for them is off")
        for check in slot.checks:
            answer = self.table.answer(check, entry)
            if answer is not True:
                return self._failed(check, device, answer)
        if isinstance(cell, str):
            return DeviceReason(entry.id, ERROR, cell)
        return DeviceReason(entry.id, NODE, "offered to other nodes only")

    def _failed(self, check: Check, device: int, answer: bool | str) -> DeviceReason:
        entry = self.table.view.devices[device]
        where = f"selector #{check.number} of the {check.owner}"
        seen = values_seen(entry, check.expression, self.reads)
        found = hints(entry, check.expression, self.reads)
        if isinstance(answer, str):
            return DeviceReason(entry.id, ERROR, answer, seen=seen, hints=found)
        parts = false_parts(check, entry, self.table)
        text = f"{where} is false: {' and '.join(parts) if parts else check.expression}"
        if seen:
            text += f" (has {', '.join(f'{name}={value}' for name, value in seen)})"
        return DeviceReason(entry.id, SELECTOR, text, len(parts) or _PARTS_FAR, seen, found)

    def _short(self, slot: Slot, device: int) -> DeviceReason | None:
        """What keeps a selected device away."""
        table, entry, attempt = self.table, self.table.view.devices[device], self.attempt
        if table.settings.consumable_capacity:
            room = table.room(slot, device)
            if isinstance(room, str):
                return DeviceReason(entry.id, ERROR, room)
            if not room:
                return DeviceReason(entry.id, CAPACITY, self._capacity_text(slot, device))
        if not attempt.ready(device):
            what = "shares counters" if entry.consumes_any else "needs a node without operations by the driver"
            return DeviceReason(entry.id, GATE, f"{what}, and the feature for that is off")
        multiple = table.settings.consumable_capacity and entry.multiple
        if entry.consumes_any and not (multiple and attempt.shared_already(device)):
            short = attempt.counters.short(device)
            if short is not None:
                (counter_set, name), need, left = short
                text = f"counter {name} of {counter_set}: needs {amount(need)}, {amount(left)} left"
                return DeviceReason(entry.id, COUNTERS, text)
        taint = table.tainted(slot, device)
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            return DeviceReason(entry.id, TAINT, f"taint {taint.key}{value}:{taint.effect} is not tolerated")
        return self._unconstrained(slot, device)

    def _unconstrained(self, slot: Slot, device: int) -> DeviceReason | None:
        entry = self.table.view.devices[device]
        constraints = self.table.problem.claims[slot.claim].constraints
        for place in slot.constraints:
            constraint = constraints[place]
            value = self.table.value(slot, device, constraint.attribute)
            if isinstance(value, str):
                return DeviceReason(entry.id, ERROR, value)
            if not isinstance(value, Value):
                text = f"has no attribute {constraint.attribute}, which {constraint.kind} compares"
                return DeviceReason(entry.id, CONSTRAINT, text)
        return None

    def _capacity_text(self, slot: Slot, device: int) -> str:
        wanted = self.table.demand(slot, device)
        if wanted.refusal:
            return wanted.refusal
        short = wanted.short(self.table.used(device), {})
        if short is None:
            return "capacity is used up"
        name, need, left = short
        return f"capacity {name}: needs {amount(need)}, {amount(left)} left"


def amount(billionths: int) -> str:
    """An amount for people: whole numbers, binary units where they are exact."""
    if billionths % 10**9:
        return f"{billionths / 10**9:g}"
    whole = billionths // 10**9
    for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return str(whole)
