"""What an audit finds, whatever it looks at: values with stable codes, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regauge.base import Where


class Severity(StrEnum):
    """How bad. An error breaks, or lets others break, something now; a warning may; a note is good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Layer(StrEnum):
    """Which part of the way from a device to a container is concerned."""

    INSTALLATION = "installation"
    DISCOVERY = "discovery"
    INJECTION = "injection"
    SCHEDULING = "scheduling"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that was seen: where, and what."""

    where: Where
    text: str

    def __str__(self) -> str:
        place = str(self.where)
        return f"{place}: {self.text}" if place else self.text


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `code` is stable, such as CDI-CONFLICT. `where` is what it is about, `what` says it in a sentence, `why` what follows
    from it or how it came about, `fix` what to do. `devices` are the names of the devices that it concerns.
    """

    code: str
    severity: Severity
    layer: Layer
    where: str
    what: str
    why: str
    fix: str
    evidence: tuple[Evidence, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that could not be looked at, so that nobody takes silence for health."""

    what: str
    why: str


_ORDER = {severity: place for place, severity in enumerate(Severity)}


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, worst first, then by code and place."""
    return tuple(sorted(findings, key=lambda one: (_ORDER[one.severity], one.code, one.where, one.what)))


def is_at_least(finding: Finding, severity: Severity) -> bool:
    """Whether a finding is as bad as `severity`, or worse."""
    return _ORDER[finding.severity] <= _ORDER[severity]


def as_document(finding: Finding) -> dict[str, Any]:
    """The finding as JSON."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "layer": finding.layer.value,
        "where": finding.where,
        "what": finding.what,
        "why": finding.why,
        "fix": finding.fix,
        "evidence": [
            {"file": one.where.file, "line": one.where.line, "field": one.where.field, "text": one.text}
            for one in finding.evidence
        ],
        "devices": list(finding.devices),
    }
