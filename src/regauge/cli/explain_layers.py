"""`regauge explain layers`: who does what between a device and a container."""

from __future__ import annotations

import typer

from regauge.cli.output import ReportFormat, print_document, print_report, print_table, tell

TITLE = "Who is responsible"
SCHEMA = "regauge.responsibilities/v1"


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
        return print_document({"schema": SCHEMA, **document}, output)
    titles = {one.id: one.title for one in table.components}
    if not names:
        rows = [(row.id, row.layer, *(row.cells[name].by or NO_PART for name in titles)) for row in chosen]
        print_table(("DUTY", "LAYER", *(title.upper() for title in titles.values())), rows)
        tell()
        tell("-: it has no part in it. How, and which tests show it: regauge explain layers DUTY, or -o json.")
        return None
    for row in chosen:
        tell(f"{row.id}: {row.what} (layer: {row.layer}). When nobody does it: {row.missing}.")
        cells = [(titles[name], cell.by or NO_PART, cell.how) for name, cell in row.cells.items()]
        print_table(("COMPONENT", "BY", "HOW"), cells)
        tell()
    return None
