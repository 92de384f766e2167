"""The driver dies between any two of its writes, and the next start goes on from there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.driver.fakes import DRIVER, FOUR, KUBELET, Node, run, settle

from regauge.driver import decode_checkpoint
from regauge.driver.instances import addresses
from regauge.pluginapi import ClaimRef, PrepareResult, RpcError


class Crash(BaseException):
    """The process is killed."""


class Deadly:
    """`Files` that kills whoever makes the n-th change, before or after it is done; once."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self.left: int | None = None
        self.after = False
        self.dead = False

    def arm(self, changes: int, after: bool) -> None:
        self.left, self.after = changes, after

    def _change(self, name: str, *arguments: Any) -> None:
        if self.dead:
            raise Crash
        if self.left is not None:
            self.dead = self.left == 0
            self.left -= 1
        if not self.dead or self.after:
            getattr(self._files, name)(*arguments)
        if self.dead:
            raise Crash

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self._change("write", path, data, mode)

    def remove(self, path: str) -> None:
        self._change("remove", path)

    def rename(self, old: str, new: str) -> None:
        self._change("rename", old, new)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


async def start(node: Node) -> Deadly:
    made: list[Deadly] = []

    def wrap(files: Any) -> Deadly:
        made.append(Deadly(files))
        return made[0]

    await node.start(wrap)
    return made[0]


async def call(node: Node, method: str, refs: list[ClaimRef]) -> Any:
    """The kubelet's call of this instance; None when the driver died during it."""
    try:
        endpoint = addresses(KUBELET, DRIVER, node.pod_uid).endpoint
        dra = (await node.net.connect(endpoint)).dra("v1")
        calling = asyncio.ensure_future(getattr(dra, method)(refs))
        await settle()
        while not calling.done():  # another instance has its turn
            await node.clock.advance(0.1)
        return await calling
    except (Crash, RpcError):
        return None


# STARTED, spec, COMPLETED; spec removed, forgotten. With metadata also its file and the spec that mounts it.
@pytest.mark.row(75)
@pytest.mark.row(249)
@pytest.mark.parametrize(("metadata", "steps"), [(False, 5), (True, 9)])
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_write_of_prepare_and_unprepare(after: bool, metadata: bool, steps: int) -> None:
    crashes = 0
    for changes in range(20):
        survived: list[bool] = []

        async def scenario(node: Node, changes: int = changes, survived: list[bool] = survived) -> None:
            node.describe(FOUR.replace("devices:", f"deviceMetadata: {str(metadata).lower()}\ndevices:"))
            files = await start(node)
            ref, other = node.claim("c", "gpu-2", "gpu-3"), node.claim("other", "gpu-3")
            files.arm(changes, after)
            answers = [await call(node, f"node_{what}_resources", [ref]) for what in ("prepare", "unprepare")]
            survived.append(not files.dead)
            await node.kill()
            await start(node)
            prepared = await call(node, "node_prepare_resources", [ref])
            assert prepared["uid-c"].error == ""
            assert len(prepared["uid-c"].devices) == 2
            if answers[0] is not None:
                assert answers[0] == prepared
            assert "still prepared" in (await call(node, "node_prepare_resources", [other]))["uid-other"].error
            assert await call(node, "node_unprepare_resources", [ref]) == {"uid-c": ""}
            assert [name for name in node.spec_names() if "_" in name] == []
            assert (await call(node, "node_prepare_resources", [other]))["uid-other"].error == ""

        run(scenario)
        crashes += not survived[0]
        if survived[0]:
            break
    assert crashes == steps


def test_killed_in_prepare_and_never_asked_again_gives_the_device_to_others() -> None:
    async def scenario(node: Node) -> None:
        files = await start(node)
        ref, other = node.claim("c", "gpu-2"), node.claim("other", "gpu-2")
        files.arm(1, after=True)
        assert await call(node, "node_prepare_resources", [ref]) is None
        await node.kill()
        await start(node)
        assert node.told("rolled-back")
        assert [name for name in node.spec_names() if "_" in name] == []
        assert (await call(node, "node_prepare_resources", [other]))["uid-other"].error == ""

    run(scenario)


DEVICES = ("gpu-2", "gpu-3")
NAMES = ("a", "b", "c")


class Life(RuleBasedStateMachine):
    """Any order of prepare, unprepare, crash, restart, reboot, claims replaced, devices lost, by one instance or several.

    No device is given twice, nothing is left over, and answers repeat, whichever instance gives them.

    `given` are the answers that a kubelet got and did not take back; `maybe` the claims whose call ended in a crash.
    """

    INSTANCES: tuple[str, ...] = ("",)

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.files: dict[str, Deadly] = {}
        self.nodes = self.runner.run(self._begin())
        self.refs: dict[str, ClaimRef] = {}
        self.given: dict[str, PrepareResult] = {}
        self.maybe: set[str] = set()
        self.lost: set[str] = set()
        self.serial = 0

    async def _begin(self) -> dict[str, Node]:
        self.node = Node()
        self.node.describe(FOUR.replace("devices:", "deviceMetadata: true\ndevices:"))
        await self.node.kubelet.start()
        nodes = {}
        for uid in self.INSTANCES:
            nodes[uid] = self.node.beside(uid)
            self.files[uid] = await start(nodes[uid])
            await self.node.clock.advance(3)  # one that comes later sees whose the devices are
        return nodes

    @rule(name=st.sampled_from(NAMES), devices=st.sets(st.sampled_from(DEVICES), min_size=1))
    def allocate(self, name: str, devices: set[str]) -> None:
        """The API has a claim of this name, new or in place of one before."""
        self.serial += 1

        async def put() -> ClaimRef:
            return self.node.claim(name, *sorted(devices), uid=f"uid-{self.serial}")

        self.refs[name] = self.runner.run(put())

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def prepare(self, data: st.DataObject) -> None:
        names = data.draw(st.lists(st.sampled_from(sorted(self.refs)), unique=True, min_size=1))
        refs = [self.refs[name] for name in names]
        held = self._held()
        answer = self.runner.run(call(self._some(data), "node_prepare_resources", refs))
        if answer is None:
            self.maybe.update(ref.uid for ref in refs if ref.uid not in self.given)
            return
        for ref in refs:
            result = answer[ref.uid]
            if ref.uid in self.given:
                assert result == self.given[ref.uid]
            elif not result.error:
                for device in result.devices:
                    assert device.device_name not in held, "given twice"
                    held[device.device_name] = ref.uid
                self.given[ref.uid] = result
            elif "not on this node" in result.error or "device plugin" in result.error:
                assert self.lost, "refused without a reason"
            else:
                assert "still prepared" in result.error
                assert held or self.maybe, "refused without a reason"
            self.maybe.discard(ref.uid)

    @precondition(lambda self: self.given or self.maybe)
    @rule(data=st.data())
    def unprepare(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted({*self.given, *self.maybe})))
        answer = self.runner.run(call(self._some(data), "node_unprepare_resources", [ClaimRef("team", uid, "any")]))
        if answer is None:
            self.given.pop(uid, None)
            self.maybe.add(uid)
            return
        assert answer == {uid: ""}
        self.given.pop(uid, None)
        self.maybe.discard(uid)
        assert f"example.com-gpu_{uid}.yaml" not in self.node.spec_names()

    @rule(device=st.sampled_from(DEVICES), back=st.booleans())
    def lose(self, device: str, back: bool) -> None:
        """A device is taken out of the description, or comes back; the driver sees it while it runs."""
        (self.lost.discard if back else self.lost.add)(device)
        parts = FOUR.replace("devices:", "deviceMetadata: true\ndevices:").split("- name: ")
        kept = [part for part in parts[1:] if part.partition("\n")[0] not in self.lost]
        self.node.describe(parts[0] + "".join(f"- name: {part}" for part in kept))
        self.runner.run(self.node.clock.advance(3))

    @rule(data=st.data(), changes=st.integers(0, 8), after=st.booleans())
    def will_crash(self, data: st.DataObject, changes: int, after: bool) -> None:
        self.files[self._some(data).pod_uid].arm(changes, after)

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """An instance is killed and started again; the other one sees it within seconds."""
        self._restart(self._some(data))

    def _restart(self, node: Node) -> None:
        async def again() -> None:
            await node.kill()
            self.files[node.pod_uid] = await start(node)
            if len(self.INSTANCES) > 1:
                await node.clock.advance(3)

        self.runner.run(again())

    @rule()
    def reboot(self) -> None:
        async def again() -> None:
            for node in self.nodes.values():
                await node.kill()
                node.boot_id += "+"
            for uid, node in self.nodes.items():
                self.files[uid] = await start(node)
                if len(self.INSTANCES) > 1:
                    await node.clock.advance(3)

        self.given.clear()
        self.maybe.clear()
        self.runner.run(again())

    @invariant()
    def a_dead_driver_is_started_again(self) -> None:
        for uid, files in tuple(self.files.items()):
            if files.dead:
                self._restart(self.nodes[uid])

    @invariant()
    def what_was_given_has_its_spec(self) -> None:
        for uid in self.given:
            assert f"example.com-gpu_{uid}.yaml" in self.node.spec_names()
            assert f"{DRIVER}_metadata_{uid}_gpus.json" in self.node.spec_names()

    @invariant()
    def nothing_is_leaked(self) -> None:
        path = f"{KUBELET}/plugins/{DRIVER}/checkpoint.json"
        known = decode_checkpoint(self.node.files.read(path), path).claims
        specs = {name for name in self.node.spec_names() if "_" in name}
        mounts = {f"{DRIVER}_metadata_{uid}_gpus.json" for uid in known}
        assert specs <= {f"example.com-gpu_{uid}.yaml" for uid in known} | mounts
        assert set(known) <= {*self.given, *self.maybe}
        places = {f"team_{claim.name}" for claim in known.values()}
        told = f"{KUBELET}/plugins/{DRIVER}/dra-device-metadata"
        assert not self.node.files.exists(told) or set(self.node.files.names(told)) <= places

    def teardown(self) -> None:
        for node in self.nodes.values():
            self.runner.run(node.kill())
        self.runner.close()

    def _some(self, data: st.DataObject) -> Node:
        return self.nodes[data.draw(st.sampled_from(self.INSTANCES))]

    def _held(self) -> dict[str, str]:
        return {device.device_name: uid for uid, result in self.given.items() for device in result.devices}


class LifeOfTwo(Life):
    """The same with two instances, one of which replaces the other for a while."""

    INSTANCES = ("11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002")


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

TestLifeOfTwo = LifeOfTwo.TestCase
TestLifeOfTwo.settings = settings(TestLife.settings, max_examples=10)


@pytest.mark.soak
class TestLongLifeOfTwo(LifeOfTwo.TestCase):  # type: ignore[misc]  # hypothesis makes it when it runs
    """The same for much longer."""

    settings = settings(TestLife.settings, max_examples=300, stateful_step_count=40)
