"""The same kubelet live: gRPC on unix sockets, real files, containers as child processes, the machine's clock."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import pytest

from regauge.cdi.directory import RealHost
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.kubelet import Kubelet, KubeletOptions, Timings
from regauge.cluster.runtimes.process import ProcessRuntime
from regauge.features import rules
from regauge.host import RealClock, RealFiles
from regauge.model.kinds import NODE, POD, RESOURCE_CLAIM
from regauge.pluginapi import (
    ClaimRef,
    ContainerAllocateResponse,
    DevicePluginOptions,
    PluginDevice,
    PluginInfo,
    PreferredAllocationRequest,
    PreparedDevice,
    PrepareResult,
    RegisterRequest,
    RegistrationStatus,
    Services,
)
from regauge.pluginapi.wire import WireNet

SPEC = (
    '{"cdiVersion":"0.5.0","kind":"live.example.com/dev","devices":[{"name":"d0","containerEdits":{'
    '"env":["CLAIMED=d0"],"deviceNodes":[{"path":"/dev/d0","hostPath":"/dev/zero"}]}}]}'
)
SCRIPT = 'echo "$DP_DEV $CLAIMED"; head -c 1 "$REGAUGE_DEVICES_DIR/dev/d0" | od -An -tx1; exec sleep 60'


class Plugin:
    """Both stacks in one object: two classic devices, one claimed one."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.calls: list[str] = []
        self.registered = asyncio.Event()

    async def get_options(self) -> DevicePluginOptions:
        return DevicePluginOptions()

    async def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
        yield (PluginDevice("a", numa_nodes=(0,)), PluginDevice("b"))
        await asyncio.Event().wait()

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        return ()

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        self.calls.append(f"Allocate {','.join(requests[0])}")
        return tuple(ContainerAllocateResponse(envs={"DP_DEV": ",".join(ids)}) for ids in requests)

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        raise AssertionError("nobody asked for it")

    async def get_info(self) -> PluginInfo:
        return PluginInfo("DRAPlugin", "live.example.com", f"{self.root}/plugins/live.sock", ("v1.DRAPlugin",))

    async def notify_registration_status(self, status: RegistrationStatus) -> None:
        assert status == RegistrationStatus(True)
        self.registered.set()

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.calls.append(f"Prepare {claims[0].name}")
        device = PreparedDevice("node-live", "d0", ("g",), ("live.example.com/dev=d0",))
        return {ref.uid: PrepareResult((device,)) for ref in claims}

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        self.calls.append(f"Unprepare {claims[0].name}")
        return {ref.uid: "" for ref in claims}


async def until(holds: Callable[[], object], what: str) -> None:
    for _ in range(800):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"waited too long until {what}")


def pod(name: str) -> dict[str, object]:
    resources = {
        "limits": {"live.example.com/dp": "1"},
        "requests": {"live.example.com/dp": "1"},
        "claims": [{"name": "g"}],
    }
    container = {"name": "c", "image": "i", "command": ["sh", "-c", SCRIPT], "resources": resources}
    spec = {
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        "resourceClaims": [{"name": "g", "resourceClaimName": "one"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def claim_status(pod_uid: str) -> dict[str, object]:
    result = {"request": "g", "driver": "live.example.com", "pool": "node-live", "device": "d0"}
    reserved = {"resource": "pods", "name": "p", "uid": pod_uid}
    return {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}}


async def live(directory: str) -> None:
    clock, files, net, root = RealClock(), RealFiles(), WireNet(), f"{directory}/k"
    for name in (f"{directory}/cdi", f"{root}/plugins", f"{root}/plugins_registry"):
        files.make_directory(name)
    files.write(f"{directory}/cdi/live.json", SPEC.encode())
    api = new_api_server(clock, random.Random(1))
    runtime = ProcessRuntime(clock, files, RealHost(), (f"{directory}/cdi",), f"{directory}/run")
    timings = Timings(node_status_s=0.2, registry_tick_s=0.1)
    options = KubeletOptions(rules=rules("1.36", {}), directory=root, timings=timings)
    kubelet = Kubelet("node-live", api.as_actor("kubelet"), WireNet(), files, clock, runtime, options)
    plugin = Plugin(root)
    await kubelet.start()
    served = []
    try:
        served.append(await net.serve(f"{root}/plugins/live.sock", Services(dra=plugin)))
        served.append(await net.serve(f"{root}/plugins_registry/live-reg.sock", Services(plugin_registration=plugin)))
        served.append(await net.serve(f"{root}/device-plugins/live.sock", Services(device_plugin=plugin)))
        channel = await net.connect(f"{root}/device-plugins/kubelet.sock")
        request = RegisterRequest("v1beta1", "live.sock", "live.example.com/dp")
        await channel.kubelet_registration().register(request)
        await channel.close()
        await asyncio.wait_for(plugin.registered.wait(), 10)
        await until(
            lambda: api.get(NODE, "node-live")["status"]["allocatable"].get("live.example.com/dp") == "2",
            "capacity shows",
        )
        claim = {
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "any"}}]}},
        }
        api.create(RESOURCE_CLAIM, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim}, "default")
        uid = api.create(POD, pod("p"), "default")["metadata"]["uid"]
        api.patch(RESOURCE_CLAIM, "one", claim_status(uid), "default", subresource="status")
        api.bind("default", "p", "node-live")
        await until(lambda: api.get(POD, "p", "default")["status"].get("phase") == "Running", "the pod runs")
        (container,) = runtime.containers()
        await until(lambda: len(runtime.logs(container.id).split()) == 3, "the container printed")
        assert runtime.logs(container.id).decode().split() == ["a", "d0", "00"]
        api.delete(POD, "p", "default")
        await until(lambda: api.find(POD, "p", "default") is None, "the pod is gone")
        assert plugin.calls == ["Allocate a", "Prepare one", "Unprepare one"]
    finally:
        for one in served:
            await one.stop()
        await kubelet.stop()
        await runtime.close()
    assert not runtime.containers() or not any(state.running for state in runtime.containers())


@pytest.mark.row(49, how="real")
@pytest.mark.row(50, how="real")
def test_both_stacks_over_unix_sockets_with_a_child_process() -> None:
    with tempfile.TemporaryDirectory(prefix="rg-") as directory:
        asyncio.run(live(directory))
