"""The assessment for people to read and pass on: blocks of a page, with pictures of pools, ownership and readiness. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from regauge.base.drawing import Bar, Bars
from regauge.base.pages import Block, Cell, Grid, Heading, Items, Lines, Paragraph, Word
from regauge.inventory import Inventory, Stack
from regauge.migrate.assessment import Assessment, AssessRow
from regauge.migrate.verdict import Verdict
from regauge.migrate.workloads import AskStack

MAX_BARS = 40
MAX_ROWS = 2_000
"""More of either makes a page that nobody can open; `-o json` has them all."""
BOTH, PLUGIN, DRA, UNSEEN = "both at once", "device plugin", "DRA", "counted, not seen one by one"
READY, BLOCKED, BY_CLAIM, BRIDGED = "nothing in the way", "something in the way", "by claim already", "served by DRA"
_TONES = {Verdict.NOW: "good", Verdict.LATER: "note", Verdict.STAY: ""}


@dataclass(frozen=True, slots=True)
class Told:
    """Where an assessment comes from: the input, its version, what was not read of it, and its devices one by one."""

    source: str
    minor: str
    not_read: tuple[str, ...]
    inventory: Inventory
    pool_by_node: Mapping[str, str]


def assessment_blocks(found: Assessment, told: Told) -> tuple[Block, ...]:
    """The whole assessment as the blocks of one page."""
    counted = [row for row in found.rows if row.stack is AskStack.LIMITS]
    ready = sum(row.ready for row in counted)
    facts = f" on the cluster. Kubernetes {told.minor}, {len(found.rows)} asks, {len(counted)} by device plugin, "
    verdict = (_verdict(found.verdict), f"{facts}{ready} of them with nothing in the way. Input: {told.source}")
    blocks: list[Block] = [Paragraph(verdict)]
    if told.not_read:
        blocks += [Paragraph(Word("Not read, so nothing is known of it:", "bad")), Items(told.not_read[:MAX_BARS])]
    blocks += [_pools(found), _ownership(found, told), _readiness(found.rows)]
    blocks += [Heading("Node pools"), _pool_rows(found), *_sharing(found), *_mixed(found)]
    blocks += [Heading("Workloads"), *_workloads(found.rows), Heading("Why"), *_reasons(found.rows)]
    return (*blocks, *_dependents(found))


# -- pictures


def _pools(found: Assessment) -> Bars:
    bars = [
        Bar(pool.pool, {PLUGIN: sum(pool.device_plugin.values()), DRA: sum(pool.dra.values())}) for pool in found.pools
    ]
    return Bars("What the pools offer, by stack", (PLUGIN, DRA), _largest(bars))


def _ownership(found: Assessment, told: Told) -> Bars:
    """Devices by physical identity and who owns them; what is only counted has no identity here."""
    parts: dict[str, Counter[str]] = {pool.pool: Counter() for pool in found.pools}
    for device in told.inventory.devices:
        stacks = device.stacks
        owner = BOTH if len(stacks) > 1 else DRA if Stack.DRA in stacks else PLUGIN
        parts.setdefault(told.pool_by_node.get(device.node, "-"), Counter())[owner] += 1
    for item in told.inventory.unseen:
        parts.setdefault(told.pool_by_node.get(item.node, "-"), Counter())[UNSEEN] += item.capacity
    bars = [Bar(pool, dict(count)) for pool, count in parts.items()]
    return Bars("Who owns the devices", (PLUGIN, DRA, BOTH, UNSEEN), _largest(bars))


def _readiness(rows: Iterable[AssessRow]) -> Bars:
    parts: dict[str, Counter[str]] = {
        verdict.value: Counter() for verdict in (Verdict.NOW, Verdict.LATER, Verdict.STAY)
    }
    for row in rows:
        state = READY if row.ready else BLOCKED
        if row.stack is not AskStack.LIMITS:
            state = BY_CLAIM if row.stack is AskStack.CLAIM else BRIDGED
        parts[row.judgement.verdict.value][state] += 1
    bars = tuple(Bar(name, dict(count)) for name, count in parts.items())
    return Bars("Readiness of the asks, by verdict", (READY, BLOCKED, BY_CLAIM, BRIDGED), bars)


def _largest(bars: Sequence[Bar]) -> tuple[Bar, ...]:
    shown = sorted((bar for bar in bars if any(bar.parts.values())), key=lambda bar: -sum(bar.parts.values()))
    return tuple(sorted(shown[:MAX_BARS], key=lambda bar: bar.label))


# -- tables


def _pool_rows(found: Assessment) -> Grid:
    rows = tuple(
        (pool.pool, _verdict(pool.verdict), str(pool.nodes), _counts(pool.device_plugin), _counts(pool.dra))
        for pool in found.pools[:MAX_ROWS]
    )
    return Grid(("node pool", "verdict", "nodes", "by device plugin", "by DRA"), rows)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "-"


def _sharing(found: Assessment) -> Iterator[Block]:
    if found.sharing:
        yield Heading("How devices are shared", 3)
        yield Grid(
            ("node pool", "how", "nodes", "seen by", "by claim", "feature"),
            tuple(
                (item.pool, item.how, str(item.nodes), Lines(item.evidence), item.by_claim, item.feature)
                for item in found.sharing
            ),
        )


def _mixed(found: Assessment) -> Iterator[Block]:
    if found.mixed:
        yield Heading("Labels that not every device of their node is", 3)
        yield Grid(
            ("node", "label", "devices that are so", "published", "chosen by"),
            tuple(
                (
                    item.node,
                    f"{item.label}={item.value}",
                    f"{item.as_said} of {item.devices}",
                    Lines(item.seen),
                    Lines(item.workloads),
                )
                for item in found.mixed[:MAX_ROWS]
            ),
        )


def _workloads(rows: Sequence[AssessRow]) -> Iterator[Block]:
    columns = (
        "workload", "verdict", "stack", "asks for", "per pod", "node pool", "state", "effort", "risk", "needed to move",
    )  # fmt: skip
    yield Grid(columns, tuple(map(_workload, rows[:MAX_ROWS])))
    if len(rows) > MAX_ROWS:
        yield Paragraph(f"{len(rows) - MAX_ROWS} more are not shown here: -o json has them.")


def _workload(row: AssessRow) -> tuple[Cell, ...]:
    return (
        f"{row.title} ({row.part})" if row.part else row.title,
        _verdict(row.judgement.verdict),
        row.stack.value,
        row.asks_for,
        str(row.count or "all"),
        ", ".join(row.pools) or "-",
        row.state,
        row.effort.value,
        str(row.risk),
        Lines(needs_of(row)) if needs_of(row) else Word("nothing", "good"),
    )


def needs_of(row: AssessRow) -> tuple[str, ...]:
    """What a move needs, with what becomes of the manifest."""
    growth = row.growth
    if growth is None or row.stack is not AskStack.LIMITS:
        return row.needs
    if growth.refused:
        return (*row.needs, f"a manifest by hand: {'; '.join(growth.refused)}") if row.ready else row.needs
    grown = growth.lines_by_claim - growth.lines
    return (*row.needs, f"{grown} more lines of manifest, {growth.objects_more} more objects")


def _reasons(rows: Sequence[AssessRow]) -> Iterator[Block]:
    """Why, for every verdict that is not stay; those that stay share one line each."""
    told = [row for row in rows if row.judgement.verdict is not Verdict.STAY]
    columns = ("workload", "asks for", "verdict", "why", "what it needs", "driver", "what would change it")
    if told:
        yield Grid(columns, tuple(map(_reason, told[:MAX_ROWS])))
    counts = Counter((row.judgement.rule, row.judgement.why) for row in rows)
    yield Items(tuple(f"{rule}: {count} asks: {why}" for (rule, why), count in sorted(counts.items())))


def _reason(row: AssessRow) -> tuple[Cell, ...]:
    judgement = row.judgement
    driver = judgement.driver
    features = tuple(f"{item.feature}: {item.stage}, {'on' if item.on else 'off'}" for item in judgement.features)
    return (
        row.title,
        row.asks_for,
        _verdict(judgement.verdict),
        f"{judgement.rule}: {judgement.why}",
        Lines((*(f"{item.need} ({item.id}: {item.evidence})" for item in judgement.triggers), *features)),
        Lines(
            tuple(text for text in (f"{driver.state} {driver.driver}".strip(), driver.evidence, driver.date) if text)
        ),
        Lines(judgement.change),
    )


def _dependents(found: Assessment) -> Iterator[Block]:
    if found.dependents:
        yield Heading("What depends on the names")
        yield Grid(
            ("object", "resource", "what", "where", "with a move"),
            tuple(
                (
                    f"{item.kind} {item.namespace + '/' if item.namespace else ''}{item.name}",
                    item.resource_name,
                    item.what,
                    Lines(item.where),
                    Lines((item.effect, *(f"instead: {name}" for name in item.instead))),
                )
                for item in found.dependents[:MAX_ROWS]
            ),
        )


def _verdict(verdict: Verdict) -> Word:
    return Word(verdict.value, _TONES[verdict])
