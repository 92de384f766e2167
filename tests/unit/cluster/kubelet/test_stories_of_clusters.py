"""Stories of a node in its cluster, recorded with a real control plane: ours schedules, makes and takes back claims, and
evicts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cluster.kubelet.playing import STUBBORN, ready_driver, same
from tests.unit.cluster.kubelet.recorded import Recording
from tests.unit.cluster.kubelet.world import NODE_NAME, FakeDriver, FakePlugin, World, simulate

from regauge.kube import NotFound
from regauge.model import Object
from regauge.model.kinds import (
    DEVICE_CLASS,
    LEASE,
    NODE,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)

NEVER_LOST_S = 86_400.0
LEASES = "kube-node-lease"


def device_class(world: World, driver: str, extended: str = "") -> None:
    """A class of the driver's devices, under the driver's name."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    spec: Object = {"selectors": [selector], **({"extendedResourceName": extended} if extended else {})}
    world.api.create(DEVICE_CLASS, {"metadata": {"name": driver}, "spec": spec})


def devices(driver: str, count: int = 1) -> Object:
    return {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": driver, "count": count}}]}}


def template(world: World, driver: str, name: str = "t") -> None:
    body = {"metadata": {"name": name}, "spec": {"spec": devices(driver)}}
    world.api.create(RESOURCE_CLAIM_TEMPLATE, body, "default")


def claim(world: World, driver: str, name: str, count: int = 1) -> None:
    world.api.create(RESOURCE_CLAIM, {"metadata": {"name": name}, "spec": devices(driver, count)}, "default")


def found_claim(world: World, name: str) -> Object | None:
    return world.api.find(RESOURCE_CLAIM, name, "default")


def users(world: World, name: str) -> list[str]:
    found = found_claim(world, name) or {}
    return [user["name"] for user in (found.get("status") or {}).get("reservedFor") or ()]


def submit(
    world: World,
    name: str,
    *,
    from_template: str = "",
    named: str = "",
    limits: dict[str, str] | None = None,
    policy: str = "Always",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """A pod as a user makes it."""
    container: Object = {"name": "c", "image": "i"}
    if limits:
        container["resources"] = {"limits": limits}
    if from_template or named:
        container["resources"] = {**container.get("resources", {}), "claims": [{"name": "g"}]}
        one = {"resourceClaimTemplateName": from_template} if from_template else {"resourceClaimName": named}
        spec["resourceClaims"] = [{"name": "g", **one}]
    body = {
        "metadata": {"name": name, "annotations": STUBBORN if annotations is None else annotations},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
    world.api.create(POD, body, "default")


def force(world: World, name: str) -> None:
    world.api.delete(POD, name, "default", grace_period_s=0)


async def gone(world: World, name: str) -> None:
    world.delete_pod(name)
    await world.clock.sleep(5)


async def prepared(world: World, driver: str, extended: str = "") -> FakeDriver:
    started = await ready_driver(world, driver)
    device_class(world, driver, extended)
    world.slice(driver, devices=4)
    return started


@pytest.mark.row(72, how="vectors")
@pytest.mark.row(78, how="vectors")
@pytest.mark.row(106, how="vectors")
def test_b09_claim_deleted() -> None:
    driver = "b09.example.com"

    async def scenario(world: World) -> None:
        await prepared(world, driver)
        claim(world, driver, "c")
        submit(world, "p", named="c")
        await world.clock.sleep(2)
        world.api.delete(RESOURCE_CLAIM, "c", "default")
        submit(world, "p2", named="c")
        await world.clock.sleep(3)
        assert (found_claim(world, "c") or {})["metadata"]["deletionTimestamp"]
        assert world.phase("p2") == "Pending"
        await gone(world, "p2")
        await gone(world, "p")
        assert found_claim(world, "c") is None

        claim(world, driver, "f")
        submit(world, "q", named="f")
        await world.clock.sleep(2)
        erase(world, "f")
        claim(world, driver, "f")
        submit(world, "q2", named="f")
        await world.clock.sleep(12)
        assert users(world, "f") == ["q2", "q"]
        (event,) = world.events("FailedPrepareDynamicResources")
        assert "old ResourceClaim with same name f and different UID" in event
        await gone(world, "q")
        await world.clock.sleep(80)
        await gone(world, "q2")

        claim(world, driver, "g3")
        submit(world, "r", named="g3")
        await world.clock.sleep(2)
        erase(world, "g3")
        claim(world, driver, "all", 4)
        submit(world, "r2", named="all")
        await world.clock.sleep(4)
        assert world.phase("r2") == "Running"  # on the device of the pod that still runs
        await gone(world, "r")
        await gone(world, "r2")

        template(world, driver)
        submit(world, "tp", from_template="t")
        await world.clock.sleep(2)
        (status,) = world.pod("tp")["status"]["resourceClaimStatuses"]
        erase(world, status["resourceClaimName"])
        await world.clock.sleep(4)
        assert world.pod("tp")["status"]["resourceClaimStatuses"] == [status]
        assert found_claim(world, status["resourceClaimName"]) is None

    world = simulate(scenario, grace_s=NEVER_LOST_S)
    same(world, Recording("B09-dra-claim-deleted"), "p", "p2", "q", "q2", "r", "r2", "tp")


def erase(world: World, name: str) -> None:
    """Delete a claim and take its finalizer away by hand."""
    world.api.delete(RESOURCE_CLAIM, name, "default")
    try:
        world.api.patch(RESOURCE_CLAIM, name, {"metadata": {"finalizers": None}}, "default")
    except NotFound:
        return


@pytest.mark.row(212, how="vectors")
@pytest.mark.row(213, how="vectors")
def test_b16_extended_resource() -> None:
    driver, resource = "b16.example.com", "b16.example.com/gpu"

    async def scenario(world: World) -> None:
        await prepared(world, driver, resource)
        submit(world, "p", limits={resource: "2"})
        await world.clock.sleep(1)
        told = world.pod("p")["status"]["extendedResourceClaimStatus"]
        assert told["requestMappings"] == [
            {"containerName": "c", "resourceName": resource, "requestName": "container-0-request-0"}
        ]
        special = found_claim(world, told["resourceClaimName"]) or {}
        assert special["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert world.node_counts(resource) == (None, None)
        submit(world, "direct", limits={resource: "1"}, nodeName=NODE_NAME)
        await world.clock.sleep(1)
        assert "extendedResourceClaimStatus" not in world.pod("direct")["status"]
        submit(world, "implicit", limits={f"deviceclass.resource.kubernetes.io/{driver}": "1"})
        await world.clock.sleep(1)
        await gone(world, "p")
        assert found_claim(world, told["resourceClaimName"]) is None
        submit(world, "too", limits={resource: "9"})
        await world.clock.sleep(2)
        assert world.events("FailedScheduling") == [
            "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption:"
            " 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ]
        submit(
            world,
            "done",
            limits={resource: "1"},
            policy="Never",
            annotations={"regauge.dev/run-seconds": "2", "regauge.dev/exit-code": "0"},
        )
        await world.clock.sleep(6)

    world = simulate(scenario, grace_s=NEVER_LOST_S)
    same(world, Recording("B16-dra-extended"), "p", "direct", "implicit", "too", "done")


@pytest.mark.row(70, how="vectors")
@pytest.mark.row(74, how="vectors")
def test_b20_claim_lifecycle() -> None:
    driver = "b20.example.com"

    async def scenario(world: World) -> None:
        await prepared(world, driver)
        template(world, driver)
        submit(world, "gated", from_template="t", schedulingGates=[{"name": "example.com/gate"}])
        await world.clock.sleep(4)
        (first,) = world.pod("gated")["status"]["resourceClaimStatuses"]
        made = found_claim(world, first["resourceClaimName"]) or {}
        assert "allocation" not in (made.get("status") or {})
        world.api.patch(POD, "gated", {"spec": {"schedulingGates": None}}, "default")
        await world.clock.sleep(1)
        submit(world, "nowhere", from_template="t", nodeSelector={"no": "where"})
        await world.clock.sleep(4)
        world.delete_pod("nowhere")
        submit(world, "notmpl", from_template="missing")
        await world.clock.sleep(3)
        assert world.events("FailedResourceClaimCreation")[0] == (
            'PodResourceClaim g: resource claim template "missing":'
            ' resourceclaimtemplate.resource.k8s.io "missing" not found'
        )
        submit(world, "noclaim", named="missing")
        await world.clock.sleep(3)
        claim(world, driver, "missing")
        await world.clock.sleep(1)
        submit(world, "dir", from_template="t", nodeName=NODE_NAME)
        await world.clock.sleep(8)
        claim(world, driver, "pre")
        submit(world, "owner", named="pre")
        await world.clock.sleep(1)
        submit(world, "dir2", named="pre", nodeName=NODE_NAME)
        await world.clock.sleep(5)
        assert users(world, "pre") == ["owner", "dir2"]
        await gone(world, "gated")
        submit(world, "gated", from_template="t")
        await world.clock.sleep(1)
        (second,) = world.pod("gated")["status"]["resourceClaimStatuses"]
        assert second["resourceClaimName"] != first["resourceClaimName"]

    world = simulate(scenario, grace_s=NEVER_LOST_S)
    pods = ("gated", "nowhere", "notmpl", "noclaim", "dir", "owner", "dir2")
    same(world, Recording("B20-dra-claim-lifecycle"), *pods)


@pytest.mark.row(207, how="vectors")
@pytest.mark.row(208, how="vectors")
def test_c01_both_stacks() -> None:
    driver, plugin_name, shared_name = "c01.example.com", "c01dp.example.com/dev", "c01same.example.com/gpu"

    async def scenario(world: World) -> None:
        await FakePlugin(world, plugin_name, "ea0", "ea1").start()
        await prepared(world, driver, shared_name)
        template(world, driver)
        await world.clock.sleep(5)
        submit(world, "both", from_template="t", limits={plugin_name: "1"})
        await world.clock.sleep(2)
        await gone(world, "both")
        submit(world, "dra1", limits={shared_name: "1"})
        await world.clock.sleep(1)
        plugin = FakePlugin(world, shared_name, "x0", "x1")
        await plugin.start()
        await world.clock.sleep(6)
        submit(world, "q0", limits={shared_name: "1"})
        await world.clock.sleep(2)
        for name in ("q1", "q2", "q3"):
            submit(world, name, limits={shared_name: "1"})
            await world.clock.sleep(2)
            assert world.phase(name) == "Pending"
        assert world.events("FailedScheduling")[-1].startswith("0/1 nodes are available: 1 Insufficient c01same")

    world = simulate(scenario, grace_s=NEVER_LOST_S)
    recording = Recording("C01-both-stacks")
    del recording.calls[recording.calls.index("Allocate 1", 1) + 1 :]  # the end, without the plugin, is not played
    for name in ("q0", "dra1"):
        recording.pods[name] = recording.pods[name][:3]
    same(world, recording, "both", "dra1", "q0")


async def silent(world: World) -> None:
    """The kubelet dies; containers run on."""
    await world.kubelet.kill()
    world.node_net.kill()


async def back(world: World) -> None:
    world.kubelet = world.new_kubelet()
    await world.kubelet.start()


@pytest.mark.row(76, how="vectors")
def test_g05_not_ready_alone() -> None:
    """The only node is lost: tainted, and nobody is evicted, as all nodes are unwell."""
    driver = "g05.example.com"

    async def scenario(world: World) -> None:
        await FakePlugin(world, "g05dp.example.com/dev", "w0", "w1").start()
        await prepared(world, driver)
        template(world, driver)
        claim(world, driver, "named")
        await world.clock.sleep(6)
        tolerating = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
            for key in ("not-ready", "unreachable")
        ]
        submit(world, "dp", limits={"g05dp.example.com/dev": "1"}, tolerations=tolerating)
        await world.clock.sleep(1)
        submit(world, "p", named="named", tolerations=tolerating)
        await world.clock.sleep(1)
        submit(world, "t", from_template="t", tolerations=tolerating)
        await world.clock.sleep(2)
        await silent(world)
        await world.clock.sleep(60)
        node = world.api.get(NODE, NODE_NAME)
        assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/unreachable"]
        assert users(world, "named") == ["p"]
        assert "deletionTimestamp" not in world.pod("p")["metadata"]
        submit(world, "wants", named="named")
        await world.clock.sleep(2)
        assert world.events("FailedScheduling")[-1].startswith(
            "0/1 nodes are available: 1 node(s) had untolerated taint(s)"
        )
        force(world, "t")
        await world.clock.sleep(3)
        assert len(world.slices()) == 1
        await back(world)
        await world.clock.sleep(1)
        assert world.slices() == []
        world.slice(driver, devices=4)
        await world.clock.sleep(66)
        assert users(world, "named") == ["p", "wants"]

    world = simulate(scenario, grace_s=12)
    same(world, Recording("G05-node-notready"), "p", "t", "dp", "wants")


@pytest.mark.row(76, how="vectors")
def test_g10_not_ready_beside_another() -> None:
    """One of two nodes is lost: its pods are evicted when their time is over, and hold their devices until it is back."""
    driver = "g10.example.com"

    async def scenario(world: World) -> None:
        await prepared(world, driver)
        template(world, driver)
        claim(world, driver, "named")
        other_node(world)
        here = {"kubernetes.io/hostname": NODE_NAME}
        tolerating = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
            for key in ("not-ready", "unreachable")
        ]
        submit(world, "p", named="named", tolerations=tolerating, nodeSelector=here)
        await world.clock.sleep(1)
        submit(world, "t", from_template="t", tolerations=tolerating, nodeSelector=here)
        submit(world, "dflt", nodeSelector=here)
        await world.clock.sleep(2)
        await silent(world)
        await beating(world, 30)
        assert world.pod("p")["metadata"]["deletionTimestamp"]
        disrupted = [one for one in world.pod("p")["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert [one["reason"] for one in disrupted] == ["DeletionByTaintManager"]
        assert "deletionTimestamp" not in world.pod("dflt")["metadata"]
        assert users(world, "named") == ["p"]
        force(world, "t")
        await beating(world, 3)
        claim(world, driver, "grab", 3)
        submit(world, "grab", named="grab", tolerations=[{"operator": "Exists"}], nodeSelector=here)
        await beating(world, 3)
        assert world.pod("grab")["spec"]["nodeName"] == NODE_NAME
        await back(world)
        await beating(world, 15)
        assert users(world, "named") == []

    world = simulate(scenario, grace_s=12)
    same(world, Recording("G10-node-notready-evict"), "p", "t", "dflt", "grab")


def other_node(world: World) -> None:
    """A second node, on which nothing runs."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": world.server.state.now()}
    sizes = {"cpu": "1", "memory": "1Gi", "pods": "0"}
    node = {"metadata": {"name": "fake-2"}, "status": {"capacity": sizes, "allocatable": sizes, "conditions": [ready]}}
    made = world.api.create(NODE, node)
    world.api.update(NODE, {**made, "status": node["status"]}, subresource="status")
    lease = {
        "metadata": {"name": "fake-2"},
        "spec": {"holderIdentity": "fake-2", "renewTime": world.server.state.now()},
    }
    world.api.create(LEASE, lease, LEASES)


async def beating(world: World, seconds: int) -> None:
    """Time passes; the second node stays well."""
    for _ in range(seconds):
        renewed = f"{world.server.state.now().removesuffix('Z')}.000000Z"
        world.api.patch(LEASE, "fake-2", {"spec": {"renewTime": renewed}}, LEASES)
        await world.clock.sleep(1)


GROUPS = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}


@pytest.mark.row(67, how="unit")
@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_claim_of_a_pod_group_on_its_node(minor: str) -> None:
    """Prepared once for all pods of the group, unprepared after the last one, allocated until the group goes."""
    driver = "group.example.com"
    gates = {**GROUPS, **({"GangScheduling": True} if minor == "1.36" else {})}

    async def scenario(world: World) -> None:
        await prepared(world, driver)
        template(world, driver)
        entry = {"name": "g", "resourceClaimTemplateName": "t"}
        group = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [entry]}
        world.api.create(POD_GROUP, {"metadata": {"name": "pg"}, "spec": group}, "default")
        for name in ("a", "b"):
            submit(world, name, from_template="t", schedulingGroup={"podGroupName": "pg"})
        await world.clock.sleep(5)
        assert (world.phase("a"), world.phase("b")) == ("Running", "Running")
        (made,) = world.api.list(RESOURCE_CLAIM)
        (user,) = made["status"]["reservedFor"]
        assert (user["apiGroup"], user["resource"], user["name"]) == ("scheduling.k8s.io", "podgroups", "pg")
        await gone(world, "a")
        assert not any(call.startswith("Unprepare") for call in world.calls)
        await gone(world, "b")
        (made,) = world.api.list(RESOURCE_CLAIM)
        assert made["status"]["allocation"]
        world.api.delete(POD_GROUP, "pg", "default")
        await world.clock.sleep(2)
        assert world.api.list(RESOURCE_CLAIM) == ()

    world = simulate(scenario, grace_s=NEVER_LOST_S, minor=minor, gates=gates)
    asked = [call.rpartition("-")[0] for call in world.calls if call.startswith(("Prepare", "Unprepare"))]
    assert asked == ["Prepare pg-g", "Unprepare pg-g"]


@pytest.mark.row(224, how="unit")
def test_all_pods_of_a_group_are_evicted_from_its_tainted_device() -> None:
    driver = "group.example.com"

    async def scenario(world: World) -> None:
        await prepared(world, driver)
        template(world, driver)
        entry = {"name": "g", "resourceClaimTemplateName": "t"}
        group = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]}
        world.api.create(POD_GROUP, {"metadata": {"name": "pg"}, "spec": group}, "default")
        for name in ("a", "b"):
            submit(world, name, from_template="t", schedulingGroup={"podGroupName": "pg"})
        submit(world, "other", from_template="t")
        await world.clock.sleep(5)
        assert [world.phase(name) for name in ("a", "b", "other")] == ["Running"] * 3
        (made,) = [one for one in world.api.list(RESOURCE_CLAIM) if one["metadata"]["name"].startswith("pg-")]
        (result,) = made["status"]["allocation"]["devices"]["results"]
        (slice_,) = world.api.list(RESOURCE_SLICE)
        taint = {"key": "example.com/hot", "effect": "NoExecute"}
        devices = [
            {**one, **({"taints": [taint]} if one["name"] == result["device"] else {})}
            for one in slice_["spec"]["devices"]
        ]
        world.api.update(RESOURCE_SLICE, {**slice_, "spec": {**slice_["spec"], "devices": devices}})
        await world.clock.sleep(6)
        assert [one["metadata"]["name"] for one in world.api.list(POD)] == ["other"]

    simulate(scenario, grace_s=NEVER_LOST_S, gates={**GROUPS, "GangScheduling": True})
