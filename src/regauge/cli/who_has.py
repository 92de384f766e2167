"""`regauge who-has`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import Context, Kubeconfig
from regauge.cli.output import say, tell
from regauge.cli.reading import From
from regauge.cli.view_output import ViewFormat, print_columns, print_view_document
from regauge.cli.view_reading import (
    Asked,
    Everywhere,
    InNamespace,
    NodesDir,
    NoHeaders,
    ViewOutput,
    read_seen,
    tell_gaps,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.cli.view_reading import Seen
    from regauge.observe import Holding
    from regauge.observe.devices_view import CountedLine
    from regauge.observe.who_has import Found, PodHas, WhoHas

SCHEMA = "regauge.who-has/v1"
COLUMNS = ("NODE", "DEVICE", "STATE", "HELD BY", "CONTAINER", "AS", "CLAIM", "SINCE")
WIDE = ("ID", "REQUEST", "WORKLOAD", "HEALTH")


def command(
    device: Annotated[
        str | None,
        typer.Argument(
            metavar="[DEVICE]", help="driver/pool/device, pool/device, a name, UUID, PCI address or plugin id."
        ),
    ] = None,
    from_: From = None,
    pod: Annotated[
        str | None, typer.Option("--pod", metavar="NAME", help="The other way round: what this pod has.")
    ] = None,
    namespace: InNamespace = None,
    everywhere: Everywhere = False,
    output: ViewOutput = ViewFormat.table,
    no_headers: NoHeaders = False,
    nodes: NodesDir = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell who has a device, by any of its names, and what is known of who had it; or what a pod has. Reads only.

    \b
    regauge who-has GPU-8f2c9a10-...               by UUID, or the beginning of it
    regauge who-has 0000:65:00.0                   by PCI address
    regauge who-has canary-0/gpu-3                 by pool and device
    regauge who-has --pod trainer-0 -n team-a      what a pod has
    regauge who-has gpu-3 --from estate.zip -o json

    Ends with 1 when there is no such device (near names are told) or no such pod has any; a device that nobody has is 0.
    """
    if (device is None) == (pod is None):
        raise typer.BadParameter("give a DEVICE, or --pod NAME")
    from regauge.model.kinds import DEVICE_TAINT_RULE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE

    asked = Asked(None, from_, kubeconfig, context, namespace, everywhere, nodes)
    seen = read_seen(asked, (NODE, POD, RESOURCE_SLICE, RESOURCE_CLAIM, DEVICE_TAINT_RULE))
    shown = _Shown(seen, output, no_headers)
    good = shown.device(device) if device is not None else shown.pod(pod or "")
    if not good:
        raise typer.Exit(1)


class _Shown:
    """An answer, in the form that is asked for. Methods say whether it is good."""

    def __init__(self, seen: Seen, output: ViewFormat, no_headers: bool) -> None:
        from regauge.collect import reports_of
        from regauge.observe import correlate
        from regauge.observe.devices_view import view_devices

        self._seen, self._output, self._headers = seen, output, not no_headers
        reports = reports_of(seen.estate)
        self._known = correlate(seen.estate.snapshot, reports)
        self._view = view_devices(seen.estate.snapshot, reports, known=self._known)

    # -- a device

    def device(self, name: str) -> bool:
        from regauge.observe.who_has import counted_of, who_has

        answer = who_has(name, self._view, self._seen.estate.snapshot, self._known)
        counted = counted_of(self._view, name) if not answer.found else ()
        if self._output is ViewFormat.name:
            for holder in dict.fromkeys(_name(one) for found in answer.found for one in found.device.holders):
                tell(holder)
        elif not self._output.is_table:
            print_view_document(_device_document(answer, counted, self._seen), self._output)
        else:
            self._print_devices(answer, counted)
        return bool(answer.found or counted)

    def _print_devices(self, answer: WhoHas, counted: Sequence[CountedLine]) -> None:
        tell_gaps(self._seen)
        if counted:
            self._print_counted(counted)
            return
        if not answer.found:
            say(f"There is no device {answer.asked}.")
            if answer.near:
                say(f"Near names: {', '.join(answer.near)}")
            elif self._view.counted:
                say(
                    "Devices that plugins only count have no names here: which is whose is decided by the node's kubelet."
                )
            return
        wide = self._output is ViewFormat.wide
        columns = (*COLUMNS, *WIDE) if wide else COLUMNS
        rows = [row[: len(columns)] for found in answer.found for row in self._rows(found)]
        print_columns(columns, rows, headers=self._headers)
        for found in answer.found:
            for text in (*found.device.trouble, *found.hints):
                tell(f"note: {found.device.name}: {text}")

    def _rows(self, found: Found) -> list[tuple[str, ...]]:
        from regauge.observe.who_has import held_as

        line = found.device
        health = "; ".join(line.trouble) or "ok"
        nobody = ("nobody", "", "", "", "", line.physical_id, "", "", health)
        start = (line.node or "-", line.name, line.state.value)
        holders = (*line.holders, *line.admins)
        return [
            (
                *start,
                *_who(one, held_as(one), self._seen.now_s),
                line.physical_id,
                one.request,
                str(one.workload),
                health,
            )
            for one in holders
        ] or [(*start, *nobody)]

    def _print_counted(self, counted: Sequence[CountedLine]) -> None:
        from regauge.observe.devices_view import NOT_VISIBLE

        rows = [
            (line.node, line.resource, f"pod/{asker.namespace}/{asker.pod}", str(asker.count))
            for line in counted
            for asker in line.askers
        ]
        print_columns(("NODE", "COUNTED", "ASKED FOR BY", "COUNT"), rows, headers=self._headers)
        tell(f"note: {NOT_VISIBLE}; a record of the node has it (regauge collect node)")

    # -- a pod

    def pod(self, name: str) -> bool:
        from regauge.observe.who_has import pod_has
        from regauge.scheduler import find_named

        found = find_named(
            "Pod", self._seen.estate.snapshot.pods, name, self._seen.namespace if "/" not in name else ""
        )
        answer = pod_has(found, self._view, self._seen.estate.snapshot, self._known)
        if self._output is ViewFormat.name:
            for device in dict.fromkeys("/".join(one.key) for one in answer.holdings):
                tell(device)
        elif not self._output.is_table:
            print_view_document(_pod_document(answer, self._seen), self._output)
        else:
            self._print_pod(answer)
        return bool(answer.holdings or answer.counted)

    def _print_pod(self, answer: PodHas) -> None:
        from regauge.observe.devices_view import NOT_VISIBLE
        from regauge.observe.who_has import held_as

        tell_gaps(self._seen)
        where = f" on {answer.node}" if answer.node else ""
        state = f"Pod {answer.namespace}/{answer.pod} ({answer.state}{where})"
        if answer.holdings:
            rows = [
                (
                    "/".join(one.key) if one.driver else f"{one.resource} {one.device}",
                    one.container or "-",
                    held_as(one),
                    one.claim or "-",
                    one.request or "-",
                    one.physical_id if one.physical_id != one.device else "-",
                )
                for one in answer.holdings
            ]
            columns = ("DEVICE", "CONTAINER", "AS", "CLAIM", "REQUEST", "ID")
            print_columns(columns, rows, headers=self._headers)
        for resource, count in answer.counted:
            tell(f"note: {state} has {count} {resource}: {NOT_VISIBLE}")
        for claim in answer.waits_for:
            tell(f"note: {state} waits for claim {claim}; regauge explain claim {answer.namespace}/{claim} tells why")
        if not (answer.holdings or answer.counted):
            say(f"{state} has no devices.")


def _who(one: Holding, held: str, now_s: float | None) -> tuple[str, ...]:
    from regauge.base import human_duration

    since = "" if one.since_s is None or now_s is None else human_duration(now_s - one.since_s)
    return (_name(one), one.container or "-", held, one.claim or "-", since)


def _name(one: Holding) -> str:
    return f"pod/{one.namespace}/{one.pod}" if one.pod else f"claim/{one.namespace}/{one.claim}"


def _device_document(answer: WhoHas, counted: Sequence[CountedLine], seen: Seen) -> dict[str, Any]:
    from regauge.cli.devices_document import device_document, moment, not_read

    return {
        "schema": SCHEMA,
        "source": seen.estate.source,
        "asOf": moment(seen.now_s),
        "asked": answer.asked,
        "found": [{"device": device_document(one.device), "hints": list(one.hints)} for one in answer.found],
        "counted": [
            {
                "node": line.node,
                "resource": line.resource,
                "askers": [{"namespace": a.namespace, "pod": a.pod, "count": a.count} for a in line.askers],
            }
            for line in counted
        ],
        "near": list(answer.near),
        "notRead": not_read(seen),
    }


def _pod_document(answer: PodHas, seen: Seen) -> dict[str, Any]:
    from regauge.cli.devices_document import holding_document, moment, not_read

    return {
        "schema": SCHEMA,
        "source": seen.estate.source,
        "asOf": moment(seen.now_s),
        "pod": {
            "namespace": answer.namespace,
            "name": answer.pod,
            "node": answer.node,
            "state": answer.state,
            "devices": [
                {"name": "/".join(one.key), "uuid": one.uuid, "pci": one.pci, **holding_document(one)}
                for one in answer.holdings
            ],
            "counted": [{"resource": resource, "count": count} for resource, count in answer.counted],
            "waitsFor": list(answer.waits_for),
        },
        "notRead": not_read(seen),
    }
