"""`regauge features`: which feature is where in which Kubernetes minor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.output import Format, print_document, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.features import FeatureRow, Stage


def command(
    kube_version: Annotated[
        str | None, typer.Option("--kube-version", metavar="VERSION", help="Only this Kubernetes minor, such as 1.36.")
    ] = None,
    feature: Annotated[
        str | None,
        typer.Option(
            "--feature", metavar="NAME", help="Only this feature: its name, KEP number or gate, with details."
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")] = Format.table,
) -> None:
    """Print device features by Kubernetes minor: KEP, gate, stage, default, and whether the gate is locked.

    \b
    regauge features
    regauge features --kube-version 1.36
    regauge features --feature taints
    regauge features --feature KEP-5004 -o json
    """
    import msgspec

    from regauge.features import feature_rows

    rows = feature_rows(kube_version, feature)
    if output is not Format.table:
        print_document({"features": msgspec.to_builtins(rows)}, output)
        return
    print_table(
        ("FEATURE", "KEP", "GATE", *rows[0].stages),
        ((row.feature, str(row.kep), row.gate or "(none)", *map(cell, row.stages.values())) for row in rows),
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
    ]
    return [
        "",
        f"{first.feature}: {first.title}",
        *(f"  {name}: {value}" for name, values in details for value in values),
    ]
