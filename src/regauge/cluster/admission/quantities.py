"""Quantities on their way into the store: canonical text, as the API server keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.cluster.refusals import bad_request
from regauge.model import Kind, Object, Quantity

Path = tuple[str, ...]

_EACH = "*"
_RESOURCES: tuple[Path, ...] = (("resources", "limits", _EACH), ("resources", "requests", _EACH))
_POD: tuple[Path, ...] = (
    *((field, _EACH, *path) for field in ("containers", "initContainers") for path in _RESOURCES),
    *_RESOURCES,
    ("overhead", _EACH),
)
_TEMPLATES = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs")
_REQUESTS: tuple[Path, ...] = (
    ("exactly", "capacity", "requests", _EACH),
    ("firstAvailable", _EACH, "capacity", "requests", _EACH),
)
_CLAIM: tuple[Path, ...] = tuple(("devices", "requests", _EACH, *path) for path in _REQUESTS)
_POLICY = ("spec", "devices", _EACH, "capacity", _EACH, "requestPolicy")
_SLICE: tuple[Path, ...] = (
    ("spec", "devices", _EACH, "capacity", _EACH, "value"),
    (*_POLICY, "default"),
    (*_POLICY, "validValues", _EACH),
    *((*_POLICY, "validRange", field) for field in ("min", "max", "step")),
    ("spec", "devices", _EACH, "consumesCounters", _EACH, "counters", _EACH, "value"),
    ("spec", "sharedCounters", _EACH, "counters", _EACH, "value"),
    ("spec", "devices", _EACH, "nodeAllocatableResourceMappings", _EACH, "allocationMultiplier"),
)
_NODE: tuple[Path, ...] = (("status", "capacity", _EACH), ("status", "allocatable", _EACH))
_CLAIM_STATUS: tuple[Path, ...] = (("status", "allocation", "devices", "results", _EACH, "consumedCapacity", _EACH),)
_QUOTA: tuple[Path, ...] = (("spec", "hard", _EACH), ("status", "hard", _EACH), ("status", "used", _EACH))

_LIMITS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")

_PATHS: dict[tuple[str, str], tuple[Path, ...]] = {
    ("", "pods"): tuple(("spec", *path) for path in _POD),
    ("", "nodes"): _NODE,
    ("", "resourcequotas"): _QUOTA,
    ("", "limitranges"): tuple(("spec", "limits", _EACH, field, _EACH) for field in _LIMITS),
    ("node.k8s.io", "runtimeclasses"): (("overhead", "podFixed", _EACH),),
    ("resource.k8s.io", "resourceclaims"): (*(("spec", *path) for path in _CLAIM), *_CLAIM_STATUS),
    ("resource.k8s.io", "resourceclaimtemplates"): tuple(("spec", "spec", *path) for path in _CLAIM),
    ("resource.k8s.io", "resourceslices"): _SLICE,
    **{
        (group, plural): tuple(("spec", "template", "spec", *path) for path in _POD)
        for plural in _TEMPLATES
        for group in ("batch" if plural == "jobs" else "apps",)
    },
}


def canonical_quantities(kind: Kind, object_: Object) -> Object:
    """A copy in which every quantity has its canonical text. Raises `ApiError` 400 for what is no quantity."""
    paths = _PATHS.get((kind.group, kind.plural))
    if not paths:
        return object_
    try:
        new: Object = _along(object_, paths)
        return new
    except ValueError as error:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(text) from None


def _along(value: Any, paths: Iterable[Path]) -> Any:
    """`value` with the quantities at the ends of `paths` made canonical; what does not lead there stays as it is."""
    branches: dict[str, list[Path]] = {}
    for path in paths:
        if not path:
            return _canonical(value)
        branches.setdefault(path[0], []).append(path[1:])
    if _EACH in branches:
        rest = branches[_EACH]
        if isinstance(value, dict):
            return {key: _along(item, rest) for key, item in value.items()}
        return [_along(item, rest) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    changed = {key: _along(value[key], rest) for key, rest in branches.items() if key in value}
    return {**value, **changed} if changed else value


def _canonical(value: Any) -> Any:
    if value is None:
        return value
    if isinstance(value, bool | dict | list):
        return str(Quantity.parse("true"))  # refused in the words for what is no quantity
    return str(Quantity.from_document(value))
