"""Metrics of what is not let go: allocations after deletion, reservations of pods that are gone, stale notes of kubelets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from regauge.audit import Layer
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.observe.correlation import seconds
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.metric_moment import Moment
from regauge.scheduler import is_terminal

DELETED, DEAD, NOBODY = "deleted", "reserved-by-dead-pods", "reserved-by-nobody"
"""Why an allocation should not be there: its claim is deleted and no pod runs with it; all the pods it is reserved for are
gone or have ended; it is reserved for nobody."""


def unreleased(moment: Moment) -> Iterator[Series]:
    found = Counter((claim.metadata.namespace, cause) for claim, cause, _ in leaks(moment))
    yield from sorted(found.items())


def devices(moment: Moment) -> Iterator[Series]:
    found: Counter[tuple[str, str]] = Counter()
    for claim, cause, _ in leaks(moment):
        allocation = claim.status.allocation
        found[claim.metadata.namespace, cause] += len(allocation.devices.results) if allocation else 0
    yield from sorted(found.items())


def age(moment: Moment) -> Iterator[Series]:
    found: dict[tuple[str, str], float] = {}
    for claim, cause, told_s in leaks(moment):
        since_s = moment.history.leaks.get(key_of(claim)) if told_s is None else told_s
        if since_s is not None:
            key = (claim.metadata.namespace, cause)
            found[key] = max(found.get(key, 0.0), moment.now_s - since_s)
    yield from sorted(found.items())


def key_of(claim: ResourceClaim) -> str:
    """What a claim is remembered by."""
    return claim.metadata.uid or f"{claim.metadata.namespace}/{claim.metadata.name}"


def leaks(moment: Moment) -> Iterator[tuple[ResourceClaim, str, float | None]]:
    """Allocated claims that should not be, with the cause and since when, as far as it is known."""
    for _, claim in moment.ground.claims:
        allocation = claim.status.allocation
        if allocation is None:
            continue
        pods, others = _users(moment, claim)
        alive = [pod for pod in pods if pod is not None and not is_terminal(pod)]
        if alive or others or (claim.status.reserved_for and not moment.knows_pods):
            continue
        deleted_s = seconds(claim.metadata.deletion_timestamp)
        if deleted_s is not None:
            yield claim, DELETED, deleted_s
        elif claim.status.reserved_for:
            yield claim, DEAD, max((ended for pod in pods if pod for ended in _ends_s(pod)), default=None)
        else:
            yield claim, NOBODY, seconds(allocation.allocation_timestamp)


def _users(moment: Moment, claim: ResourceClaim) -> tuple[list[Pod | None], bool]:
    """The pods that a claim is reserved for, None for one that is gone; and whether others than pods are among its users."""
    pods: list[Pod | None] = []
    others = False
    for user in claim.status.reserved_for:
        if user.resource != "pods" or user.api_group:
            others = True
            continue
        pod = moment.ground.pods.get((claim.metadata.namespace, user.name))
        same = pod is not None and (not user.uid or pod.metadata.uid in ("", user.uid))
        pods.append(pod if same else None)
    return pods, others


def _ends_s(pod: Pod) -> Iterator[float]:
    for status in pod.status.container_statuses:
        ended = status.state.get("terminated")
        when_s = seconds(ended.get("finishedAt")) if isinstance(ended, dict) else None
        if when_s is not None:
            yield when_s


def stale(moment: Moment) -> Iterator[Series]:
    yield from sorted(Counter((one.node, one.resource) for one in moment.correlation.stale).items())


FAMILIES = (
    Family(
        "resourceclaims_unreleased", Type.GAUGE,
        "Allocated ResourceClaims that nobody uses: deleted, reserved by pods that are gone or have ended, or reserved by"
        " nobody. Each is so for a moment; that it stays is the fault.",
        ("namespace", "cause"), Layer.SCHEDULING, unreleased,
    ),
    Family("resourceclaims_unreleased_devices", Type.GAUGE, "Devices that these hold.", ("namespace", "cause"),
           Layer.SCHEDULING, devices),
    Family(
        "resourceclaims_unreleased_age_seconds", Type.GAUGE,
        "How long the longest of these has been so: since its deletion, the end of its last pod, or its allocation; where the"
        " API does not tell, since the exporter first saw it so.",
        ("namespace", "cause"), Layer.SCHEDULING, age, "seconds",
    ),
    Family(
        "kubelet_stale_devices", Type.GAUGE,
        "Devices of device plugins that a kubelet still notes for pods that have ended or are gone. It takes them back when"
        " it needs one.",
        ("node", "resource"), Layer.INJECTION, stale, scope=Scope.NODE,
    ),
)  # fmt: skip
