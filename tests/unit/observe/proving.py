"""A cluster of two nodes with both stacks, an exporter for it and one for each node, and what goes wrong in it on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from regauge.cluster.kubelet import KubeletOptions
from regauge.driver import Driver, Options
from regauge.driver.endpoint import Endpoint, address
from regauge.features import rules
from regauge.host import RealClock
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.model import Object
from regauge.model.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.observe.dashboard.serving import Site, serving
from regauge.observe.exporter import Exporter, World, follow
from regauge.observe.exporter import Options as ExportOptions
from regauge.observe.scraping import Guard, make_app
from regauge.observe.sources import PodResourcesSource, ScrapedSource, Target, known_mappings
from regauge.pluginapi import PluginNet
from regauge.rehearsal.nodes import NodePlan, NodeWorld, Place
from regauge.rehearsal.up import UpOptions, cluster_up
from regauge.rehearsal.world import TIMINGS

MINOR = "1.36"
DRIVER, RESOURCE = "gpu.example.com", "example.com/gpu"
PATIENCE_S = 30.0
UUID = "GPU-{}0000000-0000-4000-8000-00000000000{}"
DEVICES: Mapping[str, Mapping[str, str]] = {
    "node-a": {"gpu-0": "device-plugin", "gpu-1": "device-plugin", "gpu-2": "dra", "gpu-3": "dra", "nic-0": "dra"},
    "node-b": {"gpu-0": "device-plugin", "gpu-1": "dra"},
}


def uuid(node: str, device: str) -> str:
    """Of a device: those of the NIC end in 9."""
    return UUID.format(node[-1], "9" if device == "nic-0" else device[-1])


def variable(device: str) -> str:
    """What a container has in its environment when it has the device."""
    return device.upper().replace("-", "_")


def description(node: str) -> bytes:
    devices: list[Object] = []
    for name, stack in DEVICES[node].items():
        device: Object = {
            "name": name,
            "stack": stack,
            "identity": {"uuid": uuid(node, name)},
            "env": {variable(name): "1"},
        }
        device["healthFile"] = f"/{name}.broken"
        device["deviceNodes"] = [{"path": f"/dev/{name}", "hostPath": "/dev/null"}]
        if stack == "dra":
            device["attributes"] = {"type": name[:3]}
        if name == "nic-0":
            device |= {
                "shared": True,
                "capacity": {"bandwidth": {"value": "40G", "default": "1G", "min": "1G", "max": "40G"}},
            }
        devices.append(device)
    document = {
        "apiVersion": "regauge.dev/v1alpha1",
        "kind": "Devices",
        "driver": DRIVER,
        "resource": RESOURCE,
        "healthTaint": {"effect": "NoSchedule", "afterSeconds": 0, "clearSeconds": 1},
        "devices": devices,
    }
    return yaml.safe_dump(document).encode()


@dataclass
class Gauges:
    """An exporter of device metrics in the manner of dcgm-exporter, and the metrics of a kubelet, for each node.

    `busy` in percent by UUID; `unanswered` calls are those that a kubelet got no answer to. Of a node that is `down` the
    exporter refuses.
    """

    busy: dict[str, float]
    url: str = ""
    unanswered: int = 0
    down: set[str] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            _, what, node = request.split()[1].split("/")
            body = "".join(self._kubelet() if what == "kubelet" else self._devices(node)).encode()
            status = "503 Service Unavailable" if what == "gauges" and node in self.down else "200 OK"
            writer.write(
                f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()
        writer.close()

    def _devices(self, node: str) -> Iterator[str]:
        for one, busy in self.busy.items():
            if one.startswith(f"GPU-{node[-1]}"):
                labels = f'gpu="0",UUID="{one}",Hostname="a-name-of-its-own"'
                told = {"GPU_UTIL": busy, "FB_USED": 10.0, "FB_TOTAL": 80.0, "POWER_USAGE": 300.0, "GPU_TEMP": 50.0}
                yield from (f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in told.items())

    def _kubelet(self) -> Iterator[str]:
        name, method = "dra_grpc_operations_duration_seconds", "/v1.DRAPlugin/NodePrepareResources"
        yield f"# TYPE {name} histogram\n"
        for code, count in (("OK", 7), ("Unavailable", self.unanswered)):
            labels = f'driver_name="{DRIVER}",grpc_status_code="{code}",method_name="{method}"'
            yield f'{name}_bucket{{{labels},le="0.1"}} {count}\n{name}_bucket{{{labels},le="+Inf"}} {count}\n'
            yield f"{name}_sum{{{labels}}} 0.1\n{name}_count{{{labels}}} {count}\n"


@dataclass
class Proof:
    """The cluster, and where its exporters answer (HOST:PORT)."""

    world: NodeWorld
    gauges: Gauges
    targets: list[str] = field(default_factory=list)

    @property
    def api(self) -> Any:
        return self.world.control.api.as_actor("test")

    def device_class(self, name: str, expression: str, resource: str = "") -> None:
        spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
        if resource:
            spec["extendedResourceName"] = resource
        self.api.create(DEVICE_CLASS, {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, class_name: str, parameters: Object | None = None, **exactly: Any) -> None:
        devices: Object = {"requests": [{"name": "r", "exactly": {"deviceClassName": class_name, **exactly}}]}
        if parameters is not None:
            devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
        self.api.create(RESOURCE_CLAIM, {"metadata": {"name": name}, "spec": {"devices": devices}}, "default")

    def pod(
        self, name: str, node: str = "", claim: str = "", count: int = 0, containers: tuple[str, ...] = ("main",)
    ) -> None:
        """A pod that asks for a claim, or for so many devices of the device plugin."""
        resources: Object = {"claims": [{"name": "c"}]} if claim else {}
        if count:
            resources = {"limits": {RESOURCE: str(count)}}
        spec: Object = {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": one, "image": "i", "resources": resources} for one in containers],
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        if claim:
            spec["resourceClaims"] = [{"name": "c", "resourceClaimName": claim}]
        self.api.create(POD, {"metadata": {"name": name}, "spec": spec}, "default")

    def slice(self, driver: str, pool: str, *devices: Object, count: int = 1, generation: int = 1, **more: Any) -> None:
        """A slice of a driver that does not run here."""
        spec = {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "nodeName": "node-b",
            **({"devices": list(devices)} if devices else {}),
            **more,
        }
        name = f"{driver}-{pool}-{generation}{'' if devices else '-sets'}"
        self.api.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})

    def break_(self, node: str, device: str) -> None:
        self.world.nodes[node].machine.files.write(f"/{device}.broken", b"it smells")

    async def until(self, done: Callable[[], bool], what: str) -> None:
        for _ in range(int(PATIENCE_S / 0.05)):
            self.world.check()
            if done():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"it did not come: {what}; {[notice for _, _, notice in self.world.notices[-8:]]}")

    async def run(self, *names: str) -> None:
        """Until these pods run."""
        await self.until(lambda: all(self.phase(name) == "Running" for name in names), f"{names} run")

    def has(self, pod: str, container: str = "main") -> set[str]:
        """The devices that a container really has, by its environment."""
        node = self.world.seen(self.api.get(POD, pod, "default")["metadata"]["uid"], container)
        assert node is not None
        return {one for devices in DEVICES.values() for one in devices if variable(one) in node.env}

    def phase(self, name: str) -> str:
        return str((self.api.get(POD, name, "default").get("status") or {}).get("phase", ""))


@contextlib.asynccontextmanager
async def proof(directory: Path) -> AsyncIterator[Proof]:
    """A cluster whose kubelets know their drivers, with exporters that have looked once."""
    names = {uuid(node, device): 0.0 for node, devices in DEVICES.items() for device in devices}
    gauges = Gauges(names)
    async with contextlib.AsyncExitStack() as stack:
        server = await asyncio.start_server(gauges.answer, "127.0.0.1", 0)
        await stack.enter_async_context(server)
        gauges.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        options = UpOptions(directory / "s", rules(MINOR, {}), nodes=0)
        started, world = await stack.enter_async_context(cluster_up(options))
        made = Proof(world, gauges)
        for node in DEVICES:
            plugins = {"driver": _driver(world, description(node), str(directory / f"{node}.sock"))}
            kubelet = KubeletOptions(rules=options.rules, timings=TIMINGS)
            await world.add_node(NodePlan(node, kubelet, plugins))
        await made.until(lambda: world.registered == {DRIVER: 2, RESOURCE: 2}, "drivers are registered")
        await made.until(lambda: len(world.control.api.list(RESOURCE_SLICE)) == 2, "slices are there")
        for node in ("", *DEVICES):
            made.targets.append(
                await stack.enter_async_context(_exporter(made, node, str(started.kubeconfig), directory))
            )
        yield made


def _driver(world: NodeWorld, data: bytes, socket: str) -> Callable[[PluginNet, Place], Any]:
    """Our driver with its endpoint, as it runs on a node."""

    async def run(net: PluginNet, place: Place) -> None:
        config = f"{place.kubelet_dir}/devices.yaml"
        place.files.write(config, data)
        options = Options(
            config=config,
            node_name=place.node,
            host=place.host,
            boot_id=place.boot_id,
            kubelet_dir=place.kubelet_dir,
            cdi_dir=place.cdi_dir,
        )
        endpoint = Endpoint(address(f"unix:{socket}"), place.clock)
        tell = endpoint.hear(partial(world.hear, place.node))
        driver = Driver(options, net, place.kube, place.files, place.clock, tell, endpoint.meter)
        async with endpoint.served(driver):
            await driver.run()

    return run


@contextlib.asynccontextmanager
async def _exporter(made: Proof, node: str, kubeconfig: str, directory: Path) -> AsyncIterator[str]:
    """One that reads the API over HTTP as it does in a cluster; one of a node asks its sources, too."""
    client, clock = HttpClient(load_connection({}, kubeconfig=kubeconfig)), RealClock()
    sources: tuple[Any, ...] = ()
    if node:
        on = made.world.nodes[node]
        asked = PodResourcesSource("pod-resources", node, on.machine.net("exporter"), on.machine.files, on.kubelet_dir)
        driver = ScrapedSource("driver", (Target(f"unix:{directory}/{node}.sock", node),), known_mappings())
        gauges, kubelet = (
            ScrapedSource(what, (Target(f"{made.gauges.url}/{what}/{node}", node),), known_mappings())
            for what in ("gauges", "kubelet")
        )
        sources = (asked, driver, gauges, kubelet)

    async def known() -> Any:
        return rules(MINOR, {})

    files = next(iter(made.world.nodes.values())).machine.files
    world = World(clock, files, known, lambda _text: None, sources)
    exporter = Exporter(follow(client, clock, node), world, ExportOptions(node=node, interval_s=1.0, version="0"))
    task = asyncio.create_task(exporter.run())
    try:
        async with serving(make_app(exporter, Guard()), Site()) as port:
            await made.until(lambda: exporter.answer is not None or task.done(), f"the exporter of {node} answers")
            if task.done():
                task.result()
            yield f"127.0.0.1:{port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
