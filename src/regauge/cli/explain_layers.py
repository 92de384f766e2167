"""`regauge explain layers` and `failures`: who does what between a device and a container, and what to do when one fails."""

from __future__ import annotations

import typer

from regauge.cli.output import ReportFormat, print_document, print_report, print_table, tell

TITLE = "Who is responsible"


def explain_layers(names: list[str], output: ReportFormat) -> None:
    """Print the table of duties: of all of them, or of those that are named."""
    import msgspec

    from regauge.features import NO_PART, duty_blocks, duty_table

    table = duty_table()
    known = [row.id for row in table.duties]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"there is no duty {unknown[0]}: {', '.join(known)}")
    if output in (ReportFormat.html, ReportFormat.markdown):
        return print_report(TITLE, duty_blocks(), output)
    chosen = [row for row in table.duties if not names or row.id in names]
    if output is not ReportFormat.table:
        document = {"components": msgspec.to_builtins(table.components), "duties": msgspec.to_builtins(chosen)}
        return print_document({"schema": "regauge.responsibilities/v1", **document}, output)
    titles = {one.id: one.title for one in table.components}
    if not names:
        rows = [(row.id, row.layer, *(row.cells[name].by or NO_PART for name in titles)) for row in chosen]
        print_table(("DUTY", "LAYER", *(title.upper() for title in titles.values())), rows)
        tell()
        tell("-: it has no part in it. How, and when nobody does it: regauge explain layers DUTY. The tests: -o json.")
        return None
    for row in chosen:
        tell(f"{row.id}: {row.what} (layer: {row.layer}). When nobody does it: {row.missing}.")
        cells = [(titles[name], cell.by or NO_PART, cell.how) for name, cell in row.cells.items()]
        print_table(("COMPONENT", "BY", "HOW"), cells)
        tell()
    return None


def explain_failures(names: list[str], output: ReportFormat) -> None:
    """Print the catalogue of failures, or what to do about those that are named."""
    import msgspec

    from regauge.rehearsal.catalogue import failure_named, failures, failures_page

    chosen = [failure_named(name) for name in names] or list(failures())
    if output is ReportFormat.markdown and not names:
        print(failures_page(), end="")
        return
    if output in (ReportFormat.html, ReportFormat.markdown):
        raise typer.BadParameter(f"{output} is not there for this; there is table, json, yaml, and markdown of all")
    if output is not ReportFormat.table:
        documents = [{**msgspec.to_builtins(one), "proof": one.proof} for one in chosen]
        print_document({"schema": "regauge.failures/v1", "failures": documents}, output)
    elif not names:
        print_table(("FAILURE", "LAYER", "WHAT FAILS"), [(one.id, one.layer, one.title) for one in chosen])
        tell()
        tell("What is seen, and what to do: regauge explain failures F-2")
    else:
        for one in chosen:
            tell(f"{one.id}: {one.title} (layer: {one.layer})")
            tell(f"  {one.inject}")
            for signal in one.signals:
                tell(f"  seen: {signal}")
            for number, step in enumerate(one.runbook, 1):
                tell(f"  {number}. {step.replace('`', '')}")
            tell(f"  try it: {one.injection.replace('`', '')}")
