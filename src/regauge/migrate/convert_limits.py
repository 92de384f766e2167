"""Claims to limits: one document. Pure.

A claim that the conversion made and nobody changed gives back what there was. Any other claim is read for what it says,
and what a count cannot say is the reason for a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from regauge.migrate.affinity import required_of, set_required
from regauge.migrate.conversion import Converted, Fate, Refused, Work, owned
from regauge.migrate.labels import from_selector
from regauge.migrate.move import CLAIM_ENTRY, as_written, limits_for, take_claim
from regauge.migrate.names import partition_selectors
from regauge.migrate.record import Record, record_of, restorable, restore
from regauge.migrate.sites import Site, Slot, mapping_in
from regauge.migrate.workloads import AskStack
from regauge.model import Document, Object
from regauge.model.resource import DEVICE_CLASS_PREFIX

Counts = dict[str, tuple[str, int]]


@dataclass(slots=True)
class _Back:
    """What one claim becomes: counts by request, labels for the node selector, what is in the way."""

    counts: Counts = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    expressions: list[Object] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def to_counts(document: Document, work: Work, used: dict[tuple[str, str], bool]) -> Converted:
    """A workload that counts where it claimed. `used` takes the templates it no longer needs (True) or still does (False)."""
    sites = [site for site in work.sites(document.object) if site.spec.get(site.claims_field)]
    if not sites:
        return Converted(document, Fate.KEPT, document.object)
    if owned(document.object):
        note = "kept as it is: its owner makes it, and is what has to be converted"
        return Converted(document, Fate.KEPT, document.object, notes=(note,))
    references = [
        (document.namespace, str(entry.get("resourceClaimTemplateName")))
        for site in sites
        for entry in site.spec.get(site.claims_field) or ()
    ]
    object_ = as_written(document.object)
    notes: list[str] = []
    try:
        for site in work.sites(object_):
            for entry in list(site.spec.get(site.claims_field) or ()):
                notes += _convert_entry(document, site, entry, work)
    except Refused:
        used.update(dict.fromkeys(references, False))
        raise
    for reference in references:
        used.setdefault(reference, True)
    return Converted(document, Fate.CHANGED, object_, notes=tuple(dict.fromkeys(notes)))


def _convert_entry(document: Document, site: Site, entry: Object, work: Work) -> list[str]:
    name = entry.get("resourceClaimTemplateName")
    if not name:
        raise Refused(
            (
                f"it shares the claim {entry.get('resourceClaimName')} with whoever names it: a count gives each pod its own",
            )
        )
    template = work.templates.get((document.namespace, str(name)))
    if template is None:
        raise Refused((f"ResourceClaimTemplate {name} is not in the input (nor in the estate)",))
    record = record_of(template)
    bridge = work.options.to is AskStack.BRIDGE
    if record is not None and not bridge and restorable(record, site, template) and entry.get("name") == CLAIM_ENTRY:
        take_claim(site, CLAIM_ENTRY)
        restore(record, site)
        return [f"as it was before its conversion (record on ResourceClaimTemplate {name})"]
    back = _read(template, site, str(entry.get("name")), record, work)
    if back.reasons:
        raise Refused(back.reasons)
    _check_labels(site, back)
    _whole_claim_references(site, str(entry.get("name")), back.counts)
    limits_for(site, str(entry.get("name")), back.counts)
    if back.labels:
        mapping_in(site.spec, "nodeSelector").update(back.labels)
    if back.expressions:
        required = required_of(site) or {"nodeSelectorTerms": [{}]}
        terms = [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *back.expressions]}
            for term in required.get("nodeSelectorTerms") or ()
        ]
        set_required(site, {**required, "nodeSelectorTerms": terms})
    return back.notes


def _read(template: Object, site: Site, entry: str, record: Record | None, work: Work) -> _Back:
    back = _Back()
    devices = ((template.get("spec") or {}).get("spec") or {}).get("devices") or {}
    if devices.get("constraints"):
        back.reasons.append("its claim has constraints between devices, and counts are independent of each other")
    if devices.get("config"):
        back.reasons.append("its claim has configuration for the driver, and a count has none")
    requests = devices.get("requests") or ()
    for request in requests:
        _read_request(request, back, record, work)
    _check_uses(site, entry, {str(request.get("name")) for request in requests}, back)
    return back


def _read_request(request: Object, back: _Back, record: Record | None, work: Work) -> None:
    name = str(request.get("name"))
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        back.reasons.append(f"request {name} is a list of alternatives, and a count is one")
        return
    if exactly.get("allocationMode", "ExactCount") != "ExactCount":
        back.reasons.append(f"request {name} asks for {exactly['allocationMode']} devices, and a count is a number")
    for key, what in (
        ("adminAccess", "admin access"),
        ("capacity", "a capacity"),
        ("tolerations", "device tolerations"),
    ):
        if exactly.get(key):
            back.reasons.append(f"request {name} has {what}, which a count cannot say")
    class_name = str(exactly.get("deviceClassName", ""))
    expressions = [str((item.get("cel") or {}).get("expression", "")) for item in exactly.get("selectors") or ()]
    resource = _resource(name, class_name, expressions, record, work)
    if resource is None:
        back.reasons.append(
            f"no name is known that a device plugin counts for class {class_name}: --class NAME={class_name}"
        )
        return
    back.counts[name] = (resource, int(exactly.get("count", 1)))
    back.notes.append(f"request {name} became {resource}")
    said = partition_selectors(resource)
    for expression in expressions:
        if expression not in said:
            _read_selector(name, expression, back, work)


def _resource(name: str, class_name: str, expressions: list[str], record: Record | None, work: Work) -> str | None:
    if work.options.to is AskStack.BRIDGE:
        known = work.ground.resource_for(class_name) if not work.options.implicit else None
        carries = known is not None and work.ground.choose(known).target is not None and known in _carried(work)
        return known if carries else DEVICE_CLASS_PREFIX + class_name
    recorded = record.requests.get(name) if record is not None else None
    if recorded is not None and set(partition_selectors(recorded)) <= set(expressions):
        return recorded
    return work.ground.resource_for(class_name)


def _carried(work: Work) -> frozenset[str]:
    """The names that classes of the estate carry."""
    classes = work.ground.snapshot.device_classes if work.ground.snapshot is not None else ()
    return frozenset(item.spec.extended_resource_name for item in classes if item.spec.extended_resource_name)


def _read_selector(name: str, expression: str, back: _Back, work: Work) -> None:
    if work.options.to is AskStack.BRIDGE:
        back.reasons.append(
            f"request {name} selects by {expression}: a counted resource has no selector but its class's"
        )
        return
    for label, operator, values in from_selector(expression):
        if operator == "In" and len(values) == 1 and label not in back.labels:
            back.labels[label] = values[0]
        elif operator != "In" or back.labels.get(label, "") not in values:
            wanted = {"key": label, "operator": operator, **({"values": list(values)} if values else {})}
            back.expressions.append(wanted)
        back.notes.append(
            f"a selector of request {name} became the node label {label} {operator} {', '.join(values)}".rstrip()
        )
        return
    back.reasons.append(f"request {name} selects by {expression}, for which no node label is known")


def _check_labels(site: Site, back: _Back) -> None:
    present = site.spec.get("nodeSelector") or {}
    differing = [key for key, value in back.labels.items() if present.get(key, value) != value]
    if differing:
        raise Refused([f"its node selector has another value for {key} than its claim" for key in differing])


def _check_uses(site: Site, entry: str, names: set[str], back: _Back) -> None:
    """Each request has to belong to one container that stays: a plugin gives no device to two."""
    users: dict[str, list[str]] = {name: [] for name in names}
    for slot, name in _uses(site, entry):
        if name is not None and name not in names:
            back.reasons.append(f"container {slot.name} refers to request {name}, which the claim does not have")
        elif not slot.init or slot.sidecar:
            for each in [name] if name is not None else names:
                users[each].append(slot.name)
        elif name is None and len(names) > 1:
            continue
    for name, slots in sorted(users.items()):
        if len(slots) > 1:
            back.reasons.append(
                f"containers {', '.join(slots)} share request {name}: a device plugin gives no device to two"
            )
        if not slots and site.refers and not any(each == name for _, each in _uses(site, entry)):
            back.reasons.append(f"no container uses request {name}")


def _uses(site: Site, entry: str) -> Iterator[tuple[Slot, str | None]]:
    for slot in site.slots:
        for claim in (slot.holder.get(slot.field) or {}).get("claims") or ():
            if claim.get("name") == entry:
                yield slot, claim.get("request")


def _whole_claim_references(site: Site, entry: str, counts: Counts) -> None:
    """A container that refers to a claim as a whole refers to each of its requests."""
    if not site.refers:
        for slot in site.slots[:1]:
            limits = mapping_in(mapping_in(slot.holder, slot.field), "limits")
            limits.update({resource: str(count) for resource, count in counts.values()})
    for slot in site.slots:
        resources = slot.holder.get(slot.field) or {}
        claims = resources.get("claims")
        if not claims:
            continue
        spread: list[Object] = []
        for claim in claims:
            if claim.get("name") == entry and not claim.get("request"):
                spread += [{"name": entry, "request": name} for name in counts]
            else:
                spread.append(claim)
        resources["claims"] = spread
