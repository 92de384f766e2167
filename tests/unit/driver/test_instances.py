"""Two instances of the driver on one node: a newer one replaces an older, and neither disturbs the other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest
from tests.unit.driver.fakes import DRIVER, FOUR, KUBELET, Node, device, run, settle

from regauge.driver import decode_checkpoint
from regauge.driver.checkpoint import ClaimState, encode
from regauge.driver.instances import TURN_LIMIT_S, Turns, addresses
from regauge.driver.status import Status
from regauge.model.kinds import RESOURCE_SLICE

OLD, NEW = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
CHECKPOINT = f"{KUBELET}/plugins/{DRIVER}/checkpoint.json"


def both(scenario: object, **parts: object) -> None:
    async def play(node: Node) -> None:
        node.pod_uid = OLD
        await node.start()
        other = node.beside(NEW)
        await other.start()
        try:
            await scenario(node, other)  # type: ignore[operator]
        finally:
            await other.stop()

    run(play, **parts)


@pytest.mark.parametrize(
    ("driver", "uid", "registry", "endpoint"),
    [
        (DRIVER, "", f"{DRIVER}-reg.sock", "dra.sock"),
        (DRIVER, OLD, f"{DRIVER}-{OLD}-reg.sock", f"dra-{OLD}.sock"),
        ("a" * 40, OLD, f"{'a' * 40}-uXC_VHuiiTY-reg.sock", "dra-uXC_VHuiiTY.sock"),
        ("a" * 63, OLD, "dra--TzVUq35rOXLocqUO0CXbg-reg.sock", "uXC_VHui.sock"),
    ],
)
def test_sockets_are_named_after_the_pod_and_short_enough(driver: str, uid: str, registry: str, endpoint: str) -> None:
    at = addresses(KUBELET, driver, uid)
    assert at.registry == f"{KUBELET}/plugins_registry/{registry}"
    assert at.endpoint == f"{KUBELET}/plugins/{driver}/{endpoint}"
    assert all(len(path) <= 107 for path in (at.registry, at.endpoint))


@pytest.mark.row(249, how="unit")
def test_a_claim_prepared_by_one_is_released_by_the_other() -> None:
    async def scenario(old: Node, new: Node) -> None:
        first, second = old.claim("c", "gpu-2"), old.claim("d", "gpu-2")
        olds = (await old.net.connect(addresses(KUBELET, DRIVER, OLD).endpoint)).dra("v1")
        news = (await old.net.connect(addresses(KUBELET, DRIVER, NEW).endpoint)).dra("v1")
        answer = await olds.node_prepare_resources([first])
        assert answer["uid-c"].devices
        assert await news.node_prepare_resources([first]) == answer
        assert "still prepared" in (await news.node_prepare_resources([second]))["uid-d"].error
        assert await news.node_unprepare_resources([first]) == {"uid-c": ""}
        assert (await olds.node_prepare_resources([second]))["uid-d"].devices
        assert list(decode_checkpoint(old.files.read(CHECKPOINT), "").claims) == ["uid-d"]

    both(scenario)


@pytest.mark.row(249, how="unit")
def test_the_old_one_ends_and_the_new_one_takes_over_without_a_trace() -> None:
    async def scenario(old: Node, new: Node) -> None:
        assert old.kube is not None
        await old.clock.advance(1)
        slices = old.kube.slices()
        assert (await old.kubelet.info()).endpoint.endswith(f"dra-{NEW}.sock")
        assert [notice.code for notice in new.told("standing-by")] == ["standing-by"]
        assert len(old.kubelet.registered) == 1
        answer = await (await old.kubelet.dra()).node_prepare_resources([old.claim("c", "gpu-3")])
        await old.stop()
        await old.clock.advance(1)
        assert new.told("leading")
        assert old.kube.slices() == slices
        assert len(old.kubelet.registered) == 2
        assert {one.id for one in old.kubelet.lists[-1]} == {"gpu-0", "gpu-1"}
        assert await (await new.kubelet.dra()).node_prepare_resources([old.claim("c", "gpu-3")]) == answer
        names = await anext(old.net.watch(f"{KUBELET}/plugins_registry"))
        assert list(names) == [f"{DRIVER}-{NEW}-reg.sock"]
        assert list(await anext(old.net.watch(f"{KUBELET}/plugins/{DRIVER}"))) == [f"dra-{NEW}.sock"]

    both(scenario)


@pytest.mark.parametrize("dying", ["old", "new"])
def test_one_is_killed_and_the_other_goes_on_and_clears_up(dying: str) -> None:
    async def scenario(old: Node, new: Node) -> None:
        assert old.kube is not None
        await old.clock.advance(1)
        ref = old.claim("c", "gpu-2")
        answer = await (await old.kubelet.dra()).node_prepare_resources([ref])
        gone, left = (old, new) if dying == "old" else (new, old)
        await gone.kill()
        await old.clock.advance(3)
        assert await (await old.kubelet.dra()).node_prepare_resources([ref]) == answer
        assert list(await anext(old.net.watch(f"{KUBELET}/plugins_registry"))) == [f"{DRIVER}-{left.pod_uid}-reg.sock"]
        assert len(left.told("leftover-socket")) == 2
        old.kube.remove(RESOURCE_SLICE, old.kube.slices()[0]["metadata"]["name"])
        await old.clock.advance(2)
        assert len(old.kube.slices()) == 1

    both(scenario)


def test_a_claim_cut_off_by_a_dead_instance_is_rolled_back_by_the_one_that_lives() -> None:
    async def scenario(old: Node, new: Node) -> None:
        ref = old.claim("c", "gpu-2")
        await (await old.kubelet.dra()).node_prepare_resources([ref])
        record = decode_checkpoint(old.files.read(CHECKPOINT), "")
        cut = {uid: msgspec.structs.replace(claim, state=ClaimState.STARTED) for uid, claim in record.claims.items()}
        old.files.write(CHECKPOINT, encode(replace(record, claims=cut)))
        await new.kill()
        assert (await (await old.kubelet.dra()).node_prepare_resources([ref]))["uid-c"].devices
        assert decode_checkpoint(old.files.read(CHECKPOINT), "").claims["uid-c"].state is ClaimState.COMPLETED

    both(scenario)


def test_the_new_one_follows_a_handover_by_the_old_one() -> None:
    async def scenario(old: Node, new: Node) -> None:
        old.describe(FOUR.replace(device("gpu-3", "dra"), device("gpu-3", "device-plugin")))
        await old.clock.advance(20)
        assert old.told("handed-over")
        assert not new.told("handed-over")
        answer = await (await new.kubelet.dra()).node_prepare_resources([old.claim("c", "gpu-3")])
        assert "served by the device plugin" in answer["uid-c"].error

    both(scenario)


def test_the_one_that_stands_by_is_ready() -> None:
    async def scenario(old: Node, new: Node) -> None:
        status = Status(new.clock)
        tell = status.hear(lambda _: None)
        await new.kubelet.info()
        for notice in new.notices:
            tell(notice)
        assert status.unready(new.driver) == ()
        await old.stop()
        await new.clock.advance(1)
        assert status.unready(new.driver) == ("the kubelet has not registered example.com/gpu",)

    both(scenario)


def test_a_lock_that_is_never_given_back_is_an_answer_in_words() -> None:
    async def scenario(node: Node) -> None:
        node.pod_uid = OLD
        await node.start()
        locks = node.locks.of("somebody")
        assert locks(f"{KUBELET}/plugins/{DRIVER}/serialize.lock").take()
        dra = await node.kubelet.dra()
        call = asyncio.ensure_future(dra.node_prepare_resources([node.claim("c", "gpu-2")]))
        await node.clock.advance(TURN_LIMIT_S + 1)
        with pytest.raises(Exception, match="another instance of the driver has held the lock for 20 s"):
            await call

    run(scenario)


def test_a_checkpoint_broken_by_the_other_is_kept_aside_and_its_claims_are_not_forgotten() -> None:
    async def scenario(old: Node, new: Node) -> None:
        olds = (await old.net.connect(addresses(KUBELET, DRIVER, OLD).endpoint)).dra("v1")
        news = (await old.net.connect(addresses(KUBELET, DRIVER, NEW).endpoint)).dra("v1")
        await olds.node_prepare_resources([old.claim("c", "gpu-2")])
        await news.node_prepare_resources([old.claim("d", "gpu-3")])
        old.files.write(CHECKPOINT, b"nonsense")
        assert "still prepared" in (await olds.node_prepare_resources([old.claim("e", "gpu-2")]))["uid-e"].error
        assert "still prepared" in (await olds.node_prepare_resources([old.claim("f", "gpu-3")]))["uid-f"].error
        assert old.files.read(f"{CHECKPOINT}.corrupt-1") == b"nonsense"

    both(scenario)


def test_turns_are_taken_one_after_the_other_in_one_process() -> None:
    async def scenario(node: Node) -> None:
        turns, order = Turns(node.clock, None, lambda: None), []

        async def turn(name: str) -> None:
            async with turns.mine():
                order.append(f"{name}+")
                await settle()
                order.append(f"{name}-")

        await asyncio.gather(turn("a"), turn("b"))
        assert order == ["a+", "a-", "b+", "b-"]

    run(scenario)
