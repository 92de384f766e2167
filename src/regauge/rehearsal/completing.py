"""What objects of a dump lack when they come from hand-written files: the namespace and uid an API server gives. Pure."""

from __future__ import annotations

from regauge.base import InputError, Where
from regauge.model import Document, Snapshot


def completed(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a namespace and a uid in every object of a known kind. What has both is kept as it is.

    Raises `InputError` for an object without a name: it was never stored by an API server.
    """
    return Snapshot.of([_completed(document) for document in snapshot.all_documents()])


def _completed(document: Document) -> Document:
    kind = document.known
    if kind is None:
        return document
    metadata = document.object.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    where = Where(document.where.file, document.where.line, f"{document.kind} {document.name}".strip())
    if not metadata.get("name"):
        raise InputError("it has no name", where=where, fix="give objects of a cluster, as kubectl get prints them")
    missing = {}
    if kind.namespaced and not metadata.get("namespace"):
        missing["namespace"] = "default"
    if not metadata.get("uid"):
        missing["uid"] = f"{kind.plural}/{document.namespace}/{document.name}"
    if not missing:
        return document
    return Document({**document.object, "metadata": {**metadata, **missing}}, document.where)
