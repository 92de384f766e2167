"""Manifests that are broken or malicious end in words, never in a crash, and never in something half done."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.migrate.building import (
    GPU,
    claim_template,
    claiming,
    container,
    converted,
    deployment,
    document,
    exactly,
    ground,
)

from regauge.base import InputError
from regauge.migrate import AskStack, Fate, read_flavors, render
from regauge.model import Object

FLAVOR = {
    "apiVersion": "regauge.dev/v1alpha1",
    "kind": "AcceleratorFlavor",
    "metadata": {"name": "f"},
    "spec": {
        "devicePlugin": {"resources": [{"name": GPU}], "nodeSelector": {"a": "b"}, "tolerations": [{"key": "x"}]},
        "dra": {"requests": [{"name": "gpu", "deviceClassName": "c"}]},
        "default": "dra",
    },
}
_WRONG = st.sampled_from([None, "text", 7, True, [], {}, [None], ["x"], {"a": None}, [[]], [{}], -1, 1.5])


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in paths(item, (*path, key)))]


def broken(object_: Object, place: tuple[Any, ...], wrong: Any) -> Object:
    """A copy with one part replaced."""
    new = copy.deepcopy(object_)
    part: Any = new
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = wrong
    return new


def workload() -> Object:
    affinity = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": f"{GPU}.memory", "operator": "Gt", "values": ["1"]}]}]
    }
    spec = {
        "containers": [container("a", limits={GPU: 1, "rdma/hca": 1}, requests={"cpu": 1})],
        "initContainers": [container("i", gpu=2)],
        "nodeSelector": {f"{GPU}.product": "A"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
        "resourceClaims": [{"name": "other", "resourceClaimName": "c"}],
        "tolerations": [{"key": "k"}],
    }
    return deployment(spec)


def targets(object_: Object) -> list[tuple[Any, ...]]:
    return [place for place in paths(object_) if place and place[0] not in ("apiVersion", "kind")]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(targets(workload())), _WRONG, st.sampled_from([AskStack.CLAIM, AskStack.LIMITS, AskStack.BRIDGE])
)
def test_a_broken_workload_is_converted_or_refused(place: tuple[Any, ...], wrong: Any, to: AskStack) -> None:
    given_ = broken(workload(), place, wrong)
    before = copy.deepcopy(given_)
    for item in converted([given_], to).items:
        assert item.reasons if item.fate is Fate.REFUSED else item.object is not None
    assert given_ == before


@settings(max_examples=300, deadline=None)
@given(st.data(), _WRONG)
def test_a_broken_claim_is_converted_or_refused(data: st.DataObject, wrong: Any) -> None:
    template = claim_template({"name": "r", "exactly": exactly(selectors=[{"cel": {"expression": "true"}}])})
    template["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": "a/b", "requests": ["r"]}]
    own = claiming({"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "r"}]}})
    both = [template, own]
    which = data.draw(st.sampled_from([0, 1]))
    both[which] = broken(both[which], data.draw(st.sampled_from(targets(both[which]))), wrong)
    for item in converted(both, AskStack.LIMITS).items:
        assert item.reasons if item.fate is Fate.REFUSED else True
    converted(both, None, ground(minor="1.34"))


@settings(max_examples=300, deadline=None)
@given(st.data(), _WRONG)
def test_a_broken_flavor_or_source_is_an_input_error(data: st.DataObject, wrong: Any) -> None:
    own = workload()
    own["metadata"]["annotations"] = {"flavor.regauge.dev/name": "f"}
    own["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 1}}
    flavor = copy.deepcopy(FLAVOR)
    if data.draw(st.booleans()):
        own = broken(own, data.draw(st.sampled_from(targets(own))), wrong)
    else:
        flavor = broken(flavor, data.draw(st.sampled_from(targets(flavor))), wrong)
    for stack in (AskStack.CLAIM, AskStack.LIMITS):
        try:
            render(document(own), read_flavors([document(flavor)]), ground(), stack)
        except InputError as error:
            assert str(error)
