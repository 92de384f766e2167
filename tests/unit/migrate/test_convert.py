"""Limits to claims and back: what each part becomes, and what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.migrate.building import (
    ESTATE,
    GPU,
    PRODUCT,
    claim_template,
    claiming,
    claims,
    container,
    converted,
    deployment,
    document,
    exactly,
    ground,
    pod_spec,
    refusal,
    requests,
    results,
)

from regauge.features import rules
from regauge.migrate import AskStack, Fate, parse_path, to_claim
from regauge.model import Object


@pytest.mark.row(209, 210, 108)
def test_the_claim_of_the_document_comes_out() -> None:
    _, template, _ = claims(deployment(pod_spec(container("gpu", gpu="2"))))
    assert template["apiVersion"] == "resource.k8s.io/v1"
    assert requests(template) == [
        {
            "name": "gpu",
            "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2},
        }
    ]


@pytest.mark.row(26, 55, 211)
def test_a_label_becomes_a_selector_that_the_scheduler_takes_for_the_same_device() -> None:
    spec = pod_spec(nodeSelector={PRODUCT: "NVIDIA-A100-SXM4-80GB", "pool": "a"})
    moved, template, notes = claims(deployment(spec), on=ground(ESTATE), require=('device.driver == "gpu.nvidia.com"',))
    assert moved["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "a"}
    texts = [item["cel"]["expression"] for item in requests(template)[0]["exactly"]["selectors"]]
    assert len(texts) == 2
    assert len(ground(ESTATE).matching("gpu.nvidia.com", texts)) == 2
    assert any("high confidence" in note for note in notes)
    assert not any("would wait" in note for note in notes)


def test_a_selector_is_false_where_the_attribute_is_missing() -> None:
    """An error would end the allocation of the whole claim."""
    from regauge.allocator import selectors_of
    from regauge.migrate.matching import _Subject
    from regauge.model.resource import Device

    _, template, _ = claims(deployment(pod_spec(nodeSelector={PRODUCT: "X", "nvidia.com/gpu.memory": "80"})))
    for item in requests(template)[0]["exactly"]["selectors"]:
        compiled = selectors_of(rules("1.36")).selector(item["cel"]["expression"])
        assert compiled.evaluate(_Subject("gpu.nvidia.com", Device(name="bare")), multiple=False) is False


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"nvidia.com/gpu.machine": "x"}, "nothing is known of the label nvidia.com/gpu.machine"),
        ({"nvidia.com/gpu.replicas": "4"}, "how devices are shared"),
        ({PRODUCT: "NVIDIA-L4-SHARED"}, "counted several times"),
        ({"nvidia.com/gpu.present": "false"}, "wants a node without such devices"),
        ({"amd.com/gpu.cu-count": "304"}, "describe devices of gpu.amd.com"),
    ],
)
@pytest.mark.row(26, 29, 55)
def test_a_label_that_no_selector_can_say_is_refused(labels: dict[str, str], why: str) -> None:
    assert why in refusal(deployment(pod_spec(nodeSelector=labels)))


def test_unknown_labels_are_kept_when_that_is_asked_and_said() -> None:
    moved, _, notes = claims(deployment(pod_spec(nodeSelector={"nvidia.com/gpu.machine": "x"})), keep_labels=True)
    assert moved["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.machine": "x"}
    assert any("kept as asked" in note for note in notes)


def affinity(*terms: list[Object]) -> Object:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def wants(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.row(26)
def test_required_affinity_is_lifted_and_alternatives_of_devices_stay_alternatives() -> None:
    either = affinity([wants(PRODUCT, "In", "A")], [wants("nvidia.com/gpu.memory", "Gt", "40000")])
    moved, template, _ = claims(deployment(pod_spec(affinity=either)))
    assert "affinity" not in moved["spec"]["template"]["spec"]
    (selector,) = requests(template)[0]["exactly"]["selectors"]
    assert ") || (" in selector["cel"]["expression"]
    assert 'quantity("40001Mi")' in selector["cel"]["expression"]


def test_affinity_that_mixes_nodes_and_devices_in_alternatives_is_refused() -> None:
    mixed = affinity([wants(PRODUCT, "In", "A"), wants("zone", "In", "1")], [wants(PRODUCT, "In", "B")])
    assert "alternatives of nodes and devices together" in refusal(deployment(pod_spec(affinity=mixed)))


def test_an_empty_term_beside_a_device_term_loses_nothing() -> None:
    """An empty term matches no node, so the other one is all there is."""
    _, template, _ = claims(deployment(pod_spec(affinity=affinity([], [wants(PRODUCT, "In", "A")]))))
    assert "productName" in requests(template)[0]["exactly"]["selectors"][0]["cel"]["expression"]


@pytest.mark.row(24, 96)
def test_partitions_and_shares() -> None:
    _, template, _ = claims(deployment(pod_spec(container(limits={"nvidia.com/mig-1g.10gb.me": 1}))))
    exactly = requests(template)[0]["exactly"]
    assert exactly["deviceClassName"] == "mig.nvidia.com"
    assert '.profile == "1g.10gb+me"' in exactly["selectors"][0]["cel"]["expression"]
    mig = deployment(pod_spec(container(limits={"nvidia.com/mig-1g.10gb": 1})))
    assert "mig.nvidia.com, which does not exist here" in refusal(mig, on=ground(ESTATE))
    slices = deployment(pod_spec(container(limits={"nvidia.com/gpu.shared": 1})))
    assert "time slices" in refusal(slices)
    shareable = ESTATE.replace("{name: g0,", "{name: g0, allowMultipleAllocations: true,").replace(
        "{name: g1,", "{name: g1, allowMultipleAllocations: true,"
    )
    named = {"nvidia.com/gpu.shared": "gpu.nvidia.com"}
    assert "no such devices" in refusal(slices, on=ground(ESTATE, **named))
    _, template, _ = claims(slices, on=ground(shareable, **named))
    assert requests(template)[0]["exactly"]["deviceClassName"] == "gpu.nvidia.com"


@pytest.mark.row(28, 97, 187)
def test_a_gpu_and_its_nic_share_what_both_drivers_publish() -> None:
    both = container(limits={GPU: 1, "rdma/hca": 1})
    _, template, notes = claims(deployment(pod_spec(both)), on=ground(ESTATE))
    assert [item["name"] for item in requests(template)] == ["main-gpu", "main-hca"]
    assert template["spec"]["spec"]["devices"]["constraints"] == [
        {"matchAttribute": "resource.kubernetes.io/numaNode", "requests": ["main-gpu", "main-hca"]}
    ]
    _, template, notes = claims(deployment(pod_spec(container(limits={GPU: 2, "rdma/hca": 1}))), on=ground(ESTATE))
    assert "constraints" not in template["spec"]["spec"]["devices"]
    assert any("no node has this many of both" in note for note in notes)
    _, template, _ = claims(deployment(pod_spec(container(gpu=2))), align="resource.kubernetes.io/numaNode")
    assert template["spec"]["spec"]["devices"]["constraints"][0]["requests"] == ["main"]


@pytest.mark.row(230, 189)
def test_lost_alignment_is_said() -> None:
    assert any("Topology Manager" in note for note in claims(deployment(pod_spec(container(gpu=2))))[2])
    assert not any("Topology Manager" in note for note in claims(deployment(pod_spec(container(gpu=1))))[2])


@pytest.mark.row(25)
def test_a_count_cannot_say_what_a_claim_can() -> None:
    template = claim_template({"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}})
    template["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": "a/b"}]
    found = converted([template, claiming()], AskStack.LIMITS)
    assert "constraints between devices" in found.items[1].reasons[0]
    assert found.items[0].fate is Fate.KEPT


def test_a_claim_of_another_hand_becomes_a_count_and_labels() -> None:
    selector = 'has(device.attributes["gpu.nvidia.com"].productName) && device.attributes["gpu.nvidia.com"].productName'
    selectors = [{"cel": {"expression": f'{selector}.replace(" ", "-") == "NVIDIA-L4"'}}]
    found = converted(
        [claim_template({"name": "r", "exactly": exactly(selectors=selectors)}), claiming()], AskStack.LIMITS
    )
    assert [item.fate for item in found.items] == [Fate.DROPPED, Fate.CHANGED]
    (out,) = results(found)
    spec = out["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {GPU: "2"}}
    assert spec["nodeSelector"] == {PRODUCT: "NVIDIA-L4"}
    assert "resourceClaims" not in spec


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}, "list of alternatives"),
        ({"name": "r", "exactly": exactly(allocationMode="All")}, "asks for All devices"),
        ({"name": "r", "exactly": exactly(adminAccess=True)}, "admin access"),
        ({"name": "r", "exactly": exactly(capacity={"requests": {"memory": "1Gi"}})}, "a capacity"),
        ({"name": "r", "exactly": exactly(tolerations=[{"operator": "Exists"}])}, "device tolerations"),
        ({"name": "r", "exactly": exactly(selectors=[{"cel": {"expression": "true"}}])}, "no node label is known"),
        ({"name": "r", "exactly": {"deviceClassName": "unheard-of"}}, "--class NAME=unheard-of"),
    ],
)
@pytest.mark.row(25)
def test_what_a_count_cannot_say_is_refused(request_: Object, why: str) -> None:
    found = converted([claim_template(request_), claiming()], AskStack.LIMITS)
    assert why in "; ".join(found.items[1].reasons)
    assert results(found) == [claim_template(request_)]


def test_shared_claims_are_refused_as_counts() -> None:
    two = [{"name": n, "image": "i", "resources": {"claims": [{"name": "gpu", "request": "r"}]}} for n in "ab"]
    found = converted([claim_template({"name": "r", "exactly": exactly()}), claiming(*two)], AskStack.LIMITS)
    assert "containers a, b share request r" in found.items[1].reasons[0]
    named = deployment({"containers": [container()], "resourceClaims": [{"name": "g", "resourceClaimName": "c"}]})
    assert "shares the claim c" in refusal(named, AskStack.LIMITS)
    assert "not in the input" in refusal(claiming(template="gone"), AskStack.LIMITS)


def test_an_edited_claim_is_read_for_what_it_says() -> None:
    moved, template, _ = claims(deployment(pod_spec(container(requests={GPU: 1}), nodeSelector={PRODUCT: "A"})))
    requests(template)[0]["exactly"]["count"] = 3
    found = converted([template, moved], AskStack.LIMITS)
    spec = results(found)[0]["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {GPU: "3"}}
    assert spec["nodeSelector"] == {PRODUCT: "A"}


LWS = {"leaderWorkerTemplate": {"leaderTemplate": "POD", "workerTemplate": "POD"}}
RAY = {"headGroupSpec": {"template": "POD"}, "workerGroupSpecs": [{"groupName": "g", "template": "POD"}]}
TORCH = {"pytorchReplicaSpecs": {"Master": {"template": "POD"}, "Worker": {"template": "POD"}}}
PATHS: list[tuple[str, str, Any]] = [
    ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": "POD"}}}]}),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", LWS),
    ("ray.io/v1", "RayCluster", RAY),
    ("ray.io/v1", "RayJob", {"rayClusterSpec": {"headGroupSpec": {"template": "POD"}}}),
    ("kubeflow.org/v1", "PyTorchJob", TORCH),
    ("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": {"Worker": {"template": "POD"}}}),
    ("kubeflow.org/v1", "Notebook", {"template": "POD"}),
    ("serving.kserve.io/v1beta1", "InferenceService", {"predictor": "SPEC"}),
    ("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": "POD"}}}),
    ("v1", "PodTemplate", "TOP"),
    ("v1", "Pod", "SPEC"),
]  # fmt: skip


def filled(value: Any) -> Any:
    if value == "POD":
        return {"spec": pod_spec(container(gpu=1))}
    if value == "SPEC":
        return pod_spec(container(gpu=1))
    if isinstance(value, dict):
        return {key: filled(item) for key, item in value.items()}
    return [filled(item) for item in value] if isinstance(value, list) else value


@pytest.mark.row(240)
@pytest.mark.parametrize(("api_version", "kind", "spec"), PATHS)
def test_every_kind_of_workload_there_and_back(api_version: str, kind: str, spec: Any) -> None:
    head = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": "team"}}
    before = {**head, "template": filled("POD")} if spec == "TOP" else {**head, "spec": filled(spec)}
    found = converted([copy.deepcopy(before)], AskStack.CLAIM)
    assert GPU not in json.dumps(found.items[0].object)
    templates = found.items[0].before
    assert len({item["metadata"]["name"] for item in templates}) == len(templates) == json.dumps(spec).count("POD") or 1
    back = converted(results(found), AskStack.LIMITS)
    assert results(back) == [before]


@pytest.mark.row(240)
def test_a_train_job_claims_for_its_nodes() -> None:
    trainer = {"numNodes": 2, "resourcesPerNode": {"limits": {GPU: 4}}}
    before = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"trainer": trainer},
    }
    moved, template, _ = claims(copy.deepcopy(before))
    assert moved["spec"]["trainer"] == {
        "numNodes": 2,
        "resourceClaimsPerNode": [{"name": "devices", "resourceClaimTemplateName": "w-devices"}],
    }
    assert results(converted([template, moved], AskStack.LIMITS)) == [before]


def test_an_inference_service_with_a_model() -> None:
    before = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "x"}, "resources": {"limits": {GPU: 1}}}}},
    }
    moved, template, _ = claims(copy.deepcopy(before))
    assert requests(template)[0]["name"] == "kserve-container"
    assert moved["spec"]["predictor"]["resourceClaims"]
    assert results(converted([template, moved], AskStack.LIMITS)) == [before]


def test_any_kind_by_a_path() -> None:
    own = {"apiVersion": "x.io/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"a": [{"pod": filled("POD")}]}}
    assert converted([own], AskStack.CLAIM).items[0].fate is Fate.KEPT
    assert claims(own, paths=(parse_path("spec.a[*].pod"),))[1]["metadata"]["name"] == "f-devices"


def test_what_a_controller_made_is_left_to_its_owner() -> None:
    made = deployment(pod_spec())
    made["metadata"]["ownerReferences"] = [{"controller": True, "uid": "u"}]
    (item,) = converted([made], AskStack.CLAIM).items
    assert item.fate is Fate.KEPT
    assert "its owner" in item.notes[0]


# ---- there and back --------------------------------------------------------------------------------------------------

_COUNTS = st.one_of(st.integers(1, 4), st.integers(1, 4).map(str))
_LABELS = st.lists(
    st.sampled_from(
        [
            (PRODUCT, "A"),
            ("nvidia.com/gpu.memory", "81920"),
            ("nvidia.com/gpu.present", "true"),
            ("nvidia.com/gpu.compute.major", "9"),
            ("pool", "a"),
        ]
    ),
    max_size=4,
).map(dict)
_RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "limits": st.dictionaries(st.sampled_from([GPU, "rdma/hca", "memory"]), _COUNTS, min_size=1),
        "requests": st.dictionaries(st.sampled_from([GPU, "cpu"]), _COUNTS, min_size=1),
    },
)
_TERM = st.lists(
    st.sampled_from([wants(PRODUCT, "In", "A", "B"), wants(PRODUCT, "NotIn", "C"), wants("pool", "Exists")]),
    min_size=1,
    max_size=3,
)


@st.composite
def pods(draw: st.DrawFn) -> Object:
    containers = [
        {"name": f"c{n}", "image": "i", "resources": draw(_RESOURCES)} for n in range(draw(st.integers(1, 3)))
    ]
    spec: Object = {"containers": containers}
    if draw(st.booleans()):
        always = draw(st.sampled_from([{}, {"restartPolicy": "Always"}]))
        spec["initContainers"] = [{"name": "init", "image": "i", "resources": draw(_RESOURCES), **always}]
    labels = draw(_LABELS)
    if labels:
        spec["nodeSelector"] = labels
    if draw(st.booleans()):
        spec["affinity"] = affinity(draw(_TERM))
    return spec


@settings(max_examples=150, deadline=None)
@given(pods())
def test_there_and_back_is_the_same_object(spec: Object) -> None:
    before = deployment(spec)
    found = converted([copy.deepcopy(before)], AskStack.CLAIM)
    (item,) = found.items
    if item.fate is Fate.REFUSED:
        assert "describe devices of gpu.nvidia.com" in item.reasons[0]
        return
    for object_ in item.before:
        kubernetes_validate.validate(object_, "1.36", strict=True)
    back = converted(json.loads(json.dumps(results(found))), AskStack.LIMITS)
    assert results(back) == [before]


def test_to_claim_and_convert_are_one_mechanism() -> None:
    before = deployment(pod_spec(container("a", gpu=1), container("b", gpu=2)))
    moved = to_claim(document(before), GPU, "gpu.nvidia.com")
    object_, template, _ = claims(before)
    assert moved.workload == object_
    del template["metadata"]["annotations"]
    assert moved.objects == (template,)
