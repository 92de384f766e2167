"""Benchmarks. Each module here has `run() -> list[Row]`; `python -m bench [NAME ...]` runs them and prints a table."""

from typing import TypeAlias

# (what, seconds of ours, seconds of the peer or None when there is no peer on this machine)
Row: TypeAlias = tuple[str, float, float | None]
