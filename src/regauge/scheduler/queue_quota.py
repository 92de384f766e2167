"""Whether a charge fits into the quota of a ClusterQueue, and what Kueue says when it does not.

Borrowing counts; preemption does not. Pure. Source: recorded with Kueue 0.19.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regauge.model import Quantity
from regauge.scheduler.queue_charging import Charges
from regauge.scheduler.queue_cohorts import ZERO, CohortTree, Place, Room
from regauge.scheduler.queue_objects import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    ResourceAmount,
    ResourceGroup,
    Workload,
    amount,
)
from regauge.scheduler.queue_shapes import Refused, refused


def charges_of(workloads: Iterable[Workload]) -> dict[Place, Quantity]:
    """What is charged by (queue, flavor, resource): without the pods that have ended already."""
    found: dict[Place, Quantity] = {}
    for one in workloads:
        for name, (flavor, value) in charge_of(one).items():
            place = (one.charged.cluster_queue if one.charged else "", flavor, name)
            found[place] = found[place].add(value) if place in found else value
    return found


def charge_of(workload: Workload) -> dict[str, tuple[str, Quantity]]:
    """What one workload is charged now: the flavor and the amount of each resource."""
    found: dict[str, tuple[str, Quantity]] = {}
    if workload.charged is None:
        return found
    for item in workload.charged.pod_set_assignments:
        back = sum(one.count for one in workload.status.reclaimable_pods if one.name == item.name)
        count = item.count or 1
        for name, text in item.resource_usage.items():
            whole = amount(text, f"resourceUsage of {workload.title}")
            left = Quantity(whole.unscaled * max(count - back, 0) // count, whole.exponent, whole.wide, whole.format)
            flavor, before = found.get(name, (item.flavors.get(name, ""), ZERO))
            found[name] = (flavor, before.add(left))
    return found


class Quotas:
    """The quotas of all queues, and what is charged against them by (queue, flavor, resource)."""

    def __init__(
        self, queues: Iterable[ClusterQueue], charged: Mapping[Place, Quantity], cohorts: Iterable[Cohort] = ()
    ) -> None:
        self.queues = {one.metadata.name: one for one in queues}
        self.charged = charged
        self._amounts: dict[Place, ResourceAmount] = {
            (name, flavor.name, one.name): one
            for name, queue in self.queues.items()
            for group in queue.spec.resource_groups
            for flavor in group.flavors
            for one in flavor.resources
        }
        self._tree = CohortTree(self.queues, cohorts, self._amounts, charged)

    def room(self, place: Place) -> Room:
        """The room for one resource, with what may be borrowed."""
        return self._tree.room(place)

    def covered(self, queue: str) -> tuple[str, ...]:
        """The resources that a queue has quota for."""
        return tuple(name for group in self.queues[queue].spec.resource_groups for name in group.covered_resources)

    def first_flavor(self, queue: str, resource: str) -> str:
        """The flavor that is tried first for a resource, "" where the queue does not have it."""
        found = self.queues.get(queue)
        groups = found.spec.resource_groups if found is not None else ()
        names = (one.name for group in groups if resource in group.covered_resources for one in group.flavors)
        return next(names, "")

    def nominal(self, resource: str) -> Quantity:
        """The quotas of all queues and flavors together."""
        total = ZERO
        for place in self._amounts:
            if place[2] == resource:
                total = total.add(self._nominal(place))
        return total

    def _nominal(self, place: Place) -> Quantity:
        found = self._amounts.get(place)
        return ZERO if found is None else amount(found.nominal_quota, f"nominalQuota of {place[2]} in {place[0]}")

    def place(self, queue: str, charges: Charges, pod_set: str = "main") -> dict[str, str] | Refused:
        """The flavor of each resource of a pod set, or why it waits."""
        found = self.queues[queue]
        if found.stopped:
            return refused("queue-stopped", queue=queue)
        groups = {name: one for one in found.spec.resource_groups for name in one.covered_resources}
        for name in sorted(charges):
            if name not in groups:
                return refused("not-covered", resource=name, pod_set=pod_set)
        chosen: dict[str, str] = {}
        for group in dict.fromkeys(groups[name] for name in sorted(charges)):
            flavor = self._flavor(queue, group, charges)
            if isinstance(flavor, Refused):
                text = f"couldn't assign flavors to pod set {pod_set}: {flavor.text}"
                return Refused(flavor.shape, text, flavor.retried, flavor.means)
            chosen |= {name: flavor for name in charges if name in group.covered_resources}
        return chosen

    def _flavor(self, queue: str, group: ResourceGroup, charges: Charges) -> str | Refused:
        refusals: list[Refused] = []
        for flavor in group.flavors:
            why = self._shortfalls(queue, flavor, {n: v for n, v in charges.items() if n in group.covered_resources})
            if not why:
                return flavor.name
            refusals += why
        first = refusals[0]
        return Refused(first.shape, ", ".join(one.text for one in refusals), first.retried, first.means)

    def _shortfalls(self, queue: str, flavor: FlavorQuotas, charges: Charges) -> list[Refused]:
        found = []
        for name, asked in sorted(charges.items()):
            room = self.room((queue, flavor.name, name))
            places = {"resource": name, "flavor": flavor.name}
            if asked > room.most:
                found.append(refused("quota-too-small", before=ZERO, asked=asked, most=room.most, **places))
            elif asked > room.left:
                found.append(refused("quota-used", more=asked.sub(room.left), **places))
        return found
