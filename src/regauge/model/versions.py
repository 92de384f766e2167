"""Old resource.k8s.io objects turned into v1 and back, as the API server converts them.

Source: k8s.io/api resource/v1beta1, v1beta2.
"""

from __future__ import annotations

from typing import Any

from regauge.base import InputError
from regauge.model.kinds import split_api_version

GROUP = "resource.k8s.io"
_UNDER_EXACTLY = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
_CONVERTIBLE = ("v1beta1", "v1beta2", "v1alpha3")


def to_v1(object_: dict[str, Any]) -> dict[str, Any]:
    """The same object in resource.k8s.io/v1; objects of other groups, and v1 itself, come back unchanged.

    The input is not changed. Raises `InputError` for versions without a v1 counterpart (v1alpha1, v1alpha2).
    """
    group, version = split_api_version(str(object_.get("apiVersion", "")))
    if group != GROUP or version == "v1":
        return object_
    if version not in _CONVERTIBLE:
        raise InputError(
            f"resource.k8s.io/{version} has no counterpart in v1 (the classic allocation with a controller is gone)",
            fix="write the request anew as a resource.k8s.io/v1 ResourceClaim",
        )
    new = {**object_, "apiVersion": f"{GROUP}/v1"}
    if version in ("v1beta1", "v1alpha3"):
        _convert_spec(new)
    return new


def _convert_spec(object_: dict[str, Any]) -> None:
    spec = object_.get("spec")
    if not isinstance(spec, dict):
        return
    kind = object_.get("kind")
    if kind == "ResourceClaim":
        object_["spec"] = _claim_spec(spec)
    elif kind == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
        object_["spec"] = {**spec, "spec": _claim_spec(spec["spec"])}
    elif kind == "ResourceSlice":
        devices = spec.get("devices")
        if isinstance(devices, list):
            object_["spec"] = {**spec, "devices": [_device(device) for device in devices]}


def _claim_spec(spec: dict[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    if not isinstance(devices, dict) or not isinstance(devices.get("requests"), list):
        return spec
    return {
        **spec,
        "devices": {**devices, "requests": [_request(request) for request in devices["requests"]]},
    }


def _request(request: Any) -> Any:
    if not isinstance(request, dict) or "exactly" in request:
        return request
    exactly = {key: request[key] for key in _UNDER_EXACTLY if key in request}
    rest = {key: value for key, value in request.items() if key not in _UNDER_EXACTLY}
    return {**rest, "exactly": exactly} if exactly else rest


def _device(device: Any) -> Any:
    if not isinstance(device, dict) or not isinstance(device.get("basic"), dict):
        return device
    basic = dict(device["basic"])
    capacity = basic.get("capacity")
    if isinstance(capacity, dict):
        basic["capacity"] = {
            name: value if isinstance(value, dict) else {"value": value} for name, value in capacity.items()
        }
    rest = {key: value for key, value in device.items() if key != "basic"}
    return {**rest, **basic}


def from_v1(object_: dict[str, Any], version: str) -> dict[str, Any]:
    """A resource.k8s.io/v1 object in an older version; other groups come back unchanged. The inverse of `to_v1`.

    The input is not changed. Raises `InputError` for a version that v1 cannot be turned into.
    """
    if object_.get("apiVersion") != f"{GROUP}/v1" or version == "v1":
        return object_
    if version not in ("v1beta1", "v1beta2"):
        raise InputError(f"resource.k8s.io/v1 cannot be turned into {version}", fix="aim at v1beta1 or newer")
    new = {**object_, "apiVersion": f"{GROUP}/{version}"}
    spec = object_.get("spec")
    if version == "v1beta2" or not isinstance(spec, dict):
        return new
    kind = object_.get("kind")
    if kind == "ResourceClaim":
        new["spec"] = _old_claim_spec(spec)
    elif kind == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
        new["spec"] = {**spec, "spec": _old_claim_spec(spec["spec"])}
    elif kind == "ResourceSlice" and isinstance(spec.get("devices"), list):
        new["spec"] = {**spec, "devices": [_old_device(device) for device in spec["devices"]]}
    return new


def _old_claim_spec(spec: dict[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    if not isinstance(devices, dict) or not isinstance(devices.get("requests"), list):
        return spec
    return {**spec, "devices": {**devices, "requests": [_old_request(request) for request in devices["requests"]]}}


def _old_request(request: Any) -> Any:
    if not isinstance(request, dict) or not isinstance(request.get("exactly"), dict):
        return request
    rest = {key: value for key, value in request.items() if key != "exactly"}
    return {**rest, **request["exactly"]}


def _old_device(device: Any) -> Any:
    if not isinstance(device, dict):
        return device
    rest = {key: value for key, value in device.items() if key != "name"}
    return {**({"name": device["name"]} if "name" in device else {}), "basic": rest}
