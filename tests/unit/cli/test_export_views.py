"""`regauge export rules`, `grafana` and `manifests` as they are called."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support import kubectl
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.observe.alerting import alert_rules, rule_groups
from regauge.observe.exporter import KINDS, OPTIONAL_KINDS, OWNER_KINDS
from regauge.observe.grafana import dashboard
from regauge.observe.manifests import Deployed, manifests
from regauge.observe.registry import FAMILIES

LAYERS = {family.full_name: family.layer.value for family in FAMILIES}
OPERATOR = "monitoring.coreos.com/v1"


def call(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["export", *words])
    assert done.exit_code == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_rules_in_both_forms() -> None:
    page = "https://example.com/alerts"
    assert yaml.safe_load(call("rules", "--plain", "--runbook", page)) == rule_groups(LAYERS, page)
    made = yaml.safe_load(call("rules", "-n", "observing", "-l", "release=prometheus"))
    assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == (
        OPERATOR,
        "PrometheusRule",
        "observing",
    )
    assert made["metadata"]["labels"]["release"] == "prometheus"
    assert sum(len(group["rules"]) for group in made["spec"]["groups"]) == len(alert_rules())
    assert "is not NAME=VALUE" in call("rules", "-l", "release", code=2)


def test_the_dashboard_and_that_metrics_are_meant_otherwise() -> None:
    assert json.loads(call("grafana")) == dashboard(LAYERS)
    assert "# TYPE regauge_resourceslices gauge" in call("--once", "sample")
    assert call("serve", "--help") == call("--help")


def documents(**asked: Any) -> list[dict[str, Any]]:
    return list(manifests(Deployed("registry.example.com/regauge:1", **asked)))


def one(kind: str, name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    (only,) = [item for item in found if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return only


def test_the_manifests_are_valid() -> None:
    sources = ("pod-resources", "driver", "kubelet-insecure=https://$(HOST_IP):10250/metrics", "file=/var/lib/prom")
    for found in (documents(), documents(sources=sources)):
        for document in found:
            if document["apiVersion"] != OPERATOR:
                kubernetes_validate.validate(document, "1.34", strict=True)


def test_what_is_printed_is_what_was_made_and_kubectl_reads_it() -> None:
    printed = call("manifests", "--image", "registry.example.com/regauge:1")
    assert list(yaml.safe_load_all(printed)) == documents()
    plain = call("manifests", "--no-operator")
    read = subprocess.run(
        [kubectl(), "create", "--dry-run=client", "--validate=false", "-f", "-", "-o", "name"],
        input=plain, capture_output=True, text=True, timeout=60, check=False,
        env={"KUBECONFIG": "/dev/null", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert "error parsing" not in read.stderr
    assert OPERATOR not in plain
    assert "there is no source 'nothing'" in call("manifests", "--source", "nothing", code=2)


@pytest.mark.row(132)
def test_rights_are_those_that_are_used_and_only_to_read() -> None:
    found = documents()
    rules = one("ClusterRole", "regauge-export", found)["rules"]
    listed = {(group, plural) for rule in rules for group in rule.get("apiGroups", ()) for plural in rule["resources"]}
    assert listed == {(kind.group, kind.plural) for kind in (*KINDS, *OWNER_KINDS, *OPTIONAL_KINDS)}
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    assert verbs == {"list", "watch", "get"}
    assert [rule for rule in rules if "get" in rule["verbs"]] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert not [
        item for item in found if item["kind"] == "ClusterRole" and item["metadata"]["name"] != "regauge-export"
    ]
    asked = documents(sources=("kubelet",))
    (own,) = one("ClusterRole", "regauge-export-node", asked)["rules"]
    assert own == {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
    binding = one("ClusterRoleBinding", "regauge-export-node", asked)
    assert [subject["name"] for subject in binding["subjects"]] == ["regauge-export-node"]


@pytest.mark.parametrize(("kind", "name"), [("Deployment", "regauge-export"), ("DaemonSet", "regauge-export-node")])
def test_pods_have_no_privileges(kind: str, name: str) -> None:
    pod = one(kind, name, documents())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]} and security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False and "privileged" not in security
    assert security["runAsNonRoot"] is (kind == "Deployment")
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == ({"/var/lib/regauge"} if kind == "Deployment" else set())
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert paths == (set() if kind == "Deployment" else {"/var/lib/kubelet/pod-resources"})


def test_options_are_those_that_the_program_has_and_scrapers_must_show_a_token() -> None:
    known = call("--help")
    for kind, name in (("Deployment", "regauge-export"), ("DaemonSet", "regauge-export-node")):
        (container,) = one(kind, name, documents())["spec"]["template"]["spec"]["containers"]
        verb, *options = container["args"]
        assert verb == "export"
        for option in options:
            assert option.partition("=")[0] in known, option
        assert "--token-file=/etc/regauge/scrape/token" in options and "--plain-http" not in options
    for kind, name, field in (
        ("ServiceMonitor", "regauge-export", "endpoints"),
        ("PodMonitor", "regauge-export-node", "podMetricsEndpoints"),
    ):
        (endpoint,) = one(kind, name, documents())["spec"][field]
        assert endpoint["scheme"] == "https" and endpoint["honorLabels"] is True
        assert endpoint["authorization"]["credentials"] == {"name": "regauge-export", "key": "token"}


def test_only_the_namespace_of_prometheus_reaches_the_exporters() -> None:
    policy = one("NetworkPolicy", "regauge-export", documents(monitoring="observing"))["spec"]
    (peer,) = policy["ingress"][0]["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "observing"}
    selected = set(policy["podSelector"]["matchExpressions"][0]["values"])
    assert selected == {"regauge-export", "regauge-export-node"}


def test_a_source_brings_the_directory_that_it_reads() -> None:
    found = documents(sources=("driver", "file=/var/lib/prom/a.prom", "exporter=http://$(HOST_IP):9400"))
    pod = one("DaemonSet", "regauge-export-node", found)["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["readOnly"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {"/etc/regauge/scrape": True, "/run/regauge": True, "/var/lib/prom": True}
    assert "--source=exporter=http://$(HOST_IP):9400" in pod["containers"][0]["args"]
    assert [entry["name"] for entry in pod["containers"][0]["env"]] == ["NODE_NAME", "HOST_IP"]
