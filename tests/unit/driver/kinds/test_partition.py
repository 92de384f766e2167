"""Devices in pieces: counters in slices, and no piece prepared for which nothing is left."""

from __future__ import annotations

import pytest
from tests.unit.driver.fakes import DRIVER, Node
from tests.unit.driver.kinds.trees import Kind, played, text

from regauge.base import InputError
from regauge.driver import Stack
from regauge.driver.slices import Pool, writes


@pytest.mark.row(66)
def test_pieces_and_the_whole_draw_from_the_same_counters() -> None:
    found = Kind("partition").discover()
    assert [*found][:3] == ["gpu-0", "gpu-0-small-0", "gpu-0-small-1"]
    assert len(found) == 1 + 7 + 2 + 1
    assert found["gpu-1"].stack is Stack.DEVICE_PLUGIN
    assert found["gpu-1"].draws == ()
    piece = found["gpu-0-small-3"]
    assert piece.capacity == {"memory": "10Gi"}
    assert piece.attributes == {
        "model": {"string": "H100"},
        "profile": {"string": "1g.10gb"},
        "partOf": {"string": "gpu-0"},
    }
    assert [node.path for node in piece.edits.device_nodes] == ["/dev/null"]
    assert piece.edits.env == ("PIECE=gpu-0-small-3",)


@pytest.mark.row(66)
def test_counters_stand_in_slices_of_their_own() -> None:
    found = [one for one in Kind("partition").discover().values() if one.stack is Stack.DRA]
    plan = writes(Pool(DRIVER, "n1"), found, [])
    devices, counters = (slice_["spec"] for slice_ in plan.creates)
    assert "sharedCounters" not in devices
    assert "devices" not in counters
    assert counters["sharedCounters"] == [
        {"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}}
    ]
    assert counters["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    assert devices["devices"][1]["consumesCounters"] == [
        {"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}, "slices": {"value": "1"}}}
    ]
    assert not writes(Pool(DRIVER, "n1"), found, plan.creates)


def test_nine_counter_sets_take_two_slices() -> None:
    device = text("partition").split("devices:\n")[1].split("- name: gpu-1")[0]
    nine = "".join(device.replace("gpu-0", f"gpu-{i}").replace("whole-0", f"whole-{i}") for i in range(9))
    kind = Kind("partition", text("partition").split("devices:\n")[0] + "devices:\n" + nine)
    plan = writes(Pool(DRIVER, "n1"), kind.discover().values(), [])
    sizes = [(len(one["spec"].get("devices", [])), len(one["spec"].get("sharedCounters", []))) for one in plan.creates]
    assert sizes == [(64, 0), (26, 0), (0, 8), (0, 1)]


@pytest.mark.row(66)
def test_what_the_api_gives_away_too_much_is_not_prepared() -> None:
    async def scenario(node: Node) -> None:
        await node.start()
        dra = await node.kubelet.dra()

        async def prepare(name: str, *devices: str) -> str:
            ref = node.claim(name, *devices)
            return (await dra.node_prepare_resources([ref]))[ref.uid].error

        assert await prepare("half", "gpu-0-half-0") == ""
        assert await prepare("small", "gpu-0-small-0", "gpu-0-small-1", "gpu-0-small-2") == ""
        assert await prepare("more", "gpu-0-half-1") == (
            "gpu-0-half-1 takes 40Gi memory of gpu-0 and 10Gi is left:"
            " gpu-0-half-0, gpu-0-small-0, gpu-0-small-1, gpu-0-small-2 is prepared"
        )
        assert "80Gi memory of gpu-0 and 10Gi is left" in await prepare("whole", "gpu-0")
        assert await prepare("last", "gpu-0-small-3") == ""
        ref = node.claim("small", "gpu-0-small-0")
        assert (await dra.node_unprepare_resources([ref]))[ref.uid] == ""
        assert "and 30Gi is left" in await prepare("more", "gpu-0-half-1")
        assert await prepare("fit", "gpu-0-small-4") == ""

    played("partition", scenario)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("slices: 7}", "slices: 7, Upper: 1}", "discover.counters.Upper: a counter is called as a device is"),
        ("{memory: 80Gi, slices: 7}", "{}", "discover.counters: 0 counters"),
        ("slices: 1}", "slies: 1}", "pieces[0].uses.slies: the device has no such counter (there are memory, slices)"),
        ("slices: 1}", "slices: 8}", "pieces[0].uses.slices: 8 is more than the device has: 7"),
        ("count: 7", "count: 0", "pieces[0].count: 0 is out of range"),
        ("count: 7", "cont: 7", "pieces[0].cont: there is no such field (did you mean count?)"),
        ("name: small", "name: Small", "cannot be the name of a piece"),
        ("{index}", "{indx}", "there is no fact {indx} here (did you mean index?)"),
        ("    uses: {memory: 10Gi, slices: 1}\n", "", "pieces[0].uses: a piece that uses nothing excludes no other"),
    ],
)
def test_what_is_wrong_with_pieces_is_said(old: str, new: str, expected: str) -> None:
    assert old in text("partition")
    with pytest.raises(InputError) as caught:
        Kind("partition", text("partition").replace(old, new, 1))
    assert expected in str(caught.value)


def test_rules_are_not_for_this_kind() -> None:
    with pytest.raises(InputError, match="are not found by rules"):
        Kind("partition", text("partition") + "rules: [{stack: dra}]\n")
