"""Defaults that the API server fills in for core and workload kinds, as far as decisions or comparisons depend on them.

Those of resource.k8s.io are `model.with_defaults`. Source: pkg/apis/{core,apps,batch}/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.cluster.admission.limits import range_defaults
from regauge.model import Kind, Object, Quantity, with_defaults

_TEMPLATE_KINDS = frozenset(
    {"deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "replicationcontrollers"}
)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def _service(spec: dict[str, Any]) -> dict[str, Any]:
    """No address is given out: the cluster has no network."""
    told = _filled(spec, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"})
    ports = [_filled({"targetPort": item.get("port"), **item}, {"protocol": "TCP"}) for item in spec.get("ports") or []]
    return {**told, **({"ports": ports} if ports else {})}


def defaulted(kind: Kind, object_: Object, now: str) -> Object:
    """A copy of a new or changed object with its defaults filled in. Nulls count as absent; `now` dates new taints."""
    new = with_defaults(object_)
    if kind.plural == "priorityclasses":
        return _filled({**new, "value": new.get("value") or 0}, {"preemptionPolicy": "PreemptLowerPriority"})
    if kind.plural in ("rolebindings", "clusterrolebindings") and kind.group:
        return _binding(new)
    if kind.plural == "secrets":
        return {**new, "type": new.get("type") or "Opaque"}
    if kind.plural == "nodes" and isinstance(new.get("status"), dict) and new["status"].get("capacity"):
        return {**new, "status": _filled(new["status"], {"allocatable": new["status"]["capacity"]})}
    spec = new.get("spec")
    if spec is None and kind.plural in _TEMPLATE_KINDS:
        spec = {}
    if not isinstance(spec, dict):
        return new
    if kind.group == "resource.k8s.io":
        return _with_result_tolerations({**new, "spec": _dated(kind.plural, spec, now)})
    if kind.plural == "pods":
        return {**new, "spec": _with_requests(pod_spec(spec))}
    if kind.plural in _TEMPLATE_KINDS:
        spec = _workload(kind.plural, spec)
        template = spec.get("template")
        if isinstance(template, dict) and isinstance(template.get("spec"), dict):
            spec = {**spec, "template": {"metadata": {}, **template, "spec": pod_spec(template["spec"])}}
        return {**new, "spec": spec}
    if kind.plural == "cronjobs":
        return {**new, "spec": _cron_job(spec)}
    if (kind.group, kind.plural) == ("", "services"):
        return {**new, "spec": _service(spec)}
    if kind.plural == "limitranges":
        return {**new, "spec": range_defaults(spec)}
    return new


def _binding(binding: Object) -> Object:
    """The groups of the role and of the subjects are those of RBAC, as clients that leave them out mean it."""
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    subjects = [
        _filled(item, group) if isinstance(item, dict) and item.get("kind") in ("User", "Group") else item
        for item in binding.get("subjects") or []
    ]
    return {
        **binding,
        "roleRef": _filled(binding.get("roleRef") or {}, group),
        **({"subjects": subjects} if subjects else {}),
    }


def _with_result_tolerations(object_: Object) -> Object:
    """Tolerations in the results of an allocation have an operator too."""
    status = object_.get("status")
    allocation = status.get("allocation") if isinstance(status, dict) else None
    devices = allocation.get("devices") if isinstance(allocation, dict) else None
    results = devices.get("results") if isinstance(devices, dict) else None
    if not isinstance(status, dict) or not isinstance(allocation, dict) or not isinstance(results, list):
        return object_
    filled = [_tolerating(item) for item in results]
    allocation = {**allocation, "devices": {**allocation["devices"], "results": filled}}
    return {**object_, "status": {**status, "allocation": allocation}}


def _tolerating(result: Any) -> Any:
    if not isinstance(result, dict) or not isinstance(result.get("tolerations"), list):
        return result
    items = [_filled(item, {"operator": "Equal"}) if isinstance(item, dict) else item for item in result["tolerations"]]
    return {**result, "tolerations": items}


def _dated(plural: str, spec: dict[str, Any], now: str) -> dict[str, Any]:
    """Taints without a time were added now."""
    if plural == "devicetaintrules" and isinstance(spec.get("taint"), dict):
        return {**spec, "taint": _filled(spec["taint"], {"timeAdded": now})}
    if plural == "resourceslices" and isinstance(spec.get("devices"), list):
        return {**spec, "devices": [_dated_device(item, now) for item in spec["devices"]]}
    return spec


def _dated_device(device: Any, now: str) -> Any:
    if not isinstance(device, dict):
        return device
    mappings = device.get("nodeAllocatableResourceMappings")
    if isinstance(mappings, dict):
        filled = {name: _filled(item or {}, {"allocationMultiplier": "1"}) for name, item in mappings.items()}
        device = {**device, "nodeAllocatableResourceMappings": filled}
    if not isinstance(device.get("taints"), list):
        return device
    taints = [_filled(item, {"timeAdded": now}) if isinstance(item, dict) else item for item in device["taints"]]
    return {**device, "taints": taints}


def _filled(value: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """`value` with the defaults for what is absent or null."""
    missing = {key: default for key, default in defaults.items() if value.get(key) is None}
    return {**value, **missing} if missing else value


def _workload(plural: str, spec: dict[str, Any]) -> dict[str, Any]:
    match plural:
        case "deployments":
            spec = _filled(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
            strategy = _filled(spec.get("strategy") or {}, {"type": "RollingUpdate"})
            if strategy["type"] == "RollingUpdate":
                rolling = _filled(strategy.get("rollingUpdate") or {}, {"maxUnavailable": "25%", "maxSurge": "25%"})
                strategy = {**strategy, "rollingUpdate": rolling}
            return {**spec, "strategy": strategy}
        case "replicasets" | "replicationcontrollers":
            return _filled(spec, {"replicas": 1})
        case "statefulsets":
            defaults = {
                "replicas": 1,
                "podManagementPolicy": "OrderedReady",
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            }
            return _filled(spec, defaults)
        case "daemonsets":
            rolling = {"maxUnavailable": 1, "maxSurge": 0}
            strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
            return _filled(spec, {"revisionHistoryLimit": 10, "updateStrategy": strategy})
        case _:
            return _job(spec)


def _job(spec: dict[str, Any]) -> dict[str, Any]:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec = {**spec, "completions": 1, "parallelism": 1}
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    defaults = {
        "parallelism": 1,
        "backoffLimit": 2147483647 if spec.get("backoffLimitPerIndex") is not None else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": policy,
    }
    return _filled(spec, defaults)


def _cron_job(spec: dict[str, Any]) -> dict[str, Any]:
    defaults = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    return _filled(spec, defaults)


def pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod spec with the defaults that pods and templates share."""
    defaults: dict[str, Any] = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }
    spec = _filled(spec, defaults)
    changed: dict[str, Any] = {}
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            changed[field] = [_container(item) if isinstance(item, dict) else item for item in spec[field]]
    return {**spec, **changed}


def _with_requests(spec: dict[str, Any]) -> dict[str, Any]:
    """What only pods get, not their templates: requests from limits, and links to services."""
    changed: dict[str, Any] = {}
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            changed[field] = [_asking(item) if isinstance(item, dict) else item for item in spec[field]]
    resources = spec.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        asked = {**resources["limits"], **_of_containers(changed), **(resources.get("requests") or {})}
        whole = {name for name in resources["limits"] if name in ("cpu", "memory") or name.startswith("hugepages-")}
        requests = {name: value for name, value in asked.items() if name in whole}
        changed["resources"] = {**resources, "requests": {**requests, **(resources.get("requests") or {})}}
    return _filled({**spec, **changed}, {"enableServiceLinks": True})


def _asking(container: dict[str, Any]) -> dict[str, Any]:
    resources = container.get("resources")
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return container
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _of_containers(spec: Mapping[str, Any]) -> dict[str, str]:
    """What the containers ask for together, by resource."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or []:
        for name, value in ((container.get("resources") or {}).get("requests") or {}).items():
            amount = Quantity.from_document(value)
            total[name] = total[name].add(amount) if name in total else amount
    return {name: str(amount) for name, amount in total.items()}


def _container(container: dict[str, Any]) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": _pull_policy(str(container.get("image") or "")),
    }
    new = _filled(container, defaults)
    if isinstance(new.get("ports"), list):
        ports = [_filled(port, {"protocol": "TCP"}) if isinstance(port, dict) else port for port in new["ports"]]
        new = {**new, "ports": ports}
    for probe in _PROBES:
        if isinstance(new.get(probe), dict):
            new = {**new, probe: _filled(new[probe], dict(_PROBE))}
    return new


def _pull_policy(image: str) -> str:
    """Always for no tag or `latest`; an image with a digest or another tag is pulled once."""
    if "@" in image:
        return "IfNotPresent"
    name = image.rpartition("/")[2]
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"
