"""Keeps the answer to a scrape ready: a cluster is followed, and when something changed the metrics are worked out anew.

A scrape costs nothing but the sending: what it gets is of at most a few seconds ago, and says of when it is. The work is done
in a thread of its own, so that scrapes and watches are served meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from regauge.audit import AuditInput
from regauge.base import Clock, Files, InputError, TransientError
from regauge.collect import Estate, Skipped, list_newest
from regauge.kube import Forbidden, KubeClient, NotFound, listed_documents
from regauge.model import Document, Kind, NodeReport, Rules, Snapshot
from regauge.model.kinds import (
    CORE_EVENT,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    JOB,
    NODE,
    POD,
    POD_GROUP,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from regauge.observe.advancing import advance
from regauge.observe.exposition import OLD, OPENMETRICS, Exposition, Filled, fill
from regauge.observe.families import MOST_SERIES, Family, Scope, Series
from regauge.observe.history import History, from_bytes, to_bytes
from regauge.observe.metric_moment import Moment, Upkeep, merged_reports
from regauge.observe.pending import Explained
from regauge.observe.ports import Readings, Source, Trouble
from regauge.observe.registry import FAMILIES
from regauge.observe.watching import Watched

SOONEST_S, LATEST_S = 2.0, 15.0
RESTS, LONGEST_REST_S = 3.0, 30.0
"""After a look so many times its duration pass before the next one, but no longer than that."""

SAVE_EVERY_S = 30.0
RULES_EVERY_S = 600.0
LOOK_AROUND_S = 0.05
STALE_INTERVALS = 3
DEVICE_PLUGIN = "device-plugin"


@dataclass(frozen=True, slots=True)
class Options:
    """`node`: the node whose sources and kubelet are asked; then only is told what nobody else can tell of it. "" for all.

    `state` is the file in which counters survive ("" for none), `interval_s` how often sources are read, `most_series` the
    limit of one family. `version` is the exporter's own.
    """

    node: str = ""
    state: str = ""
    interval_s: float = LATEST_S
    most_series: int = MOST_SERIES
    version: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """What the exporter asks of the world. `rules` says what holds in the cluster now; `tell` hears what is worth saying.

    `reports` are what nodes told once and for all, in the files of a bundle.
    """

    clock: Clock
    files: Files
    rules: Callable[[], Awaitable[Rules]]
    tell: Callable[[str], None]
    sources: Sequence[Source] = ()
    reports: tuple[NodeReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a scrape gets, and of when it is."""

    now_s: float
    body: bytes
    compressed: bytes


def families_of(node: str) -> tuple[Family, ...]:
    """The families that an exporter of a node tells, or all. Of those by stack, of a node only what its kubelet knows."""
    if not node:
        return FAMILIES
    told = (one for one in FAMILIES if one.scope is not Scope.CLUSTER)
    return tuple(_of_plugins(one) if one.scope is Scope.STACK else one for one in told)


def _of_plugins(family: Family) -> Family:
    place = family.labels.index("stack")

    def samples(moment: Moment) -> Iterable[Series]:
        return (one for one in family.samples(moment) if one[0][place] == DEVICE_PLUGIN)

    return replace(family, samples=samples)


class Followed(Protocol):
    """A cluster that is followed, as `observe.watching.Watched` does it."""

    revision: int

    @property
    def ready(self) -> bool: ...

    @property
    def resources(self) -> tuple[str, ...]: ...

    @property
    def skipped(self) -> tuple[Skipped, ...]: ...

    @property
    def lost(self) -> Mapping[str, float]: ...

    @property
    def held_bytes(self) -> int: ...

    def snapshot(self) -> Snapshot: ...

    async def changed(self, since: int) -> None: ...

    async def run(self) -> None: ...


KINDS = (NODE, POD, DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, CORE_EVENT)
OWNER_KINDS = (REPLICA_SET, JOB)
OPTIONAL_KINDS = (DEVICE_TAINT_RULE, POD_GROUP)


def follow(client: KubeClient, clock: Clock, node: str = "") -> Watched:
    """The cluster as an exporter follows it; one of a `node` only the node's own nodes, pods and slices."""
    return Watched(client, clock, KINDS, slim=OWNER_KINDS, only=_only(node), optional=OPTIONAL_KINDS)


def _only(node: str) -> Mapping[Kind, str]:
    found = {CORE_EVENT: "type=Warning"}
    if node:
        found |= {NODE: f"metadata.name={node}", POD: f"spec.nodeName={node}", RESOURCE_SLICE: f"spec.nodeName={node}"}
    return found


async def list_once(client: KubeClient, node: str = "") -> Estate:
    """The same objects by one list of each kind. What may not be read or is not served stands in `Estate.skipped`."""
    version = await client.version()
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for kind in (*KINDS, *OWNER_KINDS, *OPTIONAL_KINDS):
        try:
            served, found = await list_newest(client, kind, "", _only(node).get(kind, ""))
        except Forbidden as error:
            skipped.append(Skipped(kind.resource, f"the verb list on {kind.resource} is missing ({error.message})"))
        except NotFound:
            if kind not in OPTIONAL_KINDS:
                skipped.append(Skipped(kind.resource, f"no version of {kind.kind} is served by this cluster"))
        else:
            documents += listed_documents(served, found)
    return Estate(Snapshot.of(documents), "the current context", version.git_version, skipped=tuple(skipped))


class Still:
    """An estate that does not change, in the place of one that is followed."""

    def __init__(self, estate: Estate) -> None:
        self._estate = estate
        self.revision = 0
        self.ready = True
        self.resources: tuple[str, ...] = ()
        self.skipped = estate.skipped
        self.lost: Mapping[str, float] = {}
        self.held_bytes = 0

    def snapshot(self) -> Snapshot:
        return self._estate.snapshot

    async def changed(self, since: int) -> None:
        await asyncio.Event().wait()

    async def run(self) -> None:
        """Nothing happens."""


def upkeep_of(listed: Estate, version: str) -> Upkeep:
    """What `list_once` read, and what it could not."""
    kinds = (*KINDS, *OWNER_KINDS, *OPTIONAL_KINDS)
    return Upkeep(version, tuple(kind.resource for kind in kinds), tuple(one.what for one in listed.skipped))


def tell_once(given: AuditInput, readings: Sequence[Readings], options: Options, upkeep: Upkeep | None = None) -> bytes:
    """The metrics of one look that nothing comes before or after, in OpenMetrics: durations and failures are those of all
    the objects that are there. `upkeep` says what was read, where that is known.
    """
    moment = Moment(given, readings, upkeep=upkeep or Upkeep(options.version))
    moment.history = advance(History(), moment, whole=True)
    filled = fill(families_of(options.node), moment, options.most_series)
    dropped = {one.family.full_name: one.dropped for one in filled if one.dropped}
    if dropped:
        moment.upkeep = replace(moment.upkeep, dropped=dropped)
        filled = fill(families_of(options.node), moment, options.most_series)
    return Exposition().text(filled, OPENMETRICS)


class Exporter:
    """One exporter. `run` works until it is cancelled; `answer` is what it has to say, None until it has looked once."""

    def __init__(self, watched: Followed, around: World, options: Options) -> None:
        self._watched = watched
        self._around = around
        self._options = options
        self._families = families_of(options.node)
        self._exposition = Exposition()
        self._explained = Explained()
        self._history = History()
        self._saved_s = around.clock.monotonic_s()
        self._rules: tuple[float, Rules] | None = None
        self._readings: dict[str, tuple[float, Readings]] = {}
        self._filled: tuple[Filled, ...] = ()
        self._upkeep = Upkeep(version=options.version)
        self._answer: Answer | None = None
        self._old: tuple[Answer, Answer] | None = None

    @property
    def answer(self) -> Answer | None:
        """The answer in OpenMetrics."""
        return self._answer

    @property
    def refresh_s(self) -> float:
        """How long the last look took, 0 before it."""
        return self._upkeep.refresh_s or 0.0

    async def old_answer(self) -> Answer | None:
        """The same in Prometheus' older format, made when it is asked for."""
        whole = self._answer
        if whole is None:
            return None
        if self._old is None or self._old[0] is not whole:
            filled = self._filled
            body = await asyncio.to_thread(Exposition().text, filled, OLD)
            self._old = whole, Answer(whole.now_s, body, gzip.compress(body, 1))
        return self._old[1]

    async def run(self) -> None:
        """Follow the cluster and the sources, until cancelled; what was counted is saved at the end."""
        self._load()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watched.run(), name="watches")
                for source in self._around.sources:
                    tasks.create_task(self._read(source), name=f"source {source.name}")
                tasks.create_task(self._look(), name="looks")
        finally:
            self._save()
            for source in self._around.sources:
                with contextlib.suppress(Exception):
                    await source.close()

    # -- looking

    async def _look(self) -> None:
        clock = self._around.clock
        while not self._ready():
            await clock.sleep(LOOK_AROUND_S)
        while True:
            began_s, revision = clock.monotonic_s(), self._watched.revision
            readings = self._fresh()
            given = AuditInput(
                snapshot=self._watched.snapshot(),
                rules=await self._rules_now(),
                source="the current context",
                now_s=clock.now_s(),
                reports=merged_reports(self._around.reports, readings),
            )
            try:
                await asyncio.to_thread(self._work, given, readings, self._keep_up())
            except InputError as error:
                self._around.tell(f"not looked at anew: {error}")
            took_s = clock.monotonic_s() - began_s
            self._upkeep = replace(self._upkeep, refresh_s=took_s)
            if clock.monotonic_s() - self._saved_s >= SAVE_EVERY_S:
                await asyncio.to_thread(self._save)
            await clock.sleep(max(SOONEST_S, min(RESTS * took_s, LONGEST_REST_S)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATEST_S - SOONEST_S):
                    await self._watched.changed(revision)

    def _ready(self) -> bool:
        return self._watched.ready and len(self._readings) == len(self._around.sources)

    async def _rules_now(self) -> Rules:
        """What holds in the cluster, asked anew from time to time: it may be upgraded meanwhile."""
        clock = self._around.clock
        while self._rules is None or clock.monotonic_s() - self._rules[0] > RULES_EVERY_S:
            try:
                self._rules = clock.monotonic_s(), await self._around.rules()
            except TransientError:
                if self._rules is not None:
                    break
                await clock.sleep(SOONEST_S)
        return self._rules[1]

    def _keep_up(self) -> Upkeep:
        watched = self._watched
        return replace(
            self._upkeep,
            read=watched.resources,
            unread=tuple(one.what for one in watched.skipped),
            lost=tuple(watched.lost),
            held_bytes=watched.held_bytes,
        )

    def _work(self, given: AuditInput, readings: Sequence[Readings], upkeep: Upkeep) -> None:
        """In the thread: from what is known to what is told."""
        moment = Moment(given, readings, self._history, upkeep, self._explained)
        self._history = moment.history = advance(self._history, moment)
        filled = fill(self._families, moment, self._options.most_series)
        body = self._exposition.text(filled, OPENMETRICS)
        self._filled = filled
        self._upkeep = replace(upkeep, dropped={one.family.full_name: one.dropped for one in filled if one.dropped})
        self._answer = Answer(given.now_s, body, gzip.compress(body, 1))

    # -- sources

    async def _read(self, source: Source) -> None:
        clock, interval_s = self._around.clock, self._options.interval_s
        while True:
            now_s = clock.now_s()
            try:
                async with asyncio.timeout(interval_s):
                    readings = await source.read(now_s)
            except TimeoutError:
                trouble = Trouble(source.name, "", "slow", f"it did not answer within {interval_s:g} s")
                readings = Readings(source.name, troubles=(trouble,))
            self._readings[source.name] = now_s, readings
            await clock.sleep(max(0.1, interval_s - (clock.now_s() - now_s)))

    def _fresh(self) -> tuple[Readings, ...]:
        """What the sources told lately; of one that has not told for a while, only that."""
        limit_s = self._around.clock.now_s() - STALE_INTERVALS * self._options.interval_s
        return tuple(
            readings
            if when_s >= limit_s
            else Readings(name, troubles=(Trouble(name, "", "stale", "its last word is too old"),))
            for name, (when_s, readings) in sorted(self._readings.items())
        )

    # -- the state

    def _load(self) -> None:
        """Take up what an earlier run counted. A file that cannot be read is put aside and told, never overwritten."""
        path, files = self._options.state, self._around.files
        if not path or not files.exists(path):
            return
        try:
            self._history = from_bytes(files.read(path), path)
        except InputError as error:
            aside = next(name for number in range(1, 1000) if not files.exists(name := f"{path}.unreadable-{number}"))
            files.rename(path, aside)
            self._around.tell(f"{error}; it is kept as {aside}, and counting begins anew")

    def _save(self) -> None:
        self._saved_s = self._around.clock.monotonic_s()
        if self._options.state and self._history.moment_s is not None:
            try:
                self._around.files.write(self._options.state, to_bytes(self._history), 0o600)
            except OSError as error:
                self._around.tell(f"the state cannot be written to {self._options.state}: {error}")
