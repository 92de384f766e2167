"""Cases and results of the reference, and how an answer is held against one."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.support import shared

from regauge.allocator import Selectors, selectors_of
from regauge.allocator.conformance import answer
from regauge.model.rules import Rules

SUFFIX = {"1.37": "", "1.36": "_0.36.6", "1.35": "_0.35.10", "1.34": "_0.34.13"}


class StillClock:
    """A clock that stands still."""

    def now_s(self) -> float:
        return 0.0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, duration_s: float) -> None:
        return None


_SELECTORS: dict[tuple[str, bool, bool], Selectors] = {}


def selectors(rules: Rules) -> Selectors:
    """Selectors that are shared between cases: compiling is what takes time."""
    key = (rules.minor, rules.on("DRAListTypeAttributes"), rules.on("DRAConsumableCapacity"))
    if key not in _SELECTORS:
        _SELECTORS[key] = selectors_of(rules)
    return _SELECTORS[key]


def lines(name: str) -> Iterator[dict[str, Any]]:
    for line in shared(f"vectors/allocator/{name}.jsonl").read_text().splitlines():
        yield json.loads(line)


def pairs(name: str, minor: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The cases of a file with the stable results of a minor's reference."""
    cases = {case["name"]: case for case in lines(f"{name}_cases")}
    for result in lines(f"{name}_results{SUFFIX[minor]}"):
        if result.get("unstable"):
            continue
        case = {**cases[result["name"]], "kubeVersion": minor}
        if name == "upstream" and result.get("variant"):
            case["variant"] = result["variant"]
        yield case, result


def ask(case: dict[str, Any], budget: int = 10_000_000) -> dict[str, Any]:
    return answer(case, StillClock(), random.Random(1), selectors=selectors, budget=budget)


def differs(case: dict[str, Any], got: dict[str, Any], want: dict[str, Any]) -> bool:
    """Whether an answer is not the reference's, as far as the reference itself is repeatable."""
    if want.get("variant") and got.get("variant") != want["variant"]:
        return True
    if _told(got) == _told(want):
        return False
    # The stable implementation searches the pools in an order that Go makes up anew each time.
    several = len({(one["spec"]["driver"], one["spec"]["pool"]["name"]) for one in case.get("slices", ())}) > 1
    return not (want.get("variant") == "stable" and several and _alike(_told(got), _told(want)))


def _alike(got: tuple[Any, ...], want: tuple[Any, ...]) -> bool:
    """Whether two answers without errors differ only by what follows from the order of the pools."""
    if got[1] or want[1] or any(error for _, _, error in (*got[3], *want[3])):
        return False
    fitting = [[bool(one[0]), *(bool(results) for _, results, _ in one[3])] for one in (got, want)]
    return fitting[0] == fitting[1] and _by_id(got[4]) == _by_id(want[4])


def _by_id(pools: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return sorted(pools or [], key=lambda pool: str(pool["id"]))


def _told(result: dict[str, Any]) -> tuple[Any, ...]:
    nodes = [(one["node"], one["results"], _repeatable(one["error"])) for one in result.get("nodes") or ()]
    return result["results"], _repeatable(result["error"]), bool(result.get("errorOnNode")), nodes, result.get("pools")


def _repeatable(error: str) -> str:
    """The error without what is not repeatable or is made by a parser generator."""
    error = re.sub(r"attribute \S+: unsupported attribute value", "attribute: unsupported attribute value", error)
    error = re.sub(r"for device .* in slice", "for device in slice", error, flags=re.DOTALL)
    return re.sub(r"Syntax error: .*", "Syntax error", error, flags=re.DOTALL)
