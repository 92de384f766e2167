"""From one look at a cluster to the next: what happened between them, added to the history. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regauge.model import Document
from regauge.model.core import Pod
from regauge.model.kinds import CORE_EVENT, EVENT
from regauge.model.resource import ResourceClaim
from regauge.observe.correlation import Holding, seconds
from regauge.observe.families_leaks import key_of, leaks
from regauge.observe.history import Charge, Consumer, History, Tally, Timed, Use, UseKey
from regauge.observe.metric_moment import Moment

FAILURES = (
    "FailedResourceClaimCreation",
    "FailedPrepareDynamicResources",
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
)
"""The reasons of events that tell that a pod did not get its devices: two of DRA, two of device plugins."""
FORGET_S = 24 * 3600.0
"""How long a consumer that holds nothing any more is still told."""
READY_CONDITION = "PodReadyToStartContainers"
SEVERAL = "several"


def advance(history: History, moment: Moment, *, whole: bool = False) -> History:
    """The history up to a moment, which must not be earlier than the one it has.

    At the first moment nothing is counted that was there before, because nobody knows whether it was counted already;
    `whole` counts it all the same, for a single look that nothing comes after.
    """
    first = history.moment_s is None and not whole
    uses = uses_of(moment.correlation.holdings)
    timing = _Timing(moment, history, first)
    timing.run()
    failures, events = _failures(moment, history, first)
    return History(
        moment_s=moment.now_s,
        charges=charged(history, uses, moment.now_s),
        uses=uses,
        allocation=timing.allocation,
        preparation=timing.preparation,
        failures=failures,
        timed=timing.timed,
        events=events,
        leaks={uid: history.leaks.get(uid, moment.now_s) for uid in (key_of(claim) for claim, _, _ in leaks(moment))},
    )


# -- device-seconds


def uses_of(holdings: Iterable[Holding]) -> Mapping[UseKey, Use]:
    """Who is charged for which part of each device now. Whoever shares a device shares its seconds in equal parts; admin
    access takes nothing from anybody and is not charged. Devices are told apart physically: replicas of one are one.
    """
    users: dict[tuple[str, str], dict[str, Use]] = defaultdict(dict)
    for one in holdings:
        if one.admin_access:
            continue
        known = one.uuid or one.pci
        device = (one.node, known) if known else ("", "/".join(one.key))
        consumer = Consumer(one.namespace, one.workload.kind, one.workload.name, one.stack.value)
        users[device].setdefault(one.pod_uid or one.claim_uid or one.pod or one.claim, Use(consumer, 1.0, one.since_s))
    return {
        (*device, user): use._replace(part=1.0 / len(found))
        for device, found in users.items()
        for user, use in found.items()
    }


def charged(history: History, uses: Mapping[UseKey, Use], now_s: float) -> Mapping[Consumer, Charge]:
    """The charges of a history with what was used since its moment, if `uses` are those of now.

    When the clock was put back nothing is charged for the time between.
    """
    charges = {key: one for key, one in history.charges.items() if now_s - one.last_s <= FORGET_S}
    if history.moment_s is None or now_s < history.moment_s:
        return charges | {use.consumer: Charge(0.0, 0.0, now_s) for use in uses.values() if use.consumer not in charges}
    for key in history.uses.keys() | uses.keys():
        before, after = history.uses.get(key), uses.get(key)
        if before is not None and after is not None and before.consumer == after.consumer:
            _add(charges, after.consumer, _kept(before, after, history.moment_s, now_s), now_s)
            continue
        if before is not None:
            half_s = before.part * (now_s - history.moment_s) / 2
            _add(charges, before.consumer, (half_s, half_s), now_s)
        if after is not None:
            _add(charges, after.consumer, _begun(after, history.moment_s, now_s), now_s)
    return charges


def _add(charges: dict[Consumer, Charge], consumer: Consumer, more: tuple[float, float], now_s: float) -> None:
    known = charges.get(consumer, Charge(0.0, 0.0, now_s))
    charges[consumer] = Charge(known.device_s + more[0], known.uncertain_s + more[1], now_s)


def _kept(before: Use, after: Use, then_s: float, now_s: float) -> tuple[float, float]:
    """Held at both looks. When its part changed between them is not known: the middle, give or take a half."""
    between_s = now_s - then_s
    return between_s * (before.part + after.part) / 2, between_s * abs(after.part - before.part) / 2


def _begun(after: Use, then_s: float, now_s: float) -> tuple[float, float]:
    """Held only at the second look. Timestamps of the API are cut to seconds."""
    if after.since_s is not None and after.since_s <= now_s:
        since_s = max(after.since_s, then_s)
        return after.part * (now_s - since_s), after.part * min(1.0, now_s - since_s)
    half_s = after.part * (now_s - then_s) / 2
    return half_s, half_s


# -- durations


class _Timing:
    """The durations that ended since the last look."""

    def __init__(self, moment: Moment, history: History, first: bool) -> None:
        self._moment = moment
        self._known = history.timed
        self._first = first
        self.allocation: dict[str, Tally] = dict(history.allocation)
        self.preparation: dict[str, Tally] = dict(history.preparation)
        self.timed: dict[str, Timed] = {}

    def run(self) -> None:
        for _, claim in self._moment.ground.claims:
            uid = key_of(claim)
            self.timed[uid] = self._of(claim, self._known.get(uid))

    def _of(self, claim: ResourceClaim, known: Timed | None) -> Timed:
        """What the claim owes after this look."""
        owed = known or Timed(allocation=True, preparation=True)
        allocation = claim.status.allocation
        if allocation is None:
            return owed
        prepared_s = self._prepared_s(claim)
        if known is None and self._first:
            return Timed(allocation=False, preparation=prepared_s is None)
        allocated_s = seconds(allocation.allocation_timestamp)
        if allocated_s is None and known is not None and owed.allocation:
            allocated_s = self._moment.now_s  # it was not allocated at the last look
        name = class_label(claim)
        if owed.allocation:
            _observe(self.allocation, name, seconds(claim.metadata.creation_timestamp), allocated_s)
        if owed.preparation and prepared_s is not None:
            _observe(self.preparation, name, allocated_s, prepared_s)
        return Timed(allocation=False, preparation=owed.preparation and prepared_s is None)

    def _prepared_s(self, claim: ResourceClaim) -> float | None:
        """When its devices were ready: by the drivers' word in the claim's status, else when the first of its pods had
        its sandbox, which the kubelet makes only after all drivers have prepared."""
        told = [
            seconds(condition.last_transition_time)
            for device in claim.status.devices
            for condition in device.conditions
            if (condition.type, condition.status) == ("Ready", "True")
        ]
        pods = (
            self._moment.ground.pods.get((claim.metadata.namespace, user.name))
            for user in claim.status.reserved_for
            if user.resource == "pods"
        )
        told = told or [_ready_s(pod) for pod in pods if pod is not None]
        return min((one for one in told if one is not None), default=None)


def _observe(tallies: dict[str, Tally], name: str, begun_s: float | None, ended_s: float | None) -> None:
    if begun_s is not None and ended_s is not None:
        tallies[name] = tallies.get(name, Tally()).with_one(max(0.0, ended_s - begun_s))


def _ready_s(pod: Pod) -> float | None:
    for one in pod.status.conditions:
        if (one.type, one.status) == (READY_CONDITION, "True"):
            return seconds(one.last_transition_time)
    return None


def class_label(claim: ResourceClaim) -> str:
    """The device class that a claim asks for: `several` where it asks for more than one, "" where for none."""
    names = {
        part.device_class_name
        for request in claim.spec.devices.requests
        for part in (*((request.exactly,) if request.exactly else ()), *request.first_available)
    }
    return SEVERAL if len(names) > 1 else next(iter(names), "")


# -- failures


def _failures(moment: Moment, history: History, first: bool) -> tuple[Mapping[tuple[str, str], int], Mapping[str, int]]:
    """Failures by namespace and reason, and how often each event was counted so far."""
    failures = dict(history.failures)
    events: dict[str, int] = {}
    for document in _events(moment):
        body = document.object
        reason = str(body.get("reason", ""))
        if reason not in FAILURES:
            continue
        uid = str(document.metadata.get("uid") or f"{document.namespace}/{document.name}")
        if uid in events:
            continue
        events[uid] = count = _count(body)
        before = count if first and uid not in history.events else history.events.get(uid, 0)
        key = (_namespace(body) or document.namespace, reason)
        failures[key] = failures.get(key, 0) + max(0, count - before)
    return failures, events


def _events(moment: Moment) -> Iterator[Document]:
    """Events of both groups: they are one object under two names."""
    yield from moment.snapshot.documents(CORE_EVENT)
    yield from moment.snapshot.documents(EVENT)


def _count(event: Mapping[str, Any]) -> int:
    series = event.get("series")
    counts = (
        event.get("count"),
        event.get("deprecatedCount"),
        series.get("count") if isinstance(series, dict) else None,
    )
    return max((one for one in counts if isinstance(one, int)), default=1) or 1


def _namespace(event: Mapping[str, Any]) -> str:
    about = event.get("involvedObject") or event.get("regarding")
    return str(about.get("namespace", "")) if isinstance(about, dict) else ""
