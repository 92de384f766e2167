"""What a request asks for in terms of authorization, whom it is made as, and the refusals. Pure.

Source: apiserver pkg/endpoints/request/requestinfo.go and pkg/endpoints/filters of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regauge.cluster.access.identity import User, authenticated
from regauge.cluster.access.rbac import allowed
from regauge.cluster.refusals import failure
from regauge.cluster.store import Store
from regauge.kube import ApiError, Forbidden
from regauge.model.rbac import Action

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_TRUE = ("1", "true", "True")


def action_of(method: str, path: str, query: Mapping[str, str]) -> Action:
    """What a request does, read from its method and path alone."""
    parts = [part for part in path.split("/") if part]
    if not parts or parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4):
        return Action(_VERBS.get(method, method.lower()), path=path)
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    resource, name, subresource = [*rest[:3], "", "", ""][:3]
    verb = _VERBS.get(method, method.lower())
    if not name and verb == "get":
        verb = "watch" if query.get("watch") in _TRUE else "list"
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Action(verb, group, resource, subresource, namespace, name)


def check(store: Store, user: User, action: Action) -> None:
    """Raises `Forbidden` in upstream's words when the user may not."""
    if not allowed(store, user, action):
        raise refused(user, action)


def refused(user: User, action: Action) -> Forbidden:
    if action.path:
        message = f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"'
        return Forbidden(403, "Forbidden", message, failure(403, "Forbidden", message, {}))
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    title = f"{action.resource}.{action.group}" if action.group else action.resource
    named = f'{title} "{action.name}"' if action.name else title
    why = f'cannot {action.verb} resource "{action.full_resource}" in API group "{action.group}" {where}'
    message = f'{named} is forbidden: User "{user.name}" {why}'
    details = {
        **({"name": action.name} if action.name else {}),
        **({"group": action.group} if action.group else {}),
        "kind": action.resource,
    }
    return Forbidden(403, "Forbidden", message, failure(403, "Forbidden", message, details))


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized", failure(401, "Unauthorized", "Unauthorized"))


def impersonated(store: Store, user: User, name: str, groups: Sequence[str], uid: str = "") -> User:
    """Whom a request is made as, when its headers ask for that. Raises `Forbidden` when the user may not."""
    if not name and not groups and not uid:
        return user
    if not name:
        message = "requested [{Group }] without impersonating a user"
        raise ApiError(500, "InternalError", message, failure(500, "InternalError", message))
    parts = name.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        check(store, user, Action("impersonate", "", "serviceaccounts", namespace=parts[2], name=parts[3]))
        groups = [*groups, "system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
    else:
        check(store, user, Action("impersonate", "", "users", name=name))
    for group in groups:
        check(store, user, Action("impersonate", "", "groups", name=group))
    if uid:
        check(store, user, Action("impersonate", "authentication.k8s.io", "uids", name=uid))
    return authenticated(name, groups, uid)
