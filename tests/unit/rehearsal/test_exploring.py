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
from regauge.rehearsal.exploring import explore, violations
from regauge.rehearsal.scenario import suite
from regauge.rehearsal.schedules import schedule_of
from regauge.scheduler import State

(CROWD,) = suite("crowd")
SCHEDULES = 1000
IN_CI = os.environ.get("REGAUGE_CI") == "1"
BUDGET_S, CI_LIMIT_S = 8.0, 900
SOAK = int(os.environ.get("REGAUGE_SOAK", "100000"))
PROCESSES = os.cpu_count() or 1
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.row(80, how="unit")
@pytest.mark.timeout(CI_LIMIT_S)
def test_nothing_is_found_under_random_faults(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    """All schedules in CI, elsewhere as many as fit; it says how many these were."""
    began_s = time.monotonic()
    found = explore(
        CROWD, SCHEDULES, 0, go_on=lambda _: IN_CI or time.monotonic() < began_s + BUDGET_S, processes=PROCESSES
    )
    record_property("schedules", found.tried)
    with capsys.disabled():
        print(f"\n{found.tried} of {SCHEDULES} schedules in {time.monotonic() - began_s:.0f} s")
    assert found.holds, "\n".join(map(str, found.failures))
    assert not IN_CI or found.tried == SCHEDULES


@pytest.mark.soak
def test_nothing_is_found_in_a_long_run() -> None:
    """REGAUGE_SOAK says how many schedules."""
    found = explore(CROWD, SOAK, SCHEDULES, stop_at=5, processes=PROCESSES)
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

    def writes(pool: Any, devices: Any, actual: Sequence[Object], memory: Any, *more: Any) -> Any:
        plan = original(pool, devices, actual, memory, *more)
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


MISTAKES: tuple[tuple[Patch, int, str], ...] = (
    (unprepared_before_the_last_consumer, 0, "what runs is in the kubelet's checkpoint"),
    (checkpoint_after_the_side_effects, 0, "what runs is in the kubelet's checkpoint"),
    (generation_not_bumped, 44, "a pool that changes has a new generation"),
    (claim_by_name_without_uid, 88, "checkpoints agree with the API"),
    (reservation_lost_on_conflict, 0, "what runs is reserved"),
    (containers_of_gone_pods_go_on, 38, "no device is in two hands"),
    (users_by_name_without_uid, 0, "no allocation without an owner"),
    (claims_made_twice, 34, "a template makes one claim for a pod"),
    (checkpoint_not_read, 16, "what runs is in the kubelet's checkpoint"),
    (unprepared_before_the_containers_ended, 0, "what runs is prepared"),
    (claims_of_gone_pods_stay, 0, "no claim of a pod that is gone"),
    (driver_gives_a_device_twice_and_scheduler_too, 0, "no device is allocated twice"),
    (driver_forgets_nothing, 0, "what runs is allocated"),
)


@pytest.mark.row(80, how="unit")
@pytest.mark.parametrize(("mistake", "seed", "invariant"), MISTAKES, ids=lambda item: getattr(item, "__name__", ""))
def test_a_mistake_is_found(mistake: Patch, seed: int, invariant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By exploration alone. It is told with a seed and a schedule of which nothing can be left out, and found again."""
    mistake(monkeypatch)
    (failure,) = explore(CROWD, 100, seed, processes=2).failures
    assert invariant in {item.invariant for item in failure.violations}
    assert f"seed {failure.seed}: " in str(failure)
    assert set(failure.schedule) <= set(schedule_of(CROWD, failure.seed))
    assert violations(CROWD, failure.schedule, failure.seed) == failure.violations
    for index in range(len(failure.schedule)):
        fewer = (*failure.schedule[:index], *failure.schedule[index + 1 :])
        assert violations(CROWD, fewer, failure.seed) == ()


def test_copies_go_the_way_of_a_run_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mistake that many schedules meet, to the letter of what was seen."""
    claims_made_twice(monkeypatch)
    seeds = range(33, 37)
    found = explore(CROWD, len(seeds), seeds.start, stop_at=len(seeds), processes=2)
    failing = {failure.seed for failure in found.failures}
    assert failing and found.tried == len(seeds)
    alone = {seed: violations(CROWD, schedule_of(CROWD, seed), seed) for seed in seeds}
    assert failing == {seed for seed, seen in alone.items() if seen}


def test_what_is_found_does_not_depend_on_how_many_play(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_not_read(monkeypatch)
    assert explore(CROWD, 6, 14).failures == explore(CROWD, 6, 14, processes=3).failures
