"""Scenarios: what there is, what is done, what goes wrong, and what must be seen. Read strictly from YAML.

A file holds one or more documents of kind `Scenario`. The vocabulary is in docs/verify.md; a word that is not in it is an
error that names file, scenario and field.
"""

from __future__ import annotations

from importlib.resources import files as package_files
from typing import Any

import msgspec

from regauge.base import InputError, Where
from regauge.model import Object, read_documents
from regauge.rehearsal.faults import LASTING, Fault, What

API_VERSION, KIND = "regauge.dev/v1alpha1", "Scenario"
SUITES = ("lifecycle", "checklist", "failures", "crowd", "pilots")
MOST_STEPS = 500
LONGEST_S = 7 * 86_400.0


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


class FaultStep(_Strict, frozen=True):
    """A fault as it is written; see `faults.Fault`. Seconds in numbers."""

    what: What
    node: str = "*"
    device: str = ""
    actor: str = "*"
    copy: str = ""
    at: str = ""
    occurrence: int = 1
    after: float = 0.0
    times: int = 1
    lasts: float = 1.0

    def fault(self) -> Fault:
        return Fault(
            self.what,
            self.node,
            self.device,
            self.actor,
            self.copy,
            self.at,
            self.occurrence,
            self.after,
            self.times,
            self.lasts,
        )


class Look(_Strict, frozen=True):
    """One thing to be seen: exactly one of the first fields says of what, those from `namespace` on what of it."""

    pod: str = ""
    claim: str = ""
    node: str = ""
    device: str = ""
    event: str = ""
    finding: str = ""
    bundle: str = ""
    writes: tuple[str, ...] = ()
    namespace: str = "default"
    is_: str = msgspec.field(default="", name="is")
    on_node: str = ""
    devices: tuple[str, ...] | None = None
    message: str = ""
    about: str = ""
    taint: str = ""
    resources: dict[str, int] = {}
    count: int | None = None
    never: bool = False

    @property
    def subject(self) -> str:
        names = ("pod", "claim", "node", "device", "event", "finding", "bundle", "writes")
        return next((name for name in names if getattr(self, name)), "")


class Deletion(_Strict, frozen=True):
    """Delete one object. `grace` in seconds; `force` also takes its finalizers away."""

    kind: str
    name: str
    api_version: str = "v1"
    namespace: str = "default"
    grace: int | None = None
    force: bool = False


class Patch(_Strict, frozen=True):
    """A merge patch of one object."""

    kind: str
    name: str
    body: dict[str, Any]
    api_version: str = "v1"
    namespace: str = "default"
    subresource: str = ""


class Step(_Strict, frozen=True):
    """One step: exactly one of the fields between `title` and `within`."""

    title: str = ""
    apply: str | Object | tuple[str | Object, ...] | None = None
    delete: Deletion | None = None
    patch: Patch | None = None
    sleep: float | None = None
    wait: Look | tuple[Look, ...] | None = None
    expect: Look | tuple[Look, ...] | None = None
    fault: FaultStep | None = None
    table: str | None = None
    within: float = 60.0
    refused: str = ""

    @property
    def verb(self) -> str:
        names = ("apply", "delete", "patch", "sleep", "wait", "expect", "fault", "table")
        found = [name for name in names if getattr(self, name) is not None]
        return found[0] if len(found) == 1 else ""

    @property
    def looks(self) -> tuple[Look, ...]:
        found = self.wait if self.wait is not None else self.expect
        return (found,) if isinstance(found, Look) else found or ()


class NodeStep(_Strict, frozen=True):
    """A node to be. `devices` names one of the scenario's descriptions, "" for a node without any."""

    name: str
    devices: str = ""
    labels: dict[str, str] = {}


class Scenario(_Strict, frozen=True):
    """One scenario. `rows` are the statements it answers for, by number or name; `settle` is how long the end may take.

    With `diagnosis` bundles are collected when devices fall ill, as `regauge collect watch` does.
    """

    api_version: str
    kind: str
    metadata: dict[str, Any]
    title: str
    steps: tuple[Step, ...]
    base: str = ""
    rows: tuple[int | str, ...] = ()
    kube_version: str = ""
    feature_gates: str = ""
    devices: dict[str, Object] = {}
    nodes: tuple[NodeStep, ...] = ()
    objects: dict[str, Object] = {}
    setup: tuple[str | Object, ...] = ()
    settle: float = 0.0
    checked: bool = True
    diagnosis: bool = False

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    def object(self, told: str | Object) -> Object:
        """An object that is written out, or named."""
        if isinstance(told, dict):
            return told
        if told not in self.objects:
            raise InputError(
                f"there is no object {told!r}",
                where=Where(object=f"scenario {self.name}", field="objects"),
                fix=f"known: {', '.join(sorted(self.objects)) or 'none'}",
            )
        return self.objects[told]


def read_scenarios(data: bytes, file: str) -> tuple[Scenario, ...]:
    """The scenarios of a file. Raises `InputError` for anything that is not exactly one."""
    found = []
    for document in read_documents(data, file):
        object_ = document.object
        name = str((object_.get("metadata") or {}).get("name") or "without a name")
        where = Where(file=file, line=document.where.line, object=f"scenario {name}")
        if object_.get("apiVersion") != API_VERSION or object_.get("kind") != KIND:
            raise InputError(f"it is not a {KIND} of {API_VERSION}", where=where, fix="see docs/verify.md")
        found.append(_scenario(object_, where))
    if not found:
        raise InputError("there is no scenario in it", where=Where(file=file), fix="see docs/verify.md")
    return tuple(found)


def _scenario(object_: Object, where: Where) -> Scenario:
    base = object_.get("base")
    merged = {**_base(str(base), where), **object_} if base else object_
    if base:
        merged["objects"] = {**_base(str(base), where).get("objects", {}), **(object_.get("objects") or {})}
        merged["devices"] = {**_base(str(base), where).get("devices", {}), **(object_.get("devices") or {})}
    try:
        scenario = msgspec.convert(merged, Scenario)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.")
        raise InputError(
            text, where=Where(where.file, where.line, where.object, field or None), fix="see docs/verify.md"
        ) from None
    _check(scenario, where)
    return scenario


def _base(name: str, where: Where) -> Object:
    place = package_files("regauge.rehearsal").joinpath(f"suites/base/{name}.yaml")
    if "/" in name or not place.is_file():
        raise InputError(f"there is no base {name!r}", where=where, fix="leave `base` out, or use gpus")
    (document,) = read_documents(place.read_bytes(), f"base {name}")
    return {key: value for key, value in document.object.items() if key not in ("apiVersion", "kind", "metadata")}


def _check(scenario: Scenario, where: Where) -> None:
    def wrong(text: str, field: str) -> InputError:
        return InputError(
            text, where=Where(where.file, where.line, where.object, field or None), fix="see docs/verify.md"
        )

    if len(scenario.steps) > MOST_STEPS:
        raise wrong(f"it has {len(scenario.steps)} steps, more than {MOST_STEPS}", "steps")
    for number, step in enumerate(scenario.steps):
        place = f"steps[{number}]"
        if not step.verb:
            raise wrong(
                "a step does exactly one thing: apply, delete, patch, sleep, wait, expect, fault or table", place
            )
        if (step.sleep or 0) > LONGEST_S or step.within > LONGEST_S:
            raise wrong(f"more than {LONGEST_S:g} seconds", place)
        for look in step.looks:
            if not look.subject:
                raise wrong(
                    "it does not say what to look at: pod, claim, node, device, event, finding, bundle or writes", place
                )
        if step.refused and step.verb not in ("apply", "delete", "patch"):
            raise wrong("`refused` belongs to apply, delete or patch", place)
        if step.fault is not None and step.fault.what not in LASTING and step.fault.times != 1:
            raise wrong(f"{step.fault.what} happens once; `times` is for {', '.join(sorted(LASTING))}", place)
    for node in scenario.nodes:
        if node.devices and node.devices not in scenario.devices:
            raise wrong(f"node {node.name} has devices {node.devices!r}, which are not described", "nodes")


def suite(name: str) -> tuple[Scenario, ...]:
    """A packaged suite."""
    file = f"suites/{name}.yaml"
    return read_scenarios(package_files("regauge.rehearsal").joinpath(file).read_bytes(), f"suite {name}")
