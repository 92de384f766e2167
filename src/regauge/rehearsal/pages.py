"""What scenarios showed, as one HTML page that needs nothing beside it: verdicts, steps, tables, timelines drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from regauge.base.drawing import Lane, Lanes, Point
from regauge.base.pages import Block, Folded, Grid, Heading, Items, Line, Lines, Paragraph, Word, as_html
from regauge.rehearsal.playing import Done, Played
from regauge.rehearsal.report import Check
from regauge.rehearsal.tables import Table, Timeline


def as_page(suite: str, played: Sequence[Played]) -> bytes:
    """The whole run. All text comes from scenarios and clusters, and is escaped."""
    failed = [one.name for one in played if not one.holds]
    part = [one.name for one in played if one.holds and one.in_part]
    verdict = f"{len(played) - len(failed) - len(part)} of {len(played)} scenarios hold."
    if part:
        verdict += f" In part, the rest is left out: {', '.join(part)}."
    if failed:
        verdict += f" Not: {', '.join(failed)}."
    overview = tuple((Word(one.name, link=one.name), one.title, _verdict(one), f"{one.took_s:.0f} s") for one in played)
    blocks: list[Block] = [
        Paragraph(Word(verdict, "bad" if failed else "good")),
        Grid(("scenario", "question", "", "took"), overview),
    ]
    for one in played:
        blocks += _scenario(one)
    return as_html(f"regauge verify {suite}", blocks).encode()


def _scenario(one: Played) -> Iterator[Block]:
    facts = f"{one.mode.value}, Kubernetes {one.kube_version}, seed {one.seed}"
    if one.rows:
        facts += f", answers for {', '.join(map(str, one.rows))}"
    yield Heading(f"{one.name}: {one.title}", anchor=one.name)
    yield Paragraph((_verdict(one), f" · {facts}"))
    yield Grid(("at", "took", "step", "seen"), tuple(map(_step, one.steps)))
    for table in one.tables:
        yield from _table(table)
    if one.findings:
        yield Heading("Findings in the end", 3)
        yield Items(one.findings)
    if one.timelines:
        yield _drawn(one)
        yield Folded("as text", (_told(one.timelines),))


def _step(step: Done) -> tuple[str, str, str, Lines]:
    return (f"{step.began_s:.1f} s", f"{step.ended_s - step.began_s:.1f} s", step.title, seen(step.checks, step))


def seen(checks: Iterable[Check], step: Done | None = None) -> Lines:
    """What was seen of every check, and what was left out."""
    lines: list[Line] = [(word(check.holds), f" {check.what}: {check.seen}") for check in checks]
    if step is not None and step.left_out:
        lines.append(f"left out: {step.left_out}")
    return Lines(tuple(lines))


def _table(table: Table) -> tuple[Block, ...]:
    """A table at one moment."""
    return (Heading(table.title, 3), Grid(table.columns, table.rows))


def _told(timelines: Sequence[Timeline]) -> Grid:
    rows = [(f"{at_s:.3f} s", line.object, who, what) for line in timelines for at_s, who, what in line.writes]
    return Grid(("at", "object", "by", "what"), tuple(rows))


def _drawn(one: Played) -> Lanes:
    """A lane for each object and a dot for each write, in the colour of its writer; what was broken as lines across."""
    lanes = (Lane(line.object, tuple(Point(*write) for write in line.writes)) for line in one.timelines)
    return Lanes("Who wrote what when", tuple(lanes), one.log)


def _verdict(one: Played) -> Word:
    return Word("in part", "note") if one.holds and one.in_part else word(one.holds)


def word(holds: bool) -> Word:
    """A verdict in words."""
    return Word("holds", "good") if holds else Word("does not hold", "bad")
