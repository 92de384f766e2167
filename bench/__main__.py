"""Runs the benchmarks named on the command line, or all, and prints a table, for people or as Markdown."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import pkgutil
import platform
import sys
import time
from pathlib import Path

import bench
from bench import Options, Row


def main(arguments: list[str]) -> int:
    """0, or 1 when an answer is wrong or a limit is missed, 2 when a name is not a benchmark."""
    known = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))
    asked = _parser(known).parse_args(arguments)
    options = Options(tuple(asked.nodes or Options().nodes), asked.rounds)
    wrong, started_s = 0, time.monotonic()
    for name in asked.names or known:
        heading = f"{name:<62}{'regauge':>12}{'peer':>12}{'ratio':>8}"
        if asked.markdown:
            heading = f"\n| {name} | regauge | peer | ratio | |\n| --- | ---: | ---: | ---: | --- |"
        print(heading, flush=True)
        lines = [heading]
        run = importlib.import_module(f"bench.{name}").run
        for row in run(options) if inspect.signature(run).parameters else run():
            wrong += row.wrong
            lines.append(_as_markdown(row) if asked.markdown else _as_text(row))
            print(lines[-1], flush=True)
        measured = f"{_machine()}; {time.monotonic() - started_s:.0f} s"
        print("", measured, sep="\n")
        if asked.markdown:
            _put(asked.markdown, name, "\n".join([f"Measured on {measured}.", *lines]))
    return 1 if wrong else 0


def _put(page: Path, name: str, table: str) -> None:
    """Put a table into a page, in place of the one between the marks of its benchmark."""
    before, mark, rest = page.read_text().partition(f"<!-- bench {name} -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    if not end:
        raise SystemExit(f"{page}: there is no place for {name}: <!-- bench {name} --> and <!-- end -->")
    page.write_text(f"{before}{mark}{table}\n{end}{after}")


def _parser(known: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--nodes", type=int, action="append", metavar="N", help="size of a cluster; may be repeated")
    parser.add_argument("--rounds", type=int, default=Options().rounds, metavar="N", help="measurements of each kind")
    parser.add_argument(
        "--markdown", type=Path, metavar="PAGE", help="put the tables into a page as docs/benchmarks.md"
    )
    return parser


def _as_text(row: Row) -> str:
    return f"{row.what:<62}{_time(row.ours_s):>12}{_time(row.peer_s):>12}{_ratio(row):>8}  {row.note}".rstrip()


def _as_markdown(row: Row) -> str:
    return f"| {row.what} | {_time(row.ours_s)} | {_time(row.peer_s)} | {_ratio(row)} | {row.note} |"


def _time(value_s: float | None) -> str:
    if value_s is None:
        return "-"
    return f"{value_s:.2f} s" if value_s >= 1 else f"{value_s * 1000:.2f} ms"


def _ratio(row: Row) -> str:
    if not row.peer_s or row.wrong:
        return "-"
    ratio = row.ours_s / row.peer_s
    return f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.4f}"


def _machine() -> str:
    """The processor, and how busy the machine is: figures of a busy one are to be read as ratios."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    load = "/".join(f"{one:.1f}" for one in os.getloadavg())
    processor = f"{os.cpu_count()} x {names[0] if names else platform.machine()}"
    return f"{processor}, Python {platform.python_version()}, load average {load}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
