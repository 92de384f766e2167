"""What real containers see of devices: exactly what the description says, and others nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods, container
from tests.e2e.site import Doc, Site, until

pytestmark = [pytest.mark.timeout(240)]

NOTHING: dict[str, list[str]] = {"env": [], "nodes": [], "opens": [], "mounts": [], "files": []}


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "see", ("plug-a", "plug-b"), ("claim-a", "claim-b", "claim-c"))
    try:
        made.describe()
        made.device_class()
        started = time.monotonic()
        made.start()
        site.figure("driver started until registered on both stacks and published", time.monotonic() - started)
        until(lambda: site.allocatable(made.resource) == 2, "the node has two")
        yield made
        assert made.stop() == 0
    finally:
        made.clean()


# The kubelet's own form of a mount knows no option but "read only".
MOUNT_OPTIONS = {"cdi": "ro,nosuid,nodev", "classic": "ro", "both": "ro,nosuid,nodev"}


@pytest.mark.row(1, how="real")
@pytest.mark.row(2, how="real")
@pytest.mark.row(14, how="real")
@pytest.mark.row(31, how="real")
@pytest.mark.row(32, how="real")
@pytest.mark.row(33, how="real")
@pytest.mark.row(34, how="real")
@pytest.mark.parametrize("answer", ["cdi", "classic", "both"])
def test_by_limits(site: Site, driver: Driver, pods: Pods, answer: str) -> None:
    """Two containers with a device each, and one without: by CDI, by the classic fields, by both."""
    before = len(driver.notices("reloaded"))
    driver.describe(answer)
    until(lambda: len(driver.notices("reloaded")) > before, "the driver took the description over", 15)
    time.sleep(0.5)  # and wrote its specs
    pods.limits(f"limits-{answer}", driver.resource, one=1, other=1, none=0)
    pods.running(f"limits-{answer}")
    plain = pods.seen(f"limits-{answer}", "none")
    got = [pods.seen(f"limits-{answer}", part) for part in ("one", "other")]
    given = sorted((seen.beyond(plain) for seen in got), key=lambda one: one["env"])
    assert given == [driver.expected(name, options=MOUNT_OPTIONS[answer]) for name in driver.plugin]
    assert [plain.beyond(seen) for seen in got] == [NOTHING, NOTHING]


@pytest.mark.row(32, how="real")
@pytest.mark.row(33, how="real")
@pytest.mark.row(34, how="real")
def test_two_devices_in_one_container(driver: Driver, pods: Pods) -> None:
    pods.limits("both-devices", driver.resource, two=2, none=0)
    pods.running("both-devices")
    seen = pods.seen("both-devices", "two").beyond(pods.seen("both-devices", "none"))
    assert seen == driver.expected("plug-a", "plug-b")


@pytest.mark.row(2, how="real")
@pytest.mark.row(49, how="real")
@pytest.mark.row(50, how="real")
@pytest.mark.row(51, how="real")
def test_by_a_claim_of_its_own(site: Site, driver: Driver, pods: Pods) -> None:
    driver.claim("own", template=True)
    pods.claims("own", {"gpu": "template:own"}, user=["gpu"], none=[])
    pod = pods.running("own")
    seen = pods.seen("own", "user").beyond(pods.seen("own", "none"))
    claim = site.get("resourceclaim", driver.claim_of(pod), "-n", site.tag)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert seen == driver.expected(result["device"])
    uid = claim["metadata"]["uid"]
    assert driver.prepared()[uid] == "PrepareCompleted"
    assert driver.spec_of(uid) in driver.specs()
    pods.delete("own")
    until(lambda: uid not in driver.prepared(), "unprepared", 10)
    assert driver.spec_of(uid) not in driver.specs()


@pytest.mark.row(50, how="real")
@pytest.mark.row(62, how="real")
def test_one_claim_for_two_containers_and_an_init_container(site: Site, driver: Driver, pods: Pods) -> None:
    driver.claim("inner", "claim-b")
    parts = [container(name, site.image, claims=[{"name": "gpu"}]) for name in ("first", "second")]
    init = container("before", site.image, claims=[{"name": "gpu"}])
    init["command"][-1] = init["command"][-1].replace("exec sleep 3600", "exit 0")
    claims = [{"name": "gpu", "resourceClaimName": "inner"}]
    pods.create("inner", [*parts, container("none", site.image)], initContainers=[init], resourceClaims=claims)
    pods.running("inner")
    plain = pods.seen("inner", "none")
    for part in ("before", "first", "second"):
        assert pods.seen("inner", part).beyond(plain) == driver.expected("claim-b"), part
        assert plain.beyond(pods.seen("inner", part)) == NOTHING
    assert len(driver.notices("prepared")) >= 1


@pytest.mark.row(51, how="real")
@pytest.mark.row(63, how="real")
def test_one_claim_for_two_pods(site: Site, driver: Driver, pods: Pods) -> None:
    """Both see the device; it stays prepared until the last of them is gone."""
    driver.claim("shared", "claim-c")
    for name in ("share-a", "share-b"):
        pods.claims(name, {"gpu": "shared"}, user=["gpu"], none=[])
    for name in ("share-a", "share-b"):
        pods.running(name)
        assert pods.seen(name, "user").beyond(pods.seen(name, "none")) == driver.expected("claim-c")
    uid = driver.uid_of("shared")
    pods.delete("share-a")
    time.sleep(1)
    assert driver.prepared()[uid] == "PrepareCompleted"
    assert driver.spec_of(uid) in driver.specs()
    pods.delete("share-b")
    until(lambda: uid not in driver.prepared() and driver.spec_of(uid) not in driver.specs(), "released", 15)
    assert uid in [one["about"].rpartition("(")[2].rstrip(")") for one in driver.notices("unprepared")]


@pytest.mark.row(219, how="real")
def test_both_stacks_in_one_pod(site: Site, driver: Driver, pods: Pods) -> None:
    driver.claim("beside", "claim-a")
    both = container("both", site.image, limits={driver.resource: "1"}, claims=[{"name": "gpu"}])
    claims = [{"name": "gpu", "resourceClaimName": "beside"}]
    pods.create("beside", [both, container("none", site.image)], resourceClaims=claims)
    pods.running("beside")
    seen = pods.seen("beside", "both").beyond(pods.seen("beside", "none"))
    expected = [driver.expected("claim-a", one) for one in driver.plugin]
    assert seen in expected


def cdi(site: Site, *arguments: str) -> Doc:
    command = [sys.executable, "-m", "regauge", "cdi", *arguments, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return dict(json.loads(done.stdout))


@pytest.mark.row(2, how="real")
def test_the_nodes_directory_is_in_order(site: Site, driver: Driver, pods: Pods) -> None:
    """What the runtime just read stands any check: `cdi list`, `validate` and `audit` on the node's own directory."""
    driver.claim("looked-at", "claim-a")
    pods.claims("looked-at", {"gpu": "looked-at"}, user=["gpu"])
    pods.running("looked-at")
    uid = driver.uid_of("looked-at")
    listed = json.dumps(cdi(site, "list", "--dir", site.cdi_dir))
    for name in (f"{driver.resource}=plug-a", f"{driver.resource}=claim-{uid}-claim-a"):
        assert name in listed
    files = [f"{site.cdi_dir}/{name}" for name in driver.specs()]
    assert len(files) == 2
    cdi(site, "validate", *files)
    audit = json.dumps(cdi(site, "audit", "--dir", site.cdi_dir, "--fail-on", "warning"))
    assert '"error"' not in audit
