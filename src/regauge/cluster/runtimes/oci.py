"""The runtime of real containers: a bundle for runc or crun, its OCI configuration edited by device plugins and CDI.

The root file system is an empty directory into which the host's programs and libraries are mounted read-only: there are no
images. The network is the host's. Needs root. Cgroups are used where the low-level runtime can make them, so that device
permissions are kept; where it cannot, crun runs without them (`cgroups=False`), and device permissions are then not kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regauge.base import Clock, Files, InputError
from regauge.cdi import Host
from regauge.cdi.directory import SpecDirectories
from regauge.cluster.runtimes.children import Children
from regauge.cluster.runtimes.creating import CREATE_ERROR, create_spec
from regauge.cluster.runtimes.port import ContainerRequest, ContainerState, StartFailed, container_id

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOST_DIRECTORIES = ("/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/etc")
_NAMESPACES = ("pid", "ipc", "uts", "mount")


@dataclass(frozen=True, slots=True)
class OciOptions:
    """`program` is runc or crun. `directory` holds bundles and the program's own state."""

    program: str
    directory: str
    cgroups: bool = True


class OciRuntime:
    """`Runtime` over runc or crun. Containers end with this process: their monitor is a child of it."""

    def __init__(
        self, clock: Clock, files: Files, host: Host, cdi_directories: Sequence[str], options: OciOptions
    ) -> None:
        if os.geteuid() != 0:
            raise InputError(
                "the oci runtime makes namespaces and device nodes and needs root",
                fix="run as root, or take the process runtime",
            )
        if not options.cgroups and not options.program.endswith("crun"):
            raise InputError(
                f"{options.program} cannot run containers without cgroups", fix="take crun, or leave cgroups on"
            )
        self._clock = clock
        self._host = host
        self._options = options
        self._cdi = SpecDirectories(files, cdi_directories)
        self._children = Children(clock, options.directory)
        self._swept = False

    @property
    def version(self) -> str:
        return f"{os.path.basename(self._options.program)}://1.0"

    async def start(self, request: ContainerRequest) -> ContainerState:
        if not request.command and not request.args:
            raise StartFailed(
                CREATE_ERROR, f"container {request.name} names no command, and the oci runtime has no images"
            )
        await self._sweep()
        now_s = self._clock.now_s()
        id_ = container_id(request, now_s)
        spec = create_spec(request, id_, self._cdi.read, self._host, _base(id_, self._options.cgroups))
        if not self._options.cgroups:
            spec["linux"].pop("resources", None)
        spec["process"]["env"] = _with_path(spec["process"].get("env", []))
        spec["process"].setdefault("cwd", "/")
        spec["process"]["args"] = [*_dies_with_its_monitor(), *spec["process"]["args"]]
        state = ContainerState(id_, request, spec, now_s)
        place = self._children.place(id_)
        try:
            Path(place, "rootfs").mkdir()
            Path(place, "config.json").write_text(json.dumps(spec))
            await self._children.start(state, self._command(place, id_), {"PATH": DEFAULT_PATH}, place)
        except OSError as error:
            self._children.discard(id_)
            raise StartFailed("RunContainerError", f"failed to start container {request.name}: {error}") from None
        return state

    def containers(self) -> tuple[ContainerState, ...]:
        return self._children.states()

    async def stop(self, container: str, grace_s: float) -> ContainerState:
        """The low-level runtime hands SIGTERM on; after the grace it is told to kill the container."""
        child = self._children.find(container)
        if child is None or not child.state.running:
            return await self._children.stop(container, grace_s)
        await self._tell("kill", container, "TERM")
        if child.waiter is not None:
            await asyncio.wait({child.waiter}, timeout=max(0.0, grace_s))
        await self._delete(container)
        return await self._children.stop(container, 1.0)

    async def remove(self, container: str) -> None:
        await self._delete(container)
        await self._children.remove(container)

    def logs(self, container: str) -> bytes:
        return self._children.log(container)

    def on_exit(self, listener: Callable[[ContainerState], None]) -> Callable[[], None]:
        return self._children.on_exit(listener)

    async def close(self) -> None:
        for state in self._children.states():
            if state.running:
                await self._delete(state.id)
        await self._children.close()

    async def _sweep(self) -> None:
        """Once: remove what a killed run left in the directory, containers with their cgroups first."""
        if self._swept:
            return
        self._swept = True
        left = sorted(os.listdir(self._root)) if os.path.isdir(self._root) else []
        for id_ in left:
            await self._delete(id_)
            self._children.discard(id_)

    @property
    def _root(self) -> str:
        return f"{self._options.directory}/state"

    def _command(self, place: str, id_: str) -> list[str]:
        options = self._options
        keyring = ["--no-new-keyring"]
        cgroups = [] if options.cgroups else ["--cgroup-manager=disabled"]
        return [options.program, "--root", self._root, *cgroups, "run", *keyring, "--bundle", place, id_]

    async def _delete(self, id_: str) -> None:
        await self._tell("delete", "--force", id_)

    async def _tell(self, *arguments: str) -> None:
        """One call of the low-level runtime; a container that is not there any more is fine."""
        process = await asyncio.create_subprocess_exec(
            self._options.program,
            "--root",
            self._root,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await process.wait()


def _base(id_: str, cgroups: bool) -> dict[str, Any]:
    """What every container has: a read-only copy of the host's programs, its own process and mount namespaces."""
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        },
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
    ]
    mounts.extend(
        {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]}
        for path in _HOST_DIRECTORIES
        if os.path.isdir(path)
    )
    linux: dict[str, Any] = {
        "namespaces": [{"type": type_} for type_ in _NAMESPACES],
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
    }
    if cgroups:
        linux["cgroupsPath"] = f"/regauge/{id_[:32]}"
    return {
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "noNewPrivileges": True, "terminal": False},
        "root": {"path": "rootfs"},
        "hostname": id_[:12],
        "mounts": mounts,
        "linux": linux,
    }


def _dies_with_its_monitor() -> list[str]:
    """A prefix for the container's command: the kernel kills the container when the low-level runtime is killed.

    Without setpriv on this machine a container can outlive a killed cluster until the next start removes it.
    """
    setpriv = shutil.which("setpriv", path=DEFAULT_PATH)
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv is not None else []


def _with_path(env: list[str]) -> list[str]:
    return env if any(one.startswith("PATH=") for one in env) else [f"PATH={DEFAULT_PATH}", *env]
