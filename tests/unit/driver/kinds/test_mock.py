"""Imaginary devices: many, and broken by script; what taints they get and when."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.driver.fakes import CDI, DRIVER, Node
from tests.unit.driver.kinds.trees import Kind, played, text

from regauge.base import InputError
from regauge.driver import Stack


def listed(node: Node) -> dict[str, dict[str, Any]]:
    assert node.kube is not None
    return {one["name"]: one for slice_ in node.kube.slices() for one in slice_["spec"].get("devices", [])}


def tainted(node: Node) -> dict[str, str]:
    return {name: one["taints"][0]["timeAdded"] for name, one in listed(node).items() if one.get("taints")}


def test_as_many_as_wanted_shared_between_the_stacks_by_rules() -> None:
    found = Kind("mock").discover()
    assert len(found) == 200
    assert [*found][:2] == ["mock-000", "mock-001"]
    assert found["mock-001"].stack is Stack.DEVICE_PLUGIN
    assert found["mock-002"].attributes == {"index": {"int": 2}}
    assert found["mock-002"].capacity == {"memory": "80Gi"}


def test_health_follows_the_script() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        await node.clock.advance(18)
        assert not node.told("unhealthy")
        await node.clock.advance(4)
        assert {notice.about for notice in node.told("unhealthy")} == {f"mock-00{i}" for i in range(10)}
        assert node.told("unhealthy")[0].text == "too hot"
        sick = {one.id for one in node.kubelet.lists[-1] if one.health == "Unhealthy"}
        assert sick == {f"mock-00{i}" for i in (1, 3, 5, 7, 9)}
        await node.clock.advance(40)
        assert [notice.about for notice in node.told("healthy")] == ["mock-003"]

    played("mock", scenario)


def test_taints_come_and_go_with_debounce() -> None:
    """Unhealthy at 20 s, tainted 10 s later; a script that recovers at 60 s is untainted 30 s after that."""
    described = text("mock").replace("devices: mock-003", 'devices: "mock-00?"')

    async def scenario(node: Node) -> None:
        await node.start()
        await node.clock.advance(28)
        assert tainted(node) == {}
        await node.clock.advance(6)
        assert set(tainted(node)) == {f"mock-00{i}" for i in (0, 2, 4, 6, 8)}
        (taint,) = listed(node)["mock-000"]["taints"]
        assert (taint["key"], taint["effect"]) == (f"{DRIVER}/unhealthy", "NoSchedule")
        first = tainted(node)
        await node.clock.advance(50)
        assert tainted(node) == first
        await node.clock.advance(10)
        assert tainted(node) == {}

    played("mock", scenario, described)


def test_a_device_that_flaps_faster_than_the_debounce_is_not_tainted() -> None:
    steps = "".join(
        f"  - {{afterSeconds: {2 + 4 * i}, healthy: {'false' if i % 2 == 0 else 'true'}}}\n" for i in range(40)
    )
    head, rest = text("mock").split("  health:\n")
    described = head + "  health:\n" + steps + "rules:" + rest.split("rules:")[1]

    async def scenario(node: Node) -> None:
        await node.start()
        for _ in range(20):
            await node.clock.advance(7)
            assert tainted(node) == {}

    played("mock", scenario, described)


def test_a_restart_gives_nothing_broken_away() -> None:
    described = text("mock").replace("afterSeconds: 20", "afterSeconds: 0")

    async def scenario(node: Node) -> None:
        await node.start()
        assert len(tainted(node)) == 5
        await node.kill()
        await node.start()
        await node.clock.advance(3)
        assert len(tainted(node)) == 5

    played("mock", scenario, described)


@pytest.mark.parametrize(("effect", "count"), [("none", 0), ("NoExecute", 5)])
def test_the_effect_is_chosen_and_may_change_while_it_runs(effect: str, count: int) -> None:
    described = text("mock").replace("afterSeconds: 20", "afterSeconds: 0")

    async def scenario(node: Node) -> None:
        await node.start()
        node.describe(described.replace("rules:", f"healthTaint: {{effect: {effect}}}\nrules:"))
        await node.clock.advance(8)
        assert len(tainted(node)) == count
        assert {one["taints"][0]["effect"] for one in listed(node).values() if one.get("taints")} <= {effect}

    played("mock", scenario, described)


def test_a_taint_that_the_server_drops_is_told_once() -> None:
    described = text("mock").replace("afterSeconds: 20", "afterSeconds: 0")

    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.kube.drops = ("taints",)
        await node.start()
        await node.clock.advance(100)
        (notice,) = node.told("fields-dropped")
        assert "gate DRADeviceTaints is off" in notice.text

    played("mock", scenario, described)


def config(source: str, **fields: Any) -> dict[str, Any]:
    typed = {"apiVersion": "regauge.dev/v1alpha1", "kind": "MockConfig", **fields}
    return {"source": source, "opaque": {"driver": DRIVER, "parameters": typed}}


def test_parameters_of_class_and_claim_reach_the_kind_also_after_a_restart() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "mock-000")
        other = {"source": "FromClaim", "opaque": {"driver": "other.example.com", "parameters": 7}}
        mine = config("FromClaim", env={"A": "claim"})
        elsewhere = {**config("FromClaim", fail="not mine"), "requests": ["other"]}
        node.kube.objects[("ResourceClaim", "team", "c")]["status"]["allocation"]["devices"]["config"] = [
            *(mine, other, elsewhere, config("FromClass", env={"A": "class", "B": "class"}))
        ]
        path = f"{CDI}/example.com-gpu_uid-c.yaml"
        result = (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid]
        assert not result.error
        written = node.files.read(path)
        assert b"A=claim" in written
        assert b"B=class" in written
        await node.kill()
        node.files.remove(path)
        await node.start()
        assert not (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid].error
        assert node.files.read(path) == written

    played("mock", scenario)


def test_a_prepare_that_fails_by_its_parameters_is_taken_back() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "mock-000")
        claim = node.kube.objects[("ResourceClaim", "team", "c")]
        claim["status"]["allocation"]["devices"]["config"] = [config("FromClaim", fail="no room")]
        result = (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid]
        assert result.error == "no room"
        assert node.driver.claims.prepared == {}

    played("mock", scenario)


def test_parameters_for_a_kind_without_any_are_refused() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        assert node.kube is not None
        ref = node.claim("c", "nic-0")
        claim = node.kube.objects[("ResourceClaim", "team", "c")]
        claim["status"]["allocation"]["devices"]["config"] = [config("FromClaim")]
        result = (await (await node.kubelet.dra()).node_prepare_resources([ref]))[ref.uid]
        assert "this kind of device takes no parameters" in result.error

    played("shared", scenario)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("count: 200", "count: 100001", "discover.count: 100001 is out of range (1 to 100000)"),
        ("count: 200", 'count: "200"', "discover.count: it is text where a whole number is expected"),
        ("message: too hot", "mesage: too hot", "health[0].mesage: there is no such field (did you mean message?)"),
        ("afterSeconds: 20", "afterSeconds: -1", "health[0].afterSeconds: -1 is out of range"),
        ("rules:", "healthTaint: {effect: NoSchedul}\nrules:", "healthTaint.effect: 'NoSchedul' is not known"),
        ("rules:", "healthTaint: {afterSeconds: -5}\nrules:", "healthTaint.afterSeconds: -5 is out of range"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        Kind("mock", text("mock").replace(old, new, 1))
    assert expected in str(caught.value)


@pytest.mark.row(9)
def test_many_devices_are_found_once_and_not_again() -> None:
    kind = Kind("mock", text("mock").replace("count: 200", "count: 20000"))
    assert len(kind.discover()) == 20_000
    first = kind.discover()["mock-00007"]
    assert kind.discover()["mock-00007"] is first
