"""The columns of each kind's table, as kubectl prints them. Pure.

Source: pkg/printers/internalversion of 1.36; for custom resources the additionalPrinterColumns of their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regauge.base import human_duration
from regauge.cluster import cells
from regauge.cluster.cells import NONE, UNKNOWN
from regauge.model import Object

Cell = Callable[[Object, float], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `wide` ones are shown with `-o wide` only; `about` is the field whose description is the column's."""

    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"
    format: str = ""
    about: str = ""
    description: str = ""


def field(path: str, otherwise: Any = "") -> Cell:
    """The value at a path such as `spec.driver`."""
    names = path.split(".")

    def read(item: Object, _now_s: float) -> Any:
        value: Any = item
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return otherwise if value is None or value == "" else value

    return read


def _whole(read: Callable[[Object], Any]) -> Cell:
    return lambda item, _now_s: read(item)


def _age(path: str) -> Cell:
    read = field(path, None)
    return lambda item, now_s: cells.age(read(item, now_s), now_s)


NAME = Column("Name", field("metadata.name"), format="name", about="metadata.name")
AGE = Column("Age", _age("metadata.creationTimestamp"), about="metadata.creationTimestamp")
CREATED = Column("Created At", field("metadata.creationTimestamp"))
_TEMPLATE = (
    Column("Containers", _whole(lambda item: cells.containers(item["spec"]["template"]["spec"], "name")), wide=True),
    Column("Images", _whole(lambda item: cells.containers(item["spec"]["template"]["spec"], "image")), wide=True),
)
_SELECTOR = Column("Selector", _whole(lambda item: cells.selector(item["spec"].get("selector"))), wide=True)


def _number(name: str, path: str) -> Column:
    return Column(name, field(path, 0), type="integer")


def _count(name: str, path: str) -> Column:
    return Column(name, field(path, 0))


def _ready(item: Object) -> str:
    return f"{(item.get('status') or {}).get('readyReplicas', 0)}/{item['spec'].get('replicas', 1)}"


def _job_status(job: Object) -> str:
    found = {c["type"] for c in (job.get("status") or {}).get("conditions") or () if c.get("status") == "True"}
    if "Complete" in found or "Failed" in found:
        return "Complete" if "Complete" in found else "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if word in found:
            return word
    return "Running"


def _completions(job: Object) -> str:
    done, spec = (job.get("status") or {}).get("succeeded", 0), job["spec"]
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Object, now_s: float) -> str:
    status = job.get("status") or {}
    begun, ended = cells.seconds_of(status.get("startTime")), cells.seconds_of(status.get("completionTime"))
    return "" if begun is None else human_duration((now_s if ended is None else ended) - begun)


def _event_seen(event: Object, now_s: float) -> str:
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    last = last or event.get("eventTime")
    text = cells.age(last, now_s)
    count = series.get("count") or event.get("count") or event.get("deprecatedCount") or 1
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    return f"{text} (x{count} over {cells.age(first, now_s)})" if count > 1 else text


def _event_object(event: Object) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(event: Object) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    name = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    return f"{name}, {source['host']}" if source.get("host") else str(name)


def _number_or_none(name: str, path: str) -> Column:
    read = field(path, None)
    return Column(name, lambda item, now_s: "N/A" if read(item, now_s) is None else str(read(item, now_s)))


def _subjects(kind: str) -> Cell:
    def read(item: Object, _now_s: float) -> str:
        found = [subject for subject in item.get("subjects") or () if subject.get("kind") == kind]
        return ", ".join(
            f"{subject.get('namespace', '')}/{subject['name']}" if kind == "ServiceAccount" else subject["name"]
            for subject in found
        )

    return read


_ROLE = Column("Role", _whole(lambda item: f"{item['roleRef']['kind']}/{item['roleRef']['name']}"))
_BINDING = (
    NAME,
    _ROLE,
    AGE,
    Column("Users", _subjects("User"), wide=True),
    Column("Groups", _subjects("Group"), wide=True),
    Column("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)
_EVENT = (
    Column("Last Seen", _event_seen),
    Column("Type", field("type")),
    Column("Reason", field("reason")),
    Column("Object", _whole(_event_object)),
    Column("Subobject", field("involvedObject.fieldPath"), wide=True),
    Column("Source", _whole(_event_source), wide=True),
    Column("Message", _whole(lambda item: str(item.get("message") or item.get("note") or "").strip())),
    Column(
        "First Seen", lambda item, now: cells.age(item.get("firstTimestamp") or item.get("eventTime"), now), wide=True
    ),
    Column("Count", field("count", 1), wide=True),
    Column("Name", field("metadata.name"), wide=True, format="name"),
)
_COUNTED_SETS = (
    NAME,
    _number("Desired", "spec.replicas"),
    _number("Current", "status.replicas"),
    _number("Ready", "status.readyReplicas"),
    AGE,
    *_TEMPLATE,
)


def _node_info(name: str, path: str) -> Column:
    return Column(name, field(path, UNKNOWN), wide=True)


def _kernel(node: Object) -> str:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    version, machine = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({machine})" if machine and version != UNKNOWN else version


def _gates(pod: Object) -> str:
    wanted = pod["spec"].get("readinessGates") or ()
    conditions = {c["type"]: c["status"] for c in (pod.get("status") or {}).get("conditions") or ()}
    true = sum(1 for item in wanted if conditions.get(item["conditionType"]) == "True")
    return f"{true}/{len(wanted)}" if wanted else NONE


COLUMNS: Mapping[tuple[str, str], tuple[Column, ...]] = {
    ("", "pods"): (
        NAME,
        Column("Ready", _whole(cells.pod_ready)),
        Column("Status", _whole(cells.pod_status)),
        Column("Restarts", cells.pod_restarts),
        AGE,
        Column("IP", field("status.podIP", NONE), wide=True),
        Column("Node", field("spec.nodeName", NONE), wide=True),
        Column("Nominated Node", field("status.nominatedNodeName", NONE), wide=True),
        Column("Readiness Gates", _whole(_gates), wide=True),
    ),
    ("", "nodes"): (
        NAME,
        Column("Status", _whole(cells.node_status)),
        Column("Roles", _whole(cells.node_roles)),
        AGE,
        Column("Version", field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _whole(lambda item: cells.node_address(item, "InternalIP")), wide=True),
        Column("External-IP", _whole(lambda item: cells.node_address(item, "ExternalIP")), wide=True),
        _node_info("OS-Image", "status.nodeInfo.osImage"),
        Column("Kernel-Version", _whole(_kernel), wide=True),
        _node_info("Container-Runtime", "status.nodeInfo.containerRuntimeVersion"),
    ),
    ("", "namespaces"): (NAME, Column("Status", field("status.phase")), AGE),
    ("", "configmaps"): (
        NAME,
        Column("Data", _whole(lambda item: len(item.get("data") or ()) + len(item.get("binaryData") or ()))),
        AGE,
    ),
    ("", "secrets"): (
        NAME,
        Column("Type", field("type")),
        Column("Data", _whole(lambda item: len(item.get("data") or ()))),
        AGE,
    ),
    ("", "services"): (
        NAME,
        Column("Type", field("spec.type")),
        Column("Cluster-IP", field("spec.clusterIP", NONE)),
        Column("External-IP", _whole(lambda item: ",".join(item["spec"].get("externalIPs") or ()) or NONE)),
        Column("Port(s)", _whole(lambda item: cells.ports(item["spec"].get("ports")))),
        AGE,
        Column("Selector", _whole(lambda item: cells.labels(item["spec"].get("selector"))), wide=True),
    ),
    ("", "resourcequotas"): (
        NAME,
        Column("Request", _whole(lambda item: cells.quota_part(item, limits=False))),
        Column("Limit", _whole(lambda item: cells.quota_part(item, limits=True))),
        AGE,
    ),
    ("", "limitranges"): (NAME, CREATED),
    ("", "replicationcontrollers"): (
        *_COUNTED_SETS,
        Column("Selector", _whole(lambda item: cells.labels(item["spec"].get("selector"))), wide=True),
    ),
    ("", "events"): _EVENT,
    ("events.k8s.io", "events"): _EVENT,
    ("apps", "deployments"): (
        NAME,
        Column("Ready", _whole(_ready)),
        _count("Up-to-date", "status.updatedReplicas"),
        _count("Available", "status.availableReplicas"),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    ("apps", "replicasets"): (*_COUNTED_SETS, _SELECTOR),
    ("apps", "statefulsets"): (NAME, Column("Ready", _whole(_ready)), AGE, *_TEMPLATE),
    ("apps", "daemonsets"): (
        NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        Column(
            "Node Selector", _whole(lambda item: cells.labels(item["spec"]["template"]["spec"].get("nodeSelector")))
        ),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    ("apps", "controllerrevisions"): (
        NAME,
        Column(
            "Controller",
            _whole(
                lambda item: next(
                    (
                        f"{o['kind'].lower()}.{o['apiVersion'].partition('/')[0]}/{o['name']}"
                        for o in item["metadata"].get("ownerReferences") or ()
                        if o.get("controller")
                    ),
                    NONE,
                )
            ),
        ),
        _number("Revision", "revision"),
        AGE,
    ),
    ("batch", "jobs"): (
        NAME,
        Column("Status", _whole(_job_status)),
        Column("Completions", _whole(_completions)),
        Column("Duration", _job_duration),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    ("policy", "poddisruptionbudgets"): (
        NAME,
        _number_or_none("Min Available", "spec.minAvailable"),
        _number_or_none("Max Unavailable", "spec.maxUnavailable"),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        NAME,
        _number("Value", "value"),
        Column("Global-Default", field("globalDefault", False), type="boolean"),
        AGE,
        Column("PreemptionPolicy", field("preemptionPolicy")),
    ),
    ("node.k8s.io", "runtimeclasses"): (NAME, Column("Handler", field("handler")), AGE),
    ("coordination.k8s.io", "leases"): (NAME, Column("Holder", field("spec.holderIdentity")), AGE),
    ("rbac.authorization.k8s.io", "roles"): (NAME, CREATED),
    ("rbac.authorization.k8s.io", "clusterroles"): (NAME, CREATED),
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    ("apiextensions.k8s.io", "customresourcedefinitions"): (NAME, CREATED),
    ("resource.k8s.io", "resourceclaims"): (
        NAME,
        Column(
            "State",
            _whole(cells.claim_state),
            description="A summary of the current state (allocated, pending, reserved, etc.).",
        ),
        AGE,
    ),
    ("resource.k8s.io", "resourceslices"): (
        NAME,
        Column("Node", field("spec.nodeName", NONE), about="spec.nodeName"),
        Column("Driver", field("spec.driver"), about="spec.driver"),
        Column("Pool", field("spec.pool.name"), about="spec.pool.name"),
        AGE,
    ),
    ("scheduling.k8s.io", "workloads"): (NAME, AGE),
    ("scheduling.k8s.io", "podgroups"): (
        NAME,
        Column("Policy", _whole(cells.group_policy)),
        Column("Workload", _whole(cells.group_workload)),
        Column("Status", _whole(cells.group_status)),
        AGE,
    ),
    ("resource.k8s.io", "devicetaintrules"): (
        NAME,
        Column("Key", field("spec.taint.key")),
        Column("Value", field("spec.taint.value")),
        Column("Effect", field("spec.taint.effect")),
        Column("TimeAdded", _age("spec.taint.timeAdded")),
        AGE,
    ),
}
DEFAULT = (NAME, AGE)
