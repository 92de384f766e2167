"""Each filter's no in upstream's words, and its yes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.unit.scheduler.making import RULES, node, plugin_node, pod, state

from regauge.model.core import Pod
from regauge.model.kinds import POD_DISRUPTION_BUDGET
from regauge.scheduler import Scheduled, Unschedulable, check_node, schedule

NO_SPREAD = "node(s) didn't match pod topology spread constraints"


def placed(name: str, where: str, **more: Any) -> Pod:
    return pod(name, nodeName=where, **more)


def near(key: str, **labels: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("asked", "there", "plugin", "reasons"),
    [
        (pod(), node("n", spec={"unschedulable": True}), "NodeUnschedulable", ["node(s) were unschedulable"]),
        (pod(nodeName=""), node("n"), "", []),
        (pod(), node("n", spec={"taints": [TAINT]}), "TaintToleration", ["node(s) had untolerated taint(s)"]),
        (
            pod(tolerations=[{"key": "k", "operator": "Equal", "value": "other"}]),
            node("n", spec={"taints": [TAINT]}),
            "TaintToleration",
            ["node(s) had untolerated taint(s)"],
        ),
        (pod(tolerations=[{"key": "k", "value": "v"}]), node("n", spec={"taints": [TAINT]}), "", []),
        (pod(tolerations=[{"operator": "Exists"}]), node("n", spec={"taints": [TAINT]}), "", []),
        (
            pod(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]),
            node("n", spec={"taints": [TAINT]}),
            "TaintToleration",
            ["node(s) had untolerated taint(s)"],
        ),
        (pod(), node("n", spec={"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}), "", []),
        (
            pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            node("n", spec={"unschedulable": True}),
            "",
            [],
        ),
        (
            pod(nodeSelector={"zone": "a"}),
            node("n", labels={"zone": "b"}),
            "NodeAffinity",
            ["node(s) didn't match Pod's node affinity/selector"],
        ),
        (pod(nodeSelector={"zone": "a"}), node("n", labels={"zone": "a"}), "", []),
        (pod(requests={"cpu": "5"}), node("n"), "NodeResourcesFit", ["Insufficient cpu"]),
        (
            pod(requests={"cpu": "5", "memory": "9Gi", "ephemeral-storage": "11Gi"}),
            node("n"),
            "NodeResourcesFit",
            ["Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"],
        ),
        (pod(), node("n", pods="0"), "NodeResourcesFit", ["Too many pods"]),
        (
            pod(limits={"example.com/gpu": "3"}),
            plugin_node("n", "example.com/gpu", 2),
            "NodeResourcesFit",
            ["Insufficient example.com/gpu"],
        ),
        (pod(limits={"example.com/gpu": "2"}), plugin_node("n", "example.com/gpu", 2), "", []),
        (
            pod(limits={"example.com/gpu": "1"}),
            node("n"),
            "NodeResourcesFit",
            ["Insufficient example.com/gpu"],
        ),
    ],
)
@pytest.mark.row(13)
def test_one_node(asked: Pod, there: Any, plugin: str, reasons: list[str]) -> None:
    refused = check_node(asked, "n", state(there))
    assert (refused.plugin, list(refused.reasons)) == (plugin, reasons) if plugin else refused is None


def ports(*items: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x", "ports": list(items)}]}


@pytest.mark.parametrize(
    ("mine", "theirs", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"containerPort": 80}, {"hostPort": 80}, False),
    ],
)
def test_ports(mine: dict[str, Any], theirs: dict[str, Any], clash: bool) -> None:
    refused = check_node(pod(**ports(mine)), "n", state(node("n"), placed("other", "n", **ports(theirs))))
    assert (refused is not None) == clash
    if clash:
        assert refused.reasons == ("node(s) didn't have free ports for the requested pod ports",)


def reason_on(asked: Pod, where: str, *objects: Any) -> tuple[str, ...]:
    refused = check_node(asked, where, state(*objects))
    return refused.reasons if refused else ()


def test_affinity_wants_company() -> None:
    friend = placed("friend", "n1", labels={"app": "db"})
    asked = pod(**required("podAffinity", near("zone", app="db")))
    zones = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "a"}), node("n3", labels={"zone": "b"})]
    assert reason_on(asked, "n2", *zones, friend) == ()
    assert reason_on(asked, "n3", *zones, friend) == ("node(s) didn't match pod affinity rules",)
    assert reason_on(asked, "n4", *zones, node("n4"), friend) == ("node(s) didn't match pod affinity rules",)


def test_the_first_of_a_group_may_be_alone() -> None:
    asked = pod(labels={"app": "db"}, **required("podAffinity", near("zone", app="db")))
    assert reason_on(asked, "n1", node("n1", labels={"zone": "a"})) == ()
    stranger = pod(labels={"app": "web"}, **required("podAffinity", near("zone", app="db")))
    assert reason_on(stranger, "n1", node("n1", labels={"zone": "a"}))


def test_anti_affinity_of_the_pod_and_of_those_already_there() -> None:
    nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    shy = pod(labels={"app": "web"}, **required("podAntiAffinity", near("zone", app="web")))
    other = placed("other", "n1", labels={"app": "web"})
    assert reason_on(shy, "n1", *nodes, other) == ("node(s) didn't match pod anti-affinity rules",)
    assert reason_on(shy, "n2", *nodes, other) == ()
    guard = placed("guard", "n1", **required("podAntiAffinity", near("zone", app="web")))
    visitor = pod(labels={"app": "web"})
    assert reason_on(visitor, "n1", *nodes, guard) == ("node(s) didn't satisfy existing pods anti-affinity rules",)
    assert reason_on(visitor, "n2", *nodes, guard) == ()


def test_affinity_counts_pods_of_its_own_namespace_only() -> None:
    elsewhere = placed("friend", "n1", labels={"app": "db"}, namespace="other")
    asked = pod(**required("podAffinity", near("zone", app="db")))
    zone = node("n1", labels={"zone": "a"})
    assert reason_on(asked, "n1", zone, elsewhere)
    wide = pod(**required("podAffinity", {**near("zone", app="db"), "namespaceSelector": {}}))
    assert reason_on(wide, "n1", zone, elsewhere) == ()


def spread(**more: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


def test_spread() -> None:
    zones = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    web = {"app": "web"}
    asked = pod(labels=web, **spread())
    assert reason_on(asked, "n1", *zones) == ()
    assert reason_on(asked, "n1", *zones, placed("w", "n1", labels=web)) == (NO_SPREAD,)
    assert reason_on(asked, "n2", *zones, placed("w", "n1", labels=web)) == ()
    assert reason_on(asked, "n3", *zones, node("n3")) == (f"{NO_SPREAD} (missing required label)",)
    assert reason_on(pod(labels=web, **spread(minDomains=3)), "n1", *zones, placed("w", "n1", labels=web))


def test_spread_leaves_out_nodes_that_the_pod_cannot_use() -> None:
    zones = [node("n1", labels={"zone": "a", "gpu": "y"}), node("n2", labels={"zone": "b"})]
    web = {"app": "web"}
    there = placed("w", "n1", labels=web)
    asked = pod(labels=web, nodeSelector={"gpu": "y"}, **spread())
    assert reason_on(asked, "n1", *zones, there) == ()
    ignoring = pod(labels=web, nodeSelector={"gpu": "y"}, **spread(nodeAffinityPolicy="Ignore"))
    assert reason_on(ignoring, "n1", *zones, there) == (NO_SPREAD,)


def test_message_counts_reasons_and_sorts_them() -> None:
    nodes = [
        node("n1", spec={"taints": [TAINT]}),
        node("n2", cpu="1"),
        node("n3", cpu="1", memory="1Gi"),
        node("n4", spec={"unschedulable": True}),
    ]
    outcome = schedule(pod(requests={"cpu": "2", "memory": "2Gi"}), state(*nodes), RULES, random.Random(1))
    assert isinstance(outcome, Unschedulable)
    assert outcome.message == (
        "0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        "2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are available: "
        "4 Preemption is not helpful for scheduling."
    )
    assert outcome.plugins == {"TaintToleration", "NodeResourcesFit", "NodeUnschedulable"}
    assert outcome.refusals["n2"].reasons == ("Insufficient cpu",)


def test_affinity_to_named_nodes_leaves_the_others_out_at_once() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    asked = pod(requests={"cpu": "9"}, affinity={"nodeAffinity": wanted})
    outcome = schedule(asked, state(node("n1"), node("n2"), node("n3")), RULES, random.Random(1))
    assert isinstance(outcome, Unschedulable)
    assert outcome.message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
    )
    fits = schedule(pod(affinity={"nodeAffinity": wanted}), state(node("n1"), node("n2")), RULES, random.Random(1))
    assert isinstance(fits, Scheduled) and fits.node == "n1"


def test_no_nodes() -> None:
    outcome = schedule(pod(), state(), RULES, random.Random(1))
    assert isinstance(outcome, Unschedulable) and outcome.message == "no nodes available to schedule pods"


def test_preemption_is_offered_where_it_helps_and_only_there() -> None:
    low = placed("low", "n1", requests={"cpu": "3"}, priority=1)
    peer = placed("peer", "n2", requests={"cpu": "3"}, priority=10)
    world = [node("n1"), node("n2"), low, peer]
    outcome = schedule(pod("high", requests={"cpu": "2"}, priority=10), state(*world), RULES, random.Random(1))
    assert isinstance(outcome, Unschedulable) and outcome.preemption is not None
    assert (outcome.preemption.node, outcome.preemption.victims) == ("n1", (("default", "low"),))
    assert outcome.message == "0/2 nodes are available: 2 Insufficient cpu."
    meek = pod("meek", requests={"cpu": "2"}, priority=10, preemptionPolicy="Never")
    refused = schedule(meek, state(*world), RULES, random.Random(1))
    assert isinstance(refused, Unschedulable) and refused.preemption is None
    assert refused.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_preemption_takes_no_more_than_it_needs() -> None:
    small = [placed(f"low{index}", "n1", requests={"cpu": "1"}, priority=index) for index in range(4)]
    outcome = schedule(
        pod("high", requests={"cpu": "2"}, priority=9), state(node("n1"), *small), RULES, random.Random(1)
    )
    assert isinstance(outcome, Unschedulable) and outcome.preemption is not None
    assert set(outcome.preemption.victims) == {("default", "low0"), ("default", "low1")}


def test_room_that_was_promised_to_a_pod_is_kept_for_it() -> None:
    """A pod that preempted others waits for its room; a lesser one may not take it, a greater one may."""
    promised = pod("promised", requests={"cpu": "3"}, priority=5, status={"nominatedNodeName": "n1"})
    world = [node("n1"), promised]
    assert reason_on(pod("lesser", requests={"cpu": "2"}, priority=1), "n1", *world) == ("Insufficient cpu",)
    assert reason_on(pod("greater", requests={"cpu": "2"}, priority=9), "n1", *world) == ()
    assert reason_on(promised, "n1", *world) == ()


def test_a_disruption_budget_decides_between_victims() -> None:
    guarded = pod("guarded", nodeName="n1", requests={"cpu": "2"}, labels={"app": "db"}, priority=1)
    free = pod("free", nodeName="n1", requests={"cpu": "2"}, priority=1)
    world = state(node("n1"), guarded, free)
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    world.around.put(POD_DISRUPTION_BUDGET, budget)
    outcome = schedule(pod("high", requests={"cpu": "2"}, priority=9), world, RULES, random.Random(1))
    assert isinstance(outcome, Unschedulable) and outcome.preemption is not None
    assert outcome.preemption.victims == (("default", "free"),)
    whole = schedule(pod("high", requests={"cpu": "4"}, priority=9), world, RULES, random.Random(1))
    assert isinstance(whole, Unschedulable) and whole.preemption is not None
    assert set(whole.preemption.victims) == {("default", "free"), ("default", "guarded")}


def test_what_is_not_looked_at_is_said() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "tmp", "emptyDir": {}}]
    outcome = schedule(pod(volumes=volumes), state(node("n1")), RULES, random.Random(1))
    assert isinstance(outcome, Scheduled) and outcome.unseen == ("volume data",)
