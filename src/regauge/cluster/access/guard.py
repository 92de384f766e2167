"""The door of a server on TCP: who comes in, and under which name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from regauge.cluster.access.identity import ANONYMOUS_PATHS, Tokens, User, user_of_certificate
from regauge.cluster.access.requests import impersonated, unauthorized
from regauge.cluster.access.tokens import AccountTokens
from regauge.cluster.refusals import failure
from regauge.cluster.store import Store
from regauge.kube import ApiError

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Lets in clients with a certificate of the cluster's authority or a known token; others see health and version.

    The Host header must name an address of the server, so that no web page reaches it through a name of its own (DNS
    rebinding).
    """

    def __init__(self, store: Store, tokens: Tokens, accounts: AccountTokens | None = None) -> None:
        self._store = store
        self._tokens = tokens
        self._accounts = accounts
        self._hosts: frozenset[str] = frozenset()

    def listen(self, host: str, port: int) -> None:
        """The address is known: these are the hosts that requests may name."""
        named = f"[{host}]" if ":" in host else host
        self._hosts = frozenset(f"{name}:{port}" for name in (*_LOOPBACK, named))

    def user(self, path: str, headers: Headers, peer: Mapping[str, Any] | None) -> User:
        """Who calls. Raises `ApiError` 401 for a stranger, 403 for a wrong Host or an impersonation not allowed."""
        if headers.get("host", "").lower() not in self._hosts:
            message = "the Host header names no address of this server"
            raise ApiError(403, "Forbidden", message, failure(403, "Forbidden", message))
        user = self._authenticated(headers, peer)
        if user is None:
            if path in ANONYMOUS_PATHS:
                return ANONYMOUS
            raise unauthorized()
        name, groups = headers.get("impersonate-user", ""), headers.getlist("impersonate-group")
        return impersonated(self._store, user, name, groups, headers.get("impersonate-uid", ""))

    def _authenticated(self, headers: Headers, peer: Mapping[str, Any] | None) -> User | None:
        found = user_of_certificate(peer)
        if found is not None:
            return found
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        found = self._tokens.user(token.strip())
        if found is None and self._accounts is not None:
            return self._accounts.user(self._store, token.strip())
        return found
