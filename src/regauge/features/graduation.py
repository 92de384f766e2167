"""From which minor on a feature may be depended on, by a policy; and what to watch until then. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from regauge.features.extensions import FeatureRow, Stage, feature_rows
from regauge.features.gates import minor_of
from regauge.features.tables import number


class Policy(StrEnum):
    """What a team asks of a feature before it depends on it in production.

    beta: on by default, at least beta. stable: on by default and stable. locked: cannot be turned off any more.
    """

    BETA = "beta"
    STABLE = "stable"
    LOCKED = "locked"


@dataclass(frozen=True, slots=True)
class Watched:
    """A gate that a minor has and that is not safe there yet. `safe_from`: a known minor where it is, or None.

    `planned`: what its KEP foresees, which is no promise. `pilot`: the packaged scenario that tries it, or "".
    """

    feature: str
    gate: str
    now: Stage
    safe_from: str | None
    planned: dict[str, str]
    pilot: str


def safe_from(stages: Iterable[tuple[str, Stage | None]], policy: Policy) -> str | None:
    """The first minor from which on, up to the newest, a gate satisfies the policy; None when the newest does not."""
    first: str | None = None
    for minor, stage in stages:
        if stage is None or not _satisfies(stage, policy):
            first = None
        elif first is None:
            first = minor
    return first


def safe_minors(policy: Policy) -> dict[str, str | None]:
    """Every gate of the extension table with the minor it is safe from, by all minors that are known."""
    return {row.gate: safe_from(row.stages.items(), policy) for row in feature_rows() if row.gate}


def watch_list(kube_version: str, policy: Policy = Policy.STABLE) -> tuple[Watched, ...]:
    """What of a minor's features is not safe there by the policy. Raises `InputError` for an unknown version."""
    minor = minor_of(kube_version)
    return tuple(
        Watched(row.feature, row.gate, stage, later, _ahead(row, minor), row.feature if row.feature in PILOTS else "")
        for row in feature_rows()
        if row.gate and (stage := row.stages[minor]) is not None
        for later in (safe_from(row.stages.items(), policy),)
        if stage.stage != "deprecated" and (later is None or number(later) > number(minor))
    )


def _satisfies(stage: Stage, policy: Policy) -> bool:
    if policy is Policy.LOCKED:
        return stage.locked and stage.default
    return stage.default and stage.stage in (("beta", "stable") if policy is Policy.BETA else ("stable",))


def _ahead(row: FeatureRow, minor: str) -> dict[str, str]:
    return {stage: when for stage, when in row.planned.items() if number(when) > number(minor)}


# Features that a scenario of `regauge verify pilots` tries, by its name.
PILOTS = frozenset(
    (
        "admin-access",
        "binding-conditions",
        "claim-device-status",
        "consumable-capacity",
        "extended-resource",
        "health",
        "list-attributes",
        "partitionable",
        "prioritized-list",
        "taints",
    )
)
