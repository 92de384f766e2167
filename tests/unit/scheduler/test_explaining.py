"""Explanations of pods and claims: every plugin's reason, what is held, what is left to chance and to the kubelet."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.unit.scheduler.making import ROOM
from tests.unit.scheduler.random_worlds import random_case

from regauge.base import InputError, Where
from regauge.features import rules
from regauge.model import Document, Snapshot, read_documents
from regauge.scheduler import (
    ClaimAnswer,
    PodAnswer,
    Scheduled,
    SchedulerError,
    State,
    Unschedulable,
    as_stored,
    claim_named,
    explain_claim,
    explain_pod,
    find_named,
    near,
    schedule,
)

CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "d"'}}]}
"""


def node(name: str, *, devices: str = "", **more: Any) -> str:
    """A node, and a slice where it has devices: flow YAML, one list."""
    room = {**ROOM, **more.pop("room", {})}
    text = f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, {more.get("labels", "")}}}}}
spec: {{{more.get("spec", "")}}}
status: {{allocatable: {room}}}
"""
    if devices:
        text += f"""---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: s-{name}}}
spec: {{driver: d, nodeName: {name}, pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}, devices: {devices}}}
"""
    return text


def claim(name: str, requests: str, *, constraints: str = "[]", status: str = "{}", kind: str = "ResourceClaim") -> str:
    spec = f"{{devices: {{requests: {requests}, constraints: {constraints}}}}}"
    spec = f"{{spec: {spec}}}" if kind.endswith("Template") else spec
    return f"""
apiVersion: resource.k8s.io/v1
kind: {kind}
metadata: {{name: {name}, namespace: team}}
spec: {spec}
status: {status}
"""


def pod(name: str = "p", *, claims: str = "[]", limits: str = "{}", status: str = "{}", **spec: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in spec.items())
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team}}
spec: {{resourceClaims: {claims}, containers: [{{name: c, image: i, resources: {{limits: {limits}}}}}]{more}}}
status: {status}
"""


ONE = "[{name: r, exactly: {deviceClassName: gpu}}]"


def cluster(*texts: str, minor: str = "1.36") -> State:
    return State.of(as_stored(snapshot(*texts)), rules(minor))


def snapshot(*texts: str) -> Snapshot:
    found: list[Document] = list(read_documents("---".join(texts).encode(), "objects"))
    return Snapshot.of(found)


def told_claim(*texts: str, name: str = "c", minor: str = "1.36") -> ClaimAnswer:
    stored = as_stored(snapshot(*texts))
    return explain_claim(State.of(stored, rules(minor)), claim_named(stored, name))


def told_pod(*texts: str, name: str = "p", minor: str = "1.36") -> PodAnswer:
    stored = as_stored(snapshot(*texts))
    return explain_pod(State.of(stored, rules(minor)), find_named("Pod", stored.pods, name), random.Random(1))


def held(device: str, *, users: str = "[]", since: str = "") -> str:
    result = f"{{request: r, driver: d, pool: n1, device: {device}}}"
    when = f", allocationTimestamp: '{since}'" if since else ""
    return f"{{allocation: {{devices: {{results: [{result}]}}{when}}}, reservedFor: {users}}}"


def user(name: str) -> str:
    return f"{{resource: pods, name: {name}, uid: Pod/team/{name}}}"


# -- pods


@pytest.mark.row(175, 193, how="unit")
def test_a_claim_has_its_devices_named_before_the_pod_starts() -> None:
    found = told_pod(
        CLASS, node("n1", devices="[{name: a}]"), claim("c", ONE), pod(claims="[{name: g, resourceClaimName: c}]")
    )
    assert (found.state, found.choice) == ("can be scheduled", ("n1",))
    devices = found.nodes[0].devices
    assert devices is not None and devices.requests[0].chosen == ("d/n1/a",)
    assert "takes n1, which has the best score" in found.text


def test_ties_are_said_to_be_broken_by_chance() -> None:
    found = told_pod(CLASS, *(node(f"n{number}", devices="[{name: a}]") for number in range(3)), pod())
    assert found.choice == ("n0", "n1", "n2")
    assert "the scheduler picks one at random" in found.text


def test_explaining_does_not_change_the_state() -> None:
    stored = as_stored(snapshot(CLASS, *(node(f"n{number}") for number in range(3)), pod()))
    state = State.of(stored, rules("1.36"))
    before = state.start
    first = explain_pod(state, stored.pods[0], random.Random(1))
    assert state.start == before and explain_pod(state, stored.pods[0], random.Random(2)) == first


@pytest.mark.row(174, how="unit")
def test_a_counted_resource_is_left_to_the_kubelet() -> None:
    counted = node("n1", room={"example.com/gpu": "2"})
    waiting = told_pod(counted, pod(limits="{example.com/gpu: 1}"))
    running = told_pod(counted, pod(limits="{example.com/gpu: 1}", nodeName="n1"))
    for found in (waiting, running):
        assert any("1 example.com/gpu is counted only" in note and "kubelet" in note for note in found.notes)
        assert all(one.devices is None for one in found.nodes) and found.claims == ()


def test_every_plugin_tells_its_numbers_and_the_nearest_comes_first() -> None:
    found = told_pod(
        CLASS,
        node("cordoned", spec="unschedulable: true"),
        node("small", room={"cpu": "1"}, labels="kind: big"),
        node("tainted", spec="taints: [{key: k, value: v, effect: NoSchedule}]", labels="kind: big"),
        node("other", labels="kind: small"),
        node("empty", labels="kind: big", devices="[{name: a, taints: [{key: x, effect: NoSchedule}]}]"),
        claim("c", ONE),
        pod(claims="[{name: g, resourceClaimName: c}]", limits="{cpu: 2}", nodeSelector="{kind: big}"),
    )
    assert [one.node for one in found.nodes] == ["empty", "small", "other", "tainted", "cordoned"]
    details = {one.node: one.details for one in found.nodes}
    assert details["small"] == ("cpu: asks for 2, 1 of 1 free; more than the whole node has",)
    assert details["other"] == ("label kind is small, wanted big",)
    assert details["tainted"] == ("taint k=v:NoSchedule is not tolerated",)
    assert found.message.startswith("0/5 nodes are available:")
    assert sum(count for _, count, _ in found.reasons) == 5


def test_another_scheduler_may_decide_otherwise() -> None:
    found = told_pod(node("n1"), pod(schedulerName="mine"))
    assert "its scheduler is mine: this is what default-scheduler would do" in found.notes
    assert not any("scheduler is" in note for note in told_pod(node("n1"), pod()).notes)


def test_what_keeps_a_pod_from_being_tried_at_all() -> None:
    gated = told_pod(node("n1"), pod(schedulingGates="[{name: quota}]"))
    assert (gated.state, gated.good, gated.choice) == ("is not tried", False, ("n1",)) and "quota" in gated.text
    assert "without them it can be scheduled: fits on 1 node" in gated.text
    big = told_pod(node("n1"), pod(schedulingGates="[{name: quota}]", limits="{cpu: 1000}"))
    assert "without them it cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu" in big.text
    lost = told_pod(node("n1"), pod(schedulingGates="[{name: q}]", claims="[{name: g, resourceClaimName: nothing}]"))
    assert "without them it is not tried" in lost.text
    lost = told_pod(node("n1"), pod(claims="[{name: g, resourceClaimName: nothing}]"))
    assert lost.state == "is not tried" and 'resourceclaim.resource.k8s.io "nothing" not found' in lost.text
    done = told_pod(node("n1"), pod(status="{phase: Succeeded}", nodeName="n1"))
    assert done.state == "has ended"


@pytest.mark.row(270, how="unit")
def test_devices_are_not_preempted_and_that_is_said() -> None:
    low = pod("low", nodeName="n1", priority="1", claims="[{name: g, resourceClaimName: c}]")
    for minor in ("1.36", "1.37"):
        found = told_pod(
            CLASS,
            node("n1", devices="[{name: a}]"),
            claim("c", ONE, status=held("a", users=f"[{user('low')}]")),
            claim("mine", ONE),
            low,
            pod(priority="1000", claims="[{name: g, resourceClaimName: mine}]"),
            minor=minor,
        )
        assert found.state == "cannot be scheduled" and found.preemption is None
        (note,) = [text for text in found.notes if "not preempted" in text]
        assert "up to 1.37" in note and "pod team/low has one" in note
        devices = found.nodes[0].devices
        assert devices is not None and "in use by team/c" in devices.requests[0].devices[0].text


@pytest.mark.row(280, how="unit")
def test_a_claim_with_all_the_users_it_can_have() -> None:
    users = ", ".join(user(f"u{number}") for number in range(256))
    full = claim("c", ONE, status=held("a", users=f"[{users}]"))
    found = told_pod(CLASS, node("n1", devices="[{name: a}]"), full, pod(claims="[{name: g, resourceClaimName: c}]"))
    assert found.state == "can be scheduled"
    (note,) = [text for text in found.notes if "256 users" in text]
    assert "binding it fails" in note and "PodGroup" in note
    assert told_claim(CLASS, node("n1", devices="[{name: a}]"), full).notes == (note,)


# -- claims


def test_an_allocated_claim_says_what_it_holds_and_since_when() -> None:
    since = "2026-11-29T17:19:05Z"
    devices = "[{name: a, taints: [{key: ecc, effect: NoExecute}]}]"
    found = told_claim(
        CLASS, node("n1", devices=devices), claim("c", ONE, status=held("a", users=f"[{user('p')}]", since=since))
    )
    assert found.state == "allocated" and found.text == f"holds d/n1/a, since {since}"
    assert found.holding is not None and found.holding.users == ("pod p",)
    assert found.holding.devices[0].remarks == ("has taint ecc:NoExecute",)
    lost = told_claim(CLASS, node("n1"), claim("c", ONE, status=held("a")))
    assert lost.holding is not None and lost.holding.devices[0].remarks == ("is not published any more",)
    assert "since when was not noted" in lost.text


FIRST = """[{name: r, firstAvailable: [
  {name: big, deviceClassName: gpu, selectors: [{cel: {
    expression: 'device.capacity["d"].memory.isGreaterThan(quantity("79Gi"))'}}]},
  {name: two, deviceClassName: gpu, count: 2}]}]"""


@pytest.mark.row(61, 223, how="unit")
def test_why_the_first_alternative_was_passed_over() -> None:
    small = "[{name: a, capacity: {memory: {value: 40Gi}}}, {name: b, capacity: {memory: {value: 40Gi}}}]"
    found = told_claim(CLASS, node("n1", devices=small), claim("c", FIRST))
    assert found.cluster is not None and found.good
    big, two = found.cluster.nodes["n1"].requests
    assert big.text.startswith("passed over: 0 of 2 devices match") and "2 not selected" in big.text
    assert two.chosen == ("d/n1/a", "d/n1/b")
    assert found.text == "on n1 it gets r/two: d/n1/a, d/n1/b"


@pytest.mark.row(57, 58, 59, 60, how="unit")
@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('device.capacity["d"].memory.compareTo(quantity("80Gi")) >= 0', "d/memory=40Gi"),
        ('device.attributes["d"].model.matches("^A1")', "d/model=H100"),
        ('device.attributes["d"].fw.isGreaterThan(semver("1.2.0"))', "d/fw=1.1.9"),
        ('device.attributes["d"].mig', "d/mig=false"),
        ('device.attributes["d"].numa == 1', "d/numa=0"),
    ],
)
def test_the_values_that_a_selector_saw_are_shown(expression: str, text: str) -> None:
    attributes = "{model: {string: H100}, fw: {version: 1.1.9}, mig: {bool: false}, numa: {int: 0}}"
    devices = f"[{{name: a, attributes: {attributes}, capacity: {{memory: {{value: 40Gi}}}}}}]"
    request = f"[{{name: r, exactly: {{deviceClassName: gpu, selectors: [{{cel: {{expression: '{expression}'}}}}]}}}}]"
    found = told_claim(CLASS, node("n1", devices=devices), claim("c", request))
    assert not found.good and found.cluster is not None
    assert text in found.cluster.nodes["n1"].requests[0].devices[0].text


@pytest.mark.row(64, 28, 187, 177, how="unit")
def test_two_on_the_same_numa_node_or_the_constraint_is_named() -> None:
    def devices(*numa: int) -> str:
        name = "resource.kubernetes.io/numaNode"
        return (
            "[" + ", ".join(f"{{name: g{n}, attributes: {{{name}: {{int: {v}}}}}}}" for n, v in enumerate(numa)) + "]"
        )

    two = "[{name: r, exactly: {deviceClassName: gpu, count: 2}}]"
    same = "[{matchAttribute: resource.kubernetes.io/numaNode}]"
    texts = (CLASS, node("apart", devices=devices(0, 1)), node("near", devices=devices(0, 1, 1)))
    found = told_claim(*texts, claim("c", two, constraints=same))
    assert found.cluster is not None and found.cluster.fitting == ("near",)
    assert found.cluster.nodes["near"].requests[0].chosen == ("d/near/g1", "d/near/g2")
    apart = found.cluster.nodes["apart"]
    assert "with the same value of resource.kubernetes.io/numaNode" in apart.text
    assert any(
        "without the constraint matchAttribute resource.kubernetes.io/numaNode" in one.text for one in apart.would_fit
    )


def test_a_class_that_is_not_there_and_no_nodes() -> None:
    assert "device class gpu does not exist" in told_claim(node("n1"), claim("c", ONE)).text
    assert told_claim(CLASS, claim("c", ONE)).text == "there are no nodes"


def test_a_gate_that_is_off_is_named() -> None:
    big = node("n1", devices="[{name: a, capacity: {memory: {value: 80Gi}}}]")
    stored = as_stored(snapshot(CLASS, big, claim("c", FIRST)))
    assert explain_claim(State.of(stored, rules("1.34")), stored.claims[0]).good
    off = explain_claim(State.of(stored, rules("1.34", {"DRAPrioritizedList": False})), stored.claims[0])
    assert not off.good and "DRAPrioritizedList feature is disabled" in off.text


# -- against the scheduler itself


@pytest.mark.parametrize("seed", range(0, 240, 2))
def test_an_explanation_never_says_other_than_the_scheduler(seed: int) -> None:
    case = random_case(seed)
    objects = [*case["objects"], case["pod"]]
    world = as_stored(Snapshot.of(Document(one, Where()) for one in objects))
    mine = next(one for one in world.pods if one.metadata.name == case["pod"]["metadata"]["name"])
    state = State.of(world, rules("1.36"))
    found = explain_pod(state, mine, random.Random(seed))
    outcome = schedule(mine, State.of(world, rules("1.36")), rules("1.36"), random.Random(seed))
    match outcome:
        case Scheduled():
            assert (found.state, found.choice) == ("can be scheduled", outcome.ties)
            assert {one.node for one in found.nodes if not one.plugin} == set(outcome.feasible)
            for one in found.nodes:
                devices = one.devices
                assert devices is None or one.plugin or devices.outcome == "fits"
        case Unschedulable():
            assert (found.state, found.message) == ("cannot be scheduled", outcome.message)
            assert outcome.before or {one.node: one.plugin for one in found.nodes} == {
                name: refusal.plugin for name, refusal in outcome.refusals.items()
            }
        case SchedulerError():
            assert (found.state, found.message) == ("ends with an error", outcome.message)
        case _:
            assert found.state == "is not tried"


EXTENDED = CLASS.replace("spec: {", "spec: {extendedResourceName: example.com/gpu, ")


def test_a_counted_resource_that_devices_stand_for_names_them() -> None:
    nodes = (node("n1", devices="[{name: a}]"), node("n2", devices="[{name: a}, {name: b}]"), node("n3"))
    found = told_pod(EXTENDED, *nodes, pod(limits="{example.com/gpu: 2}"), minor="1.37")
    assert found.choice == ("n2",) and not any("kubelet" in note for note in found.notes)
    devices = {one.node: one.devices for one in found.nodes}
    assert devices["n2"] is not None and devices["n2"].requests[0].chosen == ("d/n2/a", "d/n2/b")
    assert devices["n1"] is not None and devices["n1"].bound is not None and devices["n1"].bound.have == 1


# -- objects as they were written


def test_hand_written_objects_are_completed_and_stored_ones_left_alone() -> None:
    texts = (claim("t", ONE, kind="ResourceClaimTemplate"), pod(claims="[{name: g, resourceClaimTemplateName: t}]"))
    stored = as_stored(snapshot(CLASS, *texts))
    (made,) = stored.claims
    assert (made.metadata.name, made.metadata.namespace) == ("p-g", "team")
    request = made.spec.devices.requests[0].exactly
    assert request is not None and (request.allocation_mode, request.count) == ("ExactCount", 1)
    assert stored.pods[0].metadata.uid and stored.pods[0].status.resource_claim_statuses[0].resource_claim_name == "p-g"
    assert as_stored(stored) is stored


def test_a_stored_pod_waits_for_the_claim_that_its_controller_has_not_made() -> None:
    stored = pod(claims="[{name: g, resourceClaimTemplateName: t}]", schedulerName="default-scheduler").replace(
        "namespace: team}", "namespace: team, uid: u}", 1
    )
    found = told_pod(CLASS, node("n1"), claim("t", ONE, kind="ResourceClaimTemplate"), stored)
    assert found.state == "is not tried" and "ResourceClaim not created yet" in found.text


def test_the_priority_of_a_class_counts() -> None:
    class_ = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 77\n"
    assert as_stored(snapshot(class_, pod(priorityClassName="high"))).pods[0].spec.priority == 77


@pytest.mark.parametrize(
    ("name", "namespace", "says"),
    [
        ("traner", "", "did you mean a/trainer or b/trainer?"),
        ("trainer", "", "add -n with one of: a, b"),
        ("trainer", "c", "is not there"),
        ("zzz", "", "known: a/trainer, b/server, b/trainer"),
    ],
)
def test_names_that_are_not_there_or_not_enough(name: str, namespace: str, says: str) -> None:
    pods = [pod("trainer"), pod("trainer").replace("namespace: team", "namespace: b"), pod("server")]
    pods = [
        pods[0].replace("namespace: team", "namespace: a"),
        pods[1],
        pods[2].replace("namespace: team", "namespace: b"),
    ]
    items = as_stored(snapshot(*pods)).pods
    with pytest.raises(InputError) as caught:
        find_named("Pod", items, name, namespace)
    if says.startswith("did you mean"):
        assert "did you mean" in str(caught.value) and "trainer" in str(caught.value)
    else:
        assert says in str(caught.value)
    assert find_named("Pod", items, "b/trainer").metadata.namespace == "b"


def test_there_may_be_nothing_at_all() -> None:
    assert near("x", [], "pods") == "there are no pods at all"
