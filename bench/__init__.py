"""Benchmarks. Each module here has `run() -> Iterable[Row]`, or `run(options)` where something can be chosen;
`python -m bench [NAME ...]` runs them and prints a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ORACLES = Path(__file__).resolve().parent.parent / ".cache" / "oracles"


class Options(NamedTuple):
    """How much is measured: `nodes` are the sizes of the clusters, `rounds` how often a measurement is repeated."""

    nodes: tuple[int, ...] = (100, 1000, 5000)
    rounds: int = 3


class Row(NamedTuple):
    """What was measured, and the seconds it took: ours, and the peer's or None when there is no peer for it.

    `wrong`: the peer answers otherwise, or a limit is missed; the row counts as failed.
    """

    what: str
    ours_s: float
    peer_s: float | None = None
    note: str = ""
    wrong: bool = False
