"""Pictures for reports as SVG: bars of parts, and lanes over time. Pure; all text goes through the page's escaping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

COLOURS = ("#2563eb", "#b45309", "#047857", "#7c3aed", "#be123c", "#0e7490", "#4d7c0f", "#475569")
LEFT, LANE, TOP, DOT = 250, 22, 46, 5
NARROWEST, WIDER = 9.0, 16.0
LABEL_WIDTH = 52.0
BAR_WIDTH, BAR_LEAST = 560.0, 1.5
SHORT = 40

Safe = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its parts by name."""

    label: str
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of parts. `names` are the parts in their order, each with a colour of its own."""

    title: str
    names: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """Something that happened at a moment, in seconds."""

    at_s: float
    who: str
    what: str


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted; `bad`: it did not hold."""

    from_s: float
    to_s: float
    what: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """What happened to one thing over time."""

    label: str
    points: tuple[Point, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes one below the other over the same time. `faults` are drawn across all of them."""

    title: str
    lanes: tuple[Lane, ...]
    faults: tuple[tuple[float, str], ...] = ()


# -- bars


def drawn_bars(bars: Bars, safe: Safe) -> str:
    """Bars to one scale, each part with its number where there is room."""
    most = max((sum(bar.parts.values()) for bar in bars.bars), default=0.0)
    colours = dict(zip(bars.names, _repeated(len(bars.names))))
    width, height = LEFT + BAR_WIDTH + LABEL_WIDTH, LANE * len(bars.bars) + 6
    marks: list[str] = []
    for index, bar in enumerate(bars.bars):
        marks += _bar(bar, LANE * index + 4, BAR_WIDTH / most if most else 0.0, colours, safe)
    keys = _keys(colours, safe, lambda colour: f'<rect width="12" height="12" fill="{colour}"/>')
    return f"<h3>{safe(bars.title)}</h3><p>{keys}</p>{_picture(bars.title, width, height, marks, safe)}"


def _bar(bar: Bar, y: int, scale: float, colours: Mapping[str, str], safe: Safe) -> Iterable[str]:
    yield _label(bar.label, y + 13, safe)
    x = float(LEFT)
    for name, colour in colours.items():
        value = bar.parts.get(name, 0)
        if not value:
            continue
        width = max(value * scale, BAR_LEAST)
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE - 6}" fill="{colour}">'
            f"<title>{safe(bar.label)}: {value:g} {safe(name)}</title></rect>"
        )
        if width > 9 * len(f"{value:g}"):
            yield f'<text x="{x + 4:.1f}" y="{y + 12}" style="fill:#fff">{value:g}</text>'
        x += width
    yield f'<text x="{x + 5:.1f}" y="{y + 12}">{sum(bar.parts.values()):g}</text>'


# -- lanes


def drawn_lanes(lanes: Lanes, safe: Safe) -> str:
    """A lane for each thing: a dot for each moment in the colour of who did it, a bar for what lasted; faults across."""
    moments = [point.at_s for lane in lanes.lanes for point in lane.points]
    moments += [at_s for lane in lanes.lanes for span in lane.spans for at_s in (span.from_s, span.to_s)]
    places = _places([*moments, *(at_s for at_s, _ in lanes.faults)])
    colours = _by_program(point.who for lane in lanes.lanes for point in lane.points)
    width = LEFT + max(places.values(), default=0.0) + LABEL_WIDTH
    height = TOP + LANE * len(lanes.lanes) + 8
    marks = [*_axis(places, height), *(_fault(LEFT + places[at_s], text, height, safe) for at_s, text in lanes.faults)]
    for index, lane in enumerate(lanes.lanes):
        marks += _lane(lane, TOP + LANE * index + LANE // 2, width, places, colours, safe)
    keys = _keys(colours, safe, lambda colour: f'<circle cx="6" cy="6" r="{DOT}" fill="{colour}"/>')
    note = "Time is drawn shorter where nothing happens."
    note += " Red lines: what was broken on purpose." if lanes.faults else ""
    return f"<h3>{safe(lanes.title)}</h3><p>{keys}</p>{_picture(lanes.title, width, height, marks, safe)}<p>{note}</p>"


def _lane(
    lane: Lane, y: int, width: float, places: Mapping[float, float], colours: Mapping[str, str], safe: Safe
) -> Iterable[str]:
    yield _label(lane.label, y + 4, safe)
    yield f'<line x1="{LEFT}" x2="{width:.0f}" y1="{y}" y2="{y}" stroke="#8885"/>'
    for span in lane.spans:
        begin, end = LEFT + places[span.from_s], LEFT + places[span.to_s]
        colour = "#b91c1c" if span.bad else "#15803d"
        yield (
            f'<rect x="{begin:.1f}" y="{y - 6}" width="{max(end - begin, BAR_LEAST):.1f}" height="12" rx="2"'
            f' fill="{colour}"><title>{span.from_s:.1f} to {span.to_s:.1f} s: {safe(span.what)}</title></rect>'
        )
    for point in lane.points:
        yield (
            f'<circle cx="{LEFT + places[point.at_s]:.1f}" cy="{y}" r="{DOT}" fill="{colours[point.who]}">'
            f"<title>{point.at_s:.3f} s {safe(point.who)}: {safe(point.what)}</title></circle>"
        )


def _axis(places: Mapping[float, float], height: int) -> Iterable[str]:
    """Seconds, wherever there is room to write them."""
    free = 0.0
    for at_s, x in places.items():
        if x < free:
            continue
        free = x + LABEL_WIDTH
        yield f'<text x="{LEFT + x:.1f}" y="14">{at_s:.1f} s</text>'
        yield f'<line x1="{LEFT + x:.1f}" x2="{LEFT + x:.1f}" y1="18" y2="{height}" stroke="#8883"/>'


def _fault(x: float, text: str, height: int, safe: Safe) -> str:
    return (
        f'<g><line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{height}" stroke="#b91c1c" stroke-width="2"/>'
        f'<text x="{x + 3:.1f}" y="34" class="bad">!</text><title>{safe(text)}</title></g>'
    )


def _places(times: Iterable[float]) -> dict[float, float]:
    """Where each moment is drawn, from the left: never too near to the one before, and never far."""
    found: dict[float, float] = {}
    x, last = NARROWEST, None
    for at_s in sorted(set(times)):
        if last is not None:
            x += NARROWEST + WIDER * log2(1.0 + at_s - last)
        found[at_s], last = x, at_s
    return found


def _by_program(writers: Iterable[str]) -> dict[str, str]:
    """By program: what it writes to a subresource has its colour, too."""
    found: dict[str, str] = {}
    programs: dict[str, str] = {}
    for who in writers:
        program = who.partition("/")[0]
        programs.setdefault(program, COLOURS[len(programs) % len(COLOURS)])
        found[who] = programs[program]
    return found


# -- both


def _picture(title: str, width: float, height: int, marks: Sequence[str], safe: Safe) -> str:
    return (
        f'<div class="drawn"><svg width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" role="img"'
        f' aria-label="{safe(title)}">{"".join(marks)}</svg></div>'
    )


def _label(text: str, y: int, safe: Safe) -> str:
    short = text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
    return f'<text x="0" y="{y}">{safe(short)}<title>{safe(text)}</title></text>'


def _keys(colours: Mapping[str, str], safe: Safe, mark: Callable[[str], str]) -> str:
    return "".join(
        f'<span class="key"><svg width="12" height="12">{mark(colour)}</svg> {safe(name)}</span>'
        for name, colour in colours.items()
    )


def _repeated(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]
