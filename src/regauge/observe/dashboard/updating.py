"""Keeps the tables of the page up to date: what devices do at once, why pods wait and what is wrong when there is time.

An estate is looked at in a thread of its own, so that readers are answered meanwhile. What one look costs decides how soon
the next one comes: a cluster that never rests gets a look as often as this machine can afford.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regauge.audit import AuditInput, Ground, audit_ground
from regauge.base import Clock, Randomness
from regauge.collect import AUDIT_KINDS, LIVE_KINDS, Estate, operator_kinds, reports_of
from regauge.model import Kind, Rules, Snapshot
from regauge.observe.dashboard.details import device_details
from regauge.observe.dashboard.devices import Idle, device_tables
from regauge.observe.dashboard.feed import Feed
from regauge.observe.dashboard.findings import finding_tables
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.rollouts import rollout_tables
from regauge.observe.dashboard.supply import supply_tables
from regauge.observe.dashboard.tables import Row, Table
from regauge.observe.dashboard.waiting import Asking, Explained, waiting_table
from regauge.observe.watching import Watched
from regauge.scheduler import State, as_stored

SOONEST_S, LATEST_S = 0.3, 30.0
DEEP_SOONEST_S = 4.0
RESTS, DEEP_RESTS = 1.0, 2.0
"""After a look this many times its duration passes before the next one of its kind."""

EXPLAINING_S = 10.0
_NOT_SERVED = "no version of"
"""A kind that is not served has no objects: nothing of it is unknown."""

_EMPTY = "the input holds no "
"""Of files that may mean that nobody collected it; a cluster that was asked has none, or says that it may not be read."""

LOOK_AROUND_S = 1.0


def followed_kinds() -> tuple[Kind, ...]:
    """What of a cluster is followed: all that an audit of it reads."""
    return (*LIVE_KINDS, *operator_kinds(), *AUDIT_KINDS)


@dataclass(frozen=True, slots=True)
class World:
    """What a dashboard asks for beside the estate."""

    clock: Clock
    chance: Randomness
    rules: Rules


class Dashboard:
    """The tables in `feed`, made from one estate (`show`) or from a cluster that is followed (`follow`)."""

    def __init__(self, feed: Feed, world: World) -> None:
        self.feed = feed
        self._world = world
        self._about: dict[str, Row] = {}
        self._look: Look | None = None
        self._explained = Explained()
        self._idle = Idle()

    def details(self, name: str) -> Mapping[str, object] | None:
        """What is known of a device beside its row, by the row's name."""
        return device_details(self._look, name) if self._look is not None else None

    async def show(self, estate: Estate) -> None:
        """Show an estate that does not change. Raises `InputError` for objects that cannot be read at all."""
        self._tell("page", mode="still", source=estate.source, kubernetes=estate.git_version or "")
        self._publish(await asyncio.to_thread(self._devices, estate))
        await self._look_deeper(replace(estate, snapshot=_own(estate.snapshot)))

    async def follow(self, watched: Watched, estate: Estate) -> None:
        """Follow a cluster until cancelled. `estate` says what it is; its objects are those of `watched`."""
        self._tell("page", mode="live", source=estate.source, kubernetes=estate.git_version or "", state="reading")
        while not watched.ready:
            await self._news(watched, watched.revision, LOOK_AROUND_S)
            self._tell_lost(watched)
        deep = _Deep()
        try:
            while True:
                began_s = self._world.clock.monotonic_s()
                revision = watched.revision
                now = replace(estate, snapshot=watched.snapshot(), skipped=watched.skipped)
                self._publish(await asyncio.to_thread(self._devices, now))
                self._tell_lost(watched)
                if deep.may_begin():
                    deep.begin(revision, self._follow_deeper(replace(now, snapshot=_own(now.snapshot))))
                took_s = self._world.clock.monotonic_s() - began_s
                await self._world.clock.sleep(max(SOONEST_S, RESTS * took_s))
                await self._rest(watched, revision, deep)
        finally:
            deep.end()

    async def _rest(self, watched: Watched, revision: int, deep: _Deep) -> None:
        """Wait for news, or until the deep look may look at those there were. But ages go on without any."""
        until_s = self._world.clock.monotonic_s() + LATEST_S
        while watched.revision == revision and self._world.clock.monotonic_s() < until_s:
            if deep.revision != revision and deep.may_begin():
                return
            await self._news(watched, revision, LOOK_AROUND_S)
            self._tell_lost(watched)

    async def _news(self, watched: Watched, revision: int, within_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await watched.changed(revision)

    async def _follow_deeper(self, estate: Estate) -> None:
        began_s = self._world.clock.monotonic_s()
        await self._look_deeper(estate)
        took_s = self._world.clock.monotonic_s() - began_s
        await self._world.clock.sleep(max(DEEP_SOONEST_S, DEEP_RESTS * took_s))

    async def _look_deeper(self, estate: Estate) -> None:
        """What waits and what is wrong. A mistake of ours in one of many rules is told on the page and takes nothing else
        from whoever needs it now."""
        if "deep" not in self._about:
            self._tell("deep", state="looking")
        try:
            self._publish(await asyncio.to_thread(self._deep, estate))
        except Exception as error:
            self._tell("deep", state="failed", why=f"{type(error).__name__}: {error}")
        else:
            self._tell("deep", state="known", why="", atS=int(self._world.clock.now_s()))

    # -- the two looks

    def _devices(self, estate: Estate) -> dict[str, Table]:
        ground = Ground(self._given(estate))
        look = Look(ground.snapshot, self._world.rules, self._world.clock.now_s(), ground.given.reports)
        tables = {**device_tables(look, self._idle), **rollout_tables(look.snapshot)}
        self._look = look
        return tables

    def _deep(self, estate: Estate) -> dict[str, Table]:
        ground = Ground(self._given(estate))
        stored = as_stored(ground.snapshot)
        look = Look(stored, self._world.rules, self._world.clock.now_s(), ground.given.reports)
        until_s = self._world.clock.monotonic_s() + EXPLAINING_S
        asking = Asking(
            explained=self._explained,
            state=ground.state if stored is ground.snapshot else State.of(stored, self._world.rules),
            chance=self._world.chance,
            go_on=lambda: self._world.clock.monotonic_s() < until_s,
        )
        beside = [(one.what, one.why) for one in estate.skipped if not one.why.startswith(_NOT_SERVED)]
        beside += [(document.title, str(error)) for document, error in ground.unreadable]
        audit = audit_ground(ground, None)
        if self._is_live:
            audit = replace(audit, unknown=tuple(one for one in audit.unknown if not one.why.startswith(_EMPTY)))
        tables = finding_tables(audit, beside)
        return {"waiting": waiting_table(look, asking), **tables, **supply_tables(ground, look)}

    def _given(self, estate: Estate) -> AuditInput:
        return AuditInput(
            snapshot=estate.snapshot,
            rules=self._world.rules,
            source=estate.source,
            now_s=self._world.clock.now_s(),
            nodes=estate.nodes,
            reports=reports_of(estate) if estate.nodes else (),
            server_version=estate.git_version or "",
        )

    # -- telling

    @property
    def _is_live(self) -> bool:
        return self._about.get("page", {}).get("mode") == "live"

    def _publish(self, tables: Mapping[str, Table]) -> None:
        news = self.feed.publish(tables)
        if self._is_live and (news or self._about["page"]["state"] != "current"):
            self._tell("page", state="current", atS=int(self._world.clock.now_s()))

    def _tell(self, name: str, **what: Any) -> None:
        self._about = {**self._about, name: {**self._about.get(name, {}), **what}}
        self.feed.publish({"about": self._about})

    def _tell_lost(self, watched: Watched) -> None:
        since_s = int(min(watched.lost.values(), default=0))
        if self._about["page"].get("lostS", 0) != since_s:
            self._tell("page", lostS=since_s)


class _Deep:
    """The deep look under way, or resting after one, and the revision it is of."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self.revision = -1

    def may_begin(self) -> bool:
        """Raises what the last one ended in, if it did."""
        if self._task is not None and self._task.done():
            self._task.result()
            self._task = None
        return self._task is None

    def begin(self, revision: int, look: Coroutine[None, None, None]) -> None:
        self.revision = revision
        self._task = asyncio.create_task(look)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _own(snapshot: Snapshot) -> Snapshot:
    """The same snapshot for another thread: what is remembered in one is not seen by the other."""
    return snapshot.replaced({kind: snapshot.documents(kind) for kind in snapshot.kinds()})
