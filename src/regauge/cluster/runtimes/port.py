"""The port between kubelet and container runtime: what a container is asked to be, and what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from regauge.pluginapi import DeviceSpec, Mount

KILLED = 137  # the exit code of a container that had to be killed
LOST_CODE, LOST_REASON = 255, "Unknown"  # what a runtime tells of containers that its machine took down


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One start of one container. `attempt` counts the starts of this container of this pod from 0.

    `devices` and `mounts` are what device plugins answered; `cdi_devices` are qualified names for the runtime to resolve.
    `completes` says that the container is meant to end by itself (an init container).
    """

    pod_uid: str
    namespace: str
    pod: str
    name: str
    attempt: int = 0
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_directory: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[DeviceSpec, ...] = ()
    mounts: tuple[Mount, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    completes: bool = False


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container that was started. It runs while `exit_code` is None. `spec` is its OCI runtime configuration.

    `reason` is empty when the exit code says it all.
    """

    id: str
    request: ContainerRequest
    spec: Mapping[str, Any] = field(hash=False)
    started_s: float
    finished_s: float | None = None
    exit_code: int | None = None
    reason: str = ""

    @property
    def running(self) -> bool:
        return self.exit_code is None


class StartFailed(Exception):
    """A container could not be made or started. `reason` is what the pod's status says (`CreateContainerError`, ...)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Runtime(Protocol):
    """Containers of one node. A runtime outlives its kubelet: what runs goes on while the kubelet is away.

    Ids are unique for ever. Concurrency: calls for different containers may overlap.
    """

    @property
    def version(self) -> str:
        """As in node.status.nodeInfo.containerRuntimeVersion: `name://version`."""

    async def start(self, request: ContainerRequest) -> ContainerState:
        """Make and start a container. Raises `StartFailed`; then nothing is left of it."""

    def containers(self) -> tuple[ContainerState, ...]:
        """All containers that were started and not removed, in the order of their starts."""

    async def stop(self, container: str, grace_s: float) -> ContainerState:
        """Ask the container to end, make it end after `grace_s` seconds, come back when it has ended."""

    async def remove(self, container: str) -> None:
        """Forget a container that has ended, with its log."""

    def logs(self, container: str) -> bytes:
        """What it printed. Empty for a container that is not known."""

    def on_exit(self, listener: Callable[[ContainerState], None]) -> Callable[[], None]:
        """Call `listener` for each container that ends. Returns what ends that."""

    async def close(self) -> None:
        """End all containers at once."""


def container_id(request: ContainerRequest, started_s: float) -> str:
    """64 hexadecimal digits, the same for the same start at the same time."""
    told = f"{request.pod_uid}/{request.name}/{request.attempt}/{started_s!r}"
    return hashlib.sha256(told.encode()).hexdigest()
