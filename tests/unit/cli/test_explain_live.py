"""`regauge explain` and `whatif` on a cluster that lets some things be read and not others: what is not known is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from regauge.cli.app import app

NODE = {"metadata": {"name": "n1", "uid": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
SPEC = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "default-scheduler"}
POD = {"metadata": {"name": "p", "namespace": "team", "uid": "p"}, "spec": SPEC, "status": {"phase": "Pending"}}
OWN = "/api/v1/namespaces/team/pods"


class Partial(BaseHTTPRequestHandler):
    """Nodes may be listed, pods in one namespace; everything else is empty, or forbidden where `forbidden` says so."""

    forbidden = frozenset({"/api/v1/pods"})
    metrics = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        plural = path.rpartition("/")[2]
        if path == "/metrics" and path not in self.forbidden:
            self.answer(200 if self.metrics else 404, self.metrics or {"kind": "Status", "code": 404})
        elif path == "/version":
            self.answer(200, {"gitVersion": "v1.36.3", "major": "1", "minor": "36"})
        elif path in self.forbidden:
            message = f'{plural} is forbidden: User "u" cannot list resource "{plural}"'
            self.answer(
                403, {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message}
            )
        else:
            items = {"/api/v1/nodes": [NODE], OWN: [POD], "/api/v1/pods": [POD]}.get(path, [])
            self.answer(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

    def answer(self, code: int, document: dict[str, Any] | str) -> None:
        body = (document if isinstance(document, str) else json.dumps(document)).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody listens."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Partial) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        document = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
        (tmp_path / "config").write_text(yaml.safe_dump({**document, "current-context": "x"}))
        yield str(tmp_path / "config")
        server.shutdown()
        thread.join()


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_a_namespace_of_ones_own_is_enough_and_what_it_hides_is_said(kubeconfig: str) -> None:
    done = run("explain", "pod", "p", "-n", "team", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0 and "takes n1, which has the best score" in done.stdout
    assert "only namespace team could be read" in done.stderr and "the answer may be another" in done.stderr


def test_without_a_namespace_the_missing_right_is_named(kubeconfig: str) -> None:
    done = run("explain", "pod", "p", "--kubeconfig", kubeconfig)
    assert done.exit_code == 2 and done.stdout == ""
    assert "pods could not be read" in done.stderr and "there are no Pods at all" in done.stderr
    done = run("whatif", "--drain", "n1", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0 and "pods could not be read" in done.stderr


def test_a_cluster_that_may_be_read(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partial, "forbidden", frozenset())
    done = run("explain", "pod", "p", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0 and "could not be read" not in done.stderr and "Kubernetes 1.36" in done.stderr
    done = run("whatif", "--drain", "n1", "--kubeconfig", kubeconfig, "-o", "json")
    assert done.exit_code == 1 and json.loads(done.stdout)["stuck"] == ["team/p"]


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    document = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    done = run("explain", "pod", "p", "--kubeconfig", str(tmp_path / "config"))
    assert done.exit_code == 3 and done.stderr.startswith("regauge: ")


GATE = 'kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 0\nprocess_start_time_seconds 1.7e+09\n'


def test_gates_are_those_of_the_cluster(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partial, "forbidden", frozenset())

    def gate(*more: str) -> str:
        done = run("explain", "pod", "p", "--kubeconfig", kubeconfig, "-o", "json", *more)
        assert done.exit_code == 0 and "feature gates" not in done.stderr
        return str(json.loads(done.stdout)["gates"].get("DRAConsumableCapacity"))

    assert gate() == "None"  # as by default
    monkeypatch.setattr(Partial, "metrics", GATE)
    assert gate() == "False"
    assert gate("--feature-gates", "DRAConsumableCapacity=true") == "None"


def test_gates_that_cannot_be_read_are_said_to_be_the_defaults(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partial, "forbidden", frozenset({"/metrics"}))
    done = run("explain", "pod", "p", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0
    assert "not read: feature gates: the right to get the path /metrics is missing" in done.stderr
    monkeypatch.setattr(Partial, "forbidden", frozenset())
    for broken in ("kubernetes_feature_enabled{} 7", 'kubernetes_feature_enabled{name="DRAAdminAccess"} 0'):
        monkeypatch.setattr(Partial, "metrics", broken)
        done = run("explain", "pod", "p", "--kubeconfig", kubeconfig)
        assert done.exit_code == 0 and "not read: feature gates" in done.stderr
