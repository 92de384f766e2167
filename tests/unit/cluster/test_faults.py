"""Controllers under an API server that fails now and then, before or after a write took effect: they end where they must."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cluster.conftest import Plane, in_virtual_time

from regauge.cluster.server_state import ApiCall
from regauge.cluster.store import Store
from regauge.kube import ApiError, Conflict, ServerUnavailable
from regauge.model import Object
from regauge.model.kinds import CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example.com/app:1"}]},
}


class Unreliable:
    """Fails a share of the writes of the controllers, with any of the errors that a network brings."""

    def __init__(self, seed: int, share: float) -> None:
        self.failed = 0
        self._chance = random.Random(seed)
        self._share = share

    def __call__(self, call: ApiCall) -> None:
        if call.actor != "kube-controller-manager" or self._chance.random() > self._share:
            return
        self.failed += 1
        choice = self._chance.randrange(3)
        if choice == 0:
            raise ServerUnavailable("the connection was cut")
        if choice == 1 and call.moment == "before":
            raise Conflict(409, "Conflict", "somebody was first")
        raise ApiError(500, "InternalError", "etcdserver: request timed out")


def workload(name: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, **spec},
    }


@pytest.mark.parametrize("seed", range(12))
def test_failures_delay_the_controllers_and_change_nothing_else(seed: int) -> None:
    unreliable = Unreliable(seed, share=0.25)

    async def body(plane: Plane) -> None:
        for name in ("n1", "n2"):
            plane.user.create(NODE, {"metadata": {"name": name}, "spec": {}})
        plane.server.state.fault = unreliable
        plane.user.create(DEPLOYMENT, workload("d", replicas=3), "default")
        plane.user.create(STATEFUL_SET, workload("s", replicas=3), "default")
        plane.user.create(DAEMON_SET, workload("ds"), "default")
        once = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
        plane.user.create(JOB, {"metadata": {"name": "j"}, "spec": {"template": once, "completions": 2}}, "default")
        await plane.settle(60)
        changed = {"metadata": TEMPLATE["metadata"], "spec": {"containers": [{"name": "main", "image": "i:2"}]}}
        plane.user.patch(DEPLOYMENT, "d", {"spec": {"template": changed}}, "default")
        for _ in range(4):
            await plane.settle(60)
            for pod in plane.pods():
                if pod["metadata"]["name"].startswith("j-") and pod["status"]["phase"] == "Running":
                    plane.set_phase(pod, "Succeeded")
        await plane.settle(600)
        check(plane)

    in_virtual_time(body, seed=seed)
    assert unreliable.failed > 10


def check(plane: Plane) -> None:
    owners = {pod["metadata"]["name"]: pod["metadata"]["ownerReferences"][0]["kind"] for pod in plane.pods()}
    counts = {kind: list(owners.values()).count(kind) for kind in sorted(set(owners.values()))}
    assert counts == {"DaemonSet": 2, "Job": 2, "ReplicaSet": 3, "StatefulSet": 3}
    assert sorted(name for name in owners if name.startswith("s-")) == ["s-0", "s-1", "s-2"]
    sets = plane.user.list(REPLICA_SET, "default")
    assert sorted(item["spec"]["replicas"] for item in sets) == [0, 3]
    deployment = plane.user.get(DEPLOYMENT, "d", "default")["status"]
    assert (deployment["updatedReplicas"], deployment["availableReplicas"]) == (3, 3)
    job = plane.user.get(JOB, "j", "default")["status"]
    assert job["succeeded"] == 2 and not job.get("failed") and job["conditions"][-1]["type"] == "Complete"
    assert not any(pod["metadata"].get("finalizers") for pod in plane.pods())
    plane.user.delete(DEPLOYMENT, "d", "default", propagation_policy="Foreground")


def test_everything_is_collected_in_spite_of_failures() -> None:
    unreliable = Unreliable(3, share=0.3)

    async def body(plane: Plane) -> None:
        plane.server.state.fault = unreliable
        plane.user.create(DEPLOYMENT, workload("d", replicas=5), "default")
        await plane.settle(60)
        plane.user.delete(DEPLOYMENT, "d", "default", propagation_policy="Foreground")
        await plane.settle(600)
        assert plane.user.find(DEPLOYMENT, "d", "default") is None
        assert plane.user.list(REPLICA_SET) == plane.user.list(POD) == ()

    in_virtual_time(body)


@pytest.mark.parametrize("steps", [1, 3, 10, 30, 100])
def test_controllers_that_were_killed_go_on_where_they_were(steps: int) -> None:
    async def body(plane: Plane) -> None:
        plane.user.create(DEPLOYMENT, workload("d", replicas=3), "default")
        plane.user.create(STATEFUL_SET, workload("s", replicas=2), "default")
        for _ in range(4):
            for _ in range(steps):
                await asyncio.sleep(0)
            await plane.kill()
            plane.start()
        await plane.settle(5)
        await plane.kill()
        plane.user.delete(DEPLOYMENT, "d", "default")
        plane.user.delete(POD, "s-0", "default", grace_period_s=0)
        await plane.settle(5)
        plane.start()
        await plane.settle(60)
        assert plane.names() == ["s-0", "s-1"] and plane.user.list(REPLICA_SET) == ()

    in_virtual_time(body)


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("put", "remove"))), max_size=40)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 40), st.integers(1, 60))
def test_a_list_and_what_came_after_it_are_always_the_present(
    steps: list[tuple[str, str]], at: int, log_length: int
) -> None:
    """What list-and-watch promises: the state at any revision that is still known, and the changes since, give now."""
    store = Store(log_length)
    for number, (name, verb) in enumerate(steps):
        key = ("ns", name)
        if verb == "put":
            store.put(CONFIG_MAP, key, {"metadata": {"name": name, "number": number}})
        elif store.find(CONFIG_MAP, key) is not None:
            store.remove(CONFIG_MAP, key)
    revision = min(store.revision, at + 1)
    try:
        changes = list(store.since(revision))
    except ApiError as error:
        assert error.code == 410 and store.revision - revision > log_length
        return
    seen = {item["metadata"]["name"]: item for item in store.list_at(CONFIG_MAP, "ns", revision)}
    for change in changes:
        if change.type == "DELETED":
            del seen[change.key[1]]
        else:
            assert (change.type == "ADDED") is (change.key[1] not in seen)
            seen[change.key[1]] = change.object
    assert sorted(seen.values(), key=lambda item: item["metadata"]["name"]) == list(store.list(CONFIG_MAP))
    assert [change.revision for change in changes] == sorted({change.revision for change in changes})
