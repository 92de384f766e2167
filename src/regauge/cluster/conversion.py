"""Objects between the version in which they are stored and the versions in which they are served. Pure.

Source: pkg/apis/resource/{v1beta1,v1beta2,v1alpha3}/conversion.go of 1.36.
"""

from __future__ import annotations

from typing import Any

from regauge.cluster import eventforms as events
from regauge.cluster.serving import stored_as
from regauge.model import Kind, Object, from_v1, to_v1
from regauge.model.kinds import EVENT, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE

_DEPRECATED = {
    "v1beta1": (35, 38),
    "v1beta2": (36, 39),
    "v1alpha3": (36, 39),
}
_NOT_YET = ("DeviceTaintRule", "v1beta2"), ("ResourcePoolStatusRequest", "v1alpha3")


def is_converted(served: Kind) -> bool:
    """Whether objects of this kind are stored in another version than this one."""
    return stored_as(served) != served and stored_as(served).api_version != served.api_version


def incoming(served: Kind, object_: Object) -> Object:
    """An object that a client sent in its version, as it is stored."""
    if served == EVENT:
        return events.to_core(object_)
    if not is_converted(served):
        return object_
    stored = stored_as(served)
    new: Object = {**object_, "apiVersion": served.api_version, "kind": served.kind}
    if served.version == "v1beta1" and served.group == RESOURCE_CLAIM.group:
        new = to_v1(new)
    return {**new, "apiVersion": stored.api_version}


def outgoing(served: Kind, object_: Object) -> Object:
    """A stored object in the version that a client asked for."""
    if served == EVENT:
        return events.from_core(object_)
    if not is_converted(served):
        return object_
    stored = stored_as(served)
    new = {**object_, "apiVersion": stored.api_version, "kind": served.kind}
    if served.version == "v1beta1" and served.group == RESOURCE_CLAIM.group:
        new = _with_classes(served, from_v1(new, served.version))
    new["apiVersion"] = served.api_version
    managed = (new.get("metadata") or {}).get("managedFields")
    if managed and stored.version != "v1":
        told = [{**entry, "apiVersion": served.api_version} for entry in managed]
        new["metadata"] = {**new["metadata"], "managedFields": told}
    return new


def _with_classes(served: Kind, object_: Object) -> Object:
    """A request of alternatives has an empty class beside them in v1beta1, where the class is not optional."""
    if (served.group, served.kind) == (RESOURCE_CLAIM.group, RESOURCE_CLAIM.kind):
        return {**object_, "spec": _requests_with_classes(object_.get("spec"))}
    if served.kind == RESOURCE_CLAIM_TEMPLATE.kind and isinstance(object_.get("spec"), dict):
        spec = object_["spec"]
        return {**object_, "spec": {**spec, "spec": _requests_with_classes(spec.get("spec"))}}
    return object_


def _requests_with_classes(spec: Any) -> Any:
    devices = (spec or {}).get("devices") or {}
    if not isinstance(devices.get("requests"), list):
        return spec
    requests = [{"deviceClassName": "", **item} if "firstAvailable" in item else item for item in devices["requests"]]
    return {**spec, "devices": {**devices, "requests": requests}}


def deprecation(served: Kind, minor: str) -> tuple[str, ...]:
    """What a server of this minor warns of when the kind is used in this version."""
    since, gone = _DEPRECATED.get(served.version, (0, 0))
    pair = (served.kind, served.version)
    if served.group != RESOURCE_CLAIM.group or not since or pair in _NOT_YET or int(minor.partition(".")[2]) < since:
        return ()
    return (f"{served.api_version} {served.kind} is deprecated in v1.{since}+, unavailable in v1.{gone}+",)
