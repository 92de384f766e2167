"""A dump of a real cluster: the scheduler must find every pod's place feasible, and say of the two that wait what it said."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace
from tests.support import shared

from regauge.collect import load_estate
from regauge.features import rules
from regauge.model import Snapshot
from regauge.model.core import Pod
from regauge.model.resource import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim, ResourceClaimStatus
from regauge.scheduler import Scheduled, SchedulerError, State, Unschedulable, check_node, is_terminal, schedule

RULES = rules("1.36")


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return load_estate(str(shared("estates/small"))).snapshot


def waiting_again(pod: Pod) -> Pod:
    """The pod as it was before it was bound."""
    return replace(pod, spec=replace(pod.spec, node_name=""))


def without_special_claim(state: State, pod: Pod) -> None:
    """Take away what the scheduler itself made for the pod's extended resources."""
    for key, claim in list(state.claims.items()):
        owners = {owner.uid for owner in claim.metadata.owner_references}
        if pod.metadata.uid in owners and EXTENDED_RESOURCE_CLAIM_ANNOTATION in (claim.metadata.annotations or {}):
            state.drop_claim(key)


@pytest.mark.row(13, how="vectors")
@pytest.mark.row(3, how="vectors")
def test_every_bound_pod_fits_where_it_is(snapshot: Snapshot) -> None:
    state = State.of(snapshot, RULES)
    bound = [pod for pod in snapshot.pods if pod.spec.node_name and not is_terminal(pod)]
    assert len(bound) > 20
    for pod in bound:
        without_special_claim(state, pod)
        state.put_pod(waiting_again(pod))
        refused = check_node(waiting_again(pod), pod.spec.node_name, state)
        assert refused is None, f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name}: {refused}"
        state = State.of(snapshot, RULES)


def scheduled_at(pod: Pod) -> tuple[str, str, str]:
    moments = [item.last_transition_time or "" for item in pod.status.conditions if item.type == "PodScheduled"]
    return moments[0], pod.metadata.creation_timestamp or "", pod.metadata.name


def put_claims_of(state: State, pod: Pod, claims: dict[tuple[str, str], ResourceClaim]) -> None:
    """The pod's claims as the dump has them, allocated."""
    generated = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    names = [entry.resource_claim_name or generated.get(entry.name) for entry in pod.spec.resource_claims]
    extended = pod.status.extended_resource_claim_status
    for name in (*names, extended.resource_claim_name if extended else None):
        if name:
            state.put_claim(claims[(pod.metadata.namespace, name)])


@pytest.mark.row(13, how="vectors")
@pytest.mark.row(3, how="vectors")
def test_the_real_choices_are_among_ours(snapshot: Snapshot) -> None:
    """All pods of the dump once more, in the order in which they were bound, each into the world the last one left.

    Times are whole seconds: which of several pods of one second came first is not told, so a few choices were made in
    another world than ours.
    """
    state = State.of(snapshot, RULES)
    claims = dict(state.claims)
    for pod in snapshot.pods:
        state.drop_pod((pod.metadata.namespace, pod.metadata.name))
    for key, claim in claims.items():
        state.drop_claim(key)
        if EXTENDED_RESOURCE_CLAIM_ANNOTATION not in (claim.metadata.annotations or {}):
            state.put_claim(replace(claim, status=ResourceClaimStatus()))
    bound = sorted((pod for pod in snapshot.pods if pod.spec.node_name), key=scheduled_at)
    best = 0
    for pod in bound:
        state.put_pod(waiting_again(pod))
        outcome = schedule(waiting_again(pod), state, RULES, random.Random(1))
        assert isinstance(outcome, Scheduled), f"{pod.metadata.name}: {outcome}"
        assert pod.spec.node_name in outcome.feasible, f"{pod.metadata.name}: {outcome.feasible}"
        best += pod.spec.node_name in outcome.ties
        put_claims_of(state, pod, claims)
        state.put_pod(pod)
    assert len(bound) == 46 and best >= 43


@pytest.mark.row(13, how="vectors")
@pytest.mark.parametrize("name", ["pending-big", "dra-stuck"])
def test_pods_that_wait_say_why(snapshot: Snapshot, name: str) -> None:
    state = State.of(snapshot, RULES)
    pods = [pod for pod in snapshot.pods if pod.metadata.name.startswith(name)]
    assert pods
    for pod in pods:
        condition = next(item for item in pod.status.conditions if item.type == "PodScheduled")
        outcome = schedule(pod, state, RULES, random.Random(1))
        assert isinstance(outcome, (SchedulerError, Unschedulable)), outcome
        assert (outcome.message, condition.status) == (condition.message, "False")
