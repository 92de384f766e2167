"""What people do to a cluster with the policies of `regauge policies`. Run as a program, it asks a real API server:

    python -m tests.unit.audit.policy_cases KUBECONFIG tests/fixtures/access/policies.json

Everything but the preparation is a dry run, as somebody else. What it makes there it deletes again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import kubectl

from regauge.audit import Guarded, OwnerPolicy, guarding_policies

Object = dict[str, Any]
SPACE, TENANT, OPEN = "policy-gpu", "policy-tenant", "policy-open"
DRIVER = "gpu.example.com"
ACCOUNT = f"system:serviceaccount:{SPACE}:driver"
WHAT = Guarded(
    groups=("system:masters", "system:nodes", "system:serviceaccounts:kube-system", "platform"),
    users=("system:kube-scheduler", "system:kube-controller-manager", "system:apiserver", "operator"),
    accounts=(ACCOUNT,),
    namespaces=(SPACE,),
    drivers=(DRIVER,),
)
OWNER = OwnerPolicy(host_paths=("/opt/models",))
EVERYTHING = "policy-testers"
"""A group that may do everything by RBAC: what is refused is refused by the policies."""


@dataclass(frozen=True)
class Actor:
    user: str
    groups: tuple[str, ...] = (EVERYTHING,)
    node: str = ""

    @property
    def options(self) -> list[str]:
        extra = [f"--as-user-extra=authentication.kubernetes.io/node-name={self.node}"] if self.node else []
        return [f"--as={self.user}", *(f"--as-group={group}" for group in self.groups), *extra]


@dataclass(frozen=True)
class Case:
    """Somebody does something. `expected`: whether the policies let it pass."""

    title: str
    actor: Actor
    words: tuple[str, ...]
    expected: bool
    object: Object | None = None


ANN, OPERATOR = Actor("ann"), Actor("operator")
PLATFORM = Actor("bob", (EVERYTHING, "platform"))
ON_NODE, ELSEWHERE, NOWHERE = Actor(ACCOUNT, node="n1"), Actor(ACCOUNT, node="n2"), Actor(ACCOUNT)
CONTROLLER = Actor(
    "system:serviceaccount:kube-system:daemon-set-controller", (EVERYTHING, "system:serviceaccounts:kube-system")
)
CREATE = ("create", "--dry-run=server", "-f", "-")
ADMIN_LABEL = "resource.kubernetes.io/admin-access=true"


def device_class(name: str) -> Object:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [selector]},
    }


def resource_slice(name: str, driver: str = DRIVER, node: str = "n1") -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "a"}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def pod(namespace: str, path: str | None = None) -> Object:
    spec: Object = {"containers": [{"name": "c", "image": "x"}]}
    if path:
        spec["volumes"] = [{"name": "v", "hostPath": {"path": path}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "made", "namespace": namespace}, "spec": spec}


def template(namespace: str, configured: bool, kind: str = "ResourceClaimTemplate") -> Object:
    devices: Object = {"requests": [{"name": "r", "exactly": {"deviceClassName": "policy-class"}}]}
    if configured:
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}]
    spec: Object = {"devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "made", "namespace": namespace},
            "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec}  # fmt: skip


def config_map(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "made", "namespace": namespace},
        "data": {"a": "b"},
    }


def daemon_set(namespace: str) -> Object:
    inner = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": inner}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "made", "namespace": namespace},
        "spec": spec,
    }


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def cases() -> Iterator[Case]:
    for who, expected in ((ANN, False), (OPERATOR, True), (PLATFORM, True), (ON_NODE, False)):
        yield Case(f"{who.user} makes a class", who, CREATE, expected, device_class("made"))
    yield Case("a tenant deletes a class", ANN, ("delete", "--dry-run=server", "deviceclass", "policy-class"), False)
    patch = (
        "patch",
        "--dry-run=server",
        "deviceclass",
        "policy-class",
        "--type=merge",
        "-p",
        '{"metadata":{"labels":{"a":"b"}}}',
    )
    yield Case("a tenant changes a class", ANN, patch, False)
    yield Case("a tenant writes a slice", ANN, CREATE, False, resource_slice("made"))
    yield Case("a driver writes a slice of its node", ON_NODE, CREATE, True, resource_slice("made"))
    yield Case("a driver writes a slice of another node", ELSEWHERE, CREATE, False, resource_slice("made"))
    yield Case("a driver's token without a node", NOWHERE, CREATE, False, resource_slice("made"))
    yield Case(
        "a driver writes a slice of another driver", ON_NODE, CREATE, False, resource_slice("made", "else.example.com")
    )
    delete = ("delete", "--dry-run=server", "resourceslice", "policy-slice")
    yield Case("a driver deletes a slice of its node", ON_NODE, delete, True)
    yield Case("a driver deletes a slice of another node", ELSEWHERE, delete, False)
    for made in (daemon_set, config_map):
        kind = made(SPACE)["kind"]
        yield Case(f"a tenant makes a {kind} beside a driver", ANN, CREATE, False, made(SPACE))
        yield Case(f"a tenant makes a {kind} at home", ANN, CREATE, True, made(TENANT))
        yield Case(f"an operator makes a {kind} beside a driver", PLATFORM, CREATE, True, made(SPACE))
    yield Case("a driver writes its own ConfigMap", ON_NODE, CREATE, True, config_map(SPACE))
    yield Case("the controller makes a driver's pod", CONTROLLER, CREATE, True, pod(SPACE, "/dev"))
    token = ("create", "token", "driver", "-n", SPACE)
    yield Case("a tenant takes a driver's token", ANN, token, False)
    yield Case("a tenant opens a shell in a driver", ANN, ("exec", "-n", SPACE, "policy-pod", "--", "true"), False)
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        yield Case(f"a {kind} with parameters", ANN, CREATE, False, template(TENANT, True, kind))
        yield Case(f"a {kind} without parameters", ANN, CREATE, True, template(TENANT, False, kind))
    yield Case("parameters where they are allowed", ANN, CREATE, True, template(OPEN, True))
    for path, expected in (("/dev/vfio", False), ("/", False), ("/var/lib", False), ("/var/lib/kubelet/plugins", False),
                           ("/srv/data", True), ("/opt/models", True), ("/opt/modelsx", False),
                           ("/devices", True)):  # fmt: skip
        yield Case(f"a pod that mounts {path}", ANN, CREATE, expected, pod(TENANT, path))
    yield Case("a pod that mounts nothing", ANN, CREATE, True, pod(TENANT))
    yield Case("a controller's pod that mounts /dev", CONTROLLER, CREATE, False, pod(TENANT, "/dev"))
    yield Case("a pod that mounts /dev where it is allowed", ANN, CREATE, True, pod(OPEN, "/dev"))
    yield from _labels()


def _labels() -> Iterator[Case]:
    label = ("label", "--dry-run=server", "namespace", TENANT)
    for one in (ADMIN_LABEL, "regauge.dev/driver-config=true", "regauge.dev/host-paths=true"):
        yield Case(f"a tenant sets {one}", ANN, (*label, one), False)
        yield Case(f"an operator sets {one}", PLATFORM, (*label, one), True)
    yield Case("a tenant sets another label", ANN, (*label, "a=b"), True)
    yield Case(
        "a tenant takes a guarded label away",
        ANN,
        ("label", "--dry-run=server", "namespace", OPEN, "regauge.dev/host-paths-"),
        False,
    )
    yield Case(
        "a tenant makes a labelled namespace",
        ANN,
        CREATE,
        False,
        namespace("made", **{ADMIN_LABEL.partition("=")[0]: "true"}),
    )
    yield Case("a tenant makes a namespace", ANN, CREATE, True, namespace("made"))


def prepared() -> list[Object]:
    group = {"kind": "Group", "name": EVERYTHING, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": EVERYTHING},
               "roleRef": role, "subjects": [group]}  # fmt: skip
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driver", "namespace": SPACE}}
    held = pod(SPACE)
    held["metadata"]["name"] = "policy-pod"
    open_ = namespace(OPEN, **{"regauge.dev/driver-config": "true", "regauge.dev/host-paths": "true"})
    return [namespace(SPACE), namespace(TENANT), open_, binding, account, device_class("policy-class"),
            resource_slice("policy-slice"), held]  # fmt: skip


class Asked:
    """kubectl as the administrator of a cluster, or as somebody else."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig

    def run(self, *words: str, stdin: Any = None) -> tuple[int, str]:
        done = subprocess.run([str(kubectl()), "--kubeconfig", self.kubeconfig, *words], capture_output=True, text=True,
                              input=json.dumps(stdin) if stdin is not None else "", timeout=60)  # fmt: skip
        return done.returncode, (done.stdout + done.stderr).strip()

    def answer(self, case: Case) -> Object:
        code, said = self.run(*case.actor.options, *case.words, stdin=case.object)
        by_policy = "ValidatingAdmissionPolicy 'regauge-" in said and "denied request" in said
        return {"title": case.title, "allowed": code == 0, "byPolicy": by_policy, "said": said}


def recorded(kubeconfig: str) -> Object:
    asked = Asked(kubeconfig)
    made = list(guarding_policies(WHAT, OWNER))
    listed = [{"apiVersion": "v1", "kind": "List", "items": found} for found in (prepared(), made)]
    try:
        for one in listed:
            code, said = asked.run("apply", "-f", "-", stdin=one)
            assert code == 0, said
        deadline = time.monotonic() + 60
        first = next(cases())
        while asked.answer(first)["allowed"] and time.monotonic() < deadline:
            time.sleep(1)
        time.sleep(10)  # the others take effect, and the controller checks the types of expressions
        answers = [asked.answer(case) for case in cases()]
        _, text = asked.run("get", "validatingadmissionpolicies", "-o", "json")
        status = {one["metadata"]["name"]: one.get("status", {}) for one in json.loads(text)["items"]}
        names = [one["metadata"]["name"] for one in made if one["kind"] == "ValidatingAdmissionPolicy"]
        _, version = asked.run("version", "-o", "json")
        return {
            "server": json.loads(version)["serverVersion"]["gitVersion"],
            "policies": made,
            "checked": {name: "typeChecking" in status[name] for name in names},
            "warnings": {name: status[name].get("typeChecking", {}).get("expressionWarnings", []) for name in names},
            "answers": answers,
        }
    finally:
        for one in reversed(listed):
            asked.run("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=one)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(recorded(sys.argv[1]), indent=1) + "\n")
