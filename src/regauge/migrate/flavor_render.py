"""One source, two stacks: workloads that name a flavor become manifests for one stack. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.base import InputError, Where
from regauge.inventory import is_extended_resource
from regauge.migrate.checking import at_version, gate_reasons
from regauge.migrate.flavor_choice import Chosen, choose_stack
from regauge.migrate.flavors import (
    COUNT_ANNOTATION,
    MAX_UNITS,
    NAME_ANNOTATION,
    RENDERED_ANNOTATION,
    Flavor,
    FlavorRequest,
)
from regauge.migrate.ground import Ground, compiles
from regauge.migrate.move import (
    CLAIM_ENTRY,
    MAX_REQUEST_NAME,
    check_entry_free,
    claim_name,
    claim_template,
    counts_of,
    where_of,
)
from regauge.migrate.sites import (
    Site,
    Slot,
    TemplatePath,
    check_shape,
    list_in,
    mapping_in,
    own_copy,
    pod_view,
    sites_of,
)
from regauge.migrate.workloads import AskStack
from regauge.model import Document, Object
from regauge.model.resource import MAX_RESULTS_PER_CLAIM

GATE = "DRAExtendedResource"


@dataclass(frozen=True, slots=True)
class Wish:
    """What one container asks for: so many units of a flavor."""

    slot: Slot
    flavor: Flavor
    units: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """A document rendered: `changed` is False for one that names no flavor. `why` explains each choice."""

    document: Document
    object: Object
    before: tuple[Object, ...] = ()
    changed: bool = False
    why: tuple[str, ...] = ()


@dataclass(slots=True)
class _Rendering:
    """One document under way: what it is rendered on, the stacks chosen so far, and why."""

    document: Document
    ground: Ground
    forced: AskStack | None
    why: list[str] = field(default_factory=list)
    stacks: list[AskStack] = field(default_factory=list)

    def wrong(self, place: str, what: str, fix: str) -> InputError:
        where = where_of(self.document)
        return InputError(what, where=Where(where.file, where.line, where.object, place), fix=fix)


@dataclass(slots=True)
class _Claim:
    """The claim of one pod description under way."""

    requests: list[Object] = field(default_factory=list)
    constraints: list[Object] = field(default_factory=list)


def render(
    document: Document,
    flavors: Mapping[str, Flavor],
    ground: Ground,
    forced: AskStack | None = None,
    paths: tuple[TemplatePath, ...] = (),
) -> Rendered:
    """A workload for the stack that its flavors choose. Raises `InputError` for what cannot be rendered."""
    work = _Rendering(document, ground, forced)
    object_: Object = own_copy(document.object)
    check_shape(object_)
    sites = sites_of(object_, paths)
    for site in sites:
        pod_view(site)  # wrong types are told by their field before anything is read
    outer = _annotations(object_)
    wishes = [(site, list(_wishes(work, site, outer if len(sites) == 1 else {}, flavors))) for site in sites]
    asking = [(site, own) for site, own in wishes if own]
    if not asking:
        if NAME_ANNOTATION in outer:
            what = "it names a flavor, and which pods are meant is not clear"
            fix = "put the annotation on the pod templates, or give --template-path"
            raise work.wrong(f"metadata.annotations[{NAME_ANNOTATION}]", what, fix)
        return Rendered(document, document.object)
    if RENDERED_ANNOTATION in outer:
        what = "it was rendered already: devices would be asked for twice"
        raise work.wrong(f"metadata.annotations[{RENDERED_ANNOTATION}]", what, "render its source")
    made = []
    for site, own in asking:
        name = claim_name(document.name, site.name if len(asking) > 1 else "")
        template = _render_site(work, site, own, name)
        made += [template] if template is not None else []
    annotations = mapping_in(mapping_in(object_, "metadata"), "annotations")
    annotations[RENDERED_ANNOTATION] = ",".join(dict.fromkeys(stack.value for stack in work.stacks))
    return Rendered(document, object_, tuple(made), True, tuple(work.why))


def _annotations(object_: Mapping[str, Any]) -> dict[str, Any]:
    metadata = object_.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _wishes(work: _Rendering, site: Site, outer: Mapping[str, Any], flavors: Mapping[str, Flavor]) -> Iterator[Wish]:
    """What the annotations of a pod template (or of the workload, where it has one template) ask for."""
    own = _annotations(site.template) if site.template is not work.document.object else {}
    both = {**outer, **own}
    for key, value in sorted(both.items()):
        if key != NAME_ANNOTATION and not key.startswith(f"{NAME_ANNOTATION}."):
            continue
        container = key.removeprefix(NAME_ANNOTATION).removeprefix(".")
        place = f"annotations[{key}]"
        flavor = flavors.get(str(value))
        if flavor is None:
            known = ", ".join(sorted(flavors)) or "none is given"
            raise work.wrong(place, f"there is no flavor {value}", f"known: {known}")
        count = both.get(f"{COUNT_ANNOTATION}.{container}" if container else COUNT_ANNOTATION, "1")
        if not str(count).isdigit() or not 1 <= int(count) <= MAX_UNITS:
            raise work.wrong(place, f"{count!r} is no count", f"write a number from 1 to {MAX_UNITS}")
        yield Wish(_slot(work, site, container, place), flavor, int(count))


def _slot(work: _Rendering, site: Site, container: str, place: str) -> Slot:
    slots = [slot for slot in site.slots if (slot.name == container if container else not slot.init)]
    if len(slots) != 1:
        names = ", ".join(slot.name for slot in site.slots)
        what = f"there is no container {container}" if container else f"its pods have {len(slots)} containers"
        raise work.wrong(place, what, f"write {NAME_ANNOTATION}.CONTAINER for one of {names}")
    return slots[0]


def _render_site(work: _Rendering, site: Site, wishes: list[Wish], name: str) -> Object | None:
    """One pod description changed in place; its claim template, where it has a claim."""
    selector = dict(site.spec.get("nodeSelector") or {})
    claim = _Claim()
    for wish in wishes:
        chosen = choose_stack(wish.flavor, selector, work.ground, work.forced)
        work.stacks.append(chosen.stack)
        work.why.append(_explained(site, wish, chosen))
        if any(is_extended_resource(resource) for resource in counts_of(wish.slot)):
            raise work.wrong(
                f"containers[{wish.slot.name}].resources",
                "it counts devices beside its flavor",
                "leave the counting to the flavor; render the source, not what was rendered",
            )
        if chosen.stack is AskStack.CLAIM:
            _ask_by_claim(work, site, wish, claim)
        else:
            _ask_by_count(work, site, wish, chosen.stack)
    if not claim.requests:
        return None
    check_entry_free(site, work.document)
    list_in(site.spec, site.claims_field).append({"name": CLAIM_ENTRY, "resourceClaimTemplateName": name})
    return _template(work, name, claim)


def _explained(site: Site, wish: Wish, chosen: Chosen) -> str:
    place = f"{site.path}, container {wish.slot.name}" if site.path else f"container {wish.slot.name}"
    return f"{place}: {wish.units} of {wish.flavor.name} by {chosen.stack.value}: {chosen.why}"


def _template(work: _Rendering, name: str, claim: _Claim) -> Object:
    names = [request["name"] for request in claim.requests]
    devices = sum(request["exactly"]["count"] for request in claim.requests)
    if len(set(names)) < len(names) or devices > MAX_RESULTS_PER_CLAIM:
        what = f"{devices} devices in {len(names)} requests ({', '.join(names)}) make no claim"
        fix = f"ask for at most {MAX_RESULTS_PER_CLAIM}, and rename containers whose requests would have one name"
        raise work.wrong("annotations", what, fix)
    template = claim_template(name, work.document.namespace, (), claim.constraints)
    template["spec"]["spec"]["devices"]["requests"] = claim.requests
    for reason in gate_reasons(template, work.ground.rules):
        raise work.wrong("flavor", reason, "render for another version, or switch the gate on")
    return at_version(template, work.ground.rules)


def _ask_by_claim(work: _Rendering, site: Site, wish: Wish, claim: _Claim) -> None:
    form = wish.flavor.spec.dra
    if form is None:
        return
    names = []
    for request in form.requests:
        name = _request_name(wish.slot, request, len(form.requests) > 1)
        names.append(name)
        claim.requests.append(_request(work, name, request, wish))
        if site.refers:
            resources = mapping_in(wish.slot.holder, wish.slot.field)
            list_in(resources, "claims").append({"name": CLAIM_ENTRY, "request": name})
    claim.constraints += [{"matchAttribute": attribute, "requests": names} for attribute in form.match_attributes]
    _pod_part(work, site, form.node_selector, form.tolerations)


def _request_name(slot: Slot, request: FlavorRequest, several: bool) -> str:
    end = f"-{request.name}" if several else ""
    return (slot.name[: MAX_REQUEST_NAME - len(end)] + end).strip("-")


def _request(work: _Rendering, name: str, request: FlavorRequest, wish: Wish) -> Object:
    for text in request.selectors:
        fault = compiles(work.ground, text)
        if fault is not None:
            what = f"the selector {text} does not compile: {fault}"
            raise work.wrong(f"flavor {wish.flavor.name}", what, "correct the flavor")
    exactly: Object = {
        "deviceClassName": request.device_class_name,
        "allocationMode": "ExactCount",
        "count": request.count * wish.units,
    }
    if request.selectors:
        exactly["selectors"] = [{"cel": {"expression": text}} for text in request.selectors]
    if request.capacity:
        exactly["capacity"] = {"requests": dict(request.capacity)}
    return {"name": name, "exactly": exactly}


def _ask_by_count(work: _Rendering, site: Site, wish: Wish, stack: AskStack) -> None:
    form = wish.flavor.counted(stack)
    if form is None:
        return
    if stack is AskStack.BRIDGE and not work.ground.rules.on(GATE):
        raise work.wrong("flavor", f"the gate {GATE} is off on {work.ground.rules.minor}", "choose another stack")
    limits = mapping_in(mapping_in(wish.slot.holder, wish.slot.field), "limits")
    for item in form.resources:
        limits[item.name] = str(item.count * wish.units)
    _pod_part(work, site, form.node_selector, form.tolerations)
    if form.runtime_class_name:
        present = site.spec.setdefault("runtimeClassName", form.runtime_class_name)
        if present != form.runtime_class_name:
            what = f"it is {present}, and the flavor {wish.flavor.name} wants {form.runtime_class_name}"
            raise work.wrong("spec.runtimeClassName", what, "leave it to the flavor")


def _pod_part(
    work: _Rendering, site: Site, node_selector: Mapping[str, str], tolerations: tuple[dict[str, Any], ...]
) -> None:
    """What a flavor wants of the pod beside devices: merged, a contradiction is an error."""
    for key, value in node_selector.items():
        present = mapping_in(site.spec, "nodeSelector").setdefault(key, value)
        if present != value:
            what = f"it is {present}, and the flavor wants {value}"
            raise work.wrong(f"spec.nodeSelector[{key}]", what, "leave it to the flavor")
    for toleration in tolerations:
        present_all = list_in(site.spec, "tolerations")
        if toleration not in present_all:
            present_all.append(dict(toleration))
