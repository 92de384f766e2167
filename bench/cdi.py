"""CDI: 1,000 spec files of 8 devices read into a catalog, and one injection; the peer is the reference library (Go).

The peer is asked for the same directories with and without work, so that starting it, and writing the files it reads,
count for nothing.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from bench import ORACLES, Row
from regauge.base import MemoryFiles
from regauge.cdi import (
    ContainerEdits,
    Device,
    DeviceNode,
    Mount,
    RecordedHost,
    Spec,
    inject,
    to_json,
    to_yaml,
    with_minimum_version,
)
from regauge.cdi.directory import SpecDirectories

ORACLE = ORACLES / "cdi"
Case = dict[str, Any]
FILES, DEVICES, ROUNDS = 1000, 8, 3


def spec(index: int) -> Spec:
    """One of the spec files: eight devices, each with an env, a node and a mount."""

    def device(number: int) -> Device:
        node = DeviceNode(path=f"/dev/acme{number}", host_path=f"/dev/acme{number}", type="c", major=195, minor=number)
        library = f"/usr/lib/libacme.so.{number}"
        mount = Mount(host_path=library, container_path=library, options=("ro", "nosuid", "nodev", "bind"))
        edits = ContainerEdits(env=(f"ACME_VISIBLE={number}",), device_nodes=(node,), mounts=(mount,))
        return Device(name=f"gpu{number}", container_edits=edits)

    devices = tuple(device(number) for number in range(DEVICES))
    return with_minimum_version(Spec(kind=f"acme{index}.com/gpu", devices=devices))


def median_s(work: Callable[[], object]) -> float:
    """The median of a few rounds, in seconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def oracle_s(case: Case, without: Case) -> float | None:
    """Seconds the reference takes for `case` beyond those for `without`; None when it is not built."""
    if not ORACLE.exists():
        return None

    def ask(question: Case) -> float:
        line = json.dumps(question)
        return median_s(lambda: subprocess.run([ORACLE], input=line, capture_output=True, text=True, check=True))

    return max(ask(case) - ask(without), 0.0)


def run() -> list[Row]:
    """Rows: reading all, JSON and YAML; reading again without a change; one injection of eight devices."""
    rows: list[Row] = []
    for kind, write in (("json", to_json), ("yaml", to_yaml)):
        files = MemoryFiles()
        files.make_directory("/run/cdi")
        contents = {f"{index:04}.{kind}": write(spec(index)) for index in range(FILES)}
        for name, data in contents.items():
            files.write(f"/run/cdi/{name}", data)
        texts = {name: data.decode() for name, data in contents.items()}
        # Under other names the reference writes the files and does not read them.
        unread = {"op": "list", "dirs": [{"files": {f"{name}.off": text for name, text in texts.items()}}]}
        peer = oracle_s({"op": "list", "dirs": [{"files": texts}]}, unread)
        ours = median_s(lambda files=files: SpecDirectories(files, ["/run/cdi"]).read())  # type: ignore[misc]
        rows.append(Row(f"read {FILES:,} {kind} files of {DEVICES} devices", ours, peer))
    directories = SpecDirectories(files, ["/run/cdi"])
    catalog = directories.read()
    rows.append(Row(f"read {FILES:,} files again, none changed", median_s(directories.read), None))
    names = [f"acme7.com/gpu=gpu{number}" for number in range(DEVICES)]
    document = {"process": {"user": {"uid": 0, "gid": 0}, "env": ["PATH=/bin"]}, "mounts": [], "linux": {}}
    host = RecordedHost({})
    # No peer: in the reference program one injection drowns in the writing and reading of its files.
    rows.append(Row(f"inject {DEVICES} devices", median_s(lambda: inject(document, names, catalog, host)), None))
    return rows
