"""Rules for single fields that several kinds of resource.k8s.io share. Source: pkg/apis/resource/validation."""

from __future__ import annotations

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
from regauge.model.resource import DeviceTaint, DeviceToleration, OpaqueDeviceConfiguration

T = TypeVar("T")

OPAQUE_LIMIT_BYTES = 10 * 1024
POOL_NAME_LIMIT_BYTES = 253
DRIVER_NAME_LIMIT_BYTES = 63
CONDITIONS_LIMIT = 4
_EFFECTS = ("NoExecute", "NoSchedule", "None")


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
        yield invalid(f"{path}.bindingConditions", list(conditions), text)
    if conditions and not failures:
        text = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(f"{path}.bindingFailureConditions", list(failures), text)


def device_name(path: str, name: str) -> list[FieldError]:
    return label_errors(path, name)
