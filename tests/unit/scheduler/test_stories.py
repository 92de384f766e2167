"""The stories recorded from a real control plane, played on our own store, claim controller and scheduler.

Compared are how pods and claims end, every event about a pod, and the writes to each object in their order. Stories that
need another program or kind, and those in which we differ, are in differences.toml with the reason; an entry that no longer
holds fails as well.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support import ROOT, shared
from tests.unit.scheduler.player import RULES, STORY_KINDS, NotServed, all_gates, play, recorded

from regauge.features import rules

DIFFERENCES: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).with_name("differences.toml")).read_text())
STORIES = Path(os.environ.get("REGAUGE_SHARED", ROOT.parent / "shared")) / "vectors" / "stories"
MAIN = "scenarios"
RULINGS = {
    MAIN: RULES,
    "scenarios-default-gates": rules("1.36"),
    "scenarios-1.37.2": rules("1.37", all_gates("1.37")),
}
LEAST_AGREEING = {MAIN: 171, "scenarios-default-gates": 26, "scenarios-1.37.2": 80}
SEEDS = range(1, 9)


def names(folder: str) -> list[str]:
    """The recorded stories of a folder whose steps we have."""
    recordings = STORIES / folder
    if not recordings.exists():
        return []
    return sorted(path.name for path in recordings.iterdir() if (STORIES / MAIN / path.name / "input.yaml").exists())


ALL = [(folder, name) for folder in RULINGS for name in names(folder)] or [(MAIN, "no stories")]


def pod_events(story: dict[str, Any]) -> set[tuple[str, ...]]:
    """What was said about pods, however often."""
    return {
        (event["object"], event["type"], event["reason"], event["message"])
        for event in story["events"]
        if event["object"].startswith("Pod/")
    }


def writes(story: dict[str, Any]) -> dict[str, list[str]]:
    """The writes to each pod and claim in order. How far a list changed is told differently, so its sign is left out."""
    told: dict[str, list[str]] = {}
    for write in story["writes"]:
        kind = write.get("object", "").partition("/")[0]
        if kind in STORY_KINDS:
            fields = (write.get("fields") or []) if write["what"] == "update" else []
            shown = sorted(_without_sign(field) for field in fields)
            told.setdefault(write["object"], []).append(f"{write['what']} {' '.join(shown)}")
    return told


def _without_sign(field: str) -> str:
    for whole in ("status.reservedFor", "spec.schedulingGates"):
        if whole in field:
            return whole
    return field


def varying(story: dict[str, Any]) -> Iterable[str]:
    """The events that not every recorded run had."""
    return (item["event"][3] for item in story["varies"] if "event" in item)


def _comparable(shown: dict[str, Any] | None, loose_users: bool) -> dict[str, Any] | None:
    """Users in no order: which of several pods came first is chance. Where the recorded runs differ in who they are
    at the end, they are left out."""
    if not shown or "reservedFor" not in shown:
        return shown
    users = [] if loose_users else sorted(shown["reservedFor"], key=lambda user: user["name"])
    return {**shown, "reservedFor": users}


def _settled(
    shown: dict[str, Any] | None, kind: str, name: str, varies: Iterable[dict[str, Any]]
) -> dict[str, Any] | None:
    """Without the parts that the recorded runs themselves end with differently. Nodes are left in: seeds find them."""
    start = f"final/{kind}/{name}/"
    loose = {
        item["path"].removeprefix(start).partition("/")[0]
        for item in varies
        if item.get("path", "").startswith(start) and not item["path"].endswith(("/node", "/reservedFor"))
    }
    return {key: value for key, value in shown.items() if key not in loose} if shown else shown


def disagreements(told: dict[str, Any], real: dict[str, Any]) -> list[str]:
    """In what a story that we played differs from the recorded one."""
    found = []
    for kind in ("Pod", "ResourceClaim"):
        ours, theirs = told["final"][kind], real["final"].get(kind, {})
        for name in sorted({*ours, *theirs}):
            loose_users = any(f"{kind}/{name}/reservedFor" in item.get("path", "") for item in real["varies"])
            left, right = (
                _comparable(_settled(side.get(name), kind, name, real["varies"]), loose_users)
                for side in (ours, theirs)
            )
            if left != right:
                found.append(f"final {kind} {name}: {left} is not {right}")
    refused = [answer["message"] for answer in told["answers"]]
    really = [answer["message"] for answer in real["answers"] if answer["code"] >= 400]
    found += [] if refused == really else [f"refused {refused}, not {really}"]
    loose = set(varying(real))
    found += [f"event {event}" for event in sorted(pod_events(told) ^ pod_events(real)) if event[3] not in loose]
    if not any("write" in item or "writes" in item for item in real["varies"]):
        ours, theirs = writes(told), writes(real)
        found += [
            f"writes to {name}: {ours.get(name)} are not {theirs.get(name)}"
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        ]
    return found


def compare(folder: str, name: str) -> list[str]:
    """Disagreements. Where chance chose between equal nodes in the recording, one of several seeds has to agree."""
    path, real = STORIES / MAIN / name, recorded(STORIES / folder / name)
    real.setdefault("varies", recorded(path)["varies"])  # the other folders hold one run each
    by_chance = any("/node" in item.get("path", "") for item in real["varies"])
    tries = [
        disagreements(play(path, RULINGS[folder], seed=seed), real) for seed in (SEEDS if by_chance else SEEDS[:1])
    ]
    return min(tries, key=len)


@pytest.mark.row(13, how="vectors")
@pytest.mark.row(45, how="vectors")
@pytest.mark.row(48, how="vectors")
@pytest.mark.row(254, how="vectors")
@pytest.mark.parametrize(("folder", "name"), ALL)
def test_story(folder: str, name: str) -> None:
    shared("vectors/stories/scenarios")
    try:
        found = compare(folder, name)
    except NotServed as reason:
        found = [f"not served: {reason}"]
    if name in DIFFERENCES[folder]:
        assert found, f"{name} agrees now: take it out of differences.toml"
    else:
        assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", RULINGS)
def test_how_many_agree(folder: str) -> None:
    """The list of differences names real stories and does not grow unseen."""
    shared("vectors/stories/scenarios")
    assert set(DIFFERENCES[folder]) <= set(names(folder))
    agreeing = len(names(folder)) - len(DIFFERENCES[folder])
    assert agreeing >= LEAST_AGREEING[folder], Counter(DIFFERENCES[folder].values())


# The features that the documentation of dynamic resource allocation describes, each by stories that tell of it.
FEATURES = {
    "claims and templates": ("101-", "099-", "096-", "105-", "109-", "111-"),
    "selection by CEL": ("010-", "012-", "015-"),
    "prioritized lists": ("028-", "030-"),
    "admin access": ("035-", "036-", "038-"),
    "extended resources": ("134-", "136-", "139-", "144-"),
    "partitionable devices": ("056-", "058-", "060-"),
    "consumable capacity": ("062-", "063-", "065-", "068-", "180-"),
    "device taints": ("042-", "045-", "048-", "179-"),
    "device taint rules": ("049-", "050-", "051-", "052-", "054-"),
    "binding conditions": ("070-", "071-", "176-", "183-"),
    "node allocatable resources": ("073-", "075-", "076-"),
    "list attributes": ("078-", "079-", "080-"),
    "pool status": ("169-", "170-"),
    "claims of pod groups": ("160-",),
    "network-attached devices": ("081-", "082-", "084-"),
    "quota": ("165-", "166-", "168-", "184-"),
}


@pytest.mark.row(168, how="vectors")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_documented_feature_has_stories_that_are_told_alike(feature: str) -> None:
    shared("vectors/stories/scenarios")
    for prefix in FEATURES[feature]:
        (name,) = [one for one in names(MAIN) if one.startswith(prefix)]
        assert name not in DIFFERENCES[MAIN]


PREEMPTION = (
    "151-preempt-device",
    "152-preempt-cpu-victim-has-claim",
    "153-preempt-cpu-both-claims",
    "154-preempt-extended-dra",
    "164-gang-preempt",
)
ADMIN_ACCESS = (
    "035-admin-access",
    "036-admin-access-unlabelled",
    "038-admin-access-label-removed",
    "039-admin-access-tainted",
    "184-admin-access-extended-quota",
)


@pytest.mark.row(118, how="vectors")
@pytest.mark.parametrize("name", PREEMPTION)
def test_preemption_frees_processors_and_never_devices(name: str) -> None:
    """The real scheduler preempts for cpu and memory only; what a victim's claim held is free once the victim is gone."""
    shared("vectors/stories/scenarios")
    assert compare(MAIN, name) == []


@pytest.mark.row(221, how="vectors")
@pytest.mark.parametrize("name", ADMIN_ACCESS)
def test_admin_access_is_for_labelled_namespaces_and_takes_nothing_away(name: str) -> None:
    shared("vectors/stories/scenarios")
    assert compare(MAIN, name) == []
