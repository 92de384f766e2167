"""Rules about rights: who may write what decides about devices."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.access import WRITES, gives_everything, is_tenant, may_some, tenants, writes
from regauge.audit.estate_drivers import drivers
from regauge.audit.findings import Severity
from regauge.audit.ground import Ground, Spot, seen, some
from regauge.audit.policies_seen import guards
from regauge.model import Document
from regauge.model.kinds import NAMESPACE
from regauge.model.rbac import Action, Grant, Subject
from regauge.model.resource import ADMIN_ACCESS_LABEL

_GROUP = "resource.k8s.io"
_ON = "true"
_OPERATING = ("Deployment", "StatefulSet")


def classes_writable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-CLASSES: subjects beside the operators may write DeviceClasses."""
    yield from _writers(ground, "deviceclasses")


def slices_writable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-SLICES: subjects beside drivers may write ResourceSlices."""
    yield from _writers(ground, "resourceslices")


def _writers(ground: Ground, resource: str) -> Iterator[Spot]:
    for grant in tenants(ground, own_accounts(ground)):
        verbs = writes(grant, _GROUP, resource)
        if verbs:
            yield may(grant, f"{some(list(verbs))} {resource}", guards(ground, _GROUP, resource))


def everything_given(ground: Ground) -> Iterator[Spot]:
    """ACCESS-EVERYTHING: subjects beside the operators may do everything, and so write classes, slices and drivers."""
    own = own_accounts(ground)
    for grant in ground.rights.grants:
        if (
            gives_everything(grant)
            and not grant.namespace
            and is_tenant(ground, grant.subject)
            and grant.subject not in own
        ):
            yield may(grant, "do everything")


def drivers_changeable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-DRIVERS: subjects beside the operators may change the DaemonSet of a driver, which is root on its nodes."""
    for grant in tenants(ground, own_accounts(ground)):
        reached = [one.document for one in drivers(ground) if _changes(grant, one.document)]
        if reached:
            yield may(grant, f"change {some([one.title for one in reached])}", guards(ground, "apps", "daemonsets"))


def _changes(grant: Grant, document: Document) -> bool:
    place, name = document.namespace, document.name
    return any(
        grant.allows(Action(verb, "apps", "daemonsets", "", place, "" if verb == "create" else name)) for verb in WRITES
    )


def admin_namespaces(ground: Ground) -> Iterator[Spot]:
    """ACCESS-ADMIN-NAMESPACE: a namespace may use devices that others hold, and nothing in it does."""
    using = {
        document.namespace
        for document, spec in (
            *((document, one.spec) for document, one in ground.claims),
            *((document, one.spec.spec) for document, one in ground.templates),
        )
        if any(request.exactly is not None and request.exactly.admin_access for request in spec.devices.requests)
    }
    for document in ground.snapshot.documents(NAMESPACE):
        if ground.labels_of_namespaces[document.name].get(ADMIN_ACCESS_LABEL) == _ON and document.name not in using:
            what = f"namespace {document.name} has the label {ADMIN_ACCESS_LABEL}, and no claim in it asks for admin access"
            yield Spot(document.title, what, (seen(document, "true", f"metadata.labels[{ADMIN_ACCESS_LABEL}]"),))


def admin_writable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-ADMIN-WRITABLE: subjects beside the operators may put the label for admin access on namespaces."""
    for grant in tenants(ground, own_accounts(ground)):
        if grant.namespace:
            continue
        verbs = [verb for verb in ("create", "update", "patch") if may_some(grant, verb, "", "namespaces")]
        if verbs:
            told = f"{some(verbs)} namespaces, and so label them for admin access"
            yield may(grant, told, guards(ground, "", "namespaces"))


def own_accounts(ground: Ground) -> frozenset[Subject]:
    """Accounts of what serves devices, and of what runs beside it in its namespaces: the operators of drivers."""
    found = drivers(ground)
    places = {one.document.namespace for one in found}
    beside = (
        Subject("ServiceAccount", str(spec.get("serviceAccountName") or "default"), document.namespace)
        for document, spec in ground.workloads
        if document.namespace in places and document.kind in _OPERATING
    )
    return frozenset((*(one.subject for one in found), *beside))


def may(grant: Grant, what: str, guarding: tuple[Document, ...] = ()) -> Spot:
    """A spot at a binding that gives somebody too much. What an admission policy looks at may be guarded: that is a note."""
    evidence = [seen(grant.document, f"{grant.subject} has {grant.role}", "roleRef")]
    evidence += [seen(one, "looks at it; what it says is not judged", "spec.matchConstraints") for one in guarding]
    told = f", unless {some([one.title for one in guarding])} denies it" if guarding else ""
    severity = Severity.NOTE if guarding else None
    what = f"{grant.subject} may {what}, by {grant.document.title}{told}"
    return Spot(grant.document.title, what, tuple(evidence), severity=severity)
