"""A rehearsal's report as the blocks of one page: verdict, timeline, gates, what was broken on purpose, who has what."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.base.drawing import Bar, Bars, Lane, Lanes, Point, Span
from regauge.base.pages import Block, Cell, Grid, Heading, Items, Lines, Paragraph, Word
from regauge.rehearsal.pages import seen, word
from regauge.rehearsal.report import Placement, Report, Step

MAX_LANES = 200
MAX_ROWS = 2_000
BEFORE, AFTER, RETURNED = "before", "after the plan", "after the way back"


def report_blocks(report: Report) -> tuple[Block, ...]:
    """The whole report as the blocks of one page."""
    failed = [step.title for step in report.steps if not step.holds]
    verdict = Word("The move holds" if report.holds else "The move does NOT hold", "good" if report.holds else "bad")
    facts = (
        f": {len(report.steps) - len(failed)} of {len(report.steps)} steps. {report.source}, {report.mode.value},"
        f" Kubernetes {report.kube_version}, seed {report.seed}."
    )
    blocks: list[Block] = [Paragraph((verdict, facts))]
    if failed:
        blocks.append(Items(tuple(Word(title, "bad") for title in failed)))
    blocks += [*_drawn(report), Heading("Steps and gates"), _steps(report.steps), *_faults(report)]
    blocks += [*_attribution(report), *_placements(report), *_pods(report), *_ownership(report)]
    if report.notes:
        blocks += [Heading("Notes"), Items(report.notes)]
    return tuple(blocks)


def _drawn(report: Report) -> Iterator[Block]:
    """A bar for each step from its begin to its end, a dot on it for each time that the rollout was killed in it."""
    lanes = []
    for step in report.steps[:MAX_LANES]:
        killed = _killed(step)
        points = (Point(step.began_s, "the rollout was killed", f"{killed} times in this step"),) if killed else ()
        told = f"{step.title}: {'holds' if step.holds else 'does not hold'}"
        lanes.append(Lane(step.title, points, (Span(step.began_s, step.ended_s, told, not step.holds),)))
    if lanes:
        yield Lanes("What happened when", tuple(lanes))


def _killed(step: Step) -> int:
    killed = step.details.get("killed", 0)
    return killed if isinstance(killed, int) else 0


def _steps(steps: tuple[Step, ...]) -> Grid:
    rows = tuple(
        (
            f"{step.began_s:.1f} s",
            f"{step.ended_s - step.began_s:.1f} s",
            str(step.details.get("phase", "-")),
            step.title,
            word(step.holds),
            seen(step.checks),
        )
        for step in steps[:MAX_ROWS]
    )
    return Grid(("at", "took", "phase", "step", "", "gates and checks"), rows)


def _faults(report: Report) -> Iterator[Block]:
    """What was broken in which step, as the steps note it."""
    told: dict[str, list[str]] = {}
    for step in report.steps:
        if _killed(step):
            told.setdefault(step.name, []).append(f"the rollout was killed {_killed(step)} times")
        planned = step.details.get("faults")
        for name, faults in planned.items() if isinstance(planned, dict) else ():
            told.setdefault(str(name), []).extend(map(str, faults))
    if told:
        yield Heading("What went wrong on purpose")
        yield Grid(("step", "what"), tuple((name, Lines(tuple(faults))) for name, faults in told.items()))


def _attribution(report: Report) -> Iterator[Block]:
    if not report.attribution:
        return
    yield Heading("Devices by workload")
    moved = {item.workload for item in report.comparisons}
    bars = tuple(
        Bar(f"{item.workload}, {when}", {"devices": count})
        for item in [item for item in report.attribution if item.workload in moved][: MAX_LANES // 3]
        for when, count in ((BEFORE, item.before), (AFTER, item.after), (RETURNED, item.returned))
    )
    if bars:
        yield Bars("Attribution of what moved", ("devices",), bars)
    rows: list[tuple[Cell, ...]] = []
    for item in report.attribution[:MAX_ROWS]:
        same = item.before == item.after == item.returned
        numbers = (str(item.before), str(item.after), str(item.returned))
        rows.append((item.workload, *numbers, Word("equal", "good") if same else Word("differs", "bad")))
    yield Grid(("workload", BEFORE, AFTER, RETURNED, ""), tuple(rows))


def _placements(report: Report) -> Iterator[Block]:
    if report.comparisons:
        yield Heading("Where they ran")
        rows = [
            (item.workload, when, *_place(place))
            for item in report.comparisons[:MAX_ROWS]
            for when, place in ((BEFORE, item.before), (AFTER, item.after), (RETURNED, item.returned))
            if place is not None
        ]
        yield Grid(("workload", "", "stack", "pod", "node", "devices", "started in"), tuple(rows))


def _place(place: Placement) -> tuple[Cell, ...]:
    start = "-" if place.start_s is None else f"{place.start_s:.2f} s"
    return (place.stack, place.pod, place.node, ", ".join(place.devices) or "-", start)


def _pods(report: Report) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = [
        (row.workload, row.pod, row.asks, row.expected, row.found, row.why or "as in the dump")
        for row in report.pods
        if not row.agrees
    ]
    if rows:
        yield Heading("Pods that are elsewhere than in the dump")
        columns = ("workload", "pod", "asks for", "in the dump", "in the rehearsal", "why")
        yield Grid(columns, tuple(rows[:MAX_ROWS]))


def _ownership(report: Report) -> Iterator[Block]:
    if report.ownership:
        yield Heading("Who owns the devices")
        rows: list[tuple[Cell, ...]] = [
            (
                row.node,
                row.identity,
                Word(" AND ".join(row.stacks), "bad" if len(row.stacks) > 1 else ""),
                ", ".join(row.advertised_as),
                ", ".join(row.holders) or "-",
            )
            for row in report.ownership
        ]
        yield Grid(("node", "device", "owned by", "advertised as", "held by"), tuple(rows[:MAX_ROWS]))
