"""The pod's own subresources: binding and eviction. Source: pkg/registry/core/pod/storage."""

from __future__ import annotations

from typing import Any

from regauge.cluster.deletion import DeleteOptions
from regauge.cluster.refusals import (
    bad_request,
    conflict,
    failure,
    other_uid,
    required,
    unsupported,
    unsupported_value,
)
from regauge.cluster.server_state import ActorApi
from regauge.kube import ApiError
from regauge.model import Kind, LabelSelector, Object, matches_labels, view
from regauge.model.kinds import POD, POD_DISRUPTION_BUDGET

_BINDING = Kind("", "v1", "Binding", "pods/binding")


def create_subresource(api: ActorApi, kind: Kind, body: Object, namespace: str, subresource: str) -> Object:
    """POST to a subresource. `body.metadata.name` names the pod."""
    name = str((body.get("metadata") or {}).get("name") or "")
    if kind != POD or subresource not in ("binding", "eviction"):
        raise unsupported(f"creating {kind.plural}/{subresource}")
    if subresource == "binding":
        target = body.get("target") or {}
        _check_target(target)
        bind(api, namespace, name, target["name"], str(body["metadata"].get("uid") or ""))
    else:
        evict(api, namespace, name, body.get("deleteOptions") or {})
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_target(target: dict[str, Any]) -> None:
    """Upstream answers a bad target with 500 and the bare text of the fault."""
    fault = None
    if target.get("kind") not in (None, "", "Node"):
        fault = unsupported_value("target.kind", target["kind"], ("Node", "<empty>"))
    elif not target.get("name"):
        fault = required("target.name")
    if fault is not None:
        raise ApiError(500, "", str(fault), failure(500, "", str(fault)))


def bind(api: ActorApi, namespace: str, name: str, node: str, uid: str) -> None:
    """nodeName, PodScheduled true and no nominatedNodeName in one write. The node need not exist."""
    pod = api.get(POD, name, namespace)
    if uid and uid != pod["metadata"]["uid"]:
        raise other_uid(POD, pod, uid)
    spec = pod.get("spec") or {}
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(_BINDING, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict(_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": api.state.now()}
    others = [item for item in status.get("conditions") or [] if item.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    api.write_pod(POD, pod, {**pod, "spec": {**spec, "nodeName": node}, "status": status}, "binding")


def evict(api: ActorApi, namespace: str, name: str, options: dict[str, Any]) -> None:
    """Delete a pod unless a disruption budget forbids it. Budgets do not protect pods that never ran or have ended."""
    pod = api.get(POD, name, namespace)
    preconditions = options.get("preconditions") or {}
    delete = DeleteOptions(
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        grace_period_s=options.get("gracePeriodSeconds"),
        propagation_policy=str(options.get("propagationPolicy") or ""),
    )
    if not _unprotected(pod):
        budgets = [item for item in api.list(POD_DISRUPTION_BUDGET, namespace) if _covers(item, pod)]
        if len(budgets) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "InternalError", message, failure(500, "InternalError", message))
        if budgets:
            _spend(api, budgets[0], name)
    api.remove(POD, name, namespace, delete)


def _unprotected(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _covers(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    return matches_labels(view(selector, LabelSelector), pod["metadata"].get("labels") or {})


def _spend(api: ActorApi, budget: Object, pod: str) -> None:
    """One disruption less is allowed from now on; whether the deletion succeeds afterwards does not matter."""
    status = dict(budget.get("status") or {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        _refuse("Cannot evict pod as it would violate the pod's disruption budget.", _behind(budget))
    if status.get("disruptionsAllowed", 0) <= 0:
        have, need = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        cause = f"The disruption budget {budget['metadata']['name']} needs {need} healthy pods and has {have} currently"
        _refuse("Cannot evict pod as it would violate the pod's disruption budget.", cause)
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: api.state.now()}
    api.update(POD_DISRUPTION_BUDGET, {**budget, "status": status}, subresource="status")


def _behind(budget: Object) -> str:
    return f"The disruption budget {budget['metadata']['name']} is still being processed by the server."


def _refuse(message: str, cause: str) -> None:
    details = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    raise ApiError(429, "TooManyRequests", message, failure(429, "TooManyRequests", message, details))


def check_eviction_name(name: str, body: Object) -> None:
    """The body of an eviction names the pod of the path."""
    if (body.get("metadata") or {}).get("name") not in (None, name):
        raise bad_request("name in URL does not match name in Eviction object")
