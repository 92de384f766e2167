"""Quantities on their way into the store: canonical text, as the API server keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from regauge.cluster.refusals import bad_request
from regauge.model import Kind, Object, Quantity

Path = tuple[str, ...]

_EACH = "*"
MOST_REMEMBERED = 4096
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


class _Tree(dict[str, "_Tree"]):
    """Paths by their first step. Without steps: here is a quantity."""


def _grown(paths: Iterable[Path]) -> _Tree:
    root = _Tree()
    for path in paths:
        at = root
        for step in path:
            at = at.setdefault(step, _Tree())
    return root


_TREES = {names: _grown(paths) for names, paths in _PATHS.items()}


def canonical_quantities(kind: Kind, object_: Object) -> Object:
    """The object with the canonical text of every quantity; what holds none that differs is not copied.

    Raises `ApiError` 400 for what is no quantity.
    """
    tree = _TREES.get((kind.group, kind.plural))
    if tree is None:
        return object_
    try:
        new: Object = _along(object_, tree)
        return new
    except ValueError as error:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(text) from None


def _along(value: Any, tree: _Tree) -> Any:
    """`value` with the quantities at the ends of `tree` made canonical; what does not lead there stays as it is."""
    if not tree:
        return _canonical(value)
    each = tree.get(_EACH)
    if isinstance(value, dict):
        steps = tree.items() if each is None else ((key, each) for key in value)
        changed = {
            key: new for key, rest in steps if key in value and (new := _along(value[key], rest)) is not value[key]
        }
        return {**value, **changed} if changed else value
    if each is not None and isinstance(value, list):
        new = [_along(item, each) for item in value]
        return new if any(one is not item for one, item in zip(new, value, strict=True)) else value
    return value


def _canonical(value: Any) -> Any:
    if value is None:
        return value
    if isinstance(value, bool | dict | list):
        return str(Quantity.parse("true"))  # refused in the words for what is no quantity
    text = _text(value) if isinstance(value, str) else str(Quantity.from_document(value))
    return value if text == value else text


@lru_cache(MOST_REMEMBERED)
def _text(value: str) -> str:
    return str(Quantity.from_document(value))
