"""`regauge devices`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, Kubeconfig
from regauge.cli.output import say, tell
from regauge.cli.reading import From, Input
from regauge.cli.view_output import ViewFormat, print_columns, print_view_document
from regauge.cli.view_reading import Asked, NodesDir, NoHeaders, ViewOutput, read_seen, tell_gaps

if TYPE_CHECKING:
    from regauge.cli.view_reading import Seen
    from regauge.observe.devices_view import DeviceLine, DevicesView

STATES = ("free", "held", "shared", "blocked", "gone", "counted", "trouble")


def _state_names(incomplete: str) -> list[str]:
    return [name for name in STATES if name.startswith(incomplete)]


Node = Annotated[list[str] | None, typer.Option("--node", metavar="NODE", help="On this node; repeatable.")]
Pool = Annotated[
    list[str] | None, typer.Option("--pool", metavar="POOL", help="In this pool of nodes, or of DRA; repeatable.")
]
Driver = Annotated[
    list[str] | None,
    typer.Option("--driver", metavar="NAME", help="Of this driver, or counted under this name; repeatable."),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        autocompletion=_state_names,
        help="free, held, shared, blocked, gone, counted, or trouble; repeatable.",
    ),
]
HolderNamespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Held or asked for from this namespace. Default: any.")
]
AnyNamespace = Annotated[bool, typer.Option("--all-namespaces", "-A", help="From all namespaces, as without.")]
NodeSelector = Annotated[
    str | None, typer.Option("--selector", "-l", metavar="LABELS", help="On nodes with these labels: a=b,c in (d,e).")
]


def command(
    source: Input = None,
    from_: From = None,
    node: Node = None,
    pool: Pool = None,
    driver: Driver = None,
    state: State = None,
    namespace: HolderNamespace = None,
    everywhere: AnyNamespace = False,
    selector: NodeSelector = None,
    output: ViewOutput = ViewFormat.table,
    no_headers: NoHeaders = False,
    nodes: NodesDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show devices as a tree: pools of nodes, nodes, devices of both stacks, and who holds them. Reads only.

    \b
    regauge devices                                   the current kube context
    regauge devices --state trouble -o wide           what is tainted, unhealthy, blocked or gone
    regauge devices -l node-pool=h100 --state free -o name
    regauge devices estate.zip -o json

    What a device plugin counts on a node without a record stays a count: which device is decided by the kubelet and is not
    visible from the API. Records are in bundles, or given with --nodes.
    """
    from regauge.cli.devices_table import device_rows
    from regauge.model.kinds import DEVICE_TAINT_RULE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE

    unknown = sorted(set(state or ()) - set(STATES))
    if unknown:
        raise typer.BadParameter(f"there is no state {unknown[0]}: {', '.join(STATES)}", param_hint="--state")
    asked = Asked(source, from_, kubeconfig, context, namespace, everywhere or namespace is None, nodes)
    seen = read_seen(asked, (NODE, POD, RESOURCE_SLICE, RESOURCE_CLAIM, DEVICE_TAINT_RULE))
    found = _wanted(view_of(seen), _Filter(seen, selector, node, pool, driver, state))
    if output is ViewFormat.name:
        for line in found.devices:
            tell(line.name.replace(" ", "/"))
        return
    if not output.is_table:
        from regauge.cli.devices_document import devices_document

        print_view_document(devices_document(found, seen), output)
        return
    tell_gaps(seen)
    columns, rows = device_rows(found, seen.now_s, wide=output is ViewFormat.wide)
    if not rows:
        say("No devices found.")
        return
    print_columns(columns, rows, headers=not no_headers)


def view_of(seen: Seen) -> DevicesView:
    """All devices of what was read."""
    from regauge.collect import reports_of
    from regauge.observe.devices_view import view_devices

    rules = None
    if seen.estate.gates:
        from regauge.cli.options import rules_of

        rules = rules_of(seen.estate, None, None)
    return view_devices(seen.estate.snapshot, reports_of(seen.estate), rules)


class _Filter:
    """Which lines are meant."""

    def __init__(
        self,
        seen: Seen,
        selector: str | None,
        nodes: list[str] | None,
        pools: list[str] | None,
        drivers: list[str] | None,
        states: list[str] | None,
    ) -> None:
        self.namespace = seen.namespace
        self.states = frozenset(states or ())
        self.pools, self.drivers = frozenset(pools or ()), frozenset(drivers or ())
        self._nodes = frozenset(nodes or ())
        self._labelled = _labelled(seen, selector) if selector is not None else None

    def place(self, node: str, *pools: str) -> bool:
        return (
            (not self._nodes or node in self._nodes)
            and (self._labelled is None or node in self._labelled)
            and (not self.pools or bool(self.pools & set(pools)))
        )

    def device(self, line: DeviceLine) -> bool:
        mine = (not self.namespace) or any(one.namespace == self.namespace for one in (*line.holders, *line.admins))
        words = {line.state.value, *(("trouble",) if line.trouble else ())}
        return (
            mine
            and self.place(line.node, line.node_pool, line.pool)
            and (not self.drivers or line.driver in self.drivers)
            and (not self.states or bool(self.states & words))
        )


def _labelled(seen: Seen, selector: str) -> frozenset[str]:
    from regauge.model import matches_requirement, parse_label_selector

    wanted = parse_label_selector(selector)
    return frozenset(
        node.metadata.name
        for node in seen.estate.snapshot.nodes
        if all(matches_requirement(one, node.metadata.labels or {}) for one in wanted)
    )


def _wanted(view: DevicesView, meant: _Filter) -> DevicesView:
    from dataclasses import replace

    counted = tuple(
        line
        for line in view.counted
        if (not meant.states or "counted" in meant.states)
        and meant.place(line.node, line.node_pool)
        and (not meant.drivers or line.resource in meant.drivers)
        and (not meant.namespace or any(one.namespace == meant.namespace for one in line.askers))
    )
    return replace(view, devices=tuple(filter(meant.device, view.devices)), counted=counted)
