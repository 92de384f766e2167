"""Hand-written objects as the API server and the controllers would keep them, so that files can be asked like a cluster.

Only objects without a uid, and pods without what every stored pod has, are touched: what a cluster stored is left as it is.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from regauge.model import Document, Kind, Object, Snapshot, to_v1, view, with_defaults
from regauge.model.core import Pod
from regauge.model.kinds import POD, PRIORITY_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE

DEFAULT_NAMESPACE = "default"
_WRITTEN = (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, POD)
Templates = Mapping[tuple[str, str], Object]


def as_stored(snapshot: Snapshot) -> Snapshot:
    """The snapshot with defaults, namespaces and uids for objects that have none, and claims for pods that name templates.

    Raises `InputError` for an object that cannot be read.
    """
    changed: dict[tuple[Kind, str, str], Document] = {}
    for kind in _WRITTEN:
        for document in snapshot.documents(kind):
            if not _has_uid(document) or (kind is POD and not _has_defaults(document)):
                changed[(kind, document.namespace, document.name)] = _stored(document, kind)
    if not changed:
        return snapshot
    documents = []
    for document in snapshot.all_documents():
        known = document.known
        new = changed.get((known, document.namespace, document.name)) if known else None
        documents.append(document if new is None else new)
    return _with_claims(Snapshot.of(documents), changed.values())


def _has_uid(document: Document) -> bool:
    if document.raw is not None and b'"uid"' not in bytes(document.raw):
        return False
    metadata = document.object.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid"))


def _has_defaults(document: Document) -> bool:
    """Whether a pod went through an API server: then it has a scheduler's name, and requests where it has limits."""
    if document.raw is not None and b'"schedulerName"' in bytes(document.raw):
        return True
    spec = document.object.get("spec")
    return isinstance(spec, dict) and "schedulerName" in spec


def _stored(document: Document, kind: Kind) -> Document:
    object_ = with_defaults(to_v1(document.object))
    metadata = object_.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    namespace = document.namespace or DEFAULT_NAMESPACE
    uid = metadata.get("uid") or f"{kind.kind}/{namespace}/{document.name}"
    return Document({**object_, "metadata": {**metadata, "namespace": namespace, "uid": uid}}, document.where)


def _with_claims(snapshot: Snapshot, changed: Iterable[Document]) -> Snapshot:
    """With the claims that are generated for hand-written pods, and the priority that their class stands for."""
    templates = claim_templates(snapshot)
    priorities = {one.name: one.object.get("value") for one in snapshot.documents(PRIORITY_CLASS)}
    there = {(one.namespace, one.name) for one in snapshot.documents(RESOURCE_CLAIM)}
    pods, claims = {}, []
    for document in changed:
        if document.kind != POD.kind:
            continue
        pod, made = with_claims(_with_priority(document.object, priorities), templates)
        pods[(document.namespace, document.name)] = Document(pod, document.where)
        for claim in made:
            if (document.namespace, claim["metadata"]["name"]) not in there:
                claims.append(Document(claim, document.where))
    documents = [
        pods.get((one.namespace, one.name), one) if one.known is POD else one for one in snapshot.all_documents()
    ]
    return Snapshot.of([*documents, *claims])


def _with_priority(pod: Object, priorities: Mapping[str, object]) -> Object:
    spec = pod.get("spec")
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return pod
    value = priorities.get(str(spec.get("priorityClassName")))
    return pod if value is None else {**pod, "spec": {**spec, "priority": value}}


def claim_templates(snapshot: Snapshot) -> Templates:
    """The claim templates by namespace and name, in v1 and with defaults."""
    return {
        (one.namespace, one.name): with_defaults(to_v1(one.object))
        for one in snapshot.documents(RESOURCE_CLAIM_TEMPLATE)
    }


def with_claims(pod: Object, templates: Templates) -> tuple[Object, list[Object]]:
    """The pod with the names of its generated claims in its status, and those claims.

    An entry whose template is not there is left alone: the pod then waits for its claim, as it would in a cluster.
    """
    typed = view(pod, Pod)
    metadata = typed.metadata
    told = {one.name for one in typed.status.resource_claim_statuses}
    statuses, claims = [], []
    for entry in typed.spec.resource_claims:
        template = templates.get((metadata.namespace, entry.resource_claim_template_name or ""))
        if template is None or entry.name in told:
            continue
        name = f"{metadata.name}-{entry.name}"
        statuses.append({"name": entry.name, "resourceClaimName": name})
        claims.append(_claim(name, template, typed))
    if not claims:
        return pod, []
    status = pod.get("status") or {}
    known = status.get("resourceClaimStatuses") or []
    return {**pod, "status": {**status, "resourceClaimStatuses": [*known, *statuses]}}, claims


def _claim(name: str, template: Object, pod: Pod) -> Object:
    inner = template.get("spec") or {}
    namespace = pod.metadata.namespace
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{RESOURCE_CLAIM.kind}/{namespace}/{name}",
            "ownerReferences": [
                {
                    "apiVersion": POD.api_version,
                    "kind": POD.kind,
                    "name": pod.metadata.name,
                    "uid": pod.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": inner.get("spec") or {},
    }
