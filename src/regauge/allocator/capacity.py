"""Consumable capacity: what a request takes of a device, by the device's policies.

Source: structured/internal/*/consumable_capacity.go. Whole numbers are int64 with Go's division; values beyond it
end the allocation from 1.37 on and wrap before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regauge.allocator.amounts import nano
from regauge.allocator.inventory import Capacity
from regauge.allocator.settings import Settings
from regauge.model import Quantity

_MAX = 2**63 - 1
_BEYOND = "capacity request cannot be represented in the device's range arithmetic"
_DIVIDED_BY_ZERO = "PANIC: runtime error: integer divide by zero"
_MILLI_PLACES = -3
_BINARY = Quantity.parse("1Ki").format


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request takes of one device: amounts in billionths with the limit of each, and as quantities.

    `error`: upstream ends the allocation, `fatal` when not even with a message of its own (it crashes).
    `refusal`: this device cannot serve the request, whatever is in use. `lent`: amounts that are the claim's own quantities,
    which upstream hands on without a copy where they are too wide for an int64.
    """

    amounts: tuple[tuple[str, int, int], ...] = ()
    quantities: tuple[tuple[str, Quantity], ...] = ()
    error: str = ""
    fatal: bool = False
    refusal: str = ""
    lent: tuple[str, ...] = ()

    def fits(self, used: Mapping[str, int], chosen: Mapping[str, int]) -> bool:
        """Whether it fits beside what claims use already and what was chosen in this attempt."""
        return not self.refusal and not self.short(used, chosen)

    def short(self, used: Mapping[str, int], chosen: Mapping[str, int]) -> tuple[str, int, int] | None:
        """The first capacity there is too little of: its name, what is wanted and what is left, in billionths."""
        for name, amount, limit in self.amounts:
            left = limit - used.get(name, 0) - chosen.get(name, 0)
            if amount > left:
                return name, amount, left
        return None


class _Beyond(Exception):
    """A value that upstream's arithmetic cannot hold."""


def demand(capacities: Mapping[str, Capacity], requested: Mapping[str, Quantity] | None, settings: Settings) -> Demand:
    """What `requested` (None: nothing is said) takes of a device with `capacities`."""
    wanted = requested or {}
    missing = next((name for name in wanted if name not in capacities), None)
    if missing is not None:
        return Demand(refusal=f"has no capacity {missing}")
    taken, refusal, error = {}, "", ""
    lenient = settings.quirk("capacity-wraps")
    for name in sorted(capacities):
        try:
            taken[name] = _consumed(wanted.get(name), capacities[name], settings)
        except _Beyond as found:
            error = error or f'capacity "{name}": {_BEYOND}: {found}'
            continue
        except ZeroDivisionError:
            return Demand(error=_DIVIDED_BY_ZERO, fatal=True)
        if taken[name].sign < 0 and not lenient:
            error = error or f'capacity "{name}": capacity value is negative'
    if error:
        return Demand(error=error)
    for name, quantity in taken.items():
        try:
            if _violates(quantity, capacities[name], settings):
                refusal = refusal or f"capacity {name} does not allow {quantity}"
        except ZeroDivisionError:
            return Demand(error=_DIVIDED_BY_ZERO, fatal=True)
    return Demand(
        amounts=tuple((name, nano(quantity), capacities[name].limit) for name, quantity in taken.items()),
        quantities=tuple(taken.items()),
        refusal=refusal,
        lent=tuple(
            name for name, one in taken.items() if one.wide and one is wanted.get(name) and capacities[name].policy
        ),
    )


def _consumed(requested: Quantity | None, capacity: Capacity, settings: Settings) -> Quantity:
    if requested is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.ranged and capacity.min is not None:
        return _rounded(requested, capacity, capacity.min, settings)
    return next((value for value in capacity.valid_values if requested <= value), requested)


def _rounded(requested: Quantity, capacity: Capacity, least: Quantity, settings: Settings) -> Quantity:
    step = capacity.step
    if requested < least:
        return least
    if step is None:
        return requested
    if _in_milli(capacity, settings):
        return _rounded_milli(requested, least, step)
    checked = not settings.quirk("capacity-wraps")
    if checked and requested > Quantity.of(_MAX):
        raise _Beyond(f"request {requested} exceeds MaxInt64")
    start, size = least.value(), step.value()
    steps = _steps(wrap64(requested.value() - start), size)
    if checked and start >= 0 and steps > _divided(_MAX - start, size):
        raise _Beyond(f"rounding request {requested} up to the next step passes MaxInt64")
    fmt = step.format if checked else _BINARY
    return Quantity.of(wrap64(start + wrap64(size * steps)), fmt)


def _rounded_milli(requested: Quantity, least: Quantity, step: Quantity) -> Quantity:
    wanted = _milli(requested)
    if wanted is None:
        raise _Beyond(f"request {requested} is not a representable milli value")
    start, size = least.milli_value(), step.milli_value()
    steps = _steps(wrap64(wanted - start), size)
    if steps > _divided(wrap64(_MAX - start), size):
        raise _Beyond(f"rounding request {requested} up to the next step passes the milli-value range")
    value = wrap64(start + wrap64(size * steps))
    if value % 1000 == 0:
        return Quantity.of(value // 1000, step.format)
    return Quantity(value, _MILLI_PLACES, False, step.format)


def wrap64(number: int) -> int:
    """The number as an int64 that has overflowed."""
    return (number + 2**63) % 2**64 - 2**63


def _steps(distance: int, size: int) -> int:
    steps = _divided(distance, size)
    return steps + 1 if distance != steps * size else steps


def _divided(left: int, right: int) -> int:
    """Go's division: towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _violates(value: Quantity, capacity: Capacity, settings: Settings) -> bool:
    if not capacity.policy or (capacity.default is not None and value.same_form(capacity.default)):
        return False
    if capacity.ranged:
        return _outside(value, capacity, settings)
    return bool(capacity.valid_values) and all(value != one for one in capacity.valid_values)


def _outside(value: Quantity, capacity: Capacity, settings: Settings) -> bool:
    if capacity.max is not None and value > capacity.max:
        return True
    step, least = capacity.step, capacity.min
    if step is None:
        return False
    start = least or Quantity(0)
    if _in_milli(capacity, settings):
        wanted = _milli(value)
        if wanted is None:
            return True
        distance, size = wrap64(wanted - start.milli_value()), step.milli_value()
    else:
        distance, size = wrap64(value.value() - start.value()), step.value()
    return distance != _divided(distance, size) * size


def _in_milli(capacity: Capacity, settings: Settings) -> bool:
    """Whether thousandths are counted: every bound has an exact one, and a step is at least one."""
    if not settings.fractional_range:
        return False
    for bound in (capacity.min, capacity.max, capacity.step):
        if bound is not None and _milli(bound) is None:
            return False
    return capacity.step is None or capacity.step.milli_value() >= 1


def _milli(value: Quantity) -> int | None:
    """Thousandths, if they are exact and fit an int64."""
    milli = value.milli_value()
    return milli if Quantity(milli, _MILLI_PLACES) == value else None
