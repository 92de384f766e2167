"""The plan of a move as a file: steps in four phases, each with actions and the gates that must hold after it. Pure.

A plan says everything that will be written to the cluster, so that it can be reviewed, compared and edited. What is no
action or gate of this vocabulary is refused when the file is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from regauge.base import InputError, Where, canonical_json
from regauge.migrate.move import as_written
from regauge.migrate.text import dump
from regauge.model import Document, Object
from regauge.model.kinds import DAEMON_SET

PLAN_API_VERSION = "regauge.dev/v1alpha1"
PLAN_KIND = "Plan"
STACK_LABEL = "regauge.dev/stack"
"""The node label that says which stack serves a node; absent: as it was before any plan."""
NOBODY = "none"
"""The value of the label while a node goes from one stack to the other."""
MAX_STEPS = 10_000
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,63}}\Z){_LABEL}(\.{_LABEL})*")
_OBJECT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,251}[A-Za-z0-9])?")
_DIGEST_LENGTH = 16
CONTROLLER_ANNOTATIONS = (
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "batch.kubernetes.io/",
)


class Phase(StrEnum):
    """The four phases, in their order."""

    INVENTORY = "inventory"
    CANARY = "canary"
    DUAL_STACK = "dual-stack"
    POOLS = "pools"


class OnFailure(StrEnum):
    """What a gate that fails undoes: its own step, or all steps that are done."""

    STEP = "step"
    ALL = "all"


class Stack(StrEnum):
    """Which stack serves the devices of a node."""

    DEVICE_PLUGIN = "device-plugin"
    DRA = "dra"


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class Reference(_Strict, frozen=True):
    """An object of the cluster."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Approve(_Strict, frozen=True, tag_field="do", tag="approve"):
    """A person says yes before the step goes on."""

    question: str


class Ensure(_Strict, frozen=True, tag_field="do", tag="ensure"):
    """Objects that have to be there as written. One that is there otherwise stops the step. Undone: what was made goes."""

    objects: tuple[dict[str, Any], ...]


class Amend(_Strict, frozen=True, tag_field="do", tag="amend"):
    """A merge patch (RFC 7386) on an object that is there. Undone: every field that it touched is as it was.

    Of a DaemonSet it is done when as many pods on the plan's nodes as before are ready in the new form.
    """

    object: Reference
    patch: dict[str, Any]
    rolled_out_within_s: int = 900


class ServedCount(_Strict, frozen=True):
    """One counted resource of a node and what stands for it under DRA: the driver, and how many devices."""

    resource_name: str
    driver: str
    devices: int


class Switch(_Strict, frozen=True, tag_field="do", tag="switch"):
    """One node from a stack to the other: cordoned, its holders evicted, the old stack off and its devices gone, the new
    stack on and its devices there, uncordoned. `labels` are what the new stack's DaemonSet selects nodes by, in addition.

    Undone by the same way back.
    """

    node: str
    to: Stack
    served: tuple[ServedCount, ...]
    labels: dict[str, str] = {}
    drain_within_s: int = 1800
    gone_within_s: int = 420
    served_within_s: int = 300


class Move(_Strict, frozen=True, tag_field="do", tag="move"):
    """A workload in its new form. `of` is the digest of the form it has now; `objects` come before `workload`.

    `recreate`: the object is deleted and made anew, because its template cannot be changed. Undone: the old form comes back.
    """

    workload: dict[str, Any]
    of: str
    objects: tuple[dict[str, Any], ...] = ()
    recreate: bool = False
    pods: int = 1
    gone_within_s: int = 600

    @property
    def reference(self) -> Reference:
        return reference_of(self.workload)


Action = Approve | Ensure | Amend | Switch | Move


class Pinned(_Strict, frozen=True, tag_field="check", tag="pinned"):
    """Versions are those of the plan."""


class Accepted(_Strict, frozen=True, tag_field="check", tag="accepted"):
    """The API server takes every object of the step in a dry run."""


class OneOwner(_Strict, frozen=True, tag_field="check", tag="one-owner"):
    """No device of these nodes is advertised by both stacks."""

    nodes: tuple[str, ...]


class SameDevices(_Strict, frozen=True, tag_field="check", tag="same-devices"):
    """The nodes have the devices they had before the step, by physical identity; by count where identity cannot be seen."""

    nodes: tuple[str, ...]
    within_s: int = 120


class Running(_Strict, frozen=True, tag_field="check", tag="running"):
    """So many pods of a workload are ready, with so many devices in all, within a time."""

    workload: Reference
    pods: int
    devices: int
    within_s: int = 600


class NothingLeaked(_Strict, frozen=True, tag_field="check", tag="nothing-leaked"):
    """No claim is allocated that no pod uses, and no counted device is held for a pod that is gone."""

    within_s: int = 120


class CountsAgree(_Strict, frozen=True, tag_field="check", tag="counts-agree"):
    """On each node the counted name and the published devices together are as many as there are devices."""

    nodes: tuple[str, ...]


class AttributionEqual(_Strict, frozen=True, tag_field="check", tag="attribution-equal"):
    """The workload has as many devices to its name as its manifest asks for, and its namespace's quotas charge as much as
    before the step."""

    workload: Reference
    devices: int


Gate = Pinned | Accepted | OneOwner | SameDevices | Running | NothingLeaked | CountsAgree | AttributionEqual


class PlanStep(_Strict, frozen=True):
    """One step: `needs` hold before anything is done, `gates` after it. Durations are estimates.

    `why` is for the reviewer, `rollback` says in words what undoing it does. `override` is the reason for a step that changes
    more than one of Kubernetes, drivers, DRA and framework; without one such a step is refused.
    """

    id: str
    phase: Phase
    title: str
    needs: tuple[Gate, ...] = ()
    actions: tuple[Action, ...] = ()
    gates: tuple[Gate, ...] = ()
    why: str = ""
    override: str = ""
    rollback: str = ""
    takes_s: int = 0
    rollback_s: int = 0


class Pins(_Strict, frozen=True):
    """The four axes: Kubernetes, kernel drivers and runtimes of the nodes, DRA drivers and plugins, frameworks."""

    kubernetes: str = ""
    kubelets: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    images: dict[str, str] = {}


class NodeBasis(_Strict, frozen=True):
    """A node as the plan saw it: what it counts, and how many devices each driver publishes on it."""

    counted: dict[str, int] = {}
    published: dict[str, int] = {}


class Left(_Strict, frozen=True):
    """What stays as it is, and why."""

    what: str
    why: str


class PlanSpec(_Strict, frozen=True):
    """What `spec` of a plan holds. `nodes` and each move's `of` are what the plan stands on.

    `sources` tells the DaemonSet (namespace/name) behind every counted name and driver that the plan is about.
    """

    kube_version: str
    pins: Pins
    sources: dict[str, str]
    nodes: dict[str, NodeBasis]
    steps: tuple[PlanStep, ...]
    left: tuple[Left, ...] = ()
    on_failure: OnFailure = OnFailure.STEP
    stack_label: str = STACK_LABEL


class PlanMetadata(_Strict, frozen=True):
    name: str


class Plan(_Strict, frozen=True):
    """The whole plan."""

    api_version: str
    kind: str
    metadata: PlanMetadata
    spec: PlanSpec

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def digest(self) -> str:
        """What the plan is told by: it changes with every word of it."""
        return digest_of(msgspec.to_builtins(self))

    def step(self, id_: str) -> PlanStep:
        """The step of this id. Raises `InputError` where there is none."""
        for step in self.spec.steps:
            if step.id == id_:
                return step
        known = ", ".join(step.id for step in self.spec.steps[:10])
        raise InputError(f"the plan has no step {id_}", where=Where(object=f"Plan {self.name}"), fix=f"such as {known}")


def make_plan(name: str, spec: PlanSpec) -> Plan:
    """A plan under a name."""
    return Plan(PLAN_API_VERSION, PLAN_KIND, PlanMetadata(name), spec)


def digest_of(value: object) -> str:
    """A short digest of a JSON value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:_DIGEST_LENGTH]


def cleaned(object_: Object) -> Object:
    """An object as a user would write it: what controllers noted on it is not part of what it asks for."""
    new = as_written(object_)
    annotations = new["metadata"].get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if not key.startswith(CONTROLLER_ANNOTATIONS)}
    if kept:
        new["metadata"]["annotations"] = kept
    else:
        new["metadata"].pop("annotations", None)
    return new


def reference_of(object_: Object) -> Reference:
    """What an object is called."""
    metadata = object_["metadata"]
    return Reference(object_["apiVersion"], object_["kind"], metadata["name"], metadata.get("namespace", ""))


def write_plan(plan: Plan) -> str:
    """The plan as YAML; reading it gives the same plan."""
    return dump(msgspec.to_builtins(plan))


def read_plan(documents: Iterable[Document]) -> Plan:
    """The one plan of a file. Raises `InputError` that names the field for anything a plan cannot say."""
    found = [document for document in documents if document.kind == PLAN_KIND]
    if len(found) != 1:
        raise InputError(f"{len(found)} plans in the input, and one is wanted", fix="give the file of one plan")
    document = found[0]
    place = Where(document.where.file, document.where.line, f"Plan {document.name}")
    if document.api_version != PLAN_API_VERSION:
        raise InputError(
            f"apiVersion {document.api_version} is not known here", where=place, fix=f"{PLAN_API_VERSION} is"
        )
    try:
        plan = msgspec.convert(document.object, Plan)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        where = Where(place.file, place.line, place.object, path.rstrip("`").removeprefix("$."))
        raise InputError(text, where=where, fix="see docs/plan.md for what a plan may say") from None
    for field, why in _wrong(plan):
        raise InputError(why, where=Where(place.file, place.line, place.object, field))
    return plan


def _wrong(plan: Plan) -> Iterator[tuple[str, str]]:
    """What the types do not say."""
    if not _NAME.fullmatch(plan.name):
        yield "metadata.name", "the name is small letters, digits, dots and dashes, at most 63"
    if len(plan.spec.steps) > MAX_STEPS:
        yield "spec.steps", f"{len(plan.spec.steps)} steps, and {MAX_STEPS} is the limit"
    seen: set[str] = set()
    for number, step in enumerate(plan.spec.steps):
        at = f"spec.steps[{number}]"
        if not _NAME.fullmatch(step.id):
            yield f"{at}.id", f"{step.id!r} is no id: small letters, digits, dots and dashes, at most 63"
        said = (step.title, step.rollback, *(act.question for act in step.actions if isinstance(act, Approve)))
        if not all(text.isprintable() for text in said):
            yield f"{at}.title", "what people are asked or told is one line of printable text"
        if step.id in seen:
            yield f"{at}.id", f"{step.id} stands twice"
        seen.add(step.id)
        axes = sorted({axis for action in step.actions for axis in axes_of(action)})
        if len(axes) > 1 and not step.override:
            yield (
                f"{at}.actions",
                f"one step changes {' and '.join(axes)}: make steps of it, or give the reason in override",
            )
        for index, action in enumerate(step.actions):
            yield from ((f"{at}.actions[{index}]{field}", why) for field, why in _wrong_action(action))


def axes_of(action: Action) -> frozenset[str]:
    """Which of the four axes an action changes: an image of a DaemonSet is a driver, one of a workload the framework."""
    if isinstance(action, Switch):
        return frozenset(("DRA",))
    if isinstance(action, Amend) and "image" in _keys(action.patch):
        return frozenset(("a driver",) if action.object.kind == DAEMON_SET.kind else ("the framework",))
    if isinstance(action, Amend) and "kubeletVersion" in _keys(action.patch):
        return frozenset(("Kubernetes",))
    return frozenset()


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


def _wrong_action(action: Action) -> Iterator[tuple[str, str]]:
    objects: tuple[Object, ...] = ()
    if isinstance(action, Ensure):
        objects = action.objects
    elif isinstance(action, Move):
        objects = (*action.objects, action.workload)
    for object_ in objects:
        metadata = object_.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        if not _is_named(object_.get("apiVersion"), object_.get("kind"), named.get("name"), named.get("namespace", "")):
            yield "", "an object needs apiVersion, kind and metadata.name, as Kubernetes has them"
    if isinstance(action, Amend) and not _is_named(
        action.object.api_version, action.object.kind, action.object.name, action.object.namespace
    ):
        yield ".object", "no object of Kubernetes is called so"
    if isinstance(action, Switch) and not (_OBJECT_NAME.fullmatch(action.node) and ".." not in action.node):
        yield ".node", f"{action.node!r} is no name of a node"
    if isinstance(action, Amend) and not action.patch:
        yield ".patch", "a patch that changes nothing"


def _is_named(api_version: object, kind: object, name: object, namespace: object) -> bool:
    """Whether these can be what an object is called: nothing in them leads a request to another object."""
    parts = (str(api_version), kind, name, namespace or "x")
    return isinstance(api_version, str) and all(
        isinstance(part, str) and _OBJECT_NAME.fullmatch(part) and ".." not in part
        for part in (*parts[0].split("/", 1), *parts[1:])
    )
