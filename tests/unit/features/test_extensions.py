"""The extension table and the packaged files behind it."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from tests.support import shared
from tests.unit.loading import script

from regauge.base import InputError
from regauge.features import Stage, feature_rows


@pytest.mark.row(220, 243, 244, 245, 246, 247, 248, how="unit")
def test_named_extensions_by_minor() -> None:
    stages = {
        row.gate: [stage and stage.stage for stage in row.stages.values()]
        for row in feature_rows()
        if row.kep in (5018, 4816, 5055, 4815, 5075, 5004)
    }
    assert stages["DRAAdminAccess"] == [None, "alpha", "alpha", "beta", "beta", "stable", "stable"]
    assert stages["DRAPrioritizedList"] == [None, None, "alpha", "beta", "beta", "stable", "stable"]
    assert stages["DRADeviceTaints"] == [None, None, "alpha", "alpha", "alpha", "beta", "stable"]
    assert stages["DRAPartitionableDevices"] == [None, None, "alpha", "alpha", "alpha", "beta", "beta"]
    assert stages["DRAConsumableCapacity"] == [None, None, None, "alpha", "alpha", "beta", "beta"]
    assert stages["DRAExtendedResource"] == [None, None, None, "alpha", "alpha", "beta", "stable"]


@pytest.mark.row(54, 220, how="unit")
def test_every_gate_in_every_minor_is_as_collected() -> None:
    collected = {
        (gate, minor): stage and Stage(stage["stage"], stage["default"], stage["locked"])
        for feature in json.loads(shared("facts/readiness.json").read_text())["features"]
        for gate, facts in feature["gates"].items()
        for minor, stage in facts["by_version"].items()
    }
    ours = {(row.gate, minor): stage for row in feature_rows() if row.gate for minor, stage in row.stages.items()}
    differ = {key: (ours[key], wanted) for key, wanted in collected.items() if ours[key] != wanted}
    # On only where the minimum compatibility version is 1.37 too, which a plain installation of 1.37 has at 1.36.
    assert differ == {("DRAFractionalCapacityRange", "1.37"): (Stage("beta", False, False), Stage("beta", True, False))}
    assert ours.keys() == collected.keys()


@pytest.mark.row(220, how="unit")
def test_every_row_says_where_it_comes_from() -> None:
    rows = feature_rows()
    assert len(rows) > 40
    for row in rows:
        assert row.sources[0] == f"KEP-{row.kep}"
        assert row.gate is None or len(row.sources) == 2
        assert row.title
        assert list(row.stages) == ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]


@pytest.mark.row(215, how="unit")
def test_bridge_says_gate_default_and_stage() -> None:
    (row,) = feature_rows("v1.36.3", "extended-resource")
    assert row.gate == "DRAExtendedResource"
    assert row.stages == {"1.36": Stage("beta", True, False)}
    (row,) = feature_rows("1.37", "extended-resource")
    assert row.stages == {"1.37": Stage("stable", True, True)}


@pytest.mark.parametrize("wanted", ["taints", "5055", "KEP-5055", "dradevicetaintrules", " Taints "])
def test_a_feature_by_any_of_its_names(wanted: str) -> None:
    assert [row.gate for row in feature_rows(feature=wanted)] == ["DRADeviceTaints", "DRADeviceTaintRules"]


def test_a_feature_without_gate() -> None:
    (row,) = feature_rows("1.37", "numa-attr")
    assert row.gate is None
    assert row.stages == {"1.37": None}


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"no feature taint \(did you mean taints"):
        feature_rows(feature="taint")
    with pytest.raises(InputError, match=r"1\.30 is not known \(known: 1\.31 to 1\.37\)"):
        feature_rows("1.30")


def test_packaged_files_are_what_the_script_makes() -> None:
    make = script("make_features")
    readiness = json.loads(shared("facts/readiness.json").read_text())
    in_source = json.loads(shared("facts/gates_in_source.json").read_text())
    packaged = files("regauge.features") / "data"
    gates = json.loads((packaged / "gates.json").read_text())
    assert make.make_gates(readiness, in_source, gates["other"]) == gates
    assert make.make_table(readiness) == json.loads((packaged / "features.json").read_text())
