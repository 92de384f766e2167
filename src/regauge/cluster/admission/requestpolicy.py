"""What makes the request policy of a shared device's capacity invalid. Source: pkg/apis/resource/validation of 1.36."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.cluster.refusals import FieldError, duplicate, forbidden_field, invalid, required, too_many
from regauge.model import Quantity
from regauge.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, QuantityText

VALID_VALUES_LIMIT = 10


def policy_errors(
    path: str, capacity: Quantity, policy: CapacityRequestPolicy, *, exact_steps: bool = False
) -> list[FieldError]:
    """At most one of validValues and validRange, a default that fits it, nothing beyond the capacity.

    `exact_steps`: a step is above zero and counts in thousandths; without it only its whole part does.
    """
    if policy.valid_values and policy.valid_range is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field(path, text)]
    if policy.valid_values:
        if policy.default is None:
            return [required(f"{path}.default", "required when validValues is defined")]
        return list(_values(f"{path}.validValues", _read(policy.default), capacity, policy.valid_values))
    if policy.valid_range is not None:
        if policy.default is None:
            return [required(f"{path}.default", "required when validRange is defined")]
        amounts = (_read(policy.default), capacity)
        return list(_range(f"{path}.validRange", amounts, policy.valid_range, exact_steps))
    return []


def _read(text: QuantityText) -> Quantity:
    return Quantity.from_document(text)


def _values(path: str, default: Quantity, capacity: Quantity, texts: tuple[QuantityText, ...]) -> Iterator[FieldError]:
    values = [_read(text) for text in texts]
    for index in range(1, len(values)):
        if values[index - 1] > values[index]:
            yield invalid(f"{path}[{index}]", str(values[index]), "values must be sorted in ascending order")
    if len(values) > VALID_VALUES_LIMIT:
        yield too_many(path, len(values), VALID_VALUES_LIMIT)
    else:
        for index, value in enumerate(values):
            if value > capacity:
                yield invalid(f"{path}[{index}]", str(value), f"option is larger than capacity value: {capacity}")
        keys = [str(value.value()) for value in values]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                yield duplicate(f"{path}[{index}]", key)
    if default not in values or len(values) > VALID_VALUES_LIMIT:
        yield invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _range(
    path: str, amounts: tuple[Quantity, Quantity], limits: CapacityRequestPolicyRange, exact: bool
) -> Iterator[FieldError]:
    default, capacity = amounts
    if limits.min is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    low = _read(limits.min)
    high = None if limits.max is None else _read(limits.max)
    if low > capacity:
        yield invalid(f"{path}.min", str(low), f"min is larger than capacity value: {capacity}")
    if default < low:
        yield invalid(f"{path}.min", str(default), f"default is less than min: {low}")
    if high is not None:
        if low > high:
            yield invalid(f"{path}.max", str(low), f"min is larger than max: {high}")
        if high > capacity:
            yield invalid(f"{path}.max", str(high), f"max is larger than capacity value: {capacity}")
        if default > high:
            yield invalid(f"{path}.max", str(default), f"default is more than max: {high}")
    if limits.step is not None:
        yield from _step(f"{path}.step", (low, _read(limits.step), capacity), (default, high), exact)


def _step(
    path: str, limits: tuple[Quantity, Quantity, Quantity], values: tuple[Quantity, Quantity | None], exact: bool
) -> Iterator[FieldError]:
    low, step, capacity = limits
    if exact and step.sign <= 0:
        yield invalid(path, str(step), "must be greater than zero")
        return
    added = low.add(step)
    if added > capacity:
        yield invalid(path, str(step), f"one step {added} is larger than capacity value: {capacity}")
    if step.value() == 0:
        # Upstream divides by zero here and closes the connection; a refusal in words is the nearest that is sane.
        yield invalid(path, str(step), "must not be zero")
        return
    for value in values:
        if value is not None and _rest(value, low, step, exact):
            yield invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({low})")


def _rest(value: Quantity, low: Quantity, step: Quantity, exact: bool) -> int:
    """What is left of a value above `low` when whole steps are taken off."""
    if exact and step.milli_value():
        return (value.milli_value() - low.milli_value()) % step.milli_value()
    return (value.value() - low.value()) % step.value()
