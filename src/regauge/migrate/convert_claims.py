"""Limits to claims: one document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from regauge.migrate.affinity import Lifted, drop_lifted, lift
from regauge.migrate.conversion import Converted, Fate, Refused, Work, owned
from regauge.migrate.ground import Chosen, compiles, newer_or_same, shared_value
from regauge.migrate.move import (
    CLAIM_ENTRY,
    Requested,
    Target,
    as_written,
    check_entry_free,
    claim_for,
    claim_name,
    claim_template,
)
from regauge.migrate.names import is_network
from regauge.migrate.record import finish, make_record
from regauge.migrate.serving import vendor_of
from regauge.migrate.sites import Site
from regauge.model import Document, Object
from regauge.model.resource import MAX_RESULTS_PER_CLAIM

STANDARD_ALIGNMENTS = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
MAX_SELECTORS = 32
TOPOLOGY = (
    "under a device plugin the Topology Manager of the node aligned these devices, if its policy said so; of claims it knows"
    " nothing: what has to be near each other is said by a constraint (--align ATTRIBUTE)"
)


def to_claims(document: Document, work: Work) -> Converted:
    """A workload with claims where it counted. A document that counts nothing comes back as it was."""
    sites = work.sites(document.object)
    if not any(work.asked(site) for site in sites):
        return Converted(document, Fate.KEPT, document.object)
    if owned(document.object):
        note = "kept as it is: its owner makes it, and is what has to be converted"
        return Converted(document, Fate.KEPT, document.object, notes=(note,))
    if document.kind == "ClusterTrainingRuntime":
        raise Refused(("it is cluster-scoped, and the claim templates of its pods have to stand in their namespaces",))
    object_ = as_written(document.object)
    asking = [site for site in work.sites(object_) if work.asked(site)]
    made, notes = [], []
    for site in asking:
        name = claim_name(document.name, site.name if len(asking) > 1 else "")
        template, own = _convert_site(document, site, name, work)
        made.append(template)
        notes += own if len(asking) == 1 else [f"{site.path}: {note}" for note in own]
    return Converted(document, Fate.CHANGED, object_, tuple(made), tuple(dict.fromkeys(notes)))


def _convert_site(document: Document, site: Site, name: str, work: Work) -> tuple[Object, list[str]]:
    chosen = [work.ground.choose(resource) for resource in work.asked(site)]
    lifted = lift(site, keep_unknown=work.options.keep_labels)
    reasons = [item.why for item in chosen if item.target is None]
    reasons += lifted.refusals
    reasons += _unanswered(lifted, chosen, work)
    taken = work.templates.get((document.namespace, name))
    if taken is not None:
        reasons.append(f"there is a ResourceClaimTemplate {name} already")
    if reasons:
        raise Refused(reasons)
    check_entry_free(site, document)
    targets = [_target(item, lifted, work) for item in chosen]
    record = make_record(site, frozenset(target.resource_name for target in targets), lifted, CLAIM_ENTRY)
    requests, notes = claim_for(site, targets, name)
    drop_lifted(site, lifted)
    notes += [note for item in chosen for note in item.notes]
    notes += lifted.notes
    constraints = list(_constraints(requests, work, notes))
    _check(requests)
    template = claim_template(name, document.namespace, requests, constraints)
    finish(record, {item.name: item.target.resource_name for item in requests}, template)
    notes += _on_the_estate(site, requests, work)
    if site.spec.get("runtimeClassName"):
        notes.append(
            f"runtimeClassName {site.spec['runtimeClassName']} stays: if it is only there to bring the devices in, CDI does"
            " that for a claim"
        )
    if sum(item.count for item in requests) > 1 and not constraints:
        notes.append(TOPOLOGY)
    return template, notes


def _target(chosen: Chosen, lifted: Lifted, work: Work) -> Target:
    """The target with the selectors that come from labels and from the user; each has to compile."""
    target = chosen.target
    if target is None:
        raise Refused((chosen.why,))
    network = is_network(target.resource_name)
    more = lifted.selectors.get(chosen.driver, ()) + (() if network else work.options.require)
    selectors = tuple(dict.fromkeys((*target.selectors, *more)))
    for text in selectors:
        why = compiles(work.ground, text)
        if why is not None:
            raise Refused((f"the selector {text} does not compile on {work.ground.rules.minor}: {why}",))
    if len(selectors) > MAX_SELECTORS:
        raise Refused((f"{len(selectors)} selectors on one request, and {MAX_SELECTORS} is the limit",))
    return Target(target.resource_name, target.device_class, selectors)


def _unanswered(lifted: Lifted, chosen: list[Chosen], work: Work) -> Iterator[str]:
    """Selectors that no request could carry, and attributes that the driver here does not publish."""
    drivers = {item.driver for item in chosen if item.target is not None}
    for driver, texts in lifted.selectors.items():
        if driver not in drivers:
            yield f"its node labels describe devices of {driver}, and nothing that it counts is known to be served by that"
        for text in texts:
            field = text.partition(f'["{driver}"].')[2].partition(")")[0]
            if work.ground.publishes(driver, field) is False:
                yield f"the driver {driver} publishes no {field} here, which a selector for its node labels would read"
    for item in chosen:
        vendor = vendor_of(item.target.resource_name) if item.target is not None else None
        if vendor is not None and not newer_or_same(work.ground.rules.minor, vendor.kube):
            yield f"the driver {vendor.driver} begins at Kubernetes {vendor.kube} ({vendor.source})"


def _check(requests: list[Requested]) -> None:
    devices = sum(item.count for item in requests)
    if devices > MAX_RESULTS_PER_CLAIM:
        raise Refused((f"{devices} devices in one claim, and {MAX_RESULTS_PER_CLAIM} is the limit of Kubernetes",))


def _constraints(requests: list[Requested], work: Work, notes: list[str]) -> Iterator[Object]:
    """What the devices have in common: as asked, or network interfaces with the devices they are for."""
    names = [item.name for item in requests]
    if work.options.align:
        if sum(item.count for item in requests) > 1:
            yield {"matchAttribute": work.options.align, "requests": names}
        return
    near = [item for item in requests if is_network(item.target.resource_name)]
    if not near or len(near) == len(requests):
        return
    found = [(work.ground.matching(item.target.device_class, item.target.selectors), item.count) for item in requests]
    if not all(devices for devices, _ in found):
        notes.append(
            "devices and network interfaces are in one claim, without a constraint: what both drivers publish is not known"
            " here (--from ESTATE, or --align ATTRIBUTE)"
        )
        return
    for attribute in STANDARD_ALIGNMENTS:
        if shared_value(found, attribute):
            notes.append(f"devices and network interfaces share {attribute}, which both drivers publish")
            yield {"matchAttribute": attribute, "requests": names}
            return
    notes.append(
        "devices and network interfaces are in one claim, without a constraint: no node has this many of both at one value"
        f" of {' or '.join(STANDARD_ALIGNMENTS)}"
    )


def _on_the_estate(site: Site, requests: list[Requested], work: Work) -> Iterator[str]:
    """What would keep the pods from running on the estate as it is today."""
    if work.ground.snapshot is None or not work.ground.devices or not work.options.advise:
        return
    selector = site.spec.get("nodeSelector") or {}
    nodes = {node.metadata.name: node.metadata.labels or {} for node in work.ground.snapshot.nodes}
    for item in requests:
        found = work.ground.matching(item.target.device_class, item.target.selectors)
        if not found:
            yield f"no device that is published today would answer request {item.name}: its pods would wait"
            continue
        admitted = [
            device.node for device in found if all(nodes.get(device.node, {}).get(k) == v for k, v in selector.items())
        ]
        most = max(Counter(admitted).values(), default=0)
        if most < item.count:
            wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
            where = f" that its node selector admits ({wanted})" if wanted else ""
            yield f"request {item.name} asks for {item.count} devices, and no node{where} has more than {most} today"
