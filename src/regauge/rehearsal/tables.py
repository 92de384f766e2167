"""What a scenario shows besides its checks: tables of who has what, and who wrote what when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regauge.base import InputError
from regauge.cluster.deletion import seconds_of
from regauge.model import Object
from regauge.model.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.rehearsal.looks import claim_word, devices_of, pod_word, writes_since
from regauge.rehearsal.node_state import node_states
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.ownership import inventory_of, ownership_rows

TIMELINE_KINDS = ("Pod", "ResourceClaim", "ResourceClaimTemplate")


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one moment."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The writes to one object in their order: seconds since the scenario began, who, what."""

    object: str
    writes: tuple[tuple[float, str, str], ...]


async def table_of(world: NodeWorld, of: str, title: str) -> Table:
    """One of `pods`, `claims`, `devices`, `owners`. Raises `InputError` for another one."""
    if of == "owners":
        return await _owners(world, title)
    if of not in _TABLES:
        raise InputError(f"there is no table of {of}", fix=f"say one of: owners, {', '.join(_TABLES)}")
    columns, rows = _TABLES[of](world)
    return Table(title, columns, rows)


Rows = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


def _pods(world: NodeWorld) -> Rows:
    rows = []
    for pod in world.control.api.list(POD):
        conditions = (pod.get("status") or {}).get("conditions") or []
        why = next((one.get("message", "") for one in conditions if one.get("type") == "PodScheduled"), "")
        rows.append(
            (
                pod["metadata"]["name"],
                _asks(pod),
                pod_word(pod),
                pod["spec"].get("nodeName", "-"),
                ", ".join(devices_of(world, pod["metadata"]["uid"])) or "-",
                _waited(pod),
                why or "-",
            )
        )
    return ("pod", "asks by", "state", "node", "devices", "scheduled after", "scheduler says"), tuple(rows)


def _asks(pod: Object) -> str:
    claims = [
        one.get("resourceClaimName") or one.get("resourceClaimTemplateName", "")
        for one in pod["spec"].get("resourceClaims") or ()
    ]
    counted = [
        f"{name}={value}"
        for container in pod["spec"]["containers"]
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items()
        if "/" in name
    ]
    return ", ".join([*(f"claim {name}" for name in claims), *(f"limits {item}" for item in counted)]) or "nothing"


def _waited(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    bound = next((one for one in conditions if one.get("type") == "PodScheduled" and one.get("status") == "True"), None)
    if bound is None:
        return "-"
    return f"{seconds_of(bound['lastTransitionTime']) - seconds_of(pod['metadata']['creationTimestamp']):g} s"


def _claims(world: NodeWorld) -> Rows:
    rows = []
    for claim in world.control.api.list(RESOURCE_CLAIM):
        results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or []
        rows.append(
            (
                claim["metadata"]["name"],
                claim_word(claim),
                ", ".join(f"{one['pool']}/{one['device']}" for one in results) or "-",
                ", ".join(one["name"] for one in (claim.get("status") or {}).get("reservedFor") or ()) or "-",
            )
        )
    return ("claim", "state", "devices", "reserved for"), tuple(rows)


def _devices(world: NodeWorld) -> Rows:
    held = {(state.name, one.device): one.pod for state in node_states(world) for one in state.held}
    rows = []
    for slice_ in world.control.api.list(RESOURCE_SLICE):
        pool = slice_["spec"]["pool"]
        for device in slice_["spec"].get("devices") or ():
            taints = [f"{one['key']}:{one['effect']}" for one in device.get("taints") or ()]
            holder = held.get((pool["name"], device["name"]), "-")
            rows.append((pool["name"], device["name"], str(pool["generation"]), ", ".join(taints) or "-", holder))
    return ("pool", "device", "generation", "taints", "held by"), tuple(rows)


async def _owners(world: NodeWorld, title: str) -> Table:
    rows = ownership_rows(await inventory_of(world))
    return Table(
        title,
        ("node", "device", "owned by", "advertised as", "held by"),
        tuple(
            (
                row.node,
                row.device,
                " AND ".join(row.stacks) or "nobody",
                ", ".join(row.advertised_as) or "-",
                ", ".join(row.holders) or "-",
            )
            for row in rows
        ),
    )


_TABLES: dict[str, Callable[[NodeWorld], Rows]] = {"pods": _pods, "claims": _claims, "devices": _devices}


def timeline_of(world: NodeWorld, since: int, epoch_s: float) -> tuple[Timeline, ...]:
    """The story of pods and claims since the scenario began."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for write in writes_since(world, since):
        if write.kind.kind in TIMELINE_KINDS:
            by = f"{write.actor}/{write.subresource}" if write.subresource else write.actor
            what = " ".join((write.verb, *write.fields))
            place = f"{write.kind.kind} {write.namespace}/{write.name}"
            found.setdefault(place, []).append((round(write.time_s - epoch_s, 3), by, what))
    return tuple(Timeline(name, tuple(writes)) for name, writes in found.items())
