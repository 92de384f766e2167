"""What each device API can do: a packaged table, need by need, each answer with the tests that show it. Pure."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from regauge.base.pages import Block, Grid, Heading, Lines, Paragraph

_BETTER = {"device-plugin": "device plugin", "dra": "DRA", "same": "-"}


class Ability(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one API answers to a need: yes, partly or no; how; and the tests that show it."""

    answer: str
    how: str
    proof: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A need, and both APIs' answers. `better`: device-plugin, dra, or same."""

    id: str
    layer: str
    what: str
    device_plugin: Ability
    dra: Ability
    better: str


class _Compared(msgspec.Struct, frozen=True):
    rows: tuple[Comparison, ...]


@cache
def comparison_rows() -> tuple[Comparison, ...]:
    """Device plugins and DRA, need by need."""
    return msgspec.json.decode((files("regauge.features") / "data/comparison.json").read_bytes(), type=_Compared).rows


def comparison_blocks() -> tuple[Block, ...]:
    """Both APIs, need by need, as a page, each answer with what it stands on."""
    rows = comparison_rows()
    wins = {name: sum(row.better == name for row in rows) for name in _BETTER}
    return (
        Paragraph("Layers: all."),
        Paragraph(
            f"What each API does today, up to Kubernetes 1.37. Of {len(rows)} needs {wins['device-plugin']} are served better"
            f" by device plugins, {wins['dra']} by DRA, {wins['same']} alike; which of them are yours decides. DRA's answers"
            " are those of Kubernetes: a driver may do less. Printed by: regauge features compare."
        ),
        Grid(
            ("need", "device plugin", "DRA", "better today"),
            tuple(
                (
                    row.what,
                    f"{row.device_plugin.answer}: {row.device_plugin.how}",
                    f"{row.dra.answer}: {row.dra.how}",
                    _BETTER[row.better],
                )
                for row in rows
            ),
        ),
        Heading("What each answer stands on"),
        Grid(
            ("need", "layer", "device plugin", "DRA"),
            tuple((row.what, row.layer, Lines(row.device_plugin.proof), Lines(row.dra.proof)) for row in rows),
        ),
    )
