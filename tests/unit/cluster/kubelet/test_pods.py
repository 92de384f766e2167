"""Pods on a node: phases, conditions, restart policies, init containers, both stacks in one pod, who holds what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.cluster.kubelet.world import NODE_NAME, ROOT, FakeDriver, FakePlugin, World, simulate

from regauge.cluster.kubelet import PodFeed, PodState
from regauge.kube import Conflict, ServerUnavailable, WatchEvent
from regauge.model.kinds import LEASE, NODE, POD
from regauge.pluginapi import RpcError


def conditions(world: World, name: str) -> dict[str, tuple[str, str]]:
    return {
        one["type"]: (one["status"], one.get("reason", "")) for one in world.pod(name)["status"].get("conditions", ())
    }


def test_a_pod_from_start_to_end() -> None:
    async def scenario(world: World) -> None:
        uid = world.run_pod("p")
        await world.clock.sleep(1)
        status = world.pod("p")["status"]
        assert status["startTime"]
        assert conditions(world, "p") == {
            "PodReadyToStartContainers": ("True", ""),
            "Initialized": ("True", ""),
            "Ready": ("True", ""),
            "ContainersReady": ("True", ""),
        }
        container = world.container("p")
        assert container["ready"] and container["containerID"].startswith("virtual://")
        worker = world.kubelet.pod_worker(uid)
        assert worker is not None and worker.machine.state is PodState.RUNNING
        world.delete_pod("p")
        await world.clock.sleep(1)
        assert world.kubelet.pod_worker(uid) is None

    world = simulate(scenario)
    assert world.calls == ["pod p Pending", "pod p Running", "pod p Succeeded", "pod p gone"]


@pytest.mark.parametrize(
    ("policy", "code", "phase", "restarts"),
    [
        ("Never", 0, "Succeeded", 0),
        ("Never", 3, "Failed", 0),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 3, "Running", 3),
        ("Always", 0, "Running", 3),
    ],
)
def test_restart_policies(policy: str, code: int, phase: str, restarts: int) -> None:
    async def scenario(world: World) -> None:
        annotations = {"regauge.dev/run-seconds": "2", "regauge.dev/exit-code": str(code)}
        world.run_pod("p", policy=policy, annotations=annotations)
        await world.clock.sleep(2 + 2 + 10 + 2 + 20 + 1)
        assert world.phase("p") == phase
        assert world.container("p")["restartCount"] == restarts
        if phase in ("Succeeded", "Failed"):
            assert conditions(world, "p")["Ready"][1] == ("PodCompleted" if code == 0 else "PodFailed")
            world.delete_pod("p")
            await world.clock.sleep(1)
            assert world.calls[-1] == "pod p gone"

    simulate(scenario)


def test_init_containers_run_one_after_the_other_and_a_failed_one_ends_a_pod_that_never_restarts() -> None:
    async def scenario(world: World) -> None:
        slow = {"regauge.dev/run-seconds.i": "5"}
        world.run_pod("good", init_limits={"cpu": "1"}, annotations=slow)
        await world.clock.sleep(1)
        assert world.phase("good") == "Pending"
        assert conditions(world, "good")["Initialized"] == ("False", "ContainersNotInitialized")
        assert world.container("good")["state"]["waiting"]["reason"] == "PodInitializing"
        await world.clock.sleep(5)
        assert world.phase("good") == "Running"
        world.run_pod("bad", policy="Never", init_limits={"cpu": "1"}, annotations={"regauge.dev/exit-code.i": "1"})
        await world.clock.sleep(1)
        assert world.phase("bad") == "Failed"

    simulate(scenario)


def test_both_stacks_in_one_pod_allocate_first_then_prepare() -> None:
    async def scenario(world: World) -> None:
        plugin, driver = FakePlugin(world, "c.example.com/dp", "w0"), FakeDriver(world, "c.example.com")
        world.spec_file("c.example.com/dev", "gpu-0")
        await plugin.start()
        await driver.start()
        await world.clock.sleep(2)
        world.calls.clear()
        world.claim("one", ("g", "c.example.com", "gpu-0"))
        world.run_pod("both", limits={"c.example.com/dp": "1"}, claims={"g": "one"})
        await world.clock.sleep(1)
        (state,) = world.runtime.containers()
        assert state.spec["process"]["env"] == ["DP_DEV=w0", "DEV_0=gpu-0"]
        channel = await world.net.connect(f"{ROOT}/pod-resources/kubelet.sock")
        lister = channel.pod_resources()
        (listed,) = await lister.list()
        assert listed == await lister.get("default", "both")
        (container,) = listed.containers
        assert [(one.resource_name, one.device_ids) for one in container.devices] == [("c.example.com/dp", ("w0",))]
        (claim,) = container.dynamic_resources
        assert (claim.claim_name, [one.device_name for one in claim.claim_resources]) == ("one", ["gpu-0"])
        assert [one.device_ids for one in await lister.get_allocatable_resources()] == [("w0",)]
        with pytest.raises(RpcError):
            await lister.get("default", "nobody")

    world = simulate(scenario)
    assert world.calls == ["pod both Pending", "Allocate w0", "Prepare one", "pod both Running"]


def test_the_node_is_registered_kept_alive_and_keeps_its_labels() -> None:
    async def scenario(world: World) -> None:
        node = world.api.get(NODE, NODE_NAME)
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == NODE_NAME
        ready = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert [(one["status"], one["reason"]) for one in ready] == [("True", "KubeletReady")]
        assert node["status"]["allocatable"]["pods"] == "110"
        lease = world.api.get(LEASE, NODE_NAME, "kube-node-lease")
        world.api.patch(NODE, NODE_NAME, {"metadata": {"labels": {"mine": "yes"}}})
        await world.clock.sleep(11)
        renewed = world.api.get(LEASE, NODE_NAME, "kube-node-lease")
        assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]
        node = world.api.get(NODE, NODE_NAME)
        assert node["metadata"]["labels"]["mine"] == "yes"
        assert [one["lastTransitionTime"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == [
            ready[0]["lastTransitionTime"]
        ]

    simulate(scenario)


@pytest.mark.parametrize("error", [Conflict(409, "Conflict", "busy"), ServerUnavailable("away")])
def test_a_status_that_the_api_does_not_take_is_written_later(error: Exception) -> None:
    async def scenario(world: World) -> None:
        kubelet_api = world.kubelet._node.api
        real = kubelet_api.patch
        refused = 3

        def patch(*arguments: object, **options: object) -> object:
            nonlocal refused
            if options.get("subresource") == "status" and refused:
                refused -= 1
                raise error
            return real(*arguments, **options)  # type: ignore[arg-type]  # the fake only counts

        kubelet_api.patch = patch  # type: ignore[method-assign,assignment]  # a fault at the port
        world.run_pod("p", policy="Never", annotations={"regauge.dev/run-seconds": "1"})
        await world.clock.sleep(40)
        assert world.phase("p") == "Succeeded"

    simulate(scenario)


def test_pods_of_other_nodes_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        world.run_pod("other", node="node-b")
        await world.clock.sleep(5)
        assert world.phase("other") == "Pending"
        assert not world.runtime.containers()

    simulate(scenario)


def test_an_unchanged_node_is_not_written_again_for_five_minutes() -> None:
    async def scenario(world: World) -> None:
        await world.clock.sleep(20)
        version = world.api.get(NODE, NODE_NAME)["metadata"]["resourceVersion"]
        await world.clock.sleep(270)
        assert world.api.get(NODE, NODE_NAME)["metadata"]["resourceVersion"] == version
        await world.clock.sleep(30)
        assert world.api.get(NODE, NODE_NAME)["metadata"]["resourceVersion"] != version

    simulate(scenario)


def test_nodes_that_share_a_feed_hear_of_their_own_pods_only() -> None:
    async def scenario(world: World) -> None:
        world.run_pod("before", node="node-x")
        feed = PodFeed(world.api)
        heard: dict[str, list[str]] = {"node-x": [], "node-y": []}

        def listener(node: str) -> Callable[[WatchEvent], None]:
            return lambda event: heard[node].append(f"{event.type} {event.object['metadata']['name']}")

        ends = [feed.subscribe(node, listener(node)) for node in heard]
        world.run_pod("after", node="node-y")
        world.delete_pod("before", 0)
        ends[1]()
        world.delete_pod("after", 0)
        feed.close()
        assert heard == {
            "node-x": ["ADDED before", "MODIFIED before", "DELETED before"],
            "node-y": ["ADDED after"],
        }
        late: list[str] = []
        feed.subscribe("node-x", lambda event: late.append(event.type))
        assert late == []

    simulate(scenario)


def test_variables_in_commands_and_values_are_put_in() -> None:
    async def scenario(world: World) -> None:
        container = {
            "name": "c",
            "image": "i",
            "command": ["sh", "-c", "echo $(WHO) $$(WHO) $(NOBODY) $WHO"],
            "args": ["$(GREETING)"],
            "env": [
                {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "GREETING", "value": "hello $(WHO)"},
            ],
        }
        spec = {"nodeName": NODE_NAME, "containers": [container]}
        metadata = {"name": "p", "namespace": "default"}
        world.api.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, "default")
        await world.clock.sleep(1)
        (state,) = world.runtime.containers()
        assert state.spec["process"]["env"] == ["WHO=p", "GREETING=hello p"]
        assert state.spec["process"]["args"] == ["sh", "-c", "echo p $(WHO) $(NOBODY) $WHO", "hello p"]

    simulate(scenario)
