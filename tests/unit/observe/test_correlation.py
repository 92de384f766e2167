"""Who holds which device: held against what the containers were really given."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.observe.metric_world import (
    COUNTED,
    NAMESPACE,
    NODE_NAME,
    claim,
    in_cluster,
    moment,
    pod,
    running,
)

from regauge.base import Where
from regauge.inventory import Stack
from regauge.model import Document, NodeReport, Object, PluginDeviceHolder, PluginDeviceReport, Snapshot
from regauge.model.kinds import POD
from regauge.observe import Correlation, Owner, Owners, correlate
from regauge.observe.advancing import uses_of
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.watching import apply

Told = tuple[Correlation, dict[str, set[str]], dict[str, str]]


async def _three_pods(world: NodeWorld) -> Told:
    """Two devices counted, one by a template, one by a claim that two pods share; what each pod's container was given."""
    for object_ in (
        claim("one", kind="ResourceClaimTemplate"),
        claim("both"),
        pod("counting", count=2),
        pod("single", claims=(("mine", {"resourceClaimTemplateName": "one"}),)),
        pod("first", claims=(("ours", {"resourceClaimName": "both"}),)),
        pod("second", claims=(("ours", {"resourceClaimName": "both"}),)),
    ):
        await apply(world.kube, object_)
    uids = await running(world, "counting", "single", "first", "second")
    given = {}
    for name, uid in uids.items():
        seen = world.seen(uid, "main")
        assert seen is not None
        given[name] = {value for key, value in seen.env.items() if key.startswith("ACCEL_")}
    return (await moment(world)).correlation, given, uids


@pytest.fixture(scope="module")
def told() -> Told:
    return in_cluster(_three_pods)


@pytest.mark.row(132, how="unit")
@pytest.mark.row(139, how="unit")
@pytest.mark.row(140, how="unit")
def test_every_container_is_told_with_the_devices_it_was_given(told: Told) -> None:
    correlation, given, uids = told
    assert {name: len(devices) for name, devices in given.items()} == {
        "counting": 2,
        "single": 1,
        "first": 1,
        "second": 1,
    }
    for name, devices in given.items():
        rows = correlation.of_pod(NAMESPACE, name)
        assert {row.uuid for row in rows} == devices
        assert {(row.pod_uid, row.container, row.node) for row in rows} == {(uids[name], "main", NODE_NAME)}
        assert all(row.pci and row.since_s for row in rows)
    assert not correlation.unknown and not correlation.stale


def test_rows_say_the_stack_and_what_was_asked_for(told: Told) -> None:
    correlation = told[0]
    for row in correlation.of_pod(NAMESPACE, "counting"):
        assert (row.stack, row.resource, row.driver, row.claim) == (Stack.DEVICE_PLUGIN, COUNTED, "", "")
    (row,) = correlation.of_pod(NAMESPACE, "single")
    assert (row.stack, row.driver, row.pool, row.request) == (Stack.DRA, "accel.regauge.dev", NODE_NAME, "accel")
    assert row.claim.startswith("single-mine-") and row.claim_uid


def test_a_claim_that_two_pods_share_is_one_device_with_two_rows(told: Told) -> None:
    rows = told[0].of_claim(NAMESPACE, "both")
    assert [row.pod for row in rows] == ["first", "second"]
    assert len({row.key for row in rows}) == 1
    assert told[0].of_device(rows[0].uuid) == rows == told[0].of_device("/".join(rows[0].key))


async def _restarted(world: NodeWorld) -> tuple[Any, Any]:
    await apply(world.kube, claim("one", kind="ResourceClaimTemplate"))
    await apply(world.kube, pod("counting", count=2))
    await apply(world.kube, pod("single", claims=(("mine", {"resourceClaimTemplateName": "one"}),)))
    await running(world, "counting", "single")
    before = (await moment(world)).correlation.holdings
    world.nodes[NODE_NAME].kill_kubelet(2.0)
    await world.restart_driver()
    await world.clock.sleep(60.0)
    return before, (await moment(world)).correlation.holdings


def test_restarts_of_kubelet_and_driver_change_nothing() -> None:
    before, after = in_cluster(_restarted)
    assert len(before) == 3
    assert after == before


async def _let_go(world: NodeWorld) -> tuple[int, int]:
    await apply(world.kube, pod("counting", count=2))
    await running(world, "counting")
    held = len((await moment(world)).correlation.holdings)
    await world.kube.delete(POD, "counting", NAMESPACE)
    await world.clock.sleep(20.0)
    return held, len((await moment(world)).correlation.holdings)


def test_a_pod_that_is_gone_holds_nothing() -> None:
    assert in_cluster(_let_go) == (2, 0)


# -- made objects: what a cluster seldom shows


def made_pod(name: str, uid: str, phase: str = "Running", **more: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": uid, **more.pop("metadata", {})}
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": more.pop("resources", {})}],
        **more.pop("spec", {}),
    }
    status = {"phase": phase, **more.pop("status", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def made_claim(reserved: list[Object], **result: Any) -> Object:
    results = [{"request": "r", "driver": "d", "pool": "n1", "device": "g0", **result}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "ns", "uid": "claim-uid"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def snapshot_of(*objects: Object) -> Snapshot:
    return Snapshot.of(Document(one, Where()) for one in objects)


def test_a_claim_reserved_for_nobody_holds_its_device_all_the_same() -> None:
    (row,) = correlate(snapshot_of(made_claim([]))).holdings
    assert (row.pod, row.container, row.claim, row.device) == ("", "", "claim", "g0")


def test_a_pod_that_was_made_anew_under_its_name_is_not_the_one_that_is_reserved_for() -> None:
    reserved = [{"resource": "pods", "name": "p", "uid": "old"}]
    (row,) = correlate(snapshot_of(made_claim(reserved), made_pod("p", "new"))).holdings
    assert (row.pod, row.pod_uid, row.node, row.workload) == ("p", "old", "", Owner())


@pytest.mark.parametrize("request_name", ["r", "r/big"])
def test_containers_that_name_another_request_do_not_have_the_device(request_name: str) -> None:
    containers = [
        {"name": "whole", "resources": {"claims": [{"name": "mine"}]}},
        {"name": "named", "resources": {"claims": [{"name": "mine", "request": "r"}]}},
        {"name": "other", "resources": {"claims": [{"name": "mine", "request": "s"}]}},
        {"name": "none"},
    ]
    entries = [{"name": "mine", "resourceClaimName": "claim"}]
    reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
    using = made_pod("p", "u", spec={"containers": containers, "resourceClaims": entries})
    rows = correlate(snapshot_of(made_claim(reserved, request=request_name), using)).holdings
    assert [row.container for row in rows] == ["whole", "named"]


def test_a_claim_of_a_group_is_held_by_the_pods_of_the_group_that_use_it() -> None:
    entries = [{"name": "mine", "resourceClaimName": "claim"}]
    spec = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": entries}
    spec["containers"] = [{"name": "c", "resources": {"claims": [{"name": "mine"}]}}]
    objects = (
        made_pod("a", "u-a", spec=spec),
        made_pod("b", "u-b", spec=spec),
        made_pod("ended", "u-c", "Succeeded", spec=spec),
        made_pod("waits", "u-d", "Pending", spec={**spec, "nodeName": ""}),
        made_pod("without", "u-e", spec={**spec, "resourceClaims": []}),
        made_pod("other", "u-f", spec={**spec, "schedulingGroup": {"podGroupName": "h"}}),
    )
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g-uid"}
    rows = correlate(snapshot_of(made_claim([group]), *objects)).holdings
    assert [(row.pod, row.container) for row in rows] == [("a", "c"), ("b", "c")]
    (idle,) = correlate(snapshot_of(made_claim([group]))).holdings
    assert idle.pod == ""


def test_a_bridged_claim_tells_the_container_and_the_counted_name() -> None:
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "claim", "requestMappings": [mapping]}}
    reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
    (row,) = correlate(snapshot_of(made_claim(reserved), made_pod("p", "u", status=status))).holdings
    assert (row.container, row.resource, row.stack) == ("c", "example.com/gpu", Stack.DRA)


def test_shares_and_admin_access_are_told() -> None:
    (row,) = correlate(
        snapshot_of(made_claim([], shareID="s-1", consumedCapacity={"memory": "4Gi"}, adminAccess=True))
    ).holdings
    assert (row.share_id, row.consumed, row.admin_access) == ("s-1", {"memory": "4Gi"}, True)


def holder(pod: str, uid: str = "", namespace: str = "ns") -> NodeReport:
    given = PluginDeviceHolder(namespace, pod, "c", "a/x", ("GPU-aaaaaaaa-0000-4000-8000-000000000000::3",), uid)
    listed = PluginDeviceReport("a/x", "GPU-aaaaaaaa-0000-4000-8000-000000000000::3")
    return NodeReport("n1", (listed,), (given,))


@pytest.mark.row(139, how="unit")
@pytest.mark.parametrize("uid", ["", "u"])
def test_a_plugin_device_is_told_with_the_uid_of_the_pod_and_of_the_device(uid: str) -> None:
    """Pod resources name the pod, a checkpoint only its uid."""
    report = holder("" if uid else "p", uid, "" if uid else "ns")
    (row,) = correlate(snapshot_of(made_pod("p", "u")), (report,)).holdings
    assert (row.pod, row.pod_uid, row.uuid) == ("p", "u", "GPU-aaaaaaaa-0000-4000-8000-000000000000")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_a_kubelet_notes_for_a_pod_that_ended_is_not_held(phase: str) -> None:
    found = correlate(snapshot_of(made_pod("p", "u", phase)), (holder("p"),))
    assert not found.holdings and len(found.stale) == 1


def test_what_a_kubelet_notes_for_a_pod_that_is_gone_is_told() -> None:
    found = correlate(snapshot_of(), (holder("", "u", ""),))
    assert not found.holdings and found.stale[0].pod_uid == "u"
    assert found.unknown == ("node n1: its kubelet notes 1 of a/x for uid u, which is not there any more",)


def test_the_workload_is_the_topmost_owner_that_is_known() -> None:
    def owned(kind: str, name: str, uid: str) -> list[Object]:
        version = "jobset.x-k8s.io/v1alpha2" if kind == "JobSet" else "batch/v1" if kind == "Job" else "v1"
        return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}]

    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "j-uid",
            "ownerReferences": owned("JobSet", "set", "s-uid"),
        },
    }
    by_job = made_pod("p", "u", metadata={"ownerReferences": owned("Job", "j", "j-uid")})
    static = made_pod("q", "v", metadata={"ownerReferences": owned("Node", "n1", "n-uid")})
    snapshot = snapshot_of(job, by_job, static)
    owners = Owners(snapshot)
    assert [str(owners.top(pod)) for pod in snapshot.pods] == ["JobSet/set", "Pod/q"]


# -- what always holds


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans(), st.sampled_from(["", "s-1", "s-2"])), max_size=6
    )
)
def test_what_is_held_is_what_is_allocated(claims: list[tuple[int, int, bool, str]]) -> None:
    """Every result of every claim is told at least once, and nothing else; the parts of each device add up to one."""
    objects: dict[str, Object] = {}
    allocated = set()
    for number, (device, users, admin, share) in enumerate(claims):
        reserved = [{"resource": "pods", "name": f"p{one}", "uid": f"u{one}"} for one in range(users)]
        made = made_claim(reserved, device=f"g{device}", adminAccess=admin, shareID=share)
        made["metadata"] = {"name": f"claim{number}", "namespace": "ns", "uid": f"c{number}"}
        objects[f"claim{number}"] = made
        objects |= {f"p{one}": made_pod(f"p{one}", f"u{one}") for one in range(users)}
        allocated.add((f"claim{number}", f"g{device}", share))
    found = correlate(snapshot_of(*objects.values()))
    assert {(row.claim, row.device, row.share_id) for row in found.holdings} == allocated
    charged: dict[str, float] = defaultdict(float)
    for (_, device_, _), use in uses_of(found.holdings).items():
        charged[device_] += use.part
    plain = {f"d/n1/g{device}" for device, _, admin, _ in claims if not admin}
    assert set(charged) == plain
    assert all(abs(total - 1.0) < 1e-9 for total in charged.values())
