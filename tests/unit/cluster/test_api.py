"""The API server in memory: what writes mean, who hears of them, what faults do."""

from __future__ import annotations

import random
from typing import Any

import pytest

from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.server_state import ApiCall, Fault, no_fault
from regauge.cluster.store import Store
from regauge.features import rules
from regauge.kube import AlreadyExists, ApiError, Conflict, Forbidden, Gone, Invalid, NotFound, WatchEvent
from regauge.model import Kind
from regauge.model.kinds import (
    CONFIG_MAP,
    CORE_EVENT,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    RUNTIME_CLASS,
)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at_s = 1_793_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    async def sleep(self, duration_s: float) -> None:
        raise AssertionError("the API server never sleeps")


def server(clock: Clock | None = None, fault: Fault = no_fault, seed: int = 1) -> Api:
    return new_api_server(clock or Clock(), random.Random(seed), fault=fault).as_actor("test")


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def with_resources(limits: dict[str, Any], requests: dict[str, Any] | None = None) -> dict[str, Any]:
    made = pod()
    made["spec"]["containers"][0]["resources"] = {"limits": limits, **({"requests": requests} if requests else {})}
    return made


def test_what_the_caller_sends_and_gets_is_not_the_stored_object() -> None:
    api = server()
    sent = {"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v"}}
    api.create(CONFIG_MAP, sent, "default")
    sent["data"]["k"] = "changed"
    assert api.get(CONFIG_MAP, "a", "default")["data"] == {"k": "v"}


def test_the_server_fills_in_what_is_its_own() -> None:
    api = server()
    forged = {"name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "deletionTimestamp": "x"}
    made = api.create(CONFIG_MAP, {"metadata": forged}, "default")["metadata"]
    assert made["uid"] != "mine" and len(made["uid"]) == 36 and made["uid"][14] == "4"
    assert made["creationTimestamp"] == "2026-10-26T07:33:20Z" and "deletionTimestamp" not in made


def test_uids_and_names_come_from_the_randomness_that_was_passed_in() -> None:
    def story(seed: int) -> list[str]:
        api = server(seed=seed)
        made = [api.create(POD, {"metadata": {"generateName": "p-"}, **_spec()}, "default") for _ in range(5)]
        return [f"{item['metadata']['name']} {item['metadata']['uid']}" for item in made]

    assert story(1) == story(1) != story(2)


def _spec() -> dict[str, Any]:
    return {"spec": pod()["spec"]}


def test_a_generated_name_that_is_taken_is_tried_again() -> None:
    class Repeats(random.Random):
        """Gives the same letters for the first two names."""

        def __init__(self) -> None:
            super().__init__(1)
            self.drawn = 0

        def choice(self, seq: Any) -> Any:
            self.drawn += 1
            return seq[0] if self.drawn <= 10 else seq[1]

    api = new_api_server(Clock(), Repeats()).as_actor("test")
    names = [api.create(CONFIG_MAP, {"metadata": {"generateName": "g-"}}, "default")["metadata"] for _ in range(2)]
    assert [item["name"] for item in names] == ["g-bbbbb", "g-ccccc"]


def test_generations_count_changes_of_the_spec() -> None:
    api = server()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.create(DEPLOYMENT, {"metadata": {"name": "d"}, "spec": spec}, "default")
    assert api.get(DEPLOYMENT, "d", "default")["metadata"]["generation"] == 1
    api.patch(DEPLOYMENT, "d", {"metadata": {"labels": {"x": "y"}}}, "default")
    api.patch(DEPLOYMENT, "d", {"status": {"replicas": 1}}, "default", subresource="status")
    assert api.get(DEPLOYMENT, "d", "default")["metadata"]["generation"] == 1
    api.patch(DEPLOYMENT, "d", {"spec": {"replicas": 2}}, "default")
    assert api.get(DEPLOYMENT, "d", "default")["metadata"]["generation"] == 2


def test_claims_have_no_generation_and_slices_do() -> None:
    api = server()
    requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
    claim = api.create(
        RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}, "default"
    )
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"metadata": {"name": "s"}, "spec": {"driver": "d.com", "nodeName": "n", "pool": pool, "devices": []}}
    assert "generation" not in claim["metadata"]
    assert api.create(RESOURCE_SLICE, slice_)["metadata"]["generation"] == 1


def test_a_status_is_written_through_its_subresource_only() -> None:
    api = server()
    made = api.create(POD, {**pod(), "status": {"phase": "Running"}}, "default")
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    running = api.patch(POD, "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    main = api.patch(POD, "p", {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}}, "default")
    assert main["status"]["phase"] == running["status"]["phase"] == "Running"
    assert main["metadata"]["labels"] == {"a": "b"}


def test_a_node_brings_its_status() -> None:
    api = server()
    made = api.create(NODE, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "example.com/gpu": 2}}})
    assert made["status"]["allocatable"] == made["status"]["capacity"] == {"cpu": "4", "example.com/gpu": "2"}


def test_writes_are_seen_at_once_and_in_order_even_when_a_listener_writes() -> None:
    api = server()
    heard: list[tuple[str, str]] = []

    def first(kind: Kind, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type == "ADDED" and name == "a":
            api.create(CONFIG_MAP, {"metadata": {"name": "b"}}, "default")

    def second(kind: Kind, event: WatchEvent) -> None:
        heard.append((event.type, event.object["metadata"]["name"]))

    api.subscribe((CONFIG_MAP,), first)
    stop = api.subscribe((CONFIG_MAP,), second)
    api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
    assert heard == [("ADDED", "a"), ("ADDED", "b")]
    stop()
    api.delete(CONFIG_MAP, "a", "default")
    assert len(heard) == 2


def test_a_subscription_starts_with_what_is_there() -> None:
    api = server()
    for name in ("b", "a"):
        api.create(CONFIG_MAP, {"metadata": {"name": name}}, "default")
    heard: list[str] = []
    api.subscribe((CONFIG_MAP,), lambda kind, event: heard.append(event.object["metadata"]["name"]))
    assert heard == ["a", "b"]


def test_a_watch_from_before_the_log_is_gone() -> None:
    store = Store(log_length=3)
    for number in range(6):
        store.put(CONFIG_MAP, ("ns", "a"), {"metadata": {"name": "a", "n": number}})
    assert [change.object["metadata"]["n"] for change in store.since(store.revision - 3)] == [3, 4, 5]
    with pytest.raises(Gone):
        store.since(store.revision - 4)


def test_a_list_at_an_earlier_revision() -> None:
    store = Store()
    for name in ("a", "b"):
        store.put(CONFIG_MAP, ("ns", name), {"metadata": {"name": name}})
    before = store.revision
    store.put(CONFIG_MAP, ("ns", "a"), {"metadata": {"name": "a", "changed": True}})
    store.remove(CONFIG_MAP, ("ns", "b"))
    store.put(CONFIG_MAP, ("ns", "c"), {"metadata": {"name": "c"}})
    then = store.list_at(CONFIG_MAP, "ns", before)
    assert [item["metadata"]["name"] for item in then] == ["a", "b"] and "changed" not in then[0]["metadata"]


def test_lists_are_sorted_and_bounded_by_their_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "z"), ("a", "y"), ("ab", "x"), ("a", "b")):
        store.put(CONFIG_MAP, (namespace, name), {"metadata": {"name": name}})
    assert store.keys(CONFIG_MAP) == (("a", "b"), ("a", "y"), ("ab", "x"), ("b", "z"))
    assert store.keys(CONFIG_MAP, "a") == (("a", "b"), ("a", "y"))


def test_a_pod_with_a_grace_period_waits_and_the_period_only_gets_shorter() -> None:
    clock = Clock()
    api = server(clock)
    api.create(POD, pod(nodeName="n"), "default")
    api.delete(POD, "p", "default")
    assert api.get(POD, "p", "default")["metadata"]["deletionTimestamp"] == "2026-10-26T07:33:50Z"
    api.delete(POD, "p", "default", grace_period_s=60)
    assert api.get(POD, "p", "default")["metadata"]["deletionGracePeriodSeconds"] == 30
    clock.at_s += 2
    api.delete(POD, "p", "default", grace_period_s=5)
    metadata = api.get(POD, "p", "default")["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-10-26T07:33:25Z", 5)
    clock.at_s += 60
    api.delete(POD, "p", "default", grace_period_s=2)
    metadata = api.get(POD, "p", "default")["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-10-26T07:34:22Z", 1)
    api.delete(POD, "p", "default", grace_period_s=0)
    assert api.find(POD, "p", "default") is None


def test_a_pod_that_has_ended_goes_at_once() -> None:
    api = server()
    api.create(POD, pod(nodeName="n"), "default")
    api.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    api.delete(POD, "p", "default")
    assert api.find(POD, "p", "default") is None


def test_a_pod_with_a_finalizer_goes_when_kubelet_and_finalizer_are_done() -> None:
    api = server()
    held = pod(nodeName="n")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(POD, held, "default")
    api.delete(POD, "p", "default")
    api.patch(POD, "p", {"metadata": {"finalizers": None}}, "default")
    assert api.find(POD, "p", "default") is not None
    api.delete(POD, "p", "default", grace_period_s=0)
    assert api.find(POD, "p", "default") is None


def test_binding_is_one_write() -> None:
    api = server()
    api.create(POD, pod(), "default")
    api.patch(POD, "p", {"status": {"nominatedNodeName": "n"}}, "default", subresource="status")
    before = api.state.store.revision
    api.bind("default", "p", "n")
    bound = api.get(POD, "p", "default")
    assert api.state.store.revision == before + 1 and "nominatedNodeName" not in bound["status"]
    assert str(api.state.story[-1]).endswith(
        "+spec.nodeName +status.conditions[PodScheduled] -status.nominatedNodeName"
    )
    with pytest.raises(Conflict):
        api.bind("default", "p", "m")
    gated = pod("g", schedulingGates=[{"name": "example.com/wait"}])
    api.create(POD, gated, "default")
    with pytest.raises(Conflict, match=r"non-empty \.spec\.schedulingGates"):
        api.bind("default", "g", "n")


@pytest.mark.row(12, how="unit")
@pytest.mark.parametrize(
    ("limits", "requests", "message"),
    [
        ({"example.com/gpu": "2"}, {"example.com/gpu": "1"}, "must be equal to example.com/gpu limit of 2"),
        ({"example.com/gpu": "1500m"}, None, "must be an integer"),
        ({}, {"example.com/gpu": "1"}, "Limit must be set for non overcommitable resources"),
        ({"cpu": "1"}, {"cpu": "2"}, "must be less than or equal to cpu limit of 1"),
    ],
)
def test_extended_resources_are_whole_and_never_overcommitted(limits: Any, requests: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        server().create(POD, with_resources(limits, requests), "default")


def test_amounts_are_kept_in_canonical_form_and_requests_follow_limits() -> None:
    made = server().create(POD, with_resources({"example.com/gpu": 2, "memory": "1024Mi"}), "default")
    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {side: {"example.com/gpu": "2", "memory": "1Gi"} for side in ("limits", "requests")}


def test_a_quota_counts_and_refuses_in_upstream_words() -> None:
    api = server()
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.example.com/gpu": "2"}}}
    api.create(RESOURCE_QUOTA, quota, "default")
    api.create(POD, with_resources({"example.com/gpu": "2"}), "default")
    with pytest.raises(Forbidden) as refused:
        api.create(POD, {**with_resources({"example.com/gpu": "1"}), "metadata": {"name": "b"}}, "default")
    assert refused.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.example.com/gpu=1,'
        " used: requests.example.com/gpu=2, limited: requests.example.com/gpu=2"
    )
    api.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    api.create(POD, {**with_resources({"example.com/gpu": "1"}), "metadata": {"name": "b"}}, "default")


def test_a_runtime_class_must_exist_and_gives_its_overhead() -> None:
    api = server()
    with pytest.raises(Forbidden, match='pods "p" is forbidden: pod rejected: RuntimeClass "nvidia" not found'):
        api.create(POD, pod(runtimeClassName="nvidia"), "default")
    overhead = {"podFixed": {"cpu": "100m"}}
    api.create(RUNTIME_CLASS, {"metadata": {"name": "nvidia"}, "handler": "nvidia", "overhead": overhead})
    assert api.create(POD, pod(runtimeClassName="nvidia"), "default")["spec"]["overhead"] == {"cpu": "100m"}


def test_nothing_is_made_in_a_namespace_that_is_missing_or_ends() -> None:
    api = server()
    with pytest.raises(NotFound, match='namespaces "nope" not found'):
        api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "nope")
    api.create(NAMESPACE, {"metadata": {"name": "team"}})
    api.delete(NAMESPACE, "team")
    assert api.get(NAMESPACE, "team")["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="because it is being terminated"):
        api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "team")


def test_repeated_events_count_up_and_many_alike_are_combined() -> None:
    api = server()
    about = api.create(POD, pod(), "default")
    for _ in range(3):
        api.event(about, "Warning", "FailedCreate", "the same")
    assert [(item["message"], item["count"]) for item in api.list(CORE_EVENT)] == [("the same", 3)]
    for number in range(20):
        api.event(about, "Warning", "Different", f"number {number}")
    combined = [item for item in api.list(CORE_EVENT) if item["message"].startswith("(combined from similar events): ")]
    assert len(combined) == 1 and combined[0]["count"] > 5


def test_an_event_that_is_refused_is_lost_without_harm() -> None:
    api = server()
    api.create(NAMESPACE, {"metadata": {"name": "team"}})
    about = api.create(POD, pod(), "team")
    api.delete(NAMESPACE, "team")
    api.event(about, "Normal", "Late", "too late")
    assert api.list(CORE_EVENT, "team") == ()


def test_faults_before_and_after_a_write() -> None:
    seen: list[ApiCall] = []

    def fault(call: ApiCall) -> None:
        seen.append(call)
        if call.name == "before" and call.moment == "before":
            raise ApiError(500, "InternalError", "the disk is full")
        if call.name == "after" and call.moment == "after":
            raise ApiError(504, "Timeout", "no answer in time")

    api = server(fault=fault)
    with pytest.raises(ApiError, match="the disk is full"):
        api.create(CONFIG_MAP, {"metadata": {"name": "before"}}, "default")
    assert api.find(CONFIG_MAP, "before", "default") is None
    with pytest.raises(ApiError, match="no answer in time"):
        api.create(CONFIG_MAP, {"metadata": {"name": "after"}}, "default")
    assert api.find(CONFIG_MAP, "after", "default") is not None
    mine = [(call.moment, call.verb, call.name) for call in seen if call.kind == CONFIG_MAP]
    assert mine == [("before", "create", "before"), ("before", "create", "after"), ("after", "create", "after")]


def test_the_story_tells_who_wrote_what_and_which_fields() -> None:
    api = server()
    api.create(POD, pod(), "default")
    kubelet = api.as_actor("kubelet")
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    kubelet.patch(POD, "p", ready, "default", subresource="status")
    kubelet.patch(POD, "p", {"metadata": {"finalizers": ["a.com/f"], "labels": {"x": "y"}}}, "default")
    told = [str(write) for write in api.state.story][-3:]
    assert told == [
        "create Pod/p by test",
        "update Pod/p by kubelet/status +status.conditions[Ready] ~status.phase",
        "update Pod/p by kubelet +metadata.finalizers[a.com/f] +metadata.labels",
    ]
    assert api.state.story[-1].revision == api.state.store.revision


def test_a_write_that_changes_nothing_is_no_write() -> None:
    api = server()
    made = api.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"x": "1"}}, "default")
    length = len(api.state.story)
    assert api.patch(CONFIG_MAP, "a", {"data": {"x": "1"}}, "default") == made
    assert len(api.state.story) == length


def test_names_collide_with_what_is_being_deleted_in_words() -> None:
    api = server()
    held = {"metadata": {"name": "a", "finalizers": ["a.com/f"]}}
    api.create(CONFIG_MAP, held, "default")
    with pytest.raises(AlreadyExists, match=r'^configmaps "a" already exists'):
        api.create(CONFIG_MAP, held, "default")
    api.delete(CONFIG_MAP, "a", "default")
    with pytest.raises(AlreadyExists, match="object is being deleted: "):
        api.create(CONFIG_MAP, held, "default")


def test_server_side_apply_is_answered_in_words() -> None:
    api = server()
    api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
    with pytest.raises(ApiError, match="unsupported: server-side apply"):
        api.patch(CONFIG_MAP, "a", {}, "default", patch_type="apply")


def test_protected_namespaces_stay() -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        server().delete(NAMESPACE, "kube-system")


@pytest.mark.parametrize("minor", ["1.32", "1.33", "1.36", "1.37"])
def test_claims_are_kept_whole_in_every_minor(minor: str) -> None:
    """What is stored is v1, also where that minor's schemas know older shapes only."""
    api = new_api_server(Clock(), random.Random(1), rules=rules(minor), git_version=f"v{minor}.0")
    exactly = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    asked = {"name": "r", "exactly": exactly}
    made = api.create(
        RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [asked]}}}, "default"
    )
    assert made["spec"]["devices"]["requests"] == [asked]
