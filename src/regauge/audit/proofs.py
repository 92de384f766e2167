"""Reports of other verbs as evidence: what `verify` and `rehearse` played, what `assess` decided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from regauge.audit.ground import items, mapping, some
from regauge.base import InputError, Where, canonical_json

VERIFY, REHEARSE, ASSESS = "regauge.verify/v1", "regauge.rehearsal/v1", "regauge.assess/v1"


class Answer(StrEnum):
    """The answer to one question."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of `verify`: its rows, and whether it holds in full, in part or not."""

    name: str
    rows: frozenset[str]
    holds: bool
    in_part: bool


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One report of `rehearse`: the steps that hold and those that do not, and how many workloads were compared.

    `canary` is the node that is tried first, `digest` that of the whole report.
    """

    source: str
    holds: bool
    steps: Mapping[str, bool]
    attribution: int
    canary: str = ""
    digest: str = ""

    @property
    def proves_way_back(self) -> bool:
        """Whether a first node was tried and undone, and the whole plan rolled back."""
        return self.holds and self.has("gate") and self.has("rollback")

    def has(self, step: str) -> bool:
        """Whether a step of that name was played and holds."""
        return self.steps.get(step, False)


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What an assessment says of a workload on a node pool: stay, later or now, by which rule, and why."""

    pool: str
    answer: str
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Proofs:
    """All reports that were given. `assessed`: workloads with their reasons; None where no such report was given."""

    scenarios: tuple[Scenario, ...] = ()
    rehearsed: tuple[Rehearsed, ...] = ()
    assessed: Mapping[str, Sequence[str]] | None = field(default=None)
    pools: tuple[PoolVerdict, ...] = ()

    @property
    def rehearsed_plans(self) -> tuple[Rehearsed, ...]:
        """The rehearsals of whole plans, not of a first move."""
        return tuple(one for one in self.rehearsed if "plan" in one.steps)

    def verified(self, groups: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Answer, list[str]]:
        """Whether scenarios for every row of every group hold, each group being (what, rows)."""
        answers, evidence = [], []
        for what, rows in groups:
            answer, told = self._group(rows)
            answers.append(answer)
            evidence.append(f"{what}: {told}")
        worst = Answer.FAIL if Answer.FAIL in answers else Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.PASS
        return worst, evidence

    def _group(self, rows: tuple[str, ...]) -> tuple[Answer, str]:
        played = [one for one in self.scenarios if one.rows & set(rows)]
        failing = [one.name for one in played if not one.holds]
        if failing:
            return Answer.FAIL, f"{some(failing)} does not hold"
        full = [one for one in played if not one.in_part]
        missing = [row for row in rows if not any(row in one.rows for one in full)]
        if missing:
            part = (
                f"; {some([one.name for one in played if one.in_part])} holds in part"
                if len(full) < len(played)
                else ""
            )
            return Answer.UNKNOWN, f"no report of regauge verify shows {some(missing)}{part}"
        return Answer.PASS, f"{some([one.name for one in full])} hold"


def read_proofs(reports: Iterable[tuple[str, Any]]) -> Proofs:
    """Reports as (file, JSON value). Raises `InputError` for one that is no report of a known verb."""
    scenarios: list[Scenario] = []
    rehearsed: list[Rehearsed] = []
    assessed: dict[str, Sequence[str]] | None = None
    pools: list[PoolVerdict] = []
    for file, value in reports:
        schema = mapping(value).get("schema")
        if schema == VERIFY:
            scenarios += [_scenario(mapping(one)) for one in items(value.get("scenarios"))]
        elif schema == REHEARSE:
            rehearsed.append(_rehearsed(value))
        elif schema == ASSESS:
            assessed = {**(assessed or {}), **_assessed(value)}
            pools += _pool_verdicts(value)
        else:
            raise InputError(
                f"not a report: its schema is {schema!r}",
                where=Where(file),
                fix="give what regauge verify, rehearse or assess print with -o json",
            )
    return Proofs(tuple(scenarios), tuple(rehearsed), assessed, tuple(pools))


def _scenario(one: Mapping[str, Any]) -> Scenario:
    rows = frozenset(str(row) for row in items(one.get("rows")))
    return Scenario(str(one.get("name")), rows, one.get("holds") is True, one.get("inPart") is True)


def _rehearsed(value: Mapping[str, Any]) -> Rehearsed:
    steps: dict[str, bool] = {}
    for one in map(mapping, items(value.get("steps"))):
        name = str(one.get("name"))
        steps[name] = steps.get(name, True) and one.get("holds") is True
    return Rehearsed(
        str(value.get("source")),
        value.get("holds") is True,
        steps,
        len(items(value.get("attribution"))),
        _canary(value),
        report_digest(value),
    )


def report_digest(value: Any) -> str:
    """What tells one report from another."""
    return f"sha256:{hashlib.sha256(canonical_json(value)).hexdigest()}"


def _canary(value: Mapping[str, Any]) -> str:
    """The node of the first step that takes a node to the other stack."""
    for one in map(mapping, items(value.get("steps"))):
        name = str(one.get("name"))
        if mapping(one.get("details")).get("phase") == "canary" and name.startswith("node-"):
            return name.removeprefix("node-")
    return ""


def _assessed(value: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for one in map(mapping, items(value.get("workloads"))):
        why = mapping(one.get("verdict")).get("why")
        name = f"{one.get('kind')} {one.get('namespace')}/{one.get('name')}"
        found[name] = (why,) if isinstance(why, str) and why else ()
    return found


def _pool_verdicts(value: Mapping[str, Any]) -> Iterator[PoolVerdict]:
    for one in map(mapping, items(value.get("workloads"))):
        verdict = mapping(one.get("verdict"))
        needs = [str(mapping(item).get("need")) for item in items(verdict.get("triggers"))]
        why = f"{verdict.get('why')}" + (f" ({', '.join(dict.fromkeys(needs))})" if needs else "")
        for pool in items(one.get("nodePools")):
            yield PoolVerdict(str(pool), str(verdict.get("answer")), str(verdict.get("rule")), why)
