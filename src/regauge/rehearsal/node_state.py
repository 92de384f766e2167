"""What is on the nodes of a world now: checkpoints of kubelet and driver, and the containers that run. Only looking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


def _claims(node: RehearsedNode, unreadable: list[str]) -> dict[str, ClaimState]:
    path = f"{node.kubelet_dir}/{DRA_CHECKPOINT_NAME}"
    try:
        found = decode_dra_checkpoint(node.machine.files.read(path), path)
    except FileNotFoundError:
        return {}
    except InputError as error:
        unreadable.append(str(error))
        return {}
    return {claim.uid: claim for claim in found}


def _prepared(node: RehearsedNode, unreadable: list[str]) -> tuple[Prepared, ...]:
    files, plugins = node.machine.files, f"{node.kubelet_dir}/plugins"
    found: list[Prepared] = []
    try:
        drivers = files.names(plugins)
    except FileNotFoundError:
        return ()
    for driver in drivers:
        path = f"{plugins}/{driver}/checkpoint.json"
        try:
            record = decode_checkpoint(files.read(path), path)
        except FileNotFoundError:
            continue
        except InputError as error:
            unreadable.append(str(error))
            continue
        for claim in record.claims.values():
            devices = tuple(one.device for one in claim.devices)
            exclusive = tuple(one.device for one in claim.devices if not one.admin and one.share_id is None)
            done = claim.state.value == "PrepareCompleted"
            found.append(Prepared(driver, claim.uid, claim.title, devices, done, exclusive))
    return tuple(found)


def _held(node: RehearsedNode) -> tuple[Held, ...]:
    found: list[Held] = []
    for state in node.runtime.containers():
        if not state.running:
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
