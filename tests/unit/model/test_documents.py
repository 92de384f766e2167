"""Documents from bytes: YAML as kubectl reads it, JSON, lists, places, bounds."""

import json
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regauge.base import InputError
from regauge.model import Snapshot, document_view, read_documents
from regauge.model.core import Pod


def _one(text: str) -> dict:
    return next(read_documents(text.encode(), "f.yaml")).object


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("010", 8),
        ("0o10", 8),
        ("0x1f", 31),
        ("1_000", 1000),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("0000:00:01.0", "0000:00:01.0"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("~", None),
        ("'8'", "8"),
        ("!!str 8", "8"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("+", "+"),
    ],
)
def test_scalars_as_kubectl_reads_them(text: str, value: object) -> None:
    if text in ("-", "+"):
        text = repr(text)
    assert _one(f"apiVersion: v1\nkind: X\nvalue: {text}\n")["value"] == value


def test_several_documents_lists_and_their_lines() -> None:
    text = "apiVersion: v1\nkind: A\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: B\n"
    found = list(read_documents(text.encode(), "f.yaml"))
    assert [(item.kind, item.where.line) for item in found] == [("A", 1), ("B", 9)]


def test_json_list_keeps_bytes_until_somebody_looks() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}", "namespace": "n"}} for i in range(3)]
    data = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": pods}).encode()
    found = list(read_documents(data, "f.json"))
    assert [item.title for item in found] == ["Pod n/p0", "Pod n/p1", "Pod n/p2"]
    assert found[1].raw is not None
    assert found[1].object == pods[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1\nb: 2\n", "f.yaml:2: not valid YAML"),
        ("kind: Pod\n", "apiVersion is missing"),
        ("apiVersion: v1\nkind: 3\n", "kind is not text"),
        ("just text\n", "where a Kubernetes object was expected"),
        ('{"apiVersion": "v1", "kind": ', "not valid"),
        ("apiVersion: v1\nkind: X\na: *b\n", "has no anchor"),
        ("\tapiVersion: v1\n", "not valid YAML"),
        ("apiVersion: v1\nkind: X\na: \x01\n", "not valid YAML"),
    ],
)
def test_malformed_input_names_the_place(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        list(read_documents(text.encode(), "f.yaml"))
    assert says in str(caught.value)
    assert "f.yaml" in str(caught.value)


def test_alias_bomb_and_deep_nesting_are_refused_quickly() -> None:
    bomb = "apiVersion: v1\nkind: X\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    deep = "apiVersion: v1\nkind: X\na: " + "[" * 5000 + "]" * 5000
    for text in (bomb, deep):
        before = time.monotonic()
        with pytest.raises(InputError):
            list(read_documents(text.encode(), "f.yaml"))
        assert time.monotonic() - before < 5


def test_the_last_of_two_keys_counts_and_is_told() -> None:
    document = next(read_documents(b"apiVersion: v1\nkind: X\na: 1\na: 2\n", "f.yaml"))
    assert document.object["a"] == 2
    assert "stands twice" in document.warnings[0]


def test_merge_keys_fill_what_is_missing() -> None:
    assert _one("apiVersion: v1\nkind: X\nb: &b {x: 1, z: 2}\nc: {<<: *b, z: 3}\n")["c"] == {"x": 1, "z": 3}


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(_json)
def test_json_text_means_the_same_through_both_readers(value: object) -> None:
    object_ = {"apiVersion": "v1", "kind": "X", "value": value}
    text = msgspec.json.encode(object_)
    direct = next(read_documents(text, "f")).object
    assert direct == object_


def test_a_wrong_type_names_object_and_field() -> None:
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: {containers: 3}\n"
    with pytest.raises(InputError) as caught:
        document_view(next(read_documents(text, "f.yaml")), Pod)
    assert str(caught.value).startswith("f.yaml:1: Pod ns/p: spec.containers: expected `array`")


def test_nulls_count_as_absent() -> None:
    text = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","ownerReferences":null},"spec":{"containers":null}}'
    assert document_view(next(read_documents(text, "f")), Pod).spec.containers == ()


def test_the_same_object_twice_with_other_content_is_refused() -> None:
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}\n"
    with pytest.raises(InputError, match=r"f:5: Pod p stands twice|f:5: .*stands twice"):
        Snapshot.of(read_documents(text, "f"))


def test_many_pods_load_in_seconds() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": "y" * 3900}}
    items = [dict(pod, metadata={"name": f"p{i}", "namespace": "n"}) for i in range(20_000)]
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    before = time.monotonic()
    snapshot = Snapshot.of(read_documents(data, "f"))
    assert len(snapshot.pods) == 20_000
    assert time.monotonic() - before < 9  # three times a fifth of the figure for 100,000
