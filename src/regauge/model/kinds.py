"""The kinds regauge knows by name: group, versions, plural, scope. Any other kind passes through as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object. `version` is the one regauge reads and writes, `others` are turned into it when read."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    others: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Plural and group, as RBAC and error messages write it: `resourceclaims.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_RESOURCE_OLD = ("v1beta2", "v1beta1")

NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
POD = Kind("", "v1", "Pod", "pods")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE = Kind("", "v1", "Service", "services")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges")
POD_TEMPLATE = Kind("", "v1", "PodTemplate", "podtemplates")
REPLICATION_CONTROLLER = Kind("", "v1", "ReplicationController", "replicationcontrollers")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PERSISTENT_VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
CORE_EVENT = Kind("", "v1", "Event", "events")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
JOB = Kind("batch", "v1", "Job", "jobs")
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False, _RESOURCE_OLD)
RESOURCE_SLICE = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, _RESOURCE_OLD)
RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, _RESOURCE_OLD)
RESOURCE_CLAIM_TEMPLATE = Kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True, _RESOURCE_OLD
)
DEVICE_TAINT_RULE = Kind("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", False, ("v1beta2", "v1alpha3"))
RESOURCE_POOL_STATUS_REQUEST = Kind(
    "resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequest", "resourcepoolstatusrequests", namespaced=False
)
_WORKLOAD_OTHER = ("v1beta1", "v1alpha3")  # one minor knows v1alpha2 or these, never both
WORKLOAD = Kind("scheduling.k8s.io", "v1alpha2", "Workload", "workloads", True, _WORKLOAD_OTHER)
POD_GROUP = Kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", True, _WORKLOAD_OTHER)

KINDS: tuple[Kind, ...] = (
    NODE,
    POD,
    NAMESPACE,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    CORE_EVENT,
    EVENT,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    CONTROLLER_REVISION,
    JOB,
    CRON_JOB,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    POD_DISRUPTION_BUDGET,
    LEASE,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_TAINT_RULE,
    RESOURCE_POOL_STATUS_REQUEST,
    WORKLOAD,
    POD_GROUP,
)

WORKLOAD_KINDS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB)
"""What owns pods, among the kinds that a cluster serves without operators."""
DEVICE_KINDS = (DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE)

TEMPLATE_PATHS: Mapping[Kind, tuple[str, ...]] = {
    DEPLOYMENT: ("spec", "template"),
    STATEFUL_SET: ("spec", "template"),
    DAEMON_SET: ("spec", "template"),
    REPLICA_SET: ("spec", "template"),
    REPLICATION_CONTROLLER: ("spec", "template"),
    JOB: ("spec", "template"),
    CRON_JOB: ("spec", "jobTemplate", "spec", "template"),
    POD_TEMPLATE: ("template",),
    POD: (),
}
"""Where an object of a kind describes its pods; a pod is its own description."""

_BY_NAME = {(kind.group, kind.kind): kind for kind in KINDS}


def split_api_version(api_version: str) -> tuple[str, str]:
    """`"apps/v1"` to `("apps", "v1")`, `"v1"` to `("", "v1")`."""
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)


def find_kind(api_version: str, kind: str) -> Kind | None:
    """The known kind of this name, whatever its version; None for kinds regauge does not know by name."""
    return _BY_NAME.get((split_api_version(api_version)[0], kind))
