"""Patches: each kind by its rules, and never a change of what was patched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.cluster.patches import Typed, merge, patched, strategic
from regauge.cluster.schemas import schemas_of
from regauge.cluster.store import copy_json
from regauge.kube import ApiError, Invalid
from regauge.model import Kind
from regauge.model.kinds import NODE, POD, SERVICE

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4)


def typed(kind: Kind) -> Typed:
    return Typed(schemas_of("1.36"), schemas_of("1.36").of(kind))


def bare(value: Any) -> Any:
    """Without members that are null."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if item is not None}
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_twice_is_as_good_as_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    kept = copy_json(target)
    once = merge(target, patch)
    assert merge(once, patch) == once
    assert target == kept


@given(OBJECTS)
def test_merging_into_nothing_gives_the_patch_without_its_nulls(patch: dict[str, Any]) -> None:
    assert merge({}, patch) == bare(patch)


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3], "b": {"c": 1}}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2], "b": {"c": 1}}),
        ([{"op": "remove", "path": "/a/1"}], {"a": [1], "b": {"c": 1}}),
        ([{"op": "replace", "path": "/b/c", "value": None}], {"a": [1, 2], "b": {"c": None}}),
        ([{"op": "move", "from": "/b/c", "path": "/d"}], {"a": [1, 2], "b": {}, "d": 1}),
        ([{"op": "copy", "from": "/a", "path": "/b/e"}], {"a": [1, 2], "b": {"c": 1, "e": [1, 2]}}),
        ([{"op": "test", "path": "/b/c", "value": 1}], {"a": [1, 2], "b": {"c": 1}}),
        ([{"op": "add", "path": "/b/x~1y~0z", "value": 1}], {"a": [1, 2], "b": {"c": 1, "x/y~z": 1}}),
    ],
)
def test_json_patch_operations(operations: list[dict[str, Any]], result: Any) -> None:
    target = {"a": [1, 2], "b": {"c": 1}}
    assert patched(target, operations, "json") == result
    assert target == {"a": [1, 2], "b": {"c": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "replace", "path": "/list/-1", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "bogus", "path": "/a"},
        {"path": "/a"},
        {"op": "add", "path": "/a/b/c", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
    ],
)
def test_json_patches_that_fail_say_so_in_one_way(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="the server rejected our request due to an error in our request"):
        patched({"a": 1, "list": [1]}, [operation], "json")


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(ApiError) as refused:
        patched({}, [{"op": "test", "path": "", "value": {}}] * 10_001, "json")
    assert refused.value.code == 413


def test_strategic_lists_are_merged_by_their_key() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "nodeName": "n"}}
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "1"}]}}
    names = [(item["name"], item["image"]) for item in strategic(pod, patch, typed(POD))["spec"]["containers"]]
    assert names == [("a", "1"), ("b", "2"), ("c", "1")]
    assert pod["spec"]["containers"][1]["image"] == "1"


def test_new_members_come_before_those_that_the_patch_does_not_name() -> None:
    pod = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert [item["type"] for item in strategic(pod, patch, typed(POD))["status"]["conditions"]] == [
        "Ready",
        "PodScheduled",
    ]


def test_strategic_directives() -> None:
    labels = {"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]}}
    assert strategic(labels, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}, typed(POD))["metadata"][
        "labels"
    ] == {"c": "3"}
    kept = strategic(labels, {"metadata": {"$retainKeys": ["labels"], "labels": {"a": None}}}, typed(POD))["metadata"]
    assert kept == {"labels": {"b": "2"}}
    gone = strategic(labels, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}, typed(POD))["metadata"][
        "finalizers"
    ]
    assert gone == ["y"]
    assert strategic(labels, {"metadata": {"finalizers": ["z"]}}, typed(POD))["metadata"]["finalizers"] == [
        "x",
        "y",
        "z",
    ]
    containers = {"containers": [{"name": "a"}, {"name": "b"}]}
    left = strategic(containers, {"containers": [{"name": "a", "$patch": "delete"}]}, typed(POD).member("spec"))
    assert left == {"containers": [{"name": "b"}]}
    ordered = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "x"}],
    }
    assert [item["name"] for item in strategic(containers, ordered, typed(POD).member("spec"))["containers"]] == [
        "b",
        "a",
    ]


def test_taints_are_one_whole() -> None:
    node = {"spec": {"taints": [{"key": "a"}, {"key": "b"}]}}
    assert strategic(node, {"spec": {"taints": [{"key": "c"}]}}, typed(NODE)) == {"spec": {"taints": [{"key": "c"}]}}


@given(OBJECTS, OBJECTS)
def test_a_strategic_patch_without_lists_and_directives_is_a_merge(
    target: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert strategic(target, patch, Typed(schemas_of("1.36"), {})) == merge(target, patch)


def test_the_same_name_has_another_key_elsewhere() -> None:
    service = {"spec": {"ports": [{"port": 80, "name": "a"}]}}
    patch = {"spec": {"ports": [{"port": 80, "name": "b"}, {"port": 81}]}}
    assert strategic(service, patch, typed(SERVICE))["spec"]["ports"] == [{"port": 80, "name": "b"}, {"port": 81}]
    with pytest.raises(ApiError, match="does not contain declared merge key: containerPort"):
        strategic({}, {"spec": {"containers": [{"name": "c", "ports": [{"port": 80}]}]}}, typed(POD))


def test_without_a_schema_there_is_no_strategic_patch() -> None:
    with pytest.raises(ApiError, match="unsupported: strategic merge patch"):
        patched({}, {}, "strategic")
