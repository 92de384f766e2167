"""Who owns and who holds every device, from the API and the kubelets, as the report tells it."""

from __future__ import annotations

from regauge.inventory import Inventory, take_inventory
from regauge.kube import KubeClient, read_snapshot
from regauge.model import Kind, Snapshot
from regauge.model.kinds import DEVICE_KINDS, NODE, POD, WORKLOAD_KINDS
from regauge.rehearsal.report import Ownership
from regauge.rehearsal.world import World

LOOKED_AT: tuple[Kind, ...] = (NODE, POD, *DEVICE_KINDS)


async def snapshot_of(kube: KubeClient, *, workloads: bool = False) -> Snapshot:
    """What the inventory looks at, read through the API; with `workloads` also what owns pods."""
    return await read_snapshot(kube, (*LOOKED_AT, *WORKLOAD_KINDS) if workloads else LOOKED_AT)


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
