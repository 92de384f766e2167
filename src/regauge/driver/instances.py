"""Two instances of one driver on a node, while a newer one replaces an older (kubelet 1.33 and later).

Each has sockets of its own, named after its pod, and the kubelet calls the one that registered last; when that one dies, the
other. So both answer for claims, each call under a lock and from the checkpoint as the call before left it. What only one may
do at a time (publish slices, serve the device plugin, hand devices over) does the instance that leads: the older one, until
it ends, however it ends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from regauge.base import Clock
from regauge.driver.notices import Notice, Tell
from regauge.host import SOCKET_PATH_LIMIT_BYTES
from regauge.pluginapi import PluginNet, RpcError

LEAD_PERIOD_S = 0.2
TURN_LIMIT_S = 20.0  # the kubelet gives up on a call after 45 s
_TURN_FIRST_S = 0.001
_TURN_LAST_S = 0.05
_PROBE_S = 1.0
_UID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class Lock(Protocol):
    """A lock between processes. The machine lets go of it when its holder dies."""

    def take(self) -> bool:
        """Take it now; False when somebody else has it. Raises `OSError`."""

    def release(self) -> None:
        """Let go; not to hold it is fine."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One of several instances: the uid of its pod, and the locks on this machine by path."""

    pod_uid: str
    lock: Callable[[str], Lock]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where an instance is found. `registry` is the socket in plugins_registry, `endpoint` the one that answers."""

    registry: str
    endpoint: str


def addresses(kubelet_dir: str, driver: str, pod_uid: str = "") -> Addresses:
    """The usual names, or those of one of several instances: with the pod's uid, in a shorter form where the path would be
    too long for a socket. The registry's are those of upstream's helper, so that its drivers and this one may follow each
    other."""
    registry, directory = f"{kubelet_dir}/plugins_registry", f"{kubelet_dir}/plugins/{driver}"
    if not pod_uid:
        return Addresses(f"{registry}/{driver}-reg.sock", f"{directory}/dra.sock")
    short, both = _hash(pod_uid, 8), _hash(f"{driver}\0{pod_uid}", 16)
    return Addresses(
        _fitting(
            f"{registry}/{driver}-{pod_uid}-reg.sock",
            f"{registry}/{driver}-{short}-reg.sock",
            f"{registry}/dra-{both}-reg.sock",
        ),
        _fitting(f"{directory}/dra-{pod_uid}.sock", f"{directory}/dra-{short}.sock", f"{directory}/{short[:8]}.sock"),
    )


def _hash(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:size]).decode().rstrip("=")


def _fitting(*paths: str) -> str:
    return next((path for path in paths if len(path.encode()) <= SOCKET_PATH_LIMIT_BYTES), paths[-1])


async def leftovers(kubelet_dir: str, driver: str, mine: Addresses, net: PluginNet) -> tuple[str, ...]:
    """Remove the sockets of instances that died without a chance to. A kubelet that finds one dials it over and over."""
    places = (
        (f"{kubelet_dir}/plugins_registry", re.compile(rf"{re.escape(driver)}(-{_UID})?-reg\.sock")),
        (f"{kubelet_dir}/plugins/{driver}", re.compile(r"[\w-]+\.sock")),
    )
    removed = []
    for directory, pattern in places:
        async with contextlib.aclosing(net.watch(directory)) as seen:
            names = tuple(await anext(seen))
        for name in names:
            path = f"{directory}/{name}"
            if path in (mine.registry, mine.endpoint) or not pattern.fullmatch(name) or await _lives(path, net):
                continue
            await net.remove(path)
            removed.append(path)
    return tuple(removed)


async def _lives(path: str, net: PluginNet) -> bool:
    """Whether somebody may answer there; only a refused connection says that nobody does."""
    try:
        await (await net.connect(path, timeout_s=_PROBE_S)).close()
    except RpcError as error:
        return "connection refused" not in error.details
    return True


class Turns:
    """Who changes the checkpoint does it in its turn: one at a time in this process, and among all instances.

    `refresh` reads what the others left; it is called at the beginning of each turn when there may be others.
    """

    def __init__(self, clock: Clock, lock: Lock | None, refresh: Callable[[], None]) -> None:
        self._clock = clock
        self._lock = lock
        self._refresh = refresh
        self._local = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def mine(self) -> AsyncIterator[None]:
        """Wait for the turn. Raises `TimeoutError` when another instance does not give it up, `OSError` when it cannot be
        seen whose turn it is or what is there."""
        async with self._local:
            if self._lock is None:
                yield
                return
            await self._take(self._lock)
            try:
                self._refresh()
                yield
            finally:
                self._lock.release()

    async def idle(self) -> None:
        """Come back when it is nobody's turn in this process."""
        async with self._local:
            return

    async def _take(self, lock: Lock) -> None:
        pause_s, end_s = _TURN_FIRST_S, self._clock.monotonic_s() + TURN_LIMIT_S
        while not lock.take():
            if self._clock.monotonic_s() >= end_s:
                raise TimeoutError(f"another instance of the driver has held the lock for {TURN_LIMIT_S:g} s")
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _TURN_LAST_S)


class Lead:
    """Whether this instance leads. One that is alone does so from the beginning."""

    def __init__(self, clock: Clock, lock: Lock | None, tell: Tell, driver: str) -> None:
        self._clock = clock
        self._lock = lock
        self._tell = tell
        self._driver = driver
        self.mine = lock is None

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait until nobody else leads, and lead until the end of the block."""
        if self._lock is None:
            yield
            return
        told = False
        while not self._lock.take():
            if not told:
                told = True
                text = "another instance leads until it ends: slices and the device plugin are its business"
                self._tell(Notice("standing-by", text, about=self._driver))
            await self._clock.sleep(LEAD_PERIOD_S)
        self.mine = True
        try:
            if told:
                self._tell(Notice("leading", "the instance before has ended", about=self._driver))
            yield
        finally:
            self.mine = False
            self._lock.release()
