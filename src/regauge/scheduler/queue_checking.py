"""Each queue, flavor and resource: quota, what is charged, what pods really hold, what is behind a difference. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regauge.base import InputError
from regauge.model import Quantity, Rules, Snapshot
from regauge.model.kinds import RESOURCE_QUOTA
from regauge.model.resource import DEVICE_CLASS_PREFIX
from regauge.scheduler.queue_causes import Found, QueueDifference, differences
from regauge.scheduler.queue_charging import Charges, Charging, PodCharge, Published, put
from regauge.scheduler.queue_holdings import Owners, PodHolds, by_name, pods_hold
from regauge.scheduler.queue_objects import Workload, amount, kueue_settings, queue_views, times
from regauge.scheduler.queue_quota import ZERO, Place, Quotas, charge_of, charges_of
from regauge.scheduler.queue_shapes import Refused

CLASS_QUOTA = ".deviceclass.resource.k8s.io/devices"


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One resource of one flavor of one queue. `reported` is the usage in the queue's status, None where it has none."""

    queue: str
    flavor: str
    resource: str
    quota: Quantity
    charged: Quantity
    reported: Quantity | None
    held: Quantity

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


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """One line of a ResourceQuota that devices count for. `classes`: those whose devices it counts."""

    namespace: str
    quota: str
    key: str
    hard: str
    used: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """The books of all queues. `configured`: whether Kueue's configuration was in the input."""

    rows: tuple[QueueRow, ...]
    differences: tuple[QueueDifference, ...]
    classes: tuple[ClassUse, ...]
    waiting: tuple[WaitingWorkload, ...]
    quota_keys: tuple[QuotaKey, ...]
    configured: bool

    @property
    def good(self) -> bool:
        """Whether nothing differs; notices are no differences."""
        return all(one.agrees for one in self.rows) and all(one.notice for one in self.differences)


def check_queues(snapshot: Snapshot, rules: Rules) -> QueueCheck:
    """Compare what queues are charged with what their pods hold.

    Raises `InputError` for an object that cannot be read, and where classes are used and Kueue's configuration is missing.
    """
    charging = Charging(Published(snapshot, rules), kueue_settings(snapshot))
    queues, locals_, workloads = queue_views(snapshot)
    _check_configured(charging, workloads)
    pods = pods_hold(snapshot, charging)
    own = Owners(snapshot).pods_of(workloads, pods)
    charged = charges_of(workloads)
    quotas = Quotas(queues, charged)
    rows = tuple(_rows(quotas, workloads, own, charging))
    keys = tuple(_quota_keys(snapshot, charging))
    queue_of = {(one.metadata.namespace, one.metadata.name): one.spec.cluster_queue for one in locals_}
    found = Found(snapshot, charging, quotas, workloads, own, pods, queue_of)
    named = list(differences(found))
    for row in rows:
        if row.reported is not None and row.reported != row.charged:
            named.append(
                QueueDifference.of(
                    "status-differs",
                    row.queue,
                    row.resource,
                    "",
                    f"{row.reported} in the status, {row.charged} by Workloads",
                )
            )
    return QueueCheck(
        rows,
        tuple(named),
        tuple(_class_use(charging, pods.values())),
        tuple(_waiting(workloads, queue_of, quotas, charging)),
        keys,
        charging.settings.known,
    )


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
    quotas: Quotas, workloads: Iterable[Workload], own: dict[str, list[PodHolds]], charging: Charging
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
                    yield QueueRow(*place, quota, charged.get(place, ZERO), said, held.pop(place, ZERO))
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


def _class_use(charging: Charging, pods: Iterable[PodHolds]) -> Iterable[ClassUse]:
    used = {one for pod in pods for held in pod.devices for one in held.devices}
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
        shape, text, means = (verdict.shape, verdict.text, verdict.means) if verdict else ("", "may be admitted", "")
        yield WaitingWorkload(one.title, queue, charge, shape, text, one.message, means)


def foretell(one: Workload, queue: str, quotas: Quotas, charging: Charging) -> tuple[Charges, Refused | None]:
    """What a workload would be charged in a queue, and what stands against it."""
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
    verdict = quotas.place(queue, total, one.spec.pod_sets[0].name if one.spec.pod_sets else "main")
    return total, verdict if isinstance(verdict, Refused) else None


def _quota_keys(snapshot: Snapshot, charging: Charging) -> Iterable[QuotaKey]:
    """The lines of ResourceQuotas that devices count for, by the three ways of naming them."""
    for document in snapshot.documents(RESOURCE_QUOTA):
        hard = (document.object.get("spec") or {}).get("hard") or {}
        used = ((document.object.get("status") or {}).get("used")) or {}
        for key, value in sorted(hard.items()):
            classes = classes_of_key(key, charging)
            if classes or key.endswith(CLASS_QUOTA):
                yield QuotaKey(document.namespace, document.name, key, str(value), str(used.get(key, "")), classes)


def classes_of_key(key: str, charging: Charging) -> tuple[str, ...]:
    """The classes whose devices a line of a ResourceQuota counts."""
    known = charging.published.classes
    if key.endswith(CLASS_QUOTA):
        name = key.removesuffix(CLASS_QUOTA)
        return (name,) if name in known else ()
    resource = key.removeprefix("requests.")
    if resource.startswith(DEVICE_CLASS_PREFIX):
        name = resource.removeprefix(DEVICE_CLASS_PREFIX)
        return (name,) if name in known else ()
    return tuple(one.metadata.name for one in charging.published.offering(resource))


__all__ = ["ClassUse", "QueueCheck", "QueueRow", "QuotaKey", "WaitingWorkload", "check_queues"]
