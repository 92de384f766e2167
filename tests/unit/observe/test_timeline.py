"""The life of a claim from its fields: what is noted, what is inferred and from what, what is not known; the picture."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.observe.view_objects import DRIVER, claim, device, node, object_, pod, result, slice_, snapshot

from regauge.base.pages import as_html
from regauge.model import Object
from regauge.model.node_files import NodeFile, NodeFiles, PathFacts
from regauge.observe.dump_time import moment_of
from regauge.observe.timeline import Certainty, Moment, PeriodKind, Step, Timeline, timeline_of
from regauge.observe.timeline_picture import as_svg, page_of

NS = "{http://www.w3.org/2000/svg}"


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-29T10:{minute:02d}:{second:02d}Z"


def life(*objects: Object, now_s: float | None = None) -> Timeline:
    """Of the claim `c`, created at 10:00."""
    there = snapshot(*objects)
    (one,) = [item for item in there.claims if item.metadata.name == "c"]
    return timeline_of(one, there, {}, now_s)


def told(timeline: Timeline, step: Step) -> list[Moment]:
    return [one for one in timeline.moments if one.step is step]


def clock(at_s: float | None) -> str:
    assert at_s is not None
    minutes, seconds = divmod(int(at_s) % 3600, 60)
    return f"{minutes:02d}:{seconds:02d}"


def managed(name: str, time: str, **status: Any) -> Object:
    fields = {"f:status": {f"f:{key}": value for key, value in status.items()}}
    return {"manager": name, "operation": "Update", "subresource": "status", "time": time, "fieldsV1": fields}


def without_timestamp(made: Object) -> Object:
    del made["status"]["allocation"]["allocationTimestamp"]
    return made


def test_managed_fields_bound_what_no_timestamp_tells() -> None:
    entry = managed("kube-scheduler", at(3), allocation={}, reservedFor={'k:{"uid":"uid-p"}': {}})
    made = without_timestamp(claim("c", result("n1", "gpu-0"), users=("p", "q"), managedFields=[entry]))
    found = life(made, slice_("n1", device("gpu-0")))
    (allocated,), (reserved,) = told(found, Step.allocated), told(found, Step.reserved)
    for one in (allocated, reserved):
        assert (one.certainty, clock(one.from_s), clock(one.at_s)) == (Certainty.between, "00:00", "03:00")
        assert "managedFields" in one.source and "kube-scheduler" in one.source
    assert reserved.text == "reserved for pod p"  # the entry does not tell of q
    assert found.not_known == ()


def test_of_several_bounds_the_tightest_stays_and_what_is_noted_beats_all() -> None:
    entry = managed("kube-scheduler", at(30), allocation={}, reservedFor={'k:{"uid":"uid-p"}': {}})
    placed = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}]}
    made = claim("c", result("n1", "gpu-0"), users=("p",), since=at(1), managedFields=[entry])
    found = life(made, pod("p", "n1", "c", status=placed))
    (allocated,), (reserved,) = told(found, Step.allocated), told(found, Step.reserved)
    assert allocated.certainty is Certainty.noted and clock(allocated.at_s) == "01:00"
    assert (clock(reserved.from_s), clock(reserved.at_s)) == ("01:00", "02:00") and "before it binds" in reserved.source


def test_what_nothing_tells_of_is_not_known() -> None:
    running = {"containerStatuses": [{"name": "main", "state": {}}]}
    found = life(
        without_timestamp(claim("c", result("n1", "gpu-0"), users=("p",))), pod("p", "n1", "c", status=running)
    )
    assert not told(found, Step.allocated) and not told(found, Step.reserved) and not told(found, Step.prepared)
    assert [text.partition(":")[0] for text in found.not_known] == ["when it was allocated", "when it was reserved"]


def container(**state: Any) -> Object:
    return {"containerStatuses": [{"name": "main", **state}]}


def test_the_first_container_bounds_the_preparation_where_the_condition_is_missing() -> None:
    status = container(state={"running": {"startedAt": at(9)}}, lastState={"terminated": {"startedAt": at(5), "exitCode": 1,
                       "finishedAt": at(8)}}, restartCount=1)  # fmt: skip
    found = life(claim("c", result("n1", "gpu-0"), users=("p",)), pod("p", "n1", "c", status=status))
    (prepared,) = told(found, Step.prepared)
    assert (prepared.certainty, clock(prepared.at_s)) == (Certainty.at_most, "05:00")
    assert [clock(one.at_s) for one in told(found, Step.started)] == ["05:00"]
    (again,) = told(found, Step.restarted)
    assert again.text == "container main started (restart 1)" and clock(again.at_s) == "09:00"
    assert [one.text for one in told(found, Step.trouble)] == ["container main ended with 1"]


def test_a_pod_that_ended_gave_its_devices_back_before_it_said_so() -> None:
    status = container(state={"terminated": {"startedAt": at(5), "finishedAt": at(8), "exitCode": 0}})
    status["conditions"] = [{"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": at(8, 30)}]
    found = life(claim("c", result("n1", "gpu-0"), users=("p",)), pod("p", "n1", "c", phase="Succeeded", status=status))
    (back,) = told(found, Step.unprepared)
    assert (clock(back.from_s), clock(back.at_s), back.certainty) == ("08:00", "08:30", Certainty.between)
    (stopped,) = told(found, Step.stopped)
    assert clock(stopped.at_s) == "08:00" and stopped.text == "container main ended with 0"


def event(reason: str, uid: str, name: str, kind: str = "Pod", **more: Any) -> Object:
    about = {"kind": kind, "name": name, "namespace": "team", "uid": uid}
    whole = {"involvedObject": about, "reason": reason, "message": "because", **more}
    return object_("v1", "Event", f"{uid}.{reason}", "team", **whole)


def test_events_about_the_claim_and_its_pods_and_no_others() -> None:
    found = life(
        claim("c"),
        pod("p", "", "c"),
        event("FailedScheduling", "uid-p", "p", firstTimestamp=at(1), lastTimestamp=at(4), count=3,
              source={"component": "default-scheduler"}),
        event("Pulled", "uid-p", "p", firstTimestamp=at(2)),
        event("FailedScheduling", "uid-other", "p", firstTimestamp=at(2)),
        event("Strange", "uid-c", "c", "ResourceClaim", eventTime=at(3), type="Warning"),
    )  # fmt: skip
    ((refused,), (strange,)) = told(found, Step.refused), told(found, Step.trouble)
    assert (
        refused.text == "because (3 times in 180 s)" and refused.source == "event FailedScheduling of default-scheduler"
    )
    assert strange.subject == "claim" and clock(strange.at_s) == "03:00"
    assert len(found.moments) == 4  # with both that were created


def test_an_event_that_tells_when_a_pod_was_placed_is_earlier_than_a_rewritten_condition() -> None:
    rewritten = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(9)}]}
    found = life(claim("c"), pod("p", "n1", "c", status=rewritten), event("Scheduled", "uid-p", "p", eventTime=at(2)))
    (placed,) = told(found, Step.scheduled)
    assert (clock(placed.at_s), placed.source, placed.text) == ("02:00", "event Scheduled", "placed on n1")


def test_what_a_driver_reports_and_taints_of_held_devices_alone() -> None:
    said = {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    good = {"type": "Ready", "status": "True", "lastTransitionTime": at(6), "reason": "Up"}
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": at(7)}
    found = life(
        claim("c", result("n1", "gpu-0"), users=("p",), devices=({**said, "conditions": [good]},)),
        slice_("n1", device("gpu-0", taints=[taint]), device("gpu-1", taints=[taint])),
    )
    (reported,), (tainted,) = told(found, Step.reported), told(found, Step.tainted)
    assert reported.text == f"{DRIVER} reports Ready=True (Up)" and reported.subject == "device n1/gpu-0"
    assert tainted.subject == "device n1/gpu-0" and clock(tainted.at_s) == "07:00"
    assert [(one.subject, one.to_s) for one in found.periods if one.kind is PeriodKind.tainted] == [
        ("device n1/gpu-0", None)
    ]


def test_deletion_and_what_keeps_the_claim() -> None:
    found = life(claim("c", deletionTimestamp=at(5), finalizers=["resource.kubernetes.io/delete-protection"]))
    (deleted,) = told(found, Step.deleted)
    assert "kept by finalizer resource.kubernetes.io/delete-protection" in deleted.text


# -- the picture


@pytest.fixture
def busy() -> Timeline:
    placed = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}]}
    status = {**container(state={"running": {"startedAt": at(9)}}), **placed}
    made = claim("c", result("n1", "gpu-0"), users=("p",), since=at(1))
    bad = event("FailedScheduling", "uid-p", "p", eventTime=at(1), message='<script>&"\x1b[31m')
    return life(node("n1"), made, pod("p", "n1", "c", status=status), bad, now_s=1_796_000_000.0)


def test_the_picture_has_every_moment_by_number_and_refers_to_nothing_outside(busy: Timeline) -> None:
    text = as_svg(busy)
    root = ElementTree.fromstring(text)
    marks = [one.text or "" for one in root.iter(f"{NS}text") if one.get("class") == "n"]
    shown = sorted(int(number) for mark in marks for number in mark.split())
    assert shown == list(range(1, len(busy.moments) + 1))
    assert len([one for one in root.iter(f"{NS}rect") if "mark" in (one.get("class") or "")]) <= len(busy.moments)
    outside = text.replace("http://www.w3.org/2000/svg", "")
    assert "http" not in outside and "href" not in outside and "url(" not in outside and "<script" not in text
    assert "&lt;script&gt;" in text and "\x1b" not in text
    labels = ["".join(one.itertext()) for one in root.iter(f"{NS}text")]
    assert any(label.startswith("pod p") for label in labels) and any(
        "waiting for devices" in label for label in labels
    )


def test_marks_stand_in_the_order_of_time(busy: Timeline) -> None:
    root = ElementTree.fromstring(as_svg(busy))
    place = {}
    for one in root.iter(f"{NS}text"):
        if one.get("class") == "n":
            for number in (one.text or "").split():
                place[int(number)] = float(one.get("x") or 0)
    for before, after in pairwise(busy.moments):
        left, right = place[busy.moments.index(before) + 1], place[busy.moments.index(after) + 1]
        assert left < right if before.at_s < after.at_s else left == right


def test_the_page_has_lanes_and_every_source(busy: Timeline) -> None:
    page = as_html("life", page_of(busy))
    for one in busy.moments:
        assert one.source.replace('"', "&quot;") in page
    assert page.count("<circle") >= len(busy.moments) and "<script>" not in page


def test_a_claim_that_only_exists_has_a_picture_too() -> None:
    found = life(claim("c"))
    assert len(found.moments) == 1 and ElementTree.fromstring(as_svg(found)) is not None
    del (bare := claim("c"))["metadata"]["creationTimestamp"]
    empty = life(bare)
    assert empty.moments == () and ElementTree.fromstring(as_svg(empty)) is not None
    assert "KNOWN FROM" in as_html("life", page_of(empty))


# -- what a dump may hold instead

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 1 << 40) | st.text(max_size=4) | st.just("2026-11-29T10:00:00Z"),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            [
                "f:status", "f:allocation", "f:reservedFor", 'k:{"uid":"uid-p"}', "time", "manager", "fieldsV1", "uid",
                "kind", "name", "component", "count", "lastObservedTime", "type", "status", "lastTransitionTime",
                "lastHeartbeatTime",
            ]
        ),
        inner,
        max_size=3,
    ),
    max_leaves=6,
)  # fmt: skip
EVENT_FIELDS = (
    "involvedObject", "regarding", "series", "count", "firstTimestamp", "lastTimestamp", "eventTime", "message", "note",
    "reason", "source", "type", "reportingComponent",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(EVENT_FIELDS), JUNK), JUNK, JUNK)
def test_events_and_managed_fields_may_be_anything(junk: Object, managed_fields: object, conditions: object) -> None:
    about = {"kind": "Pod", "name": "p", "uid": "uid-p"}
    made = claim("c", result("n1", "gpu-0"), users=("p",), managedFields=managed_fields)
    strange = object_("v1", "Event", "e", "team", **{"involvedObject": about, "reason": "BackOff", **junk})
    there = node("n1")
    there["status"]["conditions"] = conditions
    known = snapshot(made, pod("p", "n1", "c"), strange)
    (one,) = known.claims
    found = timeline_of(one, known, {}, moment_of(snapshot(there, made)))
    assert ElementTree.fromstring(as_svg(found)) is not None


@given(st.binary(max_size=40) | JUNK.map(msgspec.json.encode))
def test_checkpoints_may_be_anything(data: bytes) -> None:
    facts = PathFacts("file", modified_s=1_796_000_000.0)
    known = snapshot(claim("c"))
    (one,) = known.claims
    paths = ("/var/lib/kubelet/dra_manager_state", "/var/lib/kubelet/plugins/x/checkpoint.json")
    for text in (data, b'{"uid-c":' + data + b"}", b'{"Data":' + msgspec.json.encode('{"uid-c":1}') + data):
        files = NodeFiles("n", checkpoints=tuple(NodeFile(path, text, facts) for path in paths))
        assert len(timeline_of(one, known, {"n1": files}, None).moments) >= 1
