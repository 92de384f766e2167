"""Workloads in both forms on an estate: what is placed alike, what is not and why, and that the estate stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rehearsal import dumps

from regauge.base import InputError
from regauge.model import Document, read_documents
from regauge.rehearsal import RehearsalOptions, Report, rehearse


def estate(directory: Path, **published: int) -> str:
    things = [
        dumps.namespace(),
        dumps.gpu_node("counting", "4"),
        dumps.node("publishing"),
        dumps.slice_("publishing", published.get("devices", 2)),
        dumps.device_class(),
        *dumps.deployment("app", ["counting", "counting"]),
    ]
    return dumps.write(directory, things)


def rehearsed(place: str, *manifests: dict[str, Any]) -> Report:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}).encode()
    documents: tuple[Document, ...] = tuple(read_documents(data, "new.yaml")) if manifests else ()
    return rehearse(place, RehearsalOptions(convert=documents), lambda _title, _step: None)


def new(name: str, count: int = 1, namespace: str = "team") -> dict[str, Any]:
    spec = {
        "template": {"spec": {**dumps.pod_spec(count), "restartPolicy": "Never"}},
        "parallelism": 2,
        "completions": 2,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def checks(report: Report, title: str) -> dict[str, tuple[bool, str]]:
    step = next(step for step in report.steps if step.title.startswith(title))
    return {check.what: (check.holds, check.seen) for check in step.checks}


def test_all_of_the_estate_in_both_forms_and_then_as_before(tmp_path: Path) -> None:
    report = rehearsed(estate(tmp_path))
    assert report.holds
    (compared,) = report.comparisons
    assert (compared.before.stack, compared.before.node) == ("device-plugin", "counting")
    assert (compared.after.stack, compared.after.node) == ("dra", "publishing")
    assert len(compared.before.devices) == len(compared.after.devices) == 2
    assert checks(report, "Deployment team/app")["it runs again as before"] == (True, "2 pods run")


def test_a_form_that_places_fewer_pods_fails_with_the_reason(tmp_path: Path) -> None:
    report = rehearsed(estate(tmp_path, devices=1))
    assert not report.holds
    holds, seen = checks(report, "Deployment team/app")["as many pods run in both forms"]
    assert not holds and "2 and 1 of 2" in seen and "cannot allocate all claims" in seen


def test_manifests_that_the_estate_does_not_have_are_tried_and_taken_away(tmp_path: Path) -> None:
    report = rehearsed(estate(tmp_path), new("train"), new("elsewhere", namespace="new"))
    assert report.holds, [check for step in report.steps for check in step.checks if not check.holds]
    assert {item.workload for item in report.comparisons} == {"Job team/train", "Job new/elsewhere"}
    assert {item.after.node for item in report.comparisons} == {"publishing"}
    assert "it runs again as before" not in checks(report, "Job team/train")


def test_what_has_no_other_form_is_told_and_nothing_at_all_is_an_error(tmp_path: Path) -> None:
    place = estate(tmp_path)
    strange = new("strange")
    limits = {"example.com/unknown": "1"}
    strange["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    report = rehearsed(place, new("train"), strange)
    assert any("Job team/strange is not compared: " in note for note in report.notes)
    with pytest.raises(InputError, match="Job team/strange is not compared"):
        rehearsed(place, strange)
