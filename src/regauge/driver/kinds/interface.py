"""What a kind of device brings: it finds devices, gets them ready for a claim, and knows whether they work.

A kind is one file beside `static` and a line in `kinds.KINDS`. The driver has done the rest before it calls: the claim is
read and checked, the device belongs to the right stack and is not in use by another claim, the checkpoint is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from regauge.base import Files
from regauge.cdi import ContainerEdits, Host
from regauge.driver.description import Device


@dataclass(frozen=True, slots=True)
class Condition:
    """How a device is. `message` says why it is not healthy."""

    healthy: bool = True
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """For whom a device is prepared."""

    uid: str
    namespace: str
    name: str
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The ports that a kind may use. It keeps no other way to the world."""

    files: Files
    host: Host


class DeviceKind(Protocol):
    """One kind of device.

    Concurrency: the driver never runs two of these calls at the same time for one device; health runs beside them.
    Time: the kubelet gives up on a whole prepare after 45 s, so none of these may take longer than a few seconds.
    """

    async def discover(self, described: Sequence[Device]) -> tuple[Device, ...]:
        """The devices to serve, out of the described ones: with what the machine adds, or fewer.

        Called at the start and at each change of the description. Retry: it must have no effect. A device that is broken
        belongs to the result; `health` says that it is.
        """

    async def prepare(self, device: Device, use: ClaimUse) -> ContainerEdits:
        """Get a device ready for a claim; what a container needs beyond the device's own edits.

        Retry: called again for the same claim after a crash or a lost answer, so it must be idempotent. Restart: the call
        before may have been another process's. Failure: raise; what was done is taken back by `unprepare`, and the text
        of the error ends in the pod's event.
        """

    async def unprepare(self, device: Device, use: ClaimUse) -> None:
        """Take back what `prepare` did. Called also when prepare was cut off or never ran, and more than once.

        Failure: raise; the kubelet calls again until it succeeds, and the device stays with the claim so long.
        """

    async def health(self, devices: Sequence[Device]) -> Mapping[str, Condition]:
        """How the devices are, by name, asked every few seconds. One that is left out is healthy.

        Failure: raise, and what was known before stands; that it could not be asked is told.
        """
