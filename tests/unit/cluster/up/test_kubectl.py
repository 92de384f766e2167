"""The real kubectl on `regauge up`, from end to end."""

from __future__ import annotations

import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import kubectl
from tests.unit.cluster.up.program import Program, running

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: "i:1"}]
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: accel.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "accel.regauge.dev"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: accel.example.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: claiming}
spec:
  containers: [{name: c, image: "i:1", resources: {claims: [{name: a}]}}]
  resourceClaims: [{name: a, resourceClaimTemplateName: one}]
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, maximum: 10}}}
"""
THING = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: one}\nspec: {size: %s}\n"
RULE = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: bad}
spec:
  deviceSelector: {driver: accel.regauge.dev, device: none}
  taint: {key: example.com/bad, effect: NoSchedule}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: '%s'}\n"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with running(tmp_path_factory.mktemp("up") / "state", "--nodes", "2") as program:
        yield program


def test_what_is_served_is_found_and_explained(up: Program) -> None:
    assert "resourceclaims" in up.kubectl("api-resources", "--api-group=resource.k8s.io")
    assert "resource.k8s.io/v1" in up.kubectl("api-versions")
    assert "Server Version: v1.36.3" in up.kubectl("version")
    told = up.kubectl("explain", "pod.spec.resourceClaims.resourceClaimTemplateName")
    assert "FIELD: resourceClaimTemplateName <string>" in told
    assert "kubernetes-admin" in up.kubectl("auth", "whoami")
    assert up.kubectl("get", "serviceaccounts", "default", "-o", "name") == "serviceaccount/default\n"


def test_nodes_have_the_devices_of_the_driver(up: Program) -> None:
    up.kubectl("wait", "node/node-1", "node/node-2", "--for=condition=Ready", "--timeout=20s")
    assert up.kubectl("get", "nodes", "--no-headers").split()[:3] == ["node-1", "Ready", "<none>"]
    up.kubectl("wait", "resourceslice", "--for=create", "--field-selector=spec.nodeName=node-2", "--timeout=20s")
    assert "accel.regauge.dev" in up.kubectl("get", "resourceslices")


def test_a_claim_is_allocated_and_its_pod_runs(up: Program) -> None:
    up.kubectl("apply", "-f", "-", stdin=CLAIM)
    up.kubectl("wait", "pod/claiming", "--for=condition=Ready", "--timeout=20s")
    claims = up.kubectl("get", "resourceclaims", "--no-headers")
    assert "allocated,reserved" in claims
    assert "accel.regauge.dev" in up.kubectl("describe", "resourceclaim")
    assert "claiming" in up.kubectl("events", "--for", "pod/claiming")
    up.kubectl("logs", "claiming")
    assert 'pod "claiming" deleted' in up.kubectl("delete", "pod", "claiming")


def test_apply_on_the_client(up: Program) -> None:
    assert "created (server dry run)" in up.kubectl("apply", "--dry-run=server", "-f", "-", stdin=MANIFEST)
    up.kubectl("get", "deployment", "web", code=1)
    assert "deployment.apps/web created" in up.kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "deployment.apps/web unchanged" in up.kubectl("apply", "-f", "-", stdin=MANIFEST)
    changed = MANIFEST.replace("i:1", "i:2")
    assert "+      - image: i:2" in up.kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert "deployment.apps/web configured" in up.kubectl("apply", "-f", "-", stdin=changed)
    assert "successfully rolled out" in up.kubectl("rollout", "status", "deploy/web", "--timeout=20s")
    assert up.kubectl("get", "deploy", "web", "--no-headers").split()[:4] == ["web", "2/2", "2", "2"]
    told = up.kubectl(
        "get", "deploy", "web", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"
    )
    assert set(told.split()) == {"kube-controller-manager", "kubectl-client-side-apply"}
    kubelet = up.kubectl("get", "pods", "-l", "app=web", "--show-managed-fields", "-o", "jsonpath={.items[0].metadata}")
    assert '"manager":"kubelet"' in kubelet
    wrong = MANIFEST.replace("replicas", "replikas")
    assert 'unknown field "spec.replikas"' in up.kubectl("apply", "-f", "-", stdin=wrong, code=1)


def test_apply_on_the_server_knows_who_manages_what(up: Program) -> None:
    up.kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=CONFIG % 1)
    refused = up.kubectl("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=CONFIG % 2, code=1)
    assert 'conflict with "one": .data.a' in refused
    up.kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", stdin=CONFIG % 2)
    shown = up.kubectl("get", "cm", "shared", "-o", "yaml", "--show-managed-fields")
    assert "manager: two" in shown and "manager: one" not in shown


def test_workloads_are_scaled_rolled_and_edited(up: Program) -> None:
    up.kubectl("apply", "-f", "-", stdin=MANIFEST)
    up.kubectl("scale", "deploy/web", "--replicas=3")
    up.kubectl("wait", "deploy/web", "--for=jsonpath={.status.availableReplicas}=3", "--timeout=20s")
    up.kubectl("set", "image", "deploy/web", "c=i:3")
    up.kubectl("rollout", "status", "deploy/web", "--timeout=20s")
    assert "rolled back" in up.kubectl("rollout", "undo", "deploy/web")
    up.kubectl("rollout", "restart", "deploy/web")
    up.kubectl("rollout", "status", "deploy/web", "--timeout=20s")
    up.kubectl("edit", "deploy", "web", env={"EDITOR": "sed -i s/replicas:.3/replicas:\\ 1/"})
    assert up.kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "1"
    up.kubectl("patch", "deploy", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":2}]')
    up.kubectl("label", "deploy", "web", "tier=front")
    assert up.kubectl("get", "deploy", "-l", "tier=front", "-o", "name") == "deployment.apps/web\n"
    up.kubectl("rollout", "status", "deploy/web", "--timeout=20s")


def test_a_node_is_drained(up: Program) -> None:
    up.kubectl("create", "deployment", "drained", "--image=x", "--replicas=4")
    up.kubectl("rollout", "status", "deploy/drained", "--timeout=20s")
    assert "cordoned" in up.kubectl("cordon", "node-1")
    assert "node/node-1 drained" in up.kubectl("drain", "node-1", "--ignore-daemonsets", "--timeout=30s")
    assert "SchedulingDisabled" in up.kubectl("get", "node", "node-1")
    left = up.kubectl("get", "pods", "--field-selector=spec.nodeName=node-1", "-o", "name")
    assert left == ""
    up.kubectl("uncordon", "node-1")


def test_what_typed_clients_send_as_protobuf_is_read(up: Program) -> None:
    up.kubectl("create", "quota", "q", "--hard=pods=50,requests.example.com/gpu=4")
    assert "pods: " in up.kubectl("get", "quota", "q")
    up.kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert up.kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    up.kubectl("create", "pdb", "p", "--selector=app=web", "--min-available=50%")
    assert up.kubectl("get", "pdb", "p", "-o", "jsonpath={.spec.minAvailable}") == "50%"
    up.kubectl("create", "job", "j", "--image=x")
    assert "Running" in up.kubectl("get", "job", "j")


def test_roles_decide(up: Program) -> None:
    assert "cannot list resource" in up.kubectl("get", "pods", "--as=bob", code=1)
    up.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    up.kubectl("create", "rolebinding", "bob-reads", "--role=reader", "--user=bob")
    up.kubectl("get", "pods", "--as=bob")
    assert up.kubectl("auth", "can-i", "list", "pods", "--as=bob") == "yes\n"
    assert "no" in up.kubectl("auth", "can-i", "delete", "pods", "--as=bob", code=1)
    assert "cannot list resource" in up.kubectl("get", "pods", "-n", "kube-system", "--as=bob", code=1)


def test_accounts_are_given_tokens_that_roles_decide_about(up: Program) -> None:
    up.kubectl("create", "serviceaccount", "robot")
    token = up.kubectl("create", "token", "robot", "--duration=20m").strip()
    mine = ("--server", up.server, "--insecure-skip-tls-verify", "--token", token, "--kubeconfig", "/dev/null")
    assert "system:serviceaccount:default:robot" in up.kubectl(*mine, "auth", "whoami")
    assert 'User "system:serviceaccount:default:robot" cannot list' in up.kubectl(*mine, "get", "pods", code=1)
    up.kubectl("create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    up.kubectl(*mine, "get", "pods")
    up.kubectl("delete", "serviceaccount", "robot")
    assert "must be logged in" in up.kubectl(*mine, "get", "pods", code=1)
    assert "BEGIN CERTIFICATE" in up.kubectl("get", "cm", "kube-root-ca.crt", "-o", "jsonpath={.data}")


def test_custom_resources_follow_their_schema(up: Program) -> None:
    up.kubectl("apply", "-f", "-", stdin=DEFINITION)
    up.kubectl("wait", "crd/things.example.com", "--for=create", "--timeout=10s")
    up.kubectl("apply", "-f", "-", stdin=THING % 3)
    assert up.kubectl("get", "things", "--no-headers").split()[:2] == ["one", "3"]
    assert "should be less than or equal to 10" in up.kubectl("apply", "-f", "-", stdin=THING % 11, code=1)
    assert "FIELD: size <integer>" in up.kubectl("explain", "thing.spec.size")
    assert 'thing.example.com "one" deleted' in up.kubectl("delete", "thing", "one")


def test_what_is_not_done_is_said(up: Program) -> None:
    up.kubectl("run", "quiet", "--image=x")
    up.kubectl("wait", "pod/quiet", "--for=condition=Ready", "--timeout=20s")
    assert "unsupported: exec of a pod" in up.kubectl("exec", "quiet", "--", "true", code=1)
    assert "Metrics API not available" in up.kubectl("top", "pods", code=1)
    up.kubectl("delete", "pod", "quiet", "--now")


def test_older_versions_are_served_when_asked_for(tmp_path: Path) -> None:
    options = ("--nodes", "1", "--runtime-config", "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true")
    with running(tmp_path / "old", *options) as old:
        old.kubectl("apply", "-f", "-", stdin=CLAIM)
        assert "deprecated" in old.kubectl("get", "deviceclasses.v1beta1.resource.k8s.io")
        shown = old.kubectl("get", "resourceclaimtemplates.v1beta1.resource.k8s.io", "one", "-o", "jsonpath={.spec}")
        assert '"deviceClassName":"accel.example.com"' in shown and "exactly" not in shown
        old.kubectl("apply", "-f", "-", stdin=RULE)
        assert "NoSchedule" in old.kubectl("describe", "devicetaintrule", "bad")


def test_lists_come_in_pages(up: Program) -> None:
    for name in ("p1", "p2", "p3"):
        up.kubectl("create", "configmap", name, "-n", "kube-public")
    whole = up.kubectl("get", "cm", "-n", "kube-public", "-o", "name")
    assert up.kubectl("get", "cm", "-n", "kube-public", "-o", "name", "--chunk-size=1") == whole


def test_the_state_is_for_its_owner_alone(up: Program) -> None:
    assert stat.S_IMODE(up.state.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in up.state.iterdir() if path.is_file()} == {0o600}


def test_it_ends_on_a_signal_and_is_as_it_was_afterwards(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running(state, "--nodes", "1") as first:
        first.kubectl("create", "configmap", "kept", "--from-literal=a=b")
        uid = first.kubectl("get", "node", "node-1", "-o", "jsonpath={.metadata.uid}")
        watcher = subprocess.Popen(
            [str(kubectl()), "--kubeconfig", str(state / "kubeconfig"), "get", "cm", "-w"], stdout=subprocess.PIPE
        )
        assert watcher.stdout is not None and watcher.stdout.readline().startswith(b"NAME")
        assert first.end(signal.SIGTERM) == 0
        watcher.kill()
        watcher.wait(10)
        assert "Traceback" not in first.said()
    with running(state, "--nodes", "1", "--kube-version", "1.37") as second:
        assert second.kubectl("get", "cm", "kept", "-o", "jsonpath={.data.a}") == "b"
        assert second.kubectl("get", "node", "node-1", "-o", "jsonpath={.metadata.uid}") == uid
        assert "Server Version: v1.37" in second.kubectl("version")
        assert second.end(signal.SIGINT) == 0
