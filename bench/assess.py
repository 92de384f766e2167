"""The assessment of a large estate, the whole program from its start to its answer; then the plan of it, and a bundle of it
with names replaced. The processor's time is held against a limit, and so is the peak of memory: on a busy machine the time by
the clock says more of the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import Row
from bench._estate import write_estate

PODS, NODES = 100_000, 5_000
LIMIT_S, LIMIT_MIB = 30.0, 1536
SOURCES = (
    "--source=nvidia.com/gpu=gpu-system/nvidia-device-plugin",
    "--source=gpu.nvidia.com=gpu-system/nvidia-dra-driver",
)
MEASURED = """
import resource
from regauge.cli.app import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open({told!r}, "w") as out:
        print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=out)
"""


@dataclass(frozen=True)
class Run:
    """One run of the program: how long, the processor's time of it, the peak of its memory, what it printed."""

    took_s: float
    processor_s: float
    peak_mib: float
    out: str

    @property
    def note(self) -> str:
        return f"{self.processor_s:.1f} s of the processor, {self.peak_mib:.0f} MiB"


def measured(place: Path, *arguments: str) -> Run:
    """Run the program. Raises `RuntimeError` with its words where it fails."""
    told = place / "told"
    command = [sys.executable, "-c", MEASURED.format(told=str(told)), *arguments]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    processor_s, peak_kib = map(float, told.read_text().split())
    return Run(took_s, processor_s, peak_kib / 1024, done.stdout)


def rows(pods: int, nodes: int, slack: float = 1.0) -> Iterator[Row]:
    """Rows for an estate of that size, held against the limits times `slack`."""
    with tempfile.TemporaryDirectory(prefix="rg-bench-") as name:
        place = Path(name)
        estate = place / "estate.zip"
        write_estate(estate, pods, nodes)
        size = f"{pods:,} pods, {nodes:,} nodes"
        run = measured(place, "assess", str(estate), "-o", "json")
        found = json.loads(run.out)
        wrong = run.processor_s > slack * LIMIT_S or run.peak_mib > slack * LIMIT_MIB or not found["workloads"]
        limit = f"{run.note}; {'limit missed: ' if wrong else 'limit '}{LIMIT_S:g} s, {LIMIT_MIB} MiB"
        yield Row(f"assess, {size}", run.took_s, None, limit, wrong)
        for what, arguments in (
            ("assess as a page", ("assess", str(estate), "-o", "html")),
            ("plan", ("plan", str(estate), *SOURCES, "-o", "json")),
            ("collect --anonymise", ("collect", "--from", str(estate), "-o", str(place / "b.zip"), "--anonymise")),
        ):
            run = measured(place, *arguments)
            yield Row(f"{what}, {size}", run.took_s, None, run.note)


def run() -> Iterator[Row]:
    """The rows of the table."""
    return rows(PODS, NODES)
