"""`regauge features`: which feature is where in which Kubernetes minor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from regauge.features import FeatureRow, Stage

Output = Literal["table", "json"]


def command(
    kube_version: Annotated[
        str | None, typer.Option("--kube-version", metavar="VERSION", help="Only this Kubernetes minor, such as 1.36.")
    ] = None,
    feature: Annotated[
        str | None,
        typer.Option("--feature", metavar="NAME", help="Only this feature: its name, KEP number or gate."),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = "table",
) -> None:
    """Device features by Kubernetes minor: KEP, gate, stage, default, and whether the gate is locked.

    Without options the whole table is printed. With --feature also the fields and components it concerns, what to
    know about it, and where each statement comes from.
    """
    from regauge.features import feature_rows

    rows = feature_rows(kube_version, feature)
    if output == "json":
        typer.echo(as_json(rows))
    else:
        print_table(rows, details=feature is not None)


def as_json(rows: tuple[FeatureRow, ...]) -> str:
    """The rows as a JSON document."""
    import msgspec

    from regauge.base import pretty_json

    return pretty_json({"features": msgspec.to_builtins(rows)})


def cell(stage: Stage | None) -> str:
    """A gate in one minor, in few words: "beta on", "alpha off", "stable locked on", "-"."""
    if stage is None:
        return "-"
    return f"{stage.stage}{' locked' if stage.locked else ''} {'on' if stage.default else 'off'}"


def print_table(rows: tuple[FeatureRow, ...], *, details: bool) -> None:
    """The rows as a table on standard output, then what else is known where one feature was asked for."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("FEATURE", "KEP", "GATE", *rows[0].stages):
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = [cell(stage) for stage in row.stages.values()]
        table.add_row(row.feature, str(row.kep), row.gate or "(none)", *cells)
    console.print(table)
    if details:
        for line in detail_lines(rows):
            console.print(line, markup=False)


def detail_lines(rows: tuple[FeatureRow, ...]) -> list[str]:
    """What the table has no room for, about the one feature that the rows share."""
    first = rows[0]
    lines = ["", f"{first.feature}: {first.title}"]
    lists: list[tuple[str, Any]] = [
        ("components", first.components),
        ("fields", first.fields),
        ("planned", [f"{stage} {minor}" for stage, minor in first.planned.items()]),
        ("to know", first.remarks),
        ("sources", dict.fromkeys(source for row in rows for source in row.sources)),
    ]
    for row in rows:
        if row.depends_on:
            lists.insert(0, (f"{row.gate} needs", row.depends_on))
    for name, values in lists:
        lines.extend(f"  {name}: {value}" for value in values)
    return lines
