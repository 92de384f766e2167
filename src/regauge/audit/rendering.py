"""An audit for programs: the JSON document, SARIF 2.1.0, JUnit, Markdown, annotations of GitHub. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regauge.audit.auditing import EstateAudit
from regauge.audit.findings import Finding, Severity, as_document
from regauge.audit.proofs import Answer
from regauge.audit.questions import Item, as_item, counts
from regauge.audit.registry import audit_rules, page_of
from regauge.audit.waivers import Settled

SCHEMA = "regauge.audit/v1"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NOT_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "?")
_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_SARIF = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


@dataclass(frozen=True, slots=True)
class AuditReport:
    """An audit with what waivers left of it, and the checklist where it was asked for."""

    audit: EstateAudit
    settled: Settled
    checked: tuple[Item, ...] | None = None
    version: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.settled.findings


def audit_document(report: AuditReport) -> dict[str, Any]:
    """The whole report as JSON."""
    found = report.findings
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "source": report.audit.source,
        "profile": report.audit.profile.value if report.audit.profile else None,
        "counts": {severity.value: sum(one.severity is severity for one in found) for severity in Severity},
        "findings": [{**_finding(one), "page": page_of(one.code)} for one in found],
        "waived": [
            {**_finding(one.finding), "reason": one.waiver.reason, "expires": one.waiver.expires.isoformat()}
            for one in report.settled.waived
        ],
        "unusedWaivers": [{"code": one.code, "where": one.where} for one in report.settled.unused],
        "unknown": [{"what": one.what, "why": one.why} for one in report.audit.unknown],
    }
    if report.checked is not None:
        document["checklist"] = [as_item(one) for one in report.checked]
        document["checklistCounts"] = dict(counts(report.checked))
    return document


def as_sarif(report: AuditReport) -> dict[str, Any]:
    """SARIF 2.1.0: a result for each finding; waived ones are suppressed with their reason."""
    found = [(one, "") for one in report.findings]
    found += [(one.finding, one.waiver.reason) for one in report.settled.waived]
    codes = sorted({one.code for one, _ in found})
    driver = {
        "name": "regauge",
        **({"version": report.version} if report.version else {}),
        "rules": [_sarif_rule(code, next(one for one, _ in found if one.code == code)) for code in codes],
    }
    results = [_sarif_result(one, reason, codes.index(one.code)) for one, reason in found]
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _sarif_rule(code: str, example: Finding) -> dict[str, Any]:
    rule = audit_rules().get(code)
    return {
        "id": code,
        "shortDescription": {"text": rule.title if rule else code},
        "fullDescription": {"text": rule.why if rule else example.why},
        "help": {"text": f"{rule.fix if rule else example.fix}\nSee {page_of(code)}."},
        "defaultConfiguration": {"level": _SARIF[rule.severity if rule else example.severity]},
        "properties": {"tags": [example.layer.value]},
    }


def _sarif_result(one: Finding, reason: str, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": one.code,
        "ruleIndex": index,
        "level": _SARIF[one.severity],
        "message": {"text": f"{one.what}. {one.why} What to do: {one.fix}"},
        "locations": [_sarif_location(one, *place) for place in _places(one)] or [_sarif_location(one, None, None)],
        "partialFingerprints": {"regauge/v1": f"{one.code}:{one.where}"},
    }
    if reason:
        result["suppressions"] = [{"kind": "external", "justification": reason}]
    return result


def _sarif_location(one: Finding, file: str | None, line: int | None) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": one.where}]}
    if file:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
        if line:
            physical["region"] = {"startLine": line}
        location["physicalLocation"] = physical
    return location


def _uri(path: str) -> str:
    """A path as a URI reference: absolute ones with their scheme, what a URI cannot hold as percent codes."""
    safe = "".join(
        char
        if char.isascii() and (char.isalnum() or char in "/-._~")
        else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in path
    )
    return f"file://{safe}" if path.startswith("/") else safe


def as_junit(report: AuditReport) -> bytes:
    """A test case for each code that was found, for each waived one, and for each item of the checklist."""
    root = Xml.Element("testsuite", name="regauge audit")
    failures = skipped = tests = 0
    for code in dict.fromkeys(one.code for one in report.findings):
        found = [one for one in report.findings if one.code == code]
        bad = any(one.severity is not Severity.NOTE for one in found)
        case = Xml.SubElement(root, "testcase", classname="regauge.audit", name=code)
        text = _text(
            "\n\n".join(
                f"{one.severity.value} {one.where}: {one.what}\nwhy: {one.why}\nfix: {one.fix}" for one in found
            )
        )
        if bad:
            Xml.SubElement(case, "failure", message=_text(found[0].what), type=found[0].severity.value).text = text
        else:
            Xml.SubElement(case, "system-out").text = text
        tests, failures = tests + 1, failures + bad
    for waived in report.settled.waived:
        name = _text(f"{waived.finding.code} {waived.finding.where}")
        case = Xml.SubElement(root, "testcase", classname="regauge.audit.waived", name=name)
        Xml.SubElement(case, "skipped", message=_text(f"until {waived.waiver.expires}: {waived.waiver.reason}"))
        tests, skipped = tests + 1, skipped + 1
    for item in report.checked or ():
        case = Xml.SubElement(
            root, "testcase", classname="regauge.audit.checklist", name=f"{item.number} {item.question}"
        )
        tests += 1
        if item.answer is Answer.FAIL:
            Xml.SubElement(case, "failure", message=_text(item.evidence[0])).text = _text("\n".join(item.evidence))
            failures += 1
        elif item.answer is Answer.UNKNOWN:
            Xml.SubElement(case, "skipped", message=_text("; ".join(item.evidence)))
            skipped += 1
    if not tests:
        Xml.SubElement(root, "testcase", classname="regauge.audit", name="no findings")
        tests = 1
    for name, count in (("tests", tests), ("failures", failures), ("errors", 0), ("skipped", skipped)):
        root.set(name, str(count))
    data: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def as_markdown(report: AuditReport) -> str:
    """A page for a pull request or a wiki."""
    lines = [f"# Audit of {_md(report.audit.source)}", ""]
    if report.checked is not None:
        lines += ["| | question | answer | evidence |", "|---|---|---|---|"]
        lines += [
            f"| {one.number} | {_md(one.question)} | {one.answer.value} | {_md('; '.join(one.evidence))} |"
            for one in report.checked
        ]
        lines.append("")
    if not report.findings:
        lines += ["Nothing was found.", ""]
    for one in report.findings:
        lines += [f"## {one.severity.value}: {one.code} ({one.layer.value})", "", _md(one.what), ""]
        lines += [f"- why: {_md(one.why)}", f"- fix: {_md(one.fix)}"]
        lines += [f"- seen: {_md(str(item))}" for item in one.evidence]
        lines.append("")
    for waived in report.settled.waived:
        reason = f"waived until {waived.waiver.expires}: {waived.waiver.reason}"
        lines.append(f"- {waived.finding.code} {_md(waived.finding.where)}: {_md(reason)}")
    lines += [f"- not known: {_md(one.what)}: {_md(one.why)}" for one in report.audit.unknown]
    return "\n".join(lines).rstrip() + "\n"


def as_annotations(report: AuditReport) -> str:
    """Workflow commands of GitHub, a line for each finding."""
    lines = []
    for one in report.findings:
        file, line = next(iter(_places(one)), (None, None))
        at = [f"title={_property(one.code)}"]
        if file:
            at.insert(0, f"file={_property(file)}")
        if file and line:
            at.insert(1, f"line={line}")
        lines.append(f"::{_GITHUB[one.severity]} {','.join(at)}::{_command(f'{one.what}. What to do: {one.fix}')}")
    return "".join(f"{line}\n" for line in lines)


def _places(one: Finding) -> Sequence[tuple[str, int | None]]:
    return tuple(dict.fromkeys((item.where.file, item.where.line) for item in one.evidence if item.where.file))


def _finding(one: Finding) -> dict[str, Any]:
    """The finding as JSON, with the objects that its evidence is about."""
    document = as_document(one)
    evidence = zip(document["evidence"], one.evidence, strict=True)
    return {**document, "evidence": [{**told, "object": item.where.object} for told, item in evidence]}


def _command(text: str) -> str:
    """What GitHub reads as one value: no line ends, no percent signs of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")


def _md(text: str) -> str:
    """Text from an input as text, not as markup."""
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in flat)


def _text(value: str) -> str:
    return value.translate(_NOT_XML)
