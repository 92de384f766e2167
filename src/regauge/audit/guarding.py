"""Admission policies that keep tenants from what decides about devices, made for the drivers of an estate.

Each is a ValidatingAdmissionPolicy with its binding. They say nothing to the cluster's own parts (system:masters, nodes,
accounts of kube-system) and to the operators that the owner names; everybody else is a tenant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from regauge.audit.estate_drivers import Driver, drivers
from regauge.audit.ground import Ground
from regauge.audit.owner_policy import OwnerPolicy
from regauge.model.resource import ADMIN_ACCESS_LABEL

PREFIX = "regauge-"
GUARDED_PATHS = (
    "/dev",
    "/sys",
    "/proc",
    "/etc",
    "/boot",
    "/root",
    "/var/lib/kubelet",
    "/var/run",
    "/run",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/opt",
    "/usr",
)
CONFIG_LABEL, PATHS_LABEL = "regauge.dev/driver-config", "regauge.dev/host-paths"
"""Labels of namespaces in which tenants may give parameters to drivers, or mount guarded paths. Only operators set them."""
_API = "admissionregistration.k8s.io/v1"
_TRUSTED_GROUPS = ("system:masters", "system:nodes", "system:serviceaccounts:kube-system")
_CONTROL_PLANE = ("system:kube-scheduler", "system:kube-controller-manager", "system:apiserver")
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Guarded:
    """What the policies are made for: who is trusted, the accounts and namespaces of drivers, the names of DRA drivers."""

    groups: tuple[str, ...]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    namespaces: tuple[str, ...]
    drivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One validation: an expression that must hold, and what is said where it does not."""

    expression: str
    message: str


def guarded(ground: Ground) -> Guarded:
    """What an estate has that is to be guarded."""
    found = drivers(ground)
    people = [one.partition(" ")[::2] for one in ground.given.policy.operators]
    named = [f"system:serviceaccount:{name.replace('/', ':')}" for kind, name in people if kind == "ServiceAccount"]
    return Guarded(
        groups=(*_TRUSTED_GROUPS, *(name for kind, name in people if kind == "Group")),
        users=(*_CONTROL_PLANE, *(name for kind, name in people if kind == "User"), *named),
        accounts=tuple(dict.fromkeys(_account(one) for one in found)),
        namespaces=tuple(sorted({one.document.namespace for one in found})),
        drivers=tuple(sorted({one.spec.driver for one in ground.newest})),
    )


def guarding_policies(what: Guarded, policy: OwnerPolicy) -> tuple[Object, ...]:
    """Policies and bindings, each policy before its binding."""
    made = [
        *_classes(what),
        *_slices(what),
        *_driver_objects(what),
        *_claims(what),
        *_host_paths(what, policy),
        *_admin(what),
    ]
    return tuple(made)


def _classes(what: Guarded) -> Iterator[Object]:
    rules = [_rule("resource.k8s.io", ["deviceclasses", "devicetaintrules"], ["CREATE", "UPDATE", "DELETE"])]
    never = Check("false", "device classes and taint rules are the platform's: ask its operators")
    yield from _policy("device-classes", rules, what, (), [never])


def _slices(what: Guarded) -> Iterator[Object]:
    rules = [_rule("resource.k8s.io", ["resourceslices"], ["CREATE", "UPDATE", "DELETE"])]
    names = _listed(what.drivers)
    checks = [
        Check(f"request.userInfo.username in {_listed(what.accounts)}", "resource slices are written by drivers only"),
        Check(
            "has(variables.slice.spec.nodeName) && variables.slice.spec.nodeName == variables.node",
            "a driver writes the slices of the node of its pod only, with the token of that pod",
        ),
    ]
    if what.drivers:
        checks.append(
            Check(f"variables.slice.spec.driver in {names}", "there is no driver of that name on this platform")
        )
    variables = [
        ("slice", 'request.operation == "DELETE" ? oldObject : object'),
        (
            "node",
            'has(request.userInfo.extra) && "authentication.kubernetes.io/node-name" in request.userInfo.extra'
            ' ? request.userInfo.extra["authentication.kubernetes.io/node-name"][0] : ""',
        ),
    ]
    yield from _policy("resource-slices", rules, what, variables, checks)


def _driver_objects(what: Guarded) -> Iterator[Object]:
    """In the namespaces of drivers nobody but operators and the drivers themselves writes."""
    if not what.namespaces:
        return
    rules = [
        _rule("apps", ["daemonsets", "deployments", "statefulsets", "replicasets"], ["CREATE", "UPDATE", "DELETE"]),
        _rule("batch", ["jobs", "cronjobs"], ["CREATE", "UPDATE", "DELETE"]),
        _rule("", ["pods", "configmaps", "secrets", "serviceaccounts"], ["CREATE", "UPDATE", "DELETE"]),
        _rule("", ["pods/exec", "pods/attach", "pods/portforward"], ["CONNECT"]),
        _rule("", ["pods/ephemeralcontainers"], ["UPDATE"]),
        _rule("", ["serviceaccounts/token"], ["CREATE"]),
    ]
    check = Check(
        f"request.userInfo.username in {_listed(what.accounts)}",
        "this namespace holds device drivers: what is in it is written by the platform's operators",
    )
    selector = {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(what.namespaces)}]
    }
    yield from _policy("drivers", rules, what, (), [check], {"namespaceSelector": selector})


def _claims(what: Guarded) -> Iterator[Object]:
    rules = [_rule("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"], ["CREATE", "UPDATE"])]
    variables = [
        ("spec", "has(dyn(object).spec.spec) ? dyn(object).spec.spec : dyn(object).spec"),
        (
            "configs",
            "has(variables.spec.devices) && has(variables.spec.devices.config) ? variables.spec.devices.config : []",
        ),
    ]
    check = Check(
        "variables.configs.all(one, !has(one.opaque))",
        f"parameters for drivers are allowed in namespaces with the label {CONFIG_LABEL}=true",
    )
    selector = {"matchExpressions": [{"key": CONFIG_LABEL, "operator": "NotIn", "values": ["true"]}]}
    yield from _policy("driver-config", rules, what, variables, [check], {"namespaceSelector": selector})


def _host_paths(what: Guarded, policy: OwnerPolicy) -> Iterator[Object]:
    rules = [_rule("", ["pods"], ["CREATE"])]
    allowed = [one.rstrip("/") for one in policy.host_paths or ()]
    variables = [
        ("volumes", "has(object.spec.volumes) ? object.spec.volumes.filter(one, has(one.hostPath)) : []"),
        ("guarded", _listed(GUARDED_PATHS)),
        ("allowed", _listed(allowed)),
    ]
    below = 'one.hostPath.path == path || one.hostPath.path.startsWith(path + "/")'
    above = " && ".join(f"one.hostPath.path != {json.dumps(path)}" for path in ("/", "/var", "/var/lib"))
    check = Check(
        f"variables.volumes.all(one, variables.allowed.exists(path, {below})"
        f" || ({above} && !variables.guarded.exists(path, {below})))",
        "devices, the kubelet's and the runtime's directories are not mounted from the host: ask for devices by claims",
    )
    held = ["kube-system", *what.namespaces]
    selector = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": held},
            {"key": PATHS_LABEL, "operator": "NotIn", "values": ["true"]},
        ]
    }
    yield from _policy("host-paths", rules, None, variables, [check], {"namespaceSelector": selector})


def _admin(what: Guarded) -> Iterator[Object]:
    rules = [_rule("", ["namespaces"], ["CREATE", "UPDATE"])]
    labels = [json.dumps(one) for one in (ADMIN_ACCESS_LABEL, CONFIG_LABEL, PATHS_LABEL)]
    variables = [
        ("now", "has(object.metadata.labels) ? object.metadata.labels : {}"),
        (
            "before",
            "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}",
        ),
    ]
    checks = [
        Check(
            f'({label} in variables.now ? variables.now[{label}] : "")'
            f' == ({label} in variables.before ? variables.before[{label}] : "")',
            f"the label {json.loads(label)} is set by the platform's operators",
        )
        for label in labels
    ]
    yield from _policy("namespace-labels", rules, what, variables, checks)


def _policy(
    name: str,
    rules: list[Object],
    what: Guarded | None,
    variables: Iterable[tuple[str, str]],
    checks: list[Check],
    constraints: Object | None = None,
) -> Iterator[Object]:
    """A policy and its binding. Without `what` it holds for everybody: pods of tenants are made by controllers."""
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules, **(constraints or {})},
        "validations": [
            {"expression": one.expression, "message": one.message, "reason": "Forbidden"} for one in checks
        ],
    }
    if what is not None:
        spec["matchConditions"] = [{"name": "by-a-tenant", "expression": _by_a_tenant(what)}]
    named = [{"name": key, "expression": expression} for key, expression in variables]
    if named:
        spec["variables"] = named
    metadata = {"name": f"{PREFIX}{name}"}
    yield {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}
    binding = {"policyName": metadata["name"], "validationActions": ["Deny", "Audit"]}
    yield {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": dict(metadata), "spec": binding}


def _by_a_tenant(what: Guarded) -> str:
    return (
        f"!(request.userInfo.username in {_listed(what.users)})"
        f" && !request.userInfo.groups.exists(group, group in {_listed(what.groups)})"
    )


def _rule(group: str, resources: list[str], operations: list[str]) -> Object:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": resources}


def _account(driver: Driver) -> str:
    return f"system:serviceaccount:{driver.document.namespace}:{driver.account}"


def _listed(names: Iterable[str]) -> str:
    """A list in CEL. JSON's text is CEL's."""
    return "[" + ", ".join(json.dumps(one) for one in names) + "]"
