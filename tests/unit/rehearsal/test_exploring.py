"""Exploration finds what it is meant to find: nothing in what we have, and each of these mistakes when it is put in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from regauge.cluster import claim_decisions
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.controllers.garbage import GarbageCollector
from regauge.cluster.kubelet import dra_manager, kubelet, pod_worker
from regauge.cluster.kubelet.claims import ClaimCache, ClaimInfo, drivers_of
from regauge.cluster.scheduling_binding import Binder
from regauge.driver import claims as driver_claims
from regauge.driver import publisher
from regauge.driver.dra import Claims
from regauge.model import Object
from regauge.model.kinds import POD
from regauge.rehearsal.exploring import Schedule, explore, schedule_of, violations
from regauge.rehearsal.faults import Fault, What
from regauge.rehearsal.scenario import suite
from regauge.scheduler import State

(CROWD,) = suite("crowd")
CI_BUDGET_S = 15.0
SOAK = int(os.environ.get("REGAUGE_SOAK", "5000"))
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.row(80, how="unit")
def test_nothing_is_found_under_random_faults() -> None:
    """As many schedules as fit."""
    until_s = time.monotonic() + CI_BUDGET_S
    found = explore(CROWD, 1000, 0, go_on=lambda _: time.monotonic() < until_s)
    assert found.holds, "\n".join(map(str, found.failures))


@pytest.mark.soak
def test_nothing_is_found_in_a_long_run() -> None:
    """REGAUGE_SOAK says how many schedules."""
    found = explore(CROWD, SOAK, 1000, stop_at=5)
    assert found.holds, "\n".join(map(str, found.failures))


def test_a_seed_is_a_schedule_and_a_schedule_a_run() -> None:
    assert schedule_of(CROWD, 7) == schedule_of(CROWD, 7) != schedule_of(CROWD, 8)
    assert violations(CROWD, schedule_of(CROWD, 7), 7) == ()


# -- mistakes


def unprepared_before_the_last_consumer(patch: pytest.MonkeyPatch) -> None:
    def release(self: ClaimCache, namespace: str, names: Iterable[str], pod_uid: str) -> list[ClaimInfo]:
        return [info for name in names if (info := self.find(namespace, name)) is not None]

    def forget(self: ClaimCache, infos: Iterable[ClaimInfo], pod_uid: str) -> None:
        for info in infos:
            self._claims.pop((info.namespace, info.name), None)

    patch.setattr(ClaimCache, "release", release)
    patch.setattr(ClaimCache, "forget", forget)


def checkpoint_after_the_side_effects(patch: pytest.MonkeyPatch) -> None:
    """The kubelet notes a claim only when the driver has prepared it."""
    save, ask = dra_manager.DRAManager._save, dra_manager.DRAManager._prepare_with
    asking: list[int] = []

    async def prepare(self: Any, pod: Any) -> None:
        asking.append(1)
        try:
            await original(self, pod)
        finally:
            asking.clear()

    async def prepare_with(self: Any, link: Any, refs: Any) -> None:
        await ask(self, link, refs)
        asking.clear()

    def late(self: Any) -> None:
        if not asking:
            save(self)

    original = dra_manager.DRAManager._prepare
    patch.setattr(dra_manager.DRAManager, "_prepare", prepare)
    patch.setattr(dra_manager.DRAManager, "_prepare_with", prepare_with)
    patch.setattr(dra_manager.DRAManager, "_save", late)


def generation_not_bumped(patch: pytest.MonkeyPatch) -> None:
    original = publisher.writes

    def writes(pool: Any, devices: Any, actual: Sequence[Object], memory: Any) -> Any:
        plan = original(pool, devices, actual, memory)
        old = max((one["spec"]["pool"]["generation"] for one in actual), default=plan.generation)
        kept = tuple(
            {**one, "spec": {**one["spec"], "pool": {**one["spec"]["pool"], "generation": old}}} for one in plan.updates
        )
        return replace(plan, updates=kept, generation=old)

    patch.setattr(publisher, "writes", writes)


def claim_by_name_without_uid(patch: pytest.MonkeyPatch) -> None:
    def use(self: ClaimCache, claim: Any, pod_uid: str) -> ClaimInfo:
        key = (claim.metadata.namespace, claim.metadata.name)
        fresh = ClaimInfo(claim.metadata.uid, key[1], key[0], dict.fromkeys(drivers_of(claim)))
        info = self._claims.setdefault(key, fresh)
        info.pod_uids.add(pod_uid)
        return info

    patch.setattr(ClaimCache, "use", use)


def reservation_lost_on_conflict(patch: pytest.MonkeyPatch) -> None:
    """A write that met a conflict is repeated with what was read before it."""
    original = Binder._update

    def update(self: Any, claim: Object, doing: str, *, status: Object | None = None) -> Object:
        if status is not None and len(status.get("reservedFor") or ()) > 1:
            status = {**status, "reservedFor": status["reservedFor"][-1:]}
        return original(self, claim, doing, status=status)

    patch.setattr(Binder, "_update", update)
    patch.setattr(claim_decisions, "must_reserve", lambda pod, claim: False)


def containers_of_gone_pods_go_on(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, object_: Object) -> None:
        """The pod is gone, and nobody cares."""

    patch.setattr(kubelet.Kubelet, "_deleted", nothing)
    patch.setattr(kubelet.Kubelet, "_end_orphans", lambda self: nothing(self, {}))


def users_by_name_without_uid(patch: pytest.MonkeyPatch) -> None:
    def keeps(self: Any, namespace: str, user: Any) -> bool:
        pod = self._api.find(POD, user["name"], namespace)
        return pod is not None and not claim_decisions.is_done(pod)

    patch.setattr(ResourceClaimController, "_keeps", keeps)


def claims_made_twice(patch: pytest.MonkeyPatch) -> None:
    """After a restart nobody looks whether a claim was made already."""
    original = ResourceClaimController._generate

    def generate(self: Any, pod: Object, entry: Object) -> str:
        self._owned.pop(pod["metadata"]["uid"], None)
        return original(self, pod, entry)

    patch.setattr(ResourceClaimController, "_generate", generate)


def checkpoint_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dra_manager.DRAManager, "restore", lambda self: self._save())


def unprepared_before_the_containers_ended(patch: pytest.MonkeyPatch) -> None:
    original = pod_worker.PodWorker._stop_containers

    async def stop(self: Any) -> None:
        await self._release()
        await original(self)

    patch.setattr(pod_worker.PodWorker, "_stop_containers", stop)


def claims_of_gone_pods_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GarbageCollector, "_collect", lambda self, kind, object_: None)


def driver_gives_a_device_twice_and_scheduler_too(patch: pytest.MonkeyPatch) -> None:
    """The scheduler forgets what is in flight at once, and the driver does not look."""
    original = State.assume

    def assume(self: Any, pod: Any, outcome: Any) -> None:
        original(self, pod, outcome)
        for allocation in outcome.allocations:
            self.landed(allocation.uid)

    patch.setattr(State, "assume", assume)
    patch.setattr(driver_claims, "_busy", lambda *_: None)


def driver_forgets_nothing(patch: pytest.MonkeyPatch) -> None:
    async def unprepare(self: Claims, uid: str) -> str:
        return ""

    patch.setattr(Claims, "_unprepare", unprepare)


KILLED_AFTER_CALL: Schedule = tuple(
    Fault(What.KUBELET_KILLED, node, at=f"call {node} NodePrepareResources after", lasts_s=10.0)
    for node in ("node-1", "node-2", "node-3")
)
KUBELETS_KILLED: Schedule = (Fault(What.KUBELET_KILLED, after_s=14.0, lasts_s=3.0),)
KUBELETS_AWAY: Schedule = (Fault(What.KUBELET_KILLED, after_s=24.0, lasts_s=10.0),)
CONTROLLERS_KILLED: Schedule = (
    Fault(What.CONTROLLERS_KILLED, at="write kube-controller-manager create ResourceClaim after"),
)
CONTROLLERS_AWAY: Schedule = (Fault(What.CONTROLLERS_KILLED, after_s=24.0, lasts_s=5.0),)
VANISHED: Schedule = (Fault(What.DEVICE_VANISHED, "node-1", "gpu-0", after_s=5.0),)

MISTAKES: tuple[tuple[Patch, Schedule, str], ...] = (
    (unprepared_before_the_last_consumer, (), "what runs is in the kubelet's checkpoint"),
    (checkpoint_after_the_side_effects, KILLED_AFTER_CALL, "what runs is in the kubelet's checkpoint"),
    (generation_not_bumped, VANISHED, "a pool that changes has a new generation"),
    (claim_by_name_without_uid, (), "checkpoints agree with the API"),
    (reservation_lost_on_conflict, (), "what runs is reserved"),
    (containers_of_gone_pods_go_on, KUBELETS_AWAY, "no device is in two hands"),
    (users_by_name_without_uid, CONTROLLERS_AWAY, "no allocation without an owner"),
    (claims_made_twice, CONTROLLERS_KILLED, "a template makes one claim for a pod"),
    (checkpoint_not_read, KUBELETS_KILLED, "what runs is in the kubelet's checkpoint"),
    (unprepared_before_the_containers_ended, (), "what runs is prepared"),
    (claims_of_gone_pods_stay, (), "no claim of a pod that is gone"),
    (driver_gives_a_device_twice_and_scheduler_too, (), "no device is allocated twice"),
    (driver_forgets_nothing, (), "checkpoints agree with the API"),
)


@pytest.mark.row(80, how="unit")
@pytest.mark.parametrize(("mistake", "schedule", "invariant"), MISTAKES, ids=lambda item: getattr(item, "__name__", ""))
def test_a_mistake_is_found(
    mistake: Patch, schedule: Schedule, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    found = {item.invariant for item in violations(CROWD, schedule, 1)}
    assert invariant in found, found


def test_without_mistakes_the_same_schedules_hold() -> None:
    for schedule in (KILLED_AFTER_CALL, KUBELETS_KILLED, KUBELETS_AWAY, CONTROLLERS_KILLED, CONTROLLERS_AWAY, VANISHED):
        assert violations(CROWD, schedule, 1) == ()


def test_a_failure_is_told_with_the_smallest_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    claims_made_twice(monkeypatch)
    seed = next(
        seed for seed in range(200) if any("create ResourceClaim" in item.at for item in schedule_of(CROWD, seed))
    )
    found = explore(CROWD, 40, seed)
    (failure,) = found.failures
    assert [item.what for item in failure.schedule] == [What.CONTROLLERS_KILLED]
    assert len(failure.schedule) <= len(schedule_of(CROWD, failure.seed))
    assert f"seed {failure.seed}" in str(failure)
