"""What a device is doing, and who serves it: the words that the page colours and filters by. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from regauge.inventory import EstateDevice, Stack
from regauge.model.core import ContainerStatus, Pod
from regauge.observe.correlation import Holding
from regauge.observe.dashboard.looking import Look

RELEASED_WITHIN_S = 60.0
"""How long it may take until devices of users that are gone are let go; after that they count as leaked."""

_PREPARED = "PodReadyToStartContainers"


class ServedBy(StrEnum):
    """Who serves a device. `bridge` is DRA answering for a counted resource name; `both` are two owners of one device."""

    PLUGIN = "plugin"
    DRA = "dra"
    BRIDGE = "bridge"
    BOTH = "both"


class State(StrEnum):
    """What a device is doing.

    `blocked`: held by nobody, and yet not to be had, because other partitions of the same chip take what it needs.
    `reserved`: given to a pod that is not started with it yet. `leaked`: held for users that are gone.
    """

    FREE = "free"
    BLOCKED = "blocked"
    RESERVED = "reserved"
    ALLOCATED = "allocated"
    SHARED = "shared"
    LEAKED = "leaked"


def served_by(device: EstateDevice, holdings: Iterable[Holding]) -> ServedBy:
    """Who serves a device, and by which way its holders came to it."""
    first = device.advertisements[0]
    if any(one.source != first.source for one in device.advertisements):
        return ServedBy.BOTH
    if first.stack is Stack.DEVICE_PLUGIN:
        return ServedBy.PLUGIN
    return ServedBy.BRIDGE if any(one.resource for one in holdings) else ServedBy.DRA


def state_of(holdings: Sequence[Holding], look: Look) -> State:
    """The state of a device that these hold. Access for administrators takes nothing, and does not count."""
    taking = [one for one in holdings if not one.admin_access]
    if not taking:
        return State.FREE
    users = {one.pod_uid or (one.namespace, one.pod): pod for one in taking if (pod := look.user(one)) is not None}
    if not users:
        return State.LEAKED if all(_leaked(one, look) for one in taking) else State.ALLOCATED
    if len(users) > 1 or len({(one.claim_uid, one.share_id, one.claim) for one in taking}) > 1:
        return State.SHARED
    return State.ALLOCATED if any(_started(pod) for pod in users.values()) else State.RESERVED


def _started(pod: Pod) -> bool:
    """Whether the pod's devices are prepared: its sandbox is there, which comes after."""
    if pod.status.phase != "Pending":
        return True
    return any(one.type == _PREPARED and one.status == "True" for one in pod.status.conditions)


def _leaked(one: Holding, look: Look) -> bool:
    if not look.knows_pods:
        return False
    claim = look.claims.get((one.namespace, one.claim))
    if claim is not None and any(user.resource != "pods" or user.api_group for user in claim.status.reserved_for):
        return False
    pod = look.pods.get((one.namespace, one.pod))
    ends = [str(status.state.get("terminated", {}).get("finishedAt") or "") for status in _statuses(pod)]
    given = claim.status.allocation.allocation_timestamp if claim is not None and claim.status.allocation else None
    age_s = look.age_s([*ends, given, claim.metadata.deletion_timestamp if claim is not None else None])
    return age_s is None or age_s > RELEASED_WITHIN_S


def _statuses(pod: Pod | None) -> tuple[ContainerStatus, ...]:
    return pod.status.container_statuses if pod is not None else ()
