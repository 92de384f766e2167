"""Who decides what: CDI specs change what a container gets, and never which devices a claim has."""

from __future__ import annotations

import json

import pytest
from tests.unit.cluster.kubelet.test_stories_of_clusters import NEVER_LOST_S, claim, prepared, submit
from tests.unit.cluster.kubelet.world import World, simulate

from regauge.model import Object
from regauge.model.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE

DRIVER = "layers.example.com"
SPEC = f"/var/run/cdi/{DRIVER}-dev.json"


def spec(value: str, *devices: str) -> bytes:
    listed = [{"name": name, "containerEdits": {"env": [f"GPU={value}"]}} for name in devices]
    return json.dumps({"cdiVersion": "0.5.0", "kind": f"{DRIVER}/dev", "devices": listed}).encode()


def played(content: bytes | None) -> tuple[list[Object], str, list[str]]:
    """The devices that two pods' claims have, how the first pod ends up, and its container's environment."""
    found: list[tuple[list[Object], str, list[str]]] = []

    async def scenario(world: World) -> None:
        await prepared(world, DRIVER)
        if content is None:
            world.files.remove(SPEC)
        else:
            world.files.write(SPEC, content)
        for name, count in (("a", 2), ("b", 1)):
            claim(world, DRIVER, name, count)
            submit(world, name, named=name)
            await world.clock.sleep(2)
        claims = [world.api.get(RESOURCE_CLAIM, name, "default")["status"]["allocation"]["devices"] for name in "ab"]
        ((state, details),) = world.container("a")["state"].items()
        containers = [one for one in world.runtime.containers() if one.request.pod == "a"]
        environment = containers[-1].spec["process"]["env"] if containers else []
        found.append((claims, details.get("reason", state), environment))

    simulate(scenario, grace_s=NEVER_LOST_S)
    return found[0]


@pytest.mark.row(7, how="unit")
def test_specs_change_what_is_injected_and_no_allocation() -> None:
    everything = tuple(f"gpu-{index}" for index in range(4))
    claims, state, environment = played(spec("one", *everything))
    assert (state, environment) == ("running", ["GPU=one"])
    for content, expected in (
        (spec("two", *everything), ("running", ["GPU=two"])),
        (spec("one", "gpu-3"), ("CreateContainerError", [])),
        (b"{", ("CreateContainerError", [])),
        (None, ("CreateContainerError", [])),
    ):
        others, state, environment = played(content)
        assert others == claims
        assert (state, environment) == expected


@pytest.mark.row(5, 7, how="unit")
def test_a_spec_of_devices_that_nobody_found_advertises_none() -> None:
    """Neither the node's capacity nor any slice follows from what a spec describes, and no claim gets it."""
    found: list[tuple[object, ...]] = []

    async def scenario(world: World) -> None:
        await prepared(world, DRIVER)
        await world.clock.sleep(2)

        def told() -> tuple[object, ...]:
            (node,) = world.api.list(NODE)
            slices = [one["spec"]["devices"] for one in world.api.list(RESOURCE_SLICE)]
            return node["status"].get("capacity"), node["status"].get("allocatable"), slices

        before = told()
        world.files.write(SPEC, spec("more", *(f"gpu-{index}" for index in range(99))))
        await world.clock.sleep(60)
        claim(world, DRIVER, "many", 5)
        submit(world, "many", named="many")
        await world.clock.sleep(5)
        status = world.api.get(RESOURCE_CLAIM, "many", "default").get("status") or {}
        found.append((before, told(), "allocation" in status, len(before[2]) if isinstance(before[2], list) else 0))

    simulate(scenario, grace_s=NEVER_LOST_S)
    before, after, allocated, slices = found[0]
    assert (after, allocated, slices) == (before, False, 1)
