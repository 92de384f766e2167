"""What a node keeps when `regauge up` ends and starts again: containers, checkpoints, claims; and whose commands are run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regauge.cluster.api import Api
from regauge.cluster.kubelet import decode_dra_checkpoint
from regauge.features import rules
from regauge.model import Object
from regauge.model.kinds import CORE_EVENT, DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.up import UpOptions, cluster_up

PATIENCE_S = 20.0
REGISTERED_S = 2.5  # until the kubelet has found the driver; a claim that comes before waits for more than a minute


async def until(done: Callable[[], Any], world: NodeWorld | None = None) -> Any:
    for _ in range(int(PATIENCE_S / 0.05)):
        if world is not None:
            world.check()
        found = done()
        if found:
            return found
        await asyncio.sleep(0.05)
    events = world.control.api.list(CORE_EVENT) if world is not None else ()
    raise AssertionError(f"it did not come: {[(one['reason'], one['message']) for one in events]}")


def pod(name: str, claim: str = "", command: tuple[str, ...] = ()) -> Object:
    container: Object = {"name": "c", "image": "i", **({"command": list(command)} if command else {})}
    spec: Object = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    if claim:
        container["resources"] = {"claims": [{"name": "g"}]}
        spec["resourceClaims"] = [{"name": "g", "resourceClaimName": claim}]
    return {"metadata": {"name": name}, "spec": spec}


def running(api: Api, name: str) -> Object | None:
    found = api.find(POD, name, "default")
    return found if found is not None and (found.get("status") or {}).get("phase") == "Running" else None


def container(found: Object) -> Object:
    status: Object = found["status"]["containerStatuses"][0]
    return status


def _slices(world: NodeWorld) -> list[Object]:
    return list(world.control.api.list(RESOURCE_SLICE))


async def with_claim(world: NodeWorld) -> None:
    api = world.control.api.as_actor("test")
    (slice_,) = (await until(lambda: _slices(world), world))[:1]
    driver = slice_["spec"]["driver"]
    await asyncio.sleep(REGISTERED_S)
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    api.create(DEVICE_CLASS, {"metadata": {"name": "any"}, "spec": {"selectors": [selector]}})
    wish = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "any"}}]}}
    api.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": wish}, "default")
    api.create(POD, pod("p", "c"), "default")
    await until(lambda: running(api, "p"), world)


def prepared(state: Path) -> list[str]:
    raw = (state / "nodes" / "node-1" / "var/lib/kubelet" / "dra_manager_state").read_bytes()
    return [claim.name for claim in decode_dra_checkpoint(raw, "dra_manager_state")]


@pytest.mark.row(75, how="unit")
@pytest.mark.row(105, how="unit")
def test_a_node_takes_up_its_pods_where_it_left_them(tmp_path: Path) -> None:
    state = tmp_path / "s"
    options = UpOptions(state, rules("1.36", {}))

    async def first() -> Object:
        async with cluster_up(options) as (_started, world):
            await with_claim(world)
            return container(world.control.api.as_actor("test").get(POD, "p", "default"))

    async def second() -> Object:
        async with cluster_up(options) as (_started, world):
            api = world.control.api.as_actor("test")
            await until(lambda: _slices(world))
            await asyncio.sleep(REGISTERED_S)
            found = container(running(api, "p") or {})
            api.delete(POD, "p", "default")
            await until(lambda: api.find(POD, "p", "default") is None)
            await until(lambda: prepared(state) == [])
            await until(lambda: not (api.get(RESOURCE_CLAIM, "c", "default").get("status") or {}).get("allocation"))
            return found

    before = asyncio.run(first())
    assert prepared(state) == ["c"]
    records = list((state / "nodes" / "node-1" / "containers").glob("*.json"))
    assert [json.loads(one.read_bytes())["request"]["pod"] for one in records] == ["p"]
    after = asyncio.run(second())
    assert (after["containerID"], after["restartCount"], after["state"]) == (
        before["containerID"],
        0,
        before["state"],
    )


def test_a_record_that_cannot_be_read_is_kept_aside_and_its_container_started_anew(tmp_path: Path) -> None:
    state = tmp_path / "s"
    options = UpOptions(state, rules("1.36", {}))

    async def first() -> None:
        async with cluster_up(options) as (_started, world):
            api = world.control.api.as_actor("test")
            api.create(POD, pod("p"), "default")
            await until(lambda: running(api, "p"))

    async def second() -> Object:
        async with cluster_up(options) as (_started, world):
            api = world.control.api.as_actor("test")
            return container(await until(lambda: (found := running(api, "p")) and _restarted(found)))

    asyncio.run(first())
    (record,) = (state / "nodes" / "node-1" / "containers").glob("*.json")
    record.write_bytes(record.read_bytes()[:50])
    assert asyncio.run(second())["restartCount"] == 1
    assert record.with_name(record.name + ".corrupt").exists()


def _restarted(found: Object) -> Object | None:
    return found if container(found)["restartCount"] else None


@pytest.mark.parametrize("allowed", [False, True])
def test_a_command_is_run_only_when_that_was_asked_for(tmp_path: Path, allowed: bool) -> None:
    state, mark = tmp_path / "s", tmp_path / "mark"
    options = UpOptions(state, rules("1.36", {}), run_commands=allowed)

    async def main() -> bytes:
        async with cluster_up(options) as (_started, world):
            api = world.control.api.as_actor("test")
            command = ("sh", "-c", f"echo ran > {mark}; echo hello; sleep 60")
            api.create(POD, pod("p", command=command), "default")
            found = await until(lambda: running(api, "p"))
            if not allowed:
                await asyncio.sleep(0.5)
                return b""
            return bytes(await until(lambda: api.state.pod_logs(found["metadata"]["uid"], "c")[0]))

    log = asyncio.run(main())
    assert mark.exists() is allowed
    assert log == (b"hello\n" if allowed else b"")


@pytest.mark.row(189, how="unit")
def test_the_kubelet_refuses_what_the_scheduler_let_pass(tmp_path: Path) -> None:
    """Four accelerators are there, on two NUMA nodes: enough for the scheduler, too far apart for the policy."""
    options = UpOptions(tmp_path / "s", rules("1.36", {}), topology_policy="single-numa-node")
    resource = "accel.regauge.dev/accelerator"

    async def main() -> list[Object]:
        async with cluster_up(options) as (_started, world):
            api = world.control.api.as_actor("test")
            await until(lambda: api.get(NODE, "node-1")["status"]["allocatable"].get(resource) == "4", world)
            found = []
            for name, count in (("near", "2"), ("far", "4")):
                one = pod(name)
                one["spec"]["containers"][0]["resources"] = {"limits": {resource: count}}
                api.create(POD, one, "default")
                found.append(await until(partial(_settled, api, name), world))
                api.delete(POD, name, "default", grace_period_s=0)
            return found

    near, far = asyncio.run(main())
    assert near["status"]["phase"] == "Running"
    assert (far["spec"]["nodeName"], far["status"]["phase"]) == ("node-1", "Failed")
    assert far["status"]["reason"] == "TopologyAffinityError"
    assert far["status"]["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"


def _settled(api: Api, name: str) -> Object | None:
    found = api.get(POD, name, "default")
    return found if (found.get("status") or {}).get("phase") in ("Running", "Failed") else None
