"""Pieces and shares that the driver publishes, given out by a real scheduler.

`REGAUGE_KUBECONFIG` names the kubeconfig of a throw-away cluster; without it this is skipped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.driver.cluster import Cluster, node
from tests.unit.driver.kinds.trees import Kind

from regauge.driver import Stack
from regauge.driver.slices import Pool, writes
from regauge.model import Quantity

NODE = "pieces-node"
SPACE = "regauge-pieces"
API = "resource.k8s.io/v1"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if not os.environ.get("REGAUGE_KUBECONFIG"):
        pytest.skip("REGAUGE_KUBECONFIG names no cluster")
    made = Cluster(os.environ["REGAUGE_KUBECONFIG"])
    made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}, node(NODE))
    made.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}})
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "50"}
    status = {
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    }
    done = made.run("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    assert done.returncode == 0, done.stderr
    made.run("taint", "node", NODE, "node.kubernetes.io/not-ready-")
    yield made
    for rest in (("pods", "-n", SPACE), ("resourceclaims", "-n", SPACE), ("resourceslices",)):
        made.run("delete", *rest, "--all", "--force", "--grace-period=0", "--wait=false")
    made.run("delete", "--ignore-not-found", "--wait=false", "node", NODE)
    made.run("delete", "--ignore-not-found", "--wait=false", "deviceclass", "pieces")


def publish(cluster: Cluster, kind: str) -> None:
    found = [one for one in Kind(kind).discover().values() if one.stack is Stack.DRA]
    made = {"expression": "device.driver == 'gpu.example.com'"}
    class_ = {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": "pieces"},
        "spec": {"selectors": [{"cel": made}]},
    }
    cluster.apply(class_, *writes(Pool("gpu.example.com", NODE), found, []).creates)


def ask(cluster: Cluster, name: str, **request: Any) -> None:
    """A pod on the node with a claim of its own."""
    exact = {"deviceClassName": "pieces", **request}
    claim = {"devices": {"requests": [{"name": "piece", "exactly": exact}]}}
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "piece"}]}}
    claims = [{"name": "piece", "resourceClaimName": name}]
    spec = {"containers": [container], "resourceClaims": claims}
    metadata = {"name": name, "namespace": SPACE}
    cluster.apply(
        {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": claim},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    )


def allocated(cluster: Cluster, name: str) -> dict[str, Any] | None:
    """The device that a claim got, once its pod is placed or refused."""
    for _ in range(120):
        pod = json.loads(cluster.run("get", "pod", name, "-n", SPACE, "-o", "json").stdout)
        conditions = {one["type"]: one for one in pod["status"].get("conditions", [])}
        scheduled = conditions.get("PodScheduled", {})
        if scheduled.get("status") == "True":
            claim = json.loads(cluster.run("get", "resourceclaim", name, "-n", SPACE, "-o", "json").stdout)
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            return dict(result)
        if scheduled.get("reason") == "Unschedulable":
            assert "cannot allocate all claims" in scheduled["message"], scheduled["message"]
            return None
        time.sleep(0.25)
    pytest.fail(f"nothing happened to pod {name}")


def of(profile: str) -> dict[str, Any]:
    """A request for a piece of this profile, or for the whole device, which has none."""
    attributes = "device.attributes['gpu.example.com']"
    has = f"'profile' in {attributes}"
    expression = f"{has} && {attributes}.profile == '{profile}'" if profile else f"!({has})"
    return {"selectors": [{"cel": {"expression": expression}}]}


@pytest.mark.row(66, how="real")
def test_a_piece_takes_what_others_would_need(cluster: Cluster) -> None:
    """80Gi and 7 slices: two halves leave no memory for a small piece; with one half less there is room for four."""
    publish(cluster, "partition")
    half, small, whole = of("3g.40gb"), of("1g.10gb"), of("")
    for name in ("half-a", "half-b"):
        ask(cluster, name, **half)
        got = allocated(cluster, name)
        assert got is not None and got["device"].startswith("gpu-0-half-")
    ask(cluster, "small", **small)
    assert allocated(cluster, "small") is None
    cluster.run("delete", "pod", "half-b", "-n", SPACE, "--force", "--grace-period=0")
    cluster.run("delete", "resourceclaim", "half-b", "-n", SPACE)
    for _ in range(60):
        if got := allocated(cluster, "small"):
            break
        time.sleep(0.5)
    assert got is not None and got["device"].startswith("gpu-0-small-")
    ask(cluster, "whole", **whole)
    assert allocated(cluster, "whole") is None


@pytest.mark.row(65, how="real")
def test_claims_take_parts_by_the_policy_until_nothing_is_left(cluster: Cluster) -> None:
    """40G of bandwidth in steps: what is asked for is rounded up, what is not gets the default, and the fifth gets none."""
    publish(cluster, "shared")
    shares = set()
    for name, asked, given in (("a", "10G", "10G"), ("b", "9600M", "10G"), ("c", "", "1G"), ("d", "10G", "10G")):
        ask(cluster, name, **({"capacity": {"requests": {"bandwidth": asked}}} if asked else {}))
        got = allocated(cluster, name)
        assert got is not None
        assert got["device"] == "nic-0"
        assert Quantity.parse(got["consumedCapacity"]["bandwidth"]) == Quantity.parse(given)
        shares.add(got["shareID"])
    assert len(shares) == 4
    ask(cluster, "e", capacity={"requests": {"bandwidth": "10G"}})
    assert allocated(cluster, "e") is None
    ask(cluster, "f", capacity={"requests": {"bandwidth": "20G"}})
    assert allocated(cluster, "f") is None
