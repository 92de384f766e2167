"""What classes, templates and flavors mean, however they are written: normal forms, their digests, and what they select.

A normal form has the defaults filled in, expressions in their canonical form, and no order where none matters. Selectors keep
theirs: the first one that fails ends the attempt, so what stands before it counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from regauge.audit.ground import Ground, items, mapping
from regauge.audit.selectors import Selected, environment_of, select
from regauge.base import canonical_json
from regauge.cel import CompileError, canonical_form
from regauge.model import Rules
from regauge.model.resource import ResourceClaimSpec, ResourceSlice

DIGEST = "sha256:"
Look = Callable[[list[str]], Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster as far as it decides what selectors select: its rules, and the newest slices that were seen of it."""

    name: str
    rules: Rules
    slices: tuple[ResourceSlice, ...] = ()

    @classmethod
    def of(cls, name: str, ground: Ground) -> Side:
        return cls(name, ground.rules, ground.newest)


def form_of(expression: str, rules: Rules) -> str:
    """The canonical form of an expression; of one that does not compile its own text."""
    found = canonical_form(expression, environment_of(rules))
    return f"text {expression}" if isinstance(found, CompileError) else found


def digest_of(value: Any) -> str:
    """The digest of a JSON value, the same whatever the order of its keys."""
    return DIGEST + hashlib.sha256(canonical_json(value)).hexdigest()


def looker(rules: Rules) -> Look:
    """Selectors as their canonical forms."""
    return lambda expressions: [form_of(one, rules) for one in expressions]


def selectors_digest(selectors: Sequence[str], rules: Rules) -> str:
    """The digest of what the selectors of a class mean."""
    return digest_of([form_of(one, rules) for one in selectors])


def template_spec(spec: ResourceClaimSpec) -> dict[str, Any]:
    """What claims of a template ask for, as a document in today's form without what is empty."""
    found: dict[str, Any] = without_empty(msgspec.to_builtins(spec))
    return found


def template_form(spec: Any, look: Look) -> Any:
    """The normal form of a template's spec, its expressions as `look` has them."""
    devices = dict(mapping(mapping(spec).get("devices")))
    devices["requests"] = [_request(mapping(one), look) for one in items(devices.get("requests"))]
    if "constraints" in devices:
        devices["constraints"] = [
            {**mapping(one), "requests": sorted(map(str, items(mapping(one).get("requests"))))}
            for one in items(devices["constraints"])
        ]
    return without_empty({**mapping(spec), "devices": devices})


def _request(request: Any, look: Look) -> Any:
    found = dict(request)
    if "exactly" in found:
        found["exactly"] = _asked(mapping(found["exactly"]), look)
    if "firstAvailable" in found:
        found["firstAvailable"] = [_asked(mapping(one), look) for one in items(found["firstAvailable"])]
    return found


def _asked(asked: Any, look: Look) -> Any:
    found = dict(asked)
    found["allocationMode"] = found.get("allocationMode") or "ExactCount"
    if found["allocationMode"] == "ExactCount":
        found["count"] = found.get("count") or 1
    found["selectors"] = look([str(mapping(mapping(one).get("cel")).get("expression", "")) for one in _cel(found)])
    found["tolerations"] = _sorted(found.get("tolerations"))
    return found


def _cel(asked: Any) -> tuple[Any, ...]:
    return items(asked.get("selectors"))


def flavor_form(spec: Any, look: Look) -> Any:
    """The normal form of a flavor's spec. What is for people only is left out."""
    found = {key: value for key, value in mapping(spec).items() if key != "description"}
    for name in ("devicePlugin", "bridge", "dra"):
        if name in found:
            found[name] = _flavor_part(mapping(found[name]), look)
    return without_empty(found)


def _flavor_part(part: Any, look: Look) -> Any:
    found = dict(part)
    if "resources" in found:
        found["resources"] = _sorted([{"count": 1, **mapping(one)} for one in items(found["resources"])])
    if "requests" in found:
        found["requests"] = [
            {
                "count": 1,
                **mapping(one),
                "selectors": look([str(text) for text in items(mapping(one).get("selectors"))]),
            }
            for one in items(found["requests"])
        ]
    found["tolerations"] = _sorted(found.get("tolerations"))
    return found


def _sorted(value: Any) -> list[Any]:
    return sorted(items(value), key=canonical_json)


def without_empty(value: Any) -> Any:
    """A JSON value without fields that are null, or an empty text, list or mapping: a missing field means the same."""
    if isinstance(value, dict):
        kept = {key: without_empty(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None and one not in ("", [], {})}
    if isinstance(value, list | tuple):
        return [without_empty(one) for one in value]
    return value


@dataclass(frozen=True, slots=True)
class Selection:
    """Whether two lists of selectors select the same. `decided`: by their form, or by devices; `seen` devices were looked at.

    `differing` are devices, as side: driver/pool/device, on which the answers differ.
    """

    same: bool
    decided: bool
    seen: int = 0
    differing: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.decided:
            return "whether they select the same is not known: no device was seen"
        if self.same:
            return f"written differently, and the same on all {self.seen} devices seen" if self.seen else "the same"
        shown = ", ".join(self.differing[:3])
        return f"they answer differently for {len(self.differing)} of {self.seen} devices: {shown}"


def compare_selectors(left: Sequence[str], right: Sequence[str], sides: Sequence[Side]) -> Selection:
    """By meaning where their forms are equal, else over the devices of all sides, each by the rules of its cluster."""
    if sides and all(_forms(left, one.rules) == _forms(right, one.rules) for one in sides):
        return Selection(same=True, decided=True)
    seen, differing = 0, []
    for side in sides:
        first, second = (_answers(select(tuple(one), side.slices, side.rules)) for one in (left, right))
        seen += sum(len(one.spec.devices) for one in side.slices)
        differing += [
            f"{side.name}: {name}"
            for name in sorted(first.keys() | second.keys())
            if first.get(name) != second.get(name)
        ]
    return Selection(same=not differing, decided=seen > 0, seen=seen, differing=tuple(differing))


def _forms(selectors: Sequence[str], rules: Rules) -> list[str]:
    return [form_of(one, rules) for one in selectors]


def _answers(found: Selected) -> dict[str, str]:
    """What the selectors say of each device that they do not simply pass over."""
    return {**{name: "selected" for name, _ in found.devices}, **{name: "fails" for name, _ in found.failing}}


def compare_forms(form: Callable[[Any, Look], Any], left: Any, right: Any, sides: Sequence[Side]) -> Selection | None:
    """Two specs that differ in nothing but selectors, these compared; None where something else differs."""
    pairs: list[list[list[str]]] = []
    shapes = []
    for spec in (left, right):
        expressions: list[list[str]] = []
        shapes.append(form(spec, _collect(expressions)))
        pairs.append(expressions)
    if canonical_json(shapes[0]) != canonical_json(shapes[1]):
        return None
    found = [compare_selectors(one, other, sides) for one, other in zip(*pairs, strict=True)]
    differing = tuple(dict.fromkeys(name for one in found for name in one.differing))
    return Selection(
        all(one.same for one in found),
        all(one.decided for one in found),
        max((one.seen for one in found), default=0),
        differing,
    )


def _collect(into: list[list[str]]) -> Look:
    def look(expressions: list[str]) -> str:
        into.append(expressions)
        return "selectors"

    return look


def changed_fields(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """The paths at which two JSON values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from changed_fields(left.get(key), right.get(key), f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from changed_fields(one, other, f"{path}[{at}]")
    elif left != right:
        yield path
