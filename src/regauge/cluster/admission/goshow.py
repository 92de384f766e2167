"""Claims as upstream's error messages print them: Go's field names, every field, null for what is empty."""

from __future__ import annotations

from typing import Any

import msgspec

from regauge.model import NodeSelector
from regauge.model.resource import (
    AllocationResult,
    CapacityRequirements,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
    ResourceClaimSpec,
    ResourceClaimTemplateSpec,
)


def go_claim_spec(spec: ResourceClaimSpec) -> str:
    return msgspec.json.encode(_claim_spec(spec)).decode()


def go_template_spec(spec: ResourceClaimTemplateSpec) -> str:
    metadata = {"labels": spec.metadata.labels, "annotations": spec.metadata.annotations}
    given = {name: dict(sorted(values.items())) for name, values in metadata.items() if values}
    return msgspec.json.encode({**given, "Spec": _claim_spec(spec.spec)}).decode()


def _claim_spec(spec: ResourceClaimSpec) -> dict[str, Any]:
    devices = spec.devices
    return {
        "Devices": {
            "Requests": _list([_request(item) for item in devices.requests]),
            "Constraints": _list([_constraint(item) for item in devices.constraints]),
            "Config": _list([{"Requests": _list(item.requests), **_opaque(item.opaque)} for item in devices.config]),
        }
    }


def go_allocation(allocation: AllocationResult) -> str:
    results: list[dict[str, Any]] = [
        {
            "Request": item.request,
            "Driver": item.driver,
            "Pool": item.pool,
            "Device": item.device,
            "AdminAccess": item.admin_access,
            "Tolerations": _list([_toleration(part) for part in item.tolerations]),
            "BindingConditions": _list(item.binding_conditions),
            "BindingFailureConditions": _list(item.binding_failure_conditions),
            "ShareID": item.share_id,
            "ConsumedCapacity": item.consumed_capacity or None,
        }
        for item in allocation.devices.results
    ]
    config = [
        {"Source": item.source, "Requests": _list(item.requests), **_opaque(item.opaque)}
        for item in allocation.devices.config
    ]
    shown = {
        "Devices": {"Results": results, "Config": _list(config)},
        "NodeSelector": _node_selector(allocation.node_selector),
        "AllocationTimestamp": allocation.allocation_timestamp,
    }
    return msgspec.json.encode(shown).decode()


def _list(values: Any) -> Any:
    return list(values) or None


def _request(request: DeviceRequest) -> dict[str, Any]:
    exactly = request.exactly
    return {
        "Name": request.name,
        "Exactly": None if exactly is None else {**_asked(exactly, admin=True)},
        "FirstAvailable": _list([{"Name": item.name, **_asked(item)} for item in request.first_available]),
    }


def _asked(asked: ExactDeviceRequest | DeviceSubRequest, *, admin: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "DeviceClassName": asked.device_class_name,
        "Selectors": _list([_selector(item) for item in asked.selectors]),
        "AllocationMode": asked.allocation_mode,
        "Count": asked.count,
    }
    if admin and isinstance(asked, ExactDeviceRequest):
        shown["AdminAccess"] = asked.admin_access
    shown["Tolerations"] = _list([_toleration(item) for item in asked.tolerations])
    shown["Capacity"] = _capacity(asked.capacity)
    return shown


def _selector(selector: DeviceSelector) -> dict[str, Any]:
    return {"CEL": None if selector.cel is None else {"Expression": selector.cel.expression}}


def _toleration(item: DeviceToleration) -> dict[str, Any]:
    return {
        "Key": item.key,
        "Operator": item.operator,
        "Value": item.value,
        "Effect": item.effect,
        "TolerationSeconds": item.toleration_seconds,
    }


def _capacity(capacity: CapacityRequirements | None) -> Any:
    return None if capacity is None else {"Requests": capacity.requests or None}


def _constraint(item: DeviceConstraint) -> dict[str, Any]:
    return {
        "Requests": _list(item.requests),
        "MatchAttribute": item.match_attribute,
        "DistinctAttribute": item.distinct_attribute,
    }


def _opaque(config: OpaqueDeviceConfiguration | None) -> dict[str, Any]:
    return {"Opaque": None if config is None else {"Driver": config.driver, "Parameters": config.parameters}}


def _node_selector(selector: NodeSelector | None) -> Any:
    if selector is None:
        return None
    terms = [
        {
            field: _list([{"Key": it.key, "Operator": it.operator, "Values": _list(it.values)} for it in requirements])
            for field, requirements in (
                ("MatchExpressions", term.match_expressions),
                ("MatchFields", term.match_fields),
            )
        }
        for term in selector.node_selector_terms
    ]
    return {"NodeSelectorTerms": terms}
