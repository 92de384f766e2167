"""Who has a device, by any of its names; what a pod has; and near names where there is no such device. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from re import fullmatch

from regauge.inventory import Stack
from regauge.model import Snapshot
from regauge.model.core import ENDED_PHASES, Pod
from regauge.observe.correlation import Correlation, Holding
from regauge.observe.devices_view import CountedLine, DeviceLine, DevicesView

LEAST_PREFIX = 6
MOST_NEAR = 5
REPLICA = "::"


@dataclass(frozen=True, slots=True)
class Found:
    """A device that was meant. `hints` say what is known of who had it, will have it, or else has a hand on it."""

    device: DeviceLine
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhoHas:
    """The devices that a name means: several where it does not tell which. `near` are names that may have been meant."""

    asked: str
    found: tuple[Found, ...]
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodHas:
    """What a pod has, or has asked for: `holdings` device by device, `counted` what only its kubelet can tell apart.

    `waits_for` are claims of its that have no devices, `state` its phase.
    """

    namespace: str
    pod: str
    node: str
    state: str
    holdings: tuple[Holding, ...]
    counted: tuple[tuple[str, int], ...]
    waits_for: tuple[str, ...]


def who_has(asked: str, view: DevicesView, snapshot: Snapshot, known: Correlation) -> WhoHas:
    """Who has what `asked` names: driver/pool/device, pool/device, a device's name, its UUID or PCI address, the id that a

    device plugin lists, the ID of a share, or the beginning of one of the long ones.
    """
    wanted = asked.strip()
    meant = _meant(wanted, view.devices)
    hints = _Hints(snapshot, known) if meant else None
    if hints is None:
        return WhoHas(asked, (), near_names(wanted, view.devices))
    return WhoHas(asked, tuple(Found(line, tuple(hints.of(line))) for line in meant))


def _meant(wanted: str, lines: Sequence[DeviceLine]) -> list[DeviceLine]:
    """The devices of the narrowest reading of a name that means any."""
    if not wanted:
        return []
    for reading in (_by_name, _by_identity, _by_short_name, _by_prefix):
        found = [line for line in lines if reading(wanted, line)]
        if found:
            physical = {(line.node, line.physical_id) for line in found if line.physical_id}
            twice = [
                line for line in lines if line not in found and line.also and (line.node, line.physical_id) in physical
            ]
            return [*found, *twice]
    return []


def _by_name(wanted: str, line: DeviceLine) -> bool:
    shares = {one.share_id for one in (*line.holders, *line.admins) if one.share_id}
    return wanted in (line.name, line.name.replace(" ", "/"), f"{line.node}/{line.name.replace(' ', '/')}") or (
        wanted in shares
    )


def _by_identity(wanted: str, line: DeviceLine) -> bool:
    lowered = wanted.lower()
    if line.uuid and lowered in (line.uuid.lower(), line.uuid.partition("-")[2].lower()):
        return True
    return bool(line.pci) and _pci(lowered) == _pci(line.pci.lower())


def _by_short_name(wanted: str, line: DeviceLine) -> bool:
    plain = line.device.partition(REPLICA)[0]
    pool = line.pool or line.node
    return wanted in (line.device, plain, f"{pool}/{line.device}", f"{line.node}/{line.device}", f"{pool}/{plain}")


def _by_prefix(wanted: str, line: DeviceLine) -> bool:
    lowered = wanted.lower()
    return len(wanted) >= LEAST_PREFIX and any(
        name.lower().startswith(lowered) for name in (line.uuid, line.pci, line.device) if name
    )


def _pci(address: str) -> str:
    """An address with a domain of four digits, whatever it was written with: `65:00.0` is `0000:65:00.0`."""
    found = fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", address)
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else address


def near_names(wanted: str, lines: Iterable[DeviceLine]) -> tuple[str, ...]:
    """Names of devices that look like this one, as they can be asked for."""
    names: dict[str, str] = {}
    for line in lines:
        for name in (line.name.replace(" ", "/"), f"{line.pool or line.node}/{line.device}", line.device):
            names.setdefault(name, line.name.replace(" ", "/"))
        if line.uuid:
            names.setdefault(line.uuid, line.uuid)
        if line.pci:
            names.setdefault(line.pci, line.pci)
    close = get_close_matches(wanted, names, n=3 * MOST_NEAR, cutoff=0.6)
    inside = [name for name in names if wanted and wanted.lower() in name.lower()]
    return tuple(dict.fromkeys(names[name] for name in (*close, *inside)))[:MOST_NEAR]


class _Hints:
    """What else is known of a device beside who holds it now."""

    def __init__(self, snapshot: Snapshot, known: Correlation) -> None:
        self._pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in snapshot.pods}
        self._deleting = {
            (one.metadata.namespace, one.metadata.name): one.metadata.deletion_timestamp
            for one in snapshot.claims
            if one.metadata.deletion_timestamp
        }
        self._stale: dict[tuple[str, ...], list[Holding]] = defaultdict(list)
        for holding in known.stale:
            self._stale[holding.key].append(holding)

    def of(self, line: DeviceLine) -> Iterator[str]:
        for name in line.also:
            yield f"the same physical device is also advertised as {name}"
        for one in self._stale.get(line.key, ()):
            who = f"pod {one.namespace}/{one.pod}" if one.namespace else f"a pod that is gone ({one.pod})"
            yield f"had by {who}, as its kubelet still notes: it is given back when the kubelet needs one"
        for one in line.holders:
            yield from self._holder(one)
        for one in line.admins:
            yield f"{_user(one)} looks on with admin access and takes nothing of it"

    def _holder(self, one: Holding) -> Iterator[str]:
        since = self._deleting.get((one.namespace, one.claim)) if one.claim else None
        if since:
            yield f"claim {one.namespace}/{one.claim} was deleted at {since} and goes when its pods have ended"
        if one.claim and not one.pod:
            yield f"claim {one.namespace}/{one.claim} keeps it though no pod reserves it"
            return
        pod = self._pods.get((one.namespace, one.pod))
        if pod is None:
            yield f"pod {one.namespace}/{one.pod} is gone, its reservation is still there"
        elif pod.status.phase in ENDED_PHASES:
            yield f"pod {one.namespace}/{one.pod} has ended ({pod.status.phase}), its reservation is still there"
        elif pod.metadata.deletion_timestamp:
            yield f"pod {one.namespace}/{one.pod} is being deleted, until {pod.metadata.deletion_timestamp} at the latest"
        elif not pod.spec.node_name:
            yield f"pod {one.namespace}/{one.pod} is on no node yet"


def _user(one: Holding) -> str:
    return f"pod {one.namespace}/{one.pod}" if one.pod else f"claim {one.namespace}/{one.claim}"


# -- what a pod has


def pod_has(pod: Pod, view: DevicesView, snapshot: Snapshot, known: Correlation) -> PodHas:
    """What a pod has. Counted devices of a node with a record are among the holdings."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    counted = [
        (line.resource, asker.count)
        for line in view.counted
        for asker in line.askers
        if (asker.namespace, asker.pod) == (namespace, name)
    ]
    told = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    names = [one.resource_claim_name or told.get(one.name) for one in pod.spec.resource_claims]
    allocated = {
        one.metadata.name
        for one in snapshot.claims
        if one.metadata.namespace == namespace and one.status.allocation is not None
    }
    return PodHas(
        namespace,
        name,
        pod.spec.node_name,
        pod.status.phase or "Pending",
        known.of_pod(namespace, name),
        tuple(counted),
        tuple(one for one in names if one and one not in allocated),
    )


def counted_of(view: DevicesView, asked: str) -> tuple[CountedLine, ...]:
    """The counted resources that a name means: a resource name, or NODE/RESOURCE."""
    return tuple(line for line in view.counted if asked in (line.resource, f"{line.node}/{line.resource}"))


def held_as(one: Holding) -> str:
    """How a holder has a device: whole, in part, or only to look on; through the bridge with the name it asked for."""
    if one.admin_access:
        return "admin"
    bridge = f" as {one.resource}" if one.stack is Stack.DRA and one.resource else ""
    return f"{'share' if one.share_id or one.consumed else 'whole'}{bridge}"


def stack_word(stack: Stack) -> str:
    """As tables show it."""
    return "dra" if stack is Stack.DRA else "plugin"
