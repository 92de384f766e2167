"""The pod's claims: what holds it, what refuses it, which devices it gets, and that none is given twice."""

from __future__ import annotations

import random
from dataclasses import replace as with_rules
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.scheduler.making import (
    DRIVER,
    RULES,
    claim,
    device_class,
    node,
    plugin_node,
    pod,
    slice_of,
    state,
    user_of,
)

from regauge.features import rules
from regauge.model import view
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim
from regauge.scheduler import Held, Scheduled, SchedulerError, State, Unschedulable, check_node, schedule

HELPLESS = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def go(asked: Pod, world: State, seed: int = 1) -> Any:
    return schedule(asked, world, world.rules, random.Random(seed))


def world(devices: int = 2, *more: Any, ruling: Any = RULES) -> State:
    return state(node("n1"), device_class(), slice_of("n1", devices), *more, ruling=ruling)


def allocated(where: str, device: str, *users: Pod) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    result = {"request": "g", "driver": DRIVER, "pool": where, "device": device}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    reserved = [{"resource": "pods", "name": user.metadata.name, "uid": user.metadata.uid} for user in users]
    return {"allocation": allocation, "reservedFor": reserved}


@pytest.mark.row(175)
def test_a_claim_gets_the_first_device_and_the_pod_says_which() -> None:
    outcome = go(user_of("c"), world(2, claim()))
    assert isinstance(outcome, Scheduled)
    assert (outcome.node, outcome.claims, outcome.binding) == ("n1", ("c",), True)
    (item,) = outcome.allocations
    assert [(result.pool, result.device) for result in item.allocation.devices.results] == [("n1", "gpu-0")]


@pytest.mark.parametrize(
    ("asked", "objects", "reason"),
    [
        (user_of("c"), [], 'resourceclaim.resource.k8s.io "c" not found'),
        (
            user_of("c"),
            [
                view(
                    {"metadata": {"name": "c", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
                    ResourceClaim,
                )
            ],
            'resourceclaim "c" is being deleted',
        ),
        (
            pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]),
            [],
            'pod "default/p": ResourceClaim not created yet',
        ),
        (
            pod(
                resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}],
                status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]},
            ),
            [claim()],
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
        ),
        (pod(schedulingGates=[{"name": "a"}, {"name": "b"}]), [], "waiting for scheduling gates: [a b]"),
    ],
)
def test_held_back(asked: Pod, objects: list[Any], reason: str) -> None:
    outcome = go(asked, world(2, *objects))
    assert isinstance(outcome, Held) and outcome.reason == reason


def test_pod_groups_are_not_supported_and_say_so() -> None:
    asked = pod(schedulingGroup={"podGroupName": "pg"})
    assert isinstance(go(asked, world()), Scheduled)
    outcome = go(asked, world(ruling=rules("1.36", {"GenericWorkload": True})))
    assert isinstance(outcome, SchedulerError) and outcome.message.startswith("unsupported: ")


def test_too_many_devices() -> None:
    outcome = go(user_of("c"), world(2, claim(count=3)))
    assert isinstance(outcome, Unschedulable)
    assert outcome.message == (
        f"0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, {HELPLESS}"
    )


def test_the_next_minor_says_it_without_the_plugin() -> None:
    later = rules("1.37")
    outcome = go(user_of("c"), world(2, claim(count=3), ruling=later))
    assert isinstance(outcome, Unschedulable)
    assert outcome.message == f"0/1 nodes are available: 1 cannot allocate all claims. {HELPLESS}"


def test_missing_class_refuses_before_any_node() -> None:
    outcome = go(user_of("c"), state(node("n1"), slice_of("n1", 2), claim()))
    assert isinstance(outcome, Unschedulable) and outcome.before is not None
    assert outcome.message == (
        f"0/1 nodes are available: request g: device class {DRIVER} does not exist. no new claims to deallocate, {HELPLESS}"
    )


def test_claim_in_flight_is_waited_for() -> None:
    shared = world(2, claim(), user_of("c", "a"), user_of("c", "b"))
    first = go(user_of("c", "a"), shared)
    shared.assume(shared.info(user_of("c", "a")), first)
    second = go(user_of("c", "b"), shared)
    assert isinstance(second, Unschedulable)
    assert "resource claim default/c is in the process of being allocated. no new claims" in second.message
    shared.landed("uid-c")
    shared.put_claim(claim(status=allocated("n1", "gpu-0", user_of("c", "a"))))
    third = go(user_of("c", "b"), shared)
    assert isinstance(third, Scheduled) and third.allocations == () and third.claims == ("c",)


@pytest.mark.row(48)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_device_is_ever_given_twice(data: st.DataObject) -> None:
    """Whatever is assumed, given up, written and released in between."""
    cluster = state(node("n1"), node("n2"), device_class(), slice_of("n1", 3), slice_of("n2", 2))
    chance = random.Random(data.draw(st.integers(0, 1000)))
    held: dict[str, tuple[str, str]] = {}
    flying: dict[str, tuple[Pod, Scheduled]] = {}
    for step in range(30):
        what = data.draw(st.sampled_from(["new", "new", "write", "give up", "release"]))
        if what == "new":
            asked = user_of(f"c{step}", f"p{step}")
            cluster.put_claim(claim(f"c{step}"))
            cluster.put_pod(asked)
            outcome = schedule(asked, cluster, RULES, chance)
            if isinstance(outcome, Scheduled):
                result = outcome.allocations[0].allocation.devices.results[0]
                assert (result.pool, result.device) not in held.values()
                held[asked.metadata.name] = (result.pool, result.device)
                flying[asked.metadata.name] = (asked, outcome)
                cluster.assume(cluster.info(asked), outcome)
            else:
                assert len(held) == 5
        elif flying and what in ("write", "give up"):
            name = data.draw(st.sampled_from(sorted(flying)))
            asked, outcome = flying.pop(name)
            if what == "give up":
                cluster.forget(asked, ["uid-" + name.replace("p", "c")])
                del held[name]
            else:
                status = allocated(*held[name], asked)
                cluster.put_claim(claim(name.replace("p", "c"), status=status))
        elif what == "release" and set(held) - set(flying):
            name = data.draw(st.sampled_from(sorted(set(held) - set(flying))))
            cluster.put_claim(claim(name.replace("p", "c")))
            cluster.drop_pod(("default", name))
            del held[name]


def test_an_allocated_claim_binds_the_pod_to_its_node() -> None:
    cluster = state(node("n1"), node("n2"), device_class(), slice_of("n1", 1), claim(status=allocated("n1", "gpu-0")))
    outcome = go(user_of("c"), cluster)
    assert isinstance(outcome, Scheduled) and outcome.node == "n1"
    assert outcome.refusals["n2"].reasons == ("resourceclaim not available on the node",)


def test_a_useless_allocation_is_taken_back_unless_others_use_it() -> None:
    cluster = state(node("n2"), device_class(), claim(status=allocated("n1", "gpu-0", user_of("c"))))
    outcome = go(user_of("c"), cluster)
    assert isinstance(outcome, Unschedulable) and outcome.deallocate == ("default", "c")
    assert "deallocation of ResourceClaim completed, preemption" in outcome.message
    both = claim(status=allocated("n1", "gpu-0", user_of("c"), user_of("c", "other")))
    outcome = go(user_of("c"), state(node("n2"), device_class(), both))
    assert isinstance(outcome, Unschedulable) and outcome.deallocate is None
    assert "still not schedulable" in outcome.message


def test_a_broken_selector_ends_the_attempt_whatever_the_other_nodes() -> None:
    broken = claim()
    exactly = replace(broken.spec.devices.requests[0].exactly, selectors=selector('device.attributes["x"].y == 1'))
    request = replace(broken.spec.devices.requests[0], exactly=exactly)
    broken = replace(broken, spec=replace(broken.spec, devices=replace(broken.spec.devices, requests=(request,))))
    outcome = go(user_of("c"), world(1, broken, node("n2")))
    assert isinstance(outcome, SchedulerError)
    assert outcome.message == (
        'running "DynamicResources" filter plugin: claim default/c: selector #0: CEL runtime error: no such key: y'
    )


def selector(expression: str) -> Any:
    from regauge.model.resource import CELDeviceSelector, DeviceSelector

    return (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)


# -- extended resources backed by classes


GPU = "example.com/gpu"


def asks(count: int = 1, name: str = "p") -> Pod:
    return pod(name, limits={GPU: str(count)})


def bridge(*more: Any, created: str = "2026-01-01T00:00:00Z", devices: int = 2) -> State:
    return state(node("n1"), device_class("one", extended=GPU, created=created), slice_of("n1", devices), *more)


@pytest.mark.row(248)
def test_a_class_stands_for_an_extended_resource() -> None:
    outcome = go(asks(2), bridge())
    assert isinstance(outcome, Scheduled) and outcome.extended is not None
    (request,) = outcome.extended.requests
    assert (request.name, request.exactly.device_class_name, request.exactly.count) == (
        "container-0-request-0",
        "one",
        2,
    )
    assert [(item.container_name, item.resource_name, item.request_name) for item in outcome.extended.mappings] == [
        ("main", GPU, "container-0-request-0")
    ]
    assert [result.device for result in outcome.allocations[0].allocation.devices.results] == ["gpu-0", "gpu-1"]


@pytest.mark.row(262)
def test_what_the_node_itself_offers_hides_its_devices() -> None:
    hidden = state(plugin_node("n1", GPU, 1), device_class("one", extended=GPU), slice_of("n1", 4))
    outcome = go(asks(2), hidden)
    assert isinstance(outcome, Unschedulable)
    assert outcome.message == (
        "0/1 nodes are available: 1 Insufficient example.com/gpu. still not schedulable, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    served = go(asks(1), hidden)
    assert isinstance(served, Scheduled) and served.extended is None and served.binding
    none_left = go(asks(1), state(plugin_node("n1", GPU, 0), device_class("one", extended=GPU), slice_of("n1", 1)))
    assert isinstance(none_left, Scheduled) and none_left.extended is not None


def test_implicit_name_and_gate() -> None:
    asked = pod(limits={"deviceclass.resource.kubernetes.io/one": "1"})
    assert isinstance(go(asked, bridge()), Scheduled)
    off = with_rules(RULES, gates={**RULES.gates, "DRAExtendedResource": False})
    closed = state(node("n1"), device_class("one", extended=GPU), slice_of("n1", 2), ruling=off)
    assert isinstance(go(asked, closed), Unschedulable)
    assert isinstance(go(asks(), closed), Unschedulable)


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-01T00:00:02Z"), "b"),
        (("b", "2026-01-01T00:00:02Z"), ("a", "2026-01-01T00:00:00Z"), "b"),
        (("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T00:00:00Z"), "a"),
        (("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-01T00:00:00Z"), "a"),
    ],
)
def test_of_two_classes_the_newest_wins_then_the_name(first: Any, second: Any, winner: str) -> None:
    classes = [device_class(name, extended=GPU, created=created) for name, created in (first, second)]
    outcome = go(asks(), state(node("n1"), slice_of("n1", 2), *classes))
    assert isinstance(outcome, Scheduled) and outcome.extended is not None
    assert outcome.extended.requests[0].exactly.device_class_name == winner


def box(name: str, count: int, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", GPU: str(count)}} if count else {}
    return {"name": name, "image": "x", "resources": resources, **more}


def test_request_names_count_init_containers_and_all_resources() -> None:
    """An init container that ends shares what later containers hold; what it needs beyond that is its own."""
    asked = pod(
        containers=[box("one", 1), box("two", 2)],
        initContainers=[box("ends", 4), box("stays", 1, restartPolicy="Always"), box("small", 1)],
    )
    outcome = go(asked, bridge(devices=8))
    assert isinstance(outcome, Scheduled) and outcome.extended is not None
    shown = [(item.name, item.exactly.count) for item in outcome.extended.requests if item.exactly]
    assert shown == [
        ("container-1-request-1", 1),
        ("container-3-request-1", 1),
        ("container-4-request-1", 2),
    ]
    used = {(item.container_name, item.request_name) for item in outcome.extended.mappings}
    assert {name for container, name in used if container == "ends"} == {name for name, _ in shown}
    assert {name for container, name in used if container == "small"} == {"container-3-request-1"}


def test_a_stale_special_claim_is_deleted_first() -> None:
    stale = view(
        {
            "metadata": {
                "name": "p-extended-resources-abcde",
                "namespace": "default",
                "uid": "u",
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
            },
            "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "one", "count": 1}}]}},
        },
        ResourceClaim,
    )
    outcome = go(asks(), bridge(stale))
    assert isinstance(outcome, Unschedulable) and outcome.delete == ("default", "p-extended-resources-abcde")
    assert "cannot schedule extended resource claim. deletion of ResourceClaim completed" in outcome.message


def test_check_node_explains_one_node() -> None:
    refused = check_node(user_of("c"), "n1", world(1, claim(count=2)))
    assert refused is not None and (refused.plugin, refused.reasons) == (
        "DynamicResources",
        ("cannot allocate all claims",),
    )
    assert check_node(user_of("c"), "n1", world(2, claim(count=2))) is None
