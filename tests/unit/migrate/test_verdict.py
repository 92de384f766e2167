"""Stay, later or now: the rules, the triggers, and what each answer rests on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from tests.support import shared
from tests.unit.migrate.building import (
    GPU,
    PRODUCT,
    container,
    converted,
    deployment,
    document,
    documents,
    ground,
    pod_spec,
)

from regauge.collect import load_estate
from regauge.features import rules
from regauge.migrate import AskStack, Assessment, Verdict, assess, decide, device_matcher, trigger_rules, verdict_rules
from regauge.migrate.stakes import effort_of
from regauge.migrate.triggers import DETECTORS
from regauge.model import Object, Snapshot

FACTS = {
    "stack": ("device-plugin", "dra", "bridge"),
    "need": ("yes", "no"),
    "kube": ("old", "ready"),
    "driver": ("unknown", "preview", "released", "here"),
    "features": ("off", "on"),
}

AMD = "amd.com/gpu"


def judged(objects: list[Object], minor: str = "1.36", gates: dict[str, bool] | None = None, **more: Any) -> Assessment:
    on = rules(minor, gates or {})
    return assess(Snapshot.of(document(item) for item in objects), on, device_matcher(on), more.get("said"))


def asking(resource: str = AMD, **spec: Any) -> Object:
    return deployment(pod_spec(container(limits={resource: 1}), **spec))


NEEDY = {"nodeSelector": {"amd.com/gpu.cu-count": "304"}}


@pytest.mark.row(81, 82, 173, 202, 204, 205)
def test_every_combination_of_facts_has_one_answer_by_the_tree() -> None:
    """The tree: no need stays; a need without a driver on a new enough version waits; with one it goes."""
    for values in itertools.product(*FACTS.values()):
        facts = dict(zip(FACTS, values))
        if facts["stack"] != "device-plugin" or facts["need"] == "no":
            expected = "stay"
        elif facts["kube"] == "ready" and facts["driver"] in ("released", "here") and facts["features"] == "on":
            expected = "now"
        else:
            expected = "later"
        assert decide(facts).verdict == expected, facts


@pytest.mark.row(81)
def test_every_rule_decides_something() -> None:
    reached = {decide(dict(zip(FACTS, values))).id for values in itertools.product(*FACTS.values())}
    assert reached == {rule.id for rule in verdict_rules()}
    assert [rule.id for rule in trigger_rules()] == [*DETECTORS, "T10"]
    assert all(rule.need == DETECTORS[rule.id][0] for rule in trigger_rules() if rule.id in DETECTORS)


@pytest.mark.row(24, 82, 179, 202)
@pytest.mark.parametrize("resource", [AMD, "nvidia.com/mig-1g.10gb"])
def test_interchangeable_devices_and_partitions_stay(resource: str) -> None:
    (row,) = judged([asking(resource)]).rows
    assert (row.judgement.verdict, row.judgement.rule) == (Verdict.STAY, "V2")
    assert row.judgement.change


@pytest.mark.row(203, 205)
def test_a_need_and_a_driver_mean_now() -> None:
    found = judged([asking(**NEEDY)])
    (row,) = found.rows
    assert (row.judgement.verdict, row.judgement.rule) == (Verdict.NOW, "V7")
    assert (row.judgement.driver.state, row.judgement.driver.driver) == ("released", "gpu.amd.com")
    assert row.judgement.driver.date
    assert [(item.feature, item.on) for item in row.judgement.features] == [("core", True)]
    assert found.verdict is Verdict.NOW


@pytest.mark.row(69, 89, 204)
@pytest.mark.parametrize(
    ("resource", "minor", "gates", "rule"),
    [
        (AMD, "1.33", {}, "V3"),
        ("vendor.example/npu", "1.36", {}, "V4"),
        (GPU, "1.36", {}, "V5"),
        (AMD, "1.34", {"DynamicResourceAllocation": False}, "V6"),
    ],
)
def test_what_is_missing_means_later(resource: str, minor: str, gates: dict[str, bool], rule: str) -> None:
    found = judged([asking(resource)], minor, gates, said={"": ("attributes",)})
    (row,) = found.rows
    assert (row.judgement.verdict, row.judgement.rule) == (Verdict.LATER, rule)
    assert row.judgement.change


def test_unknown_is_never_yes() -> None:
    (row,) = judged([asking("vendor.example/npu")], said={"": ("topology",)}).rows
    assert row.judgement.driver.state == "unknown"
    assert row.judgement.verdict is not Verdict.NOW


NIC = {"limits": {GPU: 1, "rdma/hca": 1}}
PINNED = {"limits": {GPU: 2, "cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}}


@pytest.mark.row(27, 29, 97, 201, 206)
@pytest.mark.parametrize(
    ("spec", "annotations", "ids"),
    [
        (pod_spec(container(limits={"nvidia.com/gpu.shared": 1})), {}, {"T1"}),
        (pod_spec(container(limits={"nvidia.com/gpumem": 3000})), {}, {"T1"}),
        (pod_spec(nodeSelector={PRODUCT: "A"}), {}, {"T3"}),
        (pod_spec(nodeSelector={"pool": "a"}), {}, set()),
        (pod_spec(), {"nvidia.com/use-gputype": "A100"}, {"T5"}),
        (pod_spec(container(**NIC)), {}, {"T6", "T8"}),
        (pod_spec(container(**PINNED)), {}, {"T7"}),
        (pod_spec(container(limits={GPU: 2, "cpu": "500m", "memory": "1Gi"})), {}, set()),
        (pod_spec(), {"k8s.v1.cni.cncf.io/networks": "sriov-a"}, {"T9"}),
    ],
)
def test_each_trigger(spec: Object, annotations: dict[str, str], ids: set[str]) -> None:
    own = deployment(spec)
    own["spec"]["template"]["metadata"]["annotations"] = annotations
    assert {item.id for row in judged([own]).rows for item in row.judgement.triggers} == ids


@pytest.mark.row(206)
def test_affinity_and_what_the_user_says_are_triggers() -> None:
    term = {"matchExpressions": [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    (row,) = judged([deployment(pod_spec(affinity={"nodeAffinity": required}))]).rows
    assert [(item.id, item.evidence) for item in row.judgement.triggers] == [("T4", "nvidia.com/gpu.memory Gt 40000")]
    (row,) = judged([deployment(pod_spec())], said={"team/app": ("sharing",), "team/other": ("network",)}).rows
    assert [(item.id, item.need) for item in row.judgement.triggers] == [("T10", "sharing")]


@pytest.mark.row(23, 24, 90, 91, 93, 95, 173, 203)
def test_the_small_estate() -> None:
    estate = load_estate(str(shared("estates/small")))
    on = rules("1.36")
    found = assess(estate.snapshot, on, device_matcher(on))
    answers = {(row.name, row.asks_for): row.judgement for row in found.rows}
    assert answers["tabular", GPU].rule == "V2"
    assert answers["embedder", "nvidia.com/mig-1g.10gb"].rule == "V2"
    ocr = answers["ocr", "nvidia.com/gpu.shared"]
    assert (ocr.verdict, {item.id for item in ocr.triggers}) == (Verdict.LATER, {"T1", "T2"})
    assert answers["llm-pretrain", GPU].driver.state == "here"
    assert {item.need for item in answers["llm-pretrain", "rdma/hca"].triggers} == {"attributes", "topology", "network"}
    assert {pool.pool: pool.verdict.value for pool in found.pools} == {
        "a100": "now",
        "a100-mig": "stay",
        "cpu": "stay",
        "h100": "now",
        "h100-dra": "stay",
        "l4-shared": "later",
        "mixed": "stay",
    }
    told = {(item.kind, item.name, item.resource_name): item for item in found.dependents}
    assert told["ResourceQuota", "gpu", GPU].instead == (
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
        "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    )
    assert {"ClusterQueue", "LimitRange", "ConfigMap", "RuntimeClass"} <= {kind for kind, _, _ in told}
    assert told["ConfigMap", "gpu-alerts", GPU].what == "monitoring"
    assert told["ConfigMap", "nvidia-device-plugin-config", GPU].what == "sharing"


DEPENDENTS = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: must-limit}
spec: {rules: [{validate: {deny: {conditions: ["{{ request.object.limits.\\"nvidia.com/gpu\\" }}"]}}}]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: MaxGpus
metadata: {name: eight}
spec: {parameters: {resource: nvidia.com/gpu, max: 8}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: vap}
spec: {validations: [{expression: "!('nvidia.com/gpu' in object.spec.containers[0].resources.limits)"}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: map}
spec: {mutations: [{jsonPatch: {expression: '[JSONPatch{op: "add", path: "/limits/nvidia.com~1gpu"}]'}}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: gpu, namespace: m}
spec: {groups: [{rules: [{expr: 'sum(kube_pod_container_resource_limits{resource="nvidia_com_gpu"})'}]}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpus}
spec: {limits: {nvidia.com/gpu: 16}}
---
apiVersion: example.org/v1
kind: Price
metadata: {name: list}
spec: {of: nvidia.com/gpu}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: others}
data: {a: "nvidia.com/gpu.shared x.nvidia.com/gpu nvidia.com/gpu-large my_nvidia_com_gpu"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kueue-manager-config}
data: {c: "deviceClassMappings: [{name: nvidia.com/gpu}]"}
"""


@pytest.mark.row(23, 90, 92, 93, 94)
def test_what_depends_on_a_name_is_found_where_it_stands_as_a_word_of_its_own() -> None:
    on = rules("1.36")
    snapshot = Snapshot.of([*documents(DEPENDENTS), document(deployment(pod_spec()))])
    found = {item.name: item.what for item in assess(snapshot, on, device_matcher(on)).dependents}
    assert found == {
        "must-limit": "policy",
        "eight": "policy",
        "vap": "admission",
        "map": "admission",
        "gpu": "monitoring",
        "gpus": "autoscaling",
        "list": "other",
        "kueue-manager-config": "queue",
    }


@pytest.mark.row(240)
def test_workloads_with_several_templates_are_told_apart() -> None:
    pod = {"spec": pod_spec(container(gpu=2))}
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r", "namespace": "team", "uid": "u"},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head"}]}}},
            "workerGroupSpecs": [{"groupName": "small", "template": pod}, {"groupName": "big", "template": pod}],
        },
    }
    rows = judged([ray]).rows
    assert [(row.kind, row.part, row.count) for row in rows] == [("RayCluster", "big", 2), ("RayCluster", "small", 2)]


@pytest.mark.row(22)
def test_what_becomes_of_the_manifest_is_counted() -> None:
    own = deployment(pod_spec(container(limits={AMD: 1})))
    (row,) = judged([own]).rows
    assert row.growth is not None
    assert "does not exist here" in row.growth.refused[0]
    estate = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.amd.com}\n"
    on = rules("1.36")
    snapshot = Snapshot.of([*documents(estate), document(own)])
    (row,) = assess(snapshot, on, device_matcher(on)).rows
    assert row.growth is not None
    before = len(yaml.safe_dump(own).splitlines())
    (item,) = converted([own], AskStack.CLAIM, ground(estate)).items
    after = sum(len(yaml.safe_dump(each, width=10**6).splitlines()) for each in (*item.before, item.object))
    assert (row.growth.lines, row.growth.lines_by_claim, row.growth.objects_more) == (before, after, 1)


GROUPED = """
apiVersion: batch/v1
kind: Job
metadata: {name: kueue, namespace: team, labels: {kueue.x-k8s.io/queue-name: train}}
spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: upstream, namespace: team}
spec:
  template:
    spec:
      schedulingGroup: {podGroupName: pair}
      containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: cosched, namespace: team}
spec:
  template:
    metadata: {labels: {scheduling.x-k8s.io/pod-group: g}}
    spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: volcano, namespace: team}
spec: {tasks: [{name: t, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: single, namespace: team}
spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
"""


@pytest.mark.row(241, how="unit")
def test_what_admits_pods_together_is_recognised_and_has_to_count_claims() -> None:
    on = rules("1.37")
    rows = {row.name: row for row in assess(Snapshot.of(documents(GROUPED)), on, device_matcher(on)).rows}
    assert {name: row.groups for name, row in rows.items()} == {
        "kueue": ("Kueue queue train",),
        "upstream": ("PodGroup pair",),
        "cosched": ("coscheduling group g",),
        "volcano": ("Volcano",),
        "single": (),
    }
    assert any("Kueue queue train: whoever admits" in need for need in rows["kueue"].needs)
    assert not any("whoever admits" in need for need in rows["single"].needs)


SHARED_NODES = """
apiVersion: v1
kind: Node
metadata: {name: slices, labels: {node-pool: a, nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing}}
status: {capacity: {nvidia.com/gpu.shared: "8"}}
---
apiVersion: v1
kind: Node
metadata: {name: mps, labels: {node-pool: b, nvidia.com/mps.capable: "true", nvidia.com/gpu.replicas: "1"}}
---
apiVersion: v1
kind: Node
metadata: {name: single, labels: {node-pool: c, nvidia.com/mig.strategy: single}}
---
apiVersion: v1
kind: Node
metadata: {name: mixed, labels: {node-pool: d}}
status: {capacity: {nvidia.com/mig-1g.10gb: "7", nvidia.com/mig-3g.40gb: "0"}}
---
apiVersion: v1
kind: Node
metadata: {name: hami, labels: {node-pool: e}, annotations: {hami.io/node-nvidia-register: "GPU-1"}}
---
apiVersion: v1
kind: Node
metadata: {name: plain, labels: {node-pool: f, nvidia.com/gpu.replicas: "1", nvidia.com/gpu.sharing-strategy: none}}
status: {capacity: {nvidia.com/gpu: "8"}}
"""


@pytest.mark.row(27, how="unit")
@pytest.mark.row(96, how="unit")
def test_sharing_is_seen_on_the_nodes_and_told_with_what_takes_its_place() -> None:
    on = rules("1.36")
    found = assess(Snapshot.of(documents(SHARED_NODES)), on, device_matcher(on)).sharing
    assert {(item.pool, item.how) for item in found} == {
        ("a", "time-slicing"),
        ("a", "replicas"),
        ("a", "shares by name"),
        ("b", "MPS"),
        ("c", "MIG, strategy single"),
        ("d", "MIG, strategy mixed"),
        ("e", "HAMi"),
    }
    assert all(item.nodes == 1 and item.evidence and item.by_claim and item.feature for item in found)
    assert next(item for item in found if item.pool == "d").evidence == ("nvidia.com/mig-1g.10gb",)


def test_prices_by_the_counted_name_are_a_matter_of_billing() -> None:
    on = rules("1.36")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: costs}\ndata: {a: 'opencost: {nvidia.com/gpu: 2.5}'}\n"
    snapshot = Snapshot.of([*documents(text), document(deployment(pod_spec()))])
    (found,) = assess(snapshot, on, device_matcher(on)).dependents
    assert (found.what, found.resource_name) == ("billing", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("kind", "blockers", "adaptations", "effort"),
    [
        (AskStack.CLAIM, (), (), "none"),
        (AskStack.BRIDGE, (), (), "none"),
        (AskStack.LIMITS, (), ("a template",), "small"),
        (AskStack.LIMITS, (), ("a template", "a quota"), "medium"),
        (AskStack.LIMITS, ("a driver",), ("a template",), "large"),
    ],
)
def test_effort_is_what_has_to_be_done(kind: AskStack, blockers: Any, adaptations: Any, effort: str) -> None:
    assert effort_of(kind, blockers, adaptations, None).value == effort
