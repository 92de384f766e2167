"""What scenarios and explorations say to programs: JSON documents and JUnit."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from regauge.rehearsal.exploring import Exploration
from regauge.rehearsal.playing import Played

SCHEMA = "regauge.verify/v1"
EXPLORED_SCHEMA = "regauge.explored/v1"
_NOT_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32)), "?")


def as_document(suite: str, played: Sequence[Played]) -> dict[str, Any]:
    """The whole run as a JSON document with a schema name."""
    scenarios = []
    for one in played:
        document = asdict(one)
        document["holds"], document["inPart"] = one.holds, one.in_part
        document["steps"] = [{**asdict(step), "holds": step.holds} for step in one.steps]
        scenarios.append(document)
    return {"schema": SCHEMA, "suite": suite, "holds": all(one.holds for one in played), "scenarios": scenarios}


def as_junit(suite: str, played: Sequence[Played]) -> bytes:
    """One test case for each scenario; what did not hold is its failure."""
    root = Xml.Element("testsuite", name=f"regauge verify {_text(suite)}", tests=str(len(played)))
    root.set("failures", str(sum(not one.holds for one in played)))
    root.set("errors", "0")
    root.set("skipped", str(sum(one.holds and one.in_part for one in played)))
    for one in played:
        case = Xml.SubElement(root, "testcase", classname=f"regauge.{_text(suite)}", name=_text(one.name))
        case.set("time", f"{one.took_s:.3f}")
        wrong = [
            f"{step.title}: {check.what}: {check.seen}"
            for step in one.steps
            for check in step.checks
            if not check.holds
        ]
        if one.holds and one.in_part:
            left_out = [f"{step.title}: {step.left_out}" for step in one.steps if step.left_out]
            Xml.SubElement(case, "skipped", message=_text(left_out[0])).text = _text("\n".join(left_out))
        if not one.holds:
            text = "\n".join(wrong) or "it has no steps"
            Xml.SubElement(case, "failure", message=_text(text.splitlines()[0])).text = _text(text)
    data: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _text(value: str) -> str:
    """Without what XML cannot carry."""
    return value.translate(_NOT_XML)


def explored_document(found: Sequence[Exploration]) -> dict[str, Any]:
    """Explorations as a JSON document; a failure has all that is needed to play it again."""
    return {
        "schema": EXPLORED_SCHEMA,
        "holds": all(one.holds for one in found),
        "explorations": [asdict(one) for one in found],
    }
