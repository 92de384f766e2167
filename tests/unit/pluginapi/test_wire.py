"""What only real sockets and real processes show."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import shared

from regauge.base import InputError
from regauge.pluginapi import PluginDevice, RpcError, Services
from regauge.pluginapi.calls import RPCS, health_service
from regauge.pluginapi.sizes import list_size_bytes
from regauge.pluginapi.wire import WireNet
from regauge.pluginapi.wire.codec import codecs

SERVER = """
import asyncio, sys
from regauge.pluginapi import DevicePluginOptions, Services
from regauge.pluginapi.wire import WireNet

class Plugin:
    async def get_options(self):
        return DevicePluginOptions()

async def main():
    await WireNet().serve(sys.argv[1], Services(device_plugin=Plugin()))
    print("up", flush=True)
    await asyncio.Event().wait()

class Whole(Plugin):
    list_and_watch = get_preferred_allocation = allocate = pre_start_container = None

Plugin = Whole
asyncio.run(main())
"""


@pytest.fixture
def directory() -> Iterator[str]:
    place = tempfile.mkdtemp(prefix="rg-", dir="/tmp")
    yield place
    shutil.rmtree(place)


def start_server(address: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, address], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_sockets_are_for_their_owner_only_and_nothing_else_is_left(directory: str) -> None:
    async def scenario() -> None:
        served = await WireNet().serve(f"{directory}/a.sock", Services())
        found = os.stat(f"{directory}/a.sock")
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert os.listdir(directory) == ["a.sock"]
        await served.stop()
        assert os.listdir(directory) == []

    asyncio.run(scenario())


def test_a_living_process_is_named(directory: str) -> None:
    process = start_server(f"{directory}/a.sock")
    try:
        with pytest.raises(InputError, match=rf"in use by process {process.pid} \(python"):
            asyncio.run(WireNet().serve(f"{directory}/a.sock", Services()))
    finally:
        stop(process)


def test_a_killed_process_is_noticed_and_its_leftover_replaced(directory: str) -> None:
    address = f"{directory}/a.sock"
    process = start_server(address)

    async def scenario() -> None:
        net = WireNet()
        channel = await net.connect(address)
        await channel.device_plugin().get_options()
        process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(channel.wait_lost(), 5)
        process.wait()
        with pytest.raises(RpcError, match="connection refused"):
            await net.connect(address, timeout_s=2)
        served = await net.serve(address, Services())
        await served.stop()
        await channel.close()

    try:
        asyncio.run(scenario())
    finally:
        stop(process)


def test_a_file_that_is_no_socket_is_left_as_it_is(directory: str) -> None:
    place = Path(directory) / "a.sock"
    place.write_text("precious")
    with pytest.raises(InputError, match="not a socket"):
        asyncio.run(WireNet().serve(str(place), Services()))
    assert place.read_text() == "precious"


@pytest.mark.parametrize("ticks", range(6))
def test_cancelled_at_any_moment_of_its_start_a_server_is_gone_without_a_word(
    directory: str, ticks: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever is told to stop may be starting a server just then."""
    address = f"{directory}/a.sock"

    async def main() -> bool:
        net = WireNet()
        serving = asyncio.create_task(net.serve(address, Services()))
        for _ in range(ticks):
            await asyncio.sleep(0)
        serving.cancel()
        (outcome,) = await asyncio.gather(serving, return_exceptions=True)
        if not isinstance(outcome, BaseException):
            await outcome.stop()
        await asyncio.sleep(0.05)
        gc.collect()  # what is never asked for complains when it is thrown away
        left = os.listdir(directory)
        await (await net.serve(address, Services())).stop()
        return not left and (not isinstance(outcome, BaseException) or isinstance(outcome, asyncio.CancelledError))

    assert asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == []


def test_a_missing_directory_is_said(directory: str) -> None:
    with pytest.raises(InputError, match=r"directory .*/none of the socket does not exist"):
        asyncio.run(WireNet().serve(f"{directory}/none/a.sock", Services()))


def test_a_listener_that_says_nothing_ends_in_a_deadline(directory: str) -> None:
    async def scenario() -> None:
        with pytest.raises(RpcError) as caught:
            await WireNet().connect(f"{directory}/mute.sock", timeout_s=0.5)
        assert caught.value.code == "DeadlineExceeded"

    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(f"{directory}/mute.sock")
        mute.listen()
        asyncio.run(scenario())


@pytest.mark.parametrize(
    "devices",
    [
        (),
        (PluginDevice("a"),),
        (PluginDevice("", ""),),
        (PluginDevice("ä" * 40, "Unhealthy", (0,)), PluginDevice("x" * 63, numa_nodes=(0, 1, 300))),
        tuple(PluginDevice(f"GPU-{i:032x}", numa_nodes=(i % 2,)) for i in range(1000)),
        (PluginDevice("n", numa_nodes=(-1, 2**40)),),
    ],
)
def test_the_size_of_a_list_is_known_before_it_is_written(devices: tuple[PluginDevice, ...]) -> None:
    written = codecs()["v1beta1.DevicePlugin", "list_and_watch"].response_bytes(devices)
    assert list_size_bytes(devices) == len(written)


def test_every_call_has_its_messages() -> None:
    assert set(codecs()) == {(service, rpc.method) for service, rpcs in RPCS.items() for rpc in rpcs}
    assert (health_service("v1alpha1"), "node_watch_resources") in codecs()


def test_the_packaged_descriptors_are_the_recorded_ones() -> None:
    import regauge.pluginapi

    packaged = Path(regauge.pluginapi.__file__).parent / "kubelet_api.fds"
    assert packaged.read_bytes() == shared("vectors/kubelet_api.fds").read_bytes()


def test_nothing_enters_the_default_pool() -> None:
    from google.protobuf import descriptor_pool

    codecs()["v1beta1.DevicePlugin", "list_and_watch"].response_bytes(())
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("v1beta1.Device")
