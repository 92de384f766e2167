"""What objects of a dump lack when they come from hand-written files: the namespace and uid an API server gives. Pure."""

from __future__ import annotations

from regauge.base import InputError, Where
from regauge.migrate import template_of
from regauge.model import Document, Kind, Snapshot
from regauge.model.kinds import NODE, TEMPLATE_PATHS


def completed(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a namespace and a uid in every object of a known kind. What has both is kept as it is.

    Raises `InputError` when there is no node, and for an object that no API server ever stored: without a name, with parts
    of the wrong type, a workload without containers.
    """
    if not snapshot.documents(NODE):
        raise InputError("there is no node in it", fix="get nodes too: kubectl get nodes,pods,... -A -o yaml")
    return Snapshot.of([completed_document(document) for document in snapshot.all_documents()])


def completed_document(document: Document) -> Document:
    """One object of a known kind with a namespace and a uid. Raises `InputError` as `completed` does."""
    kind = document.known
    if kind is None:
        return document
    metadata = document.object.get("metadata") or {}
    wrong = _wrong(document, kind, metadata)
    if wrong:
        where = Where(document.where.file, document.where.line, document.title)
        raise InputError(wrong, where=where, fix="give objects of a cluster, as kubectl get prints them")
    missing = {}
    if kind.namespaced and not metadata.get("namespace"):
        missing["namespace"] = "default"
    if not metadata.get("uid"):
        missing["uid"] = f"{kind.plural}/{document.namespace}/{document.name}"
    if not missing:
        return document
    return Document({**document.object, "metadata": {**metadata, **missing}}, document.where)


def _wrong(document: Document, kind: Kind, metadata: object) -> str:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "it has no name"
    for part in ("spec", "status"):
        if not isinstance(document.object.get(part, {}), dict):
            return f"its {part} is no object"
    if kind not in TEMPLATE_PATHS:
        return ""
    spec = template_of(document.object, kind).get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return "" if containers and isinstance(containers, list) else "it has no containers"
