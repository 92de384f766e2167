"""What goes wrong on a node, how it is told, and that it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Doc, Site, took, until

pytestmark = [pytest.mark.timeout(300)]

FORBIDDEN = "cannot get resource"


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "ill", ("plug-a", "plug-b"), ("claim-a", "claim-b"))
    try:
        made.describe()
        made.device_class()
        made.start()
        until(lambda: site.allocatable(made.resource) == 2, "the node has two")
        yield made
        assert made.stop() == 0
        until(lambda: site.allocatable(made.resource) == 0, "a driver that stopped has nothing to give")
        site.figure(
            "driver stopped until its slices are gone", took(lambda: not site.slices(made.name), "no slices", 60)
        )
    finally:
        made.clean()


@pytest.fixture
def no_rights(site: Site) -> Iterator[None]:
    """The driver may not read claims for a while."""
    site.grant("resourceclaims")
    yield
    site.grant()


@pytest.mark.row(49, how="real")
@pytest.mark.parametrize("poked", [True, False], ids=["after-a-change", "by-itself"])
def test_prepare_fails_and_recovers(site: Site, driver: Driver, pods: Pods, no_rights: None, poked: bool) -> None:
    """The pod's event says why. What fails is tried again at the kubelet's next look, or when the pod changes."""
    name = f"fails-{poked}".lower()
    driver.claim(name)
    told = len(driver.notices("prepare-failed"))
    pods.claims(name, {"gpu": name}, one=["gpu"], none=[])
    until(lambda: any(FORBIDDEN in text for text in site.events(name)), "the pod's event says why", 20)
    failed = time.monotonic()
    assert pods.get(name)["status"]["phase"] == "Pending"
    assert len(driver.notices("prepare-failed")) > told
    assert driver.prepared() == {}
    assert [one for one in driver.specs() if "_" in one] == []
    site.grant()
    if poked:
        time.sleep(1)
        changed = time.monotonic()
        pods.poke(name)
        pods.running(name)
        site.figure("prepare failed until tried again after a change of the pod", time.monotonic() - changed)
    else:
        pods.running(name, 150)
        site.figure("prepare failed until tried again by the kubelet itself", time.monotonic() - failed)
    used = next(iter(site.get("resourceclaim", name, "-n", site.tag)["status"]["allocation"]["devices"]["results"]))
    assert pods.seen(name, "one").beyond(pods.seen(name, "none")) == driver.expected(used["device"])


@pytest.mark.row(257, how="real")
def test_parameters_that_nobody_knows(site: Site, driver: Driver, pods: Pods) -> None:
    """Said in the pod's event; the pod can be deleted, and the device is free for others."""
    driver.claim("odd", "claim-a", parameters={"apiVersion": "regauge.dev/v1alpha1", "kind": "Nonesuch"})
    pods.claims("odd", {"gpu": "odd"}, one=["gpu"])
    until(lambda: any("Nonesuch" in text for text in site.events("odd")), "the pod's event names it", 30)
    start = time.monotonic()
    pods.delete("odd")
    site.figure("pod with a failing claim deleted until gone", time.monotonic() - start)
    driver.claim("odd-next", "claim-a")
    pods.claims("odd-next", {"gpu": "odd-next"}, one=["gpu"])
    pods.running("odd-next")


@pytest.mark.row(11, how="real")
@pytest.mark.row(68, how="real")
def test_a_plugins_device_is_unhealthy_and_back(site: Site, driver: Driver, pods: Pods) -> None:
    """The node has one less, the pod that uses it says so, and no other pod is affected."""
    pods.limits("sick", driver.resource, one=1)
    pods.limits("well", driver.resource, one=1)
    ids = {name: (pods.running(name) and pods.ids(name)) for name in ("sick", "well")}
    seen = pods.seen("sick", "one").env
    (name,) = [one for one in driver.plugin if f"E2E_{one.replace('-', '_').upper()}={one} of ill" in seen]
    start = driver.break_(name, "fell off the bus")
    until(lambda: site.allocatable(driver.resource) == 1, "one less")
    site.figure("device plugin: device broken until the node has one less", time.monotonic() - start)
    if told := health(pods.get("sick")):
        until(lambda: health(pods.get("sick")) == ["Unhealthy"], f"the pod says so, not {told}")
        site.figure("device plugin: device broken until the pod says so", time.monotonic() - start)
        assert health(pods.get("well")) == ["Healthy"]
    driver.mend(name)
    start = time.monotonic()
    until(lambda: site.allocatable(driver.resource) == 2, "two again")
    site.figure("device plugin: device mended until the node has it again", time.monotonic() - start)
    if told:
        until(lambda: health(pods.get("sick")) == ["Healthy"], "the pod says so")
    assert {one: pods.ids(one) for one in ids} == ids


def health(pod: Doc) -> list[str]:
    """The health of a pod's devices, where the cluster tells it in the pod's status."""
    return [
        resource["health"]
        for status in pod["status"]["containerStatuses"]
        for entry in status.get("allocatedResourcesStatus", [])
        for resource in entry.get("resources", [])
    ]


def taints(driver: Driver) -> list[str]:
    """Devices that are tainted in the driver's slices."""
    return [
        device["name"]
        for one in driver.site.slices(driver.name)
        for device in one["spec"]["devices"]
        if device.get("taints")
    ]


@pytest.mark.row(68, how="real")
@pytest.mark.row(267, how="real")
def test_a_claims_device_is_unhealthy_and_back(site: Site, driver: Driver, pods: Pods) -> None:
    """Its pod says so, its slice has a taint, and no pod is placed on it until it works again."""
    driver.claim("sick-claim", "claim-a")
    pods.claims("sick-pod", {"gpu": "sick-claim"}, one=["gpu"])
    pods.running("sick-pod")
    known = until(lambda: health(pods.get("sick-pod")) or ["nothing"], "health")
    if known != ["nothing"]:
        until(lambda: health(pods.get("sick-pod")) == ["Healthy"], "healthy at first")
    start = driver.break_("claim-a", "fell off the bus")
    until(lambda: taints(driver) == ["claim-a"], "the slice has a taint")
    site.figure("claims: device broken until it is tainted in the slice", time.monotonic() - start)
    if known != ["nothing"]:
        until(lambda: health(pods.get("sick-pod")) == ["Unhealthy"], "the pod says so")
        site.figure("claims: device broken until the pod says so", time.monotonic() - start)
    pods.delete("sick-pod")
    pods.claims("wait-pod", {"gpu": "sick-claim"}, one=["gpu"])
    until(lambda: unscheduled(pods.get("wait-pod")), "nobody is placed on it")
    driver.mend("claim-a")
    start = time.monotonic()
    until(lambda: not taints(driver), "no taint any more")
    pods.running("wait-pod")
    site.figure("claims: device mended until a waiting pod runs on it", time.monotonic() - start)


def unscheduled(pod: Doc) -> bool:
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False" for one in pod["status"].get("conditions", [])
    )


@pytest.mark.row(84, how="real")
def test_a_device_changes_the_stack_once_nobody_holds_it(site: Site, driver: Driver, pods: Pods) -> None:
    """Described for claims while a pod has it by limits: refused, in words, until that pod is gone; and back again."""
    pods.limits("holder", driver.resource, one=2)
    pods.running("holder")
    driver.describe(plugin=("plug-a",))
    until(lambda: [one for one in driver.notices("handover-refused") if one["about"] == "plug-b"], "refused", 20)
    assert site.allocatable(driver.resource) == 2
    pods.delete("holder")
    until(lambda: [one for one in driver.notices("handed-over") if one["about"] == "plug-b"], "handed over", 40)
    until(lambda: site.allocatable(driver.resource) == 1, "one less by limits")
    driver.claim("moved", "plug-b")
    pods.claims("moved", {"gpu": "moved"}, one=["gpu"], none=[])
    pods.running("moved")
    assert pods.seen("moved", "one").beyond(pods.seen("moved", "none")) == driver.expected("plug-b")
    driver.describe()
    until(lambda: len([x for x in driver.notices("handover-refused") if x["about"] == "plug-b"]) >= 2, "refused", 30)
    assert site.allocatable(driver.resource) == 1
    pods.delete("moved")
    until(lambda: site.allocatable(driver.resource) == 2, "by limits again", 60)
