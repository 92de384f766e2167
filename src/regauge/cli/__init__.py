"""The command line: one file per verb, parsing and printing only."""

from regauge.cli.app import main

__all__ = ["main"]
