"""Requests and answers of the API without HTTP, and what the paths of objects mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regauge.cluster.access.identity import User
from regauge.cluster.refusals import failure
from regauge.cluster.registry import has_status, known
from regauge.cluster.serving import Catalog, stored_as
from regauge.cluster.subresources import SCALED
from regauge.kube import ApiError
from regauge.model import Kind
from regauge.model.kinds import NAMESPACE, POD, SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `actor` is who calls (field manager or user agent).

    With a `manager` who manages which fields is kept. Without a `user` the caller may do everything.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    body: bytes = b""
    actor: str = "unknown"
    manager: str = ""
    accept: str = ""
    user: User | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The code and the body: a JSON value, or plain text."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What a path means. `name` is empty for a collection. `served` is the kind as the path shows it."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    shown: Kind | None = None

    @property
    def served(self) -> Kind:
        return self.shown or self.kind


def refusal(error: ApiError) -> Answer:
    return Answer(error.code, error.status or failure(error.code, error.reason, error.message))


def find_target(catalog: Catalog, path: str) -> Target | None:
    """The object or collection that a path names, None when nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version, rest = "", *_split(parts, 1)
    elif parts[0] == "apis" and len(parts) > 2:
        group, (version, rest) = parts[1], _split(parts, 2)
    else:
        return None
    namespace = ""
    if not group and len(rest) == 3 and rest[0] == "namespaces" and rest[2] == "bindings":
        return Target(POD, rest[1], "", "binding")
    if len(rest) > 2 and rest[0] == "namespaces" and not (not group and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    served = catalog.find(group, version, rest[0])
    kind = stored_as(served) if served is not None else None
    if kind is None or (namespace and not kind.namespaced):
        return None
    name, subresource = [*rest[1:], "", ""][:2]
    if name and kind.namespaced and not namespace:
        return None
    return Target(kind, namespace, name, subresource, served) if _has(kind, subresource) else None


def _split(parts: list[str], at: int) -> tuple[str, list[str]]:
    return (parts[at] if len(parts) > at else ""), parts[at + 1 :]


def _has(kind: Kind, subresource: str) -> bool:
    match subresource:
        case "log" | "exec" | "attach" | "portforward" | "ephemeralcontainers" | "resize":
            return kind == POD
        case "scale":
            return kind in SCALED
        case "":
            return True
        case "status":
            return has_status(kind) or not known(kind)
        case "binding" | "eviction":
            return kind == POD
        case "token":
            return kind == SERVICE_ACCOUNT
        case "finalize":
            return kind == NAMESPACE
    return False


def unknown_path(catalog: Catalog, path: str) -> Answer:
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else None
    if parts[0] != "api" and group not in catalog.group_versions():
        return Answer(404, "404 page not found\n")
    message = "the server could not find the requested resource"
    return Answer(404, failure(404, "NotFound", message, {}))
