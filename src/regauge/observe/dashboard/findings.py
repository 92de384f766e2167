"""The table of what an audit finds, each with the layer that it concerns, and of what could not be looked at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from regauge.audit import EstateAudit, Finding, as_document
from regauge.observe.dashboard.tables import Row, Table

MOST_FINDINGS, MOST_EVIDENCE, MOST_DEVICES = 2000, 10, 64


def finding_tables(audit: EstateAudit, beside: Iterable[tuple[str, str]] = ()) -> dict[str, Table]:
    """The tables `findings`, worst first in `rank`, and `unknown`. `beside` is more that is not known: what, and why."""
    seen: Counter[str] = Counter()
    findings: dict[str, Row] = {}
    for rank, one in enumerate(audit.findings[:MOST_FINDINGS]):
        name = f"{one.code} {one.where}"
        seen[name] += 1
        findings[f"{name} #{seen[name]}" if seen[name] > 1 else name] = _row(one, rank)
    unknown = {one.what: {"why": one.why} for one in audit.unknown} | {what: {"why": why} for what, why in beside}
    left = len(audit.findings) - len(findings)
    if left > 0:
        unknown[f"{left} more findings"] = {"why": "so many are not shown here: regauge audit tells all"}
    return {"findings": findings, "unknown": unknown}


def _row(one: Finding, rank: int) -> Row:
    document = as_document(one)
    evidence = [str(item) for item in one.evidence[:MOST_EVIDENCE]]
    return {
        "rank": rank,
        **{name: document[name] for name in ("code", "severity", "layer", "where", "what", "why", "fix")},
        **({"evidence": evidence} if evidence else {}),
        **({"devices": list(one.devices[:MOST_DEVICES])} if one.devices else {}),
    }
