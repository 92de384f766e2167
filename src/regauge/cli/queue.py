"""`regauge queue check` and `regauge queue shapes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.ending import in_words
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, Output, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import From, Input, read_input

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.collect import Estate
    from regauge.model import Rules, Snapshot
    from regauge.scheduler import QueueCheck, QueueDifference

MOST_ROWS = 60
MOST_OF_A_CAUSE = 8

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Kueue's queues: what is charged, what is really held, and which requests can be admitted at all.",
)


def _print_schema(wanted: bool) -> None:
    if wanted:
        from regauge.cli.queue_document import json_schema

        print_document(json_schema(), Format.json)
        raise typer.Exit


def check_command(
    source: Input = None,
    from_: From = None,
    kueue_config: Annotated[
        str | None,
        typer.Option(
            "--kueue-config", metavar="FILE", help="Kueue's Configuration, or its ConfigMap, where the input has none."
        ),
    ] = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Print the JSON Schema of -o json, and end.", is_eager=True, callback=_print_schema
        ),
    ] = False,
) -> None:
    """Compare what each queue is charged with the devices that its pods hold, and name the cause of a difference. Reads only.

    \b
    regauge queue check                        the current kube context
    regauge queue check DIR -o json
    regauge queue check DIR --kueue-config kueue.yaml

    Ends with 1 when there is a difference, else with 0. Notices and workloads that wait are no differences.
    """
    estate = read_input(source, from_, kubeconfig, context)
    rules = rules_of(estate, kube_version, feature_gates)
    import random

    from regauge.scheduler import as_stored, check_queues

    found = check_queues(as_stored(_with_configuration(estate.snapshot, kueue_config)), rules, random.Random(0))
    if output is Format.table:
        tell_skipped(estate)
        if found.rows and not estate.snapshot.documents(("kueue.x-k8s.io", "Workload")):
            say("note: there is no Workload in the input; what queues are charged is taken from those")
        _print(found)
        _say_versions(found, estate, rules)
    else:
        from regauge.cli.queue_document import queue_document

        print_document(queue_document(found, estate, rules), output)
    if not found.good:
        raise typer.Exit(1)


def shapes_command(output: Output = Format.table) -> None:
    """Print which requests Kueue refuses, in which words, and what to do instead.

    \b
    regauge queue shapes
    """
    import msgspec

    from regauge.scheduler import kueue_shapes

    if output is not Format.table:
        document = {
            "schema": "regauge.queue-shapes/v1",
            "kueue": _version(),
            "shapes": msgspec.to_builtins(kueue_shapes()),
        }
        print_document(document, output)
        return
    rows = ((one.shape, "looks again" if one.retried else "stays", one.means, one.text) for one in kueue_shapes())
    print_table(("SHAPE", "THEN", "WHAT TO DO", "KUEUE SAYS"), rows)


app.command("check")(in_words(check_command))
app.command("shapes")(in_words(shapes_command))


def _version() -> str:
    from regauge.scheduler import kueue_version

    return kueue_version()


def _with_configuration(snapshot: Snapshot, place: str | None) -> Snapshot:
    """The snapshot with the configuration in place of any that it has."""
    if place is None:
        return snapshot
    from regauge.base import InputError
    from regauge.collect import load_estate
    from regauge.model import Snapshot
    from regauge.scheduler import kueue_documents

    given = kueue_documents(load_estate(place).snapshot)
    if not given:
        raise InputError(
            f"{place} has no Configuration of config.kueue.x-k8s.io",
            fix="give the file that Kueue starts with, or the ConfigMap that has it",
        )
    before = {id(one) for one in kueue_documents(snapshot)}
    return Snapshot.of([*(one for one in snapshot.all_documents() if id(one) not in before), *given])


# -- for people


def _say_versions(found: QueueCheck, estate: Estate, rules: Rules) -> None:
    """The versions that were gone by, and each gate that decides with its stage."""
    from regauge.cli.queue_document import gates_of

    say(f"{estate.source}: Kubernetes {rules.minor}, Kueue's rules as of {_version()}.")
    gates = (f"{one.gate} {one.stage}, {'on' if one.on else 'off'}" for one in gates_of(found, rules))
    say(f"Gates: {'; '.join(gates)}.")


def _print(found: QueueCheck) -> None:
    if not found.rows and not found.waiting:
        tell("There are no ClusterQueues: nothing is charged.")
        _print_quota_keys(found)
        _print_differences(found.differences)
        return
    rows = [
        (one.queue, one.flavor or "-", one.resource, *map(str, (one.quota, one.charged, one.held)), _word(one.agrees))
        for one in found.rows
    ]
    print_table(("QUEUE", "FLAVOR", "RESOURCE", "QUOTA", "CHARGED", "HELD", "BOOKS"), rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        tell(f"and {len(rows) - MOST_ROWS} more; -o json has them all")
    _print_flavors(found)
    if found.classes:
        tell()
        print_table(
            ("CLASS", "CHARGED AS", "DEVICES", "USED", "FREE"),
            (
                (
                    one.name,
                    one.charged_as or "(not mapped)",
                    str(one.devices),
                    str(one.used),
                    one.error or str(one.free),
                )
                for one in found.classes
            ),
        )
    _print_quota_keys(found)
    _print_waiting(found)
    _print_steps(found)
    _print_differences(found.differences)
    tell()
    count = sum(not one.notice for one in found.differences)
    tell("The books agree." if found.good else f"The books do not agree: {count} differences, each with its cause.")


def _print_flavors(found: QueueCheck) -> None:
    """From queue, flavor and resource to the classes behind it, with their devices on the flavor's nodes."""
    rows = [
        (
            one.queue,
            one.flavor,
            one.resource,
            item.name or "(device plugin)",
            str(item.devices),
            str(item.used),
            item.error or str(item.free),
        )
        for one in found.rows
        for item in one.classes
    ]
    if rows:
        tell()
        print_table(("QUEUE", "FLAVOR", "RESOURCE", "CLASS", "DEVICES THERE", "USED", "FREE"), rows[:MOST_ROWS])
        if len(rows) > MOST_ROWS:
            tell(f"and {len(rows) - MOST_ROWS} more; -o json has them all")


def _print_steps(found: QueueCheck) -> None:
    """Workloads of which one step passes and the other does not."""
    rows = [
        (
            one.workload,
            one.quota,
            f"{one.devices} ({one.placed} of {one.pods})",
            one.gap,
            one.quota_why or one.devices_why,
        )
        for one in found.steps
        if one.gap
    ]
    if rows:
        tell()
        print_table(("WORKLOAD", "QUOTA", "DEVICES", "GAP", "WHY"), rows[:MOST_ROWS])
        if len(rows) > MOST_ROWS:
            tell(f"and {len(rows) - MOST_ROWS} more; -o json has them all")


def _word(agrees: bool) -> str:
    return "agree" if agrees else "DIFFER"


def _print_quota_keys(found: QueueCheck) -> None:
    if found.quota_keys:
        tell()
        print_table(
            ("RESOURCEQUOTA", "KEY", "HARD", "USED", "COUNTED", "HELD", "CLASSES"),
            (
                (
                    f"{one.namespace}/{one.quota}",
                    one.key,
                    one.hard,
                    one.used or "-",
                    str(one.counted),
                    str(one.held),
                    ", ".join(one.classes) or "(none)",
                )
                for one in found.quota_keys
            ),
        )


def _print_waiting(found: QueueCheck) -> None:
    if found.waiting:
        tell()
        print_table(
            ("WAITS", "QUEUE", "WOULD BE CHARGED", "WHY", "WHAT TO DO"),
            (
                (
                    one.workload,
                    one.queue or "-",
                    ", ".join(f"{value} {name}" for name, value in sorted(one.charge.items())) or "-",
                    one.foretold,
                    one.means or "-",
                )
                for one in found.waiting
            ),
        )


def _print_differences(differences: Iterable[QueueDifference]) -> None:
    """Those of one cause together: the evidence of each, then why and what to do."""
    by_cause: dict[str, list[QueueDifference]] = {}
    for one in differences:
        by_cause.setdefault(one.code, []).append(one)
    for code, ones in sorted(by_cause.items(), key=lambda item: item[1][0].notice):
        tell()
        tell(f"{'notice: ' if ones[0].notice else ''}{code}: {ones[0].why}")
        for one in ones[:MOST_OF_A_CAUSE]:
            whose = f", {one.workload}" if one.workload else ""
            tell(f"  {one.resource} in {one.queue or '-'}{whose}: {one.text}")
        if len(ones) > MOST_OF_A_CAUSE:
            tell(f"  and {len(ones) - MOST_OF_A_CAUSE} more")
        tell(f"  fix: {ones[0].fix}")
