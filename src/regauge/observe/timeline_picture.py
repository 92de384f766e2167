"""A timeline as a picture of its own (SVG) and as blocks of a page: a lane for the claim, each device, each pod. Pure.

Every moment has a number, which the list below the lanes explains; a hollow mark is an inferred time, drawn at the latest it
can have been, with a line back to the earliest. Time is drawn shorter where nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from math import log2

from regauge.base import human_duration
from regauge.base.drawing import Lane, Lanes, Point, Span
from regauge.base.pages import Block, Grid, Items, Paragraph, safe
from regauge.observe.timeline import Period, PeriodKind, Timeline
from regauge.observe.timeline_parts import Certainty, Moment

LEFT, LANE, TOP, RIGHT, LINE = 230, 34, 70, 40, 18
NARROWEST, WIDER, DOT = 26.0, 18.0, 9
LABEL_WIDTH, LABEL_LENGTH, TEXT_LENGTH = 76.0, 34, 130
LEAST_WIDTH = 900
COLOURS: Mapping[PeriodKind, str] = {
    PeriodKind.waiting: "#d97706",
    PeriodKind.placing: "#eab308",
    PeriodKind.allocated: "#2563eb",
    PeriodKind.starting: "#7c3aed",
    PeriodKind.running: "#15803d",
    PeriodKind.ending: "#64748b",
    PeriodKind.tainted: "#b91c1c",
}
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#111}.dim{fill:#555}.lane{stroke:#8888}.mark{fill:#fff;stroke:#111}"
    ".sure{fill:#111}.sure+text{fill:#fff}.ground{fill:#fff}.n{font-size:10px;text-anchor:middle}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.dim{fill:#aaa}.ground{fill:#16181d}.mark{fill:#16181d;stroke:#eee}"
    ".sure{fill:#eee}.sure+text{fill:#111}}"
)


def title_of(timeline: Timeline) -> str:
    """What the timeline is of."""
    node = f" on {timeline.node}" if timeline.node else ""
    return f"ResourceClaim {timeline.namespace}/{timeline.claim}: {timeline.state}{node}"


def as_svg(timeline: Timeline) -> str:
    """The picture as a file that refers to nothing outside of itself."""
    places = _places(_times(timeline))
    lanes = lanes_of(timeline)
    width = max(LEFT + max(places.values(), default=0.0) + RIGHT, LEAST_WIDTH)
    bottom = TOP + LANE * len(lanes)
    height = bottom + 30 + LINE * (len(timeline.moments) + len(timeline.not_known) + 1)
    title = safe(title_of(timeline))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"'
        f' viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{title}">',
        f"<title>{title}</title><style>{STYLE}</style>",
        f'<rect class="ground" width="{width:.0f}" height="{height}"/><text x="12" y="24" font-weight="600">{title}</text>',
        *_axis(places, bottom),
        *_keys(timeline.periods),
    ]
    numbers = {one: number for number, one in enumerate(timeline.moments, 1)}
    for index, subject in enumerate(lanes):
        parts += _lane(subject, TOP + LANE * index + LANE // 2, width, timeline, places, numbers)
    parts += _list(timeline, bottom + 30)
    return "".join(parts) + "</svg>\n"


def lanes_of(timeline: Timeline) -> list[str]:
    """Who has a lane: the claim first, then devices, nodes and pods by name."""
    order = {"claim": 0, "device": 1, "node": 2, "pod": 3}
    subjects = {one.subject for one in timeline.moments} | {one.subject for one in timeline.periods}
    return sorted(subjects, key=lambda one: (order.get(one.partition(" ")[0], 9), one))


def _times(timeline: Timeline) -> set[float]:
    times = {one.at_s for one in timeline.moments}
    times |= {one.from_s for one in timeline.moments if one.from_s is not None}
    times |= {at_s for one in timeline.periods for at_s in (one.from_s, one.to_s) if at_s is not None}
    last = max(times, default=0.0)
    return times | ({timeline.now_s} if timeline.now_s is not None and timeline.now_s > last else set())


def _places(times: Iterable[float]) -> dict[float, float]:
    """Where each moment is drawn, from the left: never too near to the one before, and never far."""
    found: dict[float, float] = {}
    x, last = NARROWEST, None
    for at_s in sorted(times):
        if last is not None:
            x += NARROWEST + WIDER * log2(1.0 + at_s - last)
        found[at_s], last = x, at_s
    stretch = max(1.0, (LEAST_WIDTH - LEFT - RIGHT) / x)
    return {at_s: place * stretch for at_s, place in found.items()}


def _axis(places: Mapping[float, float], bottom: int) -> Iterator[str]:
    free = 0.0
    first = min(places, default=0.0)
    for at_s, x in places.items():
        if x < free:
            continue
        free = x + LABEL_WIDTH
        after = f"+{human_duration(at_s - first)}" if at_s > first else clock_text(at_s)
        yield f'<text class="dim" x="{LEFT + x:.1f}" y="58" text-anchor="middle">{after}</text>'
        yield f'<line class="lane" x1="{LEFT + x:.1f}" x2="{LEFT + x:.1f}" y1="62" y2="{bottom}" stroke-dasharray="2 3"/>'


def _keys(periods: Iterable[Period]) -> Iterator[str]:
    x = float(LEFT)
    for kind in dict.fromkeys(one.kind for one in periods):
        yield f'<rect x="{x:.0f}" y="32" width="12" height="10" rx="2" fill="{COLOURS[kind]}"/>'
        yield f'<text class="dim" x="{x + 16:.0f}" y="41">{safe(kind.value)}</text>'
        x += 32 + 7 * len(kind.value)


def _lane(
    subject: str, y: int, width: float, timeline: Timeline, places: Mapping[float, float], numbers: Mapping[Moment, int]
) -> Iterator[str]:
    short = subject if len(subject) <= LABEL_LENGTH else f"{subject[: LABEL_LENGTH - 1]}…"
    yield f'<text x="12" y="{y + 4}">{safe(short)}<title>{safe(subject)}</title></text>'
    yield f'<line class="lane" x1="{LEFT}" x2="{width - RIGHT / 2:.0f}" y1="{y}" y2="{y}"/>'
    end = max(places.values(), default=0.0)
    for period in timeline.periods:
        if period.subject == subject:
            left, right = places[period.from_s], end if period.to_s is None else places[period.to_s]
            lasted = "" if period.to_s is None else f" for {human_duration(period.to_s - period.from_s)}"
            yield (
                f'<rect x="{LEFT + left:.1f}" y="{y - 7}" width="{max(right - left, 2.0):.1f}" height="14" rx="3"'
                f' fill="{COLOURS[period.kind]}" fill-opacity=".75"><title>{safe(period.kind.value)}{lasted}</title></rect>'
            )
    mine = (one for one in timeline.moments if one.subject == subject)
    for at_s, together in groupby(mine, key=lambda one: one.at_s):
        yield from _mark(list(together), numbers, LEFT + places[at_s], y, places)


def _mark(
    together: list[Moment], numbers: Mapping[Moment, int], x: float, y: int, places: Mapping[float, float]
) -> Iterator[str]:
    """One mark for the moments of one time, with their numbers; hollow if all of them are inferred."""
    since = min((one.from_s for one in together if one.from_s is not None), default=together[0].at_s)
    if since < together[0].at_s:
        begin = LEFT + places[since]
        yield f'<line x1="{begin:.1f}" x2="{x:.1f}" y1="{y}" y2="{y}" class="mark" stroke-dasharray="3 2"/>'
    text = " ".join(str(numbers[one]) for one in together)
    width = max(2 * DOT, 8 + 7 * len(text))
    sure = "" if all(one.inferred for one in together) else " sure"
    told = "; ".join(f"{time_text(one)} {one.subject}: {one.text}" for one in together)
    yield f'<rect class="mark{sure}" x="{x - width / 2:.1f}" y="{y - DOT}" width="{width}" height="{2 * DOT}" rx="{DOT}"/>'
    yield f'<text class="n" x="{x:.1f}" y="{y + 4}">{text}<title>{safe(told)}</title></text>'


def _list(timeline: Timeline, y: int) -> Iterator[str]:
    for number, one in enumerate(timeline.moments, 1):
        text = f"{time_text(one)}  {one.subject}: {one.text}"
        text = text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"
        yield f'<text x="34" y="{y}" text-anchor="end">{number}</text><text x="44" y="{y}">{safe(text)}'
        yield f"<title>{safe(one.source)}</title></text>"
        y += LINE
    for text in timeline.not_known:
        yield f'<text class="dim" x="44" y="{y}">not known: {safe(text)}</text>'
        y += LINE


def clock_text(at_s: float) -> str:
    """The time of day; with hundredths where the source has fractions."""
    when = datetime.fromtimestamp(at_s, UTC)
    return when.strftime("%H:%M:%S") + (f".{when.microsecond // 10000:02d}" if when.microsecond >= 10000 else "")


def time_text(one: Moment) -> str:
    """The time of a moment with how sure it is: `17:18:58`, `≤ 17:18:58`, `17:18:57 .. 17:18:58`."""
    if one.certainty is Certainty.between and one.from_s is not None and one.from_s < one.at_s:
        return f"{clock_text(one.from_s)} .. {clock_text(one.at_s)}"
    return f"{'≤ ' if one.certainty is Certainty.at_most else ''}{clock_text(one.at_s)}"


def page_of(timeline: Timeline) -> Iterator[Block]:
    """The same as blocks of a page: lanes, then every moment with its source."""
    moments = timeline.moments
    if moments:
        yield Lanes("What happened when", tuple(_page_lanes(timeline)))
    first = min((one.at_s for one in moments), default=0.0)
    rows = tuple(
        (time_text(one), f"+{human_duration(one.at_s - first)}", one.subject, one.step.value, one.text, one.source)
        for one in moments
    )
    yield Grid(("TIME", "AFTER", "OF", "STEP", "WHAT", "KNOWN FROM"), rows)
    if timeline.not_known:
        yield Paragraph("Not known:")
        yield Items(timeline.not_known)


def _page_lanes(timeline: Timeline) -> Iterator[Lane]:
    first = min(one.at_s for one in timeline.moments)
    end = max(_times(timeline)) - first
    for subject in lanes_of(timeline):
        spans = [
            Span(
                max(one.from_s - first, 0.0),
                end if one.to_s is None else max(one.to_s - first, 0.0),
                one.kind.value,
                one.kind is PeriodKind.tainted,
            )
            for one in timeline.periods
            if one.subject == subject
        ]
        points = [
            Point(one.at_s - first, one.certainty.value, f"{one.step.value}: {one.text}")
            for one in timeline.moments
            if one.subject == subject
        ]
        yield Lane(subject, tuple(points), tuple(spans))
