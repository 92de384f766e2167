"""Plans: what the planner makes of an estate, and what a plan's file may say."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.goldens import DIRECTORY, compare
from tests.support import shared

from regauge.base import InputError
from regauge.collect import Estate, load_estate, sample_estate
from regauge.features import minor_of, rules
from regauge.migrate import (
    OnFailure,
    Phase,
    Plan,
    PlanOptions,
    Sight,
    Switch,
    driver_source,
    plan,
    plan_differences,
    read_plan,
    write_plan,
)
from regauge.model import Document, Object, Snapshot, read_documents
from regauge.model.kinds import DEPLOYMENT, NODE, POD


@pytest.fixture(scope="module")
def estate() -> Estate:
    return sample_estate()


def planned(estate: Estate, **options: Any) -> Plan:
    rules_ = rules(minor_of(estate.git_version or ""), dict(estate.gates))
    return plan(estate.snapshot, rules_, PlanOptions(**options), estate.git_version or "")


def changed(estate: Estate, change: Any) -> Estate:
    """The estate with each object through `change` (None: it is left out)."""
    documents = []
    for document in estate.snapshot.all_documents():
        object_ = change(copy.deepcopy(document.object))
        if object_ is not None:
            documents.append(Document(object_, document.where))
    return replace(estate, snapshot=Snapshot.of(documents))


def read(text: str) -> Plan:
    return read_plan(read_documents(text.encode(), "plan.yaml"))


def edited(plan_: Plan, change: Any) -> Plan:
    document = msgspec.to_builtins(plan_)
    change(document)
    return read_plan([Document(document, read_documents_where())])


def read_documents_where() -> Any:
    (document,) = read_documents(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "plan.yaml")
    return document.where


@pytest.mark.row(98, 99, 100, 111, 113, 216, 239, how="unit")
def test_the_plan_of_the_sample(estate: Estate, request: pytest.FixtureRequest) -> None:
    text = write_plan(planned(estate))
    compare(DIRECTORY / "plan", "sample.yaml", text, rewrite=request.config.getoption("--rewrite"))


def test_the_sample_is_the_dump_without_what_nobody_looks_at(estate: Estate) -> None:
    whole = load_estate(str(shared("estates/small")))
    assert write_plan(planned(whole)) == write_plan(planned(estate))


def test_a_plan_is_read_as_it_was_written(estate: Estate) -> None:
    made = planned(estate)
    assert read(write_plan(made)) == made
    assert read(write_plan(made)).digest == made.digest


@pytest.mark.row(85, 86, 87, 88, how="unit")
def test_versions_are_pinned(estate: Estate) -> None:
    pins = planned(estate).spec.pins
    assert pins.kubernetes == "v1.36.3"
    assert set(pins.images) == {"gpu-system/nvidia-device-plugin", "gpu-system/nvidia-dra-driver"}
    assert pins.kubelets and pins.runtimes


@pytest.mark.row(89, 90, 91, 92, 93, how="unit")
def test_a_person_is_asked_about_what_depends_on_the_names(estate: Estate) -> None:
    questions = " ".join(getattr(action, "question", "") for action in planned(estate).step("dependents").actions)
    for word in ("ClusterQueue train", "gpu-alerts", "preview"):
        assert word in questions


def test_the_phases_come_in_their_order(estate: Estate) -> None:
    phases = [step.phase for step in planned(estate).spec.steps]
    assert phases == sorted(phases, key=list(Phase).index)
    assert set(phases) == set(Phase)


def test_a_quota_over_its_bound_is_told_and_raised(estate: Estate) -> None:
    step = planned(estate).step("quotas")
    told = [action.question for action in step.actions if hasattr(action, "question")]
    assert told and "43 of 40" in told[0]
    patches = [action.patch["spec"]["hard"] for action in step.actions if hasattr(action, "patch")]
    of_class = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    assert {"requests.nvidia.com/gpu": "43", of_class: "43"} in patches


def test_every_node_of_a_pool_goes_once_and_the_one_with_fewest_holders_first(estate: Estate) -> None:
    steps = planned(estate).spec.steps
    nodes = [action.node for step in steps for action in step.actions if isinstance(action, Switch)]
    assert sorted(nodes) == [f"a100-{number}" for number in range(4)]
    assert nodes[0] == "a100-2"


def test_a_pool_is_left_with_the_reason(estate: Estate) -> None:
    left = {item.what: item.why for item in planned(estate).spec.left}
    assert "--source rdma/hca=NAMESPACE/NAME" in left["pool h100"]
    assert left["pool mixed"] == "the verdict on it is stay"


def test_the_user_names_the_source_that_cannot_be_seen(estate: Estate) -> None:
    sources = {"rdma/hca": "gpu-system/nvidia-device-plugin", "dra.net": "gpu-system/nvidia-dra-driver"}
    made = planned(estate, sources=sources)
    nodes = {action.node for step in made.spec.steps for action in step.actions if isinstance(action, Switch)}
    assert {"h100-0", "h100-1", "h100-2"} <= nodes


def test_words_that_all_drivers_have_in_their_names_say_nothing_about_who_serves_one(estate: Estate) -> None:
    found = driver_source("dra.net", estate.snapshot, {})
    assert found.document is None and "no DaemonSet is seen that serves dra.net" in found.why
    found = driver_source("gpu.nvidia.com", estate.snapshot, {})
    assert found.title == "gpu-system/nvidia-dra-driver"


def test_a_source_that_is_not_there_is_told(estate: Estate) -> None:
    left = {item.what: item.why for item in planned(estate, sources={"rdma/hca": "a/b"}).spec.left}
    assert "there is no DaemonSet a/b" in left["pool h100"]


def test_a_pool_that_is_not_there_is_told(estate: Estate) -> None:
    left = {item.what: item.why for item in planned(estate, pools=("a100", "z")).spec.left}
    assert "there is no such pool" in left["pool z"]


def test_the_user_overrides_the_order_and_the_verdict(estate: Estate) -> None:
    made = planned(estate, pools=("mixed", "a100"))
    nodes = [action.node for step in made.spec.steps for action in step.actions if isinstance(action, Switch)]
    stuck = {item.what: item.why for item in made.spec.left}
    assert "mixed-0" not in nodes  # its pod cannot move: a LimitRange would give it the counts back
    assert "LimitRange" in stuck["Deployment team-research/two-containers"]


def test_nothing_to_move_is_an_error_with_the_reasons(estate: Estate) -> None:
    with pytest.raises(InputError, match="no pool can move") as caught:
        planned(changed(estate, lambda object_: None if object_["kind"] == "DaemonSet" else object_))
    assert "no DaemonSet is seen" in str(caught.value)


def test_two_daemon_sets_that_may_serve_a_name_are_both_told(estate: Estate) -> None:
    twin: list[Object] = []

    def double(object_: Object) -> Object:
        if object_["kind"] == "DaemonSet" and object_["metadata"]["name"] == "nvidia-device-plugin":
            other = copy.deepcopy(object_)
            other["metadata"] |= {"name": "nvidia-device-plugin-b", "uid": "b"}
            twin.append(other)
        if object_["kind"] == "Pod" and object_["metadata"]["name"].startswith("nvidia-device-plugin"):
            other = copy.deepcopy(object_)
            other["metadata"] |= {"name": object_["metadata"]["name"] + "-b", "uid": object_["metadata"]["uid"] + "b"}
            other["metadata"]["ownerReferences"][0] |= {"uid": "b"}
            twin.append(other)
        return object_

    base = changed(estate, double)
    more = [Document(object_, read_documents_where()) for object_ in twin]
    both = replace(base, snapshot=Snapshot.of([*base.snapshot.all_documents(), *more]))
    with pytest.raises(InputError, match="may all serve it; name it"):
        planned(both)


@pytest.mark.parametrize(
    ("api_version", "kind", "words"),
    [("nvidia.com/v1", "ClusterPolicy", "whole cluster"), ("amd.com/v1alpha1", "DeviceConfig", "never both")],
)
def test_a_daemon_set_of_an_operator_is_not_changed_and_what_it_allows_is_told(
    estate: Estate, api_version: str, kind: str, words: str
) -> None:
    def own(object_: Object) -> Object:
        if object_["kind"] == "DaemonSet" and object_["metadata"]["name"] == "nvidia-device-plugin":
            owner = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "x", "controller": True}
            object_["metadata"]["ownerReferences"] = [owner]
        return object_

    with pytest.raises(InputError, match=words) as caught:
        planned(changed(estate, own))
    assert "operator" in str(caught.value) and "2026-08" in str(caught.value)


def test_an_owner_that_nobody_knows_is_no_hindrance(estate: Estate) -> None:
    def own(object_: Object) -> Object:
        if object_["kind"] == "DaemonSet":
            object_["metadata"]["ownerReferences"] = [{"apiVersion": "x.io/v1", "kind": "Y", "name": "x", "uid": "x"}]
        return object_

    assert planned(changed(estate, own)).spec.steps


def test_a_plan_that_fits_has_no_differences(estate: Estate) -> None:
    assert plan_differences(planned(estate), Sight(estate.snapshot, (), "v1.36.3")) == ()


@pytest.mark.row(85, how="unit")
def test_every_difference_is_told(estate: Estate) -> None:
    made = planned(estate)

    def change(object_: Object) -> Object | None:
        kind, name = object_["kind"], object_["metadata"]["name"]
        if kind == NODE.kind and name == "a100-0":
            return None
        if kind == NODE.kind and name == "a100-1":
            object_["status"]["capacity"]["nvidia.com/gpu"] = "7"
        if kind == NODE.kind and name == "a100-2":
            object_["status"]["nodeInfo"]["kubeletVersion"] = "v1.37.0"
        if kind == DEPLOYMENT.kind and name == "chat-serving":
            object_["spec"]["replicas"] = 5
        return None if kind == POD.kind and name == "x" else object_

    told = plan_differences(made, Sight(changed(estate, change).snapshot, (), "v1.36.4"))
    for words in (
        "node a100-0 is gone",
        "a100-1 counts 7 nvidia.com/gpu, planned for 8",
        "Deployment team-infer/chat-serving is not as it was",
        "a100-2: kubeletVersion is v1.37.0",
        "Kubernetes is v1.36.4, planned for v1.36.3",
    ):
        assert any(words in line for line in told), (words, told)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["spec"].update(steps_=1), "steps_"),
        (lambda d: d["metadata"].update(name="No Name"), "metadata.name"),
        (lambda d: d["spec"]["steps"][0].update(id="A b"), "spec.steps[0].id"),
        (lambda d: d["spec"]["steps"][1].update(id=d["spec"]["steps"][0]["id"]), "stands twice"),
        (lambda d: d["spec"]["steps"][0].update(actions=[{"do": "reboot", "node": "a"}]), "reboot"),
        (lambda d: d["spec"]["steps"][0].update(gates=[{"check": "luck"}]), "luck"),
        (lambda d: d["spec"]["steps"][0].update(phase="later"), "later"),
        (lambda d: d.update(apiVersion="regauge.dev/v9"), "regauge.dev/v9"),
        (
            lambda d: d["spec"]["steps"][0].update(actions=[{"do": "ensure", "objects": [{"kind": "x"}]}]),
            "an object needs",
        ),
    ],
)
def test_what_a_plan_cannot_say_is_refused_by_its_field(estate: Estate, change: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        edited(planned(estate), change)
    assert words in str(caught.value)


@pytest.mark.row(113, how="unit")
def test_one_step_does_not_change_a_driver_and_the_stack(estate: Estate) -> None:
    upgrade = {
        "do": "amend",
        "object": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "namespace": "g"},
        "patch": {"spec": {"template": {"spec": {"containers": [{"name": "p", "image": "new"}]}}}},
    }

    def change(document: Object, **more: Any) -> None:
        step = next(step for step in document["spec"]["steps"] if step["id"].startswith("node-"))
        step["actions"] = [upgrade, *step["actions"]]
        step.update(more)

    with pytest.raises(InputError, match="one step changes DRA and a driver"):
        edited(planned(estate), change)
    edited(planned(estate), lambda document: change(document, override="the vendor ships both as one"))


def test_the_failure_of_a_gate_may_undo_all(estate: Estate) -> None:
    assert planned(estate, on_failure=OnFailure.ALL).spec.on_failure is OnFailure.ALL
    assert "onFailure: all" in write_plan(planned(estate, on_failure=OnFailure.ALL))


def test_two_plans_in_one_file_are_told(estate: Estate, tmp_path: Path) -> None:
    text = write_plan(planned(estate))
    with pytest.raises(InputError, match="2 plans in the input"):
        read(text + "---\n" + text)
