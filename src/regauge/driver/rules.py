"""Rules: which of the things that a kind finds are served, by which stack, and what a description adds to them. Pure.

A rule has patterns by fact (`match`) and the fields of a device. In its texts `{fact}` stands for the value, in its name
for the value in small letters, digits and '-'. The first rule that matches counts; what no rule matches is not served.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from regauge.base import InputError
from regauge.cdi import ContainerEdits, merge_edits
from regauge.driver.description import Device, Identity, Rule, Stack
from regauge.driver.fields import Fields, type_name
from regauge.driver.names import device_name_problem
from regauge.driver.notices import Notice, Tell
from regauge.driver.parts import ATTRIBUTES_LIMIT, DEVICE_FIELDS, device_of, read_edits

_RULE = ("match", "skip")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME_LIMIT = 63
_NO_IDENTITY = Identity()
_NO_EDITS = ContainerEdits()


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a kind found: what it is called unless a rule says otherwise, the facts to match and to insert, and
    what is known of it as a device."""

    name: str
    facts: Mapping[str, str | int | bool]
    identity: Identity = _NO_IDENTITY
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    numa_node: int | None = None
    edits: ContainerEdits = _NO_EDITS
    cdi_names: tuple[str, ...] = ()


def read_rules(rules: Sequence[Fields], facts: Mapping[str, str | int | bool], resource: str) -> tuple[Rule, ...]:
    """The rules of a description. Each is tried on the examples in `facts`, so that mistakes are told before a device is
    found. Raises `InputError`."""
    read = []
    for fields in rules:
        fields.only(*_RULE, *DEVICE_FIELDS)
        match = fields.mapping("match")
        patterns = {name: _patterns(match, name, facts) for name in match.value}
        rest = replace(fields, value={name: value for name, value in fields.value.items() if name not in _RULE})
        rule = Rule(patterns, rest, fields.flag("skip", False), not _has_placeholder(rest.value))
        if rule.skip and rest.value:
            raise fields.wrong("skip", "a rule that leaves devices out says nothing else of them")
        if not rule.skip:
            tried = device_by(rule, Found("device", facts, edits=ContainerEdits(env=("TRIED=1",))))
            if tried.stack is Stack.DEVICE_PLUGIN and not resource:
                raise fields.wrong("stack", "a device plugin needs a resource", "add resource: domain/name at the top")
        read.append(rule)
    return tuple(read)


def _patterns(match: Fields, name: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    if name not in facts:
        raise match.wrong(name, "there is no such fact", _nearest(name, facts))
    value = match.value[name]
    items = value if isinstance(value, list) else [value]
    if not items or any(isinstance(item, dict | list | float) or item is None for item in items):
        raise match.wrong(name, f"it is {type_name(value)} where a pattern or a list of them is expected")
    return tuple(_text(item) for item in items)


def _nearest(name: str, facts: Iterable[str]) -> str:
    names = sorted(facts)
    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def matches(rule: Rule, facts: Mapping[str, str | int | bool]) -> bool:
    """Whether each pattern fits: `*` and `?` as in a shell, whatever the case; of several one is enough."""
    return all(
        any(fnmatchcase(_text(facts.get(name, "")).lower(), pattern.lower()) for pattern in patterns)
        for name, patterns in rule.match.items()
    )


def device_by(rule: Rule, found: Found) -> Device:
    """The device that a rule makes of a thing. Raises `InputError` for a result that Kubernetes or CDI would refuse."""
    return _joined(rule, _said(rule, found), found)


def _said(rule: Rule, found: Found) -> Device:
    """What the rule itself says of the thing."""
    value = inserted(rule.fields, "", rule.fields.value, found.facts)
    if isinstance(rule.fields.value.get("name"), str):
        labels = {fact: label(_text(one)) for fact, one in found.facts.items()}
        value["name"] = str(inserted(rule.fields, "name", rule.fields.value["name"], labels))
    fields = replace(rule.fields, value=value)
    name = fields.text("name", found.name)
    fields = fields.named(f"device {name}")
    return device_of(fields, name, read_edits(fields))


def _joined(rule: Rule, said: Device, found: Found) -> Device:
    """What the rule says and what was found, as one device."""
    name = said.name if "name" in rule.fields.value else found.name
    if problem := device_name_problem(name):
        raise _wrong(rule, name, "name", f"{name!r} cannot be used: {problem}")
    edits = merge_edits((found.edits, said.edits))
    if edits.is_empty():
        raise _wrong(
            rule, name, "deviceNodes", "the device gives a container nothing", "add deviceNodes, mounts or env"
        )
    attributes = {**found.attributes, **said.attributes}
    capacity = {**found.capacity, **said.capacity}
    if len(attributes) + len(capacity) > ATTRIBUTES_LIMIT:
        what = f"with what was found there are {len(attributes) + len(capacity)} attributes and capacities"
        raise _wrong(rule, name, "attributes", f"{what}, at most {ATTRIBUTES_LIMIT}")
    return replace(
        said,
        name=name,
        edits=edits,
        identity=_merged(found.identity, said.identity),
        attributes=attributes,
        capacity=capacity,
        numa_node=found.numa_node if said.numa_node is None else said.numa_node,
        cdi_names=found.cdi_names,
    )


def _wrong(rule: Rule, name: str, field_: str, what: str, fix: str | None = None) -> InputError:
    return rule.fields.named(f"device {name}").wrong(field_, what, fix)


def _merged(found: Identity, described: Identity) -> Identity:
    return Identity(described.uuid or found.uuid, described.pci or found.pci, described.numbers or found.numbers)


def inserted(fields: Fields, path: str, value: Any, facts: Mapping[str, Any]) -> Any:
    """The value with the facts in place of their names. A text that is nothing but a name becomes the fact as it is: a
    number stays a number."""
    if isinstance(value, dict):
        return {key: inserted(fields, f"{path}.{key}" if path else key, inner, facts) for key, inner in value.items()}
    if isinstance(value, list):
        return [inserted(fields, f"{path}[{index}]", inner, facts) for index, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    for name in _PLACEHOLDER.findall(value):
        if name not in facts:
            raise fields.wrong(path, f"there is no fact {{{name}}} here", _nearest(name, facts))
    whole = _PLACEHOLDER.fullmatch(value)
    return facts[whole[1]] if whole else _PLACEHOLDER.sub(lambda hit: _text(facts[hit[1]]), value)


def _has_placeholder(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_placeholder(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_has_placeholder(inner) for inner in value)
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def label(*parts: str) -> str:
    """A device name out of parts of any kind: small letters, digits and '-'."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")[:_NAME_LIMIT].rstrip("-")


class Chooser:
    """Applies rules again and again, and tells each trouble once."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def devices(self, rules: Sequence[Rule], found: Iterable[Found]) -> tuple[Device, ...]:
        """The devices in the order found. What cannot be served is told and left out."""
        chosen: dict[str, Device] = {}
        trouble: dict[str, Notice] = {}
        said: dict[int, Device] = {}  # by rule that says the same of everything, for those who find thousands
        for one in found:
            rule = next((rule for rule in rules if matches(rule, one.facts)), None)
            if rule is None or rule.skip:
                continue
            try:
                if id(rule) in said:
                    device = _joined(rule, said[id(rule)], one)
                else:
                    words = _said(rule, one)
                    device = _joined(rule, words, one)
                    if rule.constant:
                        said[id(rule)] = words
            except InputError as error:
                trouble[f"{one.name}: {error}"] = Notice("not-served", str(error), "error", one.name)
                continue
            if chosen.setdefault(device.name, device) is not device:
                text = f"two devices would be called {device.name}: use a fact in the rule's name"
                trouble[f"{one.name}: {text}"] = Notice("not-served", text, "error", one.name)
        for key in trouble.keys() - self._told:
            self._tell(trouble[key])
        self._told = set(trouble)
        return tuple(chosen.values())
