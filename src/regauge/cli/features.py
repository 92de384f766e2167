"""`regauge features`: which feature is where in which Kubernetes minor, and how the two device APIs compare."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, Kubeconfig
from regauge.cli.output import ReportFormat, print_document, print_report, print_table, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.features import FeatureRow, Stage


class Show(StrEnum):
    """What is shown of the tables."""

    stages = "stages"
    watch = "watch"
    compare = "compare"
    support = "support"


class PolicyName(StrEnum):
    """What a team asks of a feature before it depends on it."""

    beta = "beta"
    stable = "stable"
    locked = "locked"


def command(
    show: Annotated[
        Show,
        typer.Argument(
            metavar="[stages|watch|compare|support]",
            help="stages: gates by minor. watch: what is not safe yet. compare: both APIs. support: by driver, of a cluster.",
        ),
    ] = Show.stages,
    input_: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help="For support: as assess takes it. Default: the context.")
    ] = None,
    kube_version: Annotated[
        str | None, typer.Option("--kube-version", metavar="VERSION", help="Only this Kubernetes minor, such as 1.36.")
    ] = None,
    feature: Annotated[
        str | None,
        typer.Option(
            "--feature", metavar="NAME", help="Only this feature: its name, KEP number or gate, with details."
        ),
    ] = None,
    policy: Annotated[
        PolicyName | None,
        typer.Option(
            "--policy", help="Say from which minor on each is safe: beta and on, stable and on, or locked on."
        ),
    ] = None,
    platform: Annotated[
        str | None, typer.Option("--platform", metavar="NAME", help="On a managed control plane: eks.")
    ] = None,
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="table, json or yaml; of compare also html, markdown.")
    ] = ReportFormat.table,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print device features by Kubernetes minor: KEP, gate, stage, default, and whether the gate is locked.

    \b
    regauge features
    regauge features --kube-version 1.36
    regauge features --feature taints
    regauge features --feature KEP-5004 -o json
    regauge features --policy stable          from which minor on each may be depended on
    regauge features watch --kube-version 1.36
    regauge features --platform eks --kube-version 1.36
    regauge features compare                  device plugins and DRA, need by need
    regauge features support estate.zip       what is there with each driver: version, gate, and what it shows
    """
    _check(show, input_, output)
    if show is Show.compare:
        return _compare(output)
    if show is Show.support:
        from regauge.cli.features_support import Of, support

        return support(Of(input_, kubeconfig, context, kube_version), output)
    if show is Show.watch:
        return _watch(kube_version, policy or PolicyName.stable, output)
    if platform is not None:
        return _platform(platform, kube_version, output)
    return _stages(kube_version, feature, policy, output)


def _check(show: Show, input_: str | None, output: ReportFormat) -> None:
    if input_ is not None and show is not Show.support:
        raise typer.BadParameter(f"{show} looks at no cluster: leave {input_} out")
    if output in (ReportFormat.html, ReportFormat.markdown) and show is not Show.compare:
        raise typer.BadParameter(f"{output} is for compare; of the others there is table, json and yaml")


def _stages(kube_version: str | None, feature: str | None, policy: PolicyName | None, output: ReportFormat) -> None:
    import msgspec

    from regauge.features import Policy, feature_rows, safe_minors

    rows = feature_rows(kube_version, feature)
    safe = safe_minors(Policy(policy.value)) if policy else {}
    if output is not ReportFormat.table:
        documents = msgspec.to_builtins(rows)
        for document in documents if policy else ():
            document["safeFrom"] = safe.get(document["gate"])
        print_document({"features": documents}, output)
        return
    more = ("SAFE FROM",) if policy else ()
    print_table(
        ("FEATURE", "KEP", "GATE", *rows[0].stages, *more),
        (
            (
                row.feature,
                str(row.kep),
                row.gate or "(none)",
                *map(cell, row.stages.values()),
                *((safe.get(row.gate or "") or "-",) if policy else ()),
            )
            for row in rows
        ),
    )
    if feature is not None:
        for line in detail_lines(rows):
            print(line)


def cell(stage: Stage | None) -> str:
    """A gate in one minor, in few words: "beta on", "alpha off", "stable locked on", "-"."""
    if stage is None:
        return "-"
    return f"{stage.stage}{' locked' if stage.locked else ''} {'on' if stage.default else 'off'}"


def detail_lines(rows: tuple[FeatureRow, ...]) -> list[str]:
    """What the table has no room for, about the one feature that the rows share."""
    first = rows[0]
    details: list[tuple[str, Iterable[str]]] = [
        *((f"{row.gate} depends on", row.depends_on) for row in rows),
        ("component", first.components),
        ("field", first.fields),
        ("planned", (f"{stage} in {minor}" for stage, minor in first.planned.items())),
        ("to know", first.remarks),
        ("source", dict.fromkeys(source for row in rows for source in row.sources)),
        ("announced", first.announced),
    ]
    return [
        "",
        f"{first.feature}: {first.title}",
        *(f"  {name}: {value}" for name, values in details for value in values),
    ]


def _watch(kube_version: str | None, policy: PolicyName, output: ReportFormat) -> None:
    import msgspec

    from regauge.features import DEFAULT_MINOR, Policy, watch_list

    minor = kube_version or DEFAULT_MINOR
    watched = watch_list(minor, Policy(policy.value))
    if output is not ReportFormat.table:
        document = {"kubeVersion": minor, "policy": policy.value, "watch": msgspec.to_builtins(watched)}
        return print_document({"schema": "regauge.watch-list/v1", **document}, output)
    rows = [
        (
            one.feature,
            one.gate,
            cell(one.now),
            one.safe_from or "-",
            ", ".join(f"{stage} in {when}" for stage, when in one.planned.items()) or "-",
            f"regauge verify pilots --only {one.pilot}" if one.pilot else "-",
        )
        for one in watched
    ]
    print_table(("FEATURE", "GATE", f"IN {minor}", "SAFE FROM", "PLANNED", "PILOT"), rows)
    tell()
    tell(f"Not {policy.value} and on in {minor}. Planned is what the KEP foresees, no promise.")
    return None


def _platform(name: str, kube_version: str | None, output: ReportFormat) -> None:
    import msgspec

    from regauge.features import DEFAULT_MINOR, facts_for, fixed_gates, platform_named

    platform, minor = platform_named(name), kube_version or DEFAULT_MINOR
    facts, off = facts_for(platform, minor), fixed_gates(minor)
    if output is not ReportFormat.table:
        document = {"platform": platform.id, "kubeVersion": minor, "gates": platform.gates}
        more = {"facts": msgspec.to_builtins(facts), "off": msgspec.to_builtins(off)}
        return print_document({"schema": "regauge.platform/v1", **document, **more}, output)
    tell(f"{platform.title}, Kubernetes {minor}: {platform.gates}")
    tell()
    print_table(("OFF, AND STAYS OFF", "STAGE"), [(gate, stage.stage) for gate, stage in sorted(off.items())])
    tell()
    for fact in facts:
        tell(f"- {fact.text} ({fact.source}, read {fact.read})")
    return None


def _compare(output: ReportFormat) -> None:
    import msgspec

    from regauge.features import comparison_blocks, comparison_rows

    rows = comparison_rows()
    if output in (ReportFormat.html, ReportFormat.markdown):
        return print_report("Device plugins and DRA compared", comparison_blocks(), output)
    if output is not ReportFormat.table:
        return print_document({"schema": "regauge.comparison/v1", "rows": msgspec.to_builtins(rows)}, output)
    print_table(
        ("NEED", "DEVICE PLUGIN", "DRA", "BETTER TODAY"),
        [(row.what, row.device_plugin.answer, row.dra.answer, row.better.replace("same", "-")) for row in rows],
    )
    tell()
    tell("How, and the tests that show it: regauge features compare -o markdown")
    return None
