"""The tree of `regauge devices` as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from regauge.base import human_duration
from regauge.cli.view_output import NONE
from regauge.observe import Holding
from regauge.observe.devices_view import NOT_VISIBLE, CountedLine, DeviceLine, DevicesView
from regauge.observe.who_has import held_as, stack_word

INDENT = "  "
COLUMNS = ("NAME", "STACK", "STATE", "SINCE", "USED", "HEALTH")
WIDE = ("ID", "CONTAINER", "CLAIM", "REQUEST", "WORKLOAD")

Row = tuple[str, ...]


def device_rows(view: DevicesView, now_s: float | None, *, wide: bool) -> tuple[tuple[str, ...], list[Row]]:
    """Columns and rows: pools, their nodes, what is on these, and who holds it, each a step further in.

    Nobody shares capacity: then there is no column for it.
    """
    shared = any(line.capacity for line in view.devices)
    columns = (*COLUMNS, *WIDE) if wide else COLUMNS
    table = _Table(now_s)
    rows = [row[: len(columns)] for row in table.rows(view)]
    if shared:
        return columns, rows
    place = COLUMNS.index("USED")
    return columns[:place] + columns[place + 1 :], [row[:place] + row[place + 1 :] for row in rows]


class _Table:
    def __init__(self, now_s: float | None) -> None:
        self._now_s = now_s

    def rows(self, view: DevicesView) -> Iterator[Row]:
        both: list[DeviceLine | CountedLine] = [*view.devices, *view.counted]
        everything = sorted(both, key=lambda line: (line.node_pool, line.node, isinstance(line, CountedLine)))
        for pool, in_pool in groupby(everything, key=lambda line: line.node_pool):
            lines = list(in_pool)
            yield _row(pool, state=_sum(lines))
            for node, on_node in groupby(lines, key=lambda line: line.node):
                here = list(on_node)
                if node:
                    yield _row(f"{INDENT}{node}", state=_sum(here))
                for line in here:
                    yield from self._counted(line) if isinstance(line, CountedLine) else self._device(line)

    def _device(self, line: DeviceLine) -> Iterator[Row]:
        used = ", ".join(f"{one.name} {one.used}/{one.total}" for one in line.capacity)
        health = "; ".join((*line.trouble, *(f"also {name}" for name in line.also))) or "ok"
        name = f"{INDENT * 2}{line.name}"
        yield _row(name, stack_word(line.stack), line.state.value, used=used, health=health, id_=line.physical_id)
        for _, together in groupby((*line.holders, *line.admins), key=_same):
            yield self._holder(list(together))

    def _holder(self, holdings: list[Holding]) -> Row:
        one = holdings[0]
        who = f"pod/{one.namespace}/{one.pod}" if one.pod else f"claim/{one.namespace}/{one.claim}"
        since = "" if one.since_s is None or self._now_s is None else human_duration(self._now_s - one.since_s)
        containers = ",".join(dict.fromkeys(each.container for each in holdings if each.container))
        used = ", ".join(f"{name} {amount}" for name, amount in one.consumed.items())
        more = (containers, one.claim, one.request, str(one.workload))
        return _row(f"{INDENT * 3}{who}", "", held_as(one), since, used, "", "", *more)

    def _counted(self, line: CountedLine) -> Iterator[Row]:
        state = f"{line.asked} of {line.allocatable} asked for"
        lost = line.capacity - line.allocatable
        health = "; ".join(([f"{lost} not allocatable"] if lost > 0 else []) + [NOT_VISIBLE])
        yield _row(f"{INDENT * 2}{line.resource}", "plugin", state, health=health)
        for asker in line.askers:
            yield _row(f"{INDENT * 3}pod/{asker.namespace}/{asker.pod}", state=f"asks for {asker.count}")


def _row(
    name: str,
    stack: str = "",
    state: str = "",
    since: str = "",
    used: str = "",
    health: str = "",
    id_: str = "",
    *more: str,
) -> Row:
    return (name, stack, state, since, used, health, id_, *(more or ("",) * (len(WIDE) - 1)))


def _same(one: Holding) -> tuple[str, ...]:
    return (one.namespace, one.pod, one.claim, one.request, one.share_id)


def _sum(lines: Iterable[DeviceLine | CountedLine]) -> str:
    """How many devices there are, and how many of them are not free."""
    states: Counter[str] = Counter()
    counted = asked = 0
    for line in lines:
        if isinstance(line, CountedLine):
            counted, asked = counted + line.allocatable, asked + line.asked
        else:
            states[line.state.value] += 1
    taken = sum(count for state, count in states.items() if state != "free")
    parts = [f"{taken}/{states.total()} taken"] if states else []
    return ", ".join([*parts, *([f"{asked}/{counted} asked for"] if counted else [])]) or NONE
