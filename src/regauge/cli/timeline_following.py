"""`regauge timeline --follow`: what happens to a claim, as it does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing

from regauge.base import InputError, canonical_json
from regauge.cli.output import plain, say, tell
from regauge.cli.timeline_table import COLUMNS, TIMELINE_KINDS, claim_in, moment_document, moment_rows
from regauge.cli.view_following import followed
from regauge.cli.view_output import TimelineFormat, aligned, column_widths
from regauge.cli.view_reading import Asked, Seen
from regauge.model.resource import ResourceClaim
from regauge.observe.timeline import Moment, in_order, timeline_of
from regauge.observe.timeline_following import seen_between
from regauge.observe.timeline_parts import Step
from regauge.observe.timeline_picture import title_of


def follow_claim(asked: Asked, name: str, output: TimelineFormat, *, headers: bool) -> None:
    """Print the life of a claim so far, and go on until it is gone."""
    asyncio.run(_follow(asked, _Following(name, output, headers=headers)))


async def _follow(asked: Asked, following: _Following) -> None:
    async with aclosing(followed(asked, TIMELINE_KINDS)) as views:
        async for seen in views:
            if not following.look(seen):
                return


class _Following:
    """What was told so far. A claim that is not there yet is waited for."""

    def __init__(self, name: str, output: TimelineFormat, *, headers: bool) -> None:
        self._name, self._output, self._headers = name, output, headers
        self._claim: ResourceClaim | None = None
        self._told: set[tuple[str, Step, str]] = set()
        self._first_s: float | None = None
        self._widths: list[int] = []
        self._waits = False

    def look(self, seen: Seen) -> bool:
        """Tell what is new. False when the claim is gone, or another one has its name."""
        try:
            claim = claim_in(seen, self._name)
        except InputError:
            claim = None
        if claim is None and self._claim is None:
            if not self._waits:
                say(f"ResourceClaim {self._name} is not there yet")
            self._waits = True
            return True
        same = claim if claim is not None and self._same(claim) else None
        moments = list(seen_between(self._claim, same, seen.now_s or 0.0))
        if same is not None:
            found = timeline_of(same, seen.estate.snapshot, seen.estate.nodes, seen.now_s)
            if self._claim is None and self._output is not TimelineFormat.json:
                tell(title_of(found))
            moments = [*found.moments, *moments]
        self._claim = same
        self._tell([one for one in in_order(moments) if (one.subject, one.step, one.text) not in self._told])
        return same is not None

    def _same(self, claim: ResourceClaim) -> bool:
        return self._claim is None or self._claim.metadata.uid == claim.metadata.uid

    def _tell(self, moments: Sequence[Moment]) -> None:
        self._told |= {(one.subject, one.step, one.text) for one in moments}
        if self._first_s is None and moments:
            self._first_s = moments[0].at_s
        if self._output is TimelineFormat.json:
            for one in moments:
                print(canonical_json(moment_document(one)).decode())
        else:
            self._rows(moments)
        sys.stdout.flush()

    def _rows(self, moments: Sequence[Moment]) -> None:
        wide = self._output is TimelineFormat.wide
        rows = [[plain(cell) for cell in row] for row in moment_rows(moments, self._first_s, wide=wide)]
        if rows and not self._widths:
            columns = [*COLUMNS, *(["KNOWN FROM"] if wide else [])]
            self._widths = column_widths([columns, *rows])
            rows = [columns, *rows] if self._headers else rows
        for row in rows:
            print(aligned(row, self._widths))
