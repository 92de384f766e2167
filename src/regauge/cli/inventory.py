"""`regauge inventory`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import Context, Kubeconfig, Output, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import read_estate

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.inventory import Advertisement, EstateDevice, Inventory

SCHEMA = "regauge.inventory/v1"
Node = Annotated[list[str] | None, typer.Option("--node", metavar="NODE", help="This node only; may be repeated.")]


def command(
    input_: Annotated[
        str | None,
        typer.Argument(metavar="INPUT", help="Bundle, directory, file or - with a dump. Default: the current context."),
    ] = None,
    node: Node = None,
    output: Output = Format.table,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show every device by physical identity: which stack advertises it, and who holds it. Reads only.

    \b
    regauge inventory estate.zip            with nodes' own records: devices of device plugins, too
    regauge inventory                       the current kube context: what DRA publishes, and counts
    regauge inventory estate.zip --node gpu-3 -o json

    What only a kubelet knows is unknown without a record of its node (`regauge collect node`), and said so.
    The exit code is 1 when both stacks advertise one device.
    """
    from regauge.collect import reports_of
    from regauge.inventory import take_inventory

    estate = read_estate(input_, kubeconfig, context)
    found = take_inventory(estate.snapshot, reports_of(estate))
    wanted = frozenset(node or ()) or None
    if output is Format.table:
        tell_skipped(estate)
        _print(found, wanted)
    else:
        print_document(_document(found, estate, wanted), output)
    raise typer.Exit(1 if any(map(_twice, _devices(found, wanted))) else 0)


def _devices(found: Inventory, wanted: frozenset[str] | None) -> list[EstateDevice]:
    shown = [device for device in found.devices if wanted is None or device.node in wanted]
    return sorted(shown, key=lambda device: (device.node, device.identity))


def _print(found: Inventory, wanted: frozenset[str] | None) -> None:
    devices = _devices(found, wanted)
    if devices:
        columns = ("NODE", "DEVICE", "ADVERTISED BY", "AS", "HELD BY", "")
        print_table(columns, [_row(device) for device in devices])
        tell()
    unseen = [item for item in found.unseen if wanted is None or item.node in wanted]
    if unseen:
        rows = [(item.node, item.resource_name, str(item.capacity), str(item.requested), "unknown") for item in unseen]
        print_table(("NODE", "COUNTED", "DEVICES", "ASKED FOR", "WHICH ONES"), rows)
        tell()
    twice = sum(map(_twice, devices))
    held = sum(bool(device.holders) for device in devices)
    tell(f"{len(devices)} devices told apart, {held} of them held, {twice} advertised twice.")
    if unseen:
        total = sum(item.capacity for item in unseen)
        say(f"{total} counted on nodes without a record: which devices these are, and who holds which, is not known.")
        say("Next: regauge collect node on them (deploy/collect/nodes.yaml), then regauge collect --nodes DIR.")


def _row(device: EstateDevice) -> tuple[str, ...]:
    stacks = sorted(stack.value for stack in device.stacks)
    sick = any(not item.healthy for item in device.advertisements)
    notes = [*(["advertised twice"] if _twice(device) else []), *(["unhealthy or tainted"] if sick else [])]
    return (
        device.node or "-",
        device.identity,
        " AND ".join(stacks),
        ", ".join(_title(item) for item in device.advertisements),
        ", ".join(device.holders) or "-",
        ", ".join(notes),
    )


def _twice(device: EstateDevice) -> bool:
    return len({item.source for item in device.advertisements}) > 1


def _title(item: Advertisement) -> str:
    return item.name if item.stack.value == "dra" else f"{item.source} {item.name}"


def _document(found: Inventory, estate: Estate, wanted: frozenset[str] | None) -> dict[str, Any]:
    unseen = frozenset(found.unseen)
    return {
        "schema": SCHEMA,
        "source": estate.source,
        "devices": [
            {
                "node": device.node,
                "identity": device.identity,
                "stacks": sorted(stack.value for stack in device.stacks),
                "advertisedTwice": _twice(device),
                "holders": list(device.holders),
                "advertisements": [
                    {
                        "stack": item.stack.value,
                        "source": item.source,
                        "name": item.name,
                        "identity": dict(item.identity),
                        "holders": list(item.holders),
                        "healthy": item.healthy,
                    }
                    for item in device.advertisements
                ],
            }
            for device in _devices(found, wanted)
        ],
        "counted": [
            {
                "node": item.node,
                "resource": item.resource_name,
                "capacity": item.capacity,
                "allocatable": item.allocatable,
                "requested": item.requested,
                "seen": item not in unseen,
            }
            for item in found.counted
            if wanted is None or item.node in wanted
        ],
        "notRead": [{"what": item.what, "why": item.why} for item in estate.skipped],
    }
