"""An API server on TCP with TLS in a thread of this process, and the real kubectl on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import kubectl

from regauge.cluster.access.bootstrap import bootstrap_roles
from regauge.cluster.access.guard import Guard
from regauge.cluster.access.identity import Tokens
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.server import ApiListener, TlsFiles
from regauge.host import RealClock
from regauge.rehearsal.state_directory import StateDirectory


@dataclass(frozen=True)
class Served:
    """Where it is."""

    api: Api
    directory: Path
    kubeconfig: Path
    server: str
    token: str

    def kubectl(self, words: str, stdin: str = "", timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        """A line of shell that begins with kubectl's arguments, run as the recordings were."""
        environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.directory}:/usr/bin:/bin",
            "HOME": str(self.directory),
            "TZ": "UTC",
            "KUBECACHEDIR": f"{self.directory}/cache",
        }
        line = f"{kubectl()} {words}"
        return subprocess.run(
            line,
            shell=True,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.directory,
            timeout=timeout_s,
            check=False,
        )


@contextlib.contextmanager
def served(directory: Path, prepare: Any = lambda api: None) -> Iterator[Served]:
    """A server without controllers and nodes; `prepare` fills its API before anybody calls."""
    state = StateDirectory(directory / "state")
    clock = RealClock()
    credentials = state.credentials(clock.now_s())
    state.server(credentials.authority, ["127.0.0.1"], clock.now_s())
    api = new_api_server(clock, random.Random(1))
    bootstrap_roles(api)
    prepare(api)
    guard = Guard(api.state.store, Tokens({}))
    tls = TlsFiles(*(state.place(name) for name in ("server.crt", "server.key", "ca.crt")))
    ready, done = threading.Event(), threading.Event()
    found: dict[str, Any] = {}

    async def main() -> None:
        listener = ApiListener(api, guard, "127.0.0.1", 0, tls)
        await listener.start()
        found["port"] = listener.port
        ready.set()
        await asyncio.to_thread(done.wait)
        await listener.stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert ready.wait(20)
        server = f"https://127.0.0.1:{found['port']}"
        kubeconfig = directory / "kubeconfig"
        state.write_kubeconfig(kubeconfig, server, credentials)
        os.symlink(kubectl(), directory / "kubectl")
        yield Served(api, directory, kubeconfig, server, credentials.token)
    finally:
        done.set()
        thread.join(20)
