"""Fields of features that are off: they vanish before anything is validated, without a word.

Source: pkg/registry/resource/*/strategy.go (dropDisabled...), pkg/api/pod of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regauge.model import Kind, Object, Rules

Path = tuple[str, ...]

_GROUPS = ("", "resource.k8s.io", "scheduling.k8s.io")
_EACH = "*"
_DEVICE = ("spec", "devices", _EACH)
_ATTRIBUTE = (*_DEVICE, "attributes", _EACH)
_REQUESTS = ("devices", "requests", _EACH)
_RESULT = ("status", "allocation", "devices", "results", _EACH)
_SLICES, _CLAIMS, _TEMPLATES = "resourceslices", "resourceclaims", "resourceclaimtemplates"


def _asked(field: str) -> tuple[tuple[str, Path], ...]:
    """A field of requests and of their alternatives, in claims and in templates."""
    both = ((*_REQUESTS, "exactly", field), (*_REQUESTS, "firstAvailable", _EACH, field))
    claims = tuple((_CLAIMS, ("spec", *path)) for path in both)
    return claims + tuple((_TEMPLATES, ("spec", "spec", *path)) for path in both)


def _of_devices(*fields: str) -> tuple[tuple[str, Path], ...]:
    return tuple((_SLICES, (*_DEVICE, field)) for field in fields)


def _of_results(*fields: str) -> tuple[tuple[str, Path], ...]:
    return tuple((_CLAIMS, (*_RESULT, field)) for field in fields)


def _of_groups(*fields: str) -> tuple[tuple[str, Path], ...]:
    """Fields of pod groups and of the templates for them."""
    templates = tuple(("workloads", ("spec", "podGroupTemplates", _EACH, field)) for field in fields)
    return templates + tuple(("podgroups", ("spec", field)) for field in fields)


_GATED: dict[str, tuple[tuple[str, Path], ...]] = {
    "DRANodeAllocatableResources": _of_devices("nodeAllocatableResourceMappings", "nodeAllocatableResources"),
    "DRAListTypeAttributes": tuple(
        (_SLICES, (*_ATTRIBUTE, field)) for field in ("bools", "ints", "strings", "versions")
    ),
    "DRAPartitionableDevices": (
        (_SLICES, ("spec", "sharedCounters")),
        (_SLICES, ("spec", "perDeviceNodeSelection")),
        *_of_devices("consumesCounters", "nodeName", "nodeSelector", "allNodes"),
    ),
    "DRAPrioritizedList": (
        (_CLAIMS, ("spec", *_REQUESTS, "firstAvailable")),
        (_TEMPLATES, ("spec", "spec", *_REQUESTS, "firstAvailable")),
    ),
    "DRADeviceTaints": (*_of_devices("taints"), *_asked("tolerations"), *_of_results("tolerations")),
    "DRAConsumableCapacity": (
        *_of_devices("allowMultipleAllocations"),
        (_SLICES, (*_DEVICE, "capacity", _EACH, "requestPolicy")),
        *_asked("capacity"),
        (_CLAIMS, ("spec", "devices", "constraints", _EACH, "distinctAttribute")),
        (_TEMPLATES, ("spec", "spec", "devices", "constraints", _EACH, "distinctAttribute")),
        *_of_results("consumedCapacity", "shareID"),
    ),
    "DRADeviceBindingConditions": (
        *_of_devices("bindsToNode", "bindingConditions", "bindingFailureConditions"),
        *_of_results("bindingConditions", "bindingFailureConditions"),
    ),
    "DRAExtendedResource": (
        ("deviceclasses", ("spec", "extendedResourceName")),
        ("pods", ("status", "extendedResourceClaimStatus")),
    ),
    "DRAResourceClaimDeviceStatus": ((_CLAIMS, ("status", "devices")),),
    "GenericWorkload": (("pods", ("spec", "schedulingGroup")),),
    "TopologyAwareWorkloadScheduling": _of_groups("schedulingConstraints"),
    "DRAWorkloadResourceClaims": (*_of_groups("resourceClaims"), ("podgroups", ("status", "resourceClaimStatuses"))),
    "WorkloadAwarePreemption": _of_groups("disruptionMode", "priorityClassName", "priority"),
}


class GatedFields:
    """The fields that these rules drop."""

    def __init__(self, rules: Rules) -> None:
        self._paths: dict[str, list[Path]] = {}
        for gate, fields in _GATED.items():
            if not rules.on(gate):
                for plural, path in fields:
                    self._paths.setdefault(plural, []).append(path)

    def dropped(self, kind: Kind, object_: Object, old: Object | None = None) -> Object:
        """The object without them. What the stored object uses already stays in use."""
        paths = self._paths.get(kind.plural) if kind.group in _GROUPS else None
        if not paths:
            return object_
        unused = [path for path in paths if old is None or not _uses(old, path)]
        new: Object = _without(object_, unused)
        return new


def _uses(value: Any, path: Path) -> bool:
    if not path:
        return value is not None
    if path[0] == _EACH:
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(_uses(item, path[1:]) for item in members)
    return isinstance(value, dict) and path[0] in value and _uses(value[path[0]], path[1:])


def _without(value: Any, paths: Iterable[Path]) -> Any:
    branches: dict[str, list[Path]] = {}
    for path in paths:
        branches.setdefault(path[0], []).append(path[1:])
    if not branches:
        return value
    if _EACH in branches:
        inner = branches[_EACH]
        if isinstance(value, dict):
            return {key: _without(item, inner) for key, item in value.items()}
        return [_without(item, inner) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    new = {}
    for key, item in value.items():
        rest = branches.get(key, [])
        if () not in rest:
            new[key] = _without(item, rest)
    return new
