"""The text of a conversion: what is not changed keeps every byte, what is keeps its comments."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.migrate.building import documents, ground

from regauge.migrate import AskStack, ConvertOptions, Replacement, convert, dump, rewrite
from regauge.model import read_documents

TEXT = """# The trainer of the team.
apiVersion: apps/v1
kind: Deployment   # a kind
metadata:
    name: trainer
    namespace: ml
    annotations: { a: "yes", b: 'no' }
spec:
    template:
        spec:
            # two of them
            containers:
                - name: main
                  image: "i"   # pinned
                  resources:
                      # as the plugin counts
                      limits:
                          memory: 1Gi
                          nvidia.com/gpu: 2   # both
                - {name: side, image: j}
            nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4, pool: a}   # L4 only
---
# nothing to do here
apiVersion:   v1
kind:  ConfigMap
metadata: {name:   odd}
data: {on: "1"}
"""


def through(text: str, to: AskStack) -> str:
    found = convert(documents(text), ground(), ConvertOptions(to=to))
    assert not found.refused
    rewritten = rewrite(text, "f.yaml", [Replacement(item.object, item.before) for item in found.items])
    assert rewritten.notes == ()
    assert [item.object for item in documents(rewritten.text)] == [
        object_
        for item in found.items
        for object_ in (*item.before, *([item.object] if item.object is not None else []))
    ]
    return rewritten.text


def test_comments_order_and_untouched_documents_stay() -> None:
    out = through(TEXT, AskStack.CLAIM)
    for kept in (
        "# The trainer of the team.",
        "kind: Deployment   # a kind",
        "# two of them",
        'image: "i"   # pinned',
        "# as the plugin counts",
        "- {name: side, image: j}",
        "annotations: { a: \"yes\", b: 'no' }",
    ):
        assert kept in out
    assert TEXT.partition("---\n")[2] in out
    assert "nodeSelector: {pool: a}" in out
    assert out.index("kind: Deployment") < out.index("metadata:\n    name: trainer")
    back = through(out, AskStack.LIMITS)
    assert [item.object for item in documents(back)] == [item.object for item in documents(TEXT)]


def test_a_list_keeps_its_items_in_place() -> None:
    text = """apiVersion: v1
kind: List
items:
# the first
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: v1
  kind: Pod
  metadata:
    name: p   # a pod
  spec:
    containers:
    - name: c
      resources:
        limits: {nvidia.com/gpu: 1}
"""
    out = through(text, AskStack.CLAIM)
    assert "# the first" in out
    assert "name: p   # a pod" in out
    assert [item.kind for item in documents(out)] == ["ConfigMap", "ResourceClaimTemplate", "Pod"]


def test_shared_anchors_lose_their_comments_and_not_their_content() -> None:
    text = """apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: a
    resources: &r {limits: {nvidia.com/gpu: 1}}   # shared
  - name: b
    resources: *r
"""
    found = convert(documents(text), ground(), ConvertOptions(to=AskStack.CLAIM))
    (item,) = found.items
    rewritten = rewrite(text, "f.yaml", [Replacement(item.object, item.before)])
    assert [one.object for one in documents(rewritten.text)] == [*item.before, item.object]


def test_json_comes_out_as_json_or_yaml_of_the_same_content() -> None:
    text = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}\n'
    (only,) = documents(text)
    assert rewrite(text, "f.json", [Replacement(only.object)]).text == text
    changed = {**only.object, "metadata": {"name": "q"}}
    assert documents(rewrite(text, "f.json", [Replacement(changed)]).text)[0].object == changed


@pytest.mark.parametrize(
    "word", ["yes", "on", "1", "0x1f", "1e3", "null", "~", "", "12:30", "2020-01-01", "a: b", "# x"]
)
def test_text_that_looks_like_something_else_stays_text(word: str) -> None:
    object_ = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"a": word}}}
    assert next(iter(read_documents(dump(object_).encode(), "f"))).object == object_


_JSON = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-9, 9), st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=6)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(_JSON, _JSON)
def test_any_change_reads_back_as_what_was_wanted(old: object, new: object) -> None:
    head = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}
    text = "# head\n" + dump({**head, "spec": old})
    wanted = {**head, "spec": new}
    out = rewrite(text, "f.yaml", [Replacement(wanted)])
    assert [item.object for item in documents(out.text)] == [wanted]
