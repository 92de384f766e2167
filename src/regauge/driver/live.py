"""The driver on the machine's own ports: unix sockets, files, clock, and an API server over HTTP.

`regauge.driver.live` is imported by name; nothing else in this room touches the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from regauge.base import InputError, Where
from regauge.cdi.directory import RealHost
from regauge.driver.instances import Instance
from regauge.driver.kinds import KINDS, DeviceKind
from regauge.driver.meter import Meter
from regauge.driver.notices import Tell
from regauge.driver.process import Driver, Options
from regauge.host import FileLock, RealClock, RealFiles
from regauge.host.loops import forgive_late_wakes
from regauge.kube import KubeClient
from regauge.kube.config import Connection, load_connection
from regauge.kube.http import HttpClient
from regauge.pluginapi.wire import WireNet

KINDS_GROUP = "regauge.kinds"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says. `api` is "unix:PATH"; without it and `kubeconfig` slices go to `slices_file`. With a
    `pod_uid` another instance may run beside this one."""

    config: str
    node_name: str
    kubelet_dir: str
    cdi_dir: str
    api: str | None = None
    kubeconfig: str | None = None
    slices_file: str | None = None
    pod_uid: str = ""


def installed_kinds() -> Mapping[str, type[DeviceKind]]:
    """The kinds of devices on this machine: ours, and those that installed packages bring under `regauge.kinds`.

    Raises `InputError` for one that cannot be loaded or takes the name of another.
    """
    found = dict(KINDS)
    for point in entry_points(group=KINDS_GROUP):
        package = point.dist.name if point.dist else point.value
        if point.name in found:
            raise InputError(f"{package} brings a kind of device {point.name!r} and there is one", fix="uninstall one")
        try:
            found[point.name] = point.load()
        except Exception as error:  # whatever a package's own code raises when it is loaded
            raise InputError(f"the kind of device {point.name!r} of {package} cannot be loaded: {error}") from error
    return found


class Watcher(Protocol):
    """Who is told about a driver and answers for it: `endpoint.Endpoint`, where that is installed."""

    @property
    def meter(self) -> Meter: ...

    def hear(self, tell: Tell) -> Tell: ...

    def served(self, driver: Driver) -> AbstractAsyncContextManager[None]: ...


async def serve(settings: Settings, tell: Tell, watcher: Watcher | None = None) -> None:
    """Runs until SIGTERM or SIGINT; SIGHUP has it look again at once. Raises `InputError` for what a user must mend."""
    files = RealFiles()
    options = Options(
        config=os.path.abspath(settings.config),
        node_name=settings.node_name,
        host=RealHost(),
        boot_id=_boot_id(files),
        kubelet_dir=_existing(settings.kubelet_dir),
        cdi_dir=os.path.abspath(settings.cdi_dir),
        slices_file=None if settings.slices_file is None else os.path.abspath(settings.slices_file),
        kinds=installed_kinds(),
        instance=Instance(settings.pod_uid, FileLock) if settings.pod_uid else None,
    )
    kube = _client(settings)
    loop = asyncio.get_running_loop()
    forgive_late_wakes(loop)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # before there is anything to look at it does no harm
    task = asyncio.ensure_future(_run(options, kube, tell, watcher))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return
    finally:
        if kube is not None:
            await kube.close()


async def _run(options: Options, kube: KubeClient | None, tell: Tell, watcher: Watcher | None) -> None:
    ports = (WireNet(), kube, RealFiles(), RealClock())
    driver = Driver(options, *ports, watcher.hear(tell) if watcher else tell, watcher.meter if watcher else None)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, driver.asked.set)
    async with watcher.served(driver) if watcher else contextlib.nullcontext():
        await driver.run()


def _client(settings: Settings) -> KubeClient | None:
    if settings.api is not None:
        if not settings.api.startswith("unix:/"):
            raise InputError(
                f"--api is {settings.api!r}", fix="say unix:/PATH of the API server's socket, or use --kubeconfig FILE"
            )
        return HttpClient(Connection(server=settings.api))
    if settings.slices_file is not None and settings.kubeconfig is None:
        return None
    return HttpClient(load_connection(os.environ, kubeconfig=settings.kubeconfig or "", home=os.path.expanduser("~")))


def _existing(path: str) -> str:
    if not os.path.isdir(path):
        raise InputError(
            "the kubelet's directory does not exist",
            where=Where(file=path),
            fix="say --kubelet-dir DIR; on a node it is /var/lib/kubelet",
        )
    return os.path.abspath(path)


def _boot_id(files: RealFiles) -> str:
    try:
        return files.read(BOOT_ID).decode().strip()
    except OSError:
        return ""
