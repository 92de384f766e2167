"""A diagnosis when a device falls ill: a bundle of everything that was so at that moment, before it is mended or forgotten.

Health is told by the drivers: a taint in a slice, a counted resource of which less can be allocated than there is. Each look
lists nodes and slices only; the whole cluster is collected when something fell ill since the last look.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from regauge.base import Clock, TransientError
from regauge.collect.bundle import SUFFIX, bundle_bytes
from regauge.collect.estate import Estate
from regauge.collect.privacy import without_secrets
from regauge.kube import KubeClient, read_snapshot
from regauge.model import Quantity, Snapshot
from regauge.model.kinds import NODE, RESOURCE_SLICE

PREFIX = "diagnosis-"
NAME_LENGTH = 100
_SHOWN = 5
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Ailment:
    """A device, or a counted resource, that its driver calls unwell. `device`: driver/pool/device, or the resource's name."""

    node: str
    device: str
    why: str

    def __str__(self) -> str:
        return f"{self.device} on {self.node or 'no one node'} {self.why}"


def ailments(snapshot: Snapshot) -> tuple[Ailment, ...]:
    """What is ill now, by nodes and slices."""
    return (*_tainted(snapshot), *_fewer(snapshot))


def _tainted(snapshot: Snapshot) -> Iterator[Ailment]:
    newest: dict[tuple[str, str], int] = {}
    for one in snapshot.slices:
        key = (one.spec.driver, one.spec.pool.name)
        newest[key] = max(newest.get(key, 0), one.spec.pool.generation)
    for one in snapshot.slices:
        spec = one.spec
        if spec.pool.generation < newest[spec.driver, spec.pool.name]:
            continue
        for device in spec.devices:
            if device.taints:
                told = ", ".join(f"{taint.key}:{taint.effect}" for taint in device.taints)
                name = f"{spec.driver}/{spec.pool.name}/{device.name}"
                yield Ailment(device.node_name or spec.node_name or "", name, f"is tainted {told}")


def _fewer(snapshot: Snapshot) -> Iterator[Ailment]:
    for node in snapshot.nodes:
        for name, text in sorted(node.status.capacity.items()):
            domain, slash, _ = name.partition("/")
            if not slash or domain.endswith("kubernetes.io"):
                continue
            there, usable = _count(text), _count(node.status.allocatable.get(name, "0"))
            if usable < there:
                yield Ailment(node.metadata.name, name, f"can be allocated {usable} times of {there}")


def _count(text: str | int | float) -> int:
    try:
        return Quantity.from_document(text).value()
    except ValueError:
        return 0


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A bundle that was collected, its name, and because of what."""

    name: str
    data: bytes
    because: tuple[Ailment, ...]


class Diagnosis:
    """Looks again and again. `collect` reads the whole cluster, `keep` takes a bundle, `say` hears what cannot be done."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        collect: Callable[[], Awaitable[Estate]],
        keep: Callable[[Diagnosed], None],
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._collect = collect
        self._keep = keep
        self._say = say
        self._known: frozenset[Ailment] = frozenset()

    async def look(self) -> Diagnosed | None:
        """One look; the bundle, where something fell ill since the last one. Raises `ApiError`, `TransientError`."""
        now = frozenset(ailments(await read_snapshot(self._client, (NODE, RESOURCE_SLICE))))
        fresh = tuple(sorted(now - self._known, key=str))
        if not fresh:
            self._known = now
            return None
        estate = await self._collect()
        because = ", ".join(map(str, fresh[:_SHOWN]))
        estate, left_out = without_secrets(replace(estate, source=f"{estate.source}: {because}"))
        moment = datetime.fromtimestamp(self._clock.now_s(), UTC)
        data = bundle_bytes(estate, moment.strftime("%Y-%m-%dT%H:%M:%SZ"), left_out)
        found = Diagnosed(_name(moment, fresh[0]), data, fresh)
        self._keep(found)
        self._known = now
        return found

    async def run(self, every_s: float) -> None:
        """Until it is cancelled. A server that does not answer is asked again."""
        while True:
            try:
                await self.look()
            except TransientError as error:
                self._say(f"no look now: {error}")
            await self._clock.sleep(every_s)


def _name(moment: datetime, first: Ailment) -> str:
    about = _NOT_IN_NAMES.sub("-", f"{first.node}-{first.device}").strip("-.")[:NAME_LENGTH]
    return f"{PREFIX}{moment.strftime('%Y%m%dT%H%M%SZ')}-{about}{SUFFIX}"
