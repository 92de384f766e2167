"""What a kind of device brings: it finds devices, gets them ready for a claim, and knows whether they work.

A kind is one file beside `static` and a line in `kinds.KINDS`, or a class in a package of its own that is installed under the
entry point group `regauge.kinds`. The driver has done the rest before it calls: the claim is read and checked, the device
belongs to the right stack and is not in use by another claim, the checkpoint is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from regauge.base import Clock, Files
from regauge.cdi import ContainerEdits, Host
from regauge.driver.description import Description, Device
from regauge.driver.fields import Fields
from regauge.driver.notices import Tell, silent
from regauge.driver.reports import Report

Fact = str | int | bool
Configs = Mapping[tuple[str, str], type[Any]]


@dataclass(frozen=True, slots=True)
class Condition:
    """How a device is. `message` says why it is not healthy."""

    healthy: bool = True
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """For whom a device is prepared.

    `share_id` and `consumed` (quantities by capacity) tell the part of a device that is given out in parts. `config` has what
    the class and the claim say in opaque parameters, read as one of the kind's `CONFIGS`: the last one counts most.
    """

    uid: str
    namespace: str
    name: str
    requests: tuple[str, ...]
    share_id: str | None = None
    consumed: Mapping[str, str] = field(default_factory=dict)
    config: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The ports that a kind may use. It keeps no other way to the world. `tell` is for what an operator should know."""

    files: Files
    host: Host
    clock: Clock
    tell: Tell = silent


class DeviceKind(Protocol):
    """One kind of device.

    Concurrency: the driver never runs two of these calls at the same time for one device; health runs beside them.
    Time: the kubelet gives up on a whole prepare after 45 s, so none of these may take longer than a few seconds.

    `FACTS` are the facts by which rules tell apart what the kind finds, each with an example that a rule is tried on;
    without any, the description can have no rules. `CONFIGS` are the opaque parameters that claims may carry, as msgspec
    Structs by apiVersion and kind: what they do not know, or what has another type, is refused.
    """

    FACTS: ClassVar[Mapping[str, Fact]]
    CONFIGS: ClassVar[Configs]

    def __init__(self, surroundings: Surroundings) -> None: ...

    @staticmethod
    def settings(discover: Fields) -> object:
        """What `discover` in the description says, for `discover` below. Equal when it says the same. Pure.

        Failure: `InputError` with the place in the file; `Fields` makes it.
        """

    async def discover(self, description: Description) -> tuple[Device, ...]:
        """The devices to serve: those described, those found by rules, with what the machine adds, or fewer.

        Called at the start, at each change of the description and every 10 s. Retry: it must have no effect, and return
        equal devices while nothing changes. A device that is broken belongs to the result; `health` says that it is. One
        that is left out while a claim holds it is kept until it is released.

        Failure: raise; what was found before stands, and that it could not be looked for is told.
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


@dataclass(frozen=True, slots=True)
class Bound:
    """That a device can be used by the Pod that waits for it, or that it cannot and another must be chosen."""

    ready: bool
    message: str = ""


@runtime_checkable
class Reports(Protocol):
    """A kind that has more to tell of a prepared device than that it is ready. Beside `DeviceKind`."""

    async def report(self, device: Device, use: ClaimUse) -> Report:
        """What its users should know. Called after each `prepare`, and from time to time while the claim is prepared.

        Retry: it must have no effect. Restart, concurrency: as `DeviceKind.prepare`, which may be another process's.
        Failure: raise; the device is ready all the same, that it could not be reported is told, and it is asked again.
        """


@runtime_checkable
class Binds(Protocol):
    """A kind whose devices must be got ready, over the network for example, before a Pod is bound to its node (KEP-5007).

    Its devices have `bindingConditions`. Beside `DeviceKind`.
    """

    async def bind(self, device: Device, use: ClaimUse) -> Bound | None:
        """Get the device ready for a claim that is allocated and whose Pod waits. None: not yet, ask again.

        Called every few seconds until it says how it went. Retry: also after that, if the answer could not be written,
        so it must be idempotent. Restart: the call before may have been another process's. Concurrency: one call at a
        time. Failure: raise; it counts as not yet, is told, and the scheduler gives up after its time limit (10 minutes).
        """
