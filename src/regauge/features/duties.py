"""Who does what between a device and a container: a packaged table, each cell with the tests that show it. Pure."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from regauge.base.pages import Block, Grid, Heading, Lines, Paragraph

NO_PART = "-"


class Duty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one component has to do with one duty. `by`: who of it does it, "" when it has no part. `proof`: tests."""

    by: str
    how: str
    proof: tuple[str, ...]


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of the table of duties."""

    id: str
    title: str


class DutyRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A duty on the way from a device to a container. `missing`: what follows when nobody does it."""

    id: str
    layer: str
    what: str
    missing: str
    cells: dict[str, Duty]


class DutyTable(msgspec.Struct, frozen=True):
    """All duties of all components."""

    components: tuple[Component, ...]
    duties: tuple[DutyRow, ...]


@cache
def duty_table() -> DutyTable:
    """Who discovers, advertises, selects, binds, prepares, injects, admits and reclaims."""
    return msgspec.json.decode((files("regauge.features") / "data/duties.json").read_bytes(), type=DutyTable)


def duty_blocks() -> tuple[Block, ...]:
    """The table of duties as a page, each cell with what it stands on."""
    table = duty_table()
    titles = {one.id: one.title for one in table.components}
    overview = Grid(
        ("duty", *titles.values()),
        tuple((row.what, *(row.cells[name].by or NO_PART for name in titles)) for row in table.duties),
    )
    blocks: list[Block] = [
        Paragraph("Layers: all."),
        Paragraph(
            "Who does what between a device and a container. A dash: the component has no part in it, whatever it holds or"
            " knows. Where a part is away its duty is not done, and nobody else does it. Printed by: regauge explain layers."
        ),
        overview,
    ]
    for row in table.duties:
        blocks += (
            Heading(f"{row.id}: {row.what}"),
            Paragraph(f"Layer: {row.layer}. When nobody does it: {row.missing}."),
            Grid(
                ("component", "by", "how", "shown by"),
                tuple(
                    (titles[name], cell.by or NO_PART, cell.how, Lines(cell.proof)) for name, cell in row.cells.items()
                ),
            ),
        )
    return tuple(blocks)
