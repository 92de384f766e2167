"""What differs between clusters that work is to be spread over: classes, templates, flavors by meaning, and the rest. Pure.

What is *needed* must be the same before work goes from one cluster to another: a queue that spans clusters sends pods and
claims, and expects the classes, templates, flavors, drivers and gates that they name to be there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from regauge.audit.contract import ClassPin, Contract, FlavorPin, TemplatePin
from regauge.audit.contract_meaning import (
    Look,
    Selection,
    Side,
    changed_fields,
    compare_forms,
    compare_selectors,
    flavor_form,
    looker,
    template_form,
)

P = TypeVar("P")
MISSING = "missing"
_TEXT = 200


@dataclass(frozen=True, slots=True)
class Compared:
    """One cluster of a comparison: its contract (as written, or as its estate would keep it), and what selectors see."""

    name: str
    contract: Contract
    side: Side


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same everywhere. `values` are in the order of the clusters; `what` says what it comes to."""

    kind: str
    name: str
    field: str
    values: tuple[str, ...]
    needed: bool
    what: str


def contract_differences(clusters: Sequence[Compared]) -> tuple[Difference, ...]:
    """All differences, those that are needed first. With fewer than two clusters there are none."""
    found = [
        *_classes(clusters),
        *_specs(clusters, "ResourceClaimTemplate", _templates_of, template_form),
        *_specs(clusters, "AcceleratorFlavor", _flavors_of, flavor_form),
        *_drivers(clusters),
        *_features(clusters),
        *_versions(clusters),
    ]
    return tuple(sorted(found, key=lambda one: not one.needed))


def _keyed(
    clusters: Sequence[Compared], pins: Callable[[Contract], Mapping[str, P]]
) -> Iterator[tuple[str, list[P | None]]]:
    by_cluster = [pins(one.contract) for one in clusters]
    for key in sorted({key for found in by_cluster for key in found}):
        yield key, [found.get(key) for found in by_cluster]


def _absent(kind: str, name: str, pins: Sequence[object], clusters: Sequence[Compared]) -> Iterator[Difference]:
    if None in pins:
        values = tuple(MISSING if one is None else "there" for one in pins)
        lacking = ", ".join(cluster.name for cluster, one in zip(clusters, pins, strict=True) if one is None)
        yield Difference(kind, name, "", values, True, f"{lacking} does not have it")


def _field(kind: str, name: str, field: str, values: Sequence[str | None], needed: bool) -> Iterator[Difference]:
    """A difference between the values of those that have the object."""
    there = {one for one in values if one is not None}
    if len(there) > 1:
        shown = tuple(MISSING if one is None else one or "none" for one in values)
        yield Difference(kind, name, field, shown, needed, "they differ")


def _classes(clusters: Sequence[Compared]) -> Iterator[Difference]:
    kind = "DeviceClass"
    for name, pins in _keyed(clusters, lambda one: {pin.name: pin for pin in one.device_classes}):
        yield from _absent(kind, name, pins, clusters)
        resources = [None if one is None else one.extended_resource_name for one in pins]
        yield from _field(kind, name, "extendedResourceName", resources, True)
        configs = [None if one is None else _json(list(one.config)) for one in pins]
        yield from _field(kind, name, "config", configs, True)
        if len({one.hash for one in pins if one is not None}) > 1:
            yield _selectors(name, pins, clusters)


def _selectors(name: str, pins: Sequence[ClassPin | None], clusters: Sequence[Compared]) -> Difference:
    first, *rest = [one for one in pins if one is not None]
    sides = [one.side for one in clusters]
    found = [compare_selectors(first.selectors, one.selectors, sides) for one in rest if one.hash != first.hash]
    values = tuple(MISSING if one is None else _short(" ; ".join(one.selectors)) for one in pins)
    return Difference("DeviceClass", name, "selectors", values, *_verdict(found))


def _verdict(found: Sequence[Selection]) -> tuple[bool, str]:
    """Whether selectors that are written in other forms matter, and what they come to."""
    worst = min(found, key=lambda one: (one.same, one.decided))
    if worst.same and worst.decided:
        return False, f"selects the same devices here, though written differently ({worst.seen} seen)"
    return True, str(worst)


def _templates_of(contract: Contract) -> Mapping[str, TemplatePin]:
    return {f"{one.namespace}/{one.name}": one for one in contract.templates}


def _flavors_of(contract: Contract) -> Mapping[str, FlavorPin]:
    return {one.name: one for one in contract.flavors}


def _specs(
    clusters: Sequence[Compared],
    kind: str,
    pins_of: Callable[[Contract], Mapping[str, Any]],
    form: Callable[[Any, Look], Any],
) -> Iterator[Difference]:
    for name, pins in _keyed(clusters, pins_of):
        yield from _absent(kind, name, pins, clusters)
        there = [one for one in pins if one is not None]
        others = [one for one in there if one.hash != there[0].hash]
        if not others:
            continue
        looks = looker(clusters[0].side.rules)
        compared = [compare_forms(form, there[0].spec, one.spec, [side.side for side in clusters]) for one in others]
        selections = [one for one in compared if one is not None]
        if len(selections) == len(others):
            values = tuple(MISSING if one is None else _short(_json(one.spec)) for one in pins)
            yield Difference(kind, name, "selectors", values, *_verdict(selections))
            continue
        forms = [None if one is None else form(one.spec, looks) for one in pins]
        first = form(there[0].spec, looks)
        changed = dict.fromkeys(path for one in forms if one is not None for path in changed_fields(first, one))
        for path in changed:
            values = tuple(MISSING if one is None else _short(_json(_at(one, path))) for one in forms)
            yield Difference(kind, name, path, values, True, "they differ")


def _at(value: Any, path: str) -> Any:
    """The value at a path such as `a.b[0].c`; None where there is none."""
    for step in path.replace("[", ".[").split("."):
        if step.startswith("["):
            at = int(step[1:-1])
            value = value[at] if isinstance(value, list) and at < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _drivers(clusters: Sequence[Compared]) -> Iterator[Difference]:
    for name, pins in _keyed(clusters, lambda one: {f"{pin.name} ({pin.stack})": pin for pin in one.drivers}):
        yield from _absent("driver", name, pins, clusters)
        for field, values in (
            ("versions", [None if one is None else ", ".join(one.versions) for one in pins]),
            ("images", [None if one is None else ", ".join(one.images) for one in pins]),
        ):
            yield from _field("driver", name, field, values, False)


def _features(clusters: Sequence[Compared]) -> Iterator[Difference]:
    """A gate that somebody uses is needed in the same state everywhere; its stage follows from the version."""
    used = {pin.gate for one in clusters for pin in one.contract.features}
    for gate in sorted(used):
        states = tuple("on" if _is_on(one, gate) else "off" for one in clusters)
        if len(set(states)) > 1:
            off = ", ".join(one.name for one, state in zip(clusters, states, strict=True) if state == "off")
            yield Difference("feature", gate, "gate", states, True, f"its fields are used, and it is off in {off}")


def _is_on(cluster: Compared, gate: str) -> bool:
    pinned = next((pin for pin in cluster.contract.features if pin.gate == gate), None)
    return pinned.enabled if pinned else cluster.side.rules.on(gate)


def _versions(clusters: Sequence[Compared]) -> Iterator[Difference]:
    yield from _field("Kubernetes", "", "version", [one.contract.kubernetes.version for one in clusters], False)
    for name, pins in _keyed(clusters, lambda one: {pin.name: pin for pin in one.queues}):
        resources = [None if one is None else ", ".join(one.resources) for one in pins]
        yield from _field("ClusterQueue", name, "resources", resources, False)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if value not in (None, []) else ""


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."


def contract_diff_document(clusters: Sequence[Compared], found: Sequence[Difference]) -> dict[str, Any]:
    """The differences as JSON."""
    return {
        "schema": "regauge.contract-diff/v1",
        "clusters": [one.name for one in clusters],
        "same": not any(one.needed for one in found),
        "differences": [
            {
                "kind": one.kind,
                "name": one.name,
                "field": one.field,
                "values": dict(zip((cluster.name for cluster in clusters), one.values, strict=True)),
                "needed": one.needed,
                "what": one.what,
            }
            for one in found
        ],
    }
