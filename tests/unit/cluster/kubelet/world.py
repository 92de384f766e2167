"""A node in virtual time with fake drivers, for the tests of the kubelet."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from regauge.base import MemoryFiles
from regauge.cdi import HostDevice, RecordedHost
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.control_plane import ControlPlane
from regauge.cluster.kubelet import Kubelet, KubeletOptions, Timings
from regauge.cluster.runtimes.virtual import VirtualRuntime
from regauge.features import rules
from regauge.kube import WatchEvent
from regauge.model import Kind, Object
from regauge.model.kinds import CORE_EVENT, EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.pluginapi import (
    HEALTHY,
    ClaimRef,
    ContainerAllocateResponse,
    DeviceHealth,
    DevicePluginOptions,
    PluginDevice,
    PluginInfo,
    PreferredAllocationRequest,
    PreparedDevice,
    PrepareResult,
    RegisterRequest,
    RegistrationStatus,
    RpcError,
    Served,
    Services,
)
from regauge.pluginapi.memory import MemoryNet
from regauge.scheduler import Topology

NODE_NAME = "node-a"
ROOT = "/var/lib/kubelet"
EPOCH_S = 1_790_000_000.0
CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")


@dataclass
class World:
    """One node, with the rest of a cluster where there is a `plane`. `calls` is everything that plugins were asked and
    pods reported, in order.
    """

    clock: VirtualClock
    minor: str = "1.36"
    timings: Timings = field(default_factory=Timings)
    topology: Topology = field(default_factory=Topology)
    plane: ControlPlane | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = self.plane.api if self.plane else new_api_server(self.clock, random.Random(1))
        self.api: Api = self.server.as_actor("test")
        self.net = MemoryNet("test")
        self.files = MemoryFiles()
        for directory in CDI_DIRECTORIES:
            self.files.make_directory(directory)
        host = RecordedHost({"/dev/null": HostDevice("c", 1, 3, 0o666), "/dev/zero": HostDevice("c", 1, 5, 0o666)})
        self.runtime = VirtualRuntime(self.clock, self.files, host, CDI_DIRECTORIES)
        self.pod_story: dict[str, list[str]] = {}
        self.health_story: dict[str, list[str]] = {}
        self.api.subscribe([POD], self._note_pod)
        self._told: dict[str, str] = {}
        self.kubelet = self.new_kubelet()

    def new_kubelet(self) -> Kubelet:
        options = KubeletOptions(
            rules=rules(self.minor, self.gates),
            directory=ROOT,
            topology=self.topology,
            timings=self.timings,
            say=self.said.append,
        )
        self.node_net = self.net.process("kubelet")
        return Kubelet(
            NODE_NAME,
            self.server.as_actor("kubelet"),
            self.node_net,
            self.files,
            self.clock,
            self.runtime,
            options,
        )

    async def restart_kubelet(self, away_s: float = 1.0) -> None:
        await self.kubelet.kill()
        self.node_net.kill()
        await self.clock.sleep(away_s)
        self.kubelet = self.new_kubelet()
        await self.kubelet.start()

    def _note_pod(self, kind: Kind, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        status = event.object.get("status", {})
        told = f"pod {name} {'gone' if event.type == 'DELETED' else status.get('phase', 'Pending')}"
        if self._told.get(name) != told:
            self._told[name] = told
            self.calls.append(told)
        note(self.health_story, name, health_moment(status))
        note(self.pod_story, name, "gone" if event.type == "DELETED" else pod_moment(status))

    def pod(self, name: str) -> Object:
        return self.api.get(POD, name, "default")

    def phase(self, name: str) -> str:
        return str(self.pod(name).get("status", {}).get("phase", "Pending"))

    def container(self, name: str) -> dict[str, Any]:
        statuses: list[dict[str, Any]] = self.pod(name)["status"]["containerStatuses"]
        return statuses[0]

    def node_counts(self, resource: str) -> tuple[str | None, str | None]:
        status = self.api.get(NODE, NODE_NAME).get("status", {})
        return status.get("capacity", {}).get(resource), status.get("allocatable", {}).get(resource)

    def events(self, reason: str) -> list[str]:
        found = [*self.api.list(CORE_EVENT), *self.api.list(EVENT)]
        return [str(one.get("message") or one.get("note")) for one in found if one.get("reason") == reason]

    def run_pod(
        self,
        name: str,
        *,
        limits: Mapping[str, str] | None = None,
        claims: Mapping[str, str] | None = None,
        policy: str = "Always",
        annotations: Mapping[str, str] | None = None,
        init_limits: Mapping[str, str] | None = None,
        request: str = "",
        node: str = NODE_NAME,
        shape: Callable[[dict[str, Any]], None] = lambda spec: None,
    ) -> str:
        """A pod bound to the node; its claims (pod claim name to claim) are reserved for it. `shape` changes its spec.

        Returns its uid.
        """
        container: dict[str, Any] = {"name": "c", "image": "i", "resources": {}}
        spec: dict[str, Any] = {
            "nodeName": node,
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        if limits:
            container["resources"]["limits"] = dict(limits)
            container["resources"]["requests"] = dict(limits)
        if init_limits:
            resources = {"limits": dict(init_limits), "requests": dict(init_limits)}
            spec["initContainers"] = [{"name": "i", "image": "i", "resources": resources}]
        if claims:
            named = {"request": request} if request else {}
            container["resources"]["claims"] = [{"name": key, **named} for key in claims]
            spec["resourceClaims"] = [{"name": key, "resourceClaimName": claim} for key, claim in claims.items()]
        shape(spec)
        metadata = {"name": name, "namespace": "default", "annotations": dict(annotations or {})}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        uid = ""
        if claims:
            spec.pop("nodeName")
            uid = self.api.create(POD, pod, "default")["metadata"]["uid"]
            for claim in claims.values():
                self.reserve(claim, name, uid)
            self.api.bind("default", name, node)
            return uid
        return str(self.api.create(POD, pod, "default")["metadata"]["uid"])

    def claim(self, name: str, *results: tuple[str, str, str]) -> str:
        """An allocated claim: (request, driver, device) each. Returns its uid."""
        requests = [{"name": request, "exactly": {"deviceClassName": "any"}} for request, _, _ in results]
        claim = {
            "apiVersion": RESOURCE_CLAIM.api_version,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": requests}},
        }
        made = self.api.create(RESOURCE_CLAIM, claim, "default")
        allocated = [
            {"request": request, "driver": driver, "pool": NODE_NAME, "device": device}
            for request, driver, device in results
        ]
        status = {"status": {"allocation": {"devices": {"results": allocated}}}}
        self.api.patch(RESOURCE_CLAIM, name, status, "default", subresource="status")
        return str(made["metadata"]["uid"])

    def reserve(self, claim: str, pod: str, uid: str) -> None:
        old = self.api.get(RESOURCE_CLAIM, claim, "default").get("status", {}).get("reservedFor", [])
        reserved = [*old, {"resource": "pods", "name": pod, "uid": uid}]
        self.api.patch(RESOURCE_CLAIM, claim, {"status": {"reservedFor": reserved}}, "default", subresource="status")

    def annotate(self, name: str, **annotations: str) -> None:
        self.api.patch(POD, name, {"metadata": {"annotations": annotations}}, "default")

    def delete_pod(self, name: str, grace_s: int | None = None) -> None:
        self.api.delete(POD, name, "default", grace_period_s=grace_s)

    def slice(self, driver: str, node: str = NODE_NAME, devices: int = 1) -> None:
        self.api.create(
            RESOURCE_SLICE,
            {
                "apiVersion": RESOURCE_SLICE.api_version,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-{driver}"},
                "spec": {
                    "driver": driver,
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"gpu-{index}"} for index in range(devices)],
                },
            },
        )

    def slices(self) -> list[str]:
        return [str(one["metadata"]["name"]) for one in self.api.list(RESOURCE_SLICE)]

    def spec_file(self, kind: str, *devices: str) -> None:
        """A CDI spec that gives each device an environment variable and /dev/null."""
        vendor = kind.replace("/", "-")
        listed = ",".join(
            f'{{"name":"{device}","containerEdits":{{"env":["DEV_{index}={device}"],'
            f'"deviceNodes":[{{"path":"/dev/{device}","hostPath":"/dev/null"}}]}}}}'
            for index, device in enumerate(devices)
        )
        text = f'{{"cdiVersion":"0.5.0","kind":"{kind}","devices":[{listed}]}}'
        self.files.write(f"/var/run/cdi/{vendor}.json", text.encode())


def pod_moment(status: Mapping[str, Any]) -> str:
    """A pod's status in short: phase, reason, and how its containers are."""
    containers = []
    for one in status.get("containerStatuses") or ():
        ((kind, state),) = one["state"].items()
        code = f" {state['exitCode']}" if "exitCode" in state else ""
        containers.append(f"{kind} {state.get('reason', '')}{code}".strip())
    phase = f"{status.get('phase', 'Pending')} {status.get('reason', '')}".strip()
    return f"{phase} [{', '.join(containers)}]"


def health_moment(status: Mapping[str, Any]) -> str:
    """The health of the first container's devices in short."""
    containers = status.get("containerStatuses") or [{}]
    resources = [one for told in containers[0].get("allocatedResourcesStatus") or () for one in told["resources"]]
    return ", ".join(f"{one['health']} {one.get('message', '')}".strip() for one in resources)


def note(story: dict[str, list[str]], name: str, moment: str) -> None:
    """Add a moment that differs from the last one."""
    moments = story.setdefault(name, [])
    if not moments or moments[-1] != moment:
        moments.append(moment)


class FakePlugin:
    """A device plugin that notes its calls. `fail` maps a call to the error it answers; `answer` makes Allocate's."""

    def __init__(self, world: World, resource: str, *ids: str, options: DevicePluginOptions | None = None) -> None:
        self.world = world
        self.resource = resource
        self.net = world.net.process(f"plugin {resource}")
        self.options = options or DevicePluginOptions()
        self.devices = tuple(PluginDevice(id_) for id_ in ids)
        self.changed = asyncio.Event()
        self.fail: dict[str, str] = {}
        self.slow_s: dict[str, float] = {}
        self.prefer: tuple[str, ...] = ()
        self.answer: Callable[[Sequence[str]], ContainerAllocateResponse] = lambda ids: ContainerAllocateResponse(
            envs={"DP_DEV": ",".join(ids)}
        )
        self.empty_answer = False
        self.ending: str | None = None
        self.served: Served | None = None

    @property
    def socket(self) -> str:
        return f"{self.resource.replace('/', '_')}.sock"

    async def serve(self) -> None:
        await self.serve_at(self.socket)

    async def serve_at(self, socket: str) -> None:
        self.served = await self.net.serve(f"{ROOT}/device-plugins/{socket}", Services(device_plugin=self))

    async def register(self, **changes: Any) -> None:
        channel = await self.net.connect(f"{ROOT}/device-plugins/kubelet.sock")
        request = RegisterRequest("v1beta1", self.socket, self.resource)
        await channel.kubelet_registration().register(replace(request, **changes))

    async def start(self) -> None:
        await self.serve()
        await self.register()

    def kill(self) -> None:
        self.net.kill()

    def list(self, *devices: tuple[str, str]) -> None:
        """Send a new list of (id, health)."""
        self.devices = tuple(PluginDevice(id_, health) for id_, health in devices)
        self.changed.set()

    def end(self, error: str = "") -> None:
        """End the stream, with an error or without."""
        self.ending = error
        self.changed.set()

    async def _note(self, call: str, what: str) -> None:
        self.world.calls.append(f"{call} {what}".rstrip())
        if call in self.slow_s:
            await self.world.clock.sleep(self.slow_s[call])
        if call in self.fail:
            raise RpcError("Internal", self.fail[call])

    async def get_options(self) -> DevicePluginOptions:
        return self.options

    async def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        while True:
            self.changed.clear()
            if self.ending is not None:
                if self.ending:
                    raise RpcError("Internal", self.ending)
                return
            yield self.devices
            await self.changed.wait()

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        await self._note(
            "GetPreferredAllocation", f"{','.join(requests[0].available_ids)} {requests[0].allocation_size}"
        )
        return (self.prefer,)

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        await self._note("Allocate", ",".join(requests[0]))
        return () if self.empty_answer else tuple(self.answer(ids) for ids in requests)

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        await self._note("PreStartContainer", ",".join(device_ids))


class FakeDriver:
    """A DRA driver that notes its calls. `fail` maps a claim's name to the errors it answers, one a call; with `broken` the
    call itself fails.
    """

    def __init__(
        self, world: World, name: str, *, versions: tuple[str, ...] = ("v1.DRAPlugin",), tag: str = ""
    ) -> None:
        self.world = world
        self.name = name
        self.tag = tag
        self.versions = versions
        self.net = world.net.process(f"driver {name}{tag}")
        self.fail: dict[str, list[str]] = {}
        self.fail_unprepare: dict[str, list[str]] = {}
        self.slow_s = 0.0
        self.skip = False
        self.cdi: bool | str = True
        self.requests: tuple[str, ...] | None = None
        self.drop = False
        self.broken = ""
        self.statuses: list[RegistrationStatus] = []
        self.reports: asyncio.Queue[tuple[DeviceHealth, ...]] = asyncio.Queue()

    @property
    def endpoint(self) -> str:
        return f"{ROOT}/plugins/{self.name}/dra{self.tag}.sock"

    async def start(self) -> None:
        services = Services(dra=self, health=self, health_versions=("v1alpha1",))
        self.service = await self.net.serve(self.endpoint, services)
        address = f"{ROOT}/plugins_registry/{self.name}{self.tag}-reg.sock"
        self.registration = await self.net.serve(address, Services(plugin_registration=self))

    def kill(self) -> None:
        self.net.kill()

    async def stop(self) -> None:
        """End in order: both sockets are removed."""
        await self.registration.stop()
        await self.service.stop()

    async def get_info(self) -> PluginInfo:
        self.world.calls.append("GetInfo")
        return PluginInfo("DRAPlugin", self.name, self.endpoint, self.versions)

    async def notify_registration_status(self, status: RegistrationStatus) -> None:
        self.statuses.append(status)

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.world.calls.append(f"Prepare{self.tag} {','.join(ref.name for ref in claims)}")
        if self.slow_s:
            await self.world.clock.sleep(self.slow_s)
        if self.broken:
            raise RpcError("Internal", self.broken)
        return {} if self.skip else {ref.uid: self._prepared(ref) for ref in claims}

    def _prepared(self, ref: ClaimRef) -> PrepareResult:
        if self.fail.get(ref.name):
            return PrepareResult(error=self.fail[ref.name].pop(0))
        claim = self.world.api.get(RESOURCE_CLAIM, ref.name, ref.namespace)
        results = [one for one in claim["status"]["allocation"]["devices"]["results"] if one["driver"] == self.name]
        return PrepareResult(
            tuple(
                PreparedDevice(
                    one["pool"],
                    one["device"],
                    (one["request"],) if self.requests is None else self.requests,
                    self._cdi_ids(one["device"]),
                )
                for one in results
            )
        )

    def _cdi_ids(self, device: str) -> tuple[str, ...]:
        if isinstance(self.cdi, str):
            return (self.cdi,)
        return (f"{self.name}/dev={device}",) if self.cdi else ()

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        self.world.calls.append(f"Unprepare{self.tag} {','.join(ref.name for ref in claims)}")
        errors = {ref.uid: self.fail_unprepare.get(ref.name, []) for ref in claims}
        return {uid: waiting.pop(0) if waiting else "" for uid, waiting in errors.items()}

    async def node_watch_resources(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        while not self.drop:
            reports = await self.reports.get()
            if not self.drop:
                yield reports
        raise RpcError("Unavailable", "stream dropped")


def simulate(
    scenario: Callable[[World], Coroutine[Any, Any, None]],
    *,
    timings: Timings | None = None,
    minor: str = "1.36",
    topology: Topology | None = None,
    grace_s: float | None = None,
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> World:
    """Run a scenario on a started node in virtual time; with `grace_s` (how long a node may be silent) in a cluster."""
    worlds: list[World] = []

    async def main(clock: VirtualClock) -> None:
        plane = None
        if grace_s is not None:
            plane = ControlPlane(clock, random.Random(1), rules(minor, gates), node_grace_s=grace_s)
            plane.start()
        world = World(clock, minor, timings or Timings(node_status_s=5.0), topology or Topology(), plane, gates)
        worlds.append(world)
        await world.kubelet.start()
        await clock.sleep(1)
        await scenario(world)
        await world.kubelet.stop()
        if plane is not None:
            await plane.stop()

    run_virtual(main, epoch_s=EPOCH_S, limit_s=100_000)
    return worlds[0]


__all__ = ["HEALTHY", "NODE_NAME", "ROOT", "FakeDriver", "FakePlugin", "World", "simulate"]
