"""Roles, bindings and questions about them, by chance of a seed; and how a server is asked. Run as a program, it records what
a real API server answers:

    python -m tests.unit.audit.access_cases KUBECONFIG tests/fixtures/access/answers.json

The server must have RBAC and the controller that sums up aggregated roles. What it makes there it deletes again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.support import kubectl

from regauge.kube import NotFound
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.model import Kind
from regauge.model.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE, ROLE_BINDING

API = "rbac.authorization.k8s.io"
LABEL = "regauge.dev/access-case"
SPACES = ("access-a", "access-b")
REVIEW = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
VERBS = (
    "get",
    "list",
    "create",
    "update",
    "patch",
    "delete",
    "bind",
    "escalate",
    "arbitrary-node:update",
    "made-up",
    "*",
)
GROUPS = ("", "apps", "resource.k8s.io", "example.com", "*")
RESOURCES = ("pods", "pods/log", "pods/exec", "daemonsets", "deviceclasses", "resourceclaims", "resourceclaims/status",
             "resourceclaims/driver", "*", "*/status", "pods/*", "*/*", "Pods")  # fmt: skip
NAMES = ("one", "two")
PATHS = ("/healthz", "/metrics", "/metrics/*", "/api*", "/api/**", "*", "/logs/")
USERS = ("ann", "bob", "system:serviceaccount:access-a:robot", "system:serviceaccount:access-b:robot", "")
TEAMS = ("team-a", "team-b", "system:authenticated", "system:serviceaccounts", "system:serviceaccounts:access-a")
BUILT_IN = ("admin", "edit", "view", "cluster-admin")
SERVED = ("pods.", "daemonsets.apps", "deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io")
Object = dict[str, Any]


def some(random: Random, values: Sequence[str], most: int = 3) -> list[str]:
    return random.sample(values, random.randint(1, most))


def rule(random: Random) -> Object:
    if random.random() < 0.15:
        return {"nonResourceURLs": some(random, PATHS), "verbs": some(random, ("get", "post", "*"), 2)}
    made: Object = {
        "apiGroups": some(random, GROUPS, 2),
        "resources": some(random, RESOURCES),
        "verbs": some(random, VERBS),
    }
    if random.random() < 0.3:
        made["resourceNames"] = some(random, NAMES, 2)
    return made


def world(seed: int) -> list[tuple[Kind, Object]]:
    """Roles and bindings: plain, aggregated in two steps, of missing roles, of the roles that every cluster has."""
    random = Random(seed)
    found: list[tuple[Kind, Object]] = []

    def add(kind: Kind, name: str, namespace: str = "", labels: Mapping[str, str] | None = None, **rest: Any) -> None:
        metadata: Object = {"name": f"case-{seed}-{name}", "labels": {LABEL: "yes", **(labels or {})}}
        if namespace:
            metadata["namespace"] = namespace
        found.append((kind, {"apiVersion": f"{API}/v1", "kind": kind.kind, "metadata": metadata, **rest}))

    give = f"give-{seed}"
    for number in range(6):
        labels = {give: random.choice(("red", "blue"))} if number % 2 else {}
        add(CLUSTER_ROLE, f"plain-{number}", labels=labels, rules=[rule(random) for _ in range(random.randint(1, 3))])
    red = {"matchLabels": {give: "red"}}
    blue = {"matchExpressions": [{"key": give, "operator": "In", "values": ["blue", "green"]}]}
    add(CLUSTER_ROLE, "sum", labels={give: "green"}, aggregationRule={"clusterRoleSelectors": [red]})
    add(CLUSTER_ROLE, "sum-of-sums", aggregationRule={"clusterRoleSelectors": [blue]})
    for space in SPACES:
        add(ROLE, "local", space, rules=[one for one in (rule(random) for _ in range(4)) if "resources" in one])
    roles = [
        *(f"case-{seed}-plain-{n}" for n in range(6)),
        f"case-{seed}-sum",
        f"case-{seed}-sum-of-sums",
        "gone",
        "view",
    ]
    for number in range(3):
        reference = {"apiGroup": API, "kind": "ClusterRole", "name": random.choice(roles)}
        add(CLUSTER_ROLE_BINDING, f"everywhere-{number}", roleRef=reference, subjects=subjects(random, True))
        local = random.choice(({"kind": "Role", "name": f"case-{seed}-local"}, reference))
        add(ROLE_BINDING, f"here-{number}", random.choice(SPACES), roleRef={"apiGroup": API, **local},
            subjects=subjects(random, False))  # fmt: skip
    return found


def subjects(random: Random, everywhere: bool) -> list[Object]:
    found: list[Object] = []
    for _ in range(random.randint(1, 3)):
        kind = random.choice(("User", "Group", "ServiceAccount"))
        one: Object = {"kind": kind, "name": "robot" if kind == "ServiceAccount" else random.choice(
            [user for user in USERS if user] if kind == "User" else TEAMS)}  # fmt: skip
        if kind != "ServiceAccount":
            one["apiGroup"] = API
        elif everywhere or random.random() < 0.5:
            one["namespace"] = random.choice(SPACES)
        found.append(one)
    return found


def questions(seed: int, count: int) -> list[Object]:
    """Specs of SubjectAccessReview."""
    random = Random(f"questions {seed}")
    found: list[Object] = []
    for _ in range(count):
        user, groups = random.choice(USERS), some(random, TEAMS, 2)
        spec: Object = {"user": user, "groups": groups} if user else {"groups": groups}
        if random.random() < 0.15:
            path = random.choice(
                ("/healthz", "/metrics", "/metrics/x", "/api", "/api/v1", "/logs/", "/logs", "/version")
            )
            spec["nonResourceAttributes"] = {"verb": random.choice(("get", "post", "put")), "path": path}
        else:
            resource, _, part = random.choice([one for one in RESOURCES if "*" not in one]).partition("/")
            asked = {"verb": random.choice(VERBS[:-1]), "group": random.choice(GROUPS[:-1]), "resource": resource,
                     "subresource": part, "namespace": random.choice(("", *SPACES)),
                     "name": random.choice(("", *NAMES, "three"))}  # fmt: skip
            spec["resourceAttributes"] = {key: value for key, value in asked.items() if value}
        found.append(spec)
    return found


def kept(objects: Iterable[Object]) -> list[Object]:
    """What answers depend on: the objects of the cases, and of those that every cluster has those for everybody."""
    found = []
    for one in objects:
        named, labels = one["metadata"]["name"], one["metadata"].get("labels") or {}
        to_all = any(subject.get("name") in TEAMS for subject in one.get("subjects") or ())
        everybody = named.startswith(
            ("system:basic", "system:discovery", "system:public", "system:service-account-issuer")
        )
        summed = any(key.startswith("rbac.authorization.k8s.io/aggregate-to") for key in labels)
        if LABEL in labels or to_all or everybody or summed or named in BUILT_IN:
            metadata = {
                key: one["metadata"][key] for key in ("name", "namespace", "labels") if one["metadata"].get(key)
            }
            found.append({**one, "metadata": metadata})
    return found


async def recorded(
    client: HttpClient, seeds: Sequence[int], count: int, can: Callable[[Object], bool | None] = lambda _: None
) -> Object:
    """What the server answers, and all that it answers by; `can` asks some questions once more, by another program."""
    for space in SPACES:
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    made = [one for seed in seeds for one in world(seed)]
    try:
        for kind, one in made:
            await client.create(kind, one, one["metadata"].get("namespace", ""))
        await asyncio.sleep(5)  # the controller sums up, and the caches of the authorizer follow
        specs = [spec for seed in seeds for spec in questions(seed, count)]
        answers = [await asked(client, spec) for spec in specs]
        again = [{**spec, "allowed": can(spec)} for spec in specs]
        told = [one for one in again if one["allowed"] is not None]
        objects: list[Object] = []
        for kind in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING):
            for item in (await client.list(kind, "")).items:
                objects.append({"apiVersion": kind.api_version, "kind": kind.kind, **item})
        version = await client.version()
        return {"server": version.git_version, "objects": kept(objects), "answers": answers, "canI": told}
    finally:
        for kind, one in made:
            await gone(client, kind, one["metadata"]["name"], one["metadata"].get("namespace", ""))
        for space in SPACES:
            await gone(client, NAMESPACE, space, "")


async def asked(client: HttpClient, spec: Object) -> Object:
    review = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {}, "spec": spec}
    answer = await client.create(REVIEW, review)
    return {**spec, "allowed": bool(answer["status"].get("allowed"))}


async def gone(client: HttpClient, kind: Kind, name: str, namespace: str) -> None:
    with contextlib.suppress(NotFound):
        await client.delete(kind, name, namespace)


def can_i(kubeconfig: str, spec: Object) -> bool | None:
    """What `kubectl auth can-i` says to the same question; None where it cannot be asked so."""
    asked, user = spec.get("resourceAttributes"), spec.get("user")
    if asked is None or not user or f"{asked['resource']}.{asked.get('group', '')}" not in SERVED:
        return None
    resource = f"{asked['resource']}.{asked.get('group', '')}".rstrip(".")
    named = f"{resource}/{asked['name']}" if asked.get("name") else resource
    command = [str(kubectl()), "--kubeconfig", kubeconfig, "auth", "can-i", asked["verb"], named, "--as", user]
    command += [f"--as-group={group}" for group in spec["groups"]]
    command += [f"--subresource={asked['subresource']}"] if asked.get("subresource") else []
    command += ["-n", asked["namespace"]] if asked.get("namespace") else ["-A"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip() == "yes"


async def main(kubeconfig: str, place: str) -> None:
    client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig))
    document = await recorded(client, (1, 2, 3), 400, lambda spec: can_i(kubeconfig, spec))
    rows = ",\n".join(json.dumps(one, sort_keys=True) for one in document["answers"])
    told = ",\n".join(json.dumps(one, sort_keys=True) for one in document["canI"])
    objects = ",\n".join(json.dumps(one, sort_keys=True) for one in document["objects"])
    head = json.dumps(document["server"])
    parts = [f'"server": {head}', f'"objects": [\n{objects}\n]', f'"answers": [\n{rows}\n]', f'"canI": [\n{told}\n]']
    Path(place).write_text("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
