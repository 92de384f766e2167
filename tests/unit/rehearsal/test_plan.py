"""Rollouts of plans in the rehearsal: forward, back, killed at every write, and stopped by each gate."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.rehearsal.plans import Stage, staged

from regauge.base import InputError, TransientError
from regauge.migrate import OnFailure, Plan
from regauge.migrate.rollout import PAUSE, Holder, Ledger, Record, Rollout, RolloutState, StepState
from regauge.model.kinds import CONFIG_MAP, CORE_EVENT, DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET
from regauge.rehearsal import Mode, RehearsalOptions, rehearse
from regauge.rehearsal.plan_run import Died
from regauge.rehearsal.plan_state import differences

SOME_WRITES = tuple(range(1, 60, 6))


@pytest.mark.row(83, 99, 100, 101, 102, 103, 112, 217, 218, 219, how="unit")
def test_the_rehearsal_of_the_sample_holds(tmp_path: Path) -> None:
    options = RehearsalOptions(make_plan=True)
    report = rehearse("sample", options, lambda _title, _step: None)
    wrong = [(step.name, check.what, check.seen) for step in report.steps for check in step.checks if not check.holds]
    assert not wrong
    names = [step.name for step in report.steps]
    assert {"gate", "plan", "rollback", "settled"} <= set(names)
    assert sum(int(step.details.get("killed", 0)) for step in report.steps) >= 8
    assert all(row.before == row.after == row.returned for row in report.attribution)
    assert report.mode is Mode.SIMULATED and len(report.comparisons) == 3


def test_a_plan_is_rehearsed_in_virtual_time_only() -> None:
    with pytest.raises(InputError, match="virtual time"):
        rehearse("sample", RehearsalOptions(mode=Mode.LIVE, make_plan=True), lambda _title, _step: None)


async def forward_and_back(stage: Stage) -> tuple[Record, Record, tuple[str, ...]]:
    before = await stage.state()
    done = await stage.rollout().run()
    undone = await stage.rollout().roll_back()
    await stage.world.clock.sleep(400.0)
    return done, undone, differences(before, await stage.state())


def test_there_and_back() -> None:
    async def body(stage: Stage) -> None:
        done, undone, told = await forward_and_back(stage)
        assert done.state is RolloutState.DONE and all(s.state is StepState.DONE for s in done.steps.values())
        assert undone.state is RolloutState.ROLLED_BACK
        assert told == ()
        assert not stage.owners.told
        events = (await stage.world.kube.list(CORE_EVENT, "default")).items
        reasons = [item["reason"] for item in events if item["involvedObject"]["kind"] == "Node"]
        assert reasons.count("DeviceStackChanged") == 2 and reasons.count("DeviceStackRolledBack") == 2

    staged(body)


async def killed_at(stage: Stage, write: int, *, before: bool, back: bool) -> None:
    start = await stage.state()

    def go(rollout: Rollout) -> Any:
        return rollout.roll_back() if back else rollout.run()

    if back:
        await stage.rollout().run()
    client = stage.client()
    client.kill_at(write, before=before)
    try:
        await go(stage.rollout(client))
    except Died:
        record = await stage.until_it_ends(go)
    else:
        return  # it makes fewer writes
    assert record.state is (RolloutState.ROLLED_BACK if back else RolloutState.DONE)
    assert not stage.owners.told
    if not back:
        await stage.until_it_ends(lambda rollout: rollout.roll_back())
    await stage.world.clock.sleep(400.0)
    assert differences(start, await stage.state()) == ()


@pytest.mark.row(104, 112, how="unit")
@pytest.mark.parametrize("back", [False, True], ids=["forward", "back"])
@pytest.mark.parametrize("write", SOME_WRITES)
def test_killed_at_a_write_it_is_carried_on(write: int, back: bool) -> None:
    staged(lambda stage: killed_at(stage, write, before=write % 2 == 0, back=back))


@pytest.mark.soak
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("back", [False, True], ids=["forward", "back"])
@pytest.mark.parametrize("write", range(1, 121))
def test_killed_at_any_write_it_is_carried_on(write: int, back: bool, before: bool) -> None:
    staged(lambda stage: killed_at(stage, write, before=before, back=back))


def test_a_node_that_lacks_a_device_fails_and_only_its_step_is_undone() -> None:
    async def body(stage: Stage) -> None:
        record = await stage.rollout().run()
        assert record.state is RolloutState.STOPPED
        assert "has not 2 devices" in record.reason
        states = {id_: own.state for id_, own in record.steps.items() if id_.startswith("node-")}
        assert sorted(states.values()) == [StepState.DONE, StepState.UNDONE]
        node = await stage.world.kube.get(NODE, "g0")
        assert node["status"]["capacity"]["nvidia.com/gpu"] == "2"
        assert not node["spec"].get("unschedulable") and not stage.owners.told

    staged(body, missing={"g0": 1})


def test_pods_of_the_old_form_do_not_count_for_the_new_one() -> None:
    """A rolling update keeps the old pods while the new ones wait: the workload runs, and has not moved."""

    def change(plan: Plan) -> Plan:
        document = msgspec.to_builtins(plan)
        for step in document["spec"]["steps"]:
            for action in step.get("actions", ()):
                for template in action.get("objects", ()) if action["do"] in ("move", "ensure") else ():
                    if template["kind"] == "ResourceClaimTemplate":
                        request = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
                        request["selectors"] = [{"cel": {"expression": "false"}}]
        return msgspec.convert(document, Plan)

    async def body(stage: Stage) -> None:
        record = await stage.rollout().run()
        assert record.state is RolloutState.STOPPED, record.state
        assert "running: 0 of 1 pods are ready" in record.reason
        pods = (await stage.world.kube.list(POD, "team")).items
        assert [pod["status"]["phase"] for pod in pods] == ["Running"]

    staged(body, change=change)


def test_a_daemon_set_whose_pods_do_not_come_back_stops_the_plan_while_its_devices_are_still_counted() -> None:
    """A kubelet counts for five minutes what nobody serves: the counts alone would let the step pass."""

    def change(plan: Plan) -> Plan:
        document = msgspec.to_builtins(plan)
        steer = next(step for step in document["spec"]["steps"] if step["id"] == "steer")
        for action in steer["actions"]:
            if action["object"]["name"] == "nvidia-device-plugin":
                action["patch"]["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
                action["rolledOutWithinS"] = 60
        return msgspec.convert(document, Plan)

    async def body(stage: Stage) -> None:
        before = await stage.state()
        record = await stage.rollout().run()
        assert record.state is RolloutState.STOPPED, record.state
        told = "0 of 2 pods of DaemonSet gpu-system/nvidia-device-plugin are ready in its new form after 60 s"
        assert told in record.reason
        assert record.steps["steer"].state is StepState.UNDONE
        await stage.rollout().roll_back()
        await stage.world.clock.sleep(400.0)
        assert differences(before, await stage.state()) == ()

    staged(body, change=change)


def test_where_the_plan_says_so_a_failure_undoes_everything() -> None:
    def change(plan: Plan) -> Plan:
        return msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, on_failure=OnFailure.ALL))

    async def body(stage: Stage) -> None:
        before = await stage.state()
        record = await stage.rollout().run()
        assert record.state is RolloutState.ROLLED_BACK and "has not 2 devices" in record.reason
        await stage.world.clock.sleep(400.0)
        assert differences(before, await stage.state()) == ()

    staged(body, missing={"g0": 1}, change=change)


def test_it_waits_for_a_person_and_goes_on() -> None:
    async def body(stage: Stage) -> None:
        record = await stage.rollout(approve=frozenset()).run()
        assert record.state is RolloutState.WAITING and "preview" in record.reason
        assert all(own.state is not StepState.DONE for id_, own in record.steps.items() if id_ != "pins")
        record = await stage.rollout(approve=frozenset(["dependents"])).run()
        assert record.state is RolloutState.DONE

    staged(body)


def test_it_pauses_before_the_next_step_and_goes_on() -> None:
    async def body(stage: Stage) -> None:
        kube, clock = stage.world.kube, stage.world.clock
        asked: list[str] = []
        rollout = stage.rollout(tell=asked.append)
        ledger = Ledger(kube, clock, stage.plan.name, Holder("other"))
        task = asyncio.ensure_future(rollout.run())
        while not any("node-" in text for text in asked) and not task.done():
            await clock.sleep(1.0)
        await ledger.request(PAUSE)
        record = await task
        assert record.state is RolloutState.PAUSED
        assert [own.state for own in record.steps.values()].count(StepState.DONE) >= 3
        assert (await stage.rollout().run()).state is RolloutState.DONE

    staged(body)


def test_what_takes_minutes_is_told_while_it_is_waited_for() -> None:
    async def body(stage: Stage) -> None:
        heard: list[str] = []
        await stage.rollout(tell=heard.append).run()
        waits = [text for text in heard if " waits: " in text]
        assert "g1 waits: nvidia.com/gpu: 2, not 0" in waits
        assert all(text != before for before, text in pairwise(heard))  # each once, not at every look

    staged(body)


def test_two_do_not_run_it_at_once() -> None:
    async def body(stage: Stage) -> None:
        first = asyncio.ensure_future(stage.rollout().run())
        await stage.world.clock.sleep(5.0)
        with pytest.raises(TransientError, match="runs this rollout"):
            await stage.rollout().run()
        assert (await first).state is RolloutState.DONE

    staged(body)


def test_a_cluster_that_is_not_as_planned_is_refused_with_the_difference() -> None:
    async def body(stage: Stage) -> None:
        await stage.world.kube.patch(DEPLOYMENT, "serve", {"spec": {"replicas": 2}}, "team")
        with pytest.raises(InputError, match="Deployment team/serve is not as it was"):
            await stage.rollout().run()
        labels = (await stage.world.kube.get(NODE, "g0"))["metadata"]["labels"]
        assert "regauge.dev/stack" not in labels

    staged(body)


def test_another_plan_of_the_name_is_refused() -> None:
    async def body(stage: Stage) -> None:
        await stage.rollout(approve=frozenset()).run()
        spec = msgspec.structs.replace(stage.plan.spec, on_failure=OnFailure.ALL)
        stage.plan = msgspec.structs.replace(stage.plan, spec=spec)
        with pytest.raises(InputError, match="another plan of the name"):
            await stage.rollout().run()

    staged(body)


def test_a_record_that_cannot_be_read_is_kept_and_nothing_is_done() -> None:
    async def body(stage: Stage) -> None:
        await stage.rollout(approve=frozenset()).run()
        broken = {"data": {"record.json": "{"}}
        await stage.world.kube.patch(CONFIG_MAP, "regauge-rollout-move", broken, "regauge")
        with pytest.raises(InputError, match="cannot be read"):
            await stage.rollout().run()
        kept = await stage.world.kube.get(CONFIG_MAP, "regauge-rollout-move", "regauge")
        assert kept["data"]["record.json"] == "{"

    staged(body)


@pytest.mark.row(105, how="unit")
def test_a_disruption_budget_is_kept_and_told_when_it_never_gives_way() -> None:
    async def body(stage: Stage) -> None:
        budget = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "serve"}}},
        }
        await stage.world.kube.create(POD_DISRUPTION_BUDGET, budget, "team")
        await stage.world.clock.sleep(5.0)
        pods = {item["metadata"]["uid"] for item in (await stage.world.kube.list(POD, "team")).items}
        steps = [
            msgspec.structs.replace(
                step,
                actions=tuple(
                    msgspec.structs.replace(act, drain_within_s=60) if hasattr(act, "drain_within_s") else act
                    for act in step.actions
                ),
            )
            for step in stage.plan.spec.steps
            if not step.id.startswith(("move-", "node-g1"))
        ]
        spec = msgspec.structs.replace(stage.plan.spec, steps=tuple(steps))
        stage.plan = msgspec.structs.replace(stage.plan, spec=spec)
        record = await stage.rollout().run()
        assert record.state is RolloutState.STOPPED and "disruption budget" in record.reason
        now = {item["metadata"]["uid"] for item in (await stage.world.kube.list(POD, "team")).items}
        assert now == pods
        assert not (await stage.world.kube.get(NODE, "g0"))["spec"].get("unschedulable")

    staged(body)


def test_what_the_plan_did_not_make_is_never_removed() -> None:
    async def body(stage: Stage) -> None:
        await stage.rollout().run()
        made = json.dumps([item["metadata"] for item in (await stage.world.kube.list(DEPLOYMENT)).items])
        assert "regauge.dev/made-by" not in made  # workloads are the user's own
        await stage.rollout().roll_back()
        assert (await stage.world.kube.list(DEPLOYMENT, "team")).items

    staged(body)
