"""Pods: what admission adds to them, the status they start with, and what makes them invalid.

Source: pkg/apis/core/validation, pkg/registry/core/pod, plugin/pkg/admission of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regauge.cluster.admission.names import (
    label_errors,
    label_faults,
    label_name_errors,
    qualified_name_faults,
    subdomain_errors,
)
from regauge.cluster.refusals import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_found_value,
    required,
    unsupported_value,
)
from regauge.model import Object, Quantity
from regauge.model.core import Container, Pod, PodResourceClaim, PodSpec, Toleration
from regauge.model.resource import DEVICE_CLASS_PREFIX

_STANDARD_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    {
        *_STANDARD_CONTAINER,
        "pods",
        "services",
        "storage",
        *(f"{side}.{name}" for side in ("requests", "limits") for name in _STANDARD_CONTAINER),
    }
)
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_NOT_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def is_native(name: str) -> bool:
    """A resource of Kubernetes' own namespace; names without a slash are."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """An extended resource name, without the implicit ones of device classes (those count as native)."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not qualified_name_faults(f"requests.{name}")


def is_extended_or_class(name: str) -> bool:
    """An extended resource as quota and the scheduler see it: the implicit names of device classes too."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def starting_status(pod: Object, now: str) -> dict[str, Any]:
    """The status of a pod that was just created."""
    spec = pod.get("spec") or {}
    status: dict[str, Any] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(spec)
    return status


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    if spec.get("resources"):
        containers = [spec]  # what the pod as a whole asks for decides alone
    requests, limits = [], []
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        asked, limited = (_compute(resources.get(side)) for side in ("requests", "limits"))
        requests += list(asked)
        limits += list(limited)
        guaranteed = guaranteed and set(limited) == {"cpu", "memory"} and asked == limited
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(resources: Any) -> dict[str, Quantity]:
    found = {name: Quantity.from_document((resources or {}).get(name, 0)) for name in ("cpu", "memory")}
    return {name: quantity for name, quantity in found.items() if quantity.sign > 0}


def pod_errors(pod: Pod) -> list[FieldError]:
    """What is wrong with a new pod's spec."""
    return spec_errors("spec", pod.spec)


def spec_errors(path: str, spec: PodSpec) -> list[FieldError]:
    claims = [claim.name for claim in spec.resource_claims if claim.name]
    errors = _pod_claims(f"{path}.resourceClaims", spec.resource_claims)
    if not spec.containers:
        errors.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            errors += _container(f"{path}.{field}[{index}]", container, claims, seen)
    errors += _pod_level(f"{path}.resources", spec)
    if spec.restart_policy not in ("Always", "OnFailure", "Never"):
        supported = ("Always", "Never", "OnFailure")
        errors.append(unsupported_value(f"{path}.restartPolicy", spec.restart_policy, supported))
    for index, toleration in enumerate(spec.tolerations):
        errors += _toleration(f"{path}.tolerations[{index}]", toleration)
    group = spec.scheduling_group
    if group is not None and group.pod_group_name is None:
        errors.append(invalid(f"{path}.schedulingGroup.podGroupName", None, "must specify one of: `podGroupName`"))
    elif group is not None and group.pod_group_name is not None:
        errors += subdomain_errors(f"{path}.schedulingGroup.podGroupName", group.pod_group_name)
    gates = [gate.name for gate in spec.scheduling_gates]
    for index, name in enumerate(gates):
        errors += label_name_errors(f"{path}.schedulingGates[{index}]", name)
        if name in gates[:index]:
            errors.append(duplicate(f"{path}.schedulingGates[{index}]", name))
    return errors


def _pod_claims(path: str, claims: tuple[PodResourceClaim, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        if not claim.name:
            errors.append(required(f"{place}.name"))
        elif claim.name in seen:
            errors.append(duplicate(f"{place}.name", claim.name))
        else:
            errors += label_errors(f"{place}.name", claim.name)
            seen.add(claim.name)
        errors += _claim_source(place, claim)
    return errors


def _claim_source(path: str, claim: PodResourceClaim) -> list[FieldError]:
    named, template = claim.resource_claim_name, claim.resource_claim_template_name
    shown = {"Name": claim.name, "ResourceClaimName": named, "ResourceClaimTemplateName": template}
    errors: list[FieldError] = []
    if named is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.append(invalid(path, shown, text))
    if named is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.append(invalid(path, shown, text))
    for field, name in (("resourceClaimName", named), ("resourceClaimTemplateName", template)):
        if name is not None:
            errors += subdomain_errors(f"{path}.{field}", name)
    return errors


def _container(path: str, container: Container, claims: list[str], seen: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not container.name:
        errors.append(required(f"{path}.name"))
    else:
        errors += [invalid(f"{path}.name", container.name, fault) for fault in label_faults(container.name)]
    if container.name in seen:
        errors.append(duplicate(f"{path}.name", container.name))
    seen.add(container.name)
    if not container.image:
        errors.append(required(f"{path}.image"))
    resources = container.resources
    errors += resource_errors(f"{path}.resources", resources.limits, resources.requests)
    return errors + list(_claim_references(f"{path}.resources.claims", container, claims))


def _claim_references(path: str, container: Container, claims: list[str]) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, reference in enumerate(container.resources.claims):
        place = f"{path}[{index}]"
        if not reference.name:
            yield required(place)
            continue
        if reference.request:
            yield from label_errors(f"{place}.request", reference.request)
        pair, whole = (reference.name, reference.request), (reference.name, "")
        again = not reference.request and any(name == reference.name for name, _ in seen)
        if pair in seen or whole in seen or again:
            yield duplicate(place, reference.name)
        seen.add((reference.name, reference.request))
        if reference.name not in claims:
            offered = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            yield not_found_value(
                place, reference.name, f"must be one of the names in pod.spec.resourceClaims{offered}"
            )


def resource_errors(path: str, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> list[FieldError]:
    """Limits and requests of a container. Extended resources must be whole, equal, and have a limit."""
    errors: list[FieldError] = []
    for name in sorted(limits):
        errors += _resource(f"{path}.limits[{name}]", name, Quantity.from_document(limits[name]))
    for name in sorted(requests):
        quantity = Quantity.from_document(requests[name])
        errors += _resource(f"{path}.requests[{name}]", name, quantity)
        errors += _request_against_limit(path, name, quantity, limits)
    pages = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if pages and not any(name in limits or name in requests for name in ("cpu", "memory")):
        errors.append(forbidden_field(path, "HugePages require cpu or memory"))
    return errors


def _request_against_limit(path: str, name: str, request: Quantity, limits: Mapping[str, Any]) -> list[FieldError]:
    overcommit = is_native(name) and not name.startswith("hugepages-")
    if name not in limits:
        text = "Limit must be set for non overcommitable resources"
        return [] if overcommit else [required(f"{path}.limits", text)]
    limit = Quantity.from_document(limits[name])
    if not overcommit and request != limit:
        return [invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}")]
    if overcommit and request > limit:
        text = f"must be less than or equal to {name} limit of {limit}"
        return [invalid(f"{path}.requests", str(request), text)]
    return []


def _resource(path: str, name: str, quantity: Quantity) -> list[FieldError]:
    errors = [invalid(path, name, fault) for fault in qualified_name_faults(name)]
    if "/" not in name:
        pages = name.startswith("hugepages-")
        if not errors and name not in _STANDARD and not pages:
            errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
        if name not in _STANDARD_CONTAINER and not pages:
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors + _amount(path, name, quantity)


def _amount(path: str, name: str, quantity: Quantity) -> list[FieldError]:
    errors: list[FieldError] = []
    if quantity.sign < 0:
        errors.append(invalid(path, str(quantity), "must be greater than or equal to 0"))
    if is_extended(name) and quantity.milli_value() % 1000:
        errors.append(invalid(path, str(quantity), "must be an integer"))
    if name.startswith("hugepages-"):
        size = Quantity.parse(name.removeprefix("hugepages-"))
        if size.value() and quantity.value() % size.value():
            errors.append(invalid(path, str(quantity), f"{quantity} is not positive integer multiple of {name}"))
    return errors


def _pod_level(path: str, spec: PodSpec) -> list[FieldError]:
    if spec.resources is None:
        return []
    errors: list[FieldError] = []
    for side, values in (("limits", spec.resources.limits), ("requests", spec.resources.requests)):
        for name in sorted(values):
            if name not in _POD_LEVEL and not name.startswith("hugepages-"):
                errors.append(unsupported_value(f"{path}.{side}[{name}]", name, _POD_LEVEL))
    if spec.resources.claims:
        errors.append(forbidden_field(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    return errors


def _toleration(path: str, item: Toleration) -> list[FieldError]:
    errors = label_name_errors(f"{path}.key", item.key) if item.key else []
    if not item.key and item.operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", item.operator, text))
    if item.toleration_seconds is not None and item.effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", item.effect, text))
    if item.operator == "Exists" and item.value:
        text = "value must be empty when `operator` is 'Exists'"
        errors.append(invalid(f"{path}.operator", item.value, text))
    if item.operator not in ("", "Equal", "Exists"):
        errors.append(unsupported_value(f"{path}.operator", item.operator, ("Equal", "Exists", "Lt", "Gt")))
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    if item.effect and item.effect not in effects:
        errors.append(unsupported_value(f"{path}.effect", item.effect, effects))
    return errors


def update_errors(old: Object, new: Object) -> list[FieldError]:
    """What an update of a pod may not change. The message leaves out the difference that upstream appends."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    errors: list[FieldError] = []
    added = set(_gates(after)) - set(_gates(before))
    if added:
        text = "only deletion is allowed, but found new scheduling gates"
        errors.append(forbidden_field("spec.schedulingGates", f"{text} {', '.join(sorted(added))}"))
    if not _kept(before.get("tolerations") or [], after.get("tolerations") or []):
        text = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden_field("spec.tolerations", text))
    gated = bool(before.get("schedulingGates"))
    if _fixed(before, gated) != _fixed(after, gated):
        errors.append(forbidden_field("spec", _NOT_MUTABLE))
    return errors


def _gates(spec: Mapping[str, Any]) -> list[str]:
    return [gate.get("name", "") for gate in spec.get("schedulingGates") or []]


def _kept(before: list[Any], after: list[Any]) -> bool:
    def bare(item: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    have = [bare(item) for item in after]
    return all(bare(item) in have for item in before)


_MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds")


def _fixed(spec: dict[str, Any], gated: bool) -> dict[str, Any]:
    """The part of a pod spec that no update may change."""
    free = (*_MUTABLE, "nodeSelector", "affinity") if gated else _MUTABLE
    fixed = {key: value for key, value in spec.items() if key not in free}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{key: value for key, value in item.items() if key != "image"} for item in fixed[field]]
    return fixed
