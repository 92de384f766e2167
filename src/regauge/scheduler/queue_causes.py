"""What is behind a difference between what queues are charged and what pods hold. Pure; the causes are data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files

import msgspec

from regauge.model import Quantity, Snapshot
from regauge.model.kinds import RESOURCE_QUOTA
from regauge.scheduler.nodes import Key
from regauge.scheduler.queue_charging import Charges, Charging, put
from regauge.scheduler.queue_cohorts import ZERO
from regauge.scheduler.queue_flavors import classes_of
from regauge.scheduler.queue_holdings import Held, PodHolds, by_name, name_of
from regauge.scheduler.queue_namespaces import CLASS_QUOTA
from regauge.scheduler.queue_objects import INTEGRATION, Workload, times
from regauge.scheduler.queue_quota import Quotas, charge_of
from regauge.scheduler.resources import quantity_nano

NO_DEVICES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
MOST_NAMED = 5


class _Cause(msgspec.Struct, frozen=True):
    code: str
    notice: bool
    why: str
    fix: str


class _Table(msgspec.Struct):
    causes: tuple[_Cause, ...]


@cache
def _causes() -> dict[str, _Cause]:
    data = files("regauge.scheduler").joinpath("data/queue_causes.json").read_bytes()
    return {one.code: one for one in msgspec.json.decode(data, type=_Table).causes}


@dataclass(frozen=True, slots=True)
class QueueDifference:
    """One cause with its evidence. `notice`: the books agree all the same, so far. `workload` is "" for a whole queue."""

    code: str
    queue: str
    resource: str
    workload: str
    text: str
    why: str
    fix: str
    notice: bool

    @staticmethod
    def of(code: str, queue: str, resource: str, workload: str, text: str) -> QueueDifference:
        """A difference with what is known of its cause."""
        found = _causes()[code]
        return QueueDifference(code, queue, resource, workload, text, found.why, found.fix, found.notice)


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that causes are looked for in. `own`: pods by workload; `queue_of`: the queue of each LocalQueue."""

    snapshot: Snapshot
    charging: Charging
    quotas: Quotas
    workloads: tuple[Workload, ...]
    own: Mapping[str, list[PodHolds]]
    pods: Mapping[Key, PodHolds]
    queue_of: Mapping[tuple[str, str], str]


def differences(found: Found) -> Iterator[QueueDifference]:
    """All causes: those of single workloads, then those of pods without any, then those of whole queues."""
    for one in found.workloads:
        if one.charged is not None:
            yield from _of_workload(found, one)
    yield from _without_workload(found)
    yield from _several_classes(found)
    yield from _two_names(found)
    yield from _of_quotas(found)
    yield from _resource_quotas(found)


# -- one workload


def _of_workload(found: Found, one: Workload) -> Iterator[QueueDifference]:
    assert one.charged is not None
    queue = one.charged.cluster_queue
    charge: Charges = {name: value for name, (_, value) in charge_of(one).items()}
    holds = found.own.get(one.title, [])
    held = by_name(holds, charge, found.charging)
    back = {item.name: item.count for item in one.status.reclaimable_pods}
    wanted = sum((item.count or 0) - back.get(item.name, 0) for item in one.charged.pod_set_assignments)
    placed = sum(bool(item.pod.spec.node_name) for item in holds)
    for item in holds:
        for device in item.devices:
            if device.shared_by > 1:
                text = f"claim {device.claim.metadata.name} is used by {device.shared_by} pods"
                yield QueueDifference.of(
                    "shared-claim", queue, name_of(device, set(charge), found.charging), one.title, text
                )
    for name in sorted({*charge, *held}):
        if name in NO_DEVICES and name not in charge:
            continue
        asked, has = charge.get(name, ZERO), held.get(name, ZERO)
        if asked == has:
            continue
        if name not in charge:
            yield _uncharged(found, one, queue, name, has)
            continue
        if placed < wanted:
            yield QueueDifference.of(
                "not-placed",
                queue,
                name,
                one.title,
                f"{placed} of {wanted} pods are placed: {asked} charged, {has} held",
            )
        if not _same(has, asked, Fraction(placed, wanted or 1)):
            code = _why_other(found, name, holds, placed, wanted, asked)
            yield QueueDifference.of(
                code, queue, name, one.title, f"{asked} charged for {wanted} pods, {placed} of them hold {has}"
            )


def _same(has: Quantity, asked: Quantity, share: Fraction) -> bool:
    return quantity_nano(str(has)) == quantity_nano(str(asked)) * share


def _uncharged(found: Found, one: Workload, queue: str, name: str, has: Quantity) -> QueueDifference:
    text = f"{has} held, nothing charged"
    if one.came_back_after_timeout:
        return QueueDifference.of("readmitted-without-charge", queue, name, one.title, text)
    if not found.charging.settings.on(INTEGRATION):
        return QueueDifference.of("integration-off", queue, name, one.title, text)
    if found.charging.settings.ignores_undeclared and name not in found.quotas.covered(queue):
        return QueueDifference.of("not-declared", queue, name, one.title, text)
    return QueueDifference.of("unexplained", queue, name, one.title, text)


def _why_other(found: Found, name: str, holds: list[PodHolds], placed: int, wanted: int, asked: Quantity) -> str:
    """Why pods that are placed hold another amount than they are charged."""
    by_claims: Charges = {}
    special = False
    for item in holds:
        for claim in {held.claim.metadata.name: held.claim for held in item.devices if not held.resource}.values():
            for key, value in found.charging.of_claim(claim.spec).items():
                put(by_claims, key, value)
        special = special or any(
            held.resource and name_of(held, {name}, found.charging) == name for held in item.devices
        )
    if name in by_claims and not _same(by_claims[name], asked, Fraction(placed, wanted or 1)):
        return "template-changed"
    if name in by_claims and any(
        source.counter for one in found.charging.settings.mappings if one.name == name for source in one.sources
    ):
        return "largest-counter"
    if special and any(item.pod.spec.init_containers for item in holds):
        return "init-containers"
    return "unexplained"


def _without_workload(found: Found) -> Iterator[QueueDifference]:
    """Pods in namespaces with queues that hold devices for which nobody is charged."""
    mine = {id(item) for items in found.own.values() for item in items}
    queues: dict[str, set[str]] = {}
    for (namespace, _), queue in found.queue_of.items():
        queues.setdefault(namespace, set()).add(queue)
    for (namespace, name), item in found.pods.items():
        if id(item) in mine or namespace not in queues:
            continue
        for held in item.devices:
            resource = name_of(held, set(), found.charging)
            queue = ", ".join(sorted(queues[namespace]))
            yield QueueDifference.of(
                "held-without-workload", queue, resource, "", f"pod {namespace}/{name} holds {held.amount}"
            )


# -- whole queues


def _several_classes(found: Found) -> Iterator[QueueDifference]:
    """Extended resource names that several classes have, where a queue is charged for one of them."""
    told: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for one in found.workloads:
        if one.charged is None:
            continue
        charge = set(charge_of(one))
        for item in found.own.get(one.title, ()):
            for held in item.devices:
                if held.resource and len(found.charging.published.offering(held.resource)) > 1:
                    name = name_of(held, charge, found.charging)
                    told.setdefault((one.charged.cluster_queue, held.resource), set()).add((name, held.class_name))
    for (queue, resource), pairs in sorted(told.items()):
        names = found.charging.names_for(resource)
        wrong = [one for one in sorted(pairs) if not _is_of(found, one)]
        if wrong or len(names) > 1:
            classes = [one.metadata.name for one in found.charging.published.offering(resource)]
            seen = ", ".join(f"{class_} charged as {name}" for name, class_ in sorted(pairs))
            text = f"classes {', '.join(classes)} have {resource}; {seen}"
            if len(names) > 1:
                text += f"; as likely are {', '.join(names)}"
            yield QueueDifference.of("several-classes", queue, resource, "", text)


def _is_of(found: Found, pair: tuple[str, str]) -> bool:
    mapping = found.charging.settings.by_class.get(pair[1])
    return mapping is not None and mapping.name == pair[0]


def _two_names(found: Found) -> Iterator[QueueDifference]:
    """Names in the quota of one queue that the same devices stand for."""
    for queue in found.quotas.queues:
        names = sorted(set(found.quotas.covered(queue)) - NO_DEVICES)
        devices = {name: _devices_of(found, name) for name in names}
        charged = {place[2] for place, value in found.quotas.charged.items() if place[0] == queue and value.sign}
        for index, one in enumerate(names):
            for other in names[index + 1 :]:
                both = len(devices[one] & devices[other])
                if both:
                    code = "two-books" if {one, other} <= charged else "two-names"
                    yield QueueDifference.of(code, queue, f"{one}, {other}", "", f"{both} devices stand for both")


def _devices_of(found: Found, name: str) -> set[int]:
    there = [found.charging.published.of_class(one) for one in classes_of(name, found.charging)]
    return {id(device) for one in there if not isinstance(one, str) for device in one}


def _of_quotas(found: Found) -> Iterator[QueueDifference]:
    settings = found.charging.settings
    counted = {name for node in found.snapshot.nodes for name in node.status.allocatable}
    above: set[str] = set()
    for queue in found.quotas.queues:
        for name in dict.fromkeys(found.quotas.covered(queue)):
            yield from _over_quota(found, queue, name)
            classes = classes_of(name, found.charging)
            if name in NO_DEVICES:
                continue
            mapped = [one for one in classes if one in settings.by_class and settings.by_class[one].name != name]
            if mapped:
                text = f"{', '.join(mapped)} is charged as {settings.by_class[mapped[0]].name}"
                yield QueueDifference.of("old-name", queue, name, "", text)
            if not classes and name not in counted and "/" in name and counted:
                yield QueueDifference.of("name-unused", queue, name, "", "nothing has this name")
            measured = any(one.sources for one in settings.mappings if one.name == name)
            if classes and not measured and name not in counted and name not in above:
                above.add(name)
                devices, quota = len(_devices_of(found, name)), found.quotas.nominal(name)
                if quota > Quantity.of(devices):
                    yield QueueDifference.of(
                        "quota-above-devices", queue, name, "", f"{quota} in quotas, {devices} devices"
                    )


def _over_quota(found: Found, queue: str, name: str) -> Iterator[QueueDifference]:
    for place, value in found.quotas.charged.items():
        if place[0] == queue and place[2] == name:
            most = found.quotas.room(place).most
            if value > most:
                yield QueueDifference.of("over-quota", queue, name, "", f"{value} charged, {most} is the most there is")


def _resource_quotas(found: Found) -> Iterator[QueueDifference]:
    """Lines for devices of a class that workloads with quota do not fit into."""
    needs: dict[tuple[str, str], Quantity] = {}
    asking: dict[tuple[str, str], Workload] = {}
    for one in found.workloads:
        for class_name, value in _classes_asked(found, one).items() if one.charged is not None else ():
            key = (one.metadata.namespace, class_name)
            needs[key] = needs[key].add(value) if key in needs else value
            asking[key] = one
    for document in found.snapshot.documents(RESOURCE_QUOTA):
        for key, value in sorted(((document.object.get("spec") or {}).get("hard") or {}).items()):
            place = (document.namespace, key.removesuffix(CLASS_QUOTA))
            if key.endswith(CLASS_QUOTA) and place in needs and needs[place] > Quantity.from_document(value):
                workload = asking[place]
                queue = workload.charged.cluster_queue if workload.charged else ""
                name = f"{document.namespace}/{document.name}"
                text = f"ResourceQuota {name} allows {value} of {place[1]}, admitted are {needs[place]}"
                yield QueueDifference.of("resource-quota", queue, key, workload.title, text)


def _classes_asked(found: Found, one: Workload) -> Charges:
    """How many devices of which class the templates of a workload ask for."""
    total: Charges = {}
    for pod_set in one.spec.pod_sets:
        for entry in pod_set.template.spec.resource_claims:
            key = (one.metadata.namespace, entry.resource_claim_template_name or "")
            spec = found.charging.published.templates.get(key)
            for request in spec.devices.requests if spec else ():
                if request.exactly is not None:
                    count = Quantity.of(request.exactly.count or 1)
                    put(total, request.exactly.device_class_name, times(count, pod_set.count))
    return total


__all__ = ["Found", "Held", "QueueDifference", "differences"]
