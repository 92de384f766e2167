"""The views on a cluster that lets some things be read and not others, or does not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.unit.cli.test_explain_live import Partial, kubeconfig
from typer.testing import CliRunner, Result

from regauge.cli.kubectl import app
from regauge.model import Object

__all__ = ["kubeconfig"]  # a fixture
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
OWN = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
CLAIM: Object = {
    "metadata": {"name": "c", "namespace": "team", "uid": "c", "creationTimestamp": "2026-11-29T10:00:00Z"},
    "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
}


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert "Traceback" not in done.output and "a bug of ours" not in done.output, done.output
    return done


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim in namespace team; pods and claims may be listed there and nowhere else."""
    answer = Partial.answer

    def with_claim(self: Partial, code: int, document: object) -> None:
        path = self.path.partition("?")[0]
        if path in (CLAIMS, OWN) and code == 200:
            document = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [CLAIM]}
        answer(self, code, document)  # type: ignore[arg-type]

    monkeypatch.setattr(Partial, "answer", with_claim)
    monkeypatch.setattr(Partial, "forbidden", frozenset({"/api/v1/pods", CLAIMS}))


def test_a_namespace_of_ones_own_is_enough(kubeconfig: str) -> None:
    done = run("claims", "-n", "team", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0 and done.stdout.splitlines()[1].split()[:2] == ["c", "pending"]
    assert "not read: resourceclaims.resource.k8s.io: only those of namespace team could be read" in done.stderr
    done = run("timeline", "c", "-n", "team", "--kubeconfig", kubeconfig, "-o", "json")
    assert [one["step"] for one in json.loads(done.stdout)["moments"]] == ["created"]
    assert json.loads(done.stdout)["notRead"] == []  # nothing of other namespaces is needed


def test_the_contexts_namespace_is_meant_unless_another_is_named(kubeconfig: str) -> None:
    done = run("claims", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0 and done.stdout == "" and "No claims found in default namespace." in done.stderr
    document = yaml.safe_load(Path(kubeconfig).read_text())
    document["contexts"][0]["context"]["namespace"] = "team"
    Path(kubeconfig).write_text(yaml.safe_dump(document))
    assert run("claims", "--kubeconfig", kubeconfig, "-o", "name").stdout == "resourceclaim.resource.k8s.io/c\n"


def test_what_may_not_be_read_anywhere_is_said(kubeconfig: str) -> None:
    done = run("devices", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0 and "No devices found." in done.stderr
    assert "not read: pods: the verb list in the whole cluster is missing" in done.stderr
    done = run("claims", "-A", "--kubeconfig", kubeconfig, "-o", "json")
    assert json.loads(done.stdout)["claims"] == []
    assert {one["what"] for one in json.loads(done.stdout)["notRead"]} == {"pods", "resourceclaims.resource.k8s.io"}


def test_gates_are_asked_for_where_a_claim_waits_and_only_there(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = Partial.do_GET
    monkeypatch.setattr(Partial, "do_GET", lambda self: (asked.append(self.path), answer(self))[1])
    monkeypatch.setattr(Partial, "metrics", 'kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 0\n')
    for arguments, wanted in (
        (("claims", "-n", "team"), True),
        (("claims", "-n", "other"), False),
        (("devices",), False),
    ):
        asked.clear()
        assert run(*arguments, "--kubeconfig", kubeconfig).exit_code == 0
        assert ("/metrics" in asked) is wanted and asked.count("/version") == 1, asked


@pytest.mark.parametrize(
    "verb", [("devices",), ("claims", "-A"), ("claims", "-w"), ("who-has", "x"), ("timeline", "x")]
)
def test_a_cluster_that_does_not_answer(verb: tuple[str, ...], tmp_path: Path) -> None:
    context = {"name": "x", "context": {"cluster": "c"}}
    clusters = [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}]
    (tmp_path / "config").write_text(
        yaml.safe_dump({"clusters": clusters, "contexts": [context], "current-context": "x"})
    )
    done = run(*verb, "--kubeconfig", str(tmp_path / "config"))
    assert done.exit_code == 3 and done.stderr.startswith("regauge: ") and done.stdout == ""


def test_a_context_that_is_not_there(kubeconfig: str) -> None:
    done = run("devices", "--context", "nowhere", "--kubeconfig", kubeconfig)
    assert done.exit_code == 2 and "known: x" in done.stderr
