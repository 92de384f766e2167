"""What only a net in memory can do: several processes in one, and killing one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest

from regauge.base import InputError
from regauge.pluginapi import ClaimRef, PluginDevice, PrepareResult, RpcError, Services
from regauge.pluginapi.memory import MemoryNet


class Slow:
    """Never answers a prepare, lists once."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended.append("prepare")
        return {}

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return {claim.uid: "" for claim in claims}


def test_a_killed_process_leaves_its_address_behind_and_its_calls_fail() -> None:
    async def scenario() -> None:
        net = MemoryNet("kubelet")
        process = net.process("driver")
        slow = Slow()
        await process.serve("/d/dra.sock", Services(dra=slow))
        channel = await net.connect("/d/dra.sock")
        call = asyncio.ensure_future(channel.dra("v1").node_prepare_resources([]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        process.kill()
        with pytest.raises(RpcError, match="error reading from server: EOF") as caught:
            await call
        assert caught.value.code == "Unavailable"
        assert slow.ended == ["prepare"]
        await channel.wait_lost()
        with pytest.raises(RpcError, match="connection refused"):
            await net.connect("/d/dra.sock")
        seen = await anext(net.watch("/d"))
        assert list(seen) == ["dra.sock"]
        again = await process.serve("/d/dra.sock", Services(dra=slow))
        assert (await anext(net.watch("/d")))["dra.sock"] != seen["dra.sock"]
        assert await channel.dra("v1").node_unprepare_resources([ClaimRef("n", "u", "c")]) == {"u": ""}
        await again.stop()

    asyncio.run(scenario())


def test_a_killed_client_ends_its_calls_at_the_server() -> None:
    async def scenario() -> None:
        net = MemoryNet("driver")
        kubelet = net.process("kubelet")
        slow = Slow()
        await net.serve("/d/dra.sock", Services(dra=slow))
        channel = await kubelet.connect("/d/dra.sock")
        call = asyncio.ensure_future(channel.dra("v1").node_prepare_resources([]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        kubelet.kill()
        with pytest.raises(RpcError, match="closing"):
            await call
        await asyncio.sleep(0)
        assert slow.ended == ["prepare"]

    asyncio.run(scenario())


def test_the_owner_of_a_living_address_is_named() -> None:
    async def scenario() -> None:
        net = MemoryNet()
        await net.process("driver-a").serve("/d/a.sock", Services())
        with pytest.raises(InputError, match=r"/d/a\.sock: the socket is in use by driver-a"):
            await net.process("driver-b").serve("/d/a.sock", Services())

    asyncio.run(scenario())


def test_a_sender_waits_for_a_reader_that_does_not_read() -> None:
    sent: list[int] = []

    class Eager(Slow):
        async def get_options(self) -> None: ...

        async def list_and_watch(self) -> AsyncIterator[tuple[PluginDevice, ...]]:
            for number in range(1000):
                sent.append(number)
                yield (PluginDevice(str(number)),)

    async def scenario() -> None:
        net = MemoryNet()
        await net.serve("/d/a.sock", Services(device_plugin=Eager()))  # type: ignore[arg-type]  # only what is called
        channel = await net.connect("/d/a.sock")
        stream = channel.device_plugin().list_and_watch()
        await anext(stream)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(sent) < 30
        assert len([one async for one in stream]) == 999
        assert len(sent) == 1000

    asyncio.run(scenario())
