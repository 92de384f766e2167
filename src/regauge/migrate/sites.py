"""Where an object describes its pods: the places where devices are asked for, for every kind of workload. Pure.

The kinds of Kubernetes itself, and those of a declared table (`data/templates.json`); any other by a path that is given.
A place is inside the object it was found in: changing it changes that object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from regauge.base import InputError, Where
from regauge.model import Object, ObjectMeta, View, split_api_version, view
from regauge.model.core import PodTemplateSpec
from regauge.model.kinds import TEMPLATE_PATHS

_PART = re.compile(r"\*|[A-Za-z][A-Za-z0-9_-]*(\[\*\])?")
MAX_PATH = 20


class TemplatePath(msgspec.Struct, frozen=True):
    """One path of a kind to its pods. `containers` are members that are containers too, with the name each gets."""

    path: str
    form: str = "template"
    containers: dict[str, str] = {}


class TemplateKind(msgspec.Struct, frozen=True):
    """A kind that regauge knows by its paths only."""

    group: str
    kind: str
    plural: str
    paths: tuple[TemplatePath, ...]
    version: str
    source: str
    namespaced: bool = True


class _Table(msgspec.Struct):
    kinds: tuple[TemplateKind, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One container: its resources stand in `holder` under `field`. `init` containers end before the others begin."""

    name: str
    holder: Object
    field: str = "resources"
    init: bool = False
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """One pod description of an object. `spec` holds the pod's claims under `claims_field`, node selector and affinity.

    `refers` is False where every claim goes to the container by itself. `path` is the way to it, for messages.
    """

    path: str
    name: str
    spec: Object
    slots: tuple[Slot, ...]
    template: Object
    claims_field: str = "resourceClaims"
    refers: bool = True


@cache
def template_kinds() -> tuple[TemplateKind, ...]:
    """The packaged table of kinds with pods in them."""
    data = files("regauge.migrate").joinpath("data/templates.json").read_bytes()
    return msgspec.json.decode(data, type=_Table).kinds


def paths_of(object_: Object) -> tuple[TemplatePath, ...]:
    """The paths of an object's kind; empty for a kind that is not known to have pods."""
    api_version, kind = str(object_.get("apiVersion", "")), str(object_.get("kind", ""))
    group = split_api_version(api_version)[0]
    for known, parts in TEMPLATE_PATHS.items():
        if (known.group, known.kind) == (group, kind):
            return (TemplatePath(".".join(parts)),)
    return next((item.paths for item in template_kinds() if (item.group, item.kind) == (group, kind)), ())


def parse_path(text: str) -> TemplatePath:
    """A path that a user gives, as `spec.groups[*].template`. Raises `InputError` when it is none."""
    parts = text.split(".")
    if len(parts) > MAX_PATH or not all(_PART.fullmatch(part) for part in parts):
        raise InputError(
            f"{text} is no path to a pod template",
            where=Where(field="template-path"),
            fix="write names joined by dots, NAME[*] for each item of a list, * for each member of a mapping",
        )
    return TemplatePath(text)


def sites_of(object_: Object, extra: tuple[TemplatePath, ...] = ()) -> tuple[Site, ...]:
    """Every place of an object where a pod is described, in the order of its paths. `extra` are paths given for it."""
    found: list[Site] = []
    for path in (*paths_of(object_), *extra):
        for place, name, part in _follow(object_, path.path):
            site = _site(path, place, name, part)
            if site is not None and all(place != other.path for other in found):
                found.append(site)
    return tuple(found)


def _follow(object_: Object, path: str) -> Iterator[tuple[str, str, Object]]:
    """The mappings at the end of a path: where each is, and a name for it from the way there."""
    reached: list[tuple[str, str, object]] = [("", "", object_)]
    for part in path.split(".") if path else ():
        following: list[tuple[str, str, object]] = []
        for place, name, value in reached:
            if isinstance(value, dict):
                following.extend(_step(place, name, value, part))
        reached = following
    yield from ((place, name, value) for place, name, value in reached if isinstance(value, dict))


def _step(place: str, name: str, value: Object, part: str) -> Iterator[tuple[str, str, object]]:
    if part == "*":
        yield from ((f"{place}.{key}".lstrip("."), _named(name, key), item) for key, item in value.items())
        return
    key, each, _ = part.partition("[*]")
    below = value.get(key)
    at = f"{place}.{key}".lstrip(".")
    if not each:
        yield at, name, below
        return
    for index, item in enumerate(below if isinstance(below, list) else ()):
        own = item.get("name") or item.get("groupName") if isinstance(item, dict) else None
        yield f"{at}[{index}]", _named(name, str(own or index)), item


def _named(name: str, more: str) -> str:
    return f"{name}-{more}".strip("-").lower()


def _site(path: TemplatePath, place: str, name: str, part: Object) -> Site | None:
    words = place.split(".")
    name = name or next((word for word in reversed(words) if word not in ("template", "spec", "")), "pod").lower()
    if path.form == "trainer":
        return Site(place, name, part, (Slot("node", part, "resourcesPerNode"),), part, "resourceClaimsPerNode", False)
    spec = part if path.form == "spec" else part.get("spec")
    if not isinstance(spec, dict):
        return None
    return Site(place, name, spec, tuple(_slots(spec, path.containers)), part)


def _slots(spec: Object, members: Mapping[str, str]) -> Iterator[Slot]:
    for field in ("containers", "initContainers"):
        listed = spec.get(field)
        for container in listed if isinstance(listed, list) else ():
            if isinstance(container, dict):
                init = field == "initContainers"
                sidecar = init and container.get("restartPolicy") == "Always"
                yield Slot(str(container.get("name", "")), container, init=init, sidecar=sidecar)
    for member, default in members.items():
        container = spec.get(member)
        if isinstance(container, dict):
            yield Slot(str(container.get("name") or default), container)


def mapping_in(holder: Object, key: str) -> Object:
    """The mapping under a key, made where there is none (or null, which counts as absent)."""
    if not isinstance(holder.get(key), dict):
        holder[key] = {}
    found: Object = holder[key]
    return found


def list_in(holder: Object, key: str) -> list[Any]:
    """The list under a key, made where there is none (or null, which counts as absent)."""
    if not isinstance(holder.get(key), list):
        holder[key] = []
    found: list[Any] = holder[key]
    return found


def own_copy(value: Any) -> Any:
    """A copy of a JSON value in which no part stands in two places, as it may after YAML anchors."""
    if isinstance(value, dict):
        return {key: own_copy(item) for key, item in value.items()}
    return [own_copy(item) for item in value] if isinstance(value, list) else value


class _Named(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


def check_shape(object_: Object) -> None:
    """Raises `InputError` that names the field where the metadata of an object are none."""
    view({"metadata": object_.get("metadata")}, _Named)


def pod_view(site: Site) -> PodTemplateSpec:
    """One pod description as a pod template, whatever its form. Raises `InputError` for what no pod can have."""
    if site.template is not site.spec and site.refers:
        return view(site.template, PodTemplateSpec)
    listed = {
        "containers": [
            {**slot.holder, "name": slot.name, "resources": slot.holder.get(slot.field) or {}}
            for slot in site.slots
            if not slot.init
        ],
        "resourceClaims": site.spec.get(site.claims_field) or [],
    }
    spec = {**site.spec, **listed} if site.refers else listed
    return view({"metadata": {"annotations": site.spec.get("annotations") or {}}, "spec": spec}, PodTemplateSpec)
