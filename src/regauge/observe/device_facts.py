"""What is known of published devices beside who holds them: taints, shared capacity, counters, health. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regauge.inventory import newest_slices, tainted_slice
from regauge.model import Quantity, Rules, Snapshot
from regauge.model.core import Pod
from regauge.model.kinds import DEVICE_TAINT_RULE
from regauge.model.resource import Device, DeviceTaintRule, ResourceSlice
from regauge.observe.correlation import Holding

DraKey = tuple[str, ...]
"""Driver, pool, device."""
_HEALTHY = "Healthy"
_CLAIM = "claim:"
_GOOD_WHEN_FALSE = ("Degraded", "Failed", "Unhealthy")


@dataclass(frozen=True, slots=True)
class Amount:
    """What is used of a capacity of a device that several may share, as quantities."""

    name: str
    used: str
    total: str


@dataclass(frozen=True, slots=True)
class Published:
    """A device of a pool's newest generation, with the taints of rules, and the pool it is in."""

    driver: str
    pool: str
    device: Device


def published_devices(snapshot: Snapshot, rules: Rules | None) -> dict[DraKey, Published]:
    """All published devices. `rules`: whether DeviceTaintRules count; they do if None."""
    heeded = rules is None or (rules.on("DRADeviceTaintRules") and rules.on("DRADeviceTaints"))
    documents = sorted(snapshot.documents(DEVICE_TAINT_RULE), key=lambda one: one.name) if heeded else []
    adding = [snapshot.view(one, DeviceTaintRule) for one in documents]
    found: dict[DraKey, Published] = {}
    for slice_ in newest_slices(snapshot.slices):
        driver, pool = slice_.spec.driver, slice_.spec.pool.name
        for device in (tainted_slice(slice_, adding) if adding else slice_).spec.devices:
            found[(driver, pool, device.name)] = Published(driver, pool, device)
    return found


def shared_amounts(device: Device, holders: Iterable[Holding]) -> tuple[Amount, ...]:
    """What the shares of a device consume of its capacity: each share once, however many containers use it."""
    shares = {(one.claim_uid or one.claim, one.request, one.share_id): one for one in holders}
    return tuple(
        Amount(name, _sum(one.consumed.get(name, "0") for one in shares.values()), str(_quantity(capacity.value)))
        for name, capacity in sorted(device.capacity.items())
    )


class Room:
    """What is left of the counters that partitions of a device share, by driver, pool and set."""

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        published: Mapping[DraKey, Published],
        held: Mapping[DraKey, Iterable[Holding]],
    ) -> None:
        self._left = {
            (slice_.spec.driver, slice_.spec.pool.name, set_.name, name): _quantity(counter.value)
            for slice_ in newest_slices(slices)
            for set_ in slice_.spec.shared_counters
            for name, counter in set_.counters.items()
        }
        self._takers: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for key, holders in held.items() if self._left else ():
            found = published.get(key)
            if found is not None and not all(one.admin_access for one in holders):
                self._take(found)

    def _take(self, found: Published) -> None:
        for used in found.device.consumes_counters:
            self._takers[(found.driver, found.pool, used.counter_set)].append(found.device.name)
            for name, counter in used.counters.items():
                place = (found.driver, found.pool, used.counter_set, name)
                if place in self._left:
                    self._left[place] = self._left[place].sub(_quantity(counter.value))

    def missing(self, found: Published) -> str:
        """Why a device cannot be had although nobody holds it; "" if it can."""
        for used in found.device.consumes_counters:
            for name, counter in used.counters.items():
                left = self._left.get((found.driver, found.pool, used.counter_set, name))
                if left is not None and left < _quantity(counter.value):
                    takers = ", ".join(self._takers[(found.driver, found.pool, used.counter_set)])
                    return f"{takers or 'what is published'} leaves too little {name} of {used.counter_set}"
        return ""


def told_health(snapshot: Snapshot, holdings: Iterable[Holding]) -> dict[DraKey, tuple[str, ...]]:
    """What running pods' statuses say of devices that are not healthy, by `Holding.key`.

    For claims the kubelet names a device by its first CDI name, which need not tell which one it is: then all devices of
    the claim are meant. Source: pkg/kubelet/cm/dra/manager.go of 1.36.
    """
    of_pod: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for holding in holdings:
        of_pod[(holding.namespace, holding.pod)].append(holding)
    found: dict[DraKey, dict[str, None]] = defaultdict(dict)
    for pod in snapshot.pods:
        held = of_pod.get((pod.metadata.namespace, pod.metadata.name), ())
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses) if held else ():
            for status in container.allocated_resources_status:
                for one in status.resources:
                    if one.health not in ("", _HEALTHY):
                        meant, sure = _meant(pod, status.name, one.resource_id, held)
                        text = f"{one.health}: {one.message}" if one.message else one.health
                        for holding in meant:
                            found[holding.key][text if sure else f"{text} (of one device of the claim)"] = None
    return {key: tuple(texts) for key, texts in found.items()}


def _meant(pod: Pod, name: str, id_: str, held: Iterable[Holding]) -> tuple[list[Holding], bool]:
    """The holdings that a line of a pod's status is about, and whether that is sure."""
    if not name.startswith(_CLAIM):
        return [one for one in held if one.resource == name and one.device == id_], True
    entry, _, request = name.removeprefix(_CLAIM).partition("/")
    spec = {one.name: one.resource_claim_name for one in pod.spec.resource_claims}
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    claim = spec.get(entry) or made.get(entry)
    mine = [one for one in held if one.claim == claim and request in ("", one.request.partition("/")[0])]
    exact = [one for one in mine if id_ == "/".join(one.key)] or [
        one for one in mine if id_.endswith((f"-{one.device}", f"={one.device}"))
    ]
    found = exact or mine
    return found, len({one.key for one in found}) == 1


def told_conditions(snapshot: Snapshot) -> dict[DraKey, tuple[str, ...]]:
    """What drivers say of allocated devices in the status of claims, as far as it is not good."""
    found: dict[DraKey, list[str]] = defaultdict(list)
    for claim in snapshot.claims:
        for device in claim.status.devices:
            for one in device.conditions:
                bad = "True" if one.type in _GOOD_WHEN_FALSE else "False"
                if one.status == bad:
                    why = f": {one.message or one.reason}" if one.message or one.reason else ""
                    found[(device.driver, device.pool, device.device)].append(f"{one.type}={one.status}{why}")
    return {key: tuple(dict.fromkeys(texts)) for key, texts in found.items()}


def _sum(amounts: Iterable[str]) -> str:
    total = Quantity.of(0)
    for amount in amounts:
        more = _quantity(amount)
        total = more if total.is_zero else total.add(more)
    return str(total)


def _quantity(value: str | int | float) -> Quantity:
    """A quantity; text that is none counts as zero. The API server never stores such."""
    try:
        return Quantity.from_document(value)
    except ValueError:
        return Quantity.of(0)
