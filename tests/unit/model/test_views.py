"""Old API versions, defaults, selectors."""

import pytest
import yaml
from tests.support import shared

from regauge.base import InputError
from regauge.model import (
    LabelSelector,
    SelectorRequirement,
    matches_labels,
    matches_requirement,
    read_documents,
    to_v1,
    view,
    with_defaults,
)
from regauge.model.resource import ResourceClaim, ResourceSlice


def test_old_versions_become_v1_as_expected() -> None:
    case = shared("cases/26-old-dra-manifests-to-v1")
    documents = [item.object for item in read_documents((case / "input.yaml").read_bytes(), "input.yaml")]
    expected = list(yaml.safe_load_all((case / "expected-v1.yaml").read_text()))
    assert [to_v1(item) for item in documents[:2]] == expected[:2]
    with pytest.raises(InputError, match="v1alpha2 has no counterpart"):
        to_v1(documents[3])


def test_defaults_are_those_of_the_api_server() -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "spec": {
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "tolerations": [{"key": "k"}]}}]}
        },
    }
    exactly = view(with_defaults(claim), ResourceClaim).spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.allocation_mode, exactly.count, exactly.tolerations[0].operator) == ("ExactCount", 1, "Equal")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"a/b": 1}}}]},
    }
    assert with_defaults(pod)["spec"]["containers"][0]["resources"]["requests"] == {"a/b": 1}
    assert "requests" not in pod["spec"]["containers"][0]["resources"]


def test_alpha_fields_of_slices_are_seen() -> None:
    slice_ = view(
        {
            "spec": {
                "driver": "d",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "skipNodeOperations": ["*"],
                "devices": [{"name": "x", "attributes": {"l": {"ints": [1, 2]}}, "bindsToNode": True}],
            }
        },
        ResourceSlice,
    )
    assert slice_.spec.skip_node_operations == ("*",)
    assert slice_.spec.devices[0].attributes["l"].int_values == (1, 2)


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ("5",), True),
        ("NotIn", ("5",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("4",), True),
        ("Lt", ("4",), False),
        ("Gt", ("x",), False),
        ("Near", ("5",), False),
    ],
)
def test_requirements(operator: str, values: tuple[str, ...], matches: bool) -> None:
    assert matches_requirement(SelectorRequirement(key="k", operator=operator, values=values), {"k": "5"}) is matches


def test_label_selectors() -> None:
    assert matches_labels(LabelSelector(), {})
    assert not matches_labels(None, {"a": "b"})
    assert matches_requirement(SelectorRequirement(key="x", operator="NotIn", values=("1",)), {})
