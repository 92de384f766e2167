"""What stands of devices in their claims' status, and devices that are got ready before a Pod is bound."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.driver.fakes import CONFIG, DRIVER, FOUR, RESOURCE, Node, run

from regauge.base import InputError
from regauge.driver.process import check
from regauge.driver.reports import Entry, Network, Report, Said, check_report, with_entries
from regauge.kube import Forbidden, ServerUnavailable
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.pluginapi import ClaimRef

NOW = "2027-01-15T08:00:00Z"
MOCK = f"""apiVersion: regauge.dev/v1alpha1
kind: Devices
driver: {DRIVER}
resource: {RESOURCE}
deviceKind: mock
discover: {{count: 2, prefix: gpu, health: [{{afterSeconds: 10, devices: gpu-0, healthy: false, message: hot}}]}}
rules:
- stack: dra
"""
BINDING = MOCK + (
    "  bindingConditions: [example.com/attached]\n  bindingFailureConditions: [example.com/failed]\n  bindsToNode: true\n"
)


def played(scenario: Any, description: str, **parts: Any) -> Node:
    async def play(node: Node) -> None:
        node.describe(description)
        await node.start()
        await node.clock.advance(1)
        await scenario(node)

    return run(play, **parts)


def status(node: Node, name: str) -> list[dict[str, Any]]:
    assert node.kube is not None
    found: list[dict[str, Any]] = node.kube.objects["ResourceClaim", "team", name]["status"].get("devices", [])
    return found


def conditions(entry: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in entry["conditions"]]


@pytest.mark.row(68, how="unit")
def test_a_prepared_device_is_ready_until_it_is_unhealthy() -> None:
    async def scenario(node: Node) -> None:
        dra = await node.kubelet.dra()
        await dra.node_prepare_resources([node.claim("c", "gpu-0", "gpu-1")])
        await node.clock.advance(3)
        first, second = status(node, "c")
        assert (first["driver"], first["pool"], first["device"]) == (DRIVER, "n1", "gpu-0")
        assert conditions(first) == [("Ready", "True", "Prepared", "the device is ready")]
        assert first["data"] == {"device": "gpu-0", "claim": "c"}
        assert "shareID" not in first
        await node.clock.advance(20)
        later, same = status(node, "c")
        assert conditions(later) == [("Ready", "False", "Unhealthy", "hot")]
        assert later["conditions"][0]["lastTransitionTime"] > first["conditions"][0]["lastTransitionTime"]
        assert same == second

    played(scenario, MOCK)


def test_nothing_is_written_twice_also_after_a_restart() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        await (await node.kubelet.dra()).node_prepare_resources([node.claim("c", "gpu-1")])
        await node.clock.advance(300)
        await node.stop()
        await node.start()
        await node.clock.advance(300)
        assert node.kube.updates.count(("ResourceClaim", "status")) == 1
        await (await node.kubelet.dra()).node_unprepare_resources([node.claim("c", "gpu-1")])
        await node.clock.advance(10)
        assert node.kube.updates.count(("ResourceClaim", "status")) == 1

    played(scenario, MOCK)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Forbidden(403, "Forbidden", "may not update resourceclaims/status"), "may not update resourceclaims/status"),
        (ServerUnavailable("no route"), "no route"),
    ],
)
def test_a_refused_write_keeps_no_claim_waiting_and_is_tried_again_more_slowly(error: Exception, told: str) -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        ref = node.claim("c", "gpu-1")
        node.kube.fail["update"] = error
        assert (await (await node.kubelet.dra()).node_prepare_resources([ref]))["uid-c"].devices
        await node.clock.advance(200)
        (notice,) = node.told("status-not-written")
        assert told in notice.text
        assert node.kube.calls.count(("update", "ResourceClaim")) < 8
        del node.kube.fail["update"]
        await node.clock.advance(700)
        assert conditions(status(node, "c")[0])[0][:2] == ("Ready", "True")

    played(scenario, MOCK)


def test_a_server_without_the_feature_is_told_by_the_name_of_its_gate() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        node.kube.drops_status = True
        await (await node.kubelet.dra()).node_prepare_resources([node.claim("c", "gpu-1")])
        await node.clock.advance(60)
        (notice,) = node.told("status-not-written")
        assert "gate DRAResourceClaimDeviceStatus is off" in notice.text
        assert node.kube.updates.count(("ResourceClaim", "status")) < 6

    played(scenario, MOCK)


def test_entries_of_others_and_their_conditions_stay() -> None:
    result = {"driver": DRIVER, "pool": "n1", "device": "a", "shareID": "s", "request": "r"}
    theirs = {"driver": "other.example.com", "pool": "n1", "device": "a", "conditions": []}
    attached = {"type": "x/Attached", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "then"}
    old = {"driver": DRIVER, "pool": "n1", "device": "a", "shareID": "s", "conditions": [attached], "data": {"a": 1}}
    claim = {"status": {"allocation": {"devices": {"results": [result]}}, "devices": [theirs, old]}}
    entry = Entry("n1", "a", "s", (Said("Ready", True, "Prepared"),))
    new = with_entries(claim, DRIVER, [entry], NOW)
    assert new is not None
    assert new["status"]["devices"][0] == theirs
    mine = new["status"]["devices"][1]
    assert [one["type"] for one in mine["conditions"]] == ["x/Attached", "Ready"]
    assert mine["conditions"][0] == attached
    assert mine["data"] == {"a": 1}
    assert claim["status"]["devices"] == [theirs, old]
    assert with_entries(new, DRIVER, [entry], "later") is None
    assert with_entries(claim, DRIVER, [Entry("n1", "b"), Entry("n1", "a")], NOW) is None
    emptied = with_entries(
        new, DRIVER, [Entry("n1", "a", "s", (), Report(network=Network("net0", ("10.0.0.1/8",))))], NOW
    )
    assert emptied is not None
    assert "data" not in emptied["status"]["devices"][1]
    assert emptied["status"]["devices"][1]["networkData"] == {"interfaceName": "net0", "ips": ["10.0.0.1/8"]}


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (Report(data={"a": "x" * 10240}), "takes 10248 bytes, at most 10240"),
        (Report(network=Network("n" * 257)), "more than 256 bytes"),
        (Report(network=Network(hardware_address="f" * 129)), "longer than 128 bytes"),
        (Report(network=Network(ips=("10.0.0.1/8",) * 2)), "each once"),
        (Report(network=Network(ips=tuple(f"10.0.0.{n}/8" for n in range(17)))), "at most 16"),
        (Report(network=Network(ips=("10.0.0.1",))), "has no prefix"),
        (Report(network=Network(ips=("ten/8",))), "not an address"),
    ],
)
def test_what_a_server_would_refuse_is_not_sent(report: Report, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        check_report(report, "a")


def waiting_claim(node: Node, name: str, parameters: dict[str, Any]) -> None:
    assert node.kube is not None
    opaque = {
        "driver": DRIVER,
        "parameters": {"apiVersion": "regauge.dev/v1alpha1", "kind": "MockConfig", **parameters},
    }
    ref = node.claim(
        name,
        "gpu-0",
        bindingConditions=["example.com/attached"],
        bindingFailureConditions=["example.com/failed"],
    )
    claim = node.kube.objects["ResourceClaim", "team", name]
    claim["status"]["allocation"]["devices"]["config"] = [{"source": "FromClaim", "opaque": opaque}]
    node.kube.put(RESOURCE_CLAIM, name, "team", metadata={"uid": ref.uid}, spec={}, status=claim["status"])


def test_a_pod_waits_until_its_device_is_attached() -> None:
    async def scenario(node: Node) -> None:
        assert node.kube is not None
        (device, _) = node.kube.slices()[0]["spec"]["devices"]
        assert device["bindingConditions"] == ["example.com/attached"]
        assert device["bindingFailureConditions"] == ["example.com/failed"]
        assert device["bindsToNode"] is True
        waiting_claim(node, "c", {"bindAfterSeconds": 7})
        await node.clock.advance(6)
        assert status(node, "c") == []
        await node.clock.advance(6)
        assert conditions(status(node, "c")[0]) == [("example.com/attached", "True", "DeviceReady", "attached")]
        assert len(node.told("bound")) == 1
        await (await node.kubelet.dra()).node_prepare_resources([ClaimRef("team", "uid-c", "c")])
        await node.clock.advance(60)
        assert [one[0] for one in conditions(status(node, "c")[0])] == ["example.com/attached", "Ready"]
        assert node.kube.updates.count(("ResourceClaim", "status")) == 2

    played(scenario, BINDING)


@pytest.mark.parametrize(
    ("parameters", "message"), [({"bindFail": "no path"}, "no path"), ({"color": "red"}, "unknown field")]
)
def test_a_device_that_cannot_be_attached_sends_the_pod_back_to_the_scheduler(
    parameters: dict[str, Any], message: str
) -> None:
    async def scenario(node: Node) -> None:
        waiting_claim(node, "c", parameters)
        await node.clock.advance(6)
        ((type_, holds, reason, text),) = conditions(status(node, "c")[0])
        assert (type_, holds, reason) == ("example.com/failed", "True", "DeviceNotReady")
        assert message in text

    played(scenario, BINDING)


def test_a_driver_that_starts_late_finds_the_pods_that_wait() -> None:
    async def scenario(node: Node) -> None:
        await node.stop()
        waiting_claim(node, "c", {})
        await node.start()
        await node.clock.advance(6)
        assert conditions(status(node, "c")[0])[0][:2] == ("example.com/attached", "True")

    played(scenario, BINDING)


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ("  bindingConditions: [a]\n", "go together"),
        ("  bindingConditions: [a]\n  bindingFailureConditions: [a]\n", "stands twice"),
        ("  bindingConditions: [a, b, c, d, e]\n  bindingFailureConditions: [f]\n", "at most 4"),
        ("  bindingConditions: ['a b']\n  bindingFailureConditions: [f]\n", "cannot be used"),
    ],
)
def test_binding_conditions_that_a_server_refuses_are_refused(extra: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        check((MOCK + extra).encode(), CONFIG)


def test_a_kind_that_binds_nothing_cannot_have_them() -> None:
    async def scenario(node: Node) -> None:
        node.describe(
            FOUR.replace("name: gpu-3\n", "name: gpu-3\n  bindingConditions: [a]\n  bindingFailureConditions: [b]\n")
        )
        with pytest.raises(InputError, match="would wait in vain"):
            await node.start()

    run(scenario)
