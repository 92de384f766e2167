"""A snapshot that follows another: what stays is not read again, what came or went is."""

from __future__ import annotations

from regauge.base import Where
from regauge.model import Document, Snapshot
from regauge.model.kinds import NODE, POD


def document(kind: str, name: str, **labels: str) -> Document:
    return Document({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}}, Where())


def test_views_of_documents_that_stay_are_kept_and_others_are_made() -> None:
    node, first, second = document("Node", "n"), document("Pod", "a"), document("Pod", "b", x="y")
    before = Snapshot.of([node, first])
    pods, nodes = before.pods, before.nodes
    after = before.replaced({("", "Node"): before.documents(NODE), ("", "Pod"): (second, first)})
    assert after.nodes is nodes
    assert [pod.metadata.name for pod in after.pods] == ["b", "a"]
    assert after.pods[1] is pods[0]
    assert after.pods[0].metadata.labels == {"x": "y"}
    assert before.pods is pods


def test_what_is_not_given_is_gone() -> None:
    before = Snapshot.of([document("Node", "n"), document("Pod", "a")])
    assert before.pods and before.nodes
    after = before.replaced({("", "Pod"): before.documents(POD)})
    assert after.nodes == () and after.documents(NODE) == ()
    assert after.replaced({}).pods == ()


def test_an_object_that_changed_is_another_document() -> None:
    before = Snapshot.of([document("Pod", "a", x="1")])
    assert before.pods[0].metadata.labels == {"x": "1"}
    after = before.replaced({("", "Pod"): (document("Pod", "a", x="2"),)})
    assert after.pods[0].metadata.labels == {"x": "2"}
