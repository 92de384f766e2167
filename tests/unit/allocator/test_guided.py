"""A guided search answers as the plain one does, and ends where the plain one does not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from tests.unit.allocator.vectors import ask, differs, pairs

from regauge.allocator import solving

GPU = "gpu.example.com"
NEVER = f'device.attributes["{GPU}"].index > 100000'
Case = dict[str, Any]


@pytest.mark.parametrize(
    ("minor", "name"), [("1.37", "quirks"), ("1.37", "upstream"), ("1.37", "random"), ("1.36", "random36")]
)
def test_guided_from_the_start(minor: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "SOON", 0)
    wrong = [want["name"] for case, want in islice(pairs(name, minor), 0, None, 2) if differs(case, ask(case), want)]
    assert wrong == []


def devices(count: int, groups: int = 0, **more: Any) -> list[dict[str, Any]]:
    found = []
    for index in range(count):
        attributes: dict[str, Any] = {"index": {"int": index}}
        if groups:
            attributes["group"] = {"string": f"g{index % groups}"}
        found.append({"name": f"d{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more})
    return found


def exactly(name: str, count: int, expression: str | None = None, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    if expression:
        asked["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": asked}


def case(offered: list[dict[str, Any]], claims: list[list[dict[str, Any]]], **constraint: str) -> Case:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    constraints = [constraint] if constraint else []
    return {
        "name": "made",
        "features": {"PartitionableDevices": True, "ConsumableCapacity": True, "PrioritizedList": True},
        "node": {"metadata": {"name": "n"}},
        "classes": [
            {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]}}
        ],
        "slices": [
            {"metadata": {"name": "s"}, "spec": {"driver": GPU, "pool": pool, "nodeName": "n", "devices": offered}}
        ],
        "claims": [
            {
                "metadata": {"name": f"c{number}"},
                "spec": {"devices": {"requests": requests, "constraints": constraints}},
            }
            for number, requests in enumerate(claims)
        ],
    }


def hard_cases() -> Iterator[tuple[str, Case]]:
    never = exactly("never", 1, NEVER)
    group = f"{GPU}/group"
    yield "one too many", case(devices(24), [[exactly("r", 25)]])
    yield "one too many of two requests", case(devices(31), [[exactly("p", 16), exactly("q", 16)]])
    yield "two halves", case(devices(32, 2), [[exactly("r", 17)]], matchAttribute=group)
    yield "requests, then never", case(devices(16), [[*(exactly(f"r{i}", 1) for i in range(6)), never]])
    yield "more requests than devices", case(devices(9), [[exactly(f"r{i}", 1) for i in range(10)]])
    yield "many of more, then never", case(devices(32), [[exactly("r", 8)], [never]])
    yield "too few different values", case(devices(32, 8), [[exactly("r", 9)]], distinctAttribute=group)
    alternatives = [{"name": f"s{j}", **exactly("", 1)["exactly"]} for j in range(8)]
    yield (
        "alternatives, then never",
        case(devices(8), [[*({"name": f"r{i}", "firstAvailable": alternatives} for i in range(3)), never]]),
    )
    shared = devices(4, allowMultipleAllocations=True)
    for one in shared:
        one["capacity"]["memory"]["requestPolicy"] = {"default": "1Gi"}
    yield "shares, then never", case(shared, [[*(exactly(f"r{i}", 1) for i in range(8)), never]])


def partitions(gpus: int, want: int) -> Case:
    offered = []
    for gpu in range(gpus):
        consumed = [{"counterSet": f"g{gpu}", "counters": {"slots": {"value": "1"}}}]
        offered += [{"name": f"g{gpu}-{part}", "consumesCounters": consumed} for part in range(7)]
    made = case(offered, [[exactly("r", want)]])
    pool = made["slices"][0]["spec"]["pool"]
    pool["resourceSliceCount"] = 2
    counters = [{"name": f"g{gpu}", "counters": {"slots": {"value": "4"}}} for gpu in range(gpus)]
    made["slices"].append(
        {"metadata": {"name": "c"}, "spec": {"driver": GPU, "pool": pool, "nodeName": "n", "sharedCounters": counters}}
    )
    return made


@pytest.mark.row(63, how="vectors")
@pytest.mark.parametrize(("name", "made"), [*hard_cases(), ("partitions", partitions(4, 17))])
@pytest.mark.parametrize("bounded", [True, False])
def test_the_worst_inputs_end(name: str, made: Case, bounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream needs from thousands to more than five million steps for these, and finds nothing."""
    if not bounded:
        monkeypatch.setattr(solving, "first_bound", lambda *_: None)
    got = ask(made)
    assert (got["results"], got["error"]) == (None, "")
    assert got["allocateOneCalls"] < 8000


def test_the_largest_that_fits_is_found() -> None:
    got = ask(partitions(4, 16))
    chosen = [one["device"] for one in got["results"][0]["devices"]["results"]]
    assert chosen == [f"g{gpu}-{part}" for gpu in range(4) for part in range(4)]


@pytest.mark.row(60, how="vectors")
def test_an_error_behind_a_shortage_does_not_surface_and_one_before_it_does() -> None:
    broken = exactly("broken", 1, "device.driver.nonsense")
    short = exactly("short", 30)
    assert ask(case(devices(24), [[short, broken]]))["error"] == ""
    assert "compile error" in ask(case(devices(24), [[broken, short]]))["error"]
