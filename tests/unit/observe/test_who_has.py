"""Who has a device, by whatever name it is asked for; what a pod has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.observe.view_objects import DRIVER, claim, device, node, pod, result, slice_, snapshot

from regauge.model import NodeReport, Object, PluginDeviceHolder, PluginDeviceReport
from regauge.observe import correlate
from regauge.observe.devices_view import view_devices
from regauge.observe.who_has import PodHas, WhoHas, pod_has, who_has

UUID = "GPU-00000000-1111-2222-3333-000000000001"
PLUGIN_UUID = "GPU-99999999-1111-2222-3333-000000000001"
PCI = "0000:65:00.0"
REPORT = NodeReport(
    "n1",
    (PluginDeviceReport("example.com/gpu", PLUGIN_UUID), PluginDeviceReport("example.com/gpu", "plain-7")),
    (
        PluginDeviceHolder("team", "q", "main", "example.com/gpu", (PLUGIN_UUID,), "uid-q"),
        PluginDeviceHolder("team", "went", "main", "example.com/gpu", ("plain-7",), "uid-went"),
    ),
)
ESTATE: tuple[Object, ...] = (
    node("n1", **{"example.com_gpu": 2}),
    node("n2"),
    slice_("n1", device("gpu-0", UUID, PCI), device("gpu-1")),
    slice_("n2", device("gpu-0")),
    claim("c", result("n1", "gpu-0", shareID="share-1"), users=("p",)),
    pod("p", "n1", "c"),
    pod("q", "n1", limits={"example.com/gpu": "1"}),
)


def asked(name: str, *more: Object, without: int = 0) -> WhoHas:
    there = snapshot(*ESTATE[: len(ESTATE) - without], *more)
    known = correlate(there, (REPORT,))
    return who_has(name, view_devices(there, (REPORT,), known=known), there, known)


def names(answer: WhoHas) -> list[str]:
    return [found.device.name for found in answer.found]


@pytest.mark.row(132, how="unit")
@pytest.mark.parametrize(
    "name",
    [
        f"{DRIVER}/n1/gpu-0", "n1/gpu-0", UUID, UUID.lower(), UUID.removeprefix("GPU-"), "GPU-00000000", PCI, "65:00.0",
        "00000000:65:00.0", "share-1",
    ],
)  # fmt: skip
def test_every_name_of_a_device_means_it(name: str) -> None:
    answer = asked(name)
    assert names(answer) == [f"{DRIVER}/n1/gpu-0"]
    assert [(one.pod, one.claim, one.container) for one in answer.found[0].device.holders] == [("p", "c", "main")]


@pytest.mark.row(139, how="unit")
@pytest.mark.parametrize("name", [PLUGIN_UUID, "GPU-9999", f"example.com/gpu/{PLUGIN_UUID}", f"n1/{PLUGIN_UUID}"])
def test_devices_of_plugins_too(name: str) -> None:
    answer = asked(name)
    assert names(answer) == [f"example.com/gpu {PLUGIN_UUID}"]
    assert [one.pod for one in answer.found[0].device.holders] == ["q"]


def test_a_name_that_does_not_tell_which_means_all() -> None:
    assert names(asked("gpu-0")) == [f"{DRIVER}/n1/gpu-0", f"{DRIVER}/n2/gpu-0"]


@pytest.mark.parametrize("name", ["n1/gpu-9", "GPU-0000", "65:00.1", "", "gpu"])
def test_what_means_nothing_gives_near_names(name: str) -> None:
    answer = asked(name)
    if name == "GPU-0000":
        assert names(answer) == [f"{DRIVER}/n1/gpu-0"]  # long enough to be the beginning of one
        return
    assert answer.found == ()
    assert (f"{DRIVER}/n1/gpu-0" in answer.near or f"{DRIVER}/n1/gpu-1" in answer.near) is (
        name.startswith(("n1", "gpu"))
    )


def test_hints_tell_who_had_it_and_what_is_about_to_happen() -> None:
    (found,) = asked("plain-7").found
    assert not found.device.holders
    assert found.hints == (
        "had by pod team/went, as its kubelet still notes: it is given back when the kubelet needs one",
    )
    going = claim("d", result("n2", "gpu-0"), users=("gone",), deletionTimestamp="2026-11-29T11:00:00Z")
    hints = asked("n2/gpu-0", going).found[0].hints
    assert hints == (
        "claim team/d was deleted at 2026-11-29T11:00:00Z and goes when its pods have ended",
        "pod team/gone is gone, its reservation is still there",
    )
    kept = asked("n2/gpu-0", claim("d", result("n2", "gpu-0"))).found[0].hints
    assert kept == ("claim team/d keeps it though no pod reserves it",)
    ended = asked(
        "n2/gpu-0", claim("d", result("n2", "gpu-0"), users=("e",)), pod("e", "n2", "d", phase="Failed")
    ).found[0]
    assert ended.hints == ("pod team/e has ended (Failed), its reservation is still there",)


@pytest.mark.row(221, how="unit")
def test_who_looks_on_is_a_hint() -> None:
    (found,) = asked("n2/gpu-0", claim("d", result("n2", "gpu-0", adminAccess=True), users=("p",))).found
    assert found.hints == ("pod team/p looks on with admin access and takes nothing of it",)


def of_pod(name: str, report: NodeReport | None = REPORT) -> PodHas:
    waiting = claim("w")
    wanting = pod("x", "", "w")
    there = snapshot(*ESTATE, waiting, wanting)
    reports = (report,) if report is not None else ()
    known = correlate(there, reports)
    (found,) = [one for one in there.pods if one.metadata.name == name]
    return pod_has(found, view_devices(there, reports, known=known), there, known)


def test_what_a_pod_has() -> None:
    p, q, x = of_pod("p"), of_pod("q"), of_pod("x")
    assert ["/".join(one.key) for one in p.holdings] == [f"{DRIVER}/n1/gpu-0"] and p.counted == p.waits_for == ()
    assert [one.uuid for one in q.holdings] == [PLUGIN_UUID] and q.counted == ()
    assert x.holdings == x.counted == () and x.waits_for == ("w",) and x.state == "Pending"


@pytest.mark.row(174, how="unit")
def test_what_a_pod_counts_without_a_record_has_no_name() -> None:
    q = of_pod("q", None)
    assert q.holdings == () and q.counted == (("example.com/gpu", 1),)
    elsewhere = of_pod("q", replace(REPORT, node="n2"))
    assert elsewhere.counted == (("example.com/gpu", 1),)
