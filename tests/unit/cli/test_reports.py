"""Reports to pass on: the assessment, the plan and the rehearsal as pages and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.pages import Page
from tests.support import shared
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.rehearsal import (
    Attribution,
    Check,
    Comparison,
    Mode,
    Ownership,
    Placement,
    PodRow,
    Report,
    Step,
    write_report,
)

EVIL = "<script>alert(1)</script>\x1b[2J\u202e|`"


def regauge(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.row(173, how="unit")
def test_the_assessment_as_a_page_and_as_markdown(golden: Callable[[str, str], None]) -> None:
    where = str(shared("estates/small"))
    page, told = regauge("assess", where, "-o", "html"), regauge("assess", where, "-o", "markdown")
    found = json.loads(regauge("assess", where, "-o", "json"))
    golden("assess/estate-small.html", page.replace(where, "DIR"))
    golden("assess/estate-small.md", told.replace(where, "DIR"))
    read = Page(page)
    read.is_inert()
    assert read.count("svg") >= 3 and "prefers-color-scheme" in page and "@media print" in page
    for item in found["workloads"]:
        assert read.says(f"{item['kind']} {item['namespace']}/{item['name']}")
    for pool in found["nodePools"]:
        assert read.says(pool["name"])


def test_the_pictures_count_what_the_tables_count() -> None:
    where = str(shared("estates/small"))
    found = json.loads(regauge("assess", where, "-o", "json"))
    read = Page(regauge("assess", where, "-o", "html"))
    for pool in found["nodePools"]:
        for stack, counts in (("device plugin", pool["devicePlugin"]), ("DRA", pool["dra"])):
            if counts:
                assert read.says(f"{pool['name']}: {sum(counts.values())} {stack}")
    ready = sum(row["ready"] and row["stack"] == "device-plugin" for row in found["workloads"])
    drawn = [re.fullmatch(r"\w+: (\d+) nothing in the way", text) for text in read.text]
    assert sum(int(match[1]) for match in drawn if match) == ready > 0


@pytest.mark.row(111, how="unit")
def test_the_plan_for_its_reviewers(golden: Callable[[str, str], None]) -> None:
    page, told = regauge("plan", "sample", "-o", "html"), regauge("plan", "sample", "-o", "markdown")
    golden("plan/sample.md", told)
    plan = yaml.safe_load(regauge("plan", "sample", "-o", "yaml"))
    read = Page(page)
    read.is_inert()
    for step in plan["spec"]["steps"]:
        assert read.says(f"{step['id']}: ")
        assert all(read.says(gate["check"]) for gate in step.get("gates", ()))
        for action in step.get("actions", ()):
            assert action["do"] != "approve" or read.says(action["question"])
    assert all(read.says(item["why"]) for item in plan["spec"]["left"])


@pytest.mark.row(112, how="unit")
def test_the_rehearsal_of_a_plan_as_a_page(tmp_path: Path) -> None:
    page, document = tmp_path / "r.html", tmp_path / "r.json"
    for place in (page, document):
        done = CliRunner().invoke(app, ["rehearse", "sample", "--plan", "auto", "--report", str(place)])
        assert done.exit_code == 0, done.output
    found, read = json.loads(document.read_text()), Page(page.read_text())
    read.is_inert()
    assert read.says("The move holds") and read.says("What went wrong on purpose")
    for step in found["steps"]:
        assert read.says(step["title"])
        assert all(read.says(f"{check['what']}: {check['seen']}") for check in step["checks"])
    for item in found["comparisons"]:
        assert item["returned"]["stack"] == item["before"]["stack"] != item["after"]["stack"]
        assert read.says(item["after"]["pod"]) and read.says(item["returned"]["pod"])
    spans = [attributes for tag, attributes in read.seen if tag == "rect" and attributes.get("rx") == "2"]
    assert len(spans) == len(found["steps"])


def test_hostile_names_are_inert_in_every_report(tmp_path: Path) -> None:
    place = Placement(EVIL, EVIL, EVIL, (EVIL,), 1.0)
    step = Step(
        EVIL, EVIL, (Check(EVIL, False, EVIL),), 0.0, 1.0, {"killed": 1, "faults": {EVIL: [EVIL]}, "phase": EVIL}
    )
    report = Report(
        EVIL, Mode.SIMULATED, "1.36", 0, (step,), (Ownership(EVIL, EVIL, EVIL, (EVIL, EVIL), (EVIL,), (EVIL,)),),
        (Comparison(EVIL, place, place, place),), (PodRow(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, False, EVIL),),
        (Attribution(EVIL, 1, 2, 1),), notes=(EVIL,),
    )  # fmt: skip
    write_report(report, str(tmp_path / "r.html"))
    write_report(report, str(tmp_path / "r.md"))
    read = Page((tmp_path / "r.html").read_text())
    read.is_inert()
    assert read.says("The move does NOT hold") and read.says("differs") and read.says("<script>alert(1)</script>")
    told = (tmp_path / "r.md").read_text()
    assert "<script>" not in told and "\x1b" not in told


def test_hostile_names_in_an_estate_are_inert(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": EVIL, "labels": {"node-pool": EVIL, "nvidia.com/gpu.replicas": "4"}},
        "status": {"capacity": {f"example.com/{EVIL}": "4", "nvidia.com/gpu": "8"}},
    }  # fmt: skip
    container = {"name": EVIL, "image": EVIL, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": EVIL, "namespace": EVIL, "uid": "u"},
        "spec": {"nodeName": EVIL, "containers": [container], "nodeSelector": {"nvidia.com/gpu.product": EVIL}},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": EVIL}]},
    }  # fmt: skip
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": EVIL, "namespace": EVIL},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
    }  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, pod, quota]}))
    page, told = (regauge("assess", str(tmp_path), "-o", form) for form in ("html", "markdown"))
    read = Page(page)
    read.is_inert()
    assert read.says("<script>alert(1)</script>") and "<script" not in page
    assert "<script" not in told and "\x1b" not in told and "\u202e" not in told
