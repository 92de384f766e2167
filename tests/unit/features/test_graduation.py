"""From when on a feature may be depended on, what to watch, what a managed control plane fixes, and who announced it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from regauge.base import InputError
from regauge.cli.app import app
from regauge.features import (
    KNOWN_MINORS,
    PILOTS,
    Policy,
    check_settable,
    facts_for,
    feature_rows,
    fixed_gates,
    platform_named,
    platform_seen,
    rules,
    safe_minors,
    watch_list,
)


@pytest.mark.row(225, how="unit")
def test_safe_from_by_policy() -> None:
    beta, stable, locked = (safe_minors(policy) for policy in Policy)
    assert (beta["DRAAdminAccess"], stable["DRAAdminAccess"]) == ("1.34", "1.36")
    assert (beta["DRADeviceTaintRules"], stable["DRADeviceTaintRules"]) == ("1.37", "1.37")
    assert (stable["DynamicResourceAllocation"], locked["DynamicResourceAllocation"]) == ("1.34", "1.35")
    assert (stable["DRAExtendedResource"], locked["DRAExtendedResource"]) == ("1.37", "1.37")
    assert (beta["DRAPartitionableDevices"], stable["DRAPartitionableDevices"]) == ("1.36", None)
    assert stable["DRAControlPlaneController"] is None


@pytest.mark.row(225, how="unit")
@pytest.mark.parametrize("policy", Policy)
def test_what_is_safe_stays_so_up_to_the_newest_minor(policy: Policy) -> None:
    """Held to the gates themselves: on, and of the stage, in every minor from there on."""
    checked = 0
    for row in feature_rows():
        first = safe_minors(policy)[row.gate] if row.gate else None
        if first is None:
            continue
        for minor in KNOWN_MINORS[KNOWN_MINORS.index(first) :]:
            stage = row.stages[minor]
            assert stage is not None and stage.default and rules(minor).on(row.gate or "")
            assert stage.stage in {"beta": ("beta", "stable")}.get(policy, ("stable",))
            assert stage.locked or policy is not Policy.LOCKED
            checked += 1
    assert checked > 10


@pytest.mark.row(232, how="unit")
def test_the_watch_list_is_what_is_there_and_not_safe_yet() -> None:
    watched = {one.gate: one for one in watch_list("v1.36.3")}
    assert watched["DRAConsumableCapacity"].planned == {"stable": "1.38"}
    assert watched["DRAConsumableCapacity"].pilot == "consumable-capacity"
    assert watched["DRAExtendedResource"].safe_from == "1.37"
    assert "DRAAdminAccess" not in watched and "DRADerivedAttributes" not in watched
    assert {one.pilot for one in watched.values()} - {""} <= PILOTS
    assert "DRAExtendedResource" not in {one.gate for one in watch_list("1.37")}
    assert "DRAConsumableCapacity" not in {one.gate for one in watch_list("1.36", Policy.BETA)}


@pytest.mark.row(225, 232, how="unit")
def test_both_are_printed() -> None:
    run = CliRunner().invoke
    text = run(app, ["features", "--policy", "stable", "--feature", "taints"]).output
    assert text.splitlines()[0].endswith("SAFE FROM")
    assert text.splitlines()[1].split()[-1] == "1.37"
    rows = json.loads(run(app, ["features", "--policy", "beta", "--feature", "5018", "-o", "json"]).output)["features"]
    assert rows[0]["safeFrom"] == "1.34"
    text = run(app, ["features", "watch", "--kube-version", "1.36"]).output
    assert "regauge verify pilots --only partitionable" in text
    document = json.loads(run(app, ["features", "watch", "-o", "json"]).output)
    assert document["policy"] == "stable" and {one["gate"] for one in document["watch"]} >= {"DRADeviceTaints"}


@pytest.mark.row(166, how="unit")
def test_features_cite_the_posts_that_announced_them() -> None:
    announced = {row.feature: row.announced for row in feature_rows()}
    first = "https://kubernetes.io/blog/2025/09/01/kubernetes-v1-34-dra-updates/"
    second = "https://kubernetes.io/blog/2026/05/07/kubernetes-v1-36-dra-136-updates/"
    assert announced["core"] == (first,)
    assert announced["taints"] == (second,)
    assert announced["extended-resource"] == (first, second)
    by_url = {url: [name for name, urls in announced.items() if url in urls] for url in (first, second)}
    for url, minor in ((first, "1.34"), (second, "1.36")):
        stages = [row.stages[minor] for row in feature_rows() if row.feature in by_url[url] and row.gate]
        assert len(stages) > 6 and sum(stage is not None for stage in stages) >= len(by_url[url])
    assert f"announced: {second}" in CliRunner().invoke(app, ["features", "--feature", "taints"]).output


# -- managed control planes


@pytest.mark.row(172, how="unit")
def test_a_managed_control_plane_is_known_by_its_versions_or_its_nodes() -> None:
    eks = platform_named("EKS")
    assert platform_seen(["v1.36.1-eks-113cf36"], []) == eks
    assert platform_seen(["v1.36.1"], ["eks.amazonaws.com/nodegroup"]) == eks
    assert platform_seen(["v1.36.1"], ["compute.eks.amazonaws.com/type"]) == eks
    assert platform_seen(["v1.36.1", "v1.36.1+k3s1"], ["notreks.amazonaws.com.example/x", "eks.amazonaws.com"]) is None
    with pytest.raises(InputError, match="no platform gke"):
        platform_named("gke")


@pytest.mark.row(172, how="unit")
def test_what_is_off_there_stays_off() -> None:
    off = fixed_gates("v1.36.1-eks-113cf36")
    assert off["DRADeviceTaintRules"].stage == "beta" and off["DRAWorkloadResourceClaims"].stage == "alpha"
    assert not any(rules("1.36").on(gate) for gate in off)
    assert "DRADeviceTaintRules" not in fixed_gates("1.37")
    eks = platform_named("eks")
    check_settable(eks, "1.36", [("DRADeviceTaints", True), ("DRADeviceTaintRules", False)])
    with pytest.raises(InputError, match="DRADeviceTaintRules cannot be on on Amazon EKS"):
        check_settable(eks, "1.36", [("DRADeviceTaintRules", True)])


@pytest.mark.row(172, how="unit")
def test_what_is_said_of_it_has_a_source_and_a_day() -> None:
    eks = platform_named("eks")
    assert all(fact.source.startswith("https://") and fact.read for fact in eks.facts)
    assert len(facts_for(eks, "1.33")) < len(facts_for(eks, "1.34")) < len(facts_for(eks, "1.36"))
    result = CliRunner().invoke(app, ["features", "--platform", "eks", "--kube-version", "1.36"])
    assert result.exit_code == 0
    assert "Amazon EKS, Kubernetes 1.36: The feature gates" in result.output
    assert "DRADeviceTaintRules" in result.output and "containers-roadmap" in result.output
    document = json.loads(CliRunner().invoke(app, ["features", "--platform", "eks", "-o", "json"]).output)
    assert document["off"]["DRADeviceTaintRules"] == {"default": False, "locked": False, "stage": "beta"}
