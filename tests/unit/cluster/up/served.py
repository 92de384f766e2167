"""An API server on TCP with TLS in a thread of this process, and the real kubectl on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from tests.support import kubectl

from regauge.cluster.access.bootstrap import bootstrap_roles
from regauge.cluster.access.guard import Guard
from regauge.cluster.access.identity import Tokens
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.controllers import workload_controllers
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.server import ApiListener, TlsFiles
from regauge.features import rules as default_rules
from regauge.host import RealClock
from regauge.model import Rules
from regauge.rehearsal.state_directory import StateDirectory


@dataclass(frozen=True)
class Served:
    """Where it is."""

    api: Api
    directory: Path
    kubeconfig: Path
    server: str
    token: str

    def kubectl(
        self, words: str, stdin: str = "", timeout_s: float = 30, *, within_s: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """A line of shell that begins with kubectl's arguments, run as the recordings were. `within_s`: it is ended then."""
        environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.directory}:/usr/bin:/bin",
            "HOME": str(self.directory),
            "TZ": "UTC",
            "KUBECACHEDIR": f"{self.directory}/cache",
        }
        line = f"{f'timeout {within_s} ' if within_s else ''}{kubectl()} {words}"
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


def _runners(api: Api, rules: Rules) -> list[ControllerRunner]:
    manager = api.as_actor("kube-controller-manager")
    parts = [*workload_controllers(manager), ResourceClaimController(manager, rules)]
    runners = [ControllerRunner(api, part, lambda *_: None) for part in parts]
    for runner in runners:
        runner.start()
    return runners


def _rename(kubeconfig: Path) -> None:
    """The names of cluster, user and context that the recordings have."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["name"], document["users"][0]["name"] = "c", "u"
    document["contexts"] = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
    kubeconfig.write_text(yaml.safe_dump({**document, "current-context": "x"}))


@contextlib.contextmanager
def served(
    directory: Path,
    prepare: Any = lambda api: None,
    *,
    rules: Rules | None = None,
    versions: Mapping[str, bool] = MappingProxyType({}),
    controllers: bool = False,
) -> Iterator[Served]:
    """A server without nodes; `prepare` fills its API before anybody calls. `controllers`: those of workloads and claims
    are at work, but none that looks at nodes, and no scheduler.
    """
    state = StateDirectory(directory / "state")
    clock = RealClock()
    credentials = state.credentials(clock.now_s())
    state.server(credentials.authority, ["127.0.0.1"], clock.now_s())
    api = new_api_server(clock, random.Random(1), rules=rules, versions=versions)
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
        runners = _runners(api, rules or default_rules()) if controllers else []
        tasks = [asyncio.create_task(runner.run()) for runner in runners]
        ready.set()
        await asyncio.to_thread(done.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for runner in runners:
            runner.stop()
        await listener.stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert ready.wait(20)
        server = f"https://127.0.0.1:{found['port']}"
        kubeconfig = directory / "kubeconfig"
        state.write_kubeconfig(kubeconfig, server, credentials)
        _rename(kubeconfig)
        os.symlink(kubectl(), directory / "kubectl")
        yield Served(api, directory, kubeconfig, server, credentials.token)
    finally:
        done.set()
        thread.join(20)
