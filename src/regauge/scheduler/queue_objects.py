"""Kueue's objects as views: its configuration, queues, flavors and workloads (v1beta2, and v1beta1 where it is the same).

Source: kueue api/kueue/v1beta2 and api/config/v1beta2 of 0.19.0. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from regauge.base import InputError
from regauge.model import Document, ObjectMeta, Quantity, QuantityError, Snapshot, View, document_view, view
from regauge.model.core import PodSpec
from regauge.model.kinds import CONFIG_MAP
from regauge.model.manifest_yaml import read_yaml
from regauge.model.resource import Condition, DeviceSelector, QuantityText

GROUP = "kueue.x-k8s.io"
CONFIGURATION = ("config.kueue.x-k8s.io", "Configuration")
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

INTEGRATION = "KueueDRAIntegration"
REJECTING = "KueueDRARejectWorkloadsWhenDRADisabled"
EXTENDED = "KueueDRAIntegrationExtendedResource"
PARTITIONABLE = "KueueDRAIntegrationPartitionableDevices"
CAPACITY = "KueueDRAIntegrationConsumableCapacity"


class KueueGate(NamedTuple):
    """A gate of Kueue that decides about charges: its stage and default in the version of the rules, and its state."""

    gate: str
    stage: str
    default: bool
    on: bool


# Read in the source of 0.19.0; what they do was recorded.
_GATES = (
    (INTEGRATION, "beta", True),
    (REJECTING, "beta", True),
    (EXTENDED, "beta", True),
    (PARTITIONABLE, "beta", True),
    (CAPACITY, "alpha", False),
)
_DEFAULTS = {name: default for name, _, default in _GATES}


class Measured(View, frozen=True):
    """A counter or a capacity that is charged in place of a number of devices."""

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector | None = None


class Source(View, frozen=True):
    counter: Measured | None = None
    capacity: Measured | None = None


class ClassMapping(View, frozen=True):
    name: str = ""
    device_class_names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


class _Resources(View, frozen=True):
    device_class_mappings: tuple[ClassMapping, ...] = ()
    quota_check_strategy: str = ""


class _Configuration(View, frozen=True):
    feature_gates: dict[str, bool] = {}
    resources: _Resources = _Resources()


class KueueSettings:
    """What of Kueue's configuration decides about charges. Without one: its defaults, and no class is mapped."""

    def __init__(self, configuration: _Configuration | None = None) -> None:
        found = configuration or _Configuration()
        self.known = configuration is not None
        self.mappings = found.resources.device_class_mappings
        self.ignores_undeclared = found.resources.quota_check_strategy == "IgnoreUndeclared"
        self._gates = {**_DEFAULTS, **found.feature_gates}

    def on(self, gate: str) -> bool:
        """Whether a gate of Kueue is on."""
        return self._gates.get(gate, False)

    @property
    def gates(self) -> tuple[KueueGate, ...]:
        """The gates that decide about charges."""
        return tuple(KueueGate(name, stage, default, self.on(name)) for name, stage, default in _GATES)

    @cached_property
    def by_class(self) -> Mapping[str, ClassMapping]:
        """The mapping of each class that has one."""
        return {name: one for one in self.mappings for name in one.device_class_names}


def kueue_settings(snapshot: Snapshot) -> KueueSettings:
    """The settings from a Configuration, or from a ConfigMap that has one. Raises `InputError` for one that is malformed."""
    for document in snapshot.documents(CONFIGURATION):
        return KueueSettings(document_view(document, _Configuration))
    for document in snapshot.documents(CONFIG_MAP):
        for found in _configurations_in(document):
            return KueueSettings(found)
    return KueueSettings()


def kueue_documents(snapshot: Snapshot) -> tuple[Document, ...]:
    """The documents that have Kueue's configuration, or are it."""
    config_maps = (one for one in snapshot.documents(CONFIG_MAP) if any(_configurations_in(one)))
    return (*snapshot.documents(CONFIGURATION), *config_maps)


def _configurations_in(document: Document) -> Iterator[_Configuration]:
    for key, text in (document.object.get("data") or {}).items():
        if isinstance(text, str) and CONFIGURATION[0] in text:
            for value, _, _ in read_yaml(text.encode(), f"{document.where.file} ({document.title}, {key})"):
                if isinstance(value, dict) and str(value.get("apiVersion", "")).startswith(CONFIGURATION[0]):
                    yield view(value, _Configuration)


# -- queues


class ResourceAmount(View, frozen=True):
    name: str = ""
    nominal_quota: QuantityText = "0"
    borrowing_limit: QuantityText | None = None
    lending_limit: QuantityText | None = None


class FlavorQuotas(View, frozen=True):
    name: str = ""
    resources: tuple[ResourceAmount, ...] = ()


class ResourceGroup(View, frozen=True):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class _QueueSpec(View, frozen=True):
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    cohort: str = ""
    stop_policy: str = ""


class _UsedResource(View, frozen=True):
    name: str = ""
    total: QuantityText = "0"


class _UsedFlavor(View, frozen=True):
    name: str = ""
    resources: tuple[_UsedResource, ...] = ()


class _QueueStatus(View, frozen=True):
    flavors_usage: tuple[_UsedFlavor, ...] | None = None


class ClusterQueue(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _QueueSpec = _QueueSpec()
    status: _QueueStatus = _QueueStatus()

    @property
    def cohort(self) -> str:
        """The name of the cohort, "" for none; v1beta1 has it under another name."""
        return self.spec.cohort_name or self.spec.cohort

    @property
    def stopped(self) -> bool:
        return self.spec.stop_policy in ("Hold", "HoldAndDrain")


class _CohortSpec(View, frozen=True):
    parent_name: str = ""
    parent: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()


class Cohort(View, frozen=True):
    """Queues and cohorts that lend to each other; it may have quota of its own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _CohortSpec = _CohortSpec()

    @property
    def parent(self) -> str:
        """The cohort above, "" for none; v1beta1 has it under another name."""
        return self.spec.parent_name or self.spec.parent


class _FlavorSpec(View, frozen=True):
    node_labels: dict[str, str] = {}
    topology_name: str | None = None


class ResourceFlavor(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _FlavorSpec = _FlavorSpec()


class _LocalQueueSpec(View, frozen=True):
    cluster_queue: str = ""


class LocalQueue(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _LocalQueueSpec = _LocalQueueSpec()


# -- workloads


class PodTemplate(View, frozen=True):
    spec: PodSpec = PodSpec()


class PodSet(View, frozen=True):
    name: str = "main"
    count: int = 1
    template: PodTemplate = PodTemplate()


class _WorkloadSpec(View, frozen=True):
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    active: bool | None = None


class PodSetAssignment(View, frozen=True):
    name: str = ""
    count: int | None = None
    flavors: dict[str, str] = {}
    resource_usage: dict[str, QuantityText] = {}


class Admission(View, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class _Reclaimable(View, frozen=True):
    name: str = ""
    count: int = 0


class _Evictions(View, frozen=True):
    reason: str = ""
    underlying_cause: str = ""
    count: int = 0


class _Statistics(View, frozen=True):
    evictions: tuple[_Evictions, ...] = ()


class _WorkloadStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    reclaimable_pods: tuple[_Reclaimable, ...] = ()
    scheduling_stats: _Statistics | None = None


class Workload(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()

    def is_true(self, condition: str) -> bool:
        """Whether a condition is there and true."""
        return any(one.type == condition and one.status == "True" for one in self.status.conditions)

    @property
    def message(self) -> str:
        """Why it has no quota, in Kueue's words; "" where it has, or where nothing was said."""
        return next(
            (one.message for one in self.status.conditions if one.type == "QuotaReserved" and one.status != "True"), ""
        )

    @property
    def charged(self) -> Admission | None:
        """The admission that counts against a queue now."""
        return None if self.is_true("Finished") or not self.is_true("QuotaReserved") else self.status.admission

    @property
    def is_not_looked_at(self) -> bool:
        """Whether it was evicted and Kueue has not come to it again: it has no quota, and no word on why."""
        told = any(one.type == "QuotaReserved" for one in self.status.conditions)
        return self.is_true("Evicted") and not told

    @property
    def came_back_after_timeout(self) -> bool:
        """Whether it was evicted because its pods were not ready in time."""
        stats = self.status.scheduling_stats
        return stats is not None and any(one.reason == "PodsReadyTimeout" and one.count for one in stats.evictions)

    @property
    def title(self) -> str:
        """The object that it stands for, as `Job/team/name`, or itself."""
        for owner in self.metadata.owner_references:
            return f"{owner.kind}/{self.metadata.namespace}/{owner.name}"
        return f"Workload/{self.metadata.namespace}/{self.metadata.name}"


def amount(value: QuantityText, what: str) -> Quantity:
    """A quantity. Raises `InputError` that says where for what is none."""
    try:
        return Quantity.from_document(value)
    except QuantityError as error:
        raise InputError(f"{what}: {value!r} is not a quantity: {error}", fix="write one such as 4 or 80Gi") from None


def times(one: Quantity, count: int) -> Quantity:
    """A quantity `count` times, in its own notation."""
    return Quantity(one.unscaled * count, one.exponent, one.wide, one.format)


def cohort_views(snapshot: Snapshot) -> tuple[Cohort, ...]:
    """The cohorts that are objects; one that only queues name has no quota of its own and none above it."""
    return tuple(document_view(one, Cohort) for one in snapshot.documents((GROUP, "Cohort")))


def flavor_views(snapshot: Snapshot) -> dict[str, ResourceFlavor]:
    """The flavors by name."""
    found = (document_view(one, ResourceFlavor) for one in snapshot.documents((GROUP, "ResourceFlavor")))
    return {one.metadata.name: one for one in found}


def queue_views(snapshot: Snapshot) -> tuple[tuple[ClusterQueue, ...], tuple[LocalQueue, ...], tuple[Workload, ...]]:
    """The queues and workloads of a cluster."""
    return (
        tuple(document_view(one, ClusterQueue) for one in snapshot.documents((GROUP, "ClusterQueue"))),
        tuple(document_view(one, LocalQueue) for one in snapshot.documents((GROUP, "LocalQueue"))),
        tuple(document_view(one, Workload) for one in snapshot.documents((GROUP, "Workload"))),
    )
