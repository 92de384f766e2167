"""Rules about rights around drivers: their accounts, what is inside of them, what upgrades them, what configures them."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.access import WRITES, gives_everything, is_tenant, may_some, tenants, writes
from regauge.audit.estate_access import may, own_accounts
from regauge.audit.estate_drivers import Driver, drivers
from regauge.audit.findings import Severity
from regauge.audit.ground import Ground, Spot, items, seen, some
from regauge.audit.policies_seen import are_known, guards
from regauge.model.rbac import Action, Grant, Rule

_GROUP = "resource.k8s.io"
_GRANULAR = "DRAResourceClaimGranularStatusAuthorization"
_CLUSTER_GROUPS = ("", "apps", "batch", "policy", "autoscaling", "extensions", "*")
_INSIDE = (
    ("create", "", "pods", "start pods under its account"),
    ("create", "", "pods/exec", "open a shell in it"),
    ("create", "", "pods/attach", "attach to it"),
    ("update", "", "pods/ephemeralcontainers", "put a container into it"),
    ("patch", "", "pods/ephemeralcontainers", "put a container into it"),
    ("create", "", "serviceaccounts/token", "take a token of its account"),
)
_ESCALATING = (
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("impersonate", "", "serviceaccounts"),
)


def wildcards(ground: Ground) -> Iterator[Spot]:
    """ACCESS-WILDCARD: the account of a driver has all verbs, or all resources, of a group."""
    for driver in drivers(ground):
        for grant in _of_driver(ground, driver):
            wide = [told for rule in grant.rules for told in _wide(rule)]
            if wide and not gives_everything(grant):
                what = f"{driver.document.title} runs as {driver.subject}, which has {some(wide)} by {grant.role}"
                yield Spot(grant.document.title, what, (seen(grant.document, f"gives {grant.role}", "roleRef"),))


def _wide(rule: Rule) -> Iterator[str]:
    groups = some([one or "core" for one in items(rule.get("apiGroups"))])
    verbs = [str(one) for one in items(rule.get("verbs"))]
    if "*" in verbs:
        yield f"all verbs on {some(list(items(rule.get('resources'))) or list(items(rule.get('nonResourceURLs'))))}"
    elif any(one in ("*", "*/*") for one in items(rule.get("resources"))) and set(WRITES) & set(verbs):
        yield f"{some(verbs)} on all resources of {groups}"


def slices_of_any_node(ground: Ground) -> Iterator[Spot]:
    """ACCESS-SLICES-ANY-NODE: a driver may write the slices of all nodes, and no policy keeps it to its own."""
    guarding = guards(ground, _GROUP, "resourceslices")
    if guarding:
        return
    for driver in drivers(ground):
        for grant in _of_driver(ground, driver):
            verbs = writes(grant, _GROUP, "resourceslices")
            if verbs and not grant.namespace and not gives_everything(grant):
                what = (
                    f"{driver.document.title} runs on every node as {driver.subject}, which may {some(list(verbs))} slices of"
                    " every other node, and no admission policy in the input looks at slices"
                )
                severity = None if are_known(ground) else Severity.NOTE
                evidence = (seen(grant.document, f"gives {grant.role}", "roleRef"),)
                yield Spot(grant.document.title, what, evidence, severity=severity)


def claim_status(ground: Ground) -> Iterator[Spot]:
    """ACCESS-CLAIM-STATUS: subjects beside scheduler and drivers may write allocations, or what drivers tell of devices."""
    granular = ground.rules.on(_GRANULAR)
    own = own_accounts(ground)
    for grant in ground.rights.grants:
        if grant.subject not in own and not is_tenant(ground, grant.subject):
            continue
        verbs = [
            verb
            for verb in ("update", "patch")
            if may_some(grant, verb, _GROUP, "resourceclaims/status", grant.namespace)
        ]
        if not verbs or gives_everything(grant):
            continue
        if not granular and grant.subject not in own:
            yield may(grant, f"{some(verbs)} the status of claims, allocations in it")
        elif granular:
            told = list(_granular(grant))
            if told:
                yield may(grant, some(told))


def _tenants(ground: Ground) -> tuple[Grant, ...]:
    return tuple(tenants(ground, own_accounts(ground)))


def _granular(grant: Grant) -> Iterator[str]:
    """What a grant allows beyond the status of the subject's own devices on its own node. Binding is asked for all claims."""
    if any(grant.allows(Action(verb, _GROUP, "resourceclaims", "binding")) for verb in ("update", "patch")):
        yield "write allocations of all claims (resourceclaims/binding)"
    place = grant.namespace or "any"
    for prefix, told in (("arbitrary-node", "on all nodes"), ("associated-node", "on their node")):
        for verb in ("update", "patch"):
            if grant.allows(Action(f"{prefix}:{verb}", _GROUP, "resourceclaims", "driver", place, "driver.of.nobody")):
                yield f"tell of devices of every driver {told} ({prefix}:{verb} resourceclaims/driver)"
                return


def status_refused(ground: Ground) -> Iterator[Spot]:
    """DRIVER-STATUS-REFUSED: a driver may update claims, and not the part of their status that tells of its devices."""
    rules = ground.given.to or ground.rules
    if not rules.on(_GRANULAR):
        return
    for driver in drivers(ground):
        given = _of_driver(ground, driver)
        names = {
            "driver.of.nobody",
            *(str(n) for one in given for rule in one.rules for n in items(rule.get("resourceNames"))),
        }
        for verb in ("update", "patch"):
            if not any(may_some(one, verb, _GROUP, "resourceclaims/status") for one in given):
                continue
            told = [f"{prefix}:{verb}" for prefix in ("associated-node", "arbitrary-node")]
            asked = [Action(one, _GROUP, "resourceclaims", "driver", "any", name) for one in told for name in names]
            if not any(one.allows(action) for one in given for action in asked):
                what = (
                    f"{driver.document.title} may {verb} the status of claims, not {told[0]} on resourceclaims/driver"
                )
                yield Spot(
                    driver.document.title, what, tuple(seen(one.document, f"gives {one.role}") for one in given[:3])
                )


def inside_drivers(ground: Ground) -> Iterator[Spot]:
    """ACCESS-DRIVER-INSIDE: subjects beside the operators may get into a driver's pods, or run as it."""
    for place, found in _by_namespace(ground).items():
        for grant in _tenants(ground):
            if not grant.reaches(place):
                continue
            ways = [told for verb, group, resource, told in _INSIDE if may_some(grant, verb, group, resource, place)]
            if ways:
                yield may(grant, f"{some(ways)} ({some(found)})")


def releases(ground: Ground) -> Iterator[Spot]:
    """ACCESS-RELEASES: subjects beside the operators may write what a driver is upgraded or configured from."""
    for place, found in _by_namespace(ground).items():
        for grant in _tenants(ground):
            told = [
                f"{some(list(verbs))} {resource}"
                for resource in ("secrets", "configmaps")
                if grant.reaches(place) and (verbs := writes(grant, "", resource, place))
            ]
            if told:
                yield may(
                    grant, f"{some(told)} of namespace {place}, from which {some(found)} is released and configured"
                )


def driver_config(ground: Ground) -> Iterator[Spot]:
    """ACCESS-DRIVER-CONFIG: subjects beside the operators may write objects that configure drivers."""
    vendors = {".".join(one.spec.driver.split(".")[-2:]): one.spec.driver for one in ground.newest}
    for grant in _tenants(ground):
        told = []
        for rule in grant.rules:
            for group in items(rule.get("apiGroups")):
                vendor = ".".join(str(group).split(".")[-2:])
                kinds = [str(one) for one in items(rule.get("resources"))]
                if (
                    group not in _CLUSTER_GROUPS
                    and vendor in vendors
                    and any(one in ("*", *WRITES) for one in items(rule.get("verbs")))
                ):
                    told.append(f"write {some(kinds)} of {group}, which is of {vendors[vendor]}")
        if told:
            yield may(grant, some(told))


def escalating(ground: Ground) -> Iterator[Spot]:
    """ACCESS-ESCALATION: subjects beside the operators may give themselves any right."""
    for grant in _tenants(ground):
        if grant.namespace:
            continue
        told = [f"{verb} {resource}" for verb, group, resource in _ESCALATING if may_some(grant, verb, group, resource)]
        if told:
            yield may(grant, f"{some(told)}, and so have any right")


def _of_driver(ground: Ground, driver: Driver) -> list[Grant]:
    return [one for one in ground.rights.grants if one.subject == driver.subject]


def _by_namespace(ground: Ground) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for driver in drivers(ground):
        found.setdefault(driver.document.namespace, []).append(driver.document.title)
    return found
