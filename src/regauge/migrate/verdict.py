"""Stay, later or now: per ask, workload, pool and cluster, by rules that are data (`data/verdicts.json`). Pure.

The question is whether a workload needs what a count cannot say, and whether a driver is there for it. What stands in the
way of a move today is another question, answered by the needs of the assessment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files

import msgspec

from regauge.features import feature_rows
from regauge.migrate.ground import newer_or_same
from regauge.migrate.serving import Serving, vendor_of
from regauge.migrate.triggers import Trigger
from regauge.migrate.workloads import Ask
from regauge.model import Rules

STABLE_SINCE = "1.34"


class Verdict(Enum):
    """What to do about one ask, workload, pool or cluster."""

    STAY = "stay"
    LATER = "later"
    NOW = "now"


class VerdictRule(msgspec.Struct, frozen=True):
    """One rule: it holds when each fact of `when` has one of the values listed."""

    id: str
    verdict: str
    when: dict[str, tuple[str, ...]]
    why: str
    change: tuple[str, ...]


class TriggerRule(msgspec.Struct, frozen=True):
    """What a trigger is, for the reader; `need` is empty where the user says which."""

    id: str
    need: str
    what: str


class _Table(msgspec.Struct):
    rules: tuple[VerdictRule, ...]
    triggers: tuple[TriggerRule, ...]
    features: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DriverState:
    """What is known of a driver for a resource: unknown, preview, released, or here (it publishes devices)."""

    state: str
    driver: str = ""
    evidence: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class FeatureNeed:
    """A feature that a need stands on, its stage on this minor in words, and whether it is on."""

    feature: str
    stage: str
    on: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with the rule that gave it and everything that it rests on."""

    verdict: Verdict
    rule: str
    why: str
    triggers: tuple[Trigger, ...]
    driver: DriverState
    features: tuple[FeatureNeed, ...]
    change: tuple[str, ...]


@cache
def _table() -> _Table:
    return msgspec.json.decode(files("regauge.migrate").joinpath("data/verdicts.json").read_bytes(), type=_Table)


def verdict_rules() -> tuple[VerdictRule, ...]:
    """The packaged rules, in the order in which they are tried."""
    return _table().rules


def trigger_rules() -> tuple[TriggerRule, ...]:
    """The packaged list of triggers."""
    return _table().triggers


def decide(facts: Mapping[str, str]) -> VerdictRule:
    """The first rule that holds for these facts (`data/verdicts.json` names them). There is one for every combination."""
    return next(rule for rule in verdict_rules() if all(facts[name] in values for name, values in rule.when.items()))


def judge(ask: Ask, triggers: tuple[Trigger, ...], serving: Serving | None, rules: Rules) -> Judgement:
    """The verdict on one ask. `serving` is None for an ask by claim."""
    driver = driver_state(ask.name, serving)
    features = tuple(needed_features(triggers, rules))
    facts = {
        "stack": ask.stack.value,
        "need": "yes" if triggers else "no",
        "kube": "ready" if newer_or_same(rules.minor, STABLE_SINCE) else "old",
        "driver": driver.state,
        "features": "on" if all(item.on for item in features) else "off",
    }
    rule = decide(facts)
    return Judgement(Verdict(rule.verdict), rule.id, rule.why, triggers, driver, features, rule.change)


def driver_state(resource_name: str, serving: Serving | None) -> DriverState:
    """What is known of a driver for a counted resource: what this cluster shows, else what the vendors' table says."""
    if serving is not None and serving.devices:
        drivers = sorted({item.driver for item in serving.devices})
        return DriverState(
            "here", ", ".join(drivers), f"publishes {len(serving.devices)} devices for it in this cluster"
        )
    vendor = vendor_of(resource_name)
    if vendor is None:
        return DriverState("unknown", evidence=serving.why if serving is not None else "")
    return DriverState(vendor.stage, vendor.driver, f"{vendor.source}: {vendor.support}", vendor.date)


def needed_features(triggers: Iterable[Trigger], rules: Rules) -> Iterable[FeatureNeed]:
    """The features that the needs stand on, each once, with their stage on this minor."""
    names = dict.fromkeys(name for trigger in triggers for name in _table().features[trigger.need])
    for name in names:
        row = feature_rows(rules.minor, name)[0]
        stage = row.stages[rules.minor]
        shown = "not there" if stage is None else f"{stage.stage}{', locked' if stage.locked else ''}"
        yield FeatureNeed(name, shown, row.gate is None or rules.on(row.gate))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for many: now where any is now, else later where any is later, else stay."""
    found = set(verdicts)
    return next((item for item in (Verdict.NOW, Verdict.LATER) if item in found), Verdict.STAY)
