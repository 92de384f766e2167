"""The control loops of a cluster, one file each. All of them, ready to run: `workload_controllers`, `node_controllers`
and `alpha_controllers`."""

from __future__ import annotations

from collections.abc import Callable

from regauge.base import Clock
from regauge.cluster.api import Api
from regauge.cluster.controllers.budgets import DisruptionController
from regauge.cluster.controllers.daemonsets import DaemonSetController
from regauge.cluster.controllers.deployments import DeploymentController
from regauge.cluster.controllers.device_taints import DeviceTaintEviction
from regauge.cluster.controllers.garbage import GarbageCollector
from regauge.cluster.controllers.job_groups import JobGroups
from regauge.cluster.controllers.jobs import JobController
from regauge.cluster.controllers.namespaces import NamespaceController
from regauge.cluster.controllers.node_lifecycle import GRACE_S, NodeLifecycle
from regauge.cluster.controllers.node_taints import NodeTaintEviction
from regauge.cluster.controllers.pod_garbage import PodGarbageCollector
from regauge.cluster.controllers.pod_groups import PodGroupClaims, PodGroupProtection
from regauge.cluster.controllers.pool_status import PoolStatusController
from regauge.cluster.controllers.quotas import QuotaController
from regauge.cluster.controllers.replicasets import ReplicaSetController
from regauge.cluster.controllers.statefulsets import StatefulSetController
from regauge.cluster.port import Controller
from regauge.cluster.serving import served_kinds
from regauge.model import Rules

__all__ = ["GRACE_S", "alpha_controllers", "node_controllers", "workload_controllers"]

_CLAIM_STATUS_WRITER = "ResourceClaimController"

_MAKERS: dict[str, Callable[[Api, Clock], Controller]] = {
    DeploymentController.name: DeploymentController,
    ReplicaSetController.name: ReplicaSetController,
    StatefulSetController.name: StatefulSetController,
    DaemonSetController.name: DaemonSetController,
    JobController.name: JobController,
    DisruptionController.name: DisruptionController,
    QuotaController.name: lambda api, _clock: QuotaController(api, api.state.store),
    NamespaceController.name: lambda api, _clock: NamespaceController(api, lambda: served_kinds(api.state.store)),
    GarbageCollector.name: lambda api, _clock: GarbageCollector(api),
}


def workload_controllers(api: Api, rules: Rules | None = None) -> tuple[Controller, ...]:
    """Workloads, disruption budgets, quotas, namespaces and garbage collection.

    They write as `api.actor`; their events name the controller, as those of upstream do. With `rules` Jobs may be gangs.
    """
    makers = dict(_MAKERS)
    if rules is not None and rules.on("WorkloadWithJob"):
        tells = "job-says-nothing-of-its-group" not in rules.quirks
        makers[JobController.name] = lambda own, clock: JobController(own, clock, JobGroups(own, tells))
    return tuple(make(api.as_actor(api.actor, name), api.state.clock) for name, make in makers.items())


def node_controllers(api: Api, rules: Rules, grace_s: float = GRACE_S) -> tuple[Controller, ...]:
    """What follows when nodes and devices are not well: taints, evictions, collecting pods. `grace_s`: how long a node may
    be silent.
    """
    clock = api.state.clock
    found: list[Controller] = [
        NodeLifecycle(api, clock, api.as_actor(api.actor, NodeLifecycle.name), grace_s),
        NodeTaintEviction(api.as_actor(api.actor, NodeTaintEviction.name), clock),
        PodGarbageCollector(api, clock),
    ]
    if rules.on("DRADeviceTaints"):
        events = api.as_actor(api.actor, DeviceTaintEviction.name)
        extended = "eviction-skips-extended-resources" not in rules.quirks
        found.append(DeviceTaintEviction(events, api.as_actor(DeviceTaintEviction.name), clock, extended))
    return tuple(found)


def alpha_controllers(api: Api, rules: Rules) -> tuple[Controller, ...]:
    """The controllers of features that these rules may not have: pod groups with their claims, status of device pools."""
    found: list[Controller] = []
    if rules.on("GenericWorkload"):
        found.append(PodGroupProtection(api))
    if rules.on("DRAWorkloadResourceClaims"):
        found.append(
            PodGroupClaims(api.as_actor(api.actor, "resource_claim"), api.as_actor(_CLAIM_STATUS_WRITER), rules)
        )
    if rules.on("DRAResourcePoolStatus"):
        found.append(PoolStatusController(api, api.state.clock))
    return tuple(found)
