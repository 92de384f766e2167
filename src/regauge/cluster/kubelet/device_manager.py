"""The device manager's other half: the registration server, the plugins' streams, Allocate, the checkpoint file.

Contract: the caller admits one pod at a time. An error of a plugin during admission is final for the pod; one before a
container's start may be tried again.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from regauge.base import Clock, Files, InputError
from regauge.cluster.kubelet.checkpoints import (
    DEVICE_CHECKPOINT_NAME,
    decode_device_checkpoint,
    encode_device_checkpoint,
)
from regauge.cluster.kubelet.devices import Ask, Chosen, DeviceTable, Need, NoNeed, Refusal, run_options
from regauge.cluster.kubelet.options import KubeletOptions
from regauge.cluster.kubelet.work import Work, deadline
from regauge.model import Quantity
from regauge.model.core import Container, Pod
from regauge.model.quoting import go_quote
from regauge.pluginapi import (
    DEVICE_PLUGIN_VERSION,
    HEALTHY,
    Channel,
    ContainerAllocateResponse,
    DevicePluginOptions,
    PluginNet,
    PreferredAllocationRequest,
    RegisterRequest,
    RpcError,
    Served,
    Services,
)
from regauge.scheduler import NOT_ALIGNED, NumaHints, NumaNodes

_QUALIFIED = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_DIAL_AGAIN_S = 0.25


class AdmissionRefused(Exception):
    """A pod cannot have its devices. The text is upstream's."""


class NotAligned(AdmissionRefused):
    """The resources of a pod cannot come from NUMA nodes that the policy allows."""


class PreStartFailed(Exception):
    """A container cannot be started yet. The text is upstream's."""


@dataclass(eq=False, slots=True)
class _Client:
    """One connection to a plugin, from its registration to the end of its stream."""

    resource: str
    channel: Channel
    closed: bool = False


@dataclass(slots=True)
class DeviceManager:
    """Device plugins of one node. `on_pods` hears the uids of pods whose devices' health changed."""

    net: PluginNet
    files: Files
    clock: Clock
    options: KubeletOptions
    work: Work
    on_pods: Callable[[Collection[str]], None]
    table: DeviceTable = field(init=False)
    _clients: dict[str, _Client] = field(default_factory=dict)
    _open: dict[_Client, None] = field(default_factory=dict)
    _served: Served | None = None

    def __post_init__(self) -> None:
        self.table = DeviceTable(self.options.timings.plugin_grace_s)

    @property
    def _checkpoint_path(self) -> str:
        return f"{self.options.device_plugins}/{DEVICE_CHECKPOINT_NAME}"

    async def start(self) -> None:
        """Read the checkpoint, remove everybody's sockets, serve the registration socket."""
        directory = self.options.device_plugins
        self.files.make_directory(directory, 0o750)
        self._restore()
        await self._remove_sockets(directory)
        self._served = await self.net.serve(f"{directory}/kubelet.sock", Services(kubelet_registration=self))

    async def stop(self) -> None:
        if self._served is not None:
            await self._served.stop()
            self._served = None
        for client in tuple(self._open):
            await client.channel.close()
        self._open.clear()
        self._clients.clear()

    async def register(self, request: RegisterRequest) -> None:
        """A plugin announces itself. Its options in the request are ignored, as upstream does."""
        if request.version != DEVICE_PLUGIN_VERSION:
            raise RpcError(
                "Unknown",
                f"requested API version {go_quote(request.version)} is not supported by kubelet."
                f' Supported version is ["{DEVICE_PLUGIN_VERSION}"]',
            )
        if not is_extended_resource(request.resource_name):
            raise RpcError("Unknown", f"the ResourceName {go_quote(request.resource_name)} is invalid")
        await self.connect(request.resource_name, posixpath.join(self.options.device_plugins, request.endpoint))

    async def connect(self, resource: str, address: str) -> None:
        """Dial a plugin, ask for its options and listen to its list from then on. Raises `RpcError`."""
        channel = await self._dial(posixpath.normpath(address))
        client = _Client(resource, channel)
        self._open[client] = None
        self._clients[resource] = client
        try:
            options = await channel.device_plugin().get_options()
        except RpcError as error:
            self._clients.pop(resource, None)
            self._open.pop(client, None)
            await channel.close()
            raise RpcError("Unknown", f"failed to get device plugin options: {error}") from None
        self.table.connect(resource, options)
        self.work.start(self._listen(client), f"device plugin {resource}")

    async def disconnect(self, resource: str) -> None:
        """The plugin's registration socket is gone."""
        await self._drop(resource)

    async def admit(self, pod: Pod, active: Collection[str] | None, running: Collection[str]) -> None:
        """Choose and allocate the devices of all containers of a pod.

        `active` are the uids of the pods that count (None while not all pods are known: then nothing is freed), `running`
        the containers of this pod that were found running when the kubelet started.
        Raises `AdmissionRefused`; what the pod got until then is freed with it.
        """
        reusable: dict[str, set[str]] = {}
        topology = self.options.topology
        if topology.aligns and active is not None:
            self.table.keep_only(active)
        whole = self._aligned(pod, None, reusable) if topology.aligns and topology.per_pod else None
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            affinity = whole
            if topology.aligns and not topology.per_pod:
                affinity = self._aligned(pod, container, reusable)
            await self._admit_container(pod, container, active, container.name in running, reusable, affinity)
            held = {entry.resource: entry.ids for entry in self.table.held(pod.metadata.uid, container.name)}
            ends = container in pod.spec.init_containers and container.restart_policy != "Always"
            for resource, ids in held.items():
                pool = reusable.setdefault(resource, set())
                pool |= ids
                if not ends:
                    pool -= ids

    def _aligned(self, pod: Pod, container: Container | None, reusable: dict[str, set[str]]) -> NumaNodes | None:
        """The NUMA nodes for a container, or with None for the whole pod. Raises `NotAligned`."""
        asked = _limits(container) if container is not None else pod_limits(pod)
        name = container.name if container is not None else ""
        nodes = self.options.topology.nodes
        wishes: list[NumaHints] = []
        for resource, count in asked:
            if not self.table.serves(resource):
                continue
            held: set[str] = set()
            for (uid, holder, held_resource), entry in self.table.entries.items():
                if (uid, held_resource) == (pod.metadata.uid, resource) and name in ("", holder):
                    held |= entry.ids
            again = reusable.get(resource, ()) if container is not None else ()
            wishes.append(self.table.hints(Need(pod.metadata.uid, name, resource, count, again), held, nodes))
        best, admitted = self.options.topology.merge(wishes)
        if not admitted:
            raise NotAligned(NOT_ALIGNED)
        return best.nodes

    async def before_start(self, pod: Pod, container: Container) -> ContainerAllocateResponse:
        """Call PreStartContainer where a plugin wants it; what the container's devices bring. Raises `PreStartFailed`."""
        for resource, count in _limits(container):
            if not count or not self.table.serves(resource) or _served_by_dra(pod, container.name, resource):
                continue
            await self._pre_start(pod, container.name, resource)
            if (pod.metadata.uid, container.name, resource) not in self.table.entries:
                await self._allocate_again(pod, container)
        return run_options(self.table.held(pod.metadata.uid, container.name))

    async def _allocate_again(self, pod: Pod, container: Container) -> None:
        """The checkpoint does not know what an admitted container holds (it was lost): choose anew."""
        try:
            await self._admit_container(pod, container, None, False, {})
        except AdmissionRefused as error:
            raise PreStartFailed(str(error)) from None

    def capacity(self) -> tuple[dict[str, int], dict[str, int], tuple[str, ...]]:
        """Capacity, allocatable, and the resources that are to be reported as 0 from now on."""
        capacity, allocatable, gone = self.table.capacity(self.clock.monotonic_s())
        if gone:
            self._note_checkpoint()
        return capacity, allocatable, gone

    def health(self, pod_uid: str, container: str) -> list[dict[str, Any]]:
        """The container's devices as allocatedResourcesStatus. A device that is not listed any more counts as healthy."""
        return [
            {
                "name": entry.resource,
                "resources": [
                    {"resourceID": id_, "health": "Healthy" if self._healthy(entry.resource, id_) else "Unhealthy"}
                    for id_ in sorted(entry.ids)
                ],
            }
            for entry in self.table.held(pod_uid, container)
        ]

    def _healthy(self, resource: str, id_: str) -> bool:
        device = self.table.devices.get(resource, {}).get(id_)
        return device is None or device.health == HEALTHY

    def _restore(self) -> None:
        path = self._checkpoint_path
        try:
            self.table.restore(decode_device_checkpoint(self.files.read(path), path), self.clock.monotonic_s())
        except FileNotFoundError:
            return
        except InputError as error:
            aside = f"{path}.corrupt-{int(self.clock.now_s())}"
            self.files.rename(path, aside)
            self.options.say(
                "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date:"
                f" {error}; the file is kept as {aside}"
            )

    def _write_checkpoint(self) -> None:
        """Raises `AdmissionRefused` when the disk does not take it."""
        try:
            self.files.write(self._checkpoint_path, encode_device_checkpoint(self.table.checkpoint()), 0o600)
        except OSError as error:
            text = f'failed to write checkpoint file "{DEVICE_CHECKPOINT_NAME}": {error.strerror or error}'
            raise AdmissionRefused(text) from None

    def _note_checkpoint(self) -> None:
        """The same where no pod asks: what is not on disk now is there with the next change."""
        try:
            self._write_checkpoint()
        except AdmissionRefused as refused:
            self.options.say(str(refused))

    async def _remove_sockets(self, directory: str) -> None:
        names: Sequence[str] = ()
        async with contextlib.aclosing(self.net.watch(directory)) as seen:
            async for sockets in seen:
                names = tuple(sockets)
                break
        for name in names:
            await self.net.remove(f"{directory}/{name}")

    async def _dial(self, address: str) -> Channel:
        """Try until somebody answers: a plugin may still be about to serve."""
        limit = self.clock.monotonic_s() + self.options.timings.plugin_dial_s
        while True:
            left = limit - self.clock.monotonic_s()
            try:
                return await self.net.connect(address, timeout_s=max(0.01, left))
            except RpcError:
                if left <= _DIAL_AGAIN_S:
                    break
            await self.clock.sleep(_DIAL_AGAIN_S)
        raise RpcError("Unknown", "failed to dial device plugin: context deadline exceeded")

    async def _listen(self, client: _Client) -> None:
        resource = client.resource
        try:
            async for devices in client.channel.device_plugin().list_and_watch():
                touched = self.table.listed(resource, devices)
                self._note_checkpoint()
                if touched:
                    self.on_pods(touched)
            ended = "EOF"
        except RpcError as error:
            ended = str(error)
        self._open.pop(client, None)
        self.options.say(f"ListAndWatch ended unexpectedly for device plugin {resource}: {ended}")
        await self._drop(resource)
        await client.channel.close()

    async def _drop(self, resource: str) -> None:
        """Close whoever owns the resource now, which need not be the plugin whose stream ended: as upstream does."""
        client = self._clients.pop(resource, None)
        if client is not None:
            self.table.disconnect(resource, self.clock.monotonic_s())
            await client.channel.close()

    async def _admit_container(
        self,
        pod: Pod,
        container: Container,
        active: Collection[str] | None,
        runs: bool,
        reusable: dict[str, set[str]],
        affinity: NumaNodes | None = None,
    ) -> None:
        cleaned = changed = False
        for resource, count in _limits(container):
            if _served_by_dra(pod, container.name, resource) or not self.table.serves(resource):
                continue
            if not cleaned and active is not None:
                self.table.keep_only(active)
                cleaned = True
            need = Need(pod.metadata.uid, container.name, resource, count, reusable.get(resource, ()), affinity)
            ids = await self._choose(need, runs)
            if ids:
                await self._allocate(need, ids)
                changed = True
        if changed:
            self._write_checkpoint()

    async def _choose(self, need: Need, runs: bool) -> tuple[str, ...]:
        choice = self.table.choose(need, runs)
        if isinstance(choice, Ask):
            choice = await self._ask(choice)
        if isinstance(choice, Refusal):
            self.table.recount()
            raise AdmissionRefused(choice.text)
        return () if isinstance(choice, NoNeed) else choice.ids

    async def _ask(self, ask: Ask) -> Chosen | Refusal:
        request = PreferredAllocationRequest(ask.available, ask.taken, ask.size)
        try:
            answers = await self._plugin(ask.resource).get_preferred_allocation([request])
        except RpcError as error:
            return Refusal(f"device plugin GetPreferredAllocation rpc failed with err: {error}")
        return self.table.choose_preferred(ask, answers[0] if answers else ())

    async def _allocate(self, need: Need, ids: tuple[str, ...]) -> None:
        try:
            answers = await self._plugin(need.resource).allocate([ids])
        except RpcError as error:
            self.table.recount()
            raise AdmissionRefused(str(error)) from None
        if not answers:
            self.table.recount()
            raise AdmissionRefused("no containers return in allocation response ")
        self.table.store(need, ids, answers[0])

    def _plugin(self, resource: str) -> Any:
        client = self._clients.get(resource)
        if client is None:
            raise RpcError("Unavailable", f"endpoint {resource} has been stopped")
        return client.channel.device_plugin()

    async def _pre_start(self, pod: Pod, container: str, resource: str) -> None:
        endpoint = self.table.endpoints.get(resource)
        if endpoint is None:
            raise PreStartFailed(f"endpoint not found in cache for a registered resource: {resource}")
        options: DevicePluginOptions = endpoint.options
        if not options.pre_start_required:
            return
        entry = self.table.entries.get((pod.metadata.uid, container, resource))
        if entry is None:
            raise PreStartFailed(
                f"no devices found allocated in local cache for pod {pod.metadata.uid}, container {container},"
                f" resource {resource}"
            )
        if resource not in self._clients:
            raise PreStartFailed(
                f"device plugin PreStartContainer rpc failed with err: endpoint {resource} has been stopped"
            )
        try:
            async with deadline(self.options.timings.pre_start_s):
                await self._plugin(resource).pre_start_container(sorted(entry.ids))
        except RpcError as error:
            raise PreStartFailed(f"device plugin PreStartContainer rpc failed with err: {error}") from None


def is_extended_resource(name: str) -> bool:
    """Whether a device plugin may register under this name: qualified, not of kubernetes.io, not a quota name."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    prefix, _, base = name.partition("/")
    return _QUALIFIED.fullmatch(f"requests.{name}") is not None and len(base) <= 63 and len(prefix) <= 244


def _limits(container: Container) -> list[tuple[str, int]]:
    return [
        (name, Quantity.from_document(value).value())
        for name, value in container.resources.limits.items()
        if "/" in name
    ]


def pod_limits(pod: Pod) -> list[tuple[str, int]]:
    """The counted resources of a whole pod: its containers together, or the most that runs while it is set up."""
    running: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in pod.spec.init_containers:
        sidecar = container.restart_policy == "Always"
        for name, count in _limits(container):
            most[name] = max(most.get(name, 0), running.get(name, 0) + count)
            if sidecar:
                running[name] = running.get(name, 0) + count
    for container in pod.spec.containers:
        for name, count in _limits(container):
            running[name] = running.get(name, 0) + count
    return [(name, max(running.get(name, 0), most.get(name, 0))) for name in {**most, **running}]


def _served_by_dra(pod: Pod, container: str, resource: str) -> bool:
    status = pod.status.extended_resource_claim_status
    return status is not None and any(
        (mapping.container_name, mapping.resource_name) == (container, resource) for mapping in status.request_mappings
    )


__all__ = ["AdmissionRefused", "DeviceManager", "NotAligned", "PreStartFailed", "is_extended_resource"]
