"""The scheduler and the claim controller at work: what they write, when they try again, what they leave alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.scheduler.making import DRIVER, RULES, device_class, node, pod

from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.claim_decisions import claim_step, generate_name
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.scheduling import SchedulingLoop
from regauge.cluster.scheduling_wakes import class_wakes, node_wakes, own_wakes, placed_pod_wakes
from regauge.features import rules
from regauge.model import Object
from regauge.model import kinds as k
from regauge.model.rules import Rules

EPOCH_S = 1_795_000_000.0
NODE: Object = {
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "300"}},
}
CLASS: Object = {
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


class World:
    """A store with the two programs running."""

    def __init__(self, clock: VirtualClock, ruling: Rules = RULES) -> None:
        self.clock = clock
        self.api = new_api_server(clock, random.Random(1), rules=ruling)
        self.scheduler = SchedulingLoop(self.api.as_actor("kube-scheduler"), clock, random.Random(1), ruling)
        self.controller = ResourceClaimController(self.api.as_actor("kube-controller-manager"), ruling)
        self.tasks = [
            asyncio.ensure_future(ControllerRunner(self.api, part).run()) for part in (self.controller, self.scheduler)
        ]

    def devices(self, count: int, name: str = "n1") -> None:
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(count)],
        }
        self.api.create(k.RESOURCE_SLICE, {"metadata": {"name": f"{name}-gpu"}, "spec": spec})

    def ready(self, count: int = 2) -> None:
        self.api.create(k.NODE, NODE)
        self.api.create(k.DEVICE_CLASS, CLASS)
        self.devices(count)

    def claim(self, name: str = "c", count: int = 1) -> None:
        self.api.create(k.RESOURCE_CLAIM, {"metadata": {"name": name, "namespace": "default"}, "spec": wants(count)})

    def template(self, name: str = "t", **metadata: Any) -> None:
        body = {"metadata": metadata, "spec": wants(1)} if metadata else {"spec": wants(1)}
        self.api.create(k.RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": name, "namespace": "default"}, "spec": body})

    def pod(self, name: str, *, claim: str = "", template: str = "", **spec: Any) -> None:
        entry = {"name": "gpu", **({"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template})}
        container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
        whole = {"containers": [container], "resourceClaims": [entry], **spec}
        self.api.create(k.POD, {"metadata": {"name": name, "namespace": "default"}, "spec": whole})

    def condition(self, name: str) -> dict[str, Any]:
        found = self.api.get(k.POD, name, "default")["status"].get("conditions") or []
        return next((item for item in found if item["type"] == "PodScheduled"), {})

    def get_claim(self, name: str = "c") -> Object:
        return self.api.get(k.RESOURCE_CLAIM, name, "default")

    def users(self, name: str = "c") -> list[str]:
        return [user["name"] for user in self.get_claim(name).get("status", {}).get("reservedFor") or []]

    def bound(self, name: str) -> bool:
        return bool(self.api.get(k.POD, name, "default")["spec"].get("nodeName"))

    def finish(self, name: str) -> None:
        self.api.patch(k.POD, name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")


def wants(count: int) -> Object:
    return {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": DRIVER, "count": count}}]}}


def run(main: Callable[[World], Awaitable[None]], ruling: Rules = RULES) -> None:
    async def begin(clock: VirtualClock) -> None:
        world = World(clock, ruling)
        await main(world)
        for task in world.tasks:
            assert not task.done(), task.exception()

    run_virtual(begin, epoch_s=EPOCH_S, limit_s=5000)


@pytest.mark.row(72)
def test_a_named_claim_is_given_back_when_nobody_uses_it_and_can_be_used_again() -> None:
    async def main(world: World) -> None:
        world.ready(1)
        world.claim()
        world.pod("a", claim="c")
        await world.clock.sleep(1)
        assert world.users() == ["a"] and world.bound("a")
        world.finish("a")
        await world.clock.sleep(1)
        left = world.get_claim()
        assert "allocation" not in left.get("status", {}) and not left["metadata"].get("finalizers")
        world.pod("b", claim="c")
        await world.clock.sleep(1)
        assert world.users() == ["b"]

    run(main)


@pytest.mark.row(74)
def test_a_pod_of_the_same_name_inherits_nothing() -> None:
    async def main(world: World) -> None:
        world.ready(2)
        world.claim()
        world.pod("a", claim="c")
        world.pod("other", claim="c")
        await world.clock.sleep(1)
        old = world.api.get(k.POD, "a", "default")["metadata"]["uid"]
        world.api.delete(k.POD, "a", "default", grace_period_s=0)
        world.pod("a", claim="c")
        await world.clock.sleep(3)
        uids = [user["uid"] for user in world.get_claim()["status"]["reservedFor"]]
        new = world.api.get(k.POD, "a", "default")["metadata"]["uid"]
        assert old not in uids and new in uids and world.bound("a")

    run(main)


@pytest.mark.row(46)
@pytest.mark.row(280)
def test_a_claim_has_at_most_256_users_and_the_next_one_waits_with_the_reason() -> None:
    async def main(world: World) -> None:
        world.ready(1)
        world.claim()
        world.pod("first", claim="c")
        await world.clock.sleep(1)
        for index in range(256):
            world.pod(f"p{index}", claim="c")
        await world.clock.sleep(3)
        waiting = [name for name in (f"p{index}" for index in range(256)) if not world.bound(name)]
        assert len(world.users()) == 256 and len(waiting) == 1
        condition = world.condition(waiting[0])
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == (
            'running PreBind plugin "DynamicResources": add reservation to claim default/c: '
            'ResourceClaim.resource.k8s.io "c" is invalid: status.reservedFor: Too many: 257: must have at most 256 items'
        )
        world.finish("p0" if waiting[0] != "p0" else "p1")
        await world.clock.sleep(15)
        assert world.bound(waiting[0])

    run(main)


def test_what_a_template_says_of_metadata_is_kept() -> None:
    async def main(world: World) -> None:
        world.ready()
        world.template(labels={"team": "a"}, annotations={"note": "b"})
        world.pod("p", template="t")
        await world.clock.sleep(1)
        (made,) = world.api.list(k.RESOURCE_CLAIM, "default")
        assert made["metadata"]["labels"] == {"team": "a"}
        assert made["metadata"]["annotations"] == {"note": "b", "resource.kubernetes.io/pod-claim-name": "gpu"}
        assert made["metadata"]["name"].startswith("p-gpu-") and world.bound("p")

    run(main)


def test_a_claim_that_needs_a_feature_that_is_off_is_not_made() -> None:
    ruling = rules("1.34", {"DRAPrioritizedList": False})

    async def main(world: World) -> None:
        world.ready()
        asked = {"name": "g", "firstAvailable": [{"name": "one", "deviceClassName": DRIVER}]}
        body = {"spec": {"devices": {"requests": [asked]}}}
        template = {"metadata": {"name": "t", "namespace": "default"}, "spec": body}
        world.api.state.store.put(k.RESOURCE_CLAIM_TEMPLATE, ("default", "t"), template)  # as an older server stored it
        world.pod("p", template="t")
        await world.clock.sleep(1)
        assert not world.api.list(k.RESOURCE_CLAIM, "default")
        messages = {event["message"] for event in world.api.list(k.CORE_EVENT)}
        text = "template includes a prioritized list of subrequests, but the feature is disabled"
        assert f"PodResourceClaim gpu: {text}" in messages

    run(main, ruling)


@pytest.mark.parametrize(
    ("pod_name", "entry", "expected"),
    [
        ("p", "gpu", "p-gpu-"),
        ("p" * 60, "gpu", "p" * 52 + "-" + "gp"),
    ],
)
def test_generated_names_are_cut_in_proportion(pod_name: str, entry: str, expected: str) -> None:
    assert generate_name(pod_name, entry) == expected
    assert len(generate_name(pod_name, entry)) <= 57


def test_pods_of_another_scheduler_and_pods_that_are_placed_already_are_left_alone() -> None:
    async def main(world: World) -> None:
        world.ready()
        world.template()
        world.pod("other", template="t", schedulerName="mine")
        world.pod("placed", template="t", nodeName="n1")
        await world.clock.sleep(2)
        assert not world.condition("other") and not world.bound("other")
        claims = world.api.list(k.RESOURCE_CLAIM, "default")
        assert len(claims) == 2 and not any(claim.get("status", {}).get("allocation") for claim in claims)

    run(main)


def test_a_pod_waits_for_devices_and_is_woken_by_them_not_before() -> None:
    async def main(world: World) -> None:
        world.api.create(k.NODE, NODE)
        world.api.create(k.DEVICE_CLASS, CLASS)
        world.claim()
        world.pod("p", claim="c")
        await world.clock.sleep(2)
        assert world.condition("p")["message"].startswith("0/1 nodes are available: 1 cannot allocate all claims.")
        (event,) = world.api.list(k.CORE_EVENT)
        world.api.patch(k.NODE, "n1", {"status": {"conditions": []}}, subresource="status")
        await world.clock.sleep(2)
        assert world.api.list(k.CORE_EVENT) == (event,)
        world.devices(1)
        await world.clock.sleep(0.01)
        assert world.bound("p")

    run(main)


def test_without_any_change_a_pod_is_looked_at_again_after_five_minutes() -> None:
    async def main(world: World) -> None:
        world.ready(1)
        world.claim(count=2)
        world.pod("p", claim="c")
        await world.clock.sleep(280)
        (event,) = world.api.list(k.CORE_EVENT)
        assert event["count"] == 1
        await world.clock.sleep(60)
        (event,) = world.api.list(k.CORE_EVENT)
        assert event["count"] == 2

    run(main)


def test_the_same_seed_writes_the_same_story() -> None:
    def story() -> list[str]:
        told: list[str] = []

        async def main(world: World) -> None:
            for index in range(5):
                named = {"metadata": {**NODE["metadata"], "name": f"n{index}"}, "status": NODE["status"]}
                world.api.create(k.NODE, named)
                world.devices(2, f"n{index}")
            world.api.create(k.DEVICE_CLASS, CLASS)
            world.template()
            for index in range(8):
                world.pod(f"p{index}", template="t")
            await world.clock.sleep(2)
            told.extend(f"{write.revision} {write}" for write in world.api.state.story)
            told.extend(str(item["spec"]["nodeName"]) for item in world.api.list(k.POD, "default"))

        run(main)
        return told

    assert story() == story()


# -- decisions


FINALIZER = "resource.kubernetes.io/delete-protection"


def claim_document(**parts: Any) -> Object:
    metadata: Object = {"name": "c", "namespace": "default", "finalizers": [FINALIZER]}
    if parts.pop("deleting", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "status": parts}


USER = {"resource": "pods", "name": "p", "uid": "u"}
ALLOCATED = {"devices": {"results": []}}


@pytest.mark.parametrize(
    ("claim", "remaining", "owner_done", "expected"),
    [
        (claim_document(allocation=ALLOCATED, reservedFor=[USER]), [USER], False, ""),
        (claim_document(allocation=ALLOCATED, reservedFor=[USER]), [], False, "status {}"),
        (claim_document(allocation=ALLOCATED, reservedFor=[USER]), [], True, "status {}"),
        (claim_document(), [], True, "metadata []"),
        (claim_document(), [], False, ""),
        (claim_document(deleting=True, allocation=ALLOCATED), [], False, "status {}"),
        (claim_document(deleting=True), [], False, "metadata []"),
        (claim_document(deleting=True, allocation=ALLOCATED, reservedFor=[USER]), [USER], False, ""),
    ],
)
def test_the_next_write_for_a_claim(claim: Object, remaining: list[Any], owner_done: bool, expected: str) -> None:
    step = claim_step(claim, remaining, owner_done)
    shown = ""
    if step is not None and step.status is not None:
        shown = f"status {step.status}"
    elif step is not None and step.metadata is not None:
        shown = f"metadata {step.metadata['finalizers']}"
    assert shown == expected


def test_which_change_wakes_whom() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    tainted, clean = node("n", spec={"taints": [taint]}), node("n")
    assert node_wakes(tainted, clean)["TaintToleration"](pod())
    assert not node_wakes(clean, tainted)["TaintToleration"](pod())
    assert not node_wakes(None, tainted)["TaintToleration"](pod())
    assert node_wakes(clean, clean) == {}
    assert "NodeResourcesFit" in node_wakes(clean, node("n", cpu="8"))
    labelled = node("n", labels={"zone": "a"})
    assert node_wakes(clean, labelled)["NodeAffinity"](pod(nodeSelector={"zone": "a"}))
    assert not node_wakes(labelled, clean)["NodeAffinity"](pod(nodeSelector={"zone": "a"}))
    assert set(node_wakes(clean, None)) == {"PodTopologySpread"}
    assert "NodeResourcesFit" in placed_pod_wakes(pod(nodeName="n"), None)
    assert "NodeResourcesFit" not in placed_pod_wakes(None, pod(nodeName="n"))
    told = pod(status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]})
    assert set(own_wakes(pod(), told)) == {"DynamicResources"}
    assert own_wakes(pod(), pod(status={"nominatedNodeName": "n"})) == {}
    bridge = class_wakes(None, device_class("one", extended="example.com/gpu"))
    assert bridge["NodeResourcesFit"](pod(limits={"example.com/gpu": "1"}))
    assert bridge["NodeResourcesFit"](pod(limits={"deviceclass.resource.kubernetes.io/one": "1"}))
    assert not bridge["NodeResourcesFit"](pod(limits={"example.com/other": "1"}))


@pytest.mark.row(262)
def test_a_claim_beside_a_resource_of_a_device_plugin_never_binds_where_a_class_offers_it_too() -> None:
    """Found by the reference scheduler: it makes an empty claim for the resource, refuses it itself, and tries again."""

    async def main(world: World) -> None:
        room = {**NODE["status"]["allocatable"], "example.com/gpu": "2"}
        world.api.create(k.NODE, {**NODE, "status": {"allocatable": room}})
        named = {**CLASS["spec"], "extendedResourceName": "example.com/gpu"}
        world.api.create(k.DEVICE_CLASS, {**CLASS, "spec": named})
        world.devices(2)
        world.claim()
        resources = {"limits": {"example.com/gpu": "1"}, "claims": [{"name": "gpu"}]}
        world.pod("p", claim="c", containers=[{"name": "main", "image": "x", "resources": resources}])
        await world.clock.sleep(30)
        assert world.condition("p")["message"] == (
            'running PreBind plugin "DynamicResources": nil or empty request mappings, '
            "no update of pod default/p ExtendedResourceClaimStatus"
        )
        assert not world.bound("p") and world.users() == []
        assert [claim["metadata"]["name"] for claim in world.api.list(k.RESOURCE_CLAIM, "default")] == ["c"]
        world.api.patch(k.DEVICE_CLASS, DRIVER, {"spec": {"extendedResourceName": None}})
        await world.clock.sleep(15)
        assert world.bound("p") and world.users() == ["p"]

    run(main)
