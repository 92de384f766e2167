"""Whether something adds nodes to a cluster and takes them away: what shows it, and whether its absence can be told."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, items, mapping, seen
from regauge.model import Document
from regauge.model.kinds import DAEMON_SET, DEPLOYMENT, NODE, POD, STATEFUL_SET

_PROGRAMS = ("cluster-autoscaler", "karpenter")
_LABELS = {
    "karpenter.sh/nodepool": "karpenter",
    "karpenter.sh/provisioner-name": "karpenter",
    "eks.amazonaws.com/compute-type": "eks-auto-mode",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "cluster-autoscaler",
}
_POOLS = ("karpenter.sh", "NodePool")
_LOCAL = ("kind://", "k3s://", "minikube://")


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """The autoscalers that are seen, with what shows them. `surely_none`: none is seen, and none can be out of sight.

    `why` says what the answer stands on.
    """

    names: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    surely_none: bool
    why: str


def autoscaling(ground: Ground) -> Autoscaling:
    """What runs, what labels nodes, and whether the nodes are of a cloud, whose own autoscaler no cluster shows."""
    found: list[tuple[str, Evidence]] = [*_programs(ground), *_marks(ground)]
    found += [("karpenter", seen(one, "its node pool")) for one in ground.snapshot.documents(_POOLS)]
    names = tuple(dict.fromkeys(name for name, _ in found))
    nodes = [
        (one, str(mapping(one.object.get("spec")).get("providerID") or "")) for one in ground.snapshot.documents(NODE)
    ]
    cloud = [(one, text) for one, text in nodes if text and not text.startswith(_LOCAL)]
    if names:
        return Autoscaling(names, tuple(evidence for _, evidence in found[:10]), False, f"{', '.join(names)} is seen")
    if not nodes or not ground.sees(POD):
        return Autoscaling(
            (), (), False, "nodes or pods are not in the input: whether an autoscaler runs was not looked at"
        )
    if cloud:
        told = tuple(seen(one, text, "spec.providerID") for one, text in cloud[:3])
        why = "none is seen, but the nodes are a cloud's, whose own autoscaler no cluster shows"
        return Autoscaling((), told, False, why)
    why = f"no pod, workload or node of {len(nodes)} is an autoscaler's, and no node is a cloud's (spec.providerID)"
    return Autoscaling((), (), True, why)


def _programs(ground: Ground) -> list[tuple[str, Evidence]]:
    found = []
    for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, POD):
        for document in ground.snapshot.documents(kind):
            for image in (*_images(document), document.name):
                base = image.rpartition("/")[2].partition("@")[0]
                name = next((one for one in _PROGRAMS if base.startswith(one)), "")
                if name:
                    found.append((name, seen(document, image)))
                    break
    return found


def _images(document: Document) -> list[str]:
    spec = mapping(document.object.get("spec"))
    pod = spec if document.kind == POD.kind else mapping(mapping(spec.get("template")).get("spec"))
    return [str(mapping(one).get("image") or "") for one in items(pod.get("containers"))]


def _marks(ground: Ground) -> list[tuple[str, Evidence]]:
    found = []
    for document in ground.snapshot.documents(NODE):
        metadata = mapping(document.object.get("metadata"))
        for key, name in _LABELS.items():
            if key in mapping(metadata.get("labels")) or key in mapping(metadata.get("annotations")):
                found.append((name, seen(document, key)))
    return found
