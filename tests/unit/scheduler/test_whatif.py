"""Changes that are not made: nodes, devices, objects, replicas, versions; what fits then, and what is free."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from tests.unit.scheduler.test_explaining import CLASS, ONE, claim, held, node, pod, snapshot, user

from regauge.allocator import DeviceId
from regauge.base import InputError
from regauge.features import rules
from regauge.model import Snapshot
from regauge.scheduler import (
    AddNodes,
    Apply,
    Change,
    Delete,
    Drain,
    ObjectName,
    Replicas,
    TaintDevice,
    WhatIf,
    changed,
    object_name,
    what_if,
)

RULES = rules("1.36")
TWO = "[{name: a}, {name: b}]"
OWNER = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: w, controller: true}]"


def asked(cluster: Snapshot, *changes: Change, copies: Iterable[str] = (), minor: str = "1.36") -> WhatIf:
    return what_if(cluster, RULES, rules(minor), changes, random.Random(0), map(object_name, copies))


def places(found: WhatIf) -> dict[str, tuple[str, str]]:
    return {one.pod: (str(one.before), str(one.after)) for one in found.pods}


def owned(text: str) -> str:
    return text.replace("namespace: team}", f"namespace: team, {OWNER}}}", 1)


def user_of(name: str, claim_: str = "c") -> str:
    return pod(name, nodeName="n1", claims=f"[{{name: g, resourceClaimName: {claim_}}}]")


def test_a_node_like_another_lets_a_stuck_pod_in() -> None:
    cluster = snapshot(
        CLASS,
        node("n1", devices="[{name: a}]"),
        claim("c", ONE, status=held("a", users=f"[{user('old')}]")),
        claim("mine", ONE),
        user_of("old"),
        pod(claims="[{name: g, resourceClaimName: mine}]"),
    )
    found = asked(cluster, AddNodes("n1"))
    assert places(found) == {"team/p": ("stuck", "goes to n1-like-1")}
    assert [one.pod for one in found.schedulable] == ["team/p"] and found.stuck == () and found.unchanged == 1
    assert [(one.pool, one.used, one.free) for one in found.after.pools] == [("n1", 1, 0), ("n1-like-1", 1, 0)]
    assert "cannot allocate all claims" in found.pods[0].before.why
    assert [one.metadata.name for one in cluster.nodes] == ["n1"]


@pytest.mark.row(278, how="unit")
def test_a_node_without_slices_brings_no_devices_and_that_is_said() -> None:
    cluster = snapshot(CLASS, node("n1"), claim("mine", ONE), pod(claims="[{name: g, resourceClaimName: mine}]"))
    found = asked(cluster, AddNodes("n1", 3))
    assert places(found) == {"team/p": ("stuck", "stuck")}
    (note,) = found.notes
    assert "no ResourceSlice of its own" in note and "autoscaler" in note and "slices" in note


def test_a_drained_node_gives_its_pods_and_their_devices_away() -> None:
    cluster = snapshot(
        CLASS,
        node("n1", devices=TWO),
        node("n2", devices="[{name: a}]"),
        claim("c", ONE, status=held("a", users=f"[{user('one')}]")),
        claim("e", ONE, status=held("b", users=f"[{user('two')}]")),
        owned(user_of("one")),
        owned(user_of("two", "e")),
        pod("bare", nodeName="n1"),
    )
    found = asked(cluster, Drain("n1"))
    assert places(found) == {
        "team/one": ("runs on n1", "goes to n2"),
        "team/two": ("runs on n1", "stuck"),
        "team/bare": ("runs on n1", "not there"),
    }
    assert [one.pod for one in found.stuck] == ["team/two"]
    assert any("bare has no controller" in note for note in found.notes)
    used = {one.pool: one.used for one in found.after.pools}
    assert used == {"n1": 0, "n2": 1}


def test_pods_of_a_daemon_set_stay_on_a_drained_node() -> None:
    daemon = owned(pod("agent", nodeName="n1")).replace("ReplicaSet", "DaemonSet")
    assert asked(snapshot(node("n1"), daemon), Drain("n1")).pods == ()


def test_claims_that_are_used_elsewhere_too_stay_allocated() -> None:
    shared = claim("c", ONE, status=held("a", users=f"[{user('one')}, {user('two')}]"))
    cluster = snapshot(CLASS, node("n1", devices=TWO), shared, user_of("one"), user_of("two"))
    kept = changed(asked_stored(cluster), [Delete(object_name("pod/one"))]).snapshot.claims[0]
    assert kept.status.allocation is not None and [one.name for one in kept.status.reserved_for] == ["two"]
    both = [Delete(object_name("pod/one")), Delete(object_name("pod/team/two"))]
    assert changed(asked_stored(cluster), both).snapshot.claims[0].status.allocation is None


def asked_stored(cluster: Snapshot) -> Snapshot:
    return changed(cluster, [Apply(())]).snapshot


@pytest.mark.parametrize(
    ("effect", "tolerates", "expected"),
    [("NoSchedule", False, "runs on n1"), ("NoExecute", False, "goes to n1"), ("NoExecute", True, "runs on n1")],
)
def test_a_tainted_device(effect: str, tolerates: bool, expected: str) -> None:
    status = held("a", users=f"[{user('one')}]")
    if tolerates:
        status = status.replace("device: a}", "device: a, tolerations: [{operator: Exists}]}")
    cluster = snapshot(CLASS, node("n1", devices=TWO), claim("c", ONE, status=status), owned(user_of("one")))
    found = asked(cluster, TaintDevice(DeviceId("d", "n1", "a"), effect))
    assert found.after.places["team/one"].__str__() == expected
    assert [one.tainted for one in found.after.pools] == [1] and [one.tainted for one in found.before.pools] == [0]


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, namespace: team}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: serve}}
    spec:
      resourceClaims: [{name: g, resourceClaimTemplateName: t}]
      containers: [{name: c, image: i}]
"""
TEMPLATE = claim("t", ONE, kind="ResourceClaimTemplate")


def test_an_applied_deployment_gets_its_pods_and_their_claims() -> None:
    cluster = snapshot(CLASS, node("n1", devices=TWO), TEMPLATE)
    found = asked(cluster, Apply(tuple(snapshot(DEPLOYMENT).all_documents())))
    assert places(found) == {
        "team/serve-new-1": ("not there", "goes to n1"),
        "team/serve-new-2": ("not there", "goes to n1"),
        "team/serve-new-3": ("not there", "stuck"),
    }
    assert len(found.schedulable) == 2 and len(found.stuck) == 1


def test_more_and_fewer_replicas() -> None:
    cluster = snapshot(CLASS, node("n1", devices=TWO), TEMPLATE, DEPLOYMENT)
    name = ObjectName("Deployment", "team", "serve")
    assert len(asked(cluster, Replicas(name, 2)).schedulable) == 2
    found = asked(cluster, Replicas(name, 2), Replicas(name, 1))
    assert list(places(found).values()) == [("not there", "goes to n1")]


def test_how_many_more_copies_fit_before_and_after() -> None:
    cluster = snapshot(CLASS, node("n1", devices=TWO), TEMPLATE, DEPLOYMENT)
    found = asked(cluster, AddNodes("n1", 2), copies=["deployment/team/serve"])
    (before,), (after,) = found.before.fitting, found.after.fitting
    assert (before.count, before.nodes, before.more) == (2, {"n1": 2}, False)
    assert after.count == 6 and set(after.nodes) == {"n1", "n1-like-1", "n1-like-2"}
    assert "cannot allocate all claims" in after.why


def test_copies_of_a_counted_workload() -> None:
    limits = "{example.com/gpu: 2}"
    cluster = snapshot(node("n1", room={"example.com/gpu": "5"}), pod("one", limits=limits, nodeName="n1"))
    found = asked(cluster, copies=["pod/team/one"])
    assert found.after.fitting[0].count == 1 and "Insufficient example.com/gpu" in found.after.fitting[0].why
    assert [(one.resource, one.devices, one.used, one.free) for one in found.after.counted] == [
        ("example.com/gpu", 5, 2, 3)
    ]


def test_deleting_a_node_takes_its_slices_along() -> None:
    cluster = snapshot(CLASS, node("n1", devices=TWO), node("n2"), owned(pod("one", nodeName="n1")))
    found = asked(cluster, Delete(object_name("nodes/n1")))
    assert places(found) == {"team/one": ("runs on n1", "goes to n2")} and found.after.pools == ()


def test_pods_that_share_a_claim_go_to_the_same_node() -> None:
    both = (pod(name, claims="[{name: g, resourceClaimName: c}]") for name in ("one", "two"))
    found = asked(snapshot(CLASS, node("n1", devices=TWO), node("n2", devices=TWO), claim("c", ONE), *both))
    assert [str(one) for one in found.after.places.values()] == ["goes to n1", "goes to n1"]
    assert sum(one.used for one in found.after.pools) == 1


def test_another_version_gives_another_answer() -> None:
    """All devices, one of them used in part: 1.36 leaves that one out, 1.37 does not."""
    shared = "[{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4}}}]"
    every = "[{name: r, exactly: {deviceClassName: gpu, allocationMode: All, capacity: {requests: {m: 4}}}}]"
    taken = (
        "{allocation: {devices: {results: [{request: r, driver: d, pool: n1, device: a, "
        "shareID: 11111111-2222-4333-8444-555555555555, consumedCapacity: {m: 1}}]}}}"
    )
    other = "[{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4}}}, " + shared[1:].replace(
        "name: a", "name: b"
    )
    cluster = snapshot(
        CLASS,
        node("n1", devices=other),
        claim("held", ONE, status=taken),
        claim("c", every),
        pod(claims="[{name: g, resourceClaimName: c}]"),
    )
    found = asked(cluster, minor="1.37")
    assert places(found) == {"team/p": ("goes to n1", "stuck")}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (AddNodes("n2"), "did you mean n1?"),
        (AddNodes("n1", 0), "add between 1 and"),
        (Drain("m1"), "did you mean n1?"),
        (TaintDevice(DeviceId("d", "n1", "c")), "did you mean d/n1/"),
        (TaintDevice(DeviceId("d", "n1", "a"), "Sometimes"), "NoSchedule, NoExecute"),
        (Delete(ObjectName("Pod", "", "x")), "there are no Pods at all"),
        (Replicas(ObjectName("Node", "", "n1"), 2), "unsupported: replicas of this kind"),
    ],
)
def test_what_is_not_there_is_told_with_what_is_near(change: Change, says: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(snapshot(CLASS, node("n1", devices=TWO)), change)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["x", "pod", "pod/", "a/b/c/d", "/pod/x", "podd/x"])
def test_names_that_name_nothing(text: str) -> None:
    with pytest.raises(InputError):
        object_name(text)


def test_kinds_as_people_write_them() -> None:
    for text in ("pod/a/b", "Pods/a/b", "PODS/a/b"):
        assert object_name(text) == ObjectName("Pod", "a", "b")
    assert object_name("resourceslices/s") == ObjectName("ResourceSlice", "", "s")


# -- what else would happen


BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: team}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: ALLOWED}
"""


@pytest.mark.parametrize(
    ("allowed", "says"),
    [(0, "lets none go now"), (1, "lets 1 at a time go now"), (2, ""), (-1, "and for ever if that does not change")],
)
def test_a_drain_that_a_disruption_budget_holds_up(allowed: int, says: str) -> None:
    web = [
        owned(pod(name, nodeName="n1")).replace("namespace: team,", "namespace: team, labels: {app: web},", 1)
        for name in ("a", "b")
    ]
    other = owned(pod("c", nodeName="n1"))
    cluster = snapshot(node("n1"), node("n2"), *web, other, BUDGET.replace("ALLOWED", str(allowed)))
    found = asked(cluster, Drain("n1"))
    assert {one.after.node for one in found.pods} == {"n2"}
    notes = [one for one in found.notes if one.startswith("disruption budget team/web guards 2 pods on n1 (a, b)")]
    assert len(notes) == (1 if says else 0) and all(says in note for note in notes)


def test_whom_the_scheduler_would_take_away_is_said_and_nobody_is() -> None:
    low = pod("low", nodeName="n1", priority="1", limits="{cpu: 1}")
    high = pod("high", priority="100", limits="{cpu: 1}")
    found = asked(snapshot(node("n1", room={"cpu": "1"}), low, high))
    (one,) = found.pods
    assert (one.after.how, one.after.node, one.after.evicts) == ("stuck", "n1", ("team/low",))
    assert str(one.after) == "stuck"
    assert any("would take team/low away from n1 to make room" in note for note in found.notes)


@pytest.mark.row(270, how="unit")
def test_that_devices_are_not_taken_away_is_said() -> None:
    low = pod("low", nodeName="n1", priority="1", claims="[{name: g, resourceClaimName: c}]")
    high = pod("high", priority="100", claims="[{name: g, resourceClaimName: mine}]")
    holding = claim("c", ONE, status=held("a", users=f"[{user('low')}]"))
    found = asked(snapshot(CLASS, node("n1", devices="[{name: a}]"), holding, claim("mine", ONE), low, high))
    (one,) = found.pods
    assert (one.after.how, one.after.evicts) == ("stuck", ())
    assert any("devices of claims are not preempted" in note and "pod team/low has one" in note for note in found.notes)
