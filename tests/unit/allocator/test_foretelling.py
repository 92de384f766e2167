"""Whether the scheduler runs into its time limit: its steps are counted, and the reference counts the same."""

from __future__ import annotations

import json
import random
import resource
import subprocess
from typing import Any

import pytest
from tests.support import oracle
from tests.unit.allocator.generator import Generator
from tests.unit.allocator.objects import DRIVER, allocator, claim, device, node, request, slice_of
from tests.unit.allocator.vectors import selectors

from regauge.allocator import Allocator
from regauge.allocator.conformance import _settings, _usage
from regauge.allocator.foretelling import FASTEST, POSSIBLE, SLOWEST, UNLIKELY, YES, Timeout, foretell
from regauge.allocator.pools import NodeView
from regauge.allocator.problem import Problem
from regauge.allocator.table import Table
from regauge.model import view
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice

PROGRAMS = {"1.37": "allocator", "1.36": "allocator/v036"}
NEVER = f'device.attributes["{DRIVER}"].index > 1000'


def table_of(case: dict[str, Any], minor: str) -> Table | None:
    """What is searched for a case of one node; None where it ends before a search."""
    _, ruling, _ = _settings({**case, "kubeVersion": minor})
    whole = Allocator(
        [view(one, ResourceSlice) for one in case["slices"]],
        [view(one, DeviceClass) for one in case["classes"]],
        _usage(case),
        ruling,
        selectors=selectors(ruling),
        randomness=random.Random(1),
    )
    problem = whole.compile([view(one, ResourceClaim) for one in case["claims"]])
    offered = whole.view(view(case["node"], Node))
    if not isinstance(problem, Problem) or not isinstance(offered, NodeView):
        return None
    return Table(problem, offered, whole.usage)


@pytest.mark.parametrize(("minor", "count"), [("1.37", 500), ("1.36", 500)])
def test_the_reference_counts_the_same_steps(minor: str, count: int) -> None:
    """With nothing searched in advance, so that every state is told apart and every dead end remembered."""
    generator = Generator(17, minor)
    cases = [generator.case(number) for number in range(count)]
    cases = [one for one in cases if one.get("node") and not one.get("nodes")]
    lines = "".join(json.dumps({**case, "timeoutMillis": 1000}) + "\n" for case in cases)
    done = subprocess.run(
        [oracle(PROGRAMS[minor])], input=lines, capture_output=True, text=True, check=True, timeout=110
    )
    compared = long = 0
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        real = json.loads(line)
        table = table_of(case, minor)
        by_chance = real.get("variant") == "stable"  # the order of its pools is made up anew each time
        if by_chance or real.get("timedOut") or real["error"] or not real.get("allocateOneCalls") or table is None:
            continue
        found = foretell(table, soon=0)
        assert (found.complete, found.steps) == (True, real["allocateOneCalls"]), json.dumps(case)
        compared += 1
        long += found.steps > 20
    assert compared > count / 3 and long > 5


def searched(count: int, *requests: dict[str, Any], **constraint: str) -> Timeout:
    """The count for claims on one node of `count` devices."""
    offered = [device(f"d{number}", index=number, group=number % 2) for number in range(count)]
    asked = claim("c", *requests, constraints=[constraint] if constraint else [])
    whole = allocator([slice_of("n", offered)])
    problem, seen = whole.compile([asked]), whole.view(node("n"))
    assert isinstance(problem, Problem) and isinstance(seen, NodeView)
    return foretell(Table(problem, seen, whole.usage))


@pytest.mark.parametrize(
    ("found", "answer", "steps"),
    [
        (lambda: searched(16, request(count=17)), UNLIKELY, 1 << 16),
        (lambda: searched(22, request(count=23)), POSSIBLE, 1 << 22),
        (lambda: searched(31, request(count=32)), YES, 1 << 31),
        (lambda: searched(32, request(count=17), matchAttribute=f"{DRIVER}/group"), UNLIKELY, (1 << 17) - 1),
        (
            lambda: searched(8, *(request(f"r{number}") for number in range(6)), request("n", expression=NEVER)),
            UNLIKELY,
            57_921,
        ),
        (lambda: searched(16, *(request(f"r{number}") for number in range(17))), YES, 0),
        (lambda: searched(3, request(count=2)), UNLIKELY, 5),
    ],
)
def test_long_searches_are_counted_and_judged(found: Any, answer: str, steps: int) -> None:
    """The numbers were measured once with the reference program, which needs seconds for some of them."""
    told = found()
    assert told.answer == answer and (not steps or told.steps == steps)
    assert (told.text == "") is (answer == UNLIKELY)


def test_what_cannot_be_counted_is_not_called_unlikely() -> None:
    assert Timeout(UNLIKELY, 5, True).text == ""
    offered = [device(f"d{number}", index=number) for number in range(20)]
    whole = allocator([slice_of("n", offered)])
    problem, seen = whole.compile([claim("c", request(count=21))]), whole.view(node("n"))
    assert isinstance(problem, Problem) and isinstance(seen, NodeView)
    told = foretell(Table(problem, seen, whole.usage), patience=10, soon=5)
    assert (told.answer, told.complete) == (POSSIBLE, False) and "may hit" in told.text and "more than" in told.text


# -- the speed of the reference, by its own processor time, since the machine may be busy


def on_one_node(count: int, *requests: dict[str, Any], patience_ms: int, **constraint: str) -> dict[str, Any]:
    """A case for the reference: claims on one node of `count` devices."""
    offered = [device(f"d{number}", index=number, group=number % 2) for number in range(count)]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    asked = {"requests": list(requests), "constraints": [constraint] if constraint else []}
    return {
        "name": "long",
        "features": {"PrioritizedList": True, "AdminAccess": True, "ConsumableCapacity": True},
        "node": {"metadata": {"name": "n"}},
        "classes": [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}],
        "slices": [
            {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": offered}}
        ],
        "claims": [{"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": asked}}],
        "timeoutMillis": patience_ms,
    }


def measured(case: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The reference's answer and the seconds that it had a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [oracle("allocator")], input=json.dumps(case) + "\n", capture_output=True, text=True, check=True, timeout=110
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


@pytest.mark.soak
@pytest.mark.parametrize(
    "case",
    [
        on_one_node(20, request(count=21), patience_ms=60_000),
        on_one_node(32, request(count=17), patience_ms=60_000, matchAttribute=f"{DRIVER}/group"),
        on_one_node(16, *(request(f"r{n}") for n in range(4)), request("n", expression=NEVER), patience_ms=60_000),
        on_one_node(64, *(request(f"r{n}") for n in range(3)), request("n", expression=NEVER), patience_ms=60_000),
    ],
    ids=["one more than there are", "two groups", "five requests of 16", "four requests of 64"],
)
def test_the_reference_is_as_fast_as_is_said(case: dict[str, Any]) -> None:
    answer, seconds = measured(case)
    assert not answer.get("timedOut") and answer["allocateOneCalls"] > 50_000
    assert SLOWEST / 3 < answer["allocateOneCalls"] / seconds < FASTEST * 3


@pytest.mark.soak
def test_what_is_said_to_hit_the_limit_hits_it() -> None:
    answer, _ = measured(on_one_node(31, request(count=32), patience_ms=10_000))
    assert answer["timedOut"]
    assert searched(31, request(count=32)).answer == YES
