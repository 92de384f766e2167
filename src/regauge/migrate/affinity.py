"""What a pod's node selector and required node affinity say of devices, lifted out into selectors on devices. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.migrate.labels import NotSelected, Selected, describes_devices, rule_of, to_selector
from regauge.migrate.sites import Site, mapping_in
from regauge.model import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Lifted:
    """What can go: `selectors` by driver say the same, `node_selector` are the keys that go, `required` is what stays.

    `affinity_changes` is False where the affinity stays as it is. With `refusals` nothing may be changed.
    """

    selectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    node_selector: tuple[str, ...] = ()
    required: Object | None = None
    affinity_changes: bool = False
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    """What has been gathered so far."""

    selected: list[Selected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    keep_unknown: bool = False

    def take(self, key: str, operator: str, values: tuple[str, ...]) -> Selected | NotSelected:
        """One requirement, with what there is to say of it."""
        answer = to_selector(key, operator, values)
        shown = f"{key} {operator} {', '.join(values)}".strip()
        if isinstance(answer, Selected):
            self.notes.append(f"{shown} became a selector ({answer.confidence} confidence: {answer.rule.source})")
        elif answer.implied:
            self.notes.append(f"{shown} left out: {answer.why}")
        elif not answer.node and self.keep_unknown:
            self.notes.append(f"{shown} kept as asked, though it describes devices: {answer.why}")
            return NotSelected(answer.why, node=True)
        elif not answer.node:
            self.refusals.append(answer.why)
        elif rule_of(key) is not None:
            self.notes.append(f"{shown} kept: {answer.why}")
        return answer


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of an affinity: what stays of it, and what goes."""

    kept: Object
    selected: tuple[Selected, ...]
    goes: bool


def lift(site: Site, *, keep_unknown: bool = False) -> Lifted:
    """What of a pod description's choice of nodes is a choice of devices. Nothing is changed."""
    found = _Found(keep_unknown=keep_unknown)
    going = []
    for key, value in _mapping(site.spec.get("nodeSelector")).items():
        answer = found.take(str(key), "In", (str(value),))
        if isinstance(answer, Selected):
            found.selected.append(answer)
        if isinstance(answer, Selected) or answer.implied:
            going.append(key)
    node_affinity = _mapping(_mapping(site.spec.get("affinity")).get("nodeAffinity"))
    selectors: dict[str, list[str]] = {}
    changes, required = _lift_required(_mapping(node_affinity.get(REQUIRED)), found, selectors)
    for item in found.selected:
        _add(selectors, item.driver, item.expression)
    for label in _preferred_labels(node_affinity):
        found.notes.append(
            f"the preference for {label} stays: a claim knows no preference among devices,"
            " and nodes without this label are not preferred"
        )
    return Lifted(
        {driver: tuple(texts) for driver, texts in selectors.items()},
        tuple(going),
        required,
        changes,
        tuple(dict.fromkeys(found.notes)),
        tuple(dict.fromkeys(found.refusals)),
    )


def _asks(term: object) -> bool:
    """An empty term matches no node, so it says nothing beside others."""
    return bool(_mapping(term).get("matchExpressions") or _mapping(term).get("matchFields"))


def _add(selectors: dict[str, list[str]], driver: str, expression: str) -> None:
    texts = selectors.setdefault(driver, [])
    if expression not in texts:
        texts.append(expression)


def _lift_required(required: Object, found: _Found, selectors: dict[str, list[str]]) -> tuple[bool, Object | None]:
    """Whether the required affinity changes, and what stays of it. Terms are alternatives: they move together or not."""
    terms = [_term(item, found) for item in required.get("nodeSelectorTerms") or () if _asks(item)]
    if not any(term.goes for term in terms):
        return False, None
    devices = [tuple((item.driver, item.expression) for item in term.selected) for term in terms]
    if len(terms) == 1 or all(own == devices[0] for own in devices):
        for driver, expression in devices[0]:
            _add(selectors, driver, expression)
        kept = [term.kept for term in terms]
        return True, {**required, "nodeSelectorTerms": kept} if all(kept) else None
    drivers = {driver for own in devices for driver, _ in own}
    if any(term.kept for term in terms) or len(drivers) > 1:
        found.refusals.append(
            "the terms of its required node affinity are alternatives of nodes and devices together,"
            " and a claim is the same on all nodes"
        )
        return False, None
    if all(devices):
        either = " || ".join(f"({' && '.join(_closed(text) for _, text in own)})" for own in devices)
        _add(selectors, drivers.pop(), either)
    return True, None


def _closed(expression: str) -> str:
    return f"({expression})" if " || " in expression else expression


def _term(term: Object, found: _Found) -> _Term:
    kept, selected, goes = [], [], False
    for item in term.get("matchExpressions") or ():
        values = tuple(str(value) for value in item.get("values") or ())
        answer = found.take(str(item.get("key", "")), str(item.get("operator", "")), values)
        if isinstance(answer, Selected):
            selected.append(answer)
            goes = True
        elif answer.implied:
            goes = True
        else:
            kept.append(item)
    rest = {key: value for key, value in term.items() if key != "matchExpressions" and value}
    return _Term({**({"matchExpressions": kept} if kept else {}), **rest}, tuple(selected), goes)


def _preferred_labels(node_affinity: Object) -> Iterator[str]:
    for item in node_affinity.get(PREFERRED) or ():
        for expression in _mapping(_mapping(item).get("preference")).get("matchExpressions") or ():
            if describes_devices(str(expression.get("key", ""))):
                yield str(expression["key"])


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def drop_lifted(site: Site, lifted: Lifted) -> None:
    """Take what was lifted out of the pod description; what is empty then goes with it."""
    selector = _mapping(site.spec.get("nodeSelector"))
    for key in lifted.node_selector:
        del selector[key]
    if lifted.node_selector and not selector:
        del site.spec["nodeSelector"]
    if lifted.affinity_changes:
        set_required(site, lifted.required)


def set_required(site: Site, required: Object | None) -> None:
    """Set or take out the required node affinity, and mappings that are empty without it."""
    if required is not None:
        mapping_in(mapping_in(site.spec, "affinity"), "nodeAffinity")[REQUIRED] = required
        return
    affinity = _mapping(site.spec.get("affinity"))
    node_affinity = _mapping(affinity.get("nodeAffinity"))
    node_affinity.pop(REQUIRED, None)
    if not node_affinity:
        affinity.pop("nodeAffinity", None)
    if not affinity:
        site.spec.pop("affinity", None)


def required_of(site: Site) -> Object | None:
    """The required node affinity of a pod description, where it has one."""
    found = _mapping(_mapping(site.spec.get("affinity")).get("nodeAffinity")).get(REQUIRED)
    return found if isinstance(found, dict) else None
