"""What containers are told of the devices of their claims, and what the claims say of them to everybody else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Doc, Site, until

pytestmark = [pytest.mark.timeout(240)]

FILES = "/var/run/kubernetes.io/dra-device-attributes"


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "tell", (), ("tell-a", "tell-b"))
    try:
        made.describe(deviceMetadata=True)
        made.device_class()
        made.start()
        yield made
        assert made.stop() == 0
    finally:
        made.clean()


def stream(text: str) -> list[Doc]:
    """The JSON objects that stand one after the other in a text."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def ready(site: Site, claim: str) -> dict[str, tuple[str, str, str]]:
    """By device what a claim's status says of it: whether it is ready, why, and in more words."""
    status = site.get("resourceclaim", claim, "-n", site.tag).get("status", {})
    return {
        one["device"]: (condition["status"], condition["reason"], condition["message"])
        for one in status.get("devices", [])
        for condition in one["conditions"]
        if condition["type"] == "Ready"
    }


def test_containers_have_a_file_about_their_devices(site: Site, driver: Driver, pods: Pods) -> None:
    """Of a claim and of a claim that was made for the pod; read only; a container without claims has none."""
    driver.claim("told", "tell-a")
    driver.claim("made", "tell-b", template=True)
    pods.claims("told", {"mine": "told", "other": "template:made"}, user=["mine", "other"], none=[])
    pod = pods.running("told")
    made = driver.claim_of({"status": {"resourceClaimStatuses": [
        one for one in pod["status"]["resourceClaimStatuses"] if one["name"] == "other"]}})  # fmt: skip
    paths = {
        "tell-a": f"{FILES}/resourceclaims/told/one/{driver.name}-metadata.json",
        "tell-b": f"{FILES}/resourceclaimtemplates/other/one/{driver.name}-metadata.json",
    }
    seen = pods.seen("told", "user").beyond(pods.seen("told", "none"))
    expected = driver.expected("tell-a", "tell-b")
    assert seen == {**expected, "mounts": sorted([*expected["mounts"], *(f"{path}|ro" for path in paths.values())])}

    assert pods.metadata("told", "none") == {}
    files = pods.metadata("told", "user")
    assert sorted(files) == sorted(paths.values())
    for device, claim, inside in (("tell-a", "told", None), ("tell-b", made, "other")):
        documents = stream(files[paths[device]])
        assert [one["apiVersion"].rpartition("/")[2] for one in documents] == ["v1beta1", "v1alpha1"]
        for document in documents:
            about = (document["metadata"]["name"], document["metadata"]["uid"], document.get("podClaimName"))
            assert about == (claim, driver.uid_of(claim), inside)
            (request,) = document["requests"]
            (told,) = request["devices"]
            assert (request["name"], told["driver"], told["pool"], told["name"]) == (
                "one", driver.name, site.node, device)  # fmt: skip
            assert told["attributes"]["uuid"] == {"string": f"{site.tag}-tell-{device}"}
    assert len(driver.metadata_specs()) == 2
    pods.delete("told")
    until(lambda: not driver.prepared() and not driver.metadata_specs(), "released, and its files are gone", 15)
    assert list((driver.state / "dra-device-metadata").iterdir()) == []


@pytest.mark.row(68, how="real")
def test_a_claim_says_how_its_devices_are(site: Site, driver: Driver, pods: Pods) -> None:
    """In its `status.devices`: ready, not ready with the reason, ready again; nothing once it is deallocated."""
    driver.claim("says", "tell-a")
    pods.claims("says", {"gpu": "says"}, user=["gpu"])
    pods.running("says")
    until(lambda: ready(site, "says") or driver.notices("status-not-written"), "the claim says something")
    assert driver.notices("status-not-written") == []
    assert ready(site, "says") == {"tell-a": ("True", "Prepared", "the device is ready")}
    driver.break_("tell-a", "fell off the bus")
    sick = {"tell-a": ("False", "Unhealthy", "fell off the bus")}
    until(lambda: ready(site, "says") == sick, "the claim says what is wrong")
    driver.mend("tell-a")
    until(lambda: ready(site, "says")["tell-a"][0] == "True", "the claim says that it works again")
    pods.delete("says")
    until(lambda: not ready(site, "says"), "the claim says nothing any more", 30)
