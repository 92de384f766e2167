"""Scenarios on a real cluster, through its API alone: what that cannot do or see is left out, and said step by step.

Nothing is broken there: after a fault that was left out the rest of a scenario means something else, and is left out,
too. A scenario's objects are in a namespace that is made for it and deleted with all of them; a device class that is
there already must be the same.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from msgspec import structs

from regauge.base import Clock, InputError, Randomness
from regauge.cluster.story import Write
from regauge.features import minor_of, parse_feature_gates, rules
from regauge.kube import AlreadyExists, KubeClient, NotFound
from regauge.model import Object
from regauge.model.kinds import DEVICE_CLASS, NAMESPACE, NODE, RESOURCE_SLICE
from regauge.rehearsal.findings import findings
from regauge.rehearsal.looks import writes_since
from regauge.rehearsal.mirroring import UNKNOWN, MirrorWorld, Moved
from regauge.rehearsal.playing import Done, Listen, Played, Stage, title_of
from regauge.rehearsal.scenario import Look, Scenario, Step
from regauge.rehearsal.stopping import run_live

BY = re.compile(r" by [^ *]+\*?")
API_FINDINGS = ("allocated-device-not-published", "allocated-device-tainted", "partial-holder")
PUBLISHED_WITHIN_S = 30.0
POLL_S = 0.5
GONE_WITHIN_S = 120.0


def play_real(
    scenario: Scenario,
    connect: Callable[[], KubeClient],
    clock: Clock,
    chance: Randomness,
    listen: Listen,
    nodes: Mapping[str, str] = MappingProxyType({}),
) -> Played:
    """The same from outside of any loop. `connect` makes the client, which is closed in the end."""

    async def main() -> Played:
        kube = connect()
        try:
            return await play_on(scenario, kube, clock, chance, listen, nodes)
        finally:
            await kube.close()

    return run_live(main())


async def play_on(
    scenario: Scenario,
    kube: KubeClient,
    clock: Clock,
    chance: Randomness,
    listen: Listen,
    nodes: Mapping[str, str] = MappingProxyType({}),
) -> Played:
    """One scenario on the cluster behind `kube`. `nodes`: what the scenario's nodes are called there.

    Raises `InputError` when the cluster lacks what it needs."""
    minor = minor_of((await kube.version()).minor)
    namespace = f"regauge-verify-{chance.getrandbits(32):08x}"
    await kube.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    moved = Moved(kube, namespace, nodes)
    world = MirrorWorld(moved, clock, rules(minor, parse_feature_gates(scenario.feature_gates)))
    stage = RealStage(scenario, world, listen)
    try:
        await world.follow()
        await stage.build()
        for step in scenario.steps:
            await stage.take(step)
        await stage.close()
    finally:
        await world.stop()
        await _clean(kube, moved, namespace, clock)
    return Played(
        name=scenario.name,
        title=scenario.title,
        rows=scenario.rows,
        mode=world.mode,
        kube_version=minor,
        seed=0,
        steps=tuple(stage.done),
        tables=tuple(stage.tables),
        timelines=stage.story(),
        findings=tuple(stage.found),
    )


async def _clean(kube: KubeClient, moved: Moved, namespace: str, clock: Clock) -> None:
    """Everything that was made is gone afterwards, or going."""
    for kind, name in reversed(moved.made):
        with contextlib.suppress(NotFound):
            await kube.delete(kind, name)
    until_s = clock.monotonic_s() + GONE_WITHIN_S
    with contextlib.suppress(NotFound):
        await kube.delete(NAMESPACE, namespace)
        while clock.monotonic_s() < until_s:
            await kube.get(NAMESPACE, namespace)
            await clock.sleep(POLL_S)


class RealStage(Stage):
    """A scenario under way on a real cluster."""

    world: MirrorWorld

    def __init__(self, scenario: Scenario, world: MirrorWorld, listen: Listen) -> None:
        super().__init__(scenario, world, listen)
        self._left_out = ""
        self._absent: frozenset[str] = frozenset()

    async def build(self) -> None:
        """The nodes and their devices must be there; the objects of the setup are made."""
        await self._devices()
        for told in self.scenario.setup:
            await self._create(self.scenario.object(told))
        self.began_s, self._epoch_s = self.world.clock.monotonic_s(), self.world.clock.now_s()
        self._since = len(self.world.control.api.state.story)

    async def _devices(self) -> None:
        """Raises `InputError` when none of the scenario's nodes has the scenario's devices."""
        wanted = {node.name: self._published_by(node.devices) for node in self.scenario.nodes}
        until_s = self.world.clock.monotonic_s() + PUBLISHED_WITHIN_S
        while True:
            have = self._have()
            ready = {name for name, devices in wanted.items() if have.get(name, frozenset()) >= devices}
            late = self.world.clock.monotonic_s() > until_s
            if ready and (ready == wanted.keys() & have.keys() or late):
                break
            if late:
                raise InputError(
                    f"no node of this cluster has the devices of scenario {self.scenario.name}",
                    fix=f"call nodes {', '.join(wanted)} and let regauge driver publish the scenario's devices there",
                )
            await self.world.clock.sleep(POLL_S)
        self._absent = frozenset(wanted.keys() - ready)

    def _published_by(self, described: str) -> frozenset[str]:
        document = self.scenario.devices.get(described) or {}
        return frozenset(
            f"{document['driver']}/{one['name']}" for one in document.get("devices") or () if one["stack"] == "dra"
        )

    def _have(self) -> Mapping[str, frozenset[str]]:
        """By node that is there: driver and device."""
        api = self.world.control.api
        have: dict[str, frozenset[str]] = {one["metadata"]["name"]: frozenset() for one in api.list(NODE)}
        for slice_ in api.list(RESOURCE_SLICE):
            spec = slice_["spec"]
            node = spec.get("nodeName")
            if node in have:
                have[node] |= {f"{spec['driver']}/{one['name']}" for one in spec.get("devices") or ()}
        return have

    async def _create(self, object_: Object) -> None:
        if object_.get("kind") != DEVICE_CLASS.kind:
            await super()._create(object_)
            return
        try:
            await self.world.kube.create(DEVICE_CLASS, object_)
        except AlreadyExists:
            name = object_["metadata"]["name"]
            if (await self.world.kube.get(DEVICE_CLASS, name))["spec"] != object_["spec"]:
                raise InputError(
                    f"there is a DeviceClass {name} that says something else",
                    fix="take a cluster for tests, or delete the class",
                ) from None

    async def take(self, step: Step) -> None:
        """One step, as far as the API goes."""
        if step.verb == "fault" and not self._left_out:
            self._left_out = "a fault was left out before it"
            self._leave_out(step, "nothing is broken on a real cluster")
            return
        possible, why = self._possible(step)
        if possible is None:
            self._leave_out(step, why)
            return
        await super().take(possible)
        if why:
            self.done[-1] = replace(self.done[-1], left_out=why)

    def _leave_out(self, step: Step, why: str) -> None:
        now_s = self._now_s()
        self._add(Done(step.title or title_of(step, self.scenario), step.verb, (), now_s, now_s, left_out=why))

    def _possible(self, step: Step) -> tuple[Step | None, str]:
        """What can be done of a step, and why not all of it."""
        if self._left_out:
            return None, self._left_out
        if step.verb == "table":
            return (step, "") if step.table == "claims" else (None, "what nodes hold is not told by the API")
        if step.verb not in ("wait", "expect"):
            return step, ""
        told = [self._visible(look) for look in step.looks]
        looks = tuple(look for look, _ in told if look is not None)
        why = "; ".join(dict.fromkeys(text for _, text in told if text))
        if not looks:
            return None, why
        return structs.replace(step, **{step.verb: looks}), why

    def _visible(self, look: Look) -> tuple[Look | None, str]:
        """What can be seen of a look through the API, and why not all of it."""
        why = self._invisible(look)
        if why:
            return None, why
        if look.subject == "writes":
            return self._told_writes(look)
        if look.subject == "pod" and look.devices is not None:
            return structs.replace(look, devices=None), "what containers hold is not told by the API"
        return look, ""

    def _told_writes(self, look: Look) -> tuple[Look | None, str]:
        """Watches do not tell who deletes; clusters that keep no managed fields do not tell who writes."""
        kept = tuple(one for one in look.writes if not one.startswith("delete") and "deletionTimestamp" not in one)
        why = ["who deletes is not told by a watch"] if kept != look.writes else []
        if any(write.actor == UNKNOWN and not _deletes(write) for write in writes_since(self.world, self._since)):
            kept = tuple(BY.sub(" by *", one) for one in kept)
            why.append("who writes is not told by this cluster")
        return (structs.replace(look, writes=kept) if kept else None), "; ".join(why)

    def _invisible(self, look: Look) -> str:
        node = look.device.partition("/")[0] or look.on_node or look.node
        if node in self._absent:
            return f"there is no node {node} with these devices here"
        if self._absent and look.count is not None:
            return f"counted with nodes {', '.join(sorted(self._absent))}, which are not here"
        if look.subject == "device" and look.is_ in ("prepared", "not-prepared"):
            return "what is prepared on nodes is not told by the API"
        if look.subject == "finding" and look.finding not in API_FINDINGS:
            return "this finding needs a look at the nodes"
        return ""

    async def close(self) -> None:
        """What the API tells of leftovers; the rest of a scenario's settling needs the nodes."""
        self.found = [str(item) for item in findings(self.world) if item.code in API_FINDINGS]


def images_of(value: object) -> frozenset[str]:
    """The images that a scenario's containers want."""
    if isinstance(value, dict):
        own = {value["image"]} if isinstance(value.get("image"), str) else set()
        return frozenset(own).union(*map(images_of, value.values()))
    if isinstance(value, list | tuple):
        return frozenset().union(*map(images_of, value))
    return frozenset()


def _deletes(write: Write) -> bool:
    return write.verb == "delete" or any("deletionTimestamp" in item for item in write.fields)
