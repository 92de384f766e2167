"""A kind that cannot look, or finds what cannot be served, does not end the driver and takes nothing away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.driver.fakes import FOUR, FakeClock, Node, description, device

from regauge.base import InputError
from regauge.cdi import ContainerEdits
from regauge.driver.description import TaintPolicy
from regauge.driver.kinds import KINDS, Condition, Description, DeviceKind, Found, FoundKind, Identity
from regauge.driver.names import device_name_problem
from regauge.driver.process import check
from regauge.driver.rules import Chooser, label
from regauge.driver.taints import HealthTaints


class Moody(FoundKind):
    """A kind that does as it is told."""

    FACTS = {"letter": "a"}
    found: str = "ab"
    trouble: Exception | None = None
    uuid: str = ""

    def find(self, description: Description) -> list[Found]:
        if Moody.trouble is not None:
            raise Moody.trouble
        return [
            Found(
                name=f"board-{letter}",
                facts={"letter": letter},
                identity=Identity(uuid=Moody.uuid or f"BOARD-{letter}"),
                edits=ContainerEdits(env=(f"BOARD_{letter.upper()}=1",)),
            )
            for letter in Moody.found
        ]


@pytest.fixture(autouse=True)
def calm() -> None:
    Moody.found, Moody.trouble, Moody.uuid = "ab", None, ""


MOODY: Mapping[str, type[DeviceKind]] = {**KINDS, "moody": Moody}
TEXT = "apiVersion: regauge.dev/v1alpha1\nkind: Devices\ndriver: gpu.example.com\ndeviceKind: moody\nrules: [{stack: dra}]\n"


def play(scenario: Any, text: str = TEXT) -> Node:
    async def whole() -> Node:
        node = Node(kinds=MOODY)
        node.describe(text)
        await node.kubelet.start()
        await node.start()
        await scenario(node)
        await node.stop()
        return node

    return asyncio.run(whole())


def listed(node: Node) -> list[str]:
    assert node.kube is not None
    return [one["name"] for slice_ in node.kube.slices() for one in slice_["spec"].get("devices", [])]


def test_a_kind_that_cannot_look_is_told_once_and_changes_nothing() -> None:
    async def scenario(node: Node) -> None:
        Moody.trouble = RuntimeError("the bus is busy")
        await node.clock.advance(100)
        assert listed(node) == ["board-a", "board-b"]
        (notice,) = node.told("discover-failed")
        assert (notice.text, notice.about, notice.level) == ("the bus is busy", "moody", "error")
        Moody.trouble, Moody.found = None, "abc"
        await node.clock.advance(11)
        assert listed(node) == ["board-a", "board-b", "board-c"]
        Moody.trouble = RuntimeError("the bus is busy")
        await node.clock.advance(11)
        assert len(node.told("discover-failed")) == 2

    play(scenario)


def test_two_devices_that_are_one_are_not_served_when_they_appear() -> None:
    async def scenario(node: Node) -> None:
        Moody.uuid = "BOARD-same"
        await node.clock.advance(11)
        assert listed(node) == ["board-a", "board-b"]
        assert "uuid BOARD-same is also board-a" in node.told("discover-failed")[0].text

    play(scenario)
    with pytest.raises(InputError, match="uuid BOARD-same is also board-a"):
        Moody.uuid = "BOARD-same"
        play(scenario)


def test_a_reload_that_the_kind_cannot_follow_is_refused() -> None:
    async def scenario(node: Node) -> None:
        Moody.trouble = KeyError("x")
        node.describe(TEXT.replace("stack: dra", "stack: dra, attributes: {new: true}"))
        await node.clock.advance(3)
        assert len(node.told("reload-refused")) == 1
        assert listed(node) == ["board-a", "board-b"]

    play(scenario)


def test_a_release_while_the_kind_cannot_look_frees_the_device_all_the_same() -> None:
    async def scenario(node: Node) -> None:
        ref = node.claim("c", "board-a")
        dra = await node.kubelet.dra()
        assert not (await dra.node_prepare_resources([ref]))[ref.uid].error
        Moody.found = "b"
        await node.clock.advance(11)
        Moody.trouble = RuntimeError("busy")
        assert (await dra.node_unprepare_resources([ref]))[ref.uid] == ""
        await node.clock.advance(3)
        assert [one.name for one in node.driver.fleet.description.devices] == ["board-b"]
        assert not node.task.done()

    play(scenario)


def test_rules_with_described_devices_beside_them() -> None:
    async def scenario(node: Node) -> None:
        assert listed(node) == ["gpu-9", "board-a", "board-b"]

    play(scenario, description(device("gpu-9", "dra"), top="deviceKind: moody\nrules: [{stack: dra}]"))
    assert check(FOUR.encode(), "f", MOODY).chosen == ()


@given(st.dictionaries(st.sampled_from(["letter"]), st.text(min_size=1, max_size=80)), st.text(max_size=20))
def test_whatever_is_found_becomes_a_device_or_is_told(facts: dict[str, str], name: str) -> None:
    rules = check(TEXT.replace("stack: dra", 'stack: dra, name: "b-{letter}-x"').encode(), "f", MOODY).chosen
    told: list[Any] = []
    found = Found(name=name, facts={"letter": "x", **facts}, edits=ContainerEdits(env=("A=1",)))
    devices = Chooser(told.append).devices(rules, [found])
    assert len(devices) + len(told) == 1
    for one in devices:
        assert device_name_problem(one.name) is None


@given(st.lists(st.text(max_size=70), min_size=1, max_size=3))
def test_a_label_is_a_device_name_or_empty(parts: list[str]) -> None:
    made = label(*parts)
    assert made == "" or device_name_problem(made) is None
    assert label(made) == made


@given(
    st.lists(st.tuples(st.floats(0.5, 20), st.booleans()), min_size=1, max_size=40),
    st.floats(0, 30),
    st.floats(0, 30),
)
def test_a_taint_needs_its_time_to_come_and_to_go(
    steps: list[tuple[float, bool]], after_s: float, clear_s: float
) -> None:
    """Held against a plain reading of the rule: how long the present condition has lasted decides."""
    clock = FakeClock()
    taints = HealthTaints("gpu.example.com", clock)
    policy = TaintPolicy("NoSchedule", after_s, clear_s)
    tainted, before, since_s = False, None, 0.0
    for pause_s, healthy in steps:
        clock._now_s += pause_s
        if before is None:
            tainted = not healthy
        if healthy is not before:
            since_s = clock._now_s
        lasted_s = clock._now_s - since_s
        if before is not None:
            tainted = (lasted_s < clear_s) if tainted and healthy else tainted or (not healthy and lasted_s >= after_s)
        before = healthy
        assert bool(taints.update({"a": Condition(healthy)}, policy)) is tainted
