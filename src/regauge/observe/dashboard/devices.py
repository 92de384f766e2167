"""The tables of nodes and of devices: who serves each device, what it is doing, how it is, and who holds it. Pure.

A device of a device plugin whose node made no report is known only to be there. Such a node gets a numbered row for each,
and what its pods ask for is laid on them in order: how many are in use is true, which ones is not known, and the row says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regauge.inventory import Advertisement, CountedResource, EstateDevice, Stack, container_ask, pool_of, taint_text
from regauge.model.core import ENDED_PHASES, Node, Pod
from regauge.model.resource import Device
from regauge.observe.correlation import Holding
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.states import ServedBy, State, served_by, state_of
from regauge.observe.dashboard.tables import Row, Table
from regauge.observe.device_facts import Published, Room, published_devices, told_conditions, told_health

ANYWHERE = "(any node)"
NO_POOL = pool_of(Node())
Key = tuple[str, ...]
MOST_COUNTED = 128
"""So many devices of one name on one node are shown one by one; more of them are no devices, and told as one number."""

MOST_ROWS = 100_000
"""With more counted devices than that in all, each node has one row for each name: a picture of all of them says no more."""

_MODELS = ("productName", "model", "deviceName", "type", "product")
_NOT_TOLD = "Unknown"
"""The kubelet's word for the health of devices whose driver tells nothing of it: no trouble, and most of them."""

_WHICH = "which device it is, is known to its kubelet only"


class Idle:
    """Rows of devices that nobody holds and nothing is told of, kept from look to look: most devices of a large estate are
    such, and their rows depend on what their drivers publish alone.
    """

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Device, str, Row]] = {}
        self._seen: dict[Key, tuple[Device, str, Row]] = {}

    def row(self, key: Key, device: Device, node: str) -> Row | None:
        """The row of the same device at the last look."""
        known = self._known.get(key)
        if known is None or known[0] is not device or known[1] != node:
            return None
        self._seen[key] = known
        return known[2]

    def keep(self, key: Key, device: Device, node: str, row: Row) -> None:
        self._seen[key] = (device, node, row)

    def looked(self) -> None:
        """The look is over: what it did not see is forgotten."""
        self._known, self._seen = self._seen, {}


def device_tables(look: Look, idle: Idle | None = None) -> dict[str, Table]:
    """The tables `nodes` and `devices` of one look. `idle` is what the looks before it remember."""
    facts = _Facts(look, idle or Idle())
    devices = dict(facts.row(device) for device in look.inventory.devices)
    facts.idle.looked()
    devices.update(_gone(look, devices))
    devices.update(_counted(look))
    return {"nodes": _nodes(look, devices.values()), "devices": devices}


class _Facts:
    """What is looked up for every device."""

    def __init__(self, look: Look, idle: Idle) -> None:
        self.look = look
        self.idle = idle
        self.published = published_devices(look.snapshot, look.rules)
        self.room = Room(look.snapshot.slices, self.published, look.held)
        self._conditions = told_conditions(look.snapshot)
        self._health = told_health(look.snapshot, look.correlation.holdings)
        self._noted = {one.key: f"{one.namespace}/{one.pod}".strip("/") for one in look.correlation.stale}

    def row(self, device: EstateDevice) -> tuple[str, Row]:
        """The name of a device, and its row."""
        if len(device.advertisements) > 1:
            return _row(device, self)
        key = key_of(device.advertisements[0])
        known = self.published.get(key)
        if known is None or not self._is_idle(key, known):
            return _row(device, self)
        row = self.idle.row(key, known.device, device.node)
        if row is None:
            row = _row(device, self)[1]
            self.idle.keep(key, known.device, device.node, row)
        return "/".join(key), row

    def _is_idle(self, key: Key, known: Published) -> bool:
        told = key in self.look.held or key in self._conditions or key in self._health or key in self._noted
        return not told and not known.device.consumes_counters

    def trouble(self, key: Key, one: Advertisement) -> tuple[str, ...]:
        """What is wrong with a device, as far as its owner, its claims or its pods tell."""
        listed = one.stack is Stack.DEVICE_PLUGIN and not one.healthy
        own = ("the device plugin lists it as unhealthy",) if listed else ()
        told = (text for text in self._health.get(key, ()) if not text.startswith(_NOT_TOLD))
        return (*own, *self._conditions.get(key, ()), *told)

    def note(self, keys: Iterable[Key], known: Published | None, state: State) -> tuple[str, str]:
        """What keeps a device that is free from being had, and what else is worth knowing of it."""
        blocked = self.room.missing(known) if known is not None and state is State.FREE else ""
        noted = next((self._noted[key] for key in keys if key in self._noted), "") if self._noted else ""
        return blocked, blocked or (noted and f"its kubelet still notes it for {noted}, which has ended or is gone")


def _nodes(look: Look, devices: Iterable[Row]) -> Table:
    found: dict[str, Row] = {node.metadata.name: _node(node) for node in look.snapshot.nodes}
    for row in devices:
        found.setdefault(
            row["node"], {"pool": NO_POOL} | ({} if row["node"] == ANYWHERE else {"trouble": "no Node object"})
        )
    return found


def _node(node: Node) -> Row:
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "")
    row: dict[str, Any] = {"pool": pool_of(node)}
    troubles_ = [
        *(["not ready"] if ready in ("False", "Unknown") else []),
        *(["cordoned"] if node.spec.unschedulable else []),
    ]
    if troubles_:
        row["trouble"] = ", ".join(troubles_)
    return row


def key_of(one: Advertisement) -> Key:
    """What a holding, a status or a trouble calls the device of this advertisement."""
    if one.stack is Stack.DRA:
        driver, _, rest = one.name.partition("/")
        pool, _, name = rest.rpartition("/")
        return driver, pool, name
    return one.node, one.source, one.name


def device_name(device: EstateDevice) -> str:
    """The name of a device's row, and what a link to it says: driver/pool/device, else node/resource/id."""
    if len(device.advertisements) == 1:
        return "/".join(key_of(device.advertisements[0]))
    first = min(device.advertisements, key=lambda one: (one.stack is not Stack.DRA, one.source, one.name))
    return "/".join(key_of(first))


def _row(device: EstateDevice, facts: _Facts) -> tuple[str, Row]:
    keys = [key_of(one) for one in device.advertisements]
    holdings = [one for key in keys for one in facts.look.held.get(key, ())]
    known = next((facts.published[key] for key in keys if key in facts.published), None)
    state = state_of(holdings, facts.look)
    blocked, note = facts.note(keys, known, state)
    told = (text for key, one in zip(keys, device.advertisements) for text in facts.trouble(key, one))
    found: dict[str, Any] = {
        "node": device.node or ANYWHERE,
        "source": _source(device),
        "stack": served_by(device, holdings).value,
        "state": State.BLOCKED.value if blocked else state.value,
        "devicePool": known.pool if known is not None and known.pool != device.node else "",
        "model": _model(known.device) if known is not None else "",
        "identity": device.identity if device.identity not in ("/".join(keys[0]), *keys[0]) else "",
        "trouble": "; ".join(dict.fromkeys(told)),
        "taints": [taint_text(taint) for taint in known.device.taints] if known is not None else [],
        "holders": [_holder(one, facts.look) for one in holdings],
        "note": note,
    }
    return device_name(device), _told(found)


def _source(device: EstateDevice) -> str:
    if len(device.advertisements) == 1:
        return device.advertisements[0].source
    return " + ".join(sorted({one.source for one in device.advertisements}))


_USUAL = {"stack": ServedBy.DRA.value, "state": State.FREE.value}


def _told(row: Mapping[str, Any]) -> Row:
    """A row without what is empty, and without what most devices are: free, and served by DRA."""
    return {name: value for name, value in row.items() if value and _USUAL.get(name) != value}


def _gone(look: Look, there: Mapping[str, Row]) -> Iterator[tuple[str, Row]]:
    """Devices that claims hold and that nobody publishes any more."""
    for key, holdings in look.held.items():
        name = "/".join(key)
        if name in there or holdings[0].stack is not Stack.DRA:
            continue
        row: dict[str, Any] = {
            "node": next((one.node for one in holdings if one.node), ANYWHERE),
            "source": key[0],
            "stack": (ServedBy.BRIDGE if any(one.resource for one in holdings) else ServedBy.DRA).value,
            "state": state_of(holdings, look).value,
            "trouble": "no slice publishes it any more",
            "holders": [_holder(one, look) for one in holdings],
        }
        yield name, _told(row)


def _model(device: Device) -> str:
    for wanted in _MODELS:
        for name, value in device.attributes.items():
            if name.rpartition("/")[2] == wanted and value.string_value:
                return value.string_value
    return ""


def _holder(one: Holding, look: Look) -> Row:
    gone = look.knows_pods and look.user(one) is None
    found = {
        "pod": f"{one.namespace}/{one.pod}" if one.pod else "",
        "container": one.container,
        "claim": f"{one.namespace}/{one.claim}" if one.claim else "",
        "request": one.request,
        "resource": one.resource,
        "workload": str(one.workload) if one.workload.kind != "Pod" else "",
        "share": one.share_id,
        "takes": ", ".join(f"{name} {value}" for name, value in sorted(one.consumed.items())),
        "admin": one.admin_access,
        "gone": gone,
        "sinceS": int(one.since_s) if one.since_s is not None else 0,
    }
    return {name: value for name, value in found.items() if value}


# -- devices that are only counted


def _counted(look: Look) -> Iterator[tuple[str, Row]]:
    if not look.inventory.unseen:
        return
    users = _users(look, {one.resource_name for one in look.inventory.unseen})
    total = sum(one.capacity for one in look.inventory.unseen if one.capacity <= MOST_COUNTED)
    for one in look.inventory.unseen:
        most = MOST_COUNTED if total <= MOST_ROWS else 0
        yield from _slots(one, users.get((one.node, one.resource_name), []), most)


def _slots(one: CountedResource, users: list[Row], most: int) -> Iterator[tuple[str, Row]]:
    base = {"node": one.node, "source": one.resource_name, "stack": ServedBy.PLUGIN.value, "counted": True}
    if one.capacity > most:
        note = f"{one.capacity} are counted, {one.requested} asked for"
        yield f"{one.node}/{one.resource_name}/*", {**base, "note": note}
        return
    ill = max(one.capacity - one.allocatable, 0)
    for number in range(one.capacity):
        row: dict[str, Any] = {**base, "note": _WHICH}
        if number < one.requested:
            row["state"] = State.ALLOCATED.value
            row |= {"holders": [users[number]]} if number < len(users) else {}
        if number >= one.capacity - ill:
            row["trouble"] = f"{ill} of {one.capacity} cannot be allocated: the device plugin lists them as unhealthy"
        yield f"{one.node}/{one.resource_name}/{number}", row


def _users(look: Look, names: set[str]) -> Mapping[tuple[str, str], list[Row]]:
    """Who asks for counted resources on which node: a row for each device, in the order of the pods."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for pod in look.snapshot.pods:
        if not pod.spec.node_name or pod.status.phase in ENDED_PHASES:
            continue
        for container, name, count in _asks(pod, names):
            row = {"pod": f"{pod.metadata.namespace}/{pod.metadata.name}", "container": container}
            found[pod.spec.node_name, name] += [row] * min(count, MOST_COUNTED)
    return found


def _asks(pod: Pod, names: set[str]) -> Iterator[tuple[str, str, int]]:
    bridged = pod.status.extended_resource_claim_status
    served = {row.resource_name for row in bridged.request_mappings} if bridged else set()
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    for container in (*sidecars, *pod.spec.containers):
        for name, count in container_ask(container).items():
            if name in names and name not in served:
                yield container.name, name, count
