"""The driver and the kubelet die and come back while real pods run."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Site, took, until

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "die", ("plug-a", "plug-b"), ("claim-a", "claim-b"))
    try:
        made.describe()
        made.device_class()
        made.start()
        until(lambda: site.allocatable(made.resource) == 2, "the node has two")
        yield made
        assert made.stop() == 0
    finally:
        site.run("delete", "deviceclass", made.name, "--ignore-not-found")
        site.run("delete", "resourceclaims,resourceclaimtemplates", "--all", "-n", site.tag)
        made.clean()


def both(site: Site, driver: Driver, pods: Pods, name: str) -> dict[str, Any]:
    """A pod by limits and one by a claim, running; what must not change while others die."""
    driver.claim(f"{name}-claim", "claim-a")
    pods.limits(f"{name}-limits", driver.resource, one=1, none=0)
    pods.claims(f"{name}-claims", {"gpu": f"{name}-claim"}, one=["gpu"], none=[])
    for pod in (f"{name}-limits", f"{name}-claims"):
        pods.running(pod)
    return state(driver, pods, name)


def state(driver: Driver, pods: Pods, name: str) -> dict[str, Any]:
    ids = {pod: pods.ids(pod) for pod in (f"{name}-limits", f"{name}-claims")}
    return {"containers": ids, "prepared": driver.prepared(), "specs": driver.specs()}


def spec(driver: Driver) -> list[Any]:
    return [one["spec"]["devices"] for one in driver.site.slices(driver.name)]


@pytest.mark.row(249, how="real")
@pytest.mark.row(250, how="real")
def test_the_driver_is_killed_while_pods_run(site: Site, driver: Driver, pods: Pods) -> None:
    """Nothing happens to the pods; the driver knows them when it is back, and lets them go when they end."""
    before, published = both(site, driver, pods, "kill"), spec(driver)
    driver.kill()
    site.figure("driver killed until nothing is allocatable", took(lambda: site.allocatable(driver.resource) == 0, "0"))
    assert state(driver, pods, "kill") == before
    started = time.monotonic()
    driver.start()
    site.figure("driver started again until registered on both stacks", time.monotonic() - started)
    until(lambda: site.allocatable(driver.resource) == 2, "the node has two again")
    site.figure("driver started again until allocatable", time.monotonic() - started)
    assert state(driver, pods, "kill") == before
    assert spec(driver) == published
    assert driver.notices("rolled-back") == driver.notices("orphan-spec") == driver.notices("stale-claim") == []
    uid = driver.uid_of("kill-claim")
    pods.delete("kill-claims", "kill-limits")
    until(lambda: uid not in driver.prepared(), "unprepared", 15)
    assert driver.spec_of(uid) not in driver.specs()
    pods.limits("kill-next", driver.resource, two=2)
    pods.running("kill-next")


@pytest.mark.row(75, how="real")
@pytest.mark.row(249, how="real")
def test_the_driver_is_killed_while_it_prepares(site: Site, driver: Driver, pods: Pods) -> None:
    """The call is cut off; the next one gets the device, and only this claim has it."""
    driver.claim("cut", "claim-b")
    driver.freeze()
    pods.claims("cut", {"gpu": "cut"}, one=["gpu"], none=[])
    until(lambda: site.get("resourceclaim", "cut", "-n", site.tag).get("status", {}).get("reservedFor"), "allocated")
    time.sleep(2)  # the kubelet waits for its answer
    driver.kill()
    until(lambda: any("Unavailable" in text for text in site.events("cut")), "the pod's event tells it", 20)
    driver.start()
    pods.poke("cut")
    site.figure("prepare again after a pod's annotation changed", took(lambda: pods.running("cut"), "it runs"))
    assert pods.seen("cut", "one").beyond(pods.seen("cut", "none")) == driver.expected("claim-b")
    assert list(driver.prepared().values()) == ["PrepareCompleted"]
    assert len([name for name in driver.specs() if "_" in name]) == 1


@pytest.mark.row(75, how="real")
@pytest.mark.row(249, how="real")
def test_killed_again_and_again_nothing_is_lost(site: Site, driver: Driver, pods: Pods) -> None:
    """Pods come and go while the driver dies at odd moments: in the end all is as if it had lived."""
    driver.claim("again", template=True)
    for turn in range(4):
        names = [f"again-{turn}-{letter}" for letter in "ab"]
        for name in names:
            pods.claims(name, {"gpu": "template:again"}, one=["gpu"])
        time.sleep(0.35 + 0.13 * turn)
        driver.kill()
        driver.start()
        for name in names:
            pods.poke(name)
            pods.running(name)
        held = {device for claim in _claims(site) for device in claim}
        assert held == {"claim-a", "claim-b"}
        pods.delete(*names, wait=False)
        time.sleep(0.9 + 0.2 * turn)
        driver.kill()
        driver.start()
        pods.delete(*names)
    until(lambda: driver.prepared() == {}, "all released", 40)
    assert [name for name in driver.specs() if "_" in name] == []


def _claims(site: Site) -> list[list[str]]:
    found = site.items("resourceclaims", "-n", site.tag)
    return [
        [one["device"] for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])]
        for claim in found
    ]


@pytest.mark.row(10, how="real")
@pytest.mark.row(198, how="real")
@pytest.mark.row(252, how="real")
def test_the_kubelet_restarts(site: Site, driver: Driver, pods: Pods) -> None:
    """It deletes sockets and slices at its start: both are back by themselves, and running pods do not notice."""
    if not site.restart:
        pytest.skip("REGAUGE_KUBELET_RESTART is not set: the command that restarts the kubelet of this node")
    before, published = both(site, driver, pods, "boot"), spec(driver)
    names = [one["metadata"]["uid"] for one in site.slices(driver.name)]
    registered = len(driver.notices("registered"))
    started = time.monotonic()
    subprocess.run(site.restart, shell=True, check=True, timeout=120)
    until(lambda: len(driver.notices("registered")) >= registered + 2, "registered again on both stacks", 60)
    site.figure("kubelet restarted until registered again on both stacks", time.monotonic() - started)
    until(lambda: [one["metadata"]["uid"] for one in site.slices(driver.name)] not in ([], names), "new slices", 60)
    until(lambda: spec(driver) == published, "the same devices", 30)
    site.figure("kubelet restarted until slices are back", time.monotonic() - started)
    until(lambda: site.allocatable(driver.resource) == 2, "the node has two again", 60)
    assert state(driver, pods, "boot") == before
    driver.claim("boot-next", "claim-b")
    pods.claims("boot-next", {"gpu": "boot-next"}, one=["gpu"], none=[])
    pods.limits("boot-more", driver.resource, one=1, none=0)
    for name in ("boot-next", "boot-more"):
        pods.running(name, 100)
    assert pods.seen("boot-next", "one").beyond(pods.seen("boot-next", "none")) == driver.expected("claim-b")
    uid = driver.uid_of("boot-claim")
    pods.delete("boot-claims")
    until(lambda: uid not in driver.prepared(), "a claim prepared before the restart is released", 30)


@pytest.mark.row(51, how="real")
def test_a_pod_is_deleted_by_force(site: Site, driver: Driver, pods: Pods) -> None:
    """The API forgets at once; the device goes to the next claim only after the kubelet released it."""
    driver.claim("gone", "claim-a")
    pods.claims("gone", {"gpu": "gone"}, one=["gpu"])
    pods.running("gone")
    uid = driver.uid_of("gone")
    start = time.monotonic()
    pods.delete("gone", force=True)
    until(lambda: uid not in driver.prepared(), "released", 90)
    site.figure("pod deleted by force until unprepared", time.monotonic() - start)


@pytest.mark.row(251, how="real")
def test_a_pod_is_deleted_by_force_while_the_driver_is_away(site: Site, driver: Driver, pods: Pods) -> None:
    """The scheduler gives the device on although nobody unprepared it; the driver does that before the next has it."""
    driver.claim("away", "claim-a")
    pods.claims("away", {"gpu": "away"}, one=["gpu"])
    pods.running("away")
    old = driver.uid_of("away")
    driver.kill()
    pods.delete("away", force=True)
    driver.claim("next", "claim-a")
    pods.claims("next", {"gpu": "next"}, one=["gpu"], none=[])
    until(lambda: site.get("resourceclaim", "next", "-n", site.tag).get("status", {}).get("reservedFor"), "allocated")
    start = time.monotonic()
    driver.start()
    until(lambda: old not in driver.prepared(), "the old claim is released", 100)
    site.figure("driver back until a claim of a pod deleted by force is unprepared", time.monotonic() - start)
    pods.poke("next")
    pods.running("next", 100)
    assert pods.seen("next", "one").beyond(pods.seen("next", "none")) == driver.expected("claim-a")
    assert list(driver.prepared()) == [driver.uid_of("next")]


@pytest.mark.row(250, how="real")
def test_a_pod_ends_while_the_driver_is_away(site: Site, driver: Driver, pods: Pods) -> None:
    """It stays, with its claim, until the driver is back; then it goes by itself."""
    driver.claim("late", "claim-a")
    pods.claims("late", {"gpu": "late"}, one=["gpu"])
    pods.running("late")
    driver.kill()
    pods.delete("late", wait=False)
    time.sleep(8)
    assert pods.get("late")["metadata"]["deletionTimestamp"]
    assert site.get("resourceclaim", "late", "-n", site.tag)["status"]["reservedFor"]
    start = time.monotonic()
    driver.start()
    until(lambda: not pods.get("late"), "the pod is gone", 60)
    site.figure("driver back until a pod deleted meanwhile is gone", time.monotonic() - start)
    assert driver.prepared() == {}
    assert [name for name in driver.specs() if "_" in name] == []


@pytest.mark.row(249, how="real")
def test_a_newer_driver_replaces_one_that_runs(site: Site, pods: Pods) -> None:
    """The kubelet calls the newer one at once, for claims of the older too; no slice goes away in between."""
    old, new = (Driver(site, "two", (), ("claim-a", "claim-b"), str(uuid.uuid4())) for _ in range(2))
    try:
        old.describe()
        old.device_class()
        old.start()
        for letter in "ab":
            old.claim(f"two-{letter}", f"claim-{letter}")
        pods.claims("two-a", {"gpu": "two-a"}, one=["gpu"], none=[])
        pods.running("two-a")
        slices = [one["metadata"]["uid"] for one in site.slices(old.name)]
        new.start()
        pods.claims("two-b", {"gpu": "two-b"}, one=["gpu"], none=[])
        pods.running("two-b")
        assert pods.seen("two-b", "one").beyond(pods.seen("two-b", "none")) == new.expected("claim-b")
        assert (len(old.notices("prepared")), len(new.notices("prepared"))) == (1, 1)
        pods.delete("two-a")
        until(lambda: new.notices("unprepared"), "released by the newer one", 15)
        assert old.stop() == 0
        until(lambda: new.notices("leading"), "the newer one leads", 15)
        pods.claims("two-c", {"gpu": "two-a"}, one=["gpu"], none=[])
        pods.running("two-c")
        assert pods.seen("two-c", "one").beyond(pods.seen("two-c", "none")) == new.expected("claim-a")
        assert [one["metadata"]["uid"] for one in site.slices(new.name)] == slices
        pods.delete("two-b", "two-c")
        until(lambda: new.prepared() == {}, "all released", 15)
        assert new.stop() == 0
    finally:
        for one in (old, new):
            one.clean()
        site.run("delete", "deviceclass", new.name, "--ignore-not-found")
