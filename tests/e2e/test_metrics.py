"""Metrics on a real node: what they say of each container is what the container sees, on both stacks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Site, until

from regauge.observe.comparing import compare
from regauge.observe.history import Consumer, from_bytes

pytestmark = [pytest.mark.timeout(240)]
Row = dict[str, str]


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "meter", ("plug-a", "plug-b"), ("claim-a", "claim-b"))
    try:
        made.describe()
        made.device_class()
        made.start()
        until(lambda: site.allocatable(made.resource) == 2, "the node has two")
        yield made
        assert made.stop() == 0
    finally:
        made.clean()


def told(*arguments: str) -> dict[str, list[tuple[Row, float]]]:
    """What `regauge export --once` tells, by metric."""
    command = [sys.executable, "-m", "regauge", "export", "--once", *arguments]
    env = {**os.environ, "KUBECONFIG": os.environ["REGAUGE_KUBECONFIG"]}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {
        one.name: [(sample.labels, sample.value) for sample in one.samples]
        for one in text_string_to_metric_families(done.stdout)  # type: ignore[no-untyped-call]  # it has no types
    }


def of_node(site: Site, *more: str) -> dict[str, list[tuple[Row, float]]]:
    return told("--node", site.node, "--source", f"pod-resources={site.kubelet_dir}", *more)


def seen(pods: Pods, pod: str, part: str) -> set[str]:
    """The devices that a container has, by the variables that only they bring."""
    rows = pods.seen(pod, part).env
    return {one.partition("=")[2].partition(" ")[0] for one in rows if one.startswith("E2E_")}


@pytest.mark.row(132, how="real")
@pytest.mark.row(139, how="real")
@pytest.mark.row(140, how="real")
def test_every_container_is_told_with_what_it_sees(site: Site, driver: Driver, pods: Pods, tmp_path: Path) -> None:
    """Two pods that count, one that claims two devices of which each container has one, all on one node."""
    for name in driver.claims:
        driver.claim(f"m-{name}", name)
    pods.limits("counts-a", driver.resource, main=1)
    pods.limits("counts-b", driver.resource, main=1)
    pods.claims("claims", {name: f"m-{name}" for name in driver.claims}, one=["claim-a"], other=["claim-b"])
    uids = {name: pods.running(name)["metadata"]["uid"] for name in ("counts-a", "counts-b", "claims")}
    truth = {(name, "main"): seen(pods, name, "main") for name in ("counts-a", "counts-b")}
    truth |= {("claims", part): seen(pods, "claims", part) for part in ("one", "other")}
    rows = [row for row, _ in (*of_node(site)["regauge_device_holder_info"], *told()["regauge_device_holder_info"])]
    mine = [row for row in rows if row["namespace"] == site.tag]
    assert {(row["pod"], row["container"]): {row["device"]} for row in mine} == truth
    assert all(row["pod_uid"] == uids[row["pod"]] and row["node"] == site.node for row in mine)
    assert {row["pod"]: row["stack"] for row in mine} == {
        "counts-a": "device-plugin", "counts-b": "device-plugin", "claims": "dra",
    }  # fmt: skip
    measured = tmp_path / "devices.prom"
    named = {name: f'device="{name}"' for name in driver.plugin}
    named |= {name: f'uuid="{site.tag}-{driver.word}-{name}"' for name in driver.claims}
    measured.write_text(
        "".join(
            f'accelerator_utilization_ratio{{node="{site.node}",{which}}} 0.{number}\n'
            for number, which in enumerate(named.values(), 1)
        )
    )
    joined = of_node(site, "--source", f"file={measured}")["regauge_device_utilization_ratio"]
    values = {name: number / 10 for number, name in enumerate(named, 1)}
    assert {(row["pod"], row["container"], value) for row, value in joined} == {
        (*who, values[device]) for who, (device,) in truth.items()
    }
    assert {row["claim"] for row, _ in joined} == {"", "m-claim-a", "m-claim-b"}


@pytest.mark.row(125, how="real")
@pytest.mark.row(127, how="real")
def test_a_claim_that_waits_says_why_and_is_reserved_when_it_does_not(site: Site, driver: Driver, pods: Pods) -> None:
    driver.claim("taken", "claim-a")
    driver.claim("wanted", "claim-a")
    pods.claims("first", {"gpu": "taken"}, user=["gpu"])
    pods.running("first")
    pods.claims("second", {"gpu": "wanted"}, user=["gpu"])
    until(
        lambda: any(one.get("reason") == "FailedScheduling" for one in site.items("events", "-n", site.tag)), "refused"
    )
    found = told()
    states = {row["state"]: value for row, value in found["regauge_resourceclaims"] if row["namespace"] == site.tag}
    waiting = [(row, value) for row, value in found["regauge_resourceclaims_pending"] if row["namespace"] == site.tag]
    reasons = {row["reason"]: value for row, value in waiting}
    assert states["reserved"] == reasons["devices-in-use"] == 1.0
    assert states["pending"] == sum(reasons.values())
    assert set(reasons) <= {"devices-in-use", "unused"}, "claims of other tests have no pods any more"


@pytest.mark.row(122, how="real")
@pytest.mark.row(123, how="real")
def test_slices_are_told_with_the_moment_of_their_last_write(site: Site, driver: Driver) -> None:
    found = told()
    counts = {row["driver"]: value for row, value in found["regauge_resourceslices"]}
    assert counts[driver.name] == len(site.slices(driver.name))
    ages = {row["driver"]: value for row, value in found["regauge_resourceslice_age_seconds"]}
    assert 0.0 <= ages[driver.name] < 600.0


@contextlib.contextmanager
def exporter(state: Path, *arguments: str) -> Iterator[None]:
    """An exporter that counts into a file while the block runs, from its first look on."""
    command = [sys.executable, "-m", "regauge", "export", "--port", "0", "--state", str(state), *arguments]
    env = {**os.environ, "KUBECONFIG": os.environ["REGAUGE_KUBECONFIG"]}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            url = re.search(r"metrics are on (\S+)metrics", said)
            assert url is not None, said

            def ready() -> bool:
                return httpx.get(f"{url[1]}readyz").status_code == 200

            until(ready, "the exporter has looked", 30)
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


def lived(site: Site, pods: Pods) -> float:
    """Let the pod `billed` run for a while and delete it. How long the devices were its own, by the clock of this machine."""
    pods.running("billed")
    started = datetime.fromisoformat(pods.get("billed")["status"]["startTime"]).timestamp()
    time.sleep(25)
    pods.delete("billed")
    return time.time() - started


@pytest.mark.row(103, how="real")
def test_a_workload_is_charged_alike_before_and_after_its_move(
    site: Site, driver: Driver, pods: Pods, tmp_path: Path
) -> None:
    """The same pod counts a device first and claims one later, each watched by the exporter that can see it."""
    counted, claimed = tmp_path / "counted.state", tmp_path / "claimed.state"
    with exporter(counted, "--node", site.node, "--source", f"pod-resources={site.kubelet_dir}", "--interval", "2"):
        pods.limits("billed", driver.resource, main=1)
        truth = {counted: lived(site, pods)}
        time.sleep(5)
    with exporter(claimed):
        driver.claim("billed", "claim-b")
        pods.claims("billed", {"gpu": "billed"}, main=["gpu"])
        truth[claimed] = lived(site, pods)
        time.sleep(5)
    for place, stack in ((counted, "device-plugin"), (claimed, "dra")):
        history = from_bytes(place.read_bytes(), place.name)
        found = history.charges[Consumer(site.tag, "Pod", "billed", stack)]
        assert abs(found.device_s - truth[place]) <= found.uncertain_s + 3.0, (stack, found, truth[place])
        assert found.uncertain_s < 0.4 * truth[place]
    apart = abs(truth[counted] - truth[claimed]) / max(truth.values())
    left, right = (from_bytes(one.read_bytes(), one.name).charges for one in (counted, claimed))
    told_apart = compare(left, right, apart + 0.1)
    assert [one.agrees for one in told_apart if (one.namespace, one.workload) == (site.tag, "billed")] == [True]
