"""What each group, user and account may do with what decides about devices: what `kubectl auth can-i` says, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regauge.audit.access import is_tenant, may_some
from regauge.audit.estate_drivers import drivers
from regauge.audit.ground import Ground
from regauge.model.rbac import MASTERS, Grant, Subject

MATRIX_SCHEMA = "regauge.rights/v1"
_DRA = "resource.k8s.io"
_WRITING = ("create", "update", "patch", "delete")
ALL, CLUSTER, DRIVERS = "any namespace", "", "the namespaces of drivers"

DEEDS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    ("write classes", _DRA, "deviceclasses", _WRITING, CLUSTER),
    ("write slices", _DRA, "resourceslices", _WRITING, CLUSTER),
    ("write taint rules", _DRA, "devicetaintrules", _WRITING, CLUSTER),
    ("ask for devices", _DRA, "resourceclaims", ("create",), ALL),
    ("write claim status", _DRA, "resourceclaims/status", ("update", "patch"), ALL),
    ("bind claims", _DRA, "resourceclaims/binding", ("update", "patch"), CLUSTER),
    ("label namespaces", "", "namespaces", ("update", "patch"), CLUSTER),
    ("change drivers", "apps", "daemonsets", _WRITING, DRIVERS),
    ("enter drivers", "", "pods/exec", ("create",), DRIVERS),
    ("write driver secrets", "", "secrets", _WRITING, DRIVERS),
    ("write driver config", "", "configmaps", _WRITING, DRIVERS),
)
"""What is asked: (title, group, resource, verbs, where). One verb that is allowed is enough."""


@dataclass(frozen=True, slots=True)
class Row:
    """One subject: whether it is a tenant, and for each deed where it may ("" nowhere) and by which bindings."""

    subject: str
    tenant: bool
    may: Mapping[str, str]
    by: Mapping[str, tuple[str, ...]]


def rights_matrix(ground: Ground) -> tuple[Row, ...]:
    """Everybody whom a binding names and who may do any of `DEEDS`, tenants first. Groups that come with a subject count."""
    places = tuple(sorted({one.document.namespace for one in drivers(ground)}))
    rows = [_row(ground, subject, places) for subject in ground.rights.subjects]
    return tuple(sorted((one for one in rows if any(one.may.values())), key=lambda one: (not one.tenant, one.subject)))


def _row(ground: Ground, subject: Subject, places: tuple[str, ...]) -> Row:
    who = subject.who
    given = ground.rights.of_caller(who)
    may: dict[str, str] = {}
    by: dict[str, tuple[str, ...]] = {}
    for title, group, resource, verbs, where in DEEDS:
        ways = [(one, place) for one in given if (place := _where(one, group, resource, verbs, where, places))]
        may[title] = "everywhere" if MASTERS in who.groups else _told([place for _, place in ways])
        by[title] = tuple(dict.fromkeys(one.document.title for one, _ in ways))
    return Row(str(subject), is_tenant(ground, subject), may, by)


def _where(grant: Grant, group: str, resource: str, verbs: tuple[str, ...], where: str, places: tuple[str, ...]) -> str:
    """Where a grant allows any of the verbs; "" for nowhere."""
    if grant.namespace and where == CLUSTER:
        return ""
    if where == DRIVERS:
        asked: tuple[str, ...] = tuple(one for one in places if grant.reaches(one))
    else:
        asked = (grant.namespace,)
    found = [one for one in asked if any(may_some(grant, verb, group, resource, one) for verb in verbs)]
    return "everywhere" if found and not grant.namespace else ", ".join(found)


def _told(places: list[str]) -> str:
    return "everywhere" if "everywhere" in places else ", ".join(sorted(set(places)))


def matrix_document(source: str, rows: tuple[Row, ...]) -> dict[str, Any]:
    """The table as JSON."""
    return {
        "schema": MATRIX_SCHEMA,
        "source": source,
        "deeds": [
            {"title": title, "group": group, "resource": resource, "verbs": list(verbs)}
            for title, group, resource, verbs, _ in DEEDS
        ],
        "subjects": [
            {
                "subject": one.subject,
                "tenant": one.tenant,
                "may": [
                    {"deed": title, "where": place, "by": list(one.by[title])}
                    for title, place in one.may.items()
                    if place
                ],
            }
            for one in rows
        ],
    }
