"""Rules by minor and gates, against the collected facts, the recorded answers of upstream, and a real API server."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import shared

from regauge.base import BugError, InputError
from regauge.features import (
    gates_from_prometheus,
    minor_of,
    parse_feature_gates,
    quirk_table,
    rules,
)
from regauge.features.gates import spec_at
from regauge.features.tables import gate_table, versions

MINORS = versions().minors


@pytest.mark.parametrize(
    ("written", "minor"),
    [
        ("v1.36.3", "1.36"),
        ("1.36", "1.36"),
        ("1.37+", "1.37"),
        ("v1.34.2-eks-1a2b3c", "1.34"),
        (" v1.33.1+k3s1 ", "1.33"),
        ("v1.36.0-rc.1", "1.36"),
    ],
)
def test_minor_of(written: str, minor: str) -> None:
    assert minor_of(written) == minor


@pytest.mark.parametrize("written", ["", "latest", "1", "v2.0.0", "1.30", "1.99.1", "1.36x", "1.-3"])
def test_minor_that_is_not_known(written: str) -> None:
    with pytest.raises(InputError, match=r"kube version"):
        minor_of(written)


def test_flag_as_kubernetes_reads_it() -> None:
    assert parse_feature_gates("") == {}
    assert parse_feature_gates("A=true, B = f ,,C=1,A=False") == {"A": False, "B": False, "C": True}


@pytest.mark.parametrize("text", ["A", "A=", "A=yes", "=true", "A=true,B"])
def test_flag_that_is_broken(text: str) -> None:
    with pytest.raises(InputError, match="feature gates"):
        parse_feature_gates(text)


@given(st.text(max_size=60))
def test_flag_never_fails_in_another_way(text: str) -> None:
    with contextlib.suppress(InputError):
        assert all(isinstance(value, bool) for value in parse_feature_gates(text).values())


@pytest.mark.row(180, how="unit")
def test_core_by_minor() -> None:
    assert [rules(minor).on("DynamicResourceAllocation") for minor in MINORS] == [False] * 3 + [True] * 4
    assert not rules("1.34", {"DynamicResourceAllocation": False}).on("DynamicResourceAllocation")
    with pytest.raises(InputError, match="locked to on"):
        rules("1.35", {"DynamicResourceAllocation": False})
    assert rules("1.33").served == frozenset()
    assert "resource.k8s.io/v1" not in rules("1.33").api
    assert rules("1.34").served == rules("1.37").served == {"resource.k8s.io/v1"}


def test_locked_gate_may_be_named_with_its_own_value() -> None:
    assert rules("1.36", {"DynamicResourceAllocation": True}) == rules("1.36")


def test_every_gate_is_as_the_source_declares_it() -> None:
    in_source = json.loads(shared("facts/gates_in_source.json").read_text())
    stages = {"Alpha": "alpha", "Beta": "beta", "GA": "stable", "Deprecated": "deprecated"}
    for version in ("1.36.3", "1.37.2"):
        for name, facts in in_source[version]["gates"].items():
            wanted = facts["effective"]
            spec = spec_at(gate_table().gates[name], minor_of(version))
            assert spec is not None, name
            assert (spec.stage, spec.locked) == (stages[wanted["prerelease"]], wanted["lockToDefault"]), name
            if "minCompatibilityVersion" not in wanted:
                assert spec.default == wanted["default"], name


def test_default_that_needs_a_newer_compatibility_version_does_not_hold() -> None:
    assert not rules("1.37").on("DRAFractionalCapacityRange")
    assert "FractionalCapacityRange" in rules("1.37", {"DRAFractionalCapacityRange": True}).allocator_features


def test_gates_that_left() -> None:
    assert rules("1.37").on("DevicePluginCDIDevices")
    with pytest.raises(InputError, match=r"it exists from 1\.28 until before 1\.36"):
        rules("1.36", {"DevicePluginCDIDevices": True})
    with pytest.raises(InputError, match=r"1\.37 has no feature gate GangScheduling \(it exists from 1\.35 until"):
        rules("1.37", {"GangScheduling": True})
    assert rules("1.37", {"GenericWorkload": True}).on("GangScheduling")
    assert not rules("1.36", {"GenericWorkload": True}).on("GangScheduling")


def test_unknown_gate_names_near_ones() -> None:
    with pytest.raises(InputError, match=r"there is no feature gate dradevicetaint \(did you mean DRADeviceTaints"):
        rules("1.36", {"dradevicetaint": True})
    with pytest.raises(InputError, match="regauge features lists them"):
        rules("1.36", {"Xyzzy": True})


def test_gate_of_another_minor() -> None:
    with pytest.raises(InputError, match=r"1\.36 has no feature gate DRADerivedAttributes \(it exists from 1\.37\)"):
        rules("1.36", {"DRADerivedAttributes": True})
    assert not rules("1.36").on("DRADerivedAttributes")


def test_gate_without_bearing_on_devices_is_accepted() -> None:
    assert rules("1.36", {"WatchListClient": True}) == rules("1.36")


def test_gate_nobody_has_is_a_bug() -> None:
    with pytest.raises(BugError, match="Nonsense"):
        rules().on("Nonsense")


def test_dependency_is_refused_where_kubernetes_refuses_it() -> None:
    wanted = {"DRADeviceTaints": False, "DRADeviceTaintRules": True}
    with pytest.raises(InputError, match="DRADeviceTaintRules is on but depends on DRADeviceTaints"):
        rules("1.36", wanted)
    assert not rules("1.35", wanted).on("DRADeviceTaintRules")
    assert not rules("1.34", {"DynamicResourceAllocation": False}).on("DRAPrioritizedList")


def test_whole_stages() -> None:
    alpha = rules("1.36", {"AllAlpha": True, "DRAListTypeAttributes": False})
    assert alpha.on("DRAResourcePoolStatus")
    assert not alpha.on("DRAListTypeAttributes")
    assert not alpha.on("DRADeviceTaintRules"), "a beta gate that is off stays off"
    beta = rules("1.36", {"AllBeta": False})
    assert beta.allocator_features == {"AdminAccess", "PrioritizedList"}
    assert beta.allocator_variant == "stable"


def test_the_estate_of_a_real_server() -> None:
    text = shared("estates/small/kubernetes_feature_enabled.prom").read_text()
    gates = gates_from_prometheus(text)
    assert len(gates) == 34
    ruled = rules("v1.36.3", gates)
    assert all(ruled.on(name) == value for name, value in gates.items())
    assert ruled.on("DRADeviceTaintRules")
    assert ruled.allocator_variant == "incubating", "1.36 does not hand list attributes to the allocator"


def test_series_in_other_forms() -> None:
    text = (
        "# TYPE kubernetes_feature_enabled gauge\n"
        'kubernetes_feature_enabled{stage="BETA",name="DRADeviceTaints"} 1\n'
        'kubernetes_feature_enabled{name="APIServerTracing",stage=""} 1\n'
        'process_start_time_seconds{name="DRAAdminAccess"} 1\n'
        'kubernetes_feature_enabled{name="DRADeviceTaintRules",stage="BETA"} 0 1764442800000\n'
    )
    assert gates_from_prometheus(text) == {"DRADeviceTaints": True, "DRADeviceTaintRules": False}
    assert gates_from_prometheus("") == {}


@pytest.mark.parametrize(
    "line", ['kubernetes_feature_enabled{stage="BETA"} 1', 'kubernetes_feature_enabled{name="A"} 2']
)
def test_series_that_is_broken(line: str) -> None:
    with pytest.raises(InputError, match="kubernetes_feature_enabled") as caught:
        gates_from_prometheus("# HELP\n" + line)
    assert caught.value.where.line == 2


@pytest.mark.parametrize(("results", "minor"), [("", "1.37"), ("_0.36.6", "1.36")])
def test_variant_is_the_one_upstream_ran(results: str, minor: str) -> None:
    cases = [json.loads(line) for line in shared("vectors/allocator/quirks_cases.jsonl").read_text().splitlines()]
    answers = {
        answer["name"]: answer
        for line in shared(f"vectors/allocator/quirks_results{results}.jsonl").read_text().splitlines()
        if (answer := json.loads(line))
    }
    ruled = rules(minor)
    everything = frozenset(ruled.allocator_variants[-1].supports)
    compared = set()
    for case in cases:
        answer = answers.get(case["name"], {})
        if case.get("variant", "auto") != "auto" or not answer.get("variant"):
            continue
        asked = case.get("features", {})
        features = everything if asked.get("ALL") else frozenset(name for name, on in asked.items() if on)
        variant = replace(ruled, allocator_features=features).allocator_variant
        assert variant == answer["variant"], case["name"]
        compared.add(variant)
    assert {"incubating", "stable"} <= compared


@pytest.mark.parametrize("minor", ["1.34", "1.35"])
def test_defaults_before_1_36_use_incubating(minor: str) -> None:
    assert rules(minor).allocator_variant == "incubating"
    assert rules(minor, {"DRAConsumableCapacity": True}).allocator_variant == "experimental"


def test_no_variant_for_features_nobody_supports() -> None:
    assert replace(rules("1.36"), allocator_features=frozenset({"DerivedAttributes"})).allocator_variant is None


def test_kinds_and_services() -> None:
    assert "DeviceTaintRule" not in rules("1.36").api["resource.k8s.io/v1"]
    assert "DeviceTaintRule" in rules("1.37").api["resource.k8s.io/v1"]
    assert rules("1.36").api["scheduling.k8s.io/v1alpha2"] == ("Workload", "PodGroup")
    assert "scheduling.k8s.io/v1alpha2" not in rules("1.37").api
    assert rules("1.31").services["dra"] == ("v1alpha4",)
    assert rules("1.36").services["dra"] == ("v1", "v1beta1")
    assert rules("1.36").services["dra-health"] == ("v1alpha1",)


def test_quirks_hold_in_their_span() -> None:
    ids = [quirk.id for quirk in quirk_table()]
    assert ids == sorted(set(ids))
    assert "allocator-distinct-remembers-last" in rules("1.36").quirks
    assert "allocator-distinct-remembers-last" not in rules("1.37").quirks
    assert "kubelet-start-wipes-slices" in rules("1.37").quirks
    assert rules("1.31").quirks == frozenset()


def test_a_patch_has_the_mistakes_that_later_ones_of_its_minor_mended() -> None:
    mended = {"allocator-counts-before-search", "allocator-counters-by-pool-name"}
    assert rules("1.36").quirks == rules("1.36.6").quirks == rules("v1.36.10-gke.12").quirks
    assert rules("v1.36.3").quirks == rules("1.36.3+k3s1").quirks == rules("1.36").quirks | mended
    assert rules("1.36.4").quirks == rules("1.36").quirks | {"allocator-counts-before-search"}
    assert rules("1.37.0").quirks == rules("1.37").quirks and rules("1.35.1").quirks == rules("1.35").quirks
    assert rules("v1.36.3").minor == "1.36"


def test_quirks_of_the_allocator_show_in_the_vectors() -> None:
    """Each names a case that the versions answer differently, or the same on both sides of no fix."""
    for quirk in quirk_table():
        if not quirk.shown_by.startswith("vectors/allocator "):
            continue
        group, _, names = quirk.shown_by.removeprefix("vectors/allocator ").partition(": ")
        old_version = {"1.35": "0.34.13", "1.36": "0.35.10", "1.36.4": "0.35.10", "1.37": "0.36.6"}[
            quirk.fixed_in or ""
        ]
        new_version = {"1.35": "_0.35.10", "1.36": "_0.36.6", "1.36.4": "_0.36.6", "1.37": ""}[quirk.fixed_in or ""]
        old = _answers(group, f"_{old_version}")
        new = _answers(group, new_version)
        for name in names.split(", "):
            assert old[name] != new[name], (quirk.id, name)


def test_quirks_name_recordings_that_exist() -> None:
    """A story told on 1.36 shows it; one that is mended in 1.37 is told differently there."""
    for quirk in quirk_table():
        kind, _, names = quirk.shown_by.partition(" ")
        for name in names.split(", ") if kind == "stories" else ():
            assert (shared("vectors/stories/scenarios") / name).is_dir(), quirk.id
            assert quirk.fixed_in is None or (shared("vectors/stories/scenarios-1.37.2") / name).is_dir(), quirk.id
        for name in names.split(", ") if kind == "vectors/node" else ():
            assert (shared("vectors/node") / name).is_dir(), quirk.id
        if kind == "vectors/api:":
            mended = shared("vectors/api/validation_1.37.2.jsonl").read_text()
            assert f'"name":"{names}"' in mended, quirk.id


def _answers(group: str, version: str) -> dict[str, object]:
    lines = shared(f"vectors/allocator/{group}_results{version}.jsonl").read_text().splitlines()
    return {answer["name"]: (answer.get("results"), answer.get("error")) for answer in map(json.loads, lines)}


def test_rules_are_values() -> None:
    assert hash(rules("1.36")) == hash(rules("v1.36.9"))
    assert rules("1.36") != rules("1.36", {"DRADeviceTaintRules": True})
