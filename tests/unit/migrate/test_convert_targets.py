"""Conversions for a target: old and new versions, gates, the bridge, and the sample estate."""

from __future__ import annotations

import kubernetes_validate
import pytest
import yaml
from tests.support import shared
from tests.unit.migrate.building import (
    ESTATE,
    GPU,
    claim_template,
    claiming,
    claims,
    container,
    converted,
    deployment,
    document,
    documents,
    exactly,
    ground,
    pod_spec,
    refusal,
    requests,
    results,
)

from regauge.base import Where
from regauge.features import rules
from regauge.migrate import AskStack, ConvertOptions, Fate, convert, ground_of
from regauge.model import Document, Object

# ---- versions and gates ----------------------------------------------------------------------------------------------


@pytest.mark.row(53)
def test_old_manifests_become_v1_and_back() -> None:
    case = shared("cases/26-old-dra-manifests-to-v1")
    old = documents((case / "input.yaml").read_text())
    found = convert(old, ground_of(rules("1.36")), ConvertOptions())
    expected = list(yaml.safe_load_all((case / "expected-v1.yaml").read_text()))
    assert results(found) == expected
    (refused,) = found.refused
    assert refused.document.name == "classic"
    assert "v1alpha2 has no counterpart" in refused.reasons[0]
    gates = {"DynamicResourceAllocation": True, "DRADeviceTaints": True, "DRAPrioritizedList": True}
    again = convert([document(item) for item in expected], ground_of(rules("1.33", gates)), ConvertOptions())
    assert results(again)[:2] == [item.object for item in old[:2]]


@pytest.mark.row(53)
@pytest.mark.parametrize(
    ("request_", "gate"),
    [
        ({"name": "r", "exactly": exactly(capacity={"requests": {"m": "1"}})}, "DRAConsumableCapacity"),
        ({"name": "r", "exactly": exactly(tolerations=[{"operator": "Exists"}])}, "DRADeviceTaints"),
        ({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}, "DRAPrioritizedList"),
        ({"name": "r", "exactly": exactly(adminAccess=True)}, "DRAAdminAccess"),
    ],
)
def test_a_field_whose_gate_is_off_on_the_target_is_refused(request_: Object, gate: str) -> None:
    off = ground(minor="1.34", gates={gate: False})
    (item,) = converted([claim_template(request_)], None, off).items
    assert item.fate is Fate.REFUSED
    assert f"the gate {gate}, which is off on 1.34" in item.reasons[0]


def test_claims_come_out_in_the_version_of_an_older_target() -> None:
    assert "begins at Kubernetes 1.34" in refusal(deployment(pod_spec()), on=ground(minor="1.33"))
    own = deployment(pod_spec(container(limits={"deviceclass.resource.kubernetes.io/c": 1})))
    _, template, _ = claims(own, on=ground(minor="1.33"))
    assert template["apiVersion"] == "resource.k8s.io/v1beta1"
    assert template["spec"]["spec"]["devices"]["requests"][0]["deviceClassName"] == "c"


# ---- bridge ----------------------------------------------------------------------------------------------------------


@pytest.mark.row(212, 214, 226)
def test_a_bridge_keeps_the_workload_and_makes_the_class() -> None:
    before = deployment(pod_spec())
    found = converted([before], AskStack.BRIDGE, ground(ESTATE))
    (made,) = found.classes
    assert made["spec"]["extendedResourceName"] == GPU
    assert made["spec"]["selectors"] == [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]
    kubernetes_validate.validate(made, "1.36", strict=True)
    assert found.items[0].object == before
    off = ground(ESTATE, gates={"DRAExtendedResource": False})
    assert "DRAExtendedResource is off" in refusal(before, AskStack.BRIDGE, on=off)


@pytest.mark.row(214)
def test_a_bridge_sees_the_class_and_the_plugin_that_are_there() -> None:
    carried = ESTATE.replace(
        "metadata: {name: nics}\nspec: {", "metadata: {name: nics}\nspec: {extendedResourceName: nvidia.com/gpu, "
    )
    found = converted([deployment(pod_spec())], AskStack.BRIDGE, ground(carried))
    assert found.classes == ()
    assert any("nics carries the name" in note for note in found.items[0].notes)
    both = ESTATE + 'status: {capacity: {nvidia.com/gpu: "2"}}\n'
    found = converted([deployment(pod_spec())], AskStack.BRIDGE, ground(both))
    assert any("counts nvidia.com/gpu on n1" in note for note in found.items[0].notes)


@pytest.mark.row(213)
def test_the_implicit_name_there_and_to_a_claim() -> None:
    found = converted([deployment(pod_spec())], AskStack.BRIDGE, implicit=True)
    (out,) = results(found)
    limits = out["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}
    _, template, _ = claims(out)
    assert requests(template)[0]["exactly"]["deviceClassName"] == "gpu.nvidia.com"


@pytest.mark.row(226)
def test_claims_become_a_bridge() -> None:
    found = converted([claim_template({"name": "r", "exactly": exactly()}), claiming()], AskStack.BRIDGE)
    (out,) = results(found)
    limits = out["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "2"}


def test_documents_keep_their_place() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    found = convert([Document(other, Where("a"))], ground(), ConvertOptions(to=AskStack.CLAIM))
    assert found.items[0].object == other
