"""The audit of a cluster that runs: nothing on a fresh one, each fault that is put into it by its code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support import ROOT
from tests.unit.cluster.up.program import Program, running
from typer.testing import CliRunner

from regauge.cli.app import app

RESOURCE, DRIVER = "accel.regauge.dev/accelerator", "accel.regauge.dev"
OURS = f'device.driver == "{DRIVER}"'


def audited(program: Program, *options: str) -> dict[str, list[str]]:
    """What each code is found at."""
    kubeconfig = str(program.state / "kubeconfig")
    done = CliRunner().invoke(app, ["audit", "--kubeconfig", kubeconfig, "-o", "json", "--fail-on", "never", *options])
    assert done.exit_code == 0, done.stderr
    found: dict[str, list[str]] = {}
    for one in json.loads(done.stdout)["findings"]:
        found.setdefault(one["code"], []).append(one["where"])
    return found


def device_class(name: str, *expressions: str, resource: str | None = None) -> dict[str, object]:
    spec: dict[str, object] = {"selectors": [{"cel": {"expression": one}} for one in expressions]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


ORPHAN = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "orphan"},
    "spec": {
        "driver": "x.example.com",
        "nodeName": "gone",
        "pool": {"name": "gone", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a"}],
    },
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "default"},
    "spec": {"hard": {f"requests.{RESOURCE}": "2"}},
}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "ours"}}]}}},
}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "tenant"},
    "rules": [{"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["*"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "tenant"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant"},
    "subjects": [{"kind": "Group", "name": "team-a", "apiGroup": "rbac.authorization.k8s.io"}],
}
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "watchers", "labels": {"resource.kubernetes.io/admin-access": "true"}},
}
WIDE = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "wide", "namespace": "default"},
    "spec": {
        "replicas": 300,
        "serviceName": "none",
        "selector": {"matchLabels": {"app": "wide"}},
        "template": {
            "metadata": {"labels": {"app": "wide"}},
            "spec": {
                "containers": [{"name": "c", "image": "x"}],
                "resourceClaims": [{"name": "r", "resourceClaimName": "one"}],
            },
        },
    },
}
FAULTS: tuple[tuple[list[dict[str, object]], dict[str, list[str]]], ...] = (
    ([ORPHAN], {"SLICE-ORPHANED": []}),  # it may just be going away with its node
    ([device_class("everything")], {"CLASS-OVER-BROAD": ["DeviceClass everything"]}),
    ([device_class("none", 'device.driver == "n.example.com"')], {"CLASS-MATCHES-NOTHING": ["DeviceClass none"]}),
    (
        [device_class("fails", f'device.attributes["{DRIVER}"].nothing == "x"')],
        {"CLASS-FAILS": ["DeviceClass fails"]},
    ),
    (
        [device_class("ours", OURS), QUOTA, TEMPLATE],
        {"QUOTA-OLD-NAMES": ["ResourceQuota default/q"]},
    ),
    (
        [ROLE, BINDING],
        {
            "ACCESS-CLAIM-STATUS": ["ClusterRoleBinding tenant"],
            "ACCESS-CLASSES": ["ClusterRoleBinding tenant"],
            "ACCESS-SLICES": ["ClusterRoleBinding tenant"],
        },
    ),
    ([NAMESPACE], {"ACCESS-ADMIN-NAMESPACE": ["Namespace watchers"]}),
    ([WIDE], {"CLAIM-TOO-WIDE": ["StatefulSet default/wide"]}),
    (
        [device_class("one", OURS, resource=RESOURCE), device_class("two", OURS, resource=RESOURCE)],
        {
            "OWN-SAME-NAME": ["Node node-1", "Node node-1"],
            "CLASS-SHARED-NAME": ["DeviceClass one, DeviceClass two"],
            "QUOTA-BYPASS": ["ResourceQuota default/q", "ResourceQuota default/q"],
        },
    ),
)


@pytest.mark.row(262, how="unit")
@pytest.mark.row(263, how="unit")
@pytest.mark.row(149, how="unit")
def test_each_fault_is_found_where_it_was_put(tmp_path: Path) -> None:
    with running(tmp_path / "s", "--nodes", "1") as program:
        program.kubectl("wait", "--for=jsonpath={.status.capacity.accel\\.regauge\\.dev/accelerator}=4", "node/node-1")
        assert audited(program) == {}
        every = [one for objects, _ in FAULTS for one in objects]
        program.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": every}))
        assert audited(program) == {code: places for _, codes in FAULTS for code, places in codes.items() if places}
        assert set(audited(program, "--profile", "security")) == {
            "ACCESS-ADMIN-NAMESPACE", "ACCESS-CLAIM-STATUS", "ACCESS-CLASSES", "ACCESS-SLICES",
            "CLASS-FAILS", "CLASS-OVER-BROAD",
        }  # fmt: skip


def test_the_manifests_of_our_own_driver_are_in_order() -> None:
    done = CliRunner().invoke(app, ["audit", str(ROOT / "deploy" / "driver"), "-o", "json", "--fail-on", "never"])
    found = json.loads(done.stdout)["findings"]
    assert [one["code"] for one in found] == ["DRIVER-UNPINNED"]  # the image is the user's to name
