"""ResourceQuota: what pods and claims use, and the refusal when a quota would be exceeded.

What is used is counted from the objects themselves at every decision; upstream reads the quota's status, which its
controller brings up to the same numbers. Source: pkg/quota/v1/evaluator/core, apiserver admission/plugin/resourcequota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regauge.cluster.admission.pods import is_extended_or_class, qos_class
from regauge.cluster.refusals import forbidden
from regauge.cluster.store import Store
from regauge.model import Kind, Object, Quantity
from regauge.model.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_QUOTA
from regauge.model.resource import DEVICE_CLASS_PREFIX, EXTENDED_RESOURCE_CLAIM_ANNOTATION, MAX_RESULTS_PER_CLAIM

Usage = dict[str, Quantity]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET = frozenset({"cpu", "memory", *(f"{side}.{n}" for side in ("requests", "limits") for n in _COMPUTE[:2])})
_PER_CLASS = ".deviceclass.resource.k8s.io/devices"
_OLD_COUNTS = (
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)


def check_quota(store: Store, kind: Kind, object_: Object, old: Object | None, subresource: str) -> None:
    """Raises `Forbidden` when a quota of the namespace would be exceeded by a new object."""
    if old is not None or subresource or not kind.namespaced or kind == RESOURCE_QUOTA:
        return
    namespace, name = object_["metadata"]["namespace"], object_["metadata"]["name"]
    quotas = store.list(RESOURCE_QUOTA, namespace)
    if not quotas:
        return
    asked = usage(store, kind, object_)
    for quota in quotas:
        hard = _hard(quota)
        mine = {resource: asked[resource] for resource in hard if resource in asked}
        if not (mine or _restricted(kind, hard)) or not in_scope(quota, kind, object_):
            continue
        title = quota["metadata"]["name"]
        if kind == POD:
            _check_set(object_, hard, title)
        used = used_by(store, quota)
        over = sorted(resource for resource, amount in mine.items() if used[resource].add(amount) > hard[resource])
        over = [resource for resource in over if mine[resource].sign > 0]
        if over:
            parts = ((word, ",".join(f"{r}={values[r]}" for r in over)) for word, values in _told(mine, used, hard))
            told = ", ".join(f"{word}: {text}" for word, text in parts)
            raise forbidden(kind, name, f"exceeded quota: {title}, {told}")


def _told(mine: Usage, used: Usage, hard: Usage) -> tuple[tuple[str, Usage], ...]:
    return ("requested", mine), ("used", used), ("limited", hard)


def _restricted(kind: Kind, hard: Usage) -> bool:
    return kind == POD and any(resource in _MUST_BE_SET for resource in hard)


def _hard(quota: Object) -> Usage:
    hard = (quota.get("spec") or {}).get("hard") or {}
    return {resource: Quantity.from_document(value) for resource, value in hard.items()}


def used_by(store: Store, quota: Object) -> Usage:
    """What the objects of the quota's namespace use of each resource that it limits."""
    namespace = quota["metadata"]["namespace"]
    total = {resource: Quantity.of(0) for resource in _hard(quota)}
    for kind in _counted_kinds(total):
        for object_ in store.list(kind, namespace):
            if not in_scope(quota, kind, object_):
                continue
            for resource, amount in usage(store, kind, object_).items():
                if resource in total:
                    total[resource] = total[resource].add(amount)
    return total


def _counted_kinds(resources: Mapping[str, Any]) -> list[Kind]:
    kinds = [POD, RESOURCE_CLAIM]
    for resource in sorted(resources):
        name = resource.removeprefix("count/") if resource.startswith("count/") else resource
        if not resource.startswith("count/") and name not in _OLD_COUNTS:
            continue
        plural, _, group = name.partition(".")
        if (group, plural) not in {(kind.group, kind.plural) for kind in kinds}:
            kinds.append(Kind(group, "v1", plural, plural))
    return kinds


def usage(store: Store, kind: Kind, object_: Object) -> Usage:
    """What one object counts for."""
    used = {f"count/{kind.resource}": Quantity.of(1)}
    if not kind.group and kind.plural in _OLD_COUNTS:
        used[kind.plural] = Quantity.of(1)
    if kind == POD:
        used.update(pod_usage(object_))
    elif kind == RESOURCE_CLAIM:
        used.update(_claim_usage(store, object_))
    return used


def pod_usage(pod: Object) -> Usage:
    """What a pod counts for besides being one; a pod that has ended counts for nothing more."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return {}
    spec = pod.get("spec") or {}
    used = {"pods": Quantity.of(1)}
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended_or_class(name):
            used[f"requests.{name}"] = amount
    used.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE})
    return used


def pod_amounts(spec: Mapping[str, Any], side: str) -> Usage:
    """The sum of the containers, at least the largest of the init containers, plus the overhead."""
    total: Usage = {}
    for container in spec.get("containers") or []:
        for name, amount in _amounts(container, side).items():
            total[name] = total[name].add(amount) if name in total else amount
    sidecars: Usage = {}
    for container in spec.get("initContainers") or []:
        amounts = _amounts(container, side)
        if container.get("restartPolicy") == "Always":
            for name, amount in amounts.items():
                total[name] = total[name].add(amount) if name in total else amount
                sidecars[name] = sidecars[name].add(amount) if name in sidecars else amount
            continue
        for name, amount in amounts.items():
            needed = amount.add(sidecars[name]) if name in sidecars else amount
            total[name] = max(total.get(name, needed), needed)
    for name, value in (spec.get("overhead") or {}).items():
        amount = Quantity.from_document(value)
        total[name] = total[name].add(amount) if name in total else amount
    return total


def _amounts(container: Mapping[str, Any], side: str) -> Usage:
    values = (container.get("resources") or {}).get(side) or {}
    return {name: Quantity.from_document(value) for name, value in values.items()}


def _check_set(pod: Object, hard: Usage, title: str) -> None:
    """A quota of cpu or memory wants every container to say how much."""
    spec = pod.get("spec") or {}
    wanted = sorted(set(hard) & _MUST_BE_SET)
    missing: dict[str, list[str]] = {}
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        for resource in wanted:
            side, _, name = resource.rpartition(".")
            if name not in _amounts(container, side or "requests"):
                missing.setdefault(resource, []).append(container.get("name", ""))
    if missing and not (spec.get("resources") or {}).get("requests"):
        told = "; ".join(f"{resource} for: {','.join(sorted(missing[resource]))}" for resource in sorted(missing))
        raise forbidden(POD, pod["metadata"]["name"], f"failed quota: {title}: must specify {told}")


def _claim_usage(store: Store, claim: Object) -> Usage:
    """Devices by class, the worst alternative of each; and the extended resources that the classes stand for."""
    used: Usage = {}
    for name, count in _devices_by_class(claim).items():
        used[f"{name}{_PER_CLASS}"] = Quantity.of(count)
    pod = _owner_usage(store, claim)
    for name, count in _devices_by_class(claim).items():
        found = store.find(DEVICE_CLASS, ("", name))
        if found is None:
            continue
        extended = (found.get("spec") or {}).get("extendedResourceName")
        names = (f"{DEVICE_CLASS_PREFIX}{name}", *((extended,) if extended else ()))
        for resource in (f"requests.{item}" for item in names):
            left = Quantity.of(count).sub(pod[resource]) if resource in pod else Quantity.of(count)
            if left.sign > 0:
                used[resource] = used[resource].add(left) if resource in used else left
    return used


def _devices_by_class(claim: Object) -> dict[str, int]:
    counts: dict[str, int] = {}
    for request in (((claim.get("spec") or {}).get("devices") or {}).get("requests")) or []:
        alternatives = request.get("firstAvailable") or [request.get("exactly") or {}]
        worst: dict[str, int] = {}
        for item in alternatives:
            count = MAX_RESULTS_PER_CLAIM if item.get("allocationMode") == "All" else int(item.get("count") or 0)
            name = item.get("deviceClassName") or ""
            worst[name] = max(worst.get(name, 0), count)
        for name, count in worst.items():
            counts[name] = counts.get(name, 0) + count
    return {name: count for name, count in counts.items() if name}


def _owner_usage(store: Store, claim: Object) -> Usage:
    """What the pod of a claim for extended resources counts for already."""
    metadata = claim["metadata"]
    if (metadata.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return {}
    owner = next((item for item in metadata.get("ownerReferences") or [] if item.get("controller")), None)
    pod = store.find(POD, (metadata["namespace"], owner["name"])) if owner else None
    if pod is None or owner is None or pod["metadata"].get("uid") != owner.get("uid"):
        return {}
    told = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return pod_usage(pod) if told in (None, metadata.get("name")) else {}


def in_scope(quota: Object, kind: Kind, object_: Object) -> bool:
    """Whether the quota's scopes mean this object. Scopes are about pods only."""
    spec = quota.get("spec") or {}
    expressions = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or []]
    expressions += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return not expressions or (kind == POD and all(_pod_in_scope(item, object_) for item in expressions))


def _pod_in_scope(expression: Mapping[str, Any], pod: Object) -> bool:
    spec = pod.get("spec") or {}
    match expression.get("scopeName"):
        case "Terminating":
            return (spec.get("activeDeadlineSeconds") or -1) >= 0
        case "NotTerminating":
            return (spec.get("activeDeadlineSeconds") or -1) < 0
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            name, values = spec.get("priorityClassName") or "", expression.get("values") or []
            match expression.get("operator"):
                case "Exists":
                    return bool(name)
                case "DoesNotExist":
                    return not name
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
    return False
