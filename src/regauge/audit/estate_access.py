"""Rules about rights: who may write what decides about devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from regauge.audit.access import Grant, grants
from regauge.audit.estate_drivers import drivers
from regauge.audit.ground import Ground, Spot, seen, some
from regauge.model import Document
from regauge.model.kinds import NAMESPACE
from regauge.model.resource import ADMIN_ACCESS_LABEL

_GROUP = "resource.k8s.io"
_ON = "true"


def classes_writable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-CLASSES: subjects beside the operators may write DeviceClasses."""
    yield from _writers(ground, "deviceclasses", lambda one: one.is_tenants)


def slices_writable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-SLICES: subjects beside drivers may write ResourceSlices."""
    yield from _writers(ground, "resourceslices", lambda one: one.is_tenants)


def _writers(ground: Ground, resource: str, counts: Callable[[Grant], bool]) -> Iterator[Spot]:
    own = _own_accounts(ground)
    for grant in grants(ground):
        if grant.namespace or grant.everything or grant.subject in own or not counts(grant):
            continue
        verbs = grant.writes(_GROUP, resource)
        if verbs:
            yield _may(grant, f"{some(list(verbs))} {resource}", "roleRef")


def everything_given(ground: Ground) -> Iterator[Spot]:
    """ACCESS-EVERYTHING: subjects beside the operators may do everything, and so write classes, slices and drivers."""
    own = _own_accounts(ground)
    for grant in grants(ground):
        if grant.everything and not grant.namespace and grant.is_tenants and grant.subject not in own:
            yield _may(grant, "do everything", "roleRef")


def drivers_changeable(ground: Ground) -> Iterator[Spot]:
    """ACCESS-DRIVERS: subjects beside the operators may change the DaemonSet of a driver, which is root on its nodes."""
    by_namespace: dict[str, list[Document]] = defaultdict(list)
    for driver in drivers(ground):
        by_namespace[driver.document.namespace].append(driver.document)
    own = _own_accounts(ground)
    for grant in grants(ground):
        if grant.everything or not grant.is_tenants or grant.subject in own:
            continue
        reached = [one for place, found in by_namespace.items() if grant.namespace in ("", place) for one in found]
        if reached and grant.writes("apps", "daemonsets"):
            yield _may(grant, f"change {some([one.title for one in reached])}", "roleRef")


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
    own = _own_accounts(ground)
    for grant in grants(ground):
        if grant.namespace or grant.everything or not grant.is_tenants or grant.subject in own:
            continue
        verbs = [verb for verb in ("create", "update", "patch") if grant.may(verb, "", "namespaces")]
        if verbs:
            yield _may(grant, f"{some(verbs)} namespaces, and so label them for admin access", "roleRef")


def _own_accounts(ground: Ground) -> frozenset[str]:
    """Accounts of what serves devices, and of operators that run beside them."""
    return frozenset(f"ServiceAccount {one.document.namespace}/{one.account}" for one in drivers(ground))


def _may(grant: Grant, what: str, field: str) -> Spot:
    given = seen(grant.document, f"{grant.subject} has {grant.role}", field)
    return Spot(f"{grant.document.title}", f"{grant.subject} may {what}, by {grant.document.title}", (given,))
