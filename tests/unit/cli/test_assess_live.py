"""`regauge assess` on a cluster that answers, and on one that forbids."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from regauge.cli.app import app
from regauge.cluster import ControlPlane
from regauge.cluster.server import ApiSocket
from regauge.collect import Estate, collect_live
from regauge.features import rules
from regauge.host import RealClock
from regauge.kube.config import Connection
from regauge.kube.http import HttpClient
from regauge.migrate import assess, device_matcher
from regauge.model.kinds import DEPLOYMENT, NAMESPACE

GPU = "nvidia.com/gpu"
CONTAINER = {"name": "c", "image": "i", "resources": {"limits": {GPU: "2"}}}
TRAINER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "trainer", "namespace": "team", "uid": "u"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "t"}},
        "template": {"metadata": {"labels": {"app": "t"}}, "spec": {"containers": [CONTAINER]}},
    },
}


class Forbidding(BaseHTTPRequestHandler):
    """Lets deployments be listed, and nothing else."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/version":
            self.answer(200, {"gitVersion": "v1.36.3", "major": "1", "minor": "36"})
        elif path.endswith("/deployments"):
            self.answer(200, {"kind": "DeploymentList", "metadata": {"resourceVersion": "1"}, "items": [TRAINER]})
        else:
            plural = path.rpartition("/")[2]
            message = f'{plural} is forbidden: User "u" cannot list resource "{plural}"'
            status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message}
            self.answer(403, status)

    def answer(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody listens."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forbidding) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        users = [{"name": "u", "user": {}}]
        document = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "x"}
        (tmp_path / "config").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
        yield str(tmp_path / "config")
        server.shutdown()
        thread.join()


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["assess", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_what_is_forbidden_is_named_with_the_missing_verb(kubeconfig: str) -> None:
    done = run("--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.stderr
    assert "Deployment team/trainer" in done.stdout
    for plural in ("nodes", "pods", "resourceslices.resource.k8s.io", "resourcequotas", "limitranges"):
        assert f"not read: {plural}: the verb list on {plural} in the whole cluster is missing" in done.stderr


def test_the_document_holds_what_was_not_read(kubeconfig: str) -> None:
    done = run("--kubeconfig", kubeconfig, "-n", "team", "-o", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert [row["name"] for row in document["workloads"]] == ["trainer"]
    told = {item["what"]: item["why"] for item in document["notRead"]}
    assert "the verb list on pods in namespace team is missing" in told["pods"]
    assert "the verb list on nodes in the whole cluster is missing" in told["nodes"]
    assert document["kubeVersion"] == "1.36"


@pytest.mark.row(182, how="unit")
@pytest.mark.parametrize("on", [True, False])
def test_the_gates_are_those_that_the_live_server_says_it_has(
    kubeconfig: str, on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beta feature that a need stands on is told on or off as the server has it, whatever its version's default is."""
    line = f'kubernetes_feature_enabled{{name="DRAConsumableCapacity",stage="BETA"}} {int(on)}\n'.encode()
    forbidding = Forbidding.do_GET

    def with_metrics(self: Forbidding) -> None:
        if self.path != "/metrics":
            return forbidding(self)
        self.send_response(200)
        self.send_header("Content-Length", str(len(line)))
        self.end_headers()
        self.wfile.write(line)
        return None

    monkeypatch.setattr(Forbidding, "do_GET", with_metrics)
    document = json.loads(run("--kubeconfig", kubeconfig, "--need", "sharing", "-o", "json").stdout)
    (row,) = document["workloads"]
    assert {item["on"] for item in row["verdict"]["features"]} == {on}
    assert not [item for item in document["notRead"] if item["what"] == "feature gates"]


def test_without_the_right_to_read_its_gates_that_is_said(kubeconfig: str) -> None:
    document = json.loads(run("--kubeconfig", kubeconfig, "-o", "json").stdout)
    told = {item["what"]: item["why"] for item in document["notRead"]}
    assert "the defaults of the version are gone by" in told["feature gates"]


def test_a_context_that_is_not_there(kubeconfig: str) -> None:
    done = run("--kubeconfig", kubeconfig, "--context", "other")
    assert done.exit_code == 2
    assert "other" in done.stderr


async def collected(directory: str) -> tuple[Estate, int]:
    control = ControlPlane(RealClock(), random.Random(1), rules("1.36", {}))
    server = ApiSocket(control.api, f"{directory}/a")
    await server.start()
    client = HttpClient(Connection(server=f"unix:{directory}/a"))
    try:
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        metadata = {"name": "trainer", "namespace": "team"}
        await client.create(DEPLOYMENT, {**TRAINER, "metadata": metadata}, "team")
        before = control.api.state.store.revision
        estate = await collect_live(client)
        return estate, control.api.state.store.revision - before
    finally:
        await client.close()
        await server.stop()


def test_our_own_api_server_is_read_and_not_changed() -> None:
    with tempfile.TemporaryDirectory(prefix="rg-", dir="/tmp") as directory:
        estate, written = asyncio.run(collected(directory))
    found = rules("1.36", {})
    assert written == 0
    assert [item.what for item in estate.skipped] == ["devicetaintrules.resource.k8s.io"]  # off by default in 1.36
    assert [row.title for row in assess(estate.snapshot, found, device_matcher(found)).rows] == [
        "Deployment team/trainer"
    ]
