"""Where what runs differs from what its source renders to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regauge.inventory import is_extended_resource
from regauge.migrate.flavor_render import Rendered
from regauge.migrate.sites import sites_of
from regauge.model import Document, Object, Quantity, Snapshot, split_api_version, to_v1

ABSENT = "(absent)"
MAX_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference: the object, the place in it, what the source says and what runs."""

    object: str
    path: str
    source: str
    running: str


def find_drift(rendered: Rendered, snapshot: Snapshot) -> tuple[Drift, ...]:
    """Every difference between a rendered workload, with the objects that come with it, and what the cluster has.

    What the cluster adds (defaults, status) is no difference; devices that the source does not ask for are one.
    """
    found: list[Drift] = []
    for object_ in (*rendered.before, rendered.object):
        title = Document(object_, rendered.document.where).title
        running = _running(object_, snapshot)
        if running is None:
            found.append(Drift(title, "", "rendered", "not there"))
            continue
        newest, live = to_v1(object_), to_v1(running)
        found += [Drift(title, *item) for item in _differences(newest, live, "")]
        found += [Drift(title, path, ABSENT, value) for path, value in _more_devices(newest, live)]
    return tuple(dict.fromkeys(found))


def _running(object_: Object, snapshot: Snapshot) -> Object | None:
    group = split_api_version(str(object_["apiVersion"]))[0]
    metadata = object_.get("metadata") or {}
    namespace = metadata.get("namespace") or "default"
    for document in snapshot.documents((group, str(object_["kind"]))):
        if document.name == metadata.get("name") and (document.namespace or "default") == namespace:
            return document.object
    return None


def _differences(source: object, live: object, path: str) -> Iterator[tuple[str, str, str]]:
    if path in (".apiVersion", ".status"):
        return
    if isinstance(source, dict) and isinstance(live, dict):
        for key, value in source.items():
            yield from _differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(source, list) and isinstance(live, list):
        yield from _list_differences(source, live, path)
    elif not _same(source, live) and not (live is None and source in ({}, [], "")):
        yield path.lstrip("."), _shown(source), ABSENT if live is None else _shown(live)


def _list_differences(source: list[object], live: list[object], path: str) -> Iterator[tuple[str, str, str]]:
    named = {item["name"]: item for item in live if isinstance(item, dict) and "name" in item}
    for index, item in enumerate(source):
        if isinstance(item, dict) and "name" in item:
            yield from _differences(item, named.get(item["name"]), f"{path}[{item['name']}]")
        elif item not in live:
            other = live[index] if index < len(live) else None
            yield from _differences(item, other, f"{path}[{index}]")


def _same(source: object, live: object) -> bool:
    if source == live:
        return True
    if isinstance(source, (str, int, float)) and isinstance(live, (str, int, float)) and not isinstance(source, bool):
        try:
            return Quantity.from_document(source) == Quantity.from_document(live)
        except ValueError:
            return False
    return False


def _more_devices(source: Object, live: Object) -> Iterator[tuple[str, str]]:
    """Devices that the running pods ask for and the source does not: counts and claims, place by place."""
    wanted = {site.path: site for site in sites_of(source)}
    for site in sites_of(live):
        own = wanted.get(site.path)
        if own is None:
            continue
        names = {str(entry.get("name")) for entry in own.spec.get(own.claims_field) or ()}
        for entry in site.spec.get(site.claims_field) or ():
            if str(entry.get("name")) not in names:
                yield f"{site.path}.{site.claims_field}".lstrip("."), str(entry.get("name"))
        slots = {slot.name: slot.holder.get(slot.field) or {} for slot in own.slots}
        for slot in site.slots:
            counted = _counted(slot.holder.get(slot.field))
            expected = _counted(slots.get(slot.name))
            for name in sorted(set(counted) - set(expected)):
                yield f"{site.path}[{slot.name}].{name}".lstrip("."), _shown(counted[name])


def _counted(resources: object) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for part in ("limits", "requests"):
        amounts = resources.get(part) if isinstance(resources, dict) else None
        if isinstance(amounts, dict):
            found.update({name: value for name, value in amounts.items() if is_extended_resource(name)})
    return found


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + " ..."
