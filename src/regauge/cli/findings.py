"""Findings of the audits, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.cli.output import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.audit import Finding

SEVERITIES = ("error", "warning", "note")


def tell_finding(one: Finding) -> None:
    """One finding with why it matters, what to do, and what was seen."""
    tell(f"{one.severity.value.upper()} {one.code} ({one.layer.value}): {one.what}")
    tell(f"  why:  {one.why}")
    tell(f"  fix:  {one.fix}")
    for evidence in one.evidence:
        tell(f"  seen: {evidence}")
    tell()


def counted(findings: Sequence[Finding]) -> str:
    """How many there are of each severity."""
    counts = {name: sum(one.severity.value == name for one in findings) for name in SEVERITIES}
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items())
