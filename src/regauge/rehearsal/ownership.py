"""Who owns and who holds every device, from the API and the kubelets, as the report tells it."""

from __future__ import annotations

from regauge.base import Where
from regauge.inventory import Inventory, take_inventory
from regauge.kube import KubeClient
from regauge.model import Document, Kind, Snapshot
from regauge.model.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    STATEFUL_SET,
)
from regauge.rehearsal.report import Ownership
from regauge.rehearsal.world import World

LOOKED_AT: tuple[Kind, ...] = (NODE, POD, DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE)


WORKLOADS: tuple[Kind, ...] = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB)


async def snapshot_of(kube: KubeClient, *, workloads: bool = False) -> Snapshot:
    """What the inventory looks at, read through the API; with `workloads` also what owns pods."""
    documents = []
    for kind in (*LOOKED_AT, *WORKLOADS) if workloads else LOOKED_AT:
        for item in (await kube.list(kind)).items:
            object_ = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
            documents.append(Document(object_, Where(object=kind.plural)))
    return Snapshot.of(documents)


async def inventory_of(world: World) -> Inventory:
    """The inventory of the running world."""
    return take_inventory(await snapshot_of(world.kube), await world.node_reports())


def ownership_rows(inventory: Inventory) -> tuple[Ownership, ...]:
    """One row per device, sorted by node and name."""
    rows = [
        Ownership(
            node=device.node,
            device=device.advertisements[0].name.rpartition("/")[2],
            identity=device.identity,
            stacks=tuple(sorted(stack.value for stack in device.stacks)),
            advertised_as=tuple(f"{item.source} {item.name}" for item in device.advertisements),
            holders=device.holders,
        )
        for device in inventory.devices
    ]
    return tuple(sorted(rows, key=lambda row: (row.node, row.device)))
