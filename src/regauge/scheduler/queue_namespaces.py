"""Lines of ResourceQuotas that devices count for: what counts, what is really held, and where the two part. Pure.

A line may name devices in three ways: CLASS.deviceclass.resource.k8s.io/devices, requests.deviceclass.resource.kubernetes.io/
CLASS, and requests.NAME of an extended resource. Claims count by what they ask for, the worst alternative, from the moment
they are made; pods count by what their containers ask for. Source: kube-apiserver's quota evaluators of 1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from regauge.model import Document, Quantity, Rules, Snapshot
from regauge.model.core import Pod
from regauge.model.kinds import LIMIT_RANGE, RESOURCE_QUOTA
from regauge.model.resource import (
    DEVICE_CLASS_PREFIX,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    MAX_RESULTS_PER_CLAIM,
    ResourceClaim,
)
from regauge.scheduler.nodes import Key, is_terminal
from regauge.scheduler.queue_charging import Charging
from regauge.scheduler.queue_holdings import class_asked
from regauge.scheduler.queue_objects import amount
from regauge.scheduler.resources import pod_requests
from regauge.scheduler.templates import part

CLASS_QUOTA = ".deviceclass.resource.k8s.io/devices"
_REQUESTS = "requests."
_ZERO = Quantity.of(0)


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """One line of a ResourceQuota that devices count for. `classes`: those whose devices it counts.

    `hard` and `used` are as written, `used` "" where nothing is; `counted` is what counts for it by the objects that are
    there, `held` how many devices of these classes pods of the namespace hold, or ask their nodes for.
    """

    namespace: str
    quota: str
    key: str
    hard: str
    used: str
    classes: tuple[str, ...]
    counted: Quantity = _ZERO
    held: Quantity = _ZERO


@dataclass(frozen=True, slots=True)
class QuotaNote:
    """Something to know about a line: the code of its cause, and the evidence."""

    code: str
    place: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class _Namespace:
    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]


class NamespaceQuotas:
    """All such lines of a cluster."""

    def __init__(self, snapshot: Snapshot, charging: Charging, rules: Rules) -> None:
        self._charging = charging
        self._extended = rules.on("DRAExtendedResource")
        self._documents = snapshot.documents(RESOURCE_QUOTA)
        self._ranges = snapshot.documents(LIMIT_RANGE)
        spaces = {one.namespace for one in self._documents}
        self._spaces = {
            name: _Namespace(
                tuple(one for one in snapshot.pods if one.metadata.namespace == name and not is_terminal(one)),
                tuple(one for one in snapshot.claims if one.metadata.namespace == name),
            )
            for name in spaces
        }

    def keys(self) -> Iterator[QuotaKey]:
        """The lines."""
        for document in self._documents:
            hard = part(document.object, "spec", "hard")
            used = part(document.object, "status", "used")
            for key, value in sorted(hard.items()):
                classes = self.classes(key)
                if classes or key.endswith(CLASS_QUOTA):
                    space = self._spaces[document.namespace]
                    told = "" if key not in used else str(used[key])
                    yield QuotaKey(
                        document.namespace,
                        document.name,
                        key,
                        str(value),
                        told,
                        classes,
                        self._counted(key, space),
                        self._held(key, classes, space),
                    )

    def classes(self, key: str) -> tuple[str, ...]:
        """The classes whose devices a line counts."""
        known = self._charging.published.classes
        if key.endswith(CLASS_QUOTA):
            name = key.removesuffix(CLASS_QUOTA)
            return (name,) if name in known else ()
        if not key.startswith(_REQUESTS) or not self._extended:
            return ()
        resource = key.removeprefix(_REQUESTS)
        if resource.startswith(DEVICE_CLASS_PREFIX):
            name = resource.removeprefix(DEVICE_CLASS_PREFIX)
            return (name,) if name in known else ()
        return tuple(one.metadata.name for one in self._charging.published.offering(resource))

    def _counted(self, key: str, space: _Namespace) -> Quantity:
        """What counts for a line: claims by what they ask for, and pods, each device once."""
        if key.endswith(CLASS_QUOTA):
            name = key.removesuffix(CLASS_QUOTA)
            return Quantity.of(sum(_asked(one).get(name, 0) for one in space.claims))
        resource = key.removeprefix(_REQUESTS)
        classes = set(self.classes(key))
        by_uid = {one.metadata.uid: pod_requests(one.spec).get(resource, 0) for one in space.pods}
        total = sum(by_uid.values())
        for claim in space.claims:
            asked = sum(count for name, count in _asked(claim).items() if name in classes)
            special = EXTENDED_RESOURCE_CLAIM_ANNOTATION in (claim.metadata.annotations or {})
            owner = next((one.uid for one in claim.metadata.owner_references if one.controller), "")
            total += max(asked - (by_uid.get(owner, 0) if special else 0), 0)
        return Quantity.of(total)

    def _held(self, key: str, classes: tuple[str, ...], space: _Namespace) -> Quantity:
        """Devices of the classes that claims hold, and what placed pods take of their nodes without a claim."""
        devices = {
            (one.driver, one.pool, one.device)
            for claim in space.claims
            if claim.status.allocation is not None
            for one in claim.status.allocation.devices.results
            if not one.admin_access and class_asked(claim, one.request) in classes
        }
        found = len(devices)
        if not key.endswith(CLASS_QUOTA):
            resource = key.removeprefix(_REQUESTS)
            for pod in space.pods:
                special = pod.status.extended_resource_claim_status
                by_claim = special is not None and any(
                    one.resource_name == resource for one in special.request_mappings
                )
                if pod.spec.node_name and not by_claim:
                    found += pod_requests(pod.spec).get(resource, 0)
        return Quantity.of(found)

    # -- what is worth knowing

    def notes(self, keys: Iterable[QuotaKey]) -> Iterator[QuotaNote]:
        """Lines that count the same devices twice, by the worst case, late, or not at all."""
        by_quota: dict[Key, list[QuotaKey]] = {}
        for one in keys:
            place = f"{one.namespace}/{one.quota}"
            by_quota.setdefault((one.namespace, one.quota), []).append(one)
            if one.key.endswith(CLASS_QUOTA) and not one.classes:
                yield QuotaNote("name-unused", place, one.key, "there is no such class")
            elif one.used and amount(one.used, f"status of ResourceQuota {place}") != one.counted:
                yield QuotaNote(
                    "quota-lags", place, one.key, f"{one.used} in the status, {one.counted} by pods and claims"
                )
            if one.classes and one.counted > one.held:
                yield QuotaNote("quota-by-wish", place, one.key, f"{one.counted} count, {one.held} devices are held")
        for (namespace, name), lines in by_quota.items():
            yield from _twice(f"{namespace}/{name}", lines)
        yield from self._beside(keys_of=by_quota)
        yield from self._limit_ranges()

    def _beside(self, keys_of: Mapping[Key, list[QuotaKey]]) -> Iterator[QuotaNote]:
        """Old names in quotas for whose class claims do not count, since the bridge is off."""
        if self._extended:
            return
        for document in self._documents:
            place = f"{document.namespace}/{document.name}"
            for key in sorted(part(document.object, "spec", "hard")):
                classes = [one.metadata.name for one in self._charging.published.offering(key.removeprefix(_REQUESTS))]
                if key.startswith(_REQUESTS) and classes and (document.namespace, document.name) not in keys_of:
                    text = f"claims of class {', '.join(classes)} do not count for it with DRAExtendedResource off"
                    yield QuotaNote("old-name", place, key, text)

    def _limit_ranges(self) -> Iterator[QuotaNote]:
        for document in self._ranges:
            for key in sorted(_limited(document)):
                classes = [one.metadata.name for one in self._charging.published.offering(key)]
                if key.startswith(DEVICE_CLASS_PREFIX):
                    classes.append(key.removeprefix(DEVICE_CLASS_PREFIX))
                if classes:
                    text = f"claims of class {', '.join(classes)} are not limited by it"
                    yield QuotaNote("limit-range", f"{document.namespace}/{document.name}", key, text)


def _twice(place: str, lines: list[QuotaKey]) -> Iterator[QuotaNote]:
    for index, one in enumerate(lines):
        for other in lines[index + 1 :]:
            both = sorted({*one.classes} & {*other.classes})
            if both:
                text = f"both lines count devices of class {', '.join(both)}: the lower one decides"
                yield QuotaNote("quota-twice", place, f"{one.key}, {other.key}", text)


def _limited(document: Document) -> set[str]:
    """The resources that a LimitRange says something of."""
    limits = part(document.object, "spec").get("limits") or ()
    sides = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    return {name for one in limits for side in sides for name in part(one, side)}


def _asked(claim: ResourceClaim) -> dict[str, int]:
    """How many devices of each class a claim counts for, the worst alternative of each request."""
    counts: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            asked = request.exactly
            worst = {asked.device_class_name: _number(asked.allocation_mode, asked.count)}
        else:
            worst = {}
            for one in request.first_available:
                number = _number(one.allocation_mode, one.count)
                worst[one.device_class_name] = max(worst.get(one.device_class_name, 0), number)
        for name, number in worst.items():
            counts[name] = counts.get(name, 0) + number
    return counts


def _number(mode: str | None, count: int | None) -> int:
    return MAX_RESULTS_PER_CLAIM if mode == "All" else (1 if count is None else count)


__all__ = ["CLASS_QUOTA", "NamespaceQuotas", "QuotaKey", "QuotaNote"]
