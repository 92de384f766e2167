"""Claims with what kubectl does not tell, and why they wait."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.observe.view_objects import DRIVER, MADE, claim, device, node, object_, pod, result, slice_, snapshot

from regauge.features import rules
from regauge.model import Object
from regauge.observe import claims_view
from regauge.observe.claims_view import ClaimLine, view_claims

CLASS = object_(
    "resource.k8s.io/v1",
    "DeviceClass",
    "gpu",
    spec={"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
)
GROUND = (CLASS, node("n1"), object_("v1", "Namespace", "team"), slice_("n1", device("gpu-0"), device("gpu-1")))


def lines(*objects: Object) -> dict[str, ClaimLine]:
    found = view_claims(snapshot(*GROUND, *objects), rules("1.36", {}), lambda _: True, Random(0))
    return {line.name: line for line in found}


def test_a_claim_in_use() -> None:
    one = lines(claim("c", result("n1", "gpu-0"), users=("p",), since="2026-11-29T10:00:05Z"), pod("p", "n1", "c"))["c"]
    assert (one.state, one.node, one.pods, one.devices) == ("allocated,reserved", "n1", ("p",), (f"{DRIVER}/n1/gpu-0",))
    assert (one.classes, one.requests, one.why) == (("gpu",), ("g: gpu x1",), "")
    assert one.since_s is not None and one.created_s is not None and one.since_s - one.created_s == 5.0
    assert one.good


@pytest.mark.row(175, how="unit")
def test_why_a_claim_waits_is_the_explain_engines_answer() -> None:
    many = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}
    wrong = {"deviceClassName": "none", "allocationMode": "ExactCount", "count": 1}
    found = lines(
        claim("three", request=many), claim("same", request=many), claim("wrong", request=wrong), claim("idle"),
        claim("wanted"), pod("w", "", "wanted"), claim("gated"),
        pod("g", "", "gated") | {"spec": pod("g", "", "gated")["spec"] | {"schedulingGates": [{"name": "later"}]}},
    )  # fmt: skip
    assert found["three"].why == found["same"].why and "2" in found["three"].why and "3" in found["three"].why
    assert "none" in found["wrong"].why
    assert found["idle"].why == "no pod names it"
    assert found["wanted"].why == "can be had; the scheduler has not come to pod w yet"
    assert found["gated"].why.startswith("pod g: ") and "later" in found["gated"].why
    assert found["wanted"].waiting == ("w",) and found["wanted"].pods == ()
    assert {line.state for line in found.values()} == {"pending"} and not any(line.good for line in found.values())


def test_an_error_of_a_selector_is_told_without_the_name_that_stands_beside_it() -> None:
    selector = {"cel": {"expression": 'device.attributes["x.example"].size > 1'}}
    bad = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": [selector]}
    found = lines(claim("bad", request=bad), claim("worse", request=bad))
    for name, line in found.items():
        assert line.why.startswith("error on n1: selector #0: CEL runtime error"), line.why
        assert f"team/{name}" not in line.why


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ((claim("c", result("n1", "gpu-0")),), "no pod reserves it"),
        ((claim("c", result("n1", "gpu-0"), users=("p",)),), "reserved for pod p, which is gone"),
        (
            (claim("c", result("n1", "gpu-0"), users=("p",)), pod("p", "n1", "c", phase="Succeeded")),
            "reserved for pod p, which has ended (Succeeded)",
        ),
        (
            (claim("c", result("n1", "gpu-0"), users=("p",)), pod("p", "", "c")),
            "reserved for pod p, which is on no node yet",
        ),
        ((claim("c", result("n1", "gpu-9"), users=("p",)), pod("p", "n1", "c")), "gpu-9 is not published any more"),
        (
            (
                claim(
                    "c", result("n1", "gpu-0"), users=("p",), deletionTimestamp="2026-11-29T11:00:00Z", finalizers=["f"]
                ),
                pod("p", "n1", "c"),
            ),
            "goes when p ends",
        ),
        ((claim("c", deletionTimestamp="2026-11-29T11:00:00Z", finalizers=["f"]),), "kept by finalizer f"),
    ],
)  # fmt: skip
def test_what_is_the_matter_with_one_that_has_devices(made: tuple[Object, ...], why: str) -> None:
    assert lines(*made)["c"].why == why


def test_states_are_kubectls_words() -> None:
    gone = {"deletionTimestamp": "2026-11-29T11:00:00Z", "finalizers": ["f"]}
    found = lines(
        claim("a"), claim("b", result("n1", "gpu-0")), claim("c", **gone), claim("d", result("n1", "gpu-1"), **gone)
    )
    states = {name: line.state for name, line in found.items()}
    assert states == {"a": "pending", "b": "allocated", "c": "deleted", "d": "deleted,allocated"}


def test_requests_with_alternatives_and_all() -> None:
    alternatives = {
        "name": "g",
        "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "count": 2},
            {"name": "b", "deviceClassName": "small"},
        ],
    }
    made = claim("c")
    made["spec"]["devices"]["requests"] = [
        alternatives,
        {"name": "h", "exactly": {"deviceClassName": "gpu", "allocationMode": "All", "adminAccess": True}},
    ]
    one = lines(made)["c"]
    assert one.requests == ("g: gpu x2 or small x1", "h: gpu all as admin")
    assert one.classes == ("gpu", "small")


def test_of_many_that_wait_so_many_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_view, "MOST_EXPLAINED", 3)
    sizes = [{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": number} for number in range(3, 9)]
    found = lines(*(claim(f"c{number}", request=size) for number, size in enumerate(sizes)))
    assert [line.explained for line in found.values()] == [True] * 3 + [False] * 3
    assert found["c5"].why == "not looked into: many claims wait"


def test_hand_written_claims_are_taken_as_they_would_be_stored() -> None:
    written = claim("c")
    del written["metadata"]["uid"], written["spec"]["devices"]["requests"][0]["exactly"]["count"]
    assert lines(written)["c"].requests == ("g: gpu x1",)


def test_a_pod_whose_devices_cannot_be_prepared_is_told_with_the_kubelets_last_word() -> None:
    def event(uid: str, text: str, minute: int, reason: str = "FailedPrepareDynamicResources") -> Object:
        about = {"kind": "Pod", "name": "p", "namespace": "team", "uid": uid}
        when = f"2026-11-29T10:{minute:02d}:00Z"
        return object_(
            "v1", "Event", f"{uid}-{minute}", "team",
            involvedObject=about, reason=reason, message=text, firstTimestamp=MADE, lastTimestamp=when,
        )  # fmt: skip

    made = (
        claim("c", result("n1", "gpu-0"), users=("p",)),
        event("uid-p", "Failed to prepare:\n driver is not registered", 9),
        event("uid-p", "Failed to prepare: first", 2),
        event("uid-other", "Failed to prepare: other", 30),
        event("uid-p", "pulling", 40, "Pulling"),
    )
    waits = lines(*made, pod("p", "n1", "c", phase="Pending"))["c"]
    assert waits.why == "pod p on n1: Failed to prepare: driver is not registered" and not waits.good
    assert lines(*made, pod("p", "n1", "c"))["c"].why == ""  # it runs: that is past
