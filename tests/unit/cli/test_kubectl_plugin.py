"""The plugin through the real kubectl: as a program on the PATH, its completion, and on a cluster that it can watch."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support import ROOT, kubectl
from tests.unit.cli.test_views import document, run
from tests.unit.cluster.up.program import Program, running
from tests.unit.observe.metric_world import CLASS

from regauge.cli.kubectl import verb_first
from regauge.cli.kubectl_complete import completed
from regauge.cli.kubectl_complete import main as complete

WITHIN_S = 30.0
PROGRAMS = ("kubectl-regauge", "kubectl_complete-regauge")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with the programs that an installation makes of the project's entry points."""
    directory = tmp_path_factory.mktemp("bin")
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name in PROGRAMS:
        module, _, function = entries[name].partition(":")
        program = directory / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        program.chmod(0o755)
    return os.pathsep.join((str(directory), "/usr/bin", "/bin"))


def call(path: str, *words: str, code: int = 0, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [str(kubectl()), *words],
        env={"PATH": path, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def choices(path: str, *words: str, **environment: str) -> tuple[dict[str, str], int]:
    """What kubectl offers for the last word: choices with their descriptions, and the directive for the shell."""
    *lines, directive = call(path, "__complete", "regauge", *words, **environment)[0].splitlines()
    return dict(line.partition("\t")[::2] for line in lines), int(directive.removeprefix(":"))


def test_kubectl_finds_it_and_it_says_what_it_can(path: str) -> None:
    out, said = call(path, "plugin", "list")
    assert out.count("kubectl-regauge") == 1 and "warning" not in said
    out, _ = call(path, "regauge", "--help")
    assert all(f"kubectl regauge {verb}" in out for verb in ("devices", "claims", "who-has", "timeline"))
    assert "Usage: kubectl regauge" in out


def test_the_views_are_those_of_the_program(path: str) -> None:
    words = ("devices", "sample", "--pool", "mixed", "-o", "wide", "--no-headers")
    found = call(path, "regauge", *words)
    assert found == run(*words) and "gpu.nvidia.com/mixed-0/gpu-4" in found[0]


def test_other_verbs_work_behind_kubectl_too_and_exit_codes_come_through(path: str) -> None:
    assert "Kubernetes 1.31 to" in call(path, "regauge", "version")[0]
    assert "There is no device nothing." in call(path, "regauge", "who-has", "nothing", "--from", "sample", code=1)[1]


@pytest.mark.parametrize(
    ("words", "behind"),
    [
        ([], []),
        (["--help"], ["--help"]),
        (["devices", "-n", "x"], ["devices", "-n", "x"]),
        (["-n", "x", "--context=y", "-A", "claims", "-w"], ["claims", "-n", "x", "--context=y", "-A", "-w"]),
        (["-A"], ["-A"]),
    ],
)
def test_flags_may_stand_before_the_verb(words: list[str], behind: list[str]) -> None:
    assert verb_first(words) == behind


UNWANTED = ("regauge.cli.app", "regauge.scheduler", "regauge.cluster", "regauge.migrate", "httpx", "grpc", "rich.table")


@pytest.mark.parametrize(
    ("words", "besides"),
    [(["devices", "sample"], ()), (["timeline", "shared-h100", "--from", "sample"], ("regauge.scheduler",))],
)
def test_it_loads_no_more_than_a_verb_needs(words: list[str], besides: tuple[str, ...]) -> None:
    script = f"""
import sys
sys.argv = ["kubectl-regauge", *{words!r}]
from regauge.cli.kubectl import main
try:
    main()
except SystemExit:
    pass
print(*[name for name in {UNWANTED!r} if name in sys.modules], file=sys.stderr)
"""
    began_s = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    print(f"{' '.join(words)} takes {1000 * (time.perf_counter() - began_s):.0f} ms")
    assert done.stdout and set(done.stderr.splitlines()[-1].split()) <= set(besides)


# -- completion


@pytest.mark.parametrize(
    ("words", "offered", "directive"),
    [
        (("",), {"devices", "claims", "who-has", "timeline"}, 4),
        (("cl",), {"claims"}, 4),
        (("exp",), {"explain", "export"}, 4),
        (("devices", "--st"), {"--state"}, 4),
        (("devices", "--state", "f"), {"free"}, 4),
        (("devices", "--state=bl"), {"--state=blocked"}, 4),
        (("claims", "-o", ""), {"table", "wide", "name", "json", "yaml"}, 4),
        (("timeline", "-o", "s"), {"svg"}, 4),
        (("devices", "sa"), {"sample"}, 0),
        (("devices", "--kubeconfig", ""), set(), 0),
        (("timeline", "--from", "sample", "sha"), {"shared-h100"}, 4),
        (("timeline", "--from", "sample", "team-infer/"), {"team-infer/shared-h100"}, 4),
        (("who-has", "--from", "sample", "gpu.nvidia.com/mixed-0/gpu-4"), {"gpu.nvidia.com/mixed-0/gpu-4"}, 4),
        (("devices", "sample", "--node", "mix"), {"mixed-0"}, 4),
        (("devices", "sample", "--driver", "d"), {"dra.net"}, 4),
        (("--context", "x", "-A", "dev"), {"devices"}, 4),
        (("-n", "team-infer", "timeline", "--from", "sample", "sha"), {"shared-h100"}, 4),
    ],
)
def test_what_is_offered(words: tuple[str, ...], offered: set[str], directive: int) -> None:
    found, told = completed(list(words))
    assert ({value for value, _ in found}, told) == (offered, directive)


def test_it_is_offered_through_kubectl_with_descriptions(path: str) -> None:
    assert choices(path, "timeline", "--from", "sample", "sha") == ({"shared-h100": "allocated"}, 4)
    assert choices(path, "devices", "sa") == ({"sample": "a packaged estate to try things on"}, 0)


def test_every_flag_is_described() -> None:
    found = dict(completed(["devices", "--"])[0])
    assert {"--node", "--pool", "--selector", "--all-namespaces", "--context", "--output", "--help"} <= set(found)
    assert all(found.values())


def test_contexts_are_offered_and_trouble_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(config))

    def offered(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-regauge", *words])
        complete()
        return capsys.readouterr().out

    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    contexts = [{"name": name, "context": {"cluster": "c"}} for name in ("east", "west")]
    config.write_text(yaml.safe_dump({"clusters": [cluster], "contexts": contexts, "current-context": "west"}))
    assert offered("devices", "--context", "") == "east\nwest\n:4\n"
    assert offered("devices", "--node", "") == ":4\n"  # the server does not answer
    config.write_text("{")
    assert offered("devices", "--context", "") == ":4\n"


# -- on a cluster


TEAM = "team"
OBJECTS = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {TEAM}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: ours, namespace: {TEAM}, labels: {{app: life}}}}
spec: {{devices: {{requests: [{{name: accel, exactly: {{deviceClassName: {CLASS}}}}}]}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: many, namespace: {TEAM}}}
spec: {{devices: {{requests: [{{name: accel, exactly: {{deviceClassName: {CLASS}, count: 20}}}}]}}}}
"""
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: user, namespace: {TEAM}}}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{{name: mine, resourceClaimName: ours}}]
  containers: [{{name: main, image: registry.k8s.io/x:1, resources: {{claims: [{{name: mine}}]}}}}]
"""
COUNTING = f"""
apiVersion: v1
kind: Pod
metadata: {{name: counts, namespace: {TEAM}}}
spec:
  containers:
    - {{name: main, image: registry.k8s.io/x:1, resources: {{limits: {{accel.regauge.dev/accelerator: 2}}}}}}
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with running(tmp_path_factory.mktemp("up") / "s") as program:
        program.kubectl("apply", "-f", "-", stdin=DEVICE_CLASS + "---" + OBJECTS)
        yield program


DEVICE_CLASS = f"""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {CLASS}}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == "{CLASS}"'}}}}]}}
"""


class Follower:
    """A view that goes on: its lines as they come."""

    def __init__(self, path: str, config: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [str(kubectl()), "regauge", *words],
            env={"PATH": path, "HOME": "/nonexistent", "KUBECONFIG": config, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line)
        self._queue.put(None)

    def until(self, *words: str) -> str:
        """The next line with all these words."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, self.lines
            self.lines.append(line)
            if all(word in line for word in words):
                return line

    def end(self, number: signal.Signals | None) -> int:
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(WITHIN_S)


@pytest.fixture
def follow(path: str, up: Program) -> Iterator[object]:
    started: list[Follower] = []

    def begin(*words: str) -> Follower:
        started.append(Follower(path, str(up.state / "kubeconfig"), *words))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(10)


@pytest.mark.row(132, how="unit")
@pytest.mark.row(174, how="unit")
@pytest.mark.row(175, how="unit")
def test_a_life_watched_on_a_cluster(path: str, up: Program, follow: type[Follower]) -> None:
    environment = {"KUBECONFIG": str(up.state / "kubeconfig")}
    claims = follow("claims", "-n", TEAM, "-w")
    claims.until("many", "pending", "request accel: needs 20 devices, there are only 4")
    claims.until("ours", "pending", "no pod names it")
    life = follow("timeline", "ours", "-n", TEAM, "--follow")
    life.until("claim", "created")
    up.kubectl("apply", "-f", "-", stdin=POD + "---" + COUNTING)
    claims.until("ours", "allocated,reserved", "node-1/accel-", "user")
    life.until("claim", "allocated node-1/accel-")
    life.until("pod user", "container main started")
    up.kubectl("wait", "pod/counts", "-n", TEAM, "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    _on_the_cluster(path, environment)
    up.kubectl("delete", "pod", "user", "-n", TEAM)
    life.until("claim", "released")
    claims.until("ours", "pending")
    up.kubectl("delete", "resourceclaim", "ours", "-n", TEAM)
    life.until("claim", "gone")
    assert life.end(None) == 0
    claims.until("ours", "gone")
    assert claims.end(signal.SIGINT) == 130


def _on_the_cluster(path: str, environment: dict[str, str]) -> None:
    """What the views show while the pods run, some of it through kubectl."""
    there = ("--kubeconfig", environment["KUBECONFIG"])
    out, _ = call(path, "regauge", "devices", "-n", TEAM, **environment)
    assert "pod/team/user" in out and "accel.regauge.dev/node-1/accel-" in out and "whole" in out
    counted = [line for line in out.splitlines() if "accel.regauge.dev/accelerator" in line]
    assert len(counted) == 1 and "2 of 4 asked for" in counted[0] and "not visible from the API" in counted[0]
    assert "pod/team/counts" in out
    (held,) = run("who-has", "--pod", "user", "-n", TEAM, "-o", "name", *there)[0].split()
    found = document("who-has", held, *there)["found"]
    assert [one["pod"] for one in found[0]["device"]["holders"]] == ["user"]
    offered, _ = choices(path, "timeline", "-n", TEAM, "", **environment)
    assert offered == {"many": "pending", "ours": "allocated"}
    assert dict(completed(["claims", *there, "-n", "tea"])[0]) == {TEAM: ""}
    out, said = call(path, "regauge", "claims", **environment)
    assert out == "" and "No claims found in default namespace." in said
    out, _ = run("claims", "-A", "-l", "app=life", "--no-headers", *there)
    assert out.split()[:3] == [TEAM, "ours", "allocated,reserved"]
