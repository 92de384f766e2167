"""Defaults as the API server applies them, for documents that were written by hand and never stored.

Only the defaults that decisions depend on: those of resource.k8s.io and of pods. Source: pkg/apis/*/v1/defaults.
"""

from __future__ import annotations

from typing import Any

from regauge.model.versions import GROUP


def with_defaults(object_: dict[str, Any]) -> dict[str, Any]:
    """A copy of a v1 document with the defaults filled in; kinds without such defaults come back unchanged."""
    api_version, kind = object_.get("apiVersion"), object_.get("kind")
    spec = object_.get("spec")
    if not isinstance(spec, dict):
        return object_
    if api_version == f"{GROUP}/v1":
        if kind == "ResourceClaim":
            return {**object_, "spec": _claim_spec(spec)}
        if kind == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
            return {**object_, "spec": {**spec, "spec": _claim_spec(spec["spec"])}}
    elif api_version == "v1" and kind == "Pod":
        return {**object_, "spec": pod_spec_with_defaults(spec)}
    return object_


def _claim_spec(spec: dict[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    if not isinstance(devices, dict) or not isinstance(devices.get("requests"), list):
        return spec
    return {
        **spec,
        "devices": {**devices, "requests": [_request(request) for request in devices["requests"]]},
    }


def _request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    new = dict(request)
    if isinstance(request.get("exactly"), dict):
        new["exactly"] = _exact(request["exactly"])
    if isinstance(request.get("firstAvailable"), list):
        new["firstAvailable"] = [_exact(sub) if isinstance(sub, dict) else sub for sub in request["firstAvailable"]]
    return new


def _exact(request: dict[str, Any]) -> dict[str, Any]:
    new = dict(request)
    if not new.get("allocationMode"):
        new["allocationMode"] = "ExactCount"
    if new["allocationMode"] == "ExactCount" and not new.get("count"):
        new["count"] = 1
    if isinstance(new.get("tolerations"), list):
        new["tolerations"] = [
            {**item, "operator": "Equal"} if isinstance(item, dict) and not item.get("operator") else item
            for item in new["tolerations"]
        ]
    return new


def pod_spec_with_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod spec with requests filled in from limits, the way a pod looks once it is stored."""
    new = dict(spec)
    new.setdefault("schedulerName", "default-scheduler")
    new.setdefault("restartPolicy", "Always")
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            new[field] = [_container(item) if isinstance(item, dict) else item for item in spec[field]]
    return new


def _container(container: dict[str, Any]) -> dict[str, Any]:
    resources = container.get("resources")
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return container
    requests = resources.get("requests") if isinstance(resources.get("requests"), dict) else {}
    return {**container, "resources": {**resources, "requests": {**resources["limits"], **(requests or {})}}}
