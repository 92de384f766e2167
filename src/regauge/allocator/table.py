"""Cells: whether a device answers a slot's selectors. Worked out when first asked for, and then remembered."""

from __future__ import annotations

from regauge.allocator.capacity import Demand, demand
from regauge.allocator.inventory import DeviceEntry
from regauge.allocator.nodes import SelectorError, node_matches
from regauge.allocator.pools import NodeView
from regauge.allocator.problem import Check, Problem, Slot
from regauge.allocator.settings import Settings
from regauge.allocator.usage import Usage
from regauge.allocator.values import Value, static_value, value_of
from regauge.model.resource import Device, DeviceTaint, DeviceToleration

Cell = bool | str
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
_PREVENTING = ("NoExecute", "NoSchedule")


class Table:
    """The answers for one problem on one node. A cell is True, False, or the text of the error upstream reports."""

    def __init__(self, problem: Problem, view: NodeView, usage: Usage) -> None:
        self.settings = problem.settings
        self.problem = problem
        self.view = view
        self.usage = usage
        self.held = [usage.of_pool(pool.id) for pool in view.pools]
        self._used: dict[int, dict[str, int]] = {}
        size = len(view.devices)
        self._cells: list[list[Cell | None]] = [[None] * size for _ in problem.slots]
        self._demands: list[dict[int, Demand]] = [{} for _ in problem.slots]
        self._spans: list[range] | None = None
        self._values: dict[tuple[int, str], Value | None] = {}
        self._derived: dict[tuple[int, str], Value | str | None] = {}

    def in_pool(self, place: int) -> range:
        """The devices of one pool."""
        if self._spans is None:
            spans, start = [], 0
            for pool in self.view.pools:
                end = start + sum(len(one.devices) for one in pool.slices)
                spans.append(range(start, end))
                start = end
            self._spans = spans
        return self._spans[place]

    def cell(self, slot: Slot, device: int) -> Cell:
        """Whether the device is selectable for the slot, or the error."""
        known = self._cells[slot.index][device]
        if known is None:
            known = self._cells[slot.index][device] = self._selectable(slot, self.view.devices[device])
        return known

    def in_use(self, device: int) -> bool:
        """Whether a claim holds the whole device."""
        return self.view.devices[device].name in self.held[self.view.pool_of[device]].whole

    def used(self, device: int) -> dict[str, int]:
        """What allocated claims consume of the device's capacities, in billionths."""
        known = self._used.get(device)
        if known is None:
            found = self.held[self.view.pool_of[device]].consumed(self.view.devices[device].name)
            known = self._used[device] = found or {}
        return known

    def room(self, slot: Slot, device: int) -> Cell:
        """Whether the device's capacities suffice beside what is used, or the error upstream reports."""
        if slot.capacity is None and not self.used(device) and is_whole(self.view.devices[device]):
            return True
        wanted = self._demand(slot, device)
        if wanted.error:
            return self.capacity_error(slot, str(self.view.devices[device].id), wanted)
        return wanted.fits(self.used(device), {})

    def alone(self, slot: Slot, device: int) -> Cell:
        """Whether a slot that wants all devices counts this one: only its size matters, except before 1.37."""
        entry = self.view.devices[device]
        used = self.used(device) if self.settings.quirk("all-leaves-out-partly-used") else {}
        if slot.capacity is None and not used and is_whole(entry):
            return True
        wanted = self._demand(slot, device)
        return self.capacity_error(slot, entry.name, wanted) if wanted.error else wanted.fits(used, {})

    def capacity_error(self, slot: Slot, device: str, wanted: Demand) -> str:
        """The text in which upstream reports that it cannot compute a demand."""
        if wanted.fatal:
            return wanted.error
        claim = self.problem.claims[slot.claim].label
        return f"claim {claim}, request {slot.own_name}: checking capacity for device {device}: {wanted.error}"

    def demand(self, slot: Slot, device: int) -> Demand:
        """What the slot takes of the device's capacities."""
        return self._demand(slot, device)

    def _demand(self, slot: Slot, device: int) -> Demand:
        known = self._demands[slot.index].get(device)
        if known is None:
            known = demand(self.view.devices[device].capacities, slot.capacity, self.settings)
            self._demands[slot.index][device] = known
        return known

    def value(self, slot: Slot, device: int, attribute: str) -> Value | str | None:
        """The value a constraint compares: None if the device lacks it; a text is the error of a derived one."""
        if slot.derived is not None and attribute in slot.derived:
            return self._derived_value(slot, device, attribute)
        key = (device, attribute)
        if key not in self._values:
            self._values[key] = static_value(self.view.devices[device], attribute, self.settings.list_attributes)
        return self._values[key]

    def tainted(self, slot: Slot, device: int) -> DeviceTaint | None:
        """The first taint that keeps the device from the slot."""
        return keeping_away(self.view.devices[device].view, slot, self.settings)

    def _derived_value(self, slot: Slot, device: int, attribute: str) -> Value | str | None:
        assert slot.derived is not None
        derived = slot.derived[attribute]
        if derived.error is not None:
            return f"compile derived attribute {attribute} failed: {derived.error}"
        key = (device, f"{slot.index}/{attribute}")
        if key not in self._derived:
            entry = self.view.devices[device]
            found = derived.evaluate(entry)
            self._derived[key] = (
                f"evaluate derived attribute {attribute} on device {entry.id} failed: {found}"
                if isinstance(found, str)
                else value_of(found, self.settings.list_attributes)
            )
        return self._derived[key]

    def _selectable(self, slot: Slot, entry: DeviceEntry) -> Cell:
        if entry.view.binding_conditions and not self.settings.binding_conditions:
            return False
        for check in slot.checks:
            answer = self.answer(check, entry)
            if answer is not True:
                return answer
        if entry.slice.view.spec.per_device_node_selection:
            device = entry.view
            try:
                return node_matches(self.view.node, device.node_name, device.all_nodes, device.node_selector)
            except SelectorError as error:
                return str(error)
        return True

    def answer(self, check: Check, entry: DeviceEntry) -> Cell:
        """What one selector says of one device, or the error as upstream reports it."""
        if check.selector.error is not None:
            return f"{check.label}: CEL compile error: {check.selector.error}"
        known = entry.cells.get(check.selector)
        if known is None:
            known = check.selector.evaluate(entry, not self.settings.basic)
            entry.cells[check.selector] = known
        if isinstance(known, bool):
            return known
        if self.settings.quirk("error-without-device"):
            return f"{check.label}: CEL runtime error: {known}"
        hint = _HINT if "no such key:" in known else ""
        return f"{check.label} on device {entry.id}: CEL runtime error: {known}{hint}"


def keeping_away(device: Device, slot: Slot, settings: Settings) -> DeviceTaint | None:
    """The first taint that keeps a device from a slot."""
    if not settings.taints or not device.taints:
        return None
    any_effect = settings.quirk("taints-of-any-effect")
    for taint in device.taints:
        if (taint.effect in _PREVENTING or any_effect) and not any(tolerates(one, taint) for one in slot.tolerations):
            return taint
    return None


def is_whole(entry: DeviceEntry) -> bool:
    """Whether a request that says nothing of capacities surely gets the whole device: no policy, nothing negative."""
    for item in entry.view.capacity.values():
        if item.request_policy is not None or not isinstance(item.value, str) or item.value.startswith("-"):
            return False
    return True


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a toleration is good for a taint. An empty key or effect is good for all, an empty operator is Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
