"""One source, two stacks: the format, the choice, the manifests, and what has drifted."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import kubernetes_validate
import msgspec
import pytest
import yaml
from tests.support import ROOT
from tests.unit.migrate.building import container, deployment, document, documents, ground

from regauge.base import InputError
from regauge.migrate import AskStack, Flavor, find_drift, read_flavors, render
from regauge.migrate.flavors import Choice, DevicePluginForm, DraForm, FlavorRequest, FlavorSpec, version_holds
from regauge.model import Object, Snapshot

FLAVORS = """
apiVersion: regauge.dev/v1alpha1
kind: AcceleratorFlavor
metadata: {name: h100-80g}
spec:
  description: one H100 with 80 GB
  devicePlugin:
    resources: [{name: nvidia.com/gpu}]
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    tolerations: [{key: nvidia.com/gpu, operator: Exists}]
    runtimeClassName: nvidia
  dra:
    requests:
    - name: gpu
      deviceClassName: gpu.nvidia.com
      selectors: ['device.driver == "gpu.nvidia.com"']
  bridge:
    resources: [{name: example.com/h100}]
  choose:
  - {stack: dra, kubeVersion: ">=1.36", pools: [new], served: true}
  - {stack: bridge, kubeVersion: ">=1.37"}
  default: device-plugin
---
apiVersion: regauge.dev/v1alpha1
kind: AcceleratorFlavor
metadata: {name: gpu-with-nic}
spec:
  dra:
    requests:
    - {name: gpu, deviceClassName: gpu.nvidia.com}
    - {name: nic, deviceClassName: nics, count: 2}
    matchAttributes: [resource.kubernetes.io/pcieRoot]
---
apiVersion: regauge.dev/v1alpha1
kind: AcceleratorFlavor
metadata: {name: half-a100}
spec:
  devicePlugin: {resources: [{name: nvidia.com/mig-3g.40gb}]}
  dra: {requests: [{name: gpu, deviceClassName: shared-gpu, capacity: {memory: 40Gi}}]}
  default: dra
"""
ESTATE = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.nvidia.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: g0}]
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-pool: new}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {node-pool: old}}
"""
NAME, COUNT = "flavor.regauge.dev/name", "flavor.regauge.dev/count"


def known(text: str = FLAVORS) -> dict[str, Flavor]:
    return dict(read_flavors(documents(text)))


def workload(flavor: str, count: str | None = None, *containers: Object, **spec: Any) -> Object:
    own = deployment({"containers": list(containers or ({"name": "main", "image": "i"},)), **spec})
    own["metadata"]["annotations"] = {NAME: flavor, **({COUNT: count} if count else {})}
    return own


def rendered(own: Object, forced: AskStack | None = None, estate: str = "", minor: str = "1.36") -> Any:
    return render(document(own), known(), ground(estate, minor), forced)


def pod(found: Any) -> Any:
    return found.object["spec"]["template"]["spec"]


@pytest.mark.row(107, 108, 110)
def test_one_source_gives_the_manifests_of_each_stack() -> None:
    source = workload("h100-80g", "2")
    by_plugin = rendered(source)
    assert pod(by_plugin) == {
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "runtimeClassName": "nvidia",
    }
    by_claim = rendered(source, AskStack.CLAIM)
    (template,) = by_claim.before
    kubernetes_validate.validate(template, "1.36", strict=True)
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2
    assert pod(by_claim)["containers"][0]["resources"] == {"claims": [{"name": "devices", "request": "main"}]}
    assert "nodeSelector" not in pod(by_claim)
    bridged = rendered(source, AskStack.BRIDGE)
    assert pod(bridged)["containers"][0]["resources"]["limits"] == {"example.com/h100": "2"}
    assert source == workload("h100-80g", "2")
    again = rendered(source, AskStack.CLAIM)
    assert (again.object, again.before, again.why) == (by_claim.object, by_claim.before, by_claim.why)


@pytest.mark.row(109)
def test_the_stack_is_chosen_by_rules_that_are_told() -> None:
    source = workload("h100-80g", None, nodeSelector={"node-pool": "new"})
    assert pod(rendered(source))["containers"][0]["resources"]["limits"]
    on_new = rendered(source, estate=ESTATE)
    assert on_new.before
    assert "rule 1 holds (Kubernetes >=1.36, pools new, served there)" in on_new.why[0]
    anywhere = rendered(workload("h100-80g"), estate=ESTATE)
    assert "rule 1 does not hold (it may run in old too)" in anywhere.why[0]
    assert "rule 2 does not hold (Kubernetes 1.36 is not >=1.37); the default" in anywhere.why[0]
    older = rendered(source, estate=ESTATE, minor="1.35")
    assert "Kubernetes 1.35 is not >=1.36" in older.why[0]
    unserved = rendered(source, estate=ESTATE.replace("devices: [{name: g0}]", "devices: []"))
    assert "dra does not serve it" in unserved.why[0]
    assert (
        rendered(workload("h100-80g"), minor="1.37").object["metadata"]["annotations"]["flavor.regauge.dev/rendered"]
        == "bridge"
    )


@pytest.mark.parametrize(
    ("condition", "holds"),
    [(">=1.34", True), (">1.34", False), ("<1.9", False), ("<=1.35", True), ("1.34", True), ("<1.100", True)],
)
def test_versions_are_compared_as_numbers(condition: str, holds: bool) -> None:
    assert version_holds(condition, "1.34") is holds


@pytest.mark.row(28, 188)
def test_several_requests_and_capacity() -> None:
    (template,) = rendered(workload("gpu-with-nic")).before
    devices = template["spec"]["spec"]["devices"]
    assert [item["name"] for item in devices["requests"]] == ["main-gpu", "main-nic"]
    assert devices["constraints"] == [
        {"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": ["main-gpu", "main-nic"]}
    ]
    (template,) = rendered(workload("half-a100")).before
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "40Gi"}}
    with pytest.raises(InputError, match="DRAConsumableCapacity"):
        rendered(workload("half-a100"), minor="1.34")


def test_containers_of_one_pod_ask_for_flavors_of_their_own() -> None:
    own = workload("x", None, {"name": "a", "image": "i"}, {"name": "b", "image": "i"})
    own["metadata"]["annotations"] = {f"{NAME}.a": "gpu-with-nic", f"{NAME}.b": "half-a100", f"{COUNT}.b": "3"}
    found = rendered(own)
    (template,) = found.before
    assert [item["name"] for item in template["spec"]["spec"]["devices"]["requests"]] == ["a-gpu", "a-nic", "b"]
    assert [len(item["resources"]["claims"]) for item in pod(found)["containers"]] == [2, 1]


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (workload("gone"), "there is no flavor gone.*h100-80g"),
        (workload("h100-80g", "none"), "'none' is no count"),
        (workload("h100-80g", None, container("a"), container("b")), "its pods have 2 containers"),
        (workload("h100-80g", None, container(gpu=1)), "counts devices beside its flavor"),
        (workload("h100-80g", None, nodeSelector={"nvidia.com/gpu.product": "L4"}), "the flavor wants NVIDIA-H100"),
        (workload("h100-80g", None, runtimeClassName="kata"), "it is kata"),
        (workload("gpu-with-nic", "20"), "60 devices in 2 requests"),
    ],
)
def test_what_cannot_be_rendered_says_why(own: Object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        rendered(own)


def test_what_is_rendered_is_not_rendered_again() -> None:
    for stack in (AskStack.LIMITS, AskStack.CLAIM):
        once = rendered(workload("h100-80g"), stack)
        with pytest.raises(InputError, match="rendered already"):
            render(document(once.object), known(), ground())


def test_a_workload_without_flavor_passes() -> None:
    own = deployment({"containers": [container(gpu=1)]})
    assert rendered(own).object == own
    assert not rendered(own).changed


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("description: one", "descripton: one", "descripton"),
        ("v1alpha1", "v1beta9", "v1beta9 is not known"),
        ("default: device-plugin", "default: none", "it may choose none"),
        ('">=1.36"', '"newest"', "'newest' is no condition"),
        ("  default: device-plugin\n", "", "says none for the rest"),
        ("name: h100-80g", "name: H100", "is no name"),
        ("[{name: nvidia.com/gpu}]", "[]", "counts nothing"),
        ("[{name: nvidia.com/gpu}]", "[{name: gpu}]", "no count of an extended resource"),
    ],
)
def test_a_wrong_flavor_is_refused_by_its_field(old: str, new: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        known(FLAVORS.replace(old, new, 1))


@pytest.mark.row(110)
def test_drift_is_found_and_what_the_cluster_adds_is_none() -> None:
    source = workload("h100-80g", "2")
    found = rendered(source)
    running = copy.deepcopy(found.object)
    running["status"] = {"replicas": 1}
    running["spec"]["replicas"] = 1
    running["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    running["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 2
    assert find_drift(found, Snapshot.of([document(running)])) == ()
    limits = running["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    limits.update({"nvidia.com/gpu": "4", "rdma/hca": "1"})
    shown = {(item.path, item.source, item.running) for item in find_drift(found, Snapshot.of([document(running)]))}
    assert shown == {
        ("spec.template.spec.containers[main].resources.limits.nvidia.com/gpu", "2", "4"),
        ("spec.template[main].rdma/hca", "(absent)", "1"),
    }
    claimed = rendered(source, AskStack.CLAIM)
    assert {item.running for item in find_drift(claimed, Snapshot.of([]))} == {"not there"}
    assert any(
        item.path.endswith("resourceClaims") for item in find_drift(found, Snapshot.of([document(claimed.object)]))
    )


def schema() -> Any:
    crd = yaml.safe_load((ROOT / "deploy/crds/acceleratorflavors.regauge.dev.yaml").read_text())
    kubernetes_validate.validate(crd, "1.36", strict=True)
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_the_crd_has_the_fields_of_the_format() -> None:
    spec = schema()["properties"]["spec"]["properties"]
    shapes = [
        (FlavorSpec, spec),
        (DevicePluginForm, spec["devicePlugin"]["properties"]),
        (DraForm, spec["dra"]["properties"]),
        (FlavorRequest, spec["dra"]["properties"]["requests"]["items"]["properties"]),
        (Choice, spec["choose"]["items"]["properties"]),
    ]
    for struct, properties in shapes:
        assert {field.encode_name for field in msgspec.structs.fields(struct)} == set(properties)
    for item in documents(FLAVORS):
        jsonschema.validate(item.object, schema())
    wrong = documents(FLAVORS.replace('kubeVersion: ">=1.36"', "kubeVersion: newest"))[0]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong.object, schema())
