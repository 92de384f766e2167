"""What `regauge claims` prints: rows, documents, and rows again when a claim changes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from regauge.base import canonical_json, human_duration
from regauge.cli.devices_document import moment, not_read
from regauge.cli.output import plain
from regauge.cli.view_output import NONE, UNKNOWN, ViewFormat, aligned, column_widths, shortened
from regauge.cli.view_reading import Seen
from regauge.observe.claims_view import ClaimLine

SCHEMA = "regauge.claims/v1"
WHY_LENGTH = 90
LONGEST_STATE = "allocated,reserved"
MOST_LISTED = 3


def claim_columns(*, everywhere: bool, wide: bool) -> tuple[str, ...]:
    """The headers."""
    first = ("NAMESPACE",) if everywhere else ()
    more = ("REQUESTS", "OWNER") if wide else ()
    return (*first, "NAME", "STATE", "SINCE", "AGE", "NODE", "CLASS", "DEVICES", "PODS", *more, "WHY")


def claim_row(line: ClaimLine, now_s: float | None, *, everywhere: bool, wide: bool) -> tuple[str, ...]:
    """One claim. Where `wide` nothing is shortened, and devices have their driver's name before them."""
    devices = line.devices if wide else [name.partition("/")[2] for name in line.devices]
    pods = [*line.pods, *(f"({pod})" for pod in line.waiting)]
    return (
        *((line.namespace,) if everywhere else ()),
        line.name,
        line.state,
        _ago(line.since_s, now_s),
        _ago(line.created_s, now_s),
        line.node or NONE,
        ",".join(line.classes) or NONE,
        _list(devices, wide=wide),
        _list(pods, wide=wide),
        *(("; ".join(line.requests) or NONE, line.owner or NONE) if wide else ()),
        line.why if wide else shortened(line.why, WHY_LENGTH),
    )


def _list(items: Sequence[str], *, wide: bool) -> str:
    shown = items if wide else items[:MOST_LISTED]
    return (",".join(shown) + (f" + {len(items) - len(shown)} more" if len(shown) < len(items) else "")) or NONE


def _ago(at_s: float | None, now_s: float | None) -> str:
    return UNKNOWN if at_s is None or now_s is None else human_duration(now_s - at_s)


def claims_document(lines: Iterable[ClaimLine], seen: Seen) -> dict[str, Any]:
    """All lines as one document."""
    return {
        "schema": SCHEMA,
        "source": seen.estate.source,
        "asOf": moment(seen.now_s),
        "claims": [claim_document(line) for line in lines],
        "notRead": not_read(seen),
    }


def claim_document(line: ClaimLine) -> dict[str, Any]:
    """One claim."""
    return {
        "namespace": line.namespace,
        "name": line.name,
        "uid": line.uid,
        "state": line.state,
        "since": moment(line.since_s),
        "created": moment(line.created_s),
        "node": line.node,
        "classes": list(line.classes),
        "requests": list(line.requests),
        "devices": list(line.devices),
        "reservedFor": list(line.pods),
        "waitingPods": list(line.waiting),
        "owner": line.owner,
        "why": line.why,
        "explained": line.explained,
    }


class Told:
    """What was printed of each claim: what changes is printed again, as `kubectl get --watch` does."""

    def __init__(self, output: ViewFormat, *, headers: bool) -> None:
        self._output = output
        self._headers = headers
        self._widths: list[int] = []
        self._known: dict[tuple[str, str], ClaimLine] = {}

    def tell(self, lines: Sequence[ClaimLine], seen: Seen) -> None:
        """Print what is new or other since the last time, and what went."""
        there = {(line.namespace, line.name): line for line in lines}
        gone = [replace(line, state="gone", why="") for key, line in self._known.items() if key not in there]
        changed = [line for key, line in there.items() if self._known.get(key) != line]
        self._known = there
        if self._output.is_table:
            self._rows([*gone, *changed], seen)
        else:
            for line in (*gone, *changed):
                name = f"resourceclaim.resource.k8s.io/{line.name}"
                print(name if self._output is ViewFormat.name else canonical_json(claim_document(line)).decode())
        sys.stdout.flush()

    def _rows(self, lines: Sequence[ClaimLine], seen: Seen) -> None:
        everywhere, wide = not seen.namespace, self._output is ViewFormat.wide
        rows = [claim_row(line, seen.now_s, everywhere=everywhere, wide=wide) for line in lines]
        shown = [[plain(cell).replace("\n", " ") for cell in row] for row in rows]
        if shown and not self._widths:
            columns = list(claim_columns(everywhere=everywhere, wide=wide))
            room = [LONGEST_STATE if column == "STATE" else column for column in columns]
            self._widths = column_widths([room, columns, *shown])
            shown = [columns, *shown] if self._headers else shown
        for row in shown:
            print(aligned(row, self._widths))
