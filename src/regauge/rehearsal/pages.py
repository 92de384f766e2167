"""What scenarios showed, as one HTML page that needs nothing beside it: verdicts, steps, tables, timelines drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import log2

from regauge.rehearsal.playing import Done, Played
from regauge.rehearsal.tables import Table, Timeline

LEFT, LANE, TOP, DOT = 250, 22, 46, 5
NARROWEST, WIDER = 9.0, 16.0
LABEL_WIDTH = 52.0
COLOURS = ("#2563eb", "#b45309", "#047857", "#7c3aed", "#be123c", "#0e7490", "#4d7c0f", "#475569")
STYLE = """
:root{color-scheme:light dark;--line:#8886;--bad:#b91c1c;--good:#15803d}
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1rem}
td,th{border-bottom:1px solid var(--line);padding:.15rem .7rem .15rem 0;text-align:left;vertical-align:top}
section{border-top:2px solid var(--line);margin-top:2rem}
svg{display:block;font:11px system-ui,sans-serif}svg text{fill:currentColor}
.drawn{overflow-x:auto}.holds{color:var(--good)}.fails{color:var(--bad);font-weight:600}
summary{cursor:pointer}.key{margin-right:1.2em;white-space:nowrap}
"""


def as_page(suite: str, played: Sequence[Played]) -> bytes:
    """The whole run. All text comes from scenarios and clusters, and is escaped."""
    failed = [one.name for one in played if not one.holds]
    part = [one.name for one in played if one.holds and one.in_part]
    verdict = f"{len(played) - len(failed) - len(part)} of {len(played)} scenarios hold."
    if part:
        verdict += f" In part, the rest is left out: {', '.join(part)}."
    if failed:
        verdict += f" Not: {', '.join(failed)}."
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>regauge verify {escape(suite)}</title><style>{STYLE}</style>"
    )
    overview = [
        (
            f'<a href="#{_anchor(one)}">{escape(one.name)}</a>',
            escape(one.title),
            _verdict(one),
            f"{one.took_s:.0f} s",
        )
        for one in played
    ]
    body = [
        f"<h1>regauge verify {escape(suite)}</h1><p class={_class(not failed)}>{escape(verdict)}</p>",
        _rows(("scenario", "question", "", "took"), overview),
        *(_scenario(one) for one in played),
    ]
    return (head + "\n".join(body) + "</html>\n").encode()


def _scenario(one: Played) -> str:
    facts = f"{one.mode.value}, Kubernetes {one.kube_version}, seed {one.seed}"
    if one.rows:
        facts += f", answers for {', '.join(map(str, one.rows))}"
    parts = [
        f'<section id="{_anchor(one)}"><h2>{escape(one.name)}: {escape(one.title)}</h2>',
        f"<p>{_verdict(one)} &middot; {escape(facts)}</p>",
        _steps(one.steps),
        *(_table(table) for table in one.tables),
    ]
    if one.findings:
        found = "".join(f"<li>{escape(text)}</li>" for text in one.findings)
        parts.append(f"<h3>Findings in the end</h3><ul>{found}</ul>")
    if one.timelines:
        parts += ["<h3>Who wrote what when</h3>", _drawn(one), _told(one.timelines)]
    return "\n".join([*parts, "</section>"])


def _steps(steps: Iterable[Done]) -> str:
    rows = []
    for step in steps:
        seen = "<br>".join(f"{_word(check.holds)} {escape(check.what)}: {escape(check.seen)}" for check in step.checks)
        if step.left_out:
            seen += f"{'<br>' if seen else ''}left out: {escape(step.left_out)}"
        rows.append((f"{step.began_s:.1f} s", f"{step.ended_s - step.began_s:.1f} s", escape(step.title), seen))
    return _rows(("at", "took", "step", "seen"), rows)


def _table(table: Table) -> str:
    rows = [tuple(map(escape, row)) for row in table.rows]
    return f"<h3>{escape(table.title)}</h3>" + _rows(tuple(map(escape, table.columns)), rows)


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _told(timelines: Sequence[Timeline]) -> str:
    rows = [
        (f"{at_s:.3f} s", escape(line.object), escape(who), escape(what))
        for line in timelines
        for at_s, who, what in line.writes
    ]
    return f"<details><summary>as text</summary>{_rows(('at', 'object', 'by', 'what'), rows)}</details>"


# -- drawing


def _drawn(one: Played) -> str:
    """A lane for each object and a dot for each write, in the colour of its writer; what was broken as lines across."""
    writes = [(at_s, who) for line in one.timelines for at_s, who, _ in line.writes]
    places = _places([*(at_s for at_s, _ in writes), *(at_s for at_s, _ in one.log)])
    colours = _colours(who for _, who in writes)
    width = LEFT + max(places.values(), default=0.0) + LABEL_WIDTH
    height = TOP + LANE * len(one.timelines) + 8
    marks = [*_axis(places, height), *(_fault(LEFT + places[at_s], text, height) for at_s, text in one.log)]
    for index, line in enumerate(one.timelines):
        marks += _lane(line, TOP + LANE * index + LANE // 2, width, places, colours)
    keys = "".join(
        f'<span class="key"><svg width="12" height="12" style="display:inline"><circle cx="6" cy="6" r="{DOT}"'
        f' fill="{colour}"/></svg> {escape(who)}</span>'
        for who, colour in colours.items()
    )
    note = "Time is drawn shorter where nothing happens. Red lines: what was broken on purpose."
    return (
        f'<p>{keys}</p><div class="drawn"><svg width="{width:.0f}" height="{height}" role="img"'
        f' aria-label="writes over time">{"".join(marks)}</svg></div><p>{note}</p>'
    )


def _lane(
    line: Timeline, y: int, width: float, places: Mapping[float, float], colours: Mapping[str, str]
) -> Iterable[str]:
    yield f'<text x="0" y="{y + 4}">{escape(_short(line.object))}<title>{escape(line.object)}</title></text>'
    yield f'<line x1="{LEFT}" x2="{width:.0f}" y1="{y}" y2="{y}" stroke="#8885"/>'
    for at_s, who, what in line.writes:
        yield (
            f'<circle cx="{LEFT + places[at_s]:.1f}" cy="{y}" r="{DOT}" fill="{colours[who]}">'
            f"<title>{at_s:.3f} s {escape(who)}: {escape(what)}</title></circle>"
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


def _fault(x: float, text: str, height: int) -> str:
    return (
        f'<g><line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{height}" stroke="#b91c1c" stroke-width="2"/>'
        f'<text x="{x + 3:.1f}" y="34" style="fill:#b91c1c">!</text><title>{escape(text)}</title></g>'
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


def _colours(writers: Iterable[str]) -> dict[str, str]:
    """By program: what it writes to a subresource has its colour, too."""
    found: dict[str, str] = {}
    programs: dict[str, str] = {}
    for who in writers:
        program = who.partition("/")[0]
        programs.setdefault(program, COLOURS[len(programs) % len(COLOURS)])
        found[who] = programs[program]
    return found


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"


def _anchor(one: Played) -> str:
    return escape(one.name, quote=True)


def _class(holds: bool) -> str:
    return "holds" if holds else "fails"


def _verdict(one: Played) -> str:
    return "in part" if one.holds and one.in_part else _word(one.holds)


def _word(holds: bool) -> str:
    return f"<span class={_class(holds)}>{'holds' if holds else 'does not hold'}</span>"
