"""Rules for single fields that several kinds of resource.k8s.io share. Source: pkg/apis/resource/validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from regauge.cluster.admission.names import (
    identifier_errors,
    label_errors,
    label_name_errors,
    label_value_errors,
    subdomain_errors,
    subdomain_faults,
)
from regauge.cluster.refusals import (
    FieldError,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    unsupported_value,
)
from regauge.model.resource import Condition, DeviceTaint, DeviceToleration, OpaqueDeviceConfiguration

T = TypeVar("T")

OPAQUE_LIMIT_BYTES = 10 * 1024
POOL_NAME_LIMIT_BYTES = 253
DRIVER_NAME_LIMIT_BYTES = 63
CONDITIONS_LIMIT = 4
REASON_LIMIT_BYTES = 1024
MESSAGE_LIMIT_BYTES = 32 * 1024
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_STATUSES = ("False", "True", "Unknown")
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"


def driver_name(path: str, name: str) -> list[FieldError]:
    """Upper case is taken, as for CSI drivers."""
    if not name:
        return [required(path)]
    errors = [too_long(path, DRIVER_NAME_LIMIT_BYTES)] if len(name.encode()) > DRIVER_NAME_LIMIT_BYTES else []
    return errors + [invalid(path, name, fault) for fault in subdomain_faults(name.lower())]


def pool_name(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    errors = [too_long(path, POOL_NAME_LIMIT_BYTES)] if len(name.encode()) > POOL_NAME_LIMIT_BYTES else []
    return errors + [error for part in name.split("/") for error in subdomain_errors(path, part)]


def qualified_name(path: str, name: str) -> list[FieldError]:
    """A name of an attribute or capacity. More than one slash is not looked at, as upstream."""
    parts = name.split("/")
    if len(parts) == 1:
        return identifier_errors(path, name)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    errors = driver_name(path, domain) if domain else [invalid(path, "", "the domain must not be empty")]
    if not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    return errors + identifier_errors(path, identifier)


def fully_qualified_name(path: str, name: str) -> list[FieldError]:
    errors = qualified_name(path, name)
    if "/" not in name:
        errors.append(invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
    return errors


def items(
    path: str, values: Sequence[T], limit: int, check: Callable[[str, T], Sequence[FieldError]]
) -> list[FieldError]:
    """A list of limited length whose members are checked; one that is too long is not looked into."""
    if 0 <= limit < len(values):
        return [too_many(path, len(values), limit)]
    return [error for index, value in enumerate(values) for error in check(f"{path}[{index}]", value)]


def unique(
    path: str,
    values: Sequence[T],
    limit: int,
    check: Callable[[str, T], Sequence[FieldError]],
    key: Callable[[T], Any],
) -> list[FieldError]:
    """A list as `items`, in which no key may come twice."""
    errors = items(path, values, limit, check)
    if 0 <= limit < len(values):
        return errors
    seen: set[Any] = set()
    for index, value in enumerate(values):
        name = key(value)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def opaque(path: str, config: OpaqueDeviceConfiguration | None) -> list[FieldError]:
    """A driver's own configuration: a JSON object of limited size."""
    path = f"{path}.opaque"
    if config is None:
        return [required(path)]
    return driver_name(f"{path}.driver", config.driver) + raw_object(
        f"{path}.parameters", config.parameters, OPAQUE_LIMIT_BYTES
    )


def raw_object(path: str, value: Any, limit_bytes: int) -> list[FieldError]:
    if value is None:
        return [required(path)]
    if len(msgspec.json.encode(value)) > limit_bytes:
        return [too_long(path, limit_bytes)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def toleration(path: str, item: DeviceToleration) -> list[FieldError]:
    errors = label_name_errors(f"{path}.key", item.key) if item.key else []
    match item.operator:
        case "Exists":
            if item.value:
                errors.append(invalid(f"{path}.value", item.value, "must be empty for operator `Exists`"))
        case "Equal":
            errors += label_value_errors(f"{path}.value", item.value)
        case "":
            errors.append(required(f"{path}.operator"))
        case _:
            errors.append(unsupported_value(f"{path}.operator", item.operator, ("Equal", "Exists")))
    if item.effect and item.effect not in _EFFECTS:
        errors.append(unsupported_value(f"{path}.effect", item.effect, _EFFECTS))
    return errors


def taint(path: str, item: DeviceTaint) -> list[FieldError]:
    errors = label_name_errors(f"{path}.key", item.key)
    if item.value:
        errors += label_value_errors(f"{path}.value", item.value)
    if not item.effect:
        errors.append(required(f"{path}.effect"))
    elif item.effect not in _EFFECTS:
        errors.append(unsupported_value(f"{path}.effect", item.effect, _EFFECTS))
    return errors


def binding_conditions(path: str, conditions: Sequence[str], failures: Sequence[str]) -> list[FieldError]:
    """The conditions to wait for before binding, and those that end the wait."""
    return list(_binding_conditions(path, conditions, failures))


def _binding_conditions(path: str, conditions: Sequence[str], failures: Sequence[str]) -> Iterator[FieldError]:
    for field, values in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        yield from items(f"{path}.{field}", values, CONDITIONS_LIMIT, label_name_errors)
    for index, name in enumerate(conditions):
        if name in conditions[:index]:
            yield duplicate(f"{path}.bindingConditions[{index}]", name)
    for index, name in enumerate(failures):
        place = f"{path}.bindingFailureConditions[{index}]"
        if name in failures[:index]:
            yield duplicate(place, name)
        if name in conditions:
            yield invalid(place, name, "bindingFailureConditions must not overlap with bindingConditions")
    if failures and not conditions:
        text = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(f"{path}.bindingConditions", list(conditions) or None, text)
    if conditions and not failures:
        text = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(f"{path}.bindingFailureConditions", list(failures) or None, text)


def conditions(path: str, values: Sequence[Condition], limit: int) -> list[FieldError]:
    """Conditions in the form that every kind shares. Source: apimachinery meta/v1/validation."""
    errors = [too_many(path, len(values), limit)] if len(values) > limit else []
    return errors + list(_conditions(path, values))


def _conditions(path: str, values: Sequence[Condition]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, item in enumerate(values):
        place = f"{path}[{index}]"
        if item.type in seen:
            yield duplicate(f"{place}.type", item.type)
        seen.add(item.type)
        yield from label_name_errors(f"{place}.type", item.type)
        if item.status not in _STATUSES:
            yield unsupported_value(f"{place}.status", item.status, _STATUSES)
        if item.observed_generation is not None and item.observed_generation < 0:
            text = "must be greater than or equal to zero"
            yield invalid(f"{place}.observedGeneration", item.observed_generation, text)
        if not item.last_transition_time:
            yield required(f"{place}.lastTransitionTime")
        if len(item.reason) > REASON_LIMIT_BYTES:
            yield too_long(f"{place}.reason", REASON_LIMIT_BYTES)
        yield from _reason(f"{place}.reason", item.reason)
        if len(item.message) > MESSAGE_LIMIT_BYTES:
            yield too_long(f"{place}.message", MESSAGE_LIMIT_BYTES)


def _reason(path: str, reason: str) -> list[FieldError]:
    if not reason:
        return [required(path)]
    if re.fullmatch(_REASON, reason):
        return []
    text = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    text += (
        " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or"
    )
    text += f" 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
    return [invalid(path, reason, text)]


def device_name(path: str, name: str) -> list[FieldError]:
    return label_errors(path, name)
