"""What makes a ResourceSlice, a DeviceClass or a DeviceTaintRule invalid.

Source: pkg/apis/resource/validation/validation.go of 1.36. Errors below the keys of a map come in the order of the
keys (upstream's order is random there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from regauge.cluster.admission import fields
from regauge.cluster.admission.names import label_errors, label_name_errors, label_value_errors, subdomain_errors
from regauge.cluster.admission.requestpolicy import policy_errors
from regauge.cluster.refusals import (
    FieldError,
    forbidden_field,
    invalid,
    not_found_value,
    required,
    too_long,
    too_many,
)
from regauge.model import NodeSelector, Quantity
from regauge.model.resource import (
    MAX_DEVICES_PER_SLICE,
    MAX_DEVICES_PER_SLICE_ADVANCED,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceTaintRuleSpec,
    ResourceSliceSpec,
)

ATTRIBUTES_LIMIT = 32
ATTRIBUTE_VALUES_LIMIT = 48
VALUE_LIMIT_BYTES = 64
COUNTER_SETS_LIMIT = 8
COUNTERS_LIMIT = 32
CONSUMPTIONS_LIMIT = 2
TAINTS_LIMIT = 16
KEY_LENGTH = 96

_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_NODES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_NODES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true"
    " in the ResourceSlice spec"
)
_NOT_PER_DEVICE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the"
    " ResourceSlice spec"
)
_IMMUTABLE = "field is immutable"
_UNSET_OR_TRUE = "must be either unset or set to true"


def slice_errors(
    spec: ResourceSliceSpec, old: ResourceSliceSpec | None, raw: Mapping[str, Any], *, exact_steps: bool = False
) -> list[FieldError]:
    """What is wrong with a slice's spec; `raw` is its document, which tells absent from empty."""
    errors = fields.driver_name("spec.driver", spec.driver) + _pool(spec)
    if old is not None:
        for path, value, before in (
            ("spec.pool.name", spec.pool.name, old.pool.name),
            ("spec.driver", spec.driver, old.driver),
            ("spec.nodeName", spec.node_name, old.node_name),
        ):
            if value != before:
                errors.append(invalid(path, value, _IMMUTABLE))
    errors += _slice_nodes(spec)
    if raw.get("sharedCounters") is not None and raw.get("devices") is not None:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    limit = MAX_DEVICES_PER_SLICE_ADVANCED if _advanced(spec) else MAX_DEVICES_PER_SLICE
    before_devices = {device.name: device for device in old.devices} if old else {}
    errors += fields.unique(
        "spec.devices",
        spec.devices,
        limit,
        lambda path, device: _device(
            path, device, before_devices.get(device.name), spec.per_device_node_selection, exact_steps
        ),
        lambda device: device.name,
    )
    return errors + fields.unique(
        "spec.sharedCounters", spec.shared_counters, COUNTER_SETS_LIMIT, _counter_set, lambda item: item.name
    )


def _pool(spec: ResourceSliceSpec) -> list[FieldError]:
    pool = spec.pool
    errors = fields.pool_name("spec.pool.name", pool.name)
    if pool.resource_slice_count <= 0:
        errors.append(invalid("spec.pool.resourceSliceCount", pool.resource_slice_count, "must be greater than zero"))
    if pool.generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid("spec.pool.generation", pool.generation, text))
    return errors


def _slice_nodes(spec: ResourceSliceSpec) -> list[FieldError]:
    errors, named = _node_fields("spec", spec, "must be either unset or set to a non-empty string")
    if spec.node_selector is not None and len(spec.node_selector.node_selector_terms) != 1:
        terms = [_go_term(term) for term in spec.node_selector.node_selector_terms]
        path = "spec.nodeSelector.nodeSelectorTerms"
        errors.insert(_after_selector(errors), invalid(path, terms, "must have exactly one node selector term"))
    if spec.per_device_node_selection:
        named.append("`perDeviceNodeSelection`")
    elif spec.per_device_node_selection is not None:
        errors.append(invalid("spec.perDeviceNodeSelection", False, _UNSET_OR_TRUE))
    return errors + _exactly_one("spec", named, _NODES, f"{_NODES}, but multiple fields are set")


def _after_selector(errors: list[FieldError]) -> int:
    """Before what is said of allNodes, after everything that is said of the node selector."""
    return next((i for i, error in enumerate(errors) if error.path.endswith(".allNodes")), len(errors))


def _go_term(term: Any) -> dict[str, Any]:
    def requirements(items: Any) -> Any:
        return [{"Key": it.key, "Operator": it.operator, "Values": list(it.values) or None} for it in items] or None

    return {
        "MatchExpressions": requirements(term.match_expressions),
        "MatchFields": requirements(term.match_fields),
    }


def _exactly_one(path: str, named: list[str], none: str, several: str) -> list[FieldError]:
    if not named:
        return [required(path, none)]
    return [invalid(path, "{" + ", ".join(named) + "}", several)] if len(named) > 1 else []


def _node_fields(path: str, item: ResourceSliceSpec | Device, empty: str) -> tuple[list[FieldError], list[str]]:
    """nodeName, nodeSelector and allNodes: what is wrong with them, and which are set."""
    errors: list[FieldError] = []
    named: list[str] = []
    if item.node_name:
        named.append("`nodeName`")
        errors += subdomain_errors(f"{path}.nodeName", item.node_name)
    elif item.node_name is not None:
        errors.append(invalid(f"{path}.nodeName", "", empty))
    if item.node_selector is not None:
        named.append("`nodeSelector`")
        errors += node_selector_errors(f"{path}.nodeSelector", item.node_selector)
    if item.all_nodes:
        named.append("`allNodes`")
    elif item.all_nodes is not None:
        errors.append(invalid(f"{path}.allNodes", False, _UNSET_OR_TRUE))
    return errors, named


def node_selector_errors(path: str, selector: NodeSelector) -> list[FieldError]:
    if not selector.node_selector_terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for number, term in enumerate(selector.node_selector_terms):
        for index, item in enumerate(term.match_expressions):
            place = f"{path}.nodeSelectorTerms[{number}].matchExpressions[{index}]"
            errors += _expression(place, item.operator, item.values) + label_name_errors(f"{place}.key", item.key)
            for number_, value in enumerate(item.values):
                errors += label_value_errors(f"{place}.values[{number_}]", value)
        for index, item in enumerate(term.match_fields):
            place = f"{path}.nodeSelectorTerms[{number}].matchFields[{index}]"
            errors += _match_field(place, item.key, item.operator, item.values)
    return errors


def _expression(path: str, operator: str, values: tuple[str, ...]) -> list[FieldError]:
    match operator:
        case "In" | "NotIn":
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            return [] if values else [required(f"{path}.values", text)]
        case "Exists" | "DoesNotExist":
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [forbidden_field(f"{path}.values", text)] if values else []
        case "Gt" | "Lt":
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            return [] if len(values) == 1 else [required(f"{path}.values", text)]
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]


def _match_field(path: str, key: str, operator: str, values: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", text))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    return errors + [
        error for i, value in enumerate(values) for error in subdomain_errors(f"{path}.values[{i}]", value)
    ]


def _advanced(spec: ResourceSliceSpec) -> bool:
    """Whether a device uses what halves the number of devices that a slice may hold."""
    return any(device.taints or device.consumes_counters or _has_lists(device) for device in spec.devices)


def _has_lists(device: Device) -> bool:
    return any(values is not None for item in device.attributes.values() for values in _value_lists(item))


def _value_lists(item: DeviceAttribute) -> tuple[Any, ...]:
    return item.bool_values, item.int_values, item.string_values, item.version_values


def _device(
    path: str, device: Device, old: Device | None, per_device: bool | None, exact_steps: bool
) -> list[FieldError]:
    errors = fields.device_name(f"{path}.name", device.name)
    count = len(device.attributes) + len(device.capacity)
    if count > ATTRIBUTES_LIMIT:
        text = f"the total number of attributes and capacities must not exceed {ATTRIBUTES_LIMIT}"
        errors.append(invalid(path, count, text))
    values = sum(sum(map(len, filter(None, _value_lists(item)))) or 1 for item in device.attributes.values())
    if values > ATTRIBUTE_VALUES_LIMIT:
        text = f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES_LIMIT}"
        errors.append(invalid(path, values, text))
    errors += _mapping(f"{path}.attributes", device.attributes, -1, fields.qualified_name, _attribute)
    shared = bool(device.allow_multiple_allocations)
    check = partial(_shared, exact_steps=exact_steps) if shared else _unshared
    errors += _mapping(f"{path}.capacity", device.capacity, -1, fields.qualified_name, check)
    if old is None or old.taints != device.taints:
        errors += fields.items(f"{path}.taints", device.taints, TAINTS_LIMIT, fields.taint)
    errors += fields.unique(
        f"{path}.consumesCounters",
        device.consumes_counters,
        CONSUMPTIONS_LIMIT,
        _consumption,
        lambda item: item.counter_set,
    )
    errors += _device_nodes(path, device, bool(per_device))
    errors += fields.binding_conditions(path, device.binding_conditions, device.binding_failure_conditions)
    return errors + list(_node_allocatable(path, device))


def _mapping(
    path: str,
    values: Mapping[str, Any],
    limit: int,
    check_key: Callable[[str, str], list[FieldError]],
    check: Callable[[str, Any], list[FieldError]],
) -> list[FieldError]:
    if 0 <= limit < len(values):
        return [too_many(path, len(values), limit)]
    errors: list[FieldError] = []
    for key in sorted(values):
        errors += check_key(path, key) + check(f"{path}[{_shortened(key)}]", values[key])
    return errors


def _shortened(key: str) -> str:
    if len(key) <= KEY_LENGTH:
        return key
    left = KEY_LENGTH - 3
    return f"{key[: (left + 1) // 2]}...{key[len(key) - left // 2 :]}"


def _attribute(path: str, item: DeviceAttribute) -> list[FieldError]:
    errors: list[FieldError] = []
    if item.string_value is not None:
        errors += _text(f"{path}.string", item.string_value)
    if item.version_value is not None:
        errors += _version(f"{path}.version", item.version_value)
    for name, values in (("bools", item.bool_values), ("ints", item.int_values), ("strings", item.string_values)):
        if values is not None and not values:
            errors.append(invalid(f"{path}.{name}", [], "must not be empty if specified"))
    errors += [e for i, text in enumerate(item.string_values or ()) for e in _text(f"{path}.strings[{i}]", text)]
    if item.version_values is not None and not item.version_values:
        errors.append(invalid(f"{path}.versions", [], "must not be empty if specified"))
    errors += [e for i, text in enumerate(item.version_values or ()) for e in _version(f"{path}.versions[{i}]", text)]
    singles = (item.bool_value, item.int_value, item.string_value, item.version_value)
    count = sum(value is not None for value in (*singles, *_value_lists(item)))
    if count == 1:
        return errors
    shown = "" if not count else _go_attribute(item)
    return [*errors, invalid(path, shown, "exactly one value must be specified")]


def _go_attribute(item: DeviceAttribute) -> dict[str, Any]:
    return {
        "IntValue": item.int_value,
        "BoolValue": item.bool_value,
        "StringValue": item.string_value,
        "VersionValue": item.version_value,
        "IntValues": item.int_values,
        "BoolValues": item.bool_values,
        "StringValues": item.string_values,
        "VersionValues": item.version_values,
    }


def _text(path: str, value: str) -> list[FieldError]:
    return [too_long(path, VALUE_LIMIT_BYTES)] if len(value.encode()) > VALUE_LIMIT_BYTES else []


def _version(path: str, value: str) -> list[FieldError]:
    text = "must be a string compatible with semver.org spec 2.0.0"
    errors = [] if _SEMVER.fullmatch(value) else [invalid(path, value, text)]
    return errors + _text(path, value)


def _shared(path: str, capacity: DeviceCapacity, *, exact_steps: bool) -> list[FieldError]:
    if capacity.request_policy is None:
        return []
    amount = Quantity.from_document(capacity.value)
    return policy_errors(f"{path}.requestPolicy", amount, capacity.request_policy, exact_steps=exact_steps)


def _unshared(path: str, capacity: DeviceCapacity) -> list[FieldError]:
    if capacity.request_policy is None:
        return []
    return [forbidden_field(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]


def _no_errors(_path: str, _value: Any) -> list[FieldError]:
    return []


def _consumption(path: str, item: DeviceCounterConsumption) -> list[FieldError]:
    place = f"{path}.counterSet"
    errors = label_errors(place, item.counter_set) if item.counter_set else [required(place)]
    if not item.counters:
        return [*errors, required(f"{path}.counters")]
    return errors + _mapping(f"{path}.counters", item.counters, COUNTERS_LIMIT, label_errors, _no_errors)


def _counter_set(path: str, item: CounterSet) -> list[FieldError]:
    errors = label_errors(f"{path}.name", item.name) if item.name else [required(f"{path}.name")]
    if not item.counters:
        return [*errors, required(f"{path}.counters")]
    return errors + _mapping(f"{path}.counters", item.counters, COUNTERS_LIMIT, label_errors, _no_errors)


def _device_nodes(path: str, device: Device, per_device: bool) -> list[FieldError]:
    if not per_device:
        given = (device.node_name, device.node_selector, device.all_nodes)
        return [invalid(path, None, _NOT_PER_DEVICE)] if any(value is not None for value in given) else []
    errors, named = _node_fields(path, device, "must not be empty")
    return errors + _exactly_one(path, named, _DEVICE_NODES, _DEVICE_NODES)


def _node_allocatable(path: str, device: Device) -> Iterator[FieldError]:
    for name, mapping in sorted(device.node_allocatable_resource_mappings.items()):
        place = f"{path}.nodeAllocatableResourceMappings[{name}]"
        if "/" in name and "kubernetes.io/" not in name:
            yield invalid(place, name, "must be a node allocatable resource name")
        multiplier, key = mapping.allocation_multiplier, mapping.capacity_key
        if multiplier is not None and Quantity.from_document(multiplier).sign <= 0:
            yield invalid(f"{place}.allocationMultiplier", str(Quantity.from_document(multiplier)), "must be positive")
        if key == "":
            yield invalid(f"{place}.capacityKey", "", "capacityKey must not be an empty string")
        elif key is not None and key not in device.capacity:
            yield not_found_value(f"{place}.capacityKey", key)


def taint_rule_errors(spec: DeviceTaintRuleSpec) -> list[FieldError]:
    """What is wrong with the spec of a DeviceTaintRule."""
    errors: list[FieldError] = []
    selector, path = spec.device_selector, "spec.deviceSelector"
    if selector is not None:
        if selector.driver is not None:
            errors += fields.driver_name(f"{path}.driver", selector.driver)
        if selector.pool is not None:
            errors += fields.pool_name(f"{path}.pool", selector.pool)
        if selector.device is not None:
            errors += fields.device_name(f"{path}.device", selector.device)
    return errors + fields.taint("spec.taint", spec.taint)
