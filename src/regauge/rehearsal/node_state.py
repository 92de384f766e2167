"""What is on the nodes of a world now: checkpoints of kubelet and driver, and the containers that run. Only looking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from regauge.base import InputError
from regauge.cluster.kubelet import (
    DRA_CHECKPOINT_NAME,
    ClaimState,
    decode_dra_checkpoint,
)
from regauge.driver import decode_checkpoint
from regauge.rehearsal.nodes import NodeWorld, RehearsedNode

CLAIM_PREFIX = "claim-"
UID_LENGTH = 36
MOST_REMEMBERED = 256
"""Checkpoints are looked at far more often than they change."""


@dataclass(frozen=True, slots=True)
class Held:
    """A device that a running container has: by a claim of this uid, or by a device plugin when that is empty."""

    pod: str
    pod_uid: str
    container: str
    device: str
    claim_uid: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A claim that a driver has prepared, by its own checkpoint."""

    driver: str
    uid: str
    title: str
    devices: tuple[str, ...]
    completed: bool
    exclusive: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. `unreadable` says which files could not be read, and why."""

    name: str
    up: bool
    claims: Mapping[str, ClaimState] = field(default_factory=dict)
    prepared: tuple[Prepared, ...] = ()
    held: tuple[Held, ...] = ()
    unreadable: tuple[str, ...] = ()

    def completed(self, uid: str) -> bool:
        return any(one.uid == uid and one.completed for one in self.prepared)


def node_states(world: NodeWorld) -> tuple[NodeState, ...]:
    """All nodes of a world, in their order."""
    return tuple(_state(node) for node in world.nodes.values())


def held_devices(world: NodeWorld, pod_uid: str) -> frozenset[str]:
    """What the running containers of a pod hold now, on any node."""
    return frozenset(one.device for node in world.nodes.values() for one in _held(node, pod_uid))


def traces(world: NodeWorld) -> tuple[object, ...]:
    """What the states are read from, to be compared: as long as it is the same, so are they; but not which nodes are up."""
    return tuple(
        (*(_read(node, path) for path in _checkpoints(node)), node.runtime.containers())
        for node in world.nodes.values()
    )


def _read(node: RehearsedNode, path: str) -> bytes | None:
    try:
        return node.machine.files.read(path)
    except FileNotFoundError:
        return None


def _checkpoints(node: RehearsedNode) -> Iterator[str]:
    yield f"{node.kubelet_dir}/{DRA_CHECKPOINT_NAME}"
    yield from (path for _, path in _of_drivers(node))


def _of_drivers(node: RehearsedNode) -> Iterator[tuple[str, str]]:
    """The drivers that have a directory on a node, and where their checkpoints are."""
    plugins = f"{node.kubelet_dir}/plugins"
    try:
        drivers = node.machine.files.names(plugins)
    except FileNotFoundError:
        return
    for driver in drivers:
        yield driver, f"{plugins}/{driver}/checkpoint.json"


def _state(node: RehearsedNode) -> NodeState:
    unreadable: list[str] = []
    return NodeState(
        name=node.name,
        up=node.powered and node.kubelet is not None and bool(node.running),
        claims=_claims(node, unreadable),
        prepared=_prepared(node, unreadable),
        held=_held(node),
        unreadable=tuple(unreadable),
    )


def _claims(node: RehearsedNode, unreadable: list[str]) -> Mapping[str, ClaimState]:
    path = f"{node.kubelet_dir}/{DRA_CHECKPOINT_NAME}"
    try:
        return _claims_in(node.machine.files.read(path), path)
    except FileNotFoundError:
        return {}
    except InputError as error:
        unreadable.append(str(error))
        return {}


@lru_cache(MOST_REMEMBERED)
def _claims_in(data: bytes, path: str) -> Mapping[str, ClaimState]:
    return MappingProxyType({claim.uid: claim for claim in decode_dra_checkpoint(data, path)})


def _prepared(node: RehearsedNode, unreadable: list[str]) -> tuple[Prepared, ...]:
    found: list[Prepared] = []
    for driver, path in _of_drivers(node):
        try:
            found += _prepared_in(node.machine.files.read(path), path, driver)
        except FileNotFoundError:
            continue
        except InputError as error:
            unreadable.append(str(error))
    return tuple(found)


@lru_cache(MOST_REMEMBERED)
def _prepared_in(data: bytes, path: str, driver: str) -> tuple[Prepared, ...]:
    found: list[Prepared] = []
    for claim in decode_checkpoint(data, path).claims.values():
        devices = tuple(one.device for one in claim.devices)
        exclusive = tuple(one.device for one in claim.devices if not one.admin and one.share_id is None)
        done = claim.state.value == "PrepareCompleted"
        found.append(Prepared(driver, claim.uid, claim.title, devices, done, exclusive))
    return tuple(found)


def _held(node: RehearsedNode, pod_uid: str = "") -> tuple[Held, ...]:
    """By all containers that run, or by those of one pod."""
    found: list[Held] = []
    for state in node.runtime.containers():
        if not state.running or pod_uid not in ("", state.request.pod_uid):
            continue
        request = state.request
        pod = f"{request.namespace}/{request.pod}"
        for id_ in request.cdi_devices:
            name = id_.partition("=")[2]
            uid = ""
            if name.startswith(CLAIM_PREFIX):
                name = name.removeprefix(CLAIM_PREFIX)
                uid, name = name[:UID_LENGTH], name[UID_LENGTH + 1 :]
            found.append(Held(pod, request.pod_uid, request.name, name, uid))
    return tuple(found)
