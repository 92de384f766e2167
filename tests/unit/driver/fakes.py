"""A tiny API server, a tiny kubelet and a node in memory, for the driver's tests."""

from __future__ import annotations

import asyncio
import copy
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.base import MemoryFiles
from regauge.cdi import HostDevice, NoHostDevice
from regauge.driver import Driver, Notice, Options
from regauge.driver.instances import Instance
from regauge.driver.kinds import KINDS, DeviceKind
from regauge.driver.live import Watcher
from regauge.kube import AlreadyExists, Conflict, KubeClient, NotFound, ObjectList, Version, WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.pluginapi import (
    ClaimRef,
    PluginDevice,
    PluginInfo,
    RegisterRequest,
    RegistrationStatus,
    RpcError,
    Services,
)
from regauge.pluginapi.memory import MemoryNet

DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
KUBELET = "/var/lib/kubelet"
CONFIG = "/etc/regauge/devices.yaml"
CDI = "/var/run/cdi"


def description(*devices: str, top: str = "") -> str:
    return f"""apiVersion: regauge.dev/v1alpha1
kind: Devices
driver: {DRIVER}
resource: {RESOURCE}
{top}
devices:
""" + "".join(devices)


def device(name: str, stack: str, extra: str = "") -> str:
    return f"""- name: {name}
  stack: {stack}
  identity: {{uuid: GPU-{name}}}
  attributes: {{model: A100, memoryGiB: 80}}
  capacity: {{memory: 80Gi}}
  deviceNodes: [{{path: /dev/null}}]
  env: {{GPU_{name.replace("-", "_").upper()}: "{name}"}}
  numaNode: 0
{extra}"""


FOUR = description(
    device("gpu-0", "device-plugin"),
    device("gpu-1", "device-plugin"),
    device("gpu-2", "dra"),
    device("gpu-3", "dra"),
)


class FakeClock:
    """Virtual time on the running loop: `advance` runs what is due; sleeps never wait for the machine."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._due: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_s(self) -> float:
        return 1_800_000_000.0 + self._now_s

    def monotonic_s(self) -> float:
        return self._now_s

    async def sleep(self, duration_s: float) -> None:
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._due, (self._now_s + duration_s, next(self._order), due))
        await due

    async def advance(self, duration_s: float) -> None:
        end_s = self._now_s + duration_s
        await settle()
        while self._due and self._due[0][0] <= end_s:
            self._now_s, _, due = heapq.heappop(self._due)
            if not due.done():
                due.set_result(None)
            await settle()
        self._now_s = end_s


async def settle() -> None:
    """Let everything run that can run."""
    for _ in range(60):
        await asyncio.sleep(0)


class FakeHost:
    def __init__(self) -> None:
        self.devices = {"/dev/null": HostDevice("c", 1, 3, 0o666)}

    def device(self, path: str) -> HostDevice | NoHostDevice:
        return self.devices.get(path) or NoHostDevice("no such file or directory")


class FakeKube(KubeClient):
    """Objects with resourceVersions and watches. `fail` raises before a call with that verb."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.calls: list[tuple[str, str]] = []
        self.updates: list[tuple[str, str]] = []
        self.fail: dict[str, Exception] = {}
        self.drops: tuple[str, ...] = ()
        self.drops_status = False
        self._version = 0
        self._watchers: list[tuple[Kind, asyncio.Queue[WatchEvent | None]]] = []

    def put(self, kind: Kind, name: str, namespace: str = "", **parts: Any) -> Object:
        metadata = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
        metadata.update(parts.pop("metadata", {}))
        return self._store(kind, {"kind": kind.kind, "metadata": metadata, **parts}, "ADDED")

    def slices(self) -> list[Object]:
        return [one for (kind, _, _), one in sorted(self.objects.items()) if kind == RESOURCE_SLICE.kind]

    async def version(self) -> Version:
        return Version("v1.36.3", "1.36")

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._called("get", kind)
        return copy.deepcopy(self._find(kind, name, namespace))

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        self._called("list", kind)
        items = tuple(copy.deepcopy(one) for key, one in sorted(self.objects.items()) if key[0] == kind.kind)
        return ObjectList(items, str(self._version))

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        queue: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._watchers.append((kind, queue))
        while (event := await queue.get()) is not None:
            yield event

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        self._called("create", kind)
        if (kind.kind, namespace, object_["metadata"]["name"]) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "already exists")
        made = copy.deepcopy(object_)
        made["metadata"].setdefault("uid", f"uid-{self._version}")
        return self._store(kind, made, "ADDED")

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        self._called("update", kind)
        old = self._find(kind, object_["metadata"]["name"], namespace)
        if object_["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        self.updates.append((kind.kind, subresource))
        object_ = copy.deepcopy(object_)
        if subresource == "status" and self.drops_status:
            object_["status"].pop("devices", None)
        return self._store(kind, copy.deepcopy(object_), "MODIFIED")

    async def patch(self, kind: Kind, name: str, body: Any, namespace: str = "", **options: Any) -> Object:
        raise AssertionError("the driver patches nothing")

    async def delete(self, kind: Kind, name: str, namespace: str = "", **options: Any) -> None:
        self._called("delete", kind)
        self.remove(kind, name, namespace)

    async def close(self) -> None: ...

    def remove(self, kind: Kind, name: str, namespace: str = "") -> None:
        self._find(kind, name, namespace)
        self._version += 1
        self._tell(kind, WatchEvent("DELETED", self.objects.pop((kind.kind, namespace, name))))

    def end_watches(self) -> None:
        for _, queue in self._watchers:
            queue.put_nowait(None)
        self._watchers.clear()

    def _called(self, verb: str, kind: Kind) -> None:
        self.calls.append((verb, kind.kind))
        if verb in self.fail:
            raise self.fail[verb]

    def _find(self, kind: Kind, name: str, namespace: str) -> Object:
        found = self.objects.get((kind.kind, namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", f'{kind.resource} "{name}" not found')
        return found

    def _store(self, kind: Kind, object_: Object, event: Any) -> Object:
        self._version += 1
        metadata = object_["metadata"]
        metadata["resourceVersion"] = str(self._version)
        for entry in object_.get("spec", {}).get("devices", []) if kind.kind == RESOURCE_SLICE.kind else []:
            for name in self.drops:
                entry.pop(name, None)
        self.objects[kind.kind, metadata.get("namespace", ""), metadata["name"]] = object_
        self._tell(kind, WatchEvent(event, copy.deepcopy(object_)))
        return copy.deepcopy(object_)

    def _tell(self, kind: Kind, event: WatchEvent) -> None:
        for watched, queue in self._watchers:
            if watched.kind == kind.kind:
                queue.put_nowait(event)


@dataclass
class FakeKubelet:
    """Registers device plugins and finds DRA drivers, the way the real one does, as far as the driver can tell."""

    net: MemoryNet
    registered: list[RegisterRequest] = field(default_factory=list)
    lists: list[tuple[PluginDevice, ...]] = field(default_factory=list)
    refuse: str = ""

    async def start(self) -> None:
        sockets = await anext(self.net.watch(f"{KUBELET}/device-plugins"))
        for name in sockets:
            await self.net.remove(f"{KUBELET}/device-plugins/{name}")
        self.tasks: list[asyncio.Task[None]] = []
        self.served = await self.net.serve(
            f"{KUBELET}/device-plugins/kubelet.sock", Services(kubelet_registration=self)
        )

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await self.served.stop()

    async def register(self, request: RegisterRequest) -> None:
        if self.refuse:
            raise RpcError("Unknown", self.refuse)
        channel = await self.net.connect(f"{KUBELET}/device-plugins/{request.endpoint}")
        self.registered.append(request)
        self.tasks.append(asyncio.ensure_future(self._follow(channel)))

    async def _follow(self, channel: Any) -> None:
        try:
            async for devices in channel.device_plugin().list_and_watch():
                self.lists.append(devices)
        except RpcError:
            pass

    async def plugin(self) -> Any:
        channel = await self.net.connect(f"{KUBELET}/device-plugins/{self.registered[-1].endpoint}")
        return channel.device_plugin()

    async def dra(self, version: str = "v1") -> Any:
        info = await self.info()
        return (await self.net.connect(info.endpoint)).dra(version)

    async def info(self) -> PluginInfo:
        """Of the instance that came last and lives."""
        there = await anext(self.net.watch(f"{KUBELET}/plugins_registry"))
        for name in sorted(there, key=lambda name: there[name], reverse=True):
            try:
                channel = await self.net.connect(f"{KUBELET}/plugins_registry/{name}")
                break
            except RpcError:
                continue
        else:
            raise RpcError("Unavailable", "no driver is registered")
        registry = channel.plugin_registration()
        info = await registry.get_info()
        await registry.notify_registration_status(RegistrationStatus(True))
        return info


class FakeLocks:
    """The machine's locks. `of` gives those of one process, `die` takes them from it."""

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}

    def of(self, process: str) -> Callable[[str], Any]:
        return lambda path: FakeLock(self.holders, path, process)

    def die(self, process: str) -> None:
        for path in [path for path, holder in self.holders.items() if holder == process]:
            del self.holders[path]


@dataclass
class FakeLock:
    holders: dict[str, str]
    path: str
    process: str

    def take(self) -> bool:
        return self.holders.setdefault(self.path, self.process) == self.process

    def release(self) -> None:
        if self.holders.get(self.path) == self.process:
            del self.holders[self.path]


@dataclass
class Node:
    """A node with one driver on it, that can be killed and started again."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    host: FakeHost = field(default_factory=FakeHost)
    kube: FakeKube | None = field(default_factory=FakeKube)
    clock: FakeClock = field(default_factory=FakeClock)
    net: MemoryNet = field(default_factory=lambda: MemoryNet("kubelet"))
    notices: list[Notice] = field(default_factory=list)
    boot_id: str = "boot-1"
    slices_file: str | None = None
    kinds: Mapping[str, type[DeviceKind]] = field(default_factory=lambda: KINDS)
    watcher: Watcher | None = None
    pod_uid: str = ""
    locks: FakeLocks = field(default_factory=FakeLocks)

    def __post_init__(self) -> None:
        self.files.make_directory("/etc/regauge")
        self.kubelet = FakeKubelet(self.net)
        if self.kube is not None:
            self.kube.put(NODE, "n1", metadata={"uid": "node-uid"})

    def describe(self, text: str) -> None:
        self.files.write(CONFIG, text.encode())

    async def start(self, wrap: Callable[[MemoryFiles], Any] = lambda files: files) -> None:
        self.process = self.net.process(f"driver {self.pod_uid}")
        options = Options(
            CONFIG,
            "n1",
            self.host,
            self.boot_id,
            kubelet_dir=KUBELET,
            cdi_dir=CDI,
            slices_file=self.slices_file,
            kinds=self.kinds,
            instance=Instance(self.pod_uid, self.locks.of(self.pod_uid)) if self.pod_uid else None,
        )
        tell = self.notices.append if self.watcher is None else self.watcher.hear(self.notices.append)
        meter = None if self.watcher is None else self.watcher.meter
        self.driver = Driver(options, self.process, self.kube, wrap(self.files), self.clock, tell, meter)
        self.task = asyncio.ensure_future(self.driver.run())
        await settle()
        if self.task.done():
            await self.task

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def beside(self, pod_uid: str) -> Node:
        """The same node, for another instance of the driver."""
        other = copy.copy(self)
        other.pod_uid, other.notices = pod_uid, []
        return other

    async def kill(self) -> None:
        self.process.kill()
        self.locks.die(self.pod_uid)
        await self.stop()

    def told(self, code: str) -> list[Notice]:
        return [notice for notice in self.notices if notice.code == code]

    def claim(self, name: str, *devices: str, uid: str = "", **result: Any) -> ClaimRef:
        """A claim allocated to devices of this node, in the API."""
        assert self.kube is not None
        results = [
            {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": device, **result} for device in devices
        ]
        uid = uid or f"uid-{name}"
        self.kube.put(
            RESOURCE_CLAIM,
            name,
            "team",
            metadata={"uid": uid},
            spec={},
            status={"allocation": {"devices": {"results": results}}},
        )
        return ClaimRef("team", uid, name)

    def spec_names(self) -> list[str]:
        return self.files.names(CDI) if CDI in self.files.directories else []


def run(scenario: Callable[[Node], Any], **parts: Any) -> Node:
    """Plays a scenario on a node with the four devices described and a kubelet that runs."""

    async def play() -> Node:
        node = Node(**parts)
        node.describe(FOUR)
        await node.kubelet.start()
        try:
            await scenario(node)
        finally:
            if hasattr(node, "task"):
                await node.stop()
        return node

    return asyncio.run(play())


def edits(files: Mapping[str, bytes]) -> dict[str, str]:
    """The spec files as text."""
    return {path: data.decode() for path, data in files.items() if path.startswith(CDI)}
