"""Capacity of which claims take parts (KEP-5075): how much, by default, and which amounts are valid. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.driver.fields import Fields, type_name
from regauge.model import Quantity

VALUES_LIMIT = 10


def request_policy(fields: Fields) -> tuple[str, Mapping[str, Any]]:
    """A capacity's value and its policy as a ResourceSlice holds it. Raises `InputError` for what an API server refuses:
    a default out of the values or the range, a range that begins nowhere, steps that do not meet its ends."""
    fields.only("value", "default", "values", "min", "max", "step")
    value, default = _quantity(fields, "value"), _quantity(fields, "default")
    if value is None:
        raise fields.wrong("value", "it is missing", "add value: how much the device has")
    low, high, step = (_quantity(fields, name) for name in ("min", "max", "step"))
    if fields.value.get("values") is not None:
        if low or high or step:
            raise fields.wrong("values", "there are both single values and a range", "leave out min, max and step")
        return _single(fields, value, default)
    if low is None and high is None and step is None:
        return str(value), {} if default is None else {"default": str(_within(fields, "default", default, value))}
    if low is None or default is None:
        raise fields.wrong("min", "a range needs min and default", "add both")
    _check_range(fields, default, low, high if high is not None else value, value)
    if step is not None:
        _check_steps(fields, step, low, (default, high), value)
    named = (("min", low), ("max", high), ("step", step))
    range_ = {name: str(quantity) for name, quantity in named if quantity is not None}
    return str(value), {"default": str(default), "validRange": range_}


def _single(fields: Fields, value: Quantity, default: Quantity | None) -> tuple[str, Mapping[str, Any]]:
    listed = fields.value["values"]
    if not isinstance(listed, list) or not 0 < len(listed) <= VALUES_LIMIT:
        raise fields.wrong("values", f"a list of 1 to {VALUES_LIMIT} quantities is expected")
    values = sorted({_read(fields, f"values[{index}]", item) for index, item in enumerate(listed)})
    _within(fields, "values", values[-1], value)
    if default is None or default not in values:
        raise fields.wrong("default", "it is not one of the values", "it is what a claim gets that asks for no amount")
    return str(value), {"default": str(default), "validValues": [str(one) for one in values]}


def _check_range(fields: Fields, default: Quantity, low: Quantity, high: Quantity, value: Quantity) -> None:
    _within(fields, "max", high, value)
    if not low <= high:
        raise fields.wrong("min", f"{low} is more than {high}")
    if not low <= default <= high:
        raise fields.wrong("default", f"{default} is not between {low} and {high}")


def _check_steps(
    fields: Fields, step: Quantity, low: Quantity, meet: tuple[Quantity, Quantity | None], value: Quantity
) -> None:
    width, start = step.value(), low.value()
    if width <= 0:
        raise fields.wrong("step", f"{step} is no step", "at least 1")
    if start + width > value.value():
        raise fields.wrong("step", f"one step from {low} is more than {value}")
    for quantity in meet:
        if quantity is not None and (quantity.value() - start) % width:
            raise fields.wrong("step", f"{quantity} is not a number of steps of {step} from {low}")


def _within(fields: Fields, name: str, quantity: Quantity, value: Quantity) -> Quantity:
    if quantity > value:
        raise fields.wrong(name, f"{quantity} is more than the device has: {value}")
    return quantity


def _quantity(fields: Fields, name: str) -> Quantity | None:
    value = fields.value.get(name)
    return None if value is None else _read(fields, name, value)


def _read(fields: Fields, name: str, value: Any) -> Quantity:
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError(f"it is {type_name(value)}")
        return Quantity.from_document(value)
    except ValueError as error:
        raise fields.wrong(name, f"{value!r} is not a quantity: {error}", "such as 10G") from None
