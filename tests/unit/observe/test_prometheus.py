"""Rules and dashboard in a real Prometheus that scrapes exporters of a running cluster: what they say is what is so.

One cluster, first as it should be, then with everything wrong that an alert is about. Each expression of the rules and of
the dashboard is asked in both states.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support import program
from tests.unit.observe.prometheus import Labels, Prometheus, running
from tests.unit.observe.proving import DEVICES, DRIVER, RESOURCE, Proof, proof, uuid

from regauge.cluster.control_plane import CONTROLLER_MANAGER
from regauge.model.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from regauge.observe import seconds
from regauge.observe.alerting import alert_rules, rule_groups
from regauge.observe.grafana import layout
from regauge.observe.registry import FAMILIES
from regauge.rehearsal.faults import Fault, What

LAYERS = {family.full_name: family.layer.value for family in FAMILIES}
WITHIN_S = 40.0
OURS = f'device.driver == "{DRIVER}"'
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
LEAVER = "leaves.example.com"
FAULTS: dict[str, dict[str, str]] = {
    "RegaugeDeviceOwnedTwice": {"node": "node-b"},
    "RegaugeResourceSlicesGone": {"driver": LEAVER},
    "RegaugeResourceSlicePoolIncomplete": {"pool": "half"},
    "RegaugeResourceSliceOutdated": {"pool": "old"},
    "RegaugeDeviceUnhealthy": {"device": "node-a/gpu-3", "reason": f"{DRIVER}/unhealthy"},
    "RegaugeDeviceClassMatchesNothing": {"deviceclass": "nothing"},
    "RegaugeExtendedResourceNameTwice": {"extended_resource_name": "example.com/twice"},
    "RegaugeDevicesUsedUp": {"deviceclass": "full"},
    "RegaugeAllocatedDeviceGone": {"claim": "left", "driver": LEAVER},
    "RegaugeClaimPending": {"namespace": "default", "reason": "not-selected"},
    "RegaugeClaimDeletionStuck": {"deviceclass": "nic"},
    "RegaugeClaimFailing": {"namespace": "default", "reason": "FailedPrepareDynamicResources"},
    "RegaugeNodePluginFailing": {"driver": DRIVER, "call": "NodePrepareResources", "code": "ClaimError"},
    "RegaugeNodePluginUnanswered": {"driver": DRIVER, "call": "NodePrepareResources", "code": "Unavailable"},
    "RegaugeDriverControllerFailing": {"driver": DRIVER, "node": "node-b"},
    "RegaugeDriverApiFailing": {"driver": DRIVER, "node": "node-b", "code": "unavailable"},
    "RegaugeSharedCountersUsedUp": {"counter": "memory"},
    "RegaugeAllocationNotReleased": {"namespace": "default", "cause": "reserved-by-dead-pods"},
    "RegaugeDeviceIdle": {"pod": "dp-two"},
    "RegaugeSourceFailing": {"source": "gauges"},
}
"""What is made to go wrong: the alerts that must fire, and labels by which they name it."""
BESIDE = {"RegaugeDeviceWithoutIdentity"}
"""What the same faults make fire as well: devices of other drivers are held, and tell no identity."""
SILENT = {"Notes of kubelets about pods that are gone", "Not read"}
"""Panels that have nothing to show in either state."""


@dataclass
class State:
    """What Prometheus said in one state of the cluster: to each expression, and which alerts fire."""

    answers: dict[str, list[tuple[Labels, float]]] = field(default_factory=dict)
    firing: dict[str, list[Labels]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    truths: dict[str, Any] = field(default_factory=dict)

    def by(self, expr: str, *labels: str) -> dict[tuple[str, ...], float]:
        """An answer by some of its labels."""
        return {tuple(one.get(name, "") for name in labels): value for one, value in self.answers[expr]}


@dataclass
class Story:
    healthy: State
    restarted: State
    faulty: State


def rules() -> dict[str, Any]:
    """The shipped rules without their patience; what is new for them is what came in the last 20 seconds."""
    groups = rule_groups(LAYERS)
    for group in groups["groups"]:
        for rule in group["rules"]:
            rule["for"] = "0s"
            rule["expr"] = re.sub(r"offset 1[05]m", "offset 20s", rule["expr"])
    return groups


def shown() -> Iterator[tuple[str, str]]:
    """Title and query of each panel, as Grafana would send it with everything chosen."""
    for panel in layout().panels():
        for query in panel.queries:
            yield (
                panel.title,
                re.sub(
                    r"\$(namespace|node)\b", ".*", query.expr.replace("$__rate_interval", "10s").replace("[1h]", "[3s]")
                ),
            )


HOLDERS = 'regauge_device_holder_info{pod!=""}'
BUSY = 'regauge_device_utilization_ratio{source="gauges"}'
SECONDS = "regauge_workload_device_seconds_total"
UNSURE = "regauge_workload_device_uncertain_seconds_total"
COUNTS = (
    HOLDERS,
    BUSY,
    SECONDS,
    UNSURE,
    "regauge_resourceslices",
    "regauge_resourceslice_devices",
    "regauge_resourceslice_updated_timestamp_seconds",
    "regauge_deviceclass_devices",
    "regauge_resourceclaims_pending",
    "regauge_resourceclaims_unreleased_devices",
    "regauge_device_healthy == 0",
    "regauge_device_capacity_consumed",
    "regauge_device_shares",
    "regauge_shared_counter_consumed",
    "regauge_resourceclaim_allocation_duration_seconds_count",
    "sum by (deviceclass, state) (regauge_resourceclaims)",
    "sum by (stack, node, state) (regauge_devices)",
    "sum by (driver, node, call) (regauge_driver_kubelet_call_duration_seconds_count)",
    "sum by (driver, node) (regauge_driver_reconcile_duration_seconds_count)",
    "sum by (driver, node, call) (regauge_driver_api_request_duration_seconds_count)",
    "regauge_device_double_owner_info",
)
"""What the tests compare with what is so."""


async def look(prometheus: Prometheus) -> State:
    found = State(broken=await prometheus.unhealthy_rules(), firing=await prometheus.firing())
    for expr in (*COUNTS, *(rule.expr for rule in alert_rules()), *(query for _, query in shown())):
        found.answers[expr] = await prometheus.query(expr)
    return found


async def reached(prometheus: Prometheus, expr: str, value: float) -> None:
    found: float | None = None
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        found = await prometheus.value(expr)
        if found == value:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{expr} is {found} and not {value}; targets: {await prometheus.targets()}")


async def quiet(prometheus: Prometheus) -> None:
    """What fired while nothing was scraped yet fires no more after the next evaluation."""
    for _ in range(20):
        if not await prometheus.firing():
            return
        await asyncio.sleep(0.3)


async def fire(prometheus: Prometheus) -> None:
    missing: set[str] = set(FAULTS)
    deadline_s = time.monotonic() + WITHIN_S
    while missing and time.monotonic() < deadline_s:
        await asyncio.sleep(0.3)
        firing = await prometheus.firing()
        missing = {
            name
            for name, labels in FAULTS.items()
            if not any(labels.items() <= one.items() for one in firing.get(name, ()))
        }


async def set_up(made: Proof) -> None:
    """Both stacks, two pods on a node, a claim of two containers, a device that two claims share, a workload."""
    made.device_class("gpu", f'{OURS} && {ATTRIBUTES}.type == "gpu"')
    made.device_class("nic", f'{OURS} && {ATTRIBUTES}.type == "nic"')
    made.slice(LEAVER, "leaving", {"name": "l"})
    made.pod("dp-one", "node-a", count=1)
    made.pod("dp-two", "node-a", count=1)
    made.claim("one", "gpu")
    made.pod("claimed", "node-a", "one", containers=("main", "side"))
    for name, amount in (("share-a", "10G"), ("share-b", "5G")):
        made.claim(name, "nic", capacity={"requests": {"bandwidth": amount}})
        made.pod(name, "node-a", name)
    await made.run("dp-one", "dp-two", "claimed", "share-a", "share-b")
    busy = {"dp-one": 11.0, "dp-two": 22.0, "claimed": 33.0}
    made.gauges.busy |= {uuid("node-a", device): busy[pod] for pod in busy for device in made.has(pod)}
    made.gauges.busy |= {uuid("node-a", "gpu-3"): 44.0, uuid("node-a", "nic-0"): 55.0}


async def go_wrong(made: Proof) -> None:
    """One fault beside the other; controllers go last, because they would put things right."""
    twice = {"name": "d", "attributes": {"uuid": {"string": "GPU-d0000000-0000-4000-8000-000000000000"}}}
    made.slice("x.example.com", "x", twice)
    made.slice("y.example.com", "y", twice)
    made.slice("z.example.com", "half", {"name": "h"}, count=2)
    made.slice("z.example.com", "old", {"name": "o"})
    made.slice("z.example.com", "old", {"name": "o"}, generation=2)
    whole = {"name": "whole", "counters": {"memory": {"value": "40Gi"}}}
    taken = [{"counterSet": "whole", "counters": {"memory": {"value": "40Gi"}}}]
    made.slice("cut.example.com", "cut", count=2, sharedCounters=[whole])
    made.slice("cut.example.com", "cut", {"name": "part", "consumesCounters": taken}, count=2)
    made.device_class("cut", 'device.driver == "cut.example.com"')
    made.device_class("left", f'device.driver == "{LEAVER}"')
    made.device_class("nothing", 'device.driver == "nobody.example.com"')
    made.device_class("full", f'{OURS} && {ATTRIBUTES}.uuid == "{uuid("node-a", "gpu-2")}"')
    made.device_class("twice", "true", "example.com/twice")
    made.device_class("again", "true", "example.com/twice")
    made.claim("wrong", "gpu", {"apiVersion": "nobody.example.com/v1", "kind": "Nothing"})
    made.pod("wrong", "node-a", "wrong")
    await made.until(lambda: allocated(made, "wrong"), "the claim with wrong parameters is allocated")
    for name in ("cut", "left", "nothing", "full"):
        made.claim(name, name)
        made.pod(name, "", name)
    await made.until(
        lambda: allocated(made, "cut") and allocated(made, "left"), "claims of other drivers are allocated"
    )
    made.api.delete(RESOURCE_SLICE, f"{LEAVER}-leaving-1")
    made.api.delete(RESOURCE_CLAIM, "share-a", "default")
    made.world.injector.plan(Fault(What.WRITES_FAIL, actor="driver on node-b", times=0))
    made.break_("node-a", "gpu-3")
    made.break_("node-b", "gpu-1")
    made.gauges.busy |= {uuid("node-a", device): 0.0 for device in made.has("dp-two")}
    made.gauges.down.add("node-b")
    made.gauges.unanswered = 3
    made.world.control.kill(CONTROLLER_MANAGER)
    made.api.delete(POD, "claimed", "default")
    await made.until(lambda: made.api.find(POD, "claimed", "default") is None, "the pod is gone")


def allocated(made: Proof, claim: str) -> bool:
    return bool((made.api.get(RESOURCE_CLAIM, claim, "default").get("status") or {}).get("allocation"))


async def restart(made: Proof, node: str) -> None:
    """The driver of a node is killed and started again."""
    before = dict(made.world.registered)
    running_, name = made.world.nodes[node], "driver"
    task = running_.kill_plugin(name, None)
    assert task is not None
    await asyncio.gather(task, return_exceptions=True)
    running_.start_plugin(name)
    await made.until(lambda: all(made.world.registered[one] > before[one] for one in before), "it is registered again")


async def story(directory: Path) -> Story:
    async with proof(directory) as made, running(directory, made.targets, rules()) as prometheus:
        await set_up(made)
        await reached(prometheus, f"count({HOLDERS})", 6)
        await reached(prometheus, f"count({BUSY} > 0 and on (uuid, pod, container) {HOLDERS})", 6)
        await reached(prometheus, "count(regauge_source_up == 1)", 8)
        await reached(prometheus, f'sum({SECONDS}{{workload="claimed"}}) > bool 2', 1)
        await quiet(prometheus)
        healthy = await look(prometheus)
        healthy.truths = {pod: made.has(pod) for pod in ("dp-one", "dp-two", "claimed", "share-a", "share-b")}
        healthy.truths["now_s"] = await prometheus.value("max(regauge_export_timestamp_seconds)")
        healthy.truths["slices"] = made.api.list(RESOURCE_SLICE)
        healthy.truths["pods"] = {one["metadata"]["name"]: one for one in made.api.list(POD)}
        await restart(made, "node-a")
        await asyncio.sleep(2.5)
        await reached(prometheus, "count(regauge_source_up == 1)", 8)
        await quiet(prometheus)
        restarted = await look(prometheus)
        await go_wrong(made)
        await fire(prometheus)
        await asyncio.sleep(2.5)  # a rate needs two samples
        return Story(healthy, restarted, await look(prometheus))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Story:
    program("prometheus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regauge.observe.exporter.LATEST_S", 2.5)  # what only sources tell is seen sooner
        return asyncio.run(story(tmp_path_factory.mktemp("p")))


@pytest.mark.row(128)
@pytest.mark.row(130)
def test_every_alert_fires_for_its_fault_and_names_it(told: Story) -> None:
    firing = told.faulty.firing
    silent = {
        name: firing.get(name, [])
        for name, labels in FAULTS.items()
        if not any(labels.items() <= one.items() for one in firing.get(name, ()))
    }
    assert silent == {}
    assert all({"severity", "layer"} <= one.keys() for found in firing.values() for one in found)


@pytest.mark.row(136)
def test_nothing_fires_where_nothing_is_wrong_and_nothing_else_where_something_is(told: Story) -> None:
    assert told.healthy.firing == {}
    assert told.restarted.firing == {}, "a driver that starts again is no fault"
    assert set(told.faulty.firing) <= set(FAULTS) | BESIDE


def test_prometheus_takes_every_rule_and_every_query_of_the_dashboard(told: Story) -> None:
    for state in (told.healthy, told.restarted, told.faulty):
        assert state.broken == []
    telling = {title for title, query in shown() if told.healthy.answers[query] or told.faulty.answers[query]}
    assert {title for title, _ in shown()} - telling <= SILENT


@pytest.mark.row(122)
@pytest.mark.row(123)
@pytest.mark.row(124)
@pytest.mark.row(125)
@pytest.mark.row(126)
def test_counts_are_those_of_the_cluster(told: Story) -> None:
    seen = told.healthy
    assert seen.by("regauge_resourceslices", "driver", "node") == {
        (DRIVER, "node-a"): 1,
        (DRIVER, "node-b"): 1,
        (LEAVER, "node-b"): 1,
    }
    assert seen.by("regauge_resourceslice_devices", "driver", "node")[(DRIVER, "node-a")] == 3
    written = {
        (one["spec"]["driver"], one["spec"]["nodeName"]): seconds(one["metadata"]["creationTimestamp"])
        for one in seen.truths["slices"]
    }
    told_s = seen.by("regauge_resourceslice_updated_timestamp_seconds", "driver", "node")
    assert told_s == {key: pytest.approx(when_s, abs=3.0) for key, when_s in written.items()}
    assert seen.by("regauge_deviceclass_devices", "deviceclass") == {("gpu",): 3, ("nic",): 1}
    assert seen.by("sum by (deviceclass, state) (regauge_resourceclaims)", "deviceclass", "state") == {
        ("gpu", "reserved"): 1,
        ("nic", "reserved"): 2,
    }
    assert seen.by("sum by (stack, node, state) (regauge_devices)", "stack", "node", "state") == {
        ("device-plugin", "node-a", "held"): 2,
        ("device-plugin", "node-b", "free"): 1,
        ("dra", "node-a", "held"): 2,
        ("dra", "node-a", "free"): 1,
        ("dra", "node-b", "free"): 2,
    }


@pytest.mark.row(132)
@pytest.mark.row(139)
def test_each_container_is_told_with_the_device_that_it_really_has(told: Story) -> None:
    labels = ("stack", "pod", "container", "claim", "resource", "uuid")
    truths = told.healthy.truths
    (one, two), shared = (next(iter(truths[pod])) for pod in ("dp-one", "dp-two")), uuid("node-a", "nic-0")
    assert one != two and truths["claimed"] == {"gpu-2"}
    expected = {
        ("device-plugin", "dp-one", "main", "", RESOURCE, uuid("node-a", one)),
        ("device-plugin", "dp-two", "main", "", RESOURCE, uuid("node-a", two)),
        ("dra", "claimed", "main", "one", "", uuid("node-a", "gpu-2")),
        ("dra", "claimed", "side", "one", "", uuid("node-a", "gpu-2")),
        ("dra", "share-a", "main", "share-a", "", shared),
        ("dra", "share-b", "main", "share-b", "", shared),
    }
    for state in (told.healthy, told.restarted):
        assert set(state.by(HOLDERS, *labels)) == expected
    uids = {pod: found["metadata"]["uid"] for pod, found in truths["pods"].items()}
    assert {(labels["pod"], labels["pod_uid"]) for labels, _ in told.healthy.answers[HOLDERS]} == set(uids.items())


@pytest.mark.row(135)
@pytest.mark.row(140)
def test_what_is_measured_is_told_of_the_pod_that_has_the_device_and_of_none_that_has_not(told: Story) -> None:
    found = told.healthy.by(BUSY, "pod", "container", "claim", "uuid")
    ours = {key: round(value, 3) for key, value in found.items() if value}
    one, two = (uuid("node-a", next(iter(told.healthy.truths[pod]))) for pod in ("dp-one", "dp-two"))
    assert ours == {
        ("dp-one", "main", "", one): 0.11,
        ("dp-two", "main", "", two): 0.22,
        ("claimed", "main", "one", uuid("node-a", "gpu-2")): 0.33,
        ("claimed", "side", "one", uuid("node-a", "gpu-2")): 0.33,
        ("", "", "", uuid("node-a", "gpu-3")): 0.44,
        ("share-a", "main", "share-a", uuid("node-a", "nic-0")): 0.55,
        ("share-b", "main", "share-b", uuid("node-a", "nic-0")): 0.55,
    }
    measured = {one for _, _, _, one in found}
    assert measured == {uuid(node, device) for node, devices in DEVICES.items() for device in devices}


@pytest.mark.row(134)
def test_shares_and_counters_add_up(told: Story) -> None:
    assert told.healthy.by("regauge_device_capacity_consumed", "device", "capacity") == {("nic-0", "bandwidth"): 15e9}
    assert told.healthy.by("regauge_device_shares", "device") == {("nic-0",): 2}
    assert told.faulty.by("regauge_shared_counter_consumed", "counter_set", "counter") == {
        ("whole", "memory"): 40 * 2**30
    }


def test_device_seconds_are_those_since_the_pods_got_their_devices(told: Story) -> None:
    for state in (told.healthy, told.restarted):
        assert set(state.by(SECONDS, "workload")) == {
            ("claimed",),
            ("dp-one",),
            ("dp-two",),
            ("share-a",),
            ("share-b",),
        }
    now_s, pods = told.healthy.truths["now_s"], told.healthy.truths["pods"]
    shares = {"claimed": 1.0, "dp-one": 1.0, "dp-two": 1.0, "share-a": 0.5, "share-b": 0.5}
    unsure = told.healthy.by(UNSURE, "workload")
    for (workload,), value in told.healthy.by(SECONDS, "workload").items():
        since_s = seconds(pods[workload]["status"]["startTime"]) or 0.0
        allowed_s = unsure.get((workload,), 0.0) + 3.0  # stamps are of whole seconds, looks every two
        assert value == pytest.approx(shares[workload] * (now_s - since_s), abs=allowed_s), workload


@pytest.mark.row(127)
@pytest.mark.row(133)
def test_reasons_are_the_true_ones(told: Story) -> None:
    assert told.healthy.by("regauge_resourceclaims_pending", "reason") == {}
    assert told.faulty.by("regauge_resourceclaims_pending", "reason") == {("not-selected",): 1, ("devices-in-use",): 1}
    assert told.healthy.answers["regauge_device_healthy == 0"] == []
    broken = told.faulty.by("regauge_device_healthy == 0", "device", "node")
    assert set(broken) == {("node-a/gpu-3", "node-a")}, "the slice of node-b is not written"
    assert told.faulty.by("regauge_resourceclaims_unreleased_devices", "cause") == {("reserved-by-dead-pods",): 1}
    (twice,) = told.faulty.answers["regauge_device_double_owner_info"][:1]
    assert twice[0]["sources"] == "x.example.com+y.example.com"


@pytest.mark.row(129)
@pytest.mark.row(131)
@pytest.mark.row(137)
@pytest.mark.row(138)
def test_drivers_are_told_by_what_they_did(told: Story) -> None:
    calls = told.healthy.by(
        "sum by (driver, node, call) (regauge_driver_kubelet_call_duration_seconds_count)", "driver", "node", "call"
    )
    assert calls[(DRIVER, "node-a", "Allocate")] == 2
    assert calls[(DRIVER, "node-a", "NodePrepareResources")] == 3
    published = told.healthy.by("sum by (driver, node) (regauge_driver_reconcile_duration_seconds_count)", "node")
    assert set(published) == {("node-a",), ("node-b",)} and min(published.values()) >= 1
    requests = told.healthy.by(
        "sum by (driver, node, call) (regauge_driver_api_request_duration_seconds_count)", "node", "call"
    )
    assert requests[("node-a", "get")] >= 3  # each claim is read before it is prepared
    durations = told.healthy.by("regauge_resourceclaim_allocation_duration_seconds_count", "deviceclass")
    assert durations == {("gpu",): 1, ("nic",): 2}
