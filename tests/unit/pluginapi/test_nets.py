"""One contract for both nets: what holds on unix sockets holds in memory, so a rehearsal proves something."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.unit.pluginapi.answers import POD, Plugin

from regauge.base import InputError
from regauge.pluginapi import (
    ClaimRef,
    DeviceHealth,
    DevicePluginOptions,
    Health,
    PluginDevice,
    PluginNet,
    PreferredAllocationRequest,
    PreparedDevice,
    PrepareResult,
    RegisterRequest,
    RegistrationStatus,
    RpcError,
    Services,
)
from regauge.pluginapi.memory import MemoryNet
from regauge.pluginapi.wire import WireNet

Scenario = Callable[[PluginNet, str], Awaitable[None]]


@pytest.fixture(params=["memory", "wire"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Scenario], None]]:
    """Runs a scenario on a net with a directory of its own."""
    directory = Path(tempfile.mkdtemp(prefix="rg-", dir="/tmp"))

    def play(scenario: Scenario) -> None:
        net: PluginNet = MemoryNet() if request.param == "memory" else WireNet()

        async def limited() -> None:
            async with asyncio.timeout(20):
                await scenario(net, str(directory))

        asyncio.run(limited())

    yield play
    shutil.rmtree(directory)


def everything(plugin: Plugin) -> Services:
    return Services(
        device_plugin=plugin,
        kubelet_registration=plugin,
        plugin_registration=plugin,
        dra=plugin,
        health=plugin,
        pod_resources=plugin,
    )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # the thing waited for is a file
        await asyncio.sleep(0.01)


@pytest.mark.row(167)
@pytest.mark.row(195)
@pytest.mark.row(196)
@pytest.mark.row(197)
def test_device_plugin_calls_arrive_whole_and_answers_come_back_whole(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        assert served.address == f"{directory}/a.sock"
        channel = await net.connect(served.address)
        client = channel.device_plugin()
        assert await client.get_options() == DevicePluginOptions(True, True)
        wish = PreferredAllocationRequest(("a", "b", "c"), ("b",), 2)
        assert await client.get_preferred_allocation([wish]) == (("a", "b"),)
        assert await client.allocate([["a"], ["b", "c"]]) == await Plugin().allocate([["a"], ["b", "c"]])
        assert plugin.heard == [(wish,), (("a",), ("b", "c"))]
        with pytest.raises(RpcError) as caught:
            await client.pre_start_container(["a"])
        assert (caught.value.code, caught.value.details) == ("Internal", "reset of a failed")
        await channel.close()
        await served.stop()

    run(scenario)


@pytest.mark.row(199)
def test_dra_calls_in_both_versions(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)
        claims = (ClaimRef("ns", "u1", "good"), ClaimRef("ns", "u2", "bad"))
        answer = await channel.dra("v1").node_prepare_resources(claims)
        assert answer["u1"].devices[0].share_id == "s-1"
        assert answer["u2"] == PrepareResult(error="busy")
        old = await channel.dra("v1beta1").node_prepare_resources(claims)
        assert old["u1"].devices[0] == PreparedDevice("pool", "gpu-0", ("r",), ("example.com/widget=x",), None)
        assert plugin.heard == [claims, claims]
        for version in ("v1", "v1beta1"):
            assert await channel.dra(version).node_unprepare_resources(claims) == {"u1": "", "u2": "stuck"}
        for version in ("v1", "v1alpha1"):
            reports = []
            with pytest.raises(RpcError, match="no health here") as caught:
                async for report in channel.health(version).node_watch_resources():
                    reports.append(report)
            assert caught.value.code == "Unimplemented"
            assert reports == [(DeviceHealth("pool", "gpu-0", Health.UNHEALTHY, 17, 30, "too hot"),)]
        await channel.close()
        await served.stop()

    run(scenario)


def test_registration_and_pod_resources(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)
        request = RegisterRequest("v1beta1", "a.sock", "example.com/widget", DevicePluginOptions(True, False))
        status = RegistrationStatus(plugin_registered=False, error="no")
        await channel.kubelet_registration().register(request)
        await channel.plugin_registration().notify_registration_status(status)
        assert plugin.heard == [request, status]
        assert await channel.plugin_registration().get_info() == await plugin.get_info()
        pods = channel.pod_resources()
        assert await pods.list() == (POD,)
        assert await pods.get("team", "web") == POD
        assert await pods.get_allocatable_resources() == await plugin.get_allocatable_resources()
        with pytest.raises(RpcError, match="not found") as caught:
            await pods.get("team", "other")
        assert caught.value.code == "NotFound"
        await channel.close()
        await served.stop()

    run(scenario)


def test_what_is_not_served_is_unimplemented(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        served = await net.serve(f"{directory}/a.sock", Services(dra=Plugin(), dra_versions=("v1",)))
        channel = await net.connect(served.address)
        with pytest.raises(RpcError) as caught:
            await channel.dra("v1beta1").node_prepare_resources([])
        assert caught.value.code == "Unimplemented"
        with pytest.raises(RpcError) as caught:
            async for _ in channel.health("v1").node_watch_resources():
                pass
        assert caught.value.code == "Unimplemented"
        await channel.close()
        await served.stop()

    run(scenario)


@pytest.mark.row(191)
@pytest.mark.row(194)
def test_a_stream_delivers_in_order_and_ends_when_the_plugin_ends_it(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)
        lists = [(), (PluginDevice("a"), PluginDevice("b", "Unhealthy", (0, 1))), (PluginDevice("a"),)]
        for one in [*lists, None]:
            plugin.lists.put_nowait(one)
        assert [devices async for devices in channel.device_plugin().list_and_watch()] == lists
        await plugin.ended.wait()
        plugin.lists.put_nowait(ValueError("odd"))
        with pytest.raises(RpcError, match="odd") as caught:
            async for _ in channel.device_plugin().list_and_watch():
                pass
        assert caught.value.code == "Unknown"
        await channel.close()
        await served.stop()

    run(scenario)


def test_a_reader_that_goes_away_ends_the_stream_at_the_plugin(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)
        plugin.lists.put_nowait((PluginDevice("a"),))
        stream = channel.device_plugin().list_and_watch()
        assert await anext(stream) == (PluginDevice("a"),)
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator behind the protocol
        await plugin.ended.wait()
        await channel.close()
        await served.stop()

    run(scenario)


def test_a_list_over_four_mebibytes_ends_the_stream(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)
        plugin.lists.put_nowait(tuple(PluginDevice(f"{i:063d}", numa_nodes=(1,)) for i in range(50_000)))
        plugin.lists.put_nowait(tuple(PluginDevice(f"{i:063d}", numa_nodes=(1,)) for i in range(60_000)))
        stream = channel.device_plugin().list_and_watch()
        assert len(await anext(stream)) == 50_000
        with pytest.raises(RpcError) as caught:
            await anext(stream)
        assert caught.value.code == "ResourceExhausted"
        assert "4194304" in caught.value.details
        await channel.close()
        await served.stop()

    run(scenario)


def test_nobody_there_says_why(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        with pytest.raises(RpcError, match="no such file or directory") as caught:
            await net.connect(f"{directory}/none.sock", timeout_s=2)
        assert caught.value.code == "Unavailable"

    run(scenario)


def test_a_living_socket_is_refused_and_stays(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        served = await net.serve(f"{directory}/a.sock", everything(Plugin()))
        with pytest.raises(InputError, match=r"a\.sock: the socket is in use"):
            await net.serve(f"{directory}/a.sock", everything(Plugin()))
        channel = await net.connect(served.address)
        assert await channel.plugin_registration().get_info()
        await channel.close()
        await served.stop()
        await served.stop()
        again = await net.serve(f"{directory}/a.sock", everything(Plugin()))
        await again.stop()

    run(scenario)


def test_a_path_that_linux_cannot_take_is_refused_in_words(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        with pytest.raises(InputError, match="Linux allows 107"):
            await net.serve(f"{directory}/{'x' * 100}.sock", Services())

    run(scenario)


def test_when_the_server_stops_open_calls_fail_and_the_connection_is_lost(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)
        plugin.lists.put_nowait(())
        stream = channel.device_plugin().list_and_watch()
        await anext(stream)
        lost = asyncio.ensure_future(channel.wait_lost())
        await asyncio.sleep(0.05)
        assert not lost.done()
        await served.stop()
        with pytest.raises(RpcError) as caught:
            await anext(stream)
        assert caught.value.code == "Unavailable"
        await lost
        with pytest.raises(RpcError) as caught:
            await channel.device_plugin().get_options()
        assert caught.value.code == "Unavailable"
        await channel.close()

    run(scenario)


def test_a_channel_finds_a_server_that_came_back(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        served = await net.serve(f"{directory}/a.sock", everything(Plugin()))
        channel = await net.connect(served.address)
        await channel.device_plugin().get_options()
        await served.stop()
        await channel.wait_lost()
        served = await net.serve(f"{directory}/a.sock", everything(Plugin()))
        while True:
            with contextlib.suppress(RpcError):
                await channel.device_plugin().get_options()
                break
            await asyncio.sleep(0.05)
        await channel.close()
        await served.stop()

    run(scenario)


def test_closing_ends_open_calls(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        plugin = Plugin()
        served = await net.serve(f"{directory}/a.sock", everything(plugin))
        channel = await net.connect(served.address)

        async def read() -> None:
            async for _ in channel.device_plugin().list_and_watch():
                pass

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(0.1)
        await channel.close()
        with pytest.raises(RpcError) as caught:
            await reading
        assert caught.value.code == "Canceled"
        with pytest.raises(RpcError) as caught:
            await channel.device_plugin().get_options()
        assert caught.value.code == "Canceled"
        await channel.wait_lost()
        await plugin.ended.wait()
        await served.stop()

    run(scenario)


def test_a_cancelled_call_is_cancelled_at_the_plugin(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        cancelled = asyncio.Event()

        class Slow(Plugin):
            async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
                return {}

        served = await net.serve(f"{directory}/a.sock", everything(Slow()))
        channel = await net.connect(served.address)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await channel.dra("v1").node_prepare_resources([])
        await cancelled.wait()
        await channel.close()
        await served.stop()

    run(scenario)


def test_watching_a_directory_shows_what_is_there_and_what_changes(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        seen: list[Mapping[str, int]] = []

        async def watch() -> None:
            async for sockets in net.watch(directory):
                seen.append(sockets)

        first = await net.serve(f"{directory}/a.sock", Services())
        watching = asyncio.ensure_future(watch())
        await until(lambda: len(seen) == 1)
        other = await net.serve(f"{directory}/b.sock", Services())
        await until(lambda: len(seen) == 2)
        await first.stop()
        await until(lambda: len(seen) == 3)
        again = await net.serve(f"{directory}/a.sock", Services())
        await until(lambda: len(seen) == 4)
        await net.remove(f"{directory}/b.sock")
        await until(lambda: len(seen) == 5)
        await net.remove(f"{directory}/b.sock")
        assert [sorted(sockets) for sockets in seen] == [
            ["a.sock"],
            ["a.sock", "b.sock"],
            ["b.sock"],
            ["a.sock", "b.sock"],
            ["a.sock"],
        ]
        assert seen[0]["a.sock"] != seen[3]["a.sock"]
        assert seen[1]["b.sock"] == seen[3]["b.sock"]
        watching.cancel()
        await again.stop()
        await other.stop()

    run(scenario)


def test_a_socket_whose_name_was_removed_still_answers_its_connections(run: Callable[[Scenario], None]) -> None:
    async def scenario(net: PluginNet, directory: str) -> None:
        served = await net.serve(f"{directory}/a.sock", everything(Plugin()))
        channel = await net.connect(served.address)
        await channel.device_plugin().get_options()
        await net.remove(served.address)
        assert await channel.device_plugin().get_options()
        with pytest.raises(RpcError, match="no such file"):
            await net.connect(served.address, timeout_s=2)
        replacement = await net.serve(f"{directory}/a.sock", everything(Plugin()))
        await served.stop()  # the name belongs to the other one by now
        newer = await net.connect(replacement.address)
        assert await newer.device_plugin().get_options()
        await channel.close()
        await newer.close()
        await replacement.stop()

    run(scenario)
