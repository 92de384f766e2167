"""The driver beside a plugin in Go, over the kubelet's own interface, both driven in turn by one client in Go.

The peer answers a prepared claim from memory; for a new one it reads the claim from the same API server, and writes the
checkpoint, a CDI spec and the checkpoint again, each synced, as ours does. It checks, logs and measures nothing.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import ORACLES, Options, Row

PROGRAM = ORACLES / "plugin_peer"
DRIVER = "driver.example.com"
START_S = 120.0
FEW, SOME, MANY = 64, 2_000, 60_000
CONCURRENT = 1_000
SLICE = 128
AGAIN_LIMIT, NEW_LIMIT = 4.5, 3.0  # times the peer


def description(count: int, stack: str) -> str:
    about = {"apiVersion": "regauge.dev/v1alpha1", "kind": "Devices", "driver": DRIVER, "deviceKind": "mock"}
    more = {"resource": "example.com/widget", "discover": {"count": count}, "rules": [{"stack": stack}]}
    return json.dumps({**about, **more})


@dataclass(frozen=True)
class Place:
    """A kubelet's directory, an API server, our driver and the peer. `start_s` is how long ours took until it served."""

    root: Path
    count: int
    start_s: float

    def pair(self, test: str, calls: int, first: int = 0) -> tuple[dict[str, float], dict[str, float]]:
        """What the client measured on ours and on the peer, in microseconds."""
        ours = self.root / "k" / "plugins" / DRIVER / "dra.sock"
        if test == "list":
            ours = self.root / "k" / "device-plugins" / "example.com-widget.sock"
        command = [str(PROGRAM), "-mode=pair", f"-test={test}", f"-calls={calls}", f"-from={first}"]
        done = subprocess.run(
            [*command, f"-sock={ours}", f"-peer={self.root}/peer.sock"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{test}: {done.stderr}")
        found = json.loads(done.stdout)
        return found["ours"], found["peer"]


@contextlib.contextmanager
def place(count: int, stack: str) -> Iterator[Place]:
    """All of it running; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="rg-bench-") as name, contextlib.ExitStack() as running:
        root = Path(name)
        for directory in ("k", "peer"):
            (root / directory).mkdir()
        (root / "devices.yaml").write_text(description(count, stack))

        def start(*command: str, log: str = "none") -> subprocess.Popen[bytes]:
            with (root / log).open("wb") as out:
                process = running.enter_context(subprocess.Popen(command, stderr=out))
            running.callback(process.kill)
            return process

        api = f"{root}/api.sock"
        start(str(PROGRAM), "-mode=api", f"-sock={api}", f"-driver={DRIVER}", f"-devices={count}")
        peer = ("-mode=server", f"-sock={root}/peer.sock", f"-api={api}", f"-dir={root}/peer", f"-driver={DRIVER}")
        start(str(PROGRAM), *peer, f"-devices={count}")
        wait_for(lambda: (root / "api.sock").exists() and (root / "peer.sock").exists(), "the peer")
        begun = time.perf_counter()
        directories = (f"--kubelet-dir={root}/k", f"--cdi-dir={root}/cdi", f"--config={root}/devices.yaml")
        command = (sys.executable, "-m", "regauge", "driver", *directories, f"--api=unix:{api}", "--node=n1")
        process = start(*command, "--log=json", log="driver.log")
        log, code = root / "driver.log", '"code":"published"'
        socket = root / "k" / "device-plugins" / "example.com-widget.sock"

        def serves() -> bool:
            assert process.poll() is None, log.read_text()
            return code in log.read_text() if stack == "dra" else socket.exists()

        wait_for(serves, "the driver")
        yield Place(root, count, time.perf_counter() - begun)


def wait_for(look: object, what: str) -> None:
    assert callable(look)
    end = time.monotonic() + START_S
    while not look():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} does not serve within {START_S:g} s")
        time.sleep(0.01)


def beside(what: str, pair: tuple[dict[str, float], dict[str, float]], limit: float | None, key: str = "p50_us") -> Row:
    """A row of ours and the peer's; it is wrong when ours takes more than `limit` times the peer's time."""
    ours_s, peer_s = pair[0][key] / 1e6, pair[1][key] / 1e6
    if limit is None:
        return Row(what, ours_s, peer_s)
    missed = ours_s > limit * peer_s
    return Row(what, ours_s, peer_s, f"{'limit missed: ' if missed else 'limit '}{limit:g} times", missed)


def run(options: Options) -> Iterator[Row]:
    """Rows: a claim that is prepared, one that is not, a thousand at once, and the most devices, on each stack."""
    if not PROGRAM.exists():
        print("driver: not measured, the peer is not built (make oracles)", file=sys.stderr)
        return
    with place(FEW, "dra") as few:
        yield beside("prepare a claim, p50", few.pair("full", 100 * options.rounds), NEW_LIMIT)
        again = few.pair("noop", 1_000 * options.rounds)
        yield beside("prepare again what is prepared, p50", again, AGAIN_LIMIT)
    with place(SOME, "dra") as some:
        pair = some.pair("concurrent", CONCURRENT)
        yield beside(f"prepare {CONCURRENT:,} claims at once, until the last", pair, None, "total_us")
    with place(MANY, "device-plugin") as many:
        pair = many.pair("list", options.rounds)
        assert pair[0]["devices"] == MANY
        yield beside(f"list {MANY:,} devices by the device plugin, p50", pair, None)
    with place(MANY, "dra") as many:
        yield Row(f"start, and publish {MANY:,} devices", many.start_s, None, f"{-(-MANY // SLICE)} slices")
