"""Workloads, pod groups and requests for the status of pools: defaults, admission, validation. Pure.

Source: pkg/apis/scheduling/v1alpha2/zz_generated.validations.go, plugin/pkg/admission/{podgroup,priority}, KEP-5677.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from regauge.cluster.admission.fields import conditions
from regauge.cluster.admission.names import label_errors, label_name_errors, subdomain_errors, subdomain_faults
from regauge.cluster.admission.plugins import priority_of_class
from regauge.cluster.refusals import FieldError, duplicate, forbidden, invalid, required, too_many, unsupported_value
from regauge.cluster.store import Store
from regauge.model import Kind, Object, Rules, view
from regauge.model.kinds import POD_GROUP, RESOURCE_POOL_STATUS_REQUEST, WORKLOAD
from regauge.model.resource import Condition

GROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"
MODES = ("Pod", "PodGroup")
TEMPLATES_LIMIT = 8
CLAIMS_LIMIT = 4
CONDITIONS_LIMIT = 8
POOL_LIMIT_DEFAULT = 100
POOL_LIMIT_MOST = 1000
_IMMUTABLE = "field is immutable"


def group_defaults(rules: Rules, kind: Kind, object_: Object) -> Object:
    """A pod group or a pool request with its defaults."""
    spec: dict[str, Any] = object_.get("spec") or {}
    if kind == RESOURCE_POOL_STATUS_REQUEST and spec.get("limit") is None:
        return {**object_, "spec": {**spec, "limit": POOL_LIMIT_DEFAULT}}
    if kind == POD_GROUP and spec.get("disruptionMode") is None and rules.on("WorkloadAwarePreemption"):
        return {**object_, "spec": {**spec, "disruptionMode": _mode(rules)}}
    return object_


def _mode(rules: Rules) -> Any:
    return "Pod" if "scheduling.k8s.io/v1alpha2" in rules.api else {"single": {}}


def admit_group(rules: Rules) -> Callable[[Store, Kind, Object], Object]:
    """What admission does to a new pod group: the finalizer, and the priority of its class."""

    def admitted(store: Store, kind: Kind, object_: Object) -> Object:
        if kind != POD_GROUP:
            return object_
        metadata = object_["metadata"]
        finalizers = [*(metadata.get("finalizers") or []), GROUP_FINALIZER]
        new = {**object_, "metadata": {**metadata, "finalizers": list(dict.fromkeys(finalizers))}}
        return _with_priority(store, new) if rules.on("WorkloadAwarePreemption") else new

    return admitted


def _with_priority(store: Store, group: Object) -> Object:
    spec = dict(group.get("spec") or {})
    asked, title = spec.get("priorityClassName") or "", group["metadata"].get("name") or "Unknown"
    found = priority_of_class(store, asked)
    if found is None:
        raise forbidden(POD_GROUP, title, f"no PriorityClass with name {asked} was found")
    name, value, _ = found
    if spec.get("priority") is not None and spec["priority"] != value:
        text = f"priority set in the pod group ({spec['priority']}) must match the priority computed ({value})"
        raise forbidden(POD_GROUP, title, f"{text} based on the priority class set in the spec")
    return {**group, "spec": {**spec, "priority": value, **({"priorityClassName": name} if name else {})}}


def check_template(store: Store, kind: Kind, object_: Object, old: Object | None, subresource: str) -> None:
    """A pod group that comes from a template of a Workload needs both. Raises `Forbidden`."""
    if kind != POD_GROUP or subresource or old is not None:
        return
    spec = object_.get("spec") or {}
    reference = (spec.get("podGroupTemplateRef") or {}).get("workload") or spec.get("workloadRef")
    if not reference:
        return
    metadata, title = object_["metadata"], reference.get("workloadName", "")
    template = reference.get("podGroupTemplateName") or reference.get("templateName") or ""
    found = store.find(WORKLOAD, (metadata["namespace"], title))
    why = ""
    if found is None:
        why = f'Workload "{title}" not found'
    elif found["metadata"].get("deletionTimestamp"):
        why = f'Workload "{title}" is being deleted'
    elif template not in {item.get("name") for item in (found.get("spec") or {}).get("podGroupTemplates") or []}:
        why = f'PodGroupTemplate "{template}" not found in Workload "{title}"'
    if why:
        raise forbidden(POD_GROUP, metadata.get("name", ""), f"PodGroup rejected: {why}")


def workload_kind_errors(object_: Object, old: Object | None) -> list[FieldError]:
    """What is wrong with a Workload (scheduling.k8s.io)."""
    spec = object_.get("spec") or {}
    templates, path = spec.get("podGroupTemplates") or [], "spec.podGroupTemplates"
    if old is not None:
        changed = templates != ((old.get("spec") or {}).get("podGroupTemplates") or [])
        return [invalid(path, None, _IMMUTABLE)] if changed else []
    if not templates:
        return [] if spec.get("compositePodGroupTemplates") else [required(path)]
    if len(templates) > TEMPLATES_LIMIT:
        return [too_many(path, len(templates), TEMPLATES_LIMIT)]
    return list(_templates(path, templates))


def _templates(path: str, templates: list[Any]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for number, item in enumerate(templates):
        place, name = f"{path}[{number}]", item.get("name") or ""
        if name in seen:
            yield duplicate(place, _shown(item))
        seen.add(name)
        yield from label_errors(f"{place}.name", name) if name else [required(f"{place}.name")]
        yield from _policy(f"{place}.schedulingPolicy", item.get("schedulingPolicy") or {})
        yield from _common(place, item)


def _shown(template: Mapping[str, Any]) -> dict[str, Any]:
    """A template as Go prints it: the constraints stand there also when there are none."""
    order = ("name", "schedulingPolicy", "schedulingConstraints")
    rest = {key: value for key, value in template.items() if key not in order}
    return {**{key: template.get(key) for key in order}, **rest}


def _policy(path: str, policy: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from _one_of(path, policy, ("basic", "gang"))
    gang = policy.get("gang")
    if gang is None or len([name for name in ("basic", "gang") if policy.get(name) is not None]) != 1:
        return
    count = gang.get("minCount") or 0
    if count == 0:
        yield required(f"{path}.gang.minCount")
    elif count < 0:
        yield invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")


def _one_of(path: str, value: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[FieldError]:
    given = [name for name in names if value.get(name) is not None]
    told = ", ".join(f"`{name}`" for name in names)
    if not given:
        yield invalid(path, "", f"must specify one of: {told}")
    elif len(given) > 1:
        yield invalid(path, "{" + ", ".join(given) + "}", f"must specify exactly one of: {told}")


def _common(path: str, item: Mapping[str, Any]) -> Iterator[FieldError]:
    """What a template and a pod group have in common."""
    claims = item.get("resourceClaims") or []
    if len(claims) > CLAIMS_LIMIT:
        yield too_many(f"{path}.resourceClaims", len(claims), CLAIMS_LIMIT)
    else:
        yield from _claims(f"{path}.resourceClaims", claims)
    topology = (item.get("schedulingConstraints") or {}).get("topology") or []
    place = f"{path}.schedulingConstraints.topology"
    if len(topology) > 1:
        yield FieldError(place, "Too many", f"Too many: {len(topology)}: must have at most 1 item")
    else:
        for number, constraint in enumerate(topology):
            yield from label_name_errors(f"{place}[{number}].key", constraint.get("key") or "")
    mode = item.get("disruptionMode")
    if isinstance(mode, str) and mode not in MODES:
        yield unsupported_value(f"{path}.disruptionMode", mode, MODES)
    elif isinstance(mode, dict):
        yield from _one_of(f"{path}.disruptionMode", mode, ("single", "all"))
    name = item.get("priorityClassName") or ""
    if name:
        yield from subdomain_errors(f"{path}.priorityClassName", name)


def _claims(path: str, claims: list[Any]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for number, claim in enumerate(claims):
        place, name = f"{path}[{number}]", claim.get("name") or ""
        if name in seen:
            yield duplicate(place, claim)
        seen.add(name)
        yield from label_errors(f"{place}.name", name) if name else [required(f"{place}.name")]
        yield from _one_of(place, claim, ("resourceClaimName", "resourceClaimTemplateName"))
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(field) is not None:
                yield from subdomain_errors(f"{place}.{field}", claim[field])


_GROUP_FIELDS: tuple[tuple[str, ...], ...] = (
    ("podGroupTemplateRef", "workloadRef"),
    ("schedulingPolicy",),
    ("schedulingConstraints",),
    ("resourceClaims",),
    ("disruptionMode",),
    ("priorityClassName",),
    ("priority",),
)


def pod_group_errors(object_: Object, old: Object | None, subresource: str) -> list[FieldError]:
    """What is wrong with a PodGroup."""
    spec = object_.get("spec") or {}
    if old is None:
        return list(_pod_group(spec))
    if subresource == "status":
        return list(_group_status(object_.get("status") or {}, spec.get("resourceClaims") or []))
    before = old.get("spec") or {}
    changed = [names for names in _GROUP_FIELDS if any(spec.get(name) != before.get(name) for name in names)]
    return [invalid(f"spec.{names[0]}", None, _IMMUTABLE) for names in changed]


def _pod_group(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    reference = spec.get("podGroupTemplateRef")
    if reference is not None:
        yield from _one_of("spec.podGroupTemplateRef", reference, ("workload",))
    yield from _policy("spec.schedulingPolicy", spec.get("schedulingPolicy") or {})
    yield from _common("spec", spec)


def _group_status(status: Mapping[str, Any], claims: list[Any]) -> Iterator[FieldError]:
    told = tuple(view(item, Condition) for item in status.get("conditions") or [])
    yield from conditions("status.conditions", told, CONDITIONS_LIMIT)
    names = {claim.get("name") for claim in claims}
    for number, entry in enumerate(status.get("resourceClaimStatuses") or []):
        path = f"status.resourceClaimStatuses[{number}]"
        if entry.get("name") not in names:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(f"{path}.name", entry.get("name") or "", text)
        elif entry.get("resourceClaimName") is not None:
            yield from subdomain_errors(f"{path}.resourceClaimName", entry["resourceClaimName"])


def pool_request_errors(object_: Object, old: Object | None, subresource: str) -> list[FieldError]:
    """What is wrong with a ResourcePoolStatusRequest."""
    spec = object_.get("spec") or {}
    if subresource:
        return []
    if old is not None:
        changed = spec != (old.get("spec") or {})
        return [invalid("spec", None, _IMMUTABLE)] if changed else []
    return list(_pool_request(spec))


def _pool_request(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    if not spec.get("driver"):
        yield required("spec.driver")
    name = spec.get("poolName")
    if name is not None:
        for number, segment in enumerate(name.split("/")):
            faults = subdomain_faults(segment) if segment else ["must not be empty"]
            for fault in faults:
                yield invalid("spec.poolName", name, f"segment {number}: {fault}")
    limit = spec.get("limit")
    if limit is not None and limit < 1:
        yield invalid("spec.limit", limit, "must be greater than or equal to 1")
    elif limit is not None and limit > POOL_LIMIT_MOST:
        yield invalid("spec.limit", limit, f"must be less than or equal to {POOL_LIMIT_MOST}")
