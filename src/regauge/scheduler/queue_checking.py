"""Each queue, flavor and resource: quota, what is charged, what pods really hold, what is behind a difference. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from regauge.allocator import DeviceId
from regauge.base import InputError, Randomness
from regauge.model import Quantity, Rules, Snapshot
from regauge.model.kinds import LIMIT_RANGE
from regauge.scheduler.queue_causes import Found, QueueDifference, differences
from regauge.scheduler.queue_charging import Charges, Charging, LimitDefaults, PodCharge, Published, put
from regauge.scheduler.queue_cohorts import ZERO, Place
from regauge.scheduler.queue_coming import with_coming
from regauge.scheduler.queue_flavors import FlavorClass, FlavorDevices
from regauge.scheduler.queue_holdings import Owners, PodHolds, by_name, pods_hold
from regauge.scheduler.queue_namespaces import NamespaceQuotas, QuotaKey
from regauge.scheduler.queue_objects import (
    GROUP,
    KueueGate,
    Workload,
    amount,
    cohort_views,
    flavor_views,
    kueue_settings,
    queue_views,
    times,
)
from regauge.scheduler.queue_quota import Quotas, charge_of, charges_of
from regauge.scheduler.queue_shapes import Refused
from regauge.scheduler.queue_steps import ADMITTED, REFUSED, WOULD, Admittance, WorkloadSteps, two_steps
from regauge.scheduler.templates import part

NOT_LOOKED_AT = "may be admitted: it was evicted, and Kueue has not looked at it again"


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One resource of one flavor of one queue. `reported` is the usage in the queue's status, None where it has none.

    `classes`: those that the name stands for, with their devices on the nodes of the flavor, used and free.
    """

    queue: str
    flavor: str
    resource: str
    quota: Quantity
    charged: Quantity
    reported: Quantity | None
    held: Quantity
    classes: tuple[FlavorClass, ...] = ()

    @property
    def agrees(self) -> bool:
        return self.charged == self.held and self.reported in (None, self.charged)


@dataclass(frozen=True, slots=True)
class ClassUse:
    """Devices of one class: all that are published, those in use, and the name that Kueue charges them by."""

    name: str
    charged_as: str
    devices: int
    used: int
    error: str = ""

    @property
    def free(self) -> int:
        return self.devices - self.used


@dataclass(frozen=True, slots=True)
class WaitingWorkload:
    """A workload without quota: what Kueue said last, and what is foretold for it now.

    `shape` is "" where nothing stands against it.
    """

    workload: str
    queue: str
    charge: Charges
    shape: str
    foretold: str
    said: str
    means: str
    flavors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """The books of all queues. `configured`: whether Kueue's configuration was in the input.

    `steps`: of workloads that have not ended, whether quota passes and whether devices do. `gates`: of Kueue, as they are.
    """

    rows: tuple[QueueRow, ...]
    differences: tuple[QueueDifference, ...]
    classes: tuple[ClassUse, ...]
    waiting: tuple[WaitingWorkload, ...]
    quota_keys: tuple[QuotaKey, ...]
    configured: bool
    steps: tuple[WorkloadSteps, ...] = ()
    gates: tuple[KueueGate, ...] = ()

    @property
    def good(self) -> bool:
        """Whether nothing differs; notices are no differences."""
        return all(one.agrees for one in self.rows) and all(one.notice for one in self.differences)


def check_queues(snapshot: Snapshot, rules: Rules, random: Randomness | None = None) -> QueueCheck:
    """Compare what queues are charged with what their pods hold; with `random`, and nodes, both steps of each workload.

    Raises `InputError` for an object that cannot be read, and where classes are used and Kueue's configuration is missing.
    """
    snapshot = with_coming(snapshot)
    charging = Charging(Published(snapshot, rules), kueue_settings(snapshot), _limit_ranges(snapshot))
    queues, locals_, workloads = queue_views(snapshot)
    _check_configured(charging, workloads)
    pods = pods_hold(snapshot, charging)
    own = Owners(snapshot).pods_of(workloads, pods)
    quotas = Quotas(queues, charges_of(workloads), cohort_views(snapshot))
    used = {one for pod in pods.values() for held in pod.devices for one in held.devices}
    flavors = FlavorDevices(snapshot, charging, flavor_views(snapshot), used)
    rows = tuple(_rows(quotas, workloads, own, charging, flavors))
    namespaces = NamespaceQuotas(snapshot, charging, rules)
    keys = tuple(namespaces.keys())
    queue_of = {(one.metadata.namespace, one.metadata.name): one.spec.cluster_queue for one in locals_}
    found = Found(snapshot, charging, quotas, workloads, own, pods, queue_of)
    named = [*differences(found), *_status_differences(rows)]
    named += [QueueDifference.of(one.code, one.place, one.key, "", one.text) for one in namespaces.notes(keys)]
    waiting = tuple(_waiting(workloads, queue_of, quotas, charging))
    steps: tuple[WorkloadSteps, ...] = ()
    if random is not None and workloads and snapshot.nodes:
        steps = _steps(found, rules, random, waiting)
    return QueueCheck(
        rows,
        tuple(named),
        tuple(_class_use(charging, used)),
        waiting,
        keys,
        charging.settings.known,
        steps,
        charging.settings.gates,
    )


def _status_differences(rows: Iterable[QueueRow]) -> Iterable[QueueDifference]:
    for row in rows:
        if row.reported is not None and row.reported != row.charged:
            text = f"{row.reported} in the status, {row.charged} by Workloads"
            yield QueueDifference.of("status-differs", row.queue, row.resource, "", text)


def _limit_ranges(snapshot: Snapshot) -> Mapping[str, LimitDefaults]:
    """What LimitRanges fill in for containers, by namespace."""
    found: dict[str, LimitDefaults] = {}
    for document in snapshot.documents(LIMIT_RANGE):
        for one in part(document.object, "spec").get("limits") or ():
            if one.get("type") == "Container":
                before = found.get(document.namespace, LimitDefaults())
                found[document.namespace] = LimitDefaults(
                    {**part(one, "defaultRequest"), **before.requests}, {**part(one, "default"), **before.limits}
                )
    return found


def _steps(
    found: Found, rules: Rules, random: Randomness, waiting: Sequence[WaitingWorkload]
) -> tuple[WorkloadSteps, ...]:
    """Both steps of every workload that has not ended."""
    foretold = {one.workload: one for one in waiting}
    first: dict[str, Admittance] = {}
    asked = []
    for document, one in zip(found.snapshot.documents((GROUP, "Workload")), found.workloads, strict=True):
        own = tuple((item.pod.metadata.namespace, item.pod.metadata.name) for item in found.own.get(one.title, ()))
        if one.charged is not None:
            given = {name: flavor for item in one.charged.pod_set_assignments for name, flavor in item.flavors.items()}
            first[one.title] = Admittance(ADMITTED, "", given, own)
            asked.append((document, one, one.charged.cluster_queue))
        elif one.title in foretold:
            told = foretold[one.title]
            word = REFUSED if told.shape else WOULD
            names = tuple(
                (one.metadata.namespace, ref.name) for ref in one.metadata.owner_references if ref.kind == "Pod"
            )
            first[one.title] = Admittance(word, told.foretold if told.shape else "", told.flavors, names)
            asked.append((document, one, told.queue))
    return two_steps(found.snapshot, rules, random, asked, first)


def _check_configured(charging: Charging, workloads: Iterable[Workload]) -> None:
    """Without the mappings it is not known which name stands for which devices."""
    if charging.settings.known:
        return
    for one in workloads:
        if any(pod_set.template.spec.resource_claims for pod_set in one.spec.pod_sets):
            raise InputError(
                f"{one.title} has claims, and Kueue's configuration is not there: which class it charges under which name "
                "is not known",
                fix="give it with --kueue-config FILE, as a Configuration or as the ConfigMap that has it",
            )


def _rows(
    quotas: Quotas,
    workloads: Iterable[Workload],
    own: dict[str, list[PodHolds]],
    charging: Charging,
    flavors: FlavorDevices,
) -> Iterable[QueueRow]:
    charged = quotas.charged
    held = _held_by_place(quotas, workloads, own, charging)
    for name, queue in quotas.queues.items():
        reported = {
            (flavor.name, one.name): amount(one.total, f"usage of {name}")
            for flavor in queue.status.flavors_usage or ()
            for one in flavor.resources
        }
        known = queue.status.flavors_usage is not None
        for group in queue.spec.resource_groups:
            for flavor in group.flavors:
                for one in flavor.resources:
                    place = (name, flavor.name, one.name)
                    quota = amount(one.nominal_quota, f"nominalQuota of {one.name} in {name}")
                    said = reported.get((flavor.name, one.name), ZERO) if known else None
                    there = flavors.of(flavor.name, one.name)
                    yield QueueRow(*place, quota, charged.get(place, ZERO), said, held.pop(place, ZERO), there)
    for place, value in sorted(held.items()):
        if place[2] not in ("cpu", "memory", "ephemeral-storage", "pods"):
            yield QueueRow(*place, ZERO, charged.get(place, ZERO), None, value)


def _held_by_place(
    quotas: Quotas, workloads: Iterable[Workload], own: dict[str, list[PodHolds]], charging: Charging
) -> dict[Place, Quantity]:
    """What pods hold, in the flavor that is charged, or would be."""
    held: dict[Place, Quantity] = {}
    for one in workloads:
        if one.charged is not None:
            queue, charge = one.charged.cluster_queue, charge_of(one)
            for name, value in by_name(own.get(one.title, ()), charge, charging).items():
                place = (queue, charge[name][0] if name in charge else quotas.first_flavor(queue, name), name)
                held[place] = held[place].add(value) if place in held else value
    return held


def _class_use(charging: Charging, used: set[DeviceId]) -> Iterable[ClassUse]:
    in_use = {id(charging.published.by_id[one]) for one in used if one in charging.published.by_id}
    for name, class_ in sorted(charging.published.classes.items()):
        devices = charging.published.of_class(name)
        mapping = charging.settings.by_class.get(name)
        as_ = mapping.name if mapping else class_.spec.extended_resource_name or ""
        if isinstance(devices, str):
            yield ClassUse(name, as_, 0, 0, devices)
        else:
            yield ClassUse(name, as_, len(devices), sum(id(one) in in_use for one in devices))


def _waiting(
    workloads: Iterable[Workload], queue_of: dict[tuple[str, str], str], quotas: Quotas, charging: Charging
) -> Iterable[WaitingWorkload]:
    for one in workloads:
        if one.charged is not None or one.is_true("Finished") or one.spec.active is False:
            continue
        queue = queue_of.get((one.metadata.namespace, one.spec.queue_name), "")
        charge, verdict = foretell(one, queue, quotas, charging)
        if isinstance(verdict, Refused):
            yield WaitingWorkload(one.title, queue, charge, verdict.shape, verdict.text, one.message, verdict.means)
            continue
        text = NOT_LOOKED_AT if one.is_not_looked_at else "may be admitted"
        yield WaitingWorkload(one.title, queue, charge, "", text, one.message, "", verdict)


def foretell(
    one: Workload, queue: str, quotas: Quotas, charging: Charging
) -> tuple[Charges, Mapping[str, str] | Refused]:
    """What a workload would be charged in a queue, and the flavors that it would get, or what stands against it."""
    total: Charges = {}
    for index, pod_set in enumerate(one.spec.pod_sets):
        charge = charging.pod(pod_set.template.spec, one.metadata.namespace, pod_set.name, index)
        if not isinstance(charge, PodCharge):
            return {}, charge
        for name, value in charge.total.items():
            put(total, name, times(value, pod_set.count))
    if charging.settings.ignores_undeclared and queue in quotas.queues:
        covered = quotas.covered(queue)
        total = {name: value for name, value in total.items() if name in covered}
    if queue not in quotas.queues:
        told = "no queue" if not queue else f"queue {queue}, which is not there"
        return total, Refused("no-queue", f"it is for {told}", True, "make the LocalQueue and the ClusterQueue")
    return total, quotas.place(queue, total, one.spec.pod_sets[0].name if one.spec.pod_sets else "main")


__all__ = ["ClassUse", "QueueCheck", "QueueRow", "WaitingWorkload", "check_queues"]
