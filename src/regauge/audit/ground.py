"""What an audit of an estate looks at: the objects of one moment, what its nodes say, and what follows from both. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from regauge.audit.cdi_node import CdiNode
from regauge.audit.findings import Evidence, Severity
from regauge.audit.owner_policy import OwnerPolicy
from regauge.audit.selectors import Selected, select
from regauge.base import InputError, Where
from regauge.inventory import Inventory, claim_names, newest_slices, take_inventory
from regauge.model import Document, Kind, NodeReport, Rules, Snapshot, View, document_view
from regauge.model.core import Node, Pod
from regauge.model.kinds import (
    CORE_EVENT,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    TEMPLATE_PATHS,
)
from regauge.model.node_files import NodeFiles
from regauge.model.rbac import Rights
from regauge.model.resource import (
    Device,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from regauge.scheduler import State

V = TypeVar("V", bound=View)
_VIEWS: tuple[tuple[Kind, type[View]], ...] = (
    (NODE, Node),
    (POD, Pod),
    (DEVICE_CLASS, DeviceClass),
    (RESOURCE_SLICE, ResourceSlice),
    (RESOURCE_CLAIM, ResourceClaim),
    (RESOURCE_CLAIM_TEMPLATE, ResourceClaimTemplate),
    (DEVICE_TAINT_RULE, DeviceTaintRule),
)
GRACE_S = 300.0
"""How long something may be under way before it counts as stuck, in seconds."""


@dataclass(frozen=True, slots=True)
class AuditInput:
    """What is audited. `rules`: of the version and gates it runs with; `to`: those it is to be upgraded to, if any.

    `nodes` are files of nodes by name, `reports` what nodes tell of their devices, `now_s` the moment in seconds since 1970,
    `policy` what the owner wants beyond the rules. `unread` are resources that could not be read of a whole cluster;
    None for files, of which nobody knows what they leave out.
    """

    snapshot: Snapshot
    rules: Rules
    source: str
    now_s: float
    nodes: Mapping[str, NodeFiles] = field(default_factory=dict)
    reports: tuple[NodeReport, ...] = ()
    server_version: str = ""
    to: Rules | None = None
    policy: OwnerPolicy = field(default_factory=OwnerPolicy)
    unread: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """What one rule found at one place. `why`, `fix` and `severity` replace those of the rule's row where they are given."""

    where: str
    what: str
    evidence: tuple[Evidence, ...] = ()
    devices: tuple[str, ...] = ()
    why: str = ""
    fix: str = ""
    severity: Severity | None = None


class Ground:
    """An `AuditInput` with what several rules ask of it, worked out once.

    `snapshot` is without the objects that cannot be read; these are in `unreadable`, with why.
    """

    def __init__(self, given: AuditInput) -> None:
        self.given = given
        self.snapshot, self.unreadable = readable(given.snapshot)
        self.rules = given.rules
        self.selected: dict[tuple[str, ...], Selected] = {}
        self._cdi: dict[str, CdiNode] = {}

    def pairs(self, kind: Kind, type_: type[V]) -> Iterator[tuple[Document, V]]:
        """Documents of a kind with their views."""
        return zip(self.snapshot.documents(kind), self.snapshot.views(kind, type_), strict=True)

    def sees(self, kind: Kind) -> bool:
        """Whether it is known which objects of the kind there are: some are in the input, or a whole cluster was read."""
        unread = self.given.unread
        return self.has(kind) or (unread is not None and kind.resource not in unread)

    def has(self, kind: Kind | tuple[str, str]) -> bool:
        """Whether the input holds any object of the kind: where it does not, nothing is said about what is missing."""
        return bool(self.snapshot.documents(kind))

    def seconds_since(self, stamp: str | None) -> float | None:
        """The age of a timestamp of the API in seconds; None where there is none, or none that can be read."""
        if not stamp:
            return None
        try:
            then = datetime.fromisoformat(stamp)
        except ValueError:
            return None
        return self.given.now_s - (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()

    def settled(self, stamp: str | None) -> bool:
        """Whether something that began at `stamp` has had time to end."""
        age = self.seconds_since(stamp)
        return age is None or age > GRACE_S

    @cached_property
    def inventory(self) -> Inventory:
        return take_inventory(self.snapshot, self.given.reports)

    @cached_property
    def rights(self) -> Rights:
        return Rights.of(self.snapshot)

    @cached_property
    def state(self) -> State:
        return State.of(self.snapshot, self.rules)

    @cached_property
    def classes(self) -> tuple[tuple[Document, DeviceClass], ...]:
        return tuple(self.pairs(DEVICE_CLASS, DeviceClass))

    @cached_property
    def claims(self) -> tuple[tuple[Document, ResourceClaim], ...]:
        return tuple(self.pairs(RESOURCE_CLAIM, ResourceClaim))

    @cached_property
    def templates(self) -> tuple[tuple[Document, ResourceClaimTemplate], ...]:
        return tuple(self.pairs(RESOURCE_CLAIM_TEMPLATE, ResourceClaimTemplate))

    @cached_property
    def slices(self) -> tuple[tuple[Document, ResourceSlice], ...]:
        return tuple(self.pairs(RESOURCE_SLICE, ResourceSlice))

    @cached_property
    def pods(self) -> Mapping[tuple[str, str], Pod]:
        return {(pod.metadata.namespace, pod.metadata.name): pod for pod in self.snapshot.pods}

    @cached_property
    def node_names(self) -> frozenset[str]:
        return frozenset(node.name for node in self.snapshot.documents(NODE))

    @cached_property
    def newest(self) -> tuple[ResourceSlice, ...]:
        """The slices of each pool's newest generation."""
        return tuple(newest_slices(self.snapshot.slices))

    @cached_property
    def devices(self) -> Mapping[tuple[str, str, str], Device]:
        """Devices of the newest generations by driver, pool and name."""
        return {
            (one.spec.driver, one.spec.pool.name, device.name): device
            for one in self.newest
            for device in one.spec.devices
        }

    @cached_property
    def nodes_of_devices(self) -> Mapping[tuple[str, str, str], str]:
        """The node of each device of the newest generations; "" for one that several nodes reach."""
        return {
            (one.spec.driver, one.spec.pool.name, device.name): device.node_name or one.spec.node_name or ""
            for one in self.newest
            for device in one.spec.devices
        }

    @cached_property
    def holders(self) -> Mapping[tuple[str, str, str], tuple[tuple[Document, DeviceRequestAllocationResult], ...]]:
        """The claims that hold each device, with what was given. Claims that only look (admin access) hold nothing."""
        found: dict[tuple[str, str, str], list[tuple[Document, DeviceRequestAllocationResult]]] = defaultdict(list)
        for document, claim in self.claims:
            for one in claim.status.allocation.devices.results if claim.status.allocation else ():
                if not one.admin_access:
                    found[one.driver, one.pool, one.device].append((document, one))
        return {key: tuple(held) for key, held in found.items()}

    @cached_property
    def drivers_on(self) -> Mapping[str, frozenset[str]]:
        """The drivers that publish devices for each node by its name."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self.newest:
            for device in one.spec.devices:
                found[device.node_name or one.spec.node_name or ""].add(one.spec.driver)
        return {node: frozenset(drivers) for node, drivers in found.items()}

    def matched(self, one: DeviceClass) -> Selected:
        """What the selectors of a class say of every device of the estate."""
        return self.matching(tuple(selector.cel.expression for selector in one.spec.selectors if selector.cel))

    def matching(self, expressions: tuple[str, ...]) -> Selected:
        """What expressions say together of every device of the estate."""
        if expressions not in self.selected:
            self.selected[expressions] = select(expressions, self.newest, self.rules)
        return self.selected[expressions]

    def users(self, claim: ResourceClaim) -> tuple[Pod, ...]:
        """The pods of the input that use a claim, by its own name or by what a template made."""
        return self._users.get((claim.metadata.namespace, claim.metadata.name), ())

    @cached_property
    def _users(self) -> Mapping[tuple[str, str], tuple[Pod, ...]]:
        found: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            for name in claim_names(pod):
                found[pod.metadata.namespace, name].append(pod)
        return {key: tuple(pods) for key, pods in found.items()}

    @cached_property
    def labels_of_namespaces(self) -> Mapping[str, Mapping[str, str]]:
        return {
            document.name: mapping(mapping(document.object.get("metadata")).get("labels"))
            for document in self.snapshot.documents(NAMESPACE)
        }

    def cdi(self, node: str) -> CdiNode | None:
        """The CDI of a node that was recorded."""
        if node not in self._cdi and node in self.given.nodes:
            self._cdi[node] = CdiNode(self.given.nodes[node])
        return self._cdi.get(node)

    @cached_property
    def events(self) -> tuple[Document, ...]:
        """Events of either API, once each."""
        found = {
            (one.namespace, one.name): one for kind in (EVENT, CORE_EVENT) for one in self.snapshot.documents(kind)
        }
        return tuple(found.values())

    @cached_property
    def events_of_pods(self) -> Mapping[str, Mapping[tuple[str, str, str], tuple[Document, ...]]]:
        """Events by their reason, and by namespace, name and uid of the pod that they are about."""
        found: dict[str, dict[tuple[str, str, str], list[Document]]] = defaultdict(lambda: defaultdict(list))
        for document in self.events:
            about = mapping(document.object.get("regarding") or document.object.get("involvedObject"))
            if about.get("kind") == "Pod":
                key = (str(about.get("namespace", "")), str(about.get("name", "")), str(about.get("uid", "")))
                found[str(document.object.get("reason"))][key].append(document)
        return {reason: {key: tuple(told) for key, told in pods.items()} for reason, pods in found.items()}

    @cached_property
    def workloads(self) -> tuple[tuple[Document, Mapping[str, Any]], ...]:
        """Whatever describes pods and is owned by nothing, with the spec of its pods."""
        found = []
        for kind, path in TEMPLATE_PATHS.items():
            for document in self.snapshot.documents(kind):
                if items(mapping(document.object.get("metadata")).get("ownerReferences")):
                    continue
                value: Any = document.object
                for name in path:
                    value = mapping(value).get(name)
                found.append((document, mapping(mapping(value).get("spec"))))
        return tuple(found)

    def pod_document(self, pod: Pod) -> Document | None:
        return self._pod_documents.get((pod.metadata.namespace, pod.metadata.name))

    @cached_property
    def _pod_documents(self) -> Mapping[tuple[str, str], Document]:
        return {(one.namespace, one.name): one for one in self.snapshot.documents(POD)}


def readable(snapshot: Snapshot) -> tuple[Snapshot, tuple[tuple[Document, InputError], ...]]:
    """The snapshot without the objects that cannot be read, and these: one bad manifest must not hide the others."""
    bad: dict[int, tuple[Document, InputError]] = {}
    for kind, type_ in _VIEWS:
        try:
            snapshot.views(kind, type_)
        except InputError:
            for document in snapshot.documents(kind):
                try:
                    document_view(document, type_)
                except InputError as error:
                    bad[id(document)] = (document, error)
    if not bad:
        return snapshot, ()
    return Snapshot.of(one for one in snapshot.all_documents() if id(one) not in bad), tuple(bad.values())


def at(document: Document, field_: str | None = None) -> Where:
    """The place of an object, or of a field of it."""
    return Where(document.where.file, document.where.line, document.title, field_)


def seen(document: Document, text: str, field_: str | None = None) -> Evidence:
    """Something that was seen in an object."""
    return Evidence(at(document, field_), text)


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON value as a mapping; the empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> tuple[Any, ...]:
    """A JSON value as a list; the empty one for any other value."""
    return tuple(value) if isinstance(value, list) else ()


def some(names: object, most: int = 5) -> str:
    """A few names, and how many more."""
    listed = names if isinstance(names, list | tuple | set | frozenset | dict) else [names]
    every = list(dict.fromkeys(map(str, listed)))
    shown = ", ".join(every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown
