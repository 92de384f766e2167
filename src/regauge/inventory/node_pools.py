"""Node pools: which nodes belong together, by the labels that platforms put on them."""

from __future__ import annotations

from collections.abc import Iterable

from regauge.model.core import Node

POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "alpha.eksctl.io/nodegroup-name",
    "cluster.x-k8s.io/deployment-name",
    "machine.openshift.io/cluster-api-machineset",
    "node-pool",
    "nodepool",
    "node.kubernetes.io/instance-type",
)
NO_POOL = "(no pool label)"


def pool_of(node: Node) -> str:
    """The node pool of a node: the first known pool label, else the instance type, else a word that says there is none."""
    labels = node.metadata.labels or {}
    return next((labels[name] for name in POOL_LABELS if labels.get(name)), NO_POOL)


def pools_of(names: Iterable[str], nodes: Iterable[Node]) -> tuple[str, ...]:
    """The pools of the nodes with these names, sorted, each once."""
    by_name = {node.metadata.name: node for node in nodes}
    return tuple(sorted({pool_of(by_name[name]) for name in names if name in by_name}))
