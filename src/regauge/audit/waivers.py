"""Findings that somebody answers for: with a reason, and until a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from typing import Any

from regauge.audit.findings import Evidence, Finding, Layer, Severity
from regauge.base import InputError, Where

EXPIRED = "AUDIT-WAIVER-EXPIRED"
_FIELDS = {"code", "where", "reason", "expires"}
_FIX = "each waiver has code, reason and expires (a day such as 2027-01-31), and may have where (with * for any text)"


@dataclass(frozen=True, slots=True)
class Waiver:
    """One waiver: the code, the places (a pattern with *), the reason, and the last day on which it holds."""

    code: str
    where: str
    reason: str
    expires: date
    place: Where

    def covers(self, finding: Finding) -> bool:
        return finding.code == self.code and fnmatchcase(finding.where, self.where)


@dataclass(frozen=True, slots=True)
class Waived:
    """A finding and the waiver that answers for it."""

    finding: Finding
    waiver: Waiver


@dataclass(frozen=True, slots=True)
class Settled:
    """What is left after waivers: findings (those of expired waivers among them), what was waived, waivers without use."""

    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...]
    unused: tuple[Waiver, ...]


def read_waivers(value: Any, file: str, codes: Iterable[str]) -> tuple[Waiver, ...]:
    """Waivers from a document `{waivers: [...]}`. Raises `InputError` for what is missing, unknown or no day."""
    rows = value.get("waivers") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise InputError("there is no list of waivers", where=Where(file, field="waivers"), fix=_FIX)
    known = frozenset(codes)
    return tuple(_waiver(row, Where(file, field=f"waivers[{index}]"), known) for index, row in enumerate(rows))


def _waiver(row: Any, place: Where, known: frozenset[str]) -> Waiver:
    if not isinstance(row, dict):
        raise InputError("a waiver is a mapping", where=place, fix=_FIX)
    wrong = sorted(row.keys() - _FIELDS)
    if wrong:
        raise InputError(f"unknown field {wrong[0]}", where=place, fix=_FIX)
    texts = {}
    for name in sorted(_FIELDS):
        text = row.get(name, "*" if name == "where" else "")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{name} is missing or no text", where=place, fix=_FIX)
        texts[name] = text.strip()
    if texts["code"] not in known and not texts["code"].startswith("CDI-"):
        raise InputError(f"there is no code {texts['code']}", where=place, fix="take the code from the audit's output")
    try:
        expires = date.fromisoformat(texts["expires"])
    except ValueError:
        raise InputError(f"{texts['expires']} is no day", where=place, fix="write it as 2027-01-31") from None
    return Waiver(texts["code"], texts["where"], texts["reason"], expires, place)


def settle(findings: Sequence[Finding], waivers: Sequence[Waiver], now_s: float) -> Settled:
    """Findings without those that a waiver answers for. A waiver that has expired answers for nothing, and is told."""
    today = datetime.fromtimestamp(now_s, UTC).date()
    left, waived, used = [], [], set()
    expired: dict[int, list[Finding]] = {}
    for finding in findings:
        covering = [index for index, one in enumerate(waivers) if one.covers(finding)]
        used.update(covering)
        valid = [waivers[index] for index in covering if waivers[index].expires >= today]
        if valid:
            waived.append(Waived(finding, valid[0]))
            continue
        left.append(finding)
        for index in covering:
            expired.setdefault(index, []).append(finding)
    told = [_expired(waivers[index], len(found)) for index, found in expired.items()]
    unused = tuple(one for index, one in enumerate(waivers) if index not in used)
    return Settled((*left, *told), tuple(waived), unused)


def _expired(waiver: Waiver, count: int) -> Finding:
    return Finding(
        EXPIRED,
        Severity.WARNING,
        Layer.INSTALLATION,
        waiver.place.file or "waivers",
        f"the waiver for {waiver.code} at {waiver.where} ended on {waiver.expires}; {count} findings count again",
        f"It was given because: {waiver.reason}",
        "mend what was found, or decide again and set another day",
        (Evidence(waiver.place, f"expires {waiver.expires}"),),
    )
