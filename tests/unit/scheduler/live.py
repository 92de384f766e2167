"""Recorded stories set up on a cluster that is running, and its scheduler asked after we have said what it will do.

Pods are made with a scheduling gate. While it holds, `regauge explain` is asked what would happen without it; then the gate
is lifted, and the cluster answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.collect import LIVE_KINDS
from regauge.features import gates_from_prometheus
from regauge.kube import ApiError, NotFound
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.model import Kind, Object, find_kind
from regauge.model import kinds as k

GATE = "regauge.dev/foretold-first"
WAIT_S = 12.0
POLL_S = 0.05
TEMPORARY = (
    k.POD,
    k.RESOURCE_CLAIM_TEMPLATE,
    k.RESOURCE_CLAIM,
    k.DEVICE_TAINT_RULE,
    k.RESOURCE_SLICE,
    k.DEVICE_CLASS,
    k.NODE,
)
Device = tuple[str, str]  # request, driver/pool/name


@dataclass(frozen=True)
class Decision:
    """What the cluster did with a pod: its node, or the message of its condition, and what its claims have."""

    node: str
    message: str
    devices: frozenset[Device]


class Live:
    """A cluster that may be emptied."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self._runner = asyncio.Runner()
        self._client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig))
        version = self._run(self._client.version())
        self.version = version.git_version
        self.gates = self._read_gates()

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()

    def _run(self, what: Any) -> Any:
        return self._runner.run(what)

    def _read_gates(self) -> dict[str, bool]:
        try:
            return gates_from_prometheus(self._run(self._client.metrics()))
        except ApiError:
            return {}

    # -- objects

    def list(self, kind: Kind) -> list[Object]:
        for version in (kind.version, *kind.others):
            served = Kind(kind.group, version, kind.kind, kind.plural, namespaced=kind.namespaced)
            try:
                found = self._run(self._client.list(served)).items
            except NotFound:
                continue
            return [{**one, "kind": kind.kind, "apiVersion": served.api_version} for one in found]
        return []

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        found: Object = self._run(self._client.get(kind, name, namespace))
        return found

    def create(self, object_: Object) -> None:
        """An object with its status, as if it had been there. Raises `ApiError` where the cluster refuses it."""
        kind = self._kind(object_)
        namespace = object_["metadata"].get("namespace") or ("default" if kind.namespaced else "")
        status = object_.get("status")
        self._run(
            self._client.create(kind, {key: value for key, value in object_.items() if key != "status"}, namespace)
        )
        name = object_["metadata"]["name"]
        if status:
            self._run(self._client.patch(kind, name, {"status": status}, namespace, subresource="status"))
        if kind == k.NODE:
            self._run(self._client.patch(kind, name, {"spec": {"taints": (object_.get("spec") or {}).get("taints")}}))

    def _kind(self, object_: Object) -> Kind:
        kind = find_kind(object_["apiVersion"], object_["kind"])
        assert kind is not None, object_["kind"]
        group, _, version = object_["apiVersion"].rpartition("/")
        return Kind(group, version, kind.kind, kind.plural, namespaced=kind.namespaced)

    def empty(self) -> None:
        """Nothing of a story is left."""
        deadline = time.monotonic() + 30
        while True:
            left = [one for kind in TEMPORARY for one in self.list(kind)]
            if not left:
                return
            assert time.monotonic() < deadline, [one["metadata"]["name"] for one in left]
            for one in left:
                with contextlib.suppress(NotFound):
                    self.drop(one)
            time.sleep(POLL_S)

    def drop(self, object_: Object) -> None:
        """Delete an object, at once and whatever its finalizers say."""
        kind, metadata = self._kind(object_), object_["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
            self._run(self._client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace))
        self._run(self._client.delete(kind, name, namespace, grace_period_s=0))

    def finish(self, name: str, namespace: str = "default") -> None:
        """A pod ends well, as its kubelet would say."""
        self._run(self._client.patch(k.POD, name, {"status": {"phase": "Succeeded"}}, namespace, subresource="status"))

    def until(self, found: Callable[[], Any]) -> Any:
        """What `found` gives once it is not None."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            value = found()
            if value is not None:
                return value
            time.sleep(POLL_S)
        raise AssertionError("the cluster did not answer in time")

    # -- pods

    def hold(self, pod: Object) -> Object:
        """Create the pod with the gate, once its claims are there."""
        gates = [*(pod["spec"].get("schedulingGates") or []), {"name": GATE}]
        self.create({**pod, "spec": {**pod["spec"], "schedulingGates": gates}})
        namespace = pod["metadata"].get("namespace", "default")
        wanted = [one for one in pod["spec"].get("resourceClaims") or [] if "resourceClaimTemplateName" in one]

        def ready() -> Object | None:
            there = self.get(k.POD, pod["metadata"]["name"], namespace)
            return there if len(there["status"].get("resourceClaimStatuses") or []) >= len(wanted) else None

        held: Object = self.until(ready)
        return held

    def let_go(self, pod: Object) -> Decision:
        """Lift the gate and wait for what the scheduler does. Devices are those that were chosen now."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        before = {
            one["metadata"]["uid"] for one in self.list(k.RESOURCE_CLAIM) if (one.get("status") or {}).get("allocation")
        }
        self._run(self._client.patch(k.POD, name, {"spec": {"schedulingGates": None}}, namespace))

        def decided() -> Decision | None:
            there = self.get(k.POD, name, namespace)
            if there["spec"].get("nodeName"):
                return Decision(there["spec"]["nodeName"], "", self._devices(there, before))
            for one in there["status"].get("conditions") or []:
                if one["type"] == "PodScheduled" and one.get("reason") in ("Unschedulable", "SchedulerError"):
                    return Decision("", one["message"], frozenset())
            return None

        decision: Decision = self.until(decided)
        return decision

    def _devices(self, pod: Object, before: set[str]) -> frozenset[Device]:
        namespace, status = pod["metadata"]["namespace"], pod["status"]
        made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or []}
        names = [
            one.get("resourceClaimName") or made.get(one["name"]) for one in pod["spec"].get("resourceClaims") or []
        ]
        special = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        claims = [self.get(k.RESOURCE_CLAIM, name, namespace) for name in (*names, special) if name]
        return frozenset(
            (one["request"], f"{one['driver']}/{one['pool']}/{one['device']}")
            for claim in claims
            if claim["metadata"]["uid"] not in before
            for one in claim["status"]["allocation"]["devices"]["results"]
        )

    # -- what we say

    def foretell(self, pod: Object) -> Object:
        """The answer of `regauge explain` for the pod without its gate, everything else as it is now."""
        items = [one for kind in LIVE_KINDS for one in self.list(kind)]
        for one in items:
            if one["kind"] == "Pod" and one["metadata"]["uid"] == pod["metadata"]["uid"]:
                one["spec"] = {key: value for key, value in one["spec"].items() if key != "schedulingGates"}
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(self.gates.items()))
        options = ("--from", "-", "--kube-version", self.version, "--feature-gates", gates)
        return explained(pod, *options, given=json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))

    def tell(self, pod: Object) -> Object:
        """The answer of `regauge explain` on the live cluster, by its own version and gates."""
        return explained(pod, "--kubeconfig", self.kubeconfig)


def explained(pod: Object, *options: str, given: str = "") -> Object:
    words = ["explain", "pod", pod["metadata"]["name"], "-n", pod["metadata"]["namespace"], "-o", "json", *options]
    done = CliRunner().invoke(app, words, input=given)
    assert done.exit_code in (0, 1), done.output
    document: Object = json.loads(done.stdout)
    return document


def promised(found: Object, node: str) -> frozenset[Device]:
    """The devices that a pod was told to get on a node."""
    (one,) = [item for item in found["nodes"] if item["node"] == node]
    given = (one["devices"] or {}).get("gets") or []
    return frozenset((item["request"], item["device"]) for item in given)


def objects_of(story: Path) -> tuple[list[Object], list[Object]]:
    """What is there before a story, and what it creates, in order."""
    read = yaml.safe_load((story / "input.yaml").read_text())
    return read["setup"], [one for step in read["steps"] for one in step.get("create") or []]


def kinds_of(objects: Iterable[Object]) -> set[str]:
    return {one["kind"] for one in objects}
