"""Who calls: users of client certificates, of bearer tokens, and those somebody acts as. Pure.

Source: apiserver pkg/authentication (x509, tokens, impersonation) of 1.36.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ANONYMOUS_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
CREDENTIAL = "regauge.credential"
ADMIN = "kubernetes-admin"


@dataclass(frozen=True, slots=True)
class User:
    """A caller whose name has been proven. `credential` names what proved it, as upstream tells it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    credential: str = ""

    @property
    def service_account(self) -> tuple[str, str] | None:
        """Namespace and name when this is a service account."""
        parts = self.name.split(":")
        return (parts[2], parts[3]) if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"] else None


def user_of_certificate(peer: Mapping[str, Any] | None) -> User | None:
    """The user of a verified client certificate, as `ssl.SSLSocket.getpeercert` gives it."""
    if not peer:
        return None
    pairs = [pair for part in peer.get("subject") or () for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    groups = [value for key, value in pairs if key == "organizationName"]
    if not names or not names[-1]:
        return None
    return replace(authenticated(names[-1], groups), credential=str(peer.get(CREDENTIAL) or ""))


def authenticated(name: str, groups: Sequence[str], uid: str = "") -> User:
    return User(name, tuple(dict.fromkeys([*groups, AUTHENTICATED])), uid)


class Tokens:
    """Bearer tokens. Compared in constant time."""

    def __init__(self, known: Mapping[str, User]) -> None:
        self._known = [(token.encode(), user) for token, user in known.items() if token]

    def user(self, token: str) -> User | None:
        found = None
        for known, user in self._known:
            if hmac.compare_digest(known, token.encode()):
                found = user
        return found
