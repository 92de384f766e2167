"""The scheduler and the claim controller killed before or after any of their writes, and started again: nothing leaks.

The last picture of pods and claims has to be the one of the undisturbed run.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support import shared
from tests.unit.scheduler.player import EPOCH_S, RULES, Player, scenario

from regauge.base import TransientError
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.server_state import ApiCall
from regauge.kube import Conflict, ServerUnavailable
from regauge.model.kinds import CORE_EVENT

PROGRAMS = ("kube-scheduler", "kube-controller-manager", "ResourceClaimController")
STORIES = (
    "001-exact-one-template",
    "098-two-claims",
    "109-pod-succeeded",
    "115-pod-force-deleted",
    "130-ext-explicit",
    "141-ext-pod-succeeded",
    "142-ext-and-claim",
    "152-preempt-cpu-victim-has-claim",
    "160-podgroup-claim",
    "163-job-gang",
)


class Killed(BaseException):
    """The program is gone."""


class Trouble:
    """Strikes once, at the n-th write of the programs, before or after it took effect."""

    def __init__(self, number: int, moment: str, error: type[BaseException]) -> None:
        self.left, self.moment, self.error = number, moment, error
        self.struck = ""

    def __call__(self, call: ApiCall) -> None:
        if call.actor not in PROGRAMS or call.kind == CORE_EVENT or call.moment != self.moment or self.struck:
            return
        self.left -= 1
        if self.left < 0:
            self.struck = call.actor
            if self.error is Conflict:
                raise Conflict(409, "Conflict", "somebody was first")
            raise self.error("struck")


async def restarts(player: Player) -> None:
    """Start programs again a moment after they were killed."""
    while True:
        await player.clock.sleep(0.5)
        for key, task in list(player.programs.tasks.items()):
            if task.done():
                failure = task.exception()
                if not isinstance(failure, Killed):
                    raise failure or AssertionError(f"{key} ended")
                name = key.partition("/")[0]
                await player.programs.stop(name)
                player.programs.start(name)


def last_picture(name: str, trouble: Trouble | None) -> dict[str, Any]:
    path: Path = shared("vectors/stories/scenarios") / name

    async def main(clock: VirtualClock) -> dict[str, Any]:
        player = Player(scenario(path), clock, RULES)
        watchman = asyncio.ensure_future(restarts(player))
        if trouble is not None:
            player.api.state.fault = trouble
        player.patience_s = 400.0  # longer than a pod may stay unschedulable without another look
        await player.play()
        watchman.cancel()
        picture: dict[str, Any] = player.told(0)["final"]
        return picture

    return run_virtual(main, epoch_s=EPOCH_S, limit_s=20_000)


def without_chance(picture: dict[str, Any]) -> dict[str, Any]:
    """Generated names carry how many were made before them."""
    text = {
        kind: {name.replace("<rand2>", "<rand>").replace("<rand3>", "<rand>"): shown for name, shown in objects.items()}
        for kind, objects in picture.items()
    }
    for pod in text["Pod"].values():
        for status in pod.get("resourceClaimStatuses", []):
            status["resourceClaimName"] = status["resourceClaimName"].replace("<rand2>", "<rand>")
        extended = pod.get("extendedResourceClaimStatus")
        if extended:
            extended["resourceClaimName"] = extended["resourceClaimName"].split("<")[0] + "<rand>"
    return text


def every_trouble(name: str, moment: str, error: type[BaseException]) -> None:
    undisturbed = without_chance(last_picture(name, None))
    for number in range(100):
        trouble = Trouble(number, moment, error)
        picture = without_chance(last_picture(name, trouble))
        if not trouble.struck:
            assert number > 3
            return
        assert picture == undisturbed, f"{error.__name__} {moment} write {number} of {trouble.struck}"
    raise AssertionError("the story never ends")


@pytest.mark.row(274)
@pytest.mark.row(275)
@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_any_write(name: str, moment: str) -> None:
    every_trouble(name, moment, Killed)


@pytest.mark.row(48)
@pytest.mark.parametrize("name", [STORIES[0], STORIES[4], STORIES[6]])
@pytest.mark.parametrize("error", [Conflict, ServerUnavailable])
def test_an_error_of_the_api_at_any_write(name: str, error: type[TransientError]) -> None:
    every_trouble(name, "before", error)


@pytest.mark.parametrize("name", STORIES[:1])
def test_an_answer_that_is_lost(name: str) -> None:
    """The write took effect, but the program is told that it failed."""
    every_trouble(name, "after", ServerUnavailable)
