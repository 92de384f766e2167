"""The runtime of child processes: what CDI and device plugins give a container is really there, but nothing is isolated.

There is no mount namespace: device nodes stand as links in the container's own directory, at `$REGAUGE_DEVICES_DIR` followed
by their path in the container (`$REGAUGE_DEVICES_DIR/dev/name`), mounts likewise at `$REGAUGE_MOUNTS_DIR`. Commands run
with the rights of this process: only for pods one trusts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regauge.base import Clock, Files
from regauge.cdi import Host, edits_for
from regauge.cdi.directory import SpecDirectories
from regauge.cluster.runtimes.children import Children
from regauge.cluster.runtimes.creating import CREATE_ERROR, create_spec
from regauge.cluster.runtimes.port import ContainerRequest, ContainerState, StartFailed, container_id

DEVICES_DIRECTORY = "REGAUGE_DEVICES_DIR"
MOUNTS_DIRECTORY = "REGAUGE_MOUNTS_DIR"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProcessRuntime:
    """`Runtime` of child processes below `directory`. They end with this process, however it ends."""

    def __init__(self, clock: Clock, files: Files, host: Host, cdi_directories: Sequence[str], directory: str) -> None:
        self._clock = clock
        self._host = host
        self._cdi = SpecDirectories(files, cdi_directories)
        self._children = Children(clock, directory)

    @property
    def version(self) -> str:
        return "process://1.0"

    async def start(self, request: ContainerRequest) -> ContainerState:
        if not request.command and not request.args:
            raise StartFailed(
                CREATE_ERROR,
                f"container {request.name} names no command, and the process runtime has no image {request.image!r}"
                " to take one from (give it a command)",
            )
        now_s = self._clock.now_s()
        id_ = container_id(request, now_s)
        spec = create_spec(request, id_, self._cdi.read, self._host)
        state = ContainerState(id_, request, spec, now_s)
        place = self._children.place(id_)
        try:
            env = _environment(spec, self._host_paths(request), place)
            command = spec["process"]["args"]
            await self._children.start(state, command, env, request.working_directory or place)
        except OSError as error:
            self._children.discard(id_)
            raise StartFailed("RunContainerError", f"failed to start container {request.name}: {error}") from None
        return state

    def _host_paths(self, request: ContainerRequest) -> dict[str, str]:
        """Where on the host the device nodes are, by their path in the container."""
        found = {device.container_path: device.host_path for device in request.devices}
        if request.cdi_devices:
            nodes = edits_for(request.cdi_devices, self._cdi.read()).device_nodes
            found.update((node.path, node.host_path or node.path) for node in nodes)
        return found

    def containers(self) -> tuple[ContainerState, ...]:
        return self._children.states()

    async def stop(self, container: str, grace_s: float) -> ContainerState:
        return await self._children.stop(container, grace_s)

    async def remove(self, container: str) -> None:
        await self._children.remove(container)

    def logs(self, container: str) -> bytes:
        return self._children.log(container)

    def on_exit(self, listener: Callable[[ContainerState], None]) -> Callable[[], None]:
        return self._children.on_exit(listener)

    def power_off(self) -> None:
        """The machine goes down: every process ends at once."""
        self._children.kill()

    async def close(self) -> None:
        await self._children.close()


def _environment(spec: Mapping[str, Any], devices: Mapping[str, str], place: str) -> dict[str, str]:
    """The container's variables and, as links, the device nodes and mounts it is given."""
    mounts = ((mount["destination"], mount.get("source", "")) for mount in spec.get("mounts", ()))
    given = dict(one.partition("=")[::2] for one in spec["process"].get("env", ()))
    _link(f"{place}/devices", devices.items())
    _link(f"{place}/mounts", mounts)
    return {
        "PATH": DEFAULT_PATH,
        "HOME": place,
        **given,
        DEVICES_DIRECTORY: f"{place}/devices",
        MOUNTS_DIRECTORY: f"{place}/mounts",
    }


def _link(directory: str, links: Iterable[tuple[str, str]]) -> None:
    Path(directory).mkdir(mode=0o700)
    for inside, outside in links:
        clean = posixpath.normpath("/" + inside)
        if not outside or clean == "/":
            continue
        link = Path(directory + clean)
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(outside)
