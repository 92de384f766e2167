"""What makes a ResourceClaim, a ResourceClaimTemplate or a claim's status invalid.

Source: pkg/apis/resource/validation/validation.go of 1.36.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from regauge.cluster.admission import fields
from regauge.cluster.admission.goshow import go_allocation, go_claim_spec, go_template_spec
from regauge.cluster.admission.names import label_errors, required_subdomain
from regauge.cluster.refusals import (
    FieldError,
    forbidden_field,
    invalid,
    required,
    too_long,
    unsupported_value,
)
from regauge.model.resource import (
    MAX_RESERVED_FOR,
    MAX_RESULTS_PER_CLAIM,
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    NetworkDeviceData,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplateSpec,
)

REQUESTS_LIMIT = 32
SELECTORS_LIMIT = 32
ALTERNATIVES_LIMIT = 8
EXPRESSION_LIMIT_BYTES = 10 * 1024
STATUS_DATA_LIMIT_BYTES = 10 * 1024
DEVICE_CONDITIONS_LIMIT = 8
ADDRESSES_LIMIT = 16
_NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ExpressionFaults = Callable[[str, str], list[FieldError]]  # path and CEL expression to what is wrong with it
Names = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The rules for claims. `expression_faults` compiles a selector and says what is wrong with it."""

    expression_faults: ExpressionFaults
    distinct_attribute: bool

    def spec(self, path: str, spec: ResourceClaimSpec) -> list[FieldError]:
        return self._devices(f"{path}.devices", spec.devices)

    def _devices(self, path: str, claim: DeviceClaim) -> list[FieldError]:
        names = request_names(claim)
        errors = fields.unique(
            f"{path}.requests", claim.requests, REQUESTS_LIMIT, self._request, lambda request: request.name
        )
        errors += fields.items(
            f"{path}.constraints",
            claim.constraints,
            REQUESTS_LIMIT,
            lambda place, constraint: self._constraint(place, constraint, names),
        )
        errors += fields.items(
            f"{path}.config",
            claim.config,
            REQUESTS_LIMIT,
            lambda place, config: _config(place, config, names),
        )
        return errors

    def _request(self, path: str, request: DeviceRequest) -> list[FieldError]:
        errors = label_errors(f"{path}.name", request.name)
        one_of = "exactly one of `exactly` or `firstAvailable` is required"
        if request.exactly is not None and request.first_available:
            return [*errors, invalid(path, None, f"{one_of}, but multiple fields are set")]
        if request.exactly is not None:
            return errors + self._asked(f"{path}.exactly", request.exactly)
        if not request.first_available:
            return [*errors, required(path, one_of)]
        return errors + fields.unique(
            f"{path}.firstAvailable",
            request.first_available,
            ALTERNATIVES_LIMIT,
            lambda place, item: label_errors(f"{place}.name", item.name) + self._asked(place, item),
            lambda item: item.name,
        )

    def _asked(self, path: str, asked: ExactDeviceRequest | DeviceSubRequest) -> list[FieldError]:
        errors = required_subdomain(f"{path}.deviceClassName", asked.device_class_name)
        errors += self.selectors(f"{path}.selectors", asked.selectors)
        match asked.allocation_mode:
            case "All":
                if asked.count:
                    text = "must not be specified when allocationMode is 'All'"
                    errors.append(invalid(f"{path}.count", asked.count, text))
            case "ExactCount":
                if asked.count <= 0:
                    errors.append(invalid(f"{path}.count", asked.count, "must be greater than zero"))
            case mode:
                errors.append(unsupported_value(f"{path}.allocationMode", mode, ("All", "ExactCount")))
        return errors + fields.items(f"{path}.tolerations", asked.tolerations, -1, fields.toleration)

    def selectors(self, path: str, selectors: tuple[DeviceSelector, ...]) -> list[FieldError]:
        return fields.items(path, selectors, SELECTORS_LIMIT, self._selector)

    def _selector(self, path: str, selector: DeviceSelector) -> list[FieldError]:
        if selector.cel is None:
            return [required(f"{path}.cel")]
        place = f"{path}.cel.expression"
        if len(selector.cel.expression.encode()) > EXPRESSION_LIMIT_BYTES:
            return [too_long(place, EXPRESSION_LIMIT_BYTES)]
        return self.expression_faults(place, selector.cel.expression)

    def _constraint(self, path: str, constraint: DeviceConstraint, names: Names) -> list[FieldError]:
        errors = _request_references(f"{path}.requests", constraint.requests, names)
        if constraint.match_attribute is not None:
            return errors + fields.fully_qualified_name(f"{path}.matchAttribute", constraint.match_attribute)
        if not self.distinct_attribute:
            return [*errors, required(f"{path}.matchAttribute")]
        if constraint.distinct_attribute is not None:
            return errors + fields.fully_qualified_name(f"{path}.distinctAttribute", constraint.distinct_attribute)
        return [*errors, required(path, _ONE_ATTRIBUTE)]


def request_names(claim: DeviceClaim) -> Names:
    """The names of requests with those of their alternatives."""
    return {request.name: frozenset(item.name for item in request.first_available) for request in claim.requests}


def _request_references(path: str, values: tuple[str, ...], names: Names) -> list[FieldError]:
    return fields.unique(
        path, values, REQUESTS_LIMIT, lambda place, value: request_reference(place, value, names), lambda value: value
    )


def request_reference(path: str, value: str, names: Names) -> list[FieldError]:
    parts = value.split("/")
    if len(parts) > 2:
        return [invalid(path, value, _NOT_A_REQUEST)]
    errors = [error for part in parts for error in label_errors(path, part)]
    known = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    return errors if known else [*errors, invalid(path, value, _NOT_A_REQUEST)]


def _config(path: str, config: DeviceClaimConfiguration, names: Names) -> list[FieldError]:
    return _request_references(f"{path}.requests", config.requests, names) + fields.opaque(path, config.opaque)


def immutable_spec(old: ResourceClaimSpec, new: ResourceClaimSpec) -> list[FieldError]:
    """The spec of a claim never changes."""
    return [] if old == new else [_immutable("spec", go_claim_spec(new))]


def immutable_template(old: ResourceClaimTemplateSpec, new: ResourceClaimTemplateSpec) -> list[FieldError]:
    """The spec of a template never changes, its metadata neither."""
    return [] if old == new else [_immutable("spec", go_template_spec(new))]


def _immutable(path: str, shown: str) -> FieldError:
    return FieldError(path, "Invalid value", f"Invalid value: {shown}: field is immutable")


def status_errors(
    claim: ResourceClaimSpec, old: ResourceClaimStatus, new: ResourceClaimStatus, *, deleting: bool
) -> list[FieldError]:
    """What is wrong with an update of a claim's status."""
    errors = fields.unique(
        "status.reservedFor", new.reserved_for, MAX_RESERVED_FOR, _consumer, lambda consumer: consumer.uid
    )
    allocated = {
        (result.driver, result.pool, result.device, result.share_id)
        for result in (new.allocation.devices.results if new.allocation else ())
    }
    errors += fields.unique(
        "status.devices",
        new.devices,
        -1,
        lambda path, device: _device_status(path, device, allocated),
        lambda device: "/".join(part for part in (device.driver, device.pool, device.device, device.share_id) if part),
    )
    errors += _reservation(old, new, deleting)
    if new.allocation is None:
        return errors
    if old.allocation is None:
        return errors + _allocation("status.allocation", new.allocation, request_names(claim.devices))
    if old.allocation != new.allocation:
        errors.append(_immutable("status.allocation", go_allocation(new.allocation)))
    return errors


def _reservation(old: ResourceClaimStatus, new: ResourceClaimStatus, deleting: bool) -> list[FieldError]:
    if not new.reserved_for:
        return []
    if new.allocation is None:
        return [forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set")]
    if deleting and not set(new.reserved_for) <= set(old.reserved_for):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [forbidden_field("status.reservedFor", text)]
    return []


def _consumer(path: str, consumer: ResourceClaimConsumerReference) -> list[FieldError]:
    values = (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid))
    return [required(f"{path}.{name}") for name, value in values if not value]


def _device_status(
    path: str, device: AllocatedDeviceStatus, allocated: set[tuple[str, str, str, str | None]]
) -> list[FieldError]:
    errors = fields.driver_name(f"{path}.driver", device.driver)
    errors += fields.pool_name(f"{path}.pool", device.pool)
    errors += fields.device_name(f"{path}.device", device.device)
    errors += _share_id(f"{path}.shareID", device.share_id)
    if (device.driver, device.pool, device.device, device.share_id) not in allocated:
        name = {"Driver": device.driver, "Pool": device.pool, "Device": device.device, "ShareID": device.share_id or ""}
        errors.append(invalid(path, name, "must be an allocated device in the claim"))
    errors += fields.conditions(f"{path}.conditions", device.conditions, DEVICE_CONDITIONS_LIMIT)
    errors += _network_data(f"{path}.networkData", device.network_data)
    if device.data is not None:
        errors += fields.raw_object(f"{path}.data", device.data, STATUS_DATA_LIMIT_BYTES)
    return errors


def _network_data(path: str, data: NetworkDeviceData | None) -> list[FieldError]:
    if data is None:
        return []
    sizes = (("interfaceName", data.interface_name, 256), ("hardwareAddress", data.hardware_address, 128))
    errors = [too_long(f"{path}.{name}", limit) for name, value, limit in sizes if len(value.encode()) > limit]
    return errors + fields.unique(f"{path}.ips", data.ips, ADDRESSES_LIMIT, _address, lambda value: value)


def _address(path: str, text: str) -> list[FieldError]:
    """An address with its prefix, in canonical form."""
    try:
        canonical = str(ipaddress.ip_interface(text)) if "/" in text else ""
    except ValueError:
        canonical = _without_leading_zeros(text)
    if not canonical:
        return [invalid(path, text, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")]
    return [] if canonical == text else [invalid(path, text, f'must be in canonical form ("{canonical}")')]


def _without_leading_zeros(text: str) -> str:
    """What an IPv4 address with leading zeros is in canonical form; "" when it is none even then."""
    address, _, prefix = text.partition("/")
    plain = ".".join(part.lstrip("0") or "0" for part in address.split("."))
    try:
        return str(ipaddress.IPv4Interface(f"{plain}/{prefix}"))
    except ValueError:
        return ""


def _share_id(path: str, share_id: str | None) -> list[FieldError]:
    if share_id is None or _UUID.fullmatch(share_id):
        return []
    if len(share_id) not in (32, 36, 38, 41, 45):
        return [invalid(path, share_id, f"error validating uid: invalid UUID length: {len(share_id)}")]
    text = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal"
    return [invalid(path, share_id, f"{text} characters")]


def _allocation(path: str, allocation: AllocationResult, names: Names) -> list[FieldError]:
    errors = fields.items(
        f"{path}.devices.results",
        allocation.devices.results,
        MAX_RESULTS_PER_CLAIM,
        lambda place, result: _result(place, result, names),
    )
    errors += fields.items(
        f"{path}.devices.config",
        allocation.devices.config,
        2 * REQUESTS_LIMIT,
        lambda place, config: _allocated_config(place, config, names),
    )
    if allocation.node_selector is not None and not allocation.node_selector.node_selector_terms:
        terms = f"{path}.nodeSelector.nodeSelectorTerms"
        errors.append(required(terms, "must have at least one node selector term"))
    return errors


def _result(path: str, result: DeviceRequestAllocationResult, names: Names) -> list[FieldError]:
    errors = request_reference(f"{path}.request", result.request, names)
    errors += fields.driver_name(f"{path}.driver", result.driver)
    errors += fields.pool_name(f"{path}.pool", result.pool)
    errors += fields.device_name(f"{path}.device", result.device)
    errors += fields.binding_conditions(path, result.binding_conditions, result.binding_failure_conditions)
    return errors + _share_id(f"{path}.shareID", result.share_id)


def _allocated_config(path: str, config: DeviceAllocationConfiguration, names: Names) -> list[FieldError]:
    sources = ("FromClaim", "FromClass")
    errors: list[FieldError] = []
    if not config.source:
        errors.append(required(f"{path}.source"))
    elif config.source not in sources:
        errors.append(unsupported_value(f"{path}.source", config.source, sources))
    errors += _request_references(f"{path}.requests", config.requests, names)
    return errors + fields.opaque(path, config.opaque)
