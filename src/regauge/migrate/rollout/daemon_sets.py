"""Whether the pods of a DaemonSet that was changed are of its new form. Pure."""

from __future__ import annotations

from regauge.migrate.plan_gates import Sight, is_ready
from regauge.migrate.plans import Reference
from regauge.model import Document
from regauge.model.core import Pod
from regauge.model.kinds import DAEMON_SET

GENERATION = "deprecated.daemonset.template.generation"
POD_GENERATION = "pod-template-generation"
BY_HAND = "OnDelete"


def pods_of_daemon_set(reference: Reference, nodes: frozenset[str], sight: Sight) -> tuple[Pod, ...]:
    """Its pods on these nodes that are not on their way out."""
    document = _found(reference, sight)
    uid = document.object["metadata"].get("uid") if document is not None else ""
    return tuple(
        pod
        for pod in sight.snapshot.pods
        if pod.spec.node_name in nodes
        and pod.metadata.deletion_timestamp is None
        and any(owner.uid == uid for owner in pod.metadata.owner_references or ())
    )


def behind(reference: Reference, nodes: frozenset[str], pods: int, sight: Sight) -> str:
    """What is still to come until its `pods` pods on these nodes are ready in the form that it has now; or empty text.

    One whose pods are replaced by hand is never behind: who deletes them, and when, is not known here.
    """
    document = _found(reference, sight)
    if document is None:
        return f"there is no {reference}"
    spec, annotations = document.object.get("spec") or {}, document.object["metadata"].get("annotations") or {}
    if (spec.get("updateStrategy") or {}).get("type") == BY_HAND:
        return ""
    generation = annotations.get(GENERATION)
    found = pods_of_daemon_set(reference, nodes, sight)
    new = [pod for pod in found if generation is None or (pod.metadata.labels or {}).get(POD_GENERATION) == generation]
    ready = sum(map(is_ready, new))
    return "" if ready >= pods else f"{ready} of {pods} pods of {reference} are ready in its new form"


def _found(reference: Reference, sight: Sight) -> Document | None:
    return next(
        (
            document
            for document in sight.snapshot.documents(DAEMON_SET)
            if (document.namespace, document.name) == (reference.namespace, reference.name)
        ),
        None,
    )
