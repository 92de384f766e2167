"""The manifests: valid, with no more rights than the driver uses, and the policy keeps a node's driver to its node.

`REGAUGE_KUBECONFIG` names the kubeconfig of a throw-away cluster for the half that asks a real API server.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support import ROOT, kubectl
from tests.unit.driver.cluster import Cluster, node
from tests.unit.driver.kinds.trees import Kind

from regauge.driver import Stack
from regauge.driver.kinds import KINDS
from regauge.driver.process import check
from regauge.driver.slices import Pool, dropped, writes
from regauge.model import kinds as model_kinds

DEPLOY = ROOT / "deploy" / "driver"
ROOM = ROOT / "src" / "regauge" / "driver"
ACCOUNT = "system:serviceaccount:regauge-system:regauge-driver"


def documents() -> list[dict[str, Any]]:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    return [one for name in kustomization["resources"] for one in yaml.safe_load_all((DEPLOY / name).read_text())]


def one(kind: str) -> dict[str, Any]:
    (found,) = [document for document in documents() if document["kind"] == kind]
    return found


def test_every_file_is_part_of_the_whole() -> None:
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(path.name for path in DEPLOY.iterdir())


@pytest.mark.parametrize("version", ["1.34", "1.36"])
def test_the_manifests_are_valid(version: str) -> None:
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_whole_builds_with_kubectl() -> None:
    built = subprocess.run(
        [kubectl(), "kustomize", str(DEPLOY)], capture_output=True, text=True, check=True, timeout=60
    )
    found = list(yaml.safe_load_all(built.stdout))
    assert {document["kind"] for document in found} == {document["kind"] for document in documents()}
    (daemon,) = [document for document in found if document["kind"] == "DaemonSet"]
    assert daemon["spec"]["template"]["spec"]["containers"][0]["image"] == "regauge:0.1.0"


def test_the_pod_has_no_privileges() -> None:
    pod = one("DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["privileged"] is False
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["serviceAccountName"] == "regauge-driver"
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    driver = check(one("ConfigMap")["data"]["devices.yaml"].encode(), "config.yaml").driver
    assert writable == {
        "/run/regauge",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/plugins_registry",
        f"/var/lib/kubelet/plugins/{driver}",
        "/var/run/cdi",
    }


def test_one_name_stands_everywhere() -> None:
    driver = check(one("ConfigMap")["data"]["devices.yaml"].encode(), "config.yaml").driver
    assert f'"{driver}"' in one("DeviceClass")["spec"]["selectors"][0]["cel"]["expression"]
    policies = [document["spec"] for document in documents() if document["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) == 2
    for policy in policies:
        assert any(f'"{driver}"' in rule["expression"] for rule in policy["validations"])
        assert ACCOUNT in policy["matchConditions"][0]["expression"]
    (named,) = [rule["resourceNames"] for rule in one("ClusterRole")["rules"] if "resourceNames" in rule]
    assert named == [driver]


def used_rights() -> set[tuple[str, str, str]]:
    """Group, plural and verb of every call that the driver makes of its API client."""
    nodes = [node for path in ROOM.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    used = set()
    for call in calls:
        function = call.func
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "self._kube":
            kind = getattr(model_kinds, ast.unparse(call.args[0]))
            below = [ast.literal_eval(one.value) for one in call.keywords if one.arg == "subresource"]
            used.add((kind.group, "/".join((kind.plural, *below)), function.attr))
    return used


def test_the_rights_are_those_that_are_used() -> None:
    given = {
        (group, resource, verb)
        for rule in one("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert len(given) == 12
    assert given == used_rights() | {("resource.k8s.io", "resourceclaims/driver", "associated-node:update")}


@pytest.mark.row(142, how="unit")
@pytest.mark.row(143, how="unit")
@pytest.mark.row(144, how="unit")
def test_the_page_lists_every_right_and_no_other() -> None:
    page = (ROOT / "docs" / "driver.md").read_text().split("| right | device plugin |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()[2:]]
    mounts = {row[0].strip("`"): row[1:4] for row in rows if row[0].startswith("`/")}
    (container,) = one("DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert mounts.keys() == {mount["mountPath"] for mount in container["volumeMounts"]}
    for mount in container["volumeMounts"]:
        may = "read" if mount.get("readOnly") else "write"
        assert set(mounts[mount["mountPath"]]) - {""} == {may}
    rights = {}
    for row in rows:
        name, _, verbs = row[0].partition(" ")
        if not name.startswith("`/"):
            rights[name.strip("`")] = {verb.strip() for verb in verbs.split(",")}
    assert rights == {
        resource: set(rule["verbs"]) for rule in one("ClusterRole")["rules"] for resource in rule["resources"]
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if not os.environ.get("REGAUGE_KUBECONFIG"):
        pytest.skip("REGAUGE_KUBECONFIG names no cluster")
    made = Cluster(os.environ["REGAUGE_KUBECONFIG"])
    made.apply(*documents(), node("own-node"), node("other-node"))
    yield made
    with contextlib.suppress(subprocess.SubprocessError):
        made.run("delete", "--ignore-not-found", "--wait=false", "-k", str(DEPLOY))
        made.run("delete", "--ignore-not-found", "--wait=false", "node", "own-node", "other-node")


def slice_of(node: str, driver: str = "gpu.example.com") -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]},
    }


def test_a_driver_writes_the_slices_of_its_node_only(cluster: Cluster) -> None:
    own = cluster.token("own-node")
    deadline = 100
    while True:  # a policy takes a moment to be in force
        deadline -= 1
        denied = cluster.run("create", "--dry-run=server", "-f", "-", given=slice_of("other-node"), token=own)
        if denied.returncode or not deadline:
            break
    assert "the driver on node 'own-node' may not write slices of node 'other-node'" in denied.stderr
    made = cluster.run("create", "-f", "-", given=slice_of("own-node"), token=own)
    assert made.returncode == 0, made.stderr
    foreign = cluster.run("create", "-f", "-", given=slice_of("own-node", "other.example.com"), token=own)
    assert "the driver may write slices of gpu.example.com only" in foreign.stderr
    loose = cluster.run("delete", "resourceslice", "own-node-gpu.example.com", token=cluster.token())
    assert "the token of the driver is not bound to a node" in loose.stderr
    other = cluster.token("other-node")
    stolen = cluster.run("delete", "resourceslice", "own-node-gpu.example.com", token=other)
    assert "the driver on node 'other-node' may not write slices of node 'own-node'" in stolen.stderr
    taken = cluster.run("delete", "resourceslice", "own-node-gpu.example.com", token=own)
    assert taken.returncode == 0, taken.stderr
    by_hand = cluster.run("create", "--dry-run=server", "-f", "-", given=slice_of("other-node"))
    assert by_hand.returncode == 0, by_hand.stderr


def claim(name: str, device: str, **status: Any) -> dict[str, Any]:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "own-node", "device": device}
    other = {"request": "o", "driver": "other.example.com", "pool": "own-node", "device": device}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["own-node"]}]}]
    allocation = {"devices": {"results": [result, other]}, "nodeSelector": {"nodeSelectorTerms": terms}}
    requests = [{"name": one, "exactly": {"deviceClassName": "gpu.example.com"}} for one in ("r", "o")]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": allocation, **status},
    }


def assert_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    """By the policy; since 1.36 the API server itself may be first."""
    assert done.returncode
    assert why in done.stderr or ('"resourceclaims/' in done.stderr and "Forbidden" in done.stderr), done.stderr


def test_a_driver_writes_the_status_of_its_own_devices_only(cluster: Cluster) -> None:
    own, other = cluster.token("own-node"), cluster.token("other-node")
    status = ("--subresource=status", "-f", "-")
    cluster.run("delete", "--ignore-not-found", "resourceclaim", "c", "-n", "default")
    assert cluster.run("create", "-f", "-", given=claim("c", "gpu-0")).returncode == 0
    made = cluster.run("replace", *status, given=claim("c", "gpu-0"))
    assert made.returncode == 0, made.stderr

    def entry(driver: str) -> dict[str, Any]:
        return {"driver": driver, "pool": "own-node", "device": "gpu-0", "data": {"a": 1}}

    mine, theirs = [entry("gpu.example.com")], [entry("other.example.com")]
    done = cluster.run("replace", *status, given=claim("c", "gpu-0", devices=mine), token=own)
    assert done.returncode == 0, done.stderr
    foreign = cluster.run("replace", *status, given=claim("c", "gpu-0", devices=[*mine, *theirs]), token=own)
    assert_refused(foreign, "the driver may write the status of its own devices only")
    stolen = cluster.run("replace", *status, given=claim("c", "gpu-0"), token=other)
    assert_refused(stolen, "the driver may remove the status of its own devices only")
    for change in ({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}, {"allocation": None}):
        moved = cluster.run("replace", *status, given=claim("c", "gpu-0", devices=mine, **change), token=own)
        assert_refused(moved, "the driver may not change the allocation of claims, nor for whom they are")
    gone = cluster.run("replace", *status, given=claim("c", "gpu-0"), token=own)
    assert gone.returncode == 0, gone.stderr
    cluster.run("delete", "resourceclaim", "c", "-n", "default")


def test_a_driver_may_do_what_it_does_and_nothing_more(cluster: Cluster) -> None:
    def may(verb: str, resource: str, below: str = "") -> bool:
        asked = (verb, resource, f"--as={ACCOUNT}", f"--subresource={below}")
        return cluster.run("auth", "can-i", *asked).stdout.strip() == "yes"

    wanted = [
        (verb, f"{plural}.{group}" if group else plural, below)
        for group, resource, verb in sorted(used_rights())
        for plural, _, below in (resource.partition("/"),)
    ]
    assert [right for right in wanted if not may(*right)] == []
    claims = "resourceclaims.resource.k8s.io"
    forbidden = [("get", "secrets"), ("list", "pods"), ("patch", "nodes"), ("update", claims), ("create", "pods/exec")]
    assert [right for right in forbidden if may(*right)] == []


@pytest.mark.row(65, how="real")
@pytest.mark.row(66, how="real")
@pytest.mark.parametrize("kind", KINDS)
def test_the_slices_of_each_kind_are_taken_whole(cluster: Cluster, kind: str) -> None:
    """A real API server accepts what the kind publishes, and keeps every field."""
    found = [one for one in Kind(kind).discover().values() if one.stack is Stack.DRA]
    for slice_ in writes(Pool("gpu.example.com", "own-node"), found, []).creates:
        done = cluster.run("create", "--dry-run=server", "-o", "json", "-f", "-", given=slice_)
        assert done.returncode == 0, done.stderr
        assert dropped(slice_["spec"], json.loads(done.stdout)["spec"]) == ()
