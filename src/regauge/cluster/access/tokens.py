"""Tokens of service accounts: made on request, signed by the cluster, and read again when somebody comes with one.

Source: pkg/registry/core/serviceaccount/storage/token.go, pkg/serviceaccount/claims.go of 1.36. The signature is an HMAC
with a key that never leaves the state directory: nobody but this server checks these tokens.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from regauge.base import Clock
from regauge.cluster.access.identity import User, authenticated
from regauge.cluster.deletion import timestamp
from regauge.cluster.refusals import FieldError, invalid, invalid_object, not_found
from regauge.cluster.store import Store
from regauge.model import Kind, Object, find_kind
from regauge.model.kinds import POD, SECRET, SERVICE_ACCOUNT

ISSUER = "https://kubernetes.default.svc"
LIFETIME_S = 3600
SHORTEST_S = 600
LONGEST_S = 2**32
_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")
_HEADER = {"alg": "HS256", "typ": "JWT"}


class AccountTokens:
    """Makes and reads the tokens of service accounts."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def requested(self, store: Store, namespace: str, name: str, body: Object, uid: str) -> Object:
        """The TokenRequest with its token. `uid` names the token. Raises `NotFound` and `Invalid`."""
        account = store.find(SERVICE_ACCOUNT, (namespace, name))
        if account is None:
            raise not_found(SERVICE_ACCOUNT, name)
        spec: dict[str, Any] = {"audiences": [ISSUER], "expirationSeconds": LIFETIME_S, "boundObjectRef": None}
        spec |= {key: item for key, item in (body.get("spec") or {}).items() if item not in (None, [])}
        _check(spec)
        now_s = int(self._clock.now_s())
        until_s = now_s + int(spec["expirationSeconds"])
        bound = _bound(store, namespace, spec["boundObjectRef"])
        claims = {
            "aud": spec["audiences"],
            "exp": until_s,
            "iat": now_s,
            "iss": ISSUER,
            "jti": uid,
            "kubernetes.io": {
                "namespace": namespace,
                **bound,
                "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
            },
            "nbf": now_s,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        metadata = {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now_s)}
        return {
            "kind": _REQUEST.kind,
            "apiVersion": _REQUEST.api_version,
            "metadata": metadata,
            "spec": spec,
            "status": {"token": self._signed(claims), "expirationTimestamp": timestamp(until_s)},
        }

    def _signed(self, claims: Mapping[str, Any]) -> str:
        text = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{text}.{_base64(self._signature(text))}"

    def _signature(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), hashlib.sha256)

    def user(self, store: Store, token: str) -> User | None:
        """Who comes with this token; None for one that is not ours, is over, or whose account is gone."""
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(_base64(self._signature(text)).encode(), signature.encode()):
            return None
        claims = msgspec.json.decode(_decoded(text.partition(".")[2]))
        about = claims["kubernetes.io"]
        account = about["serviceaccount"]
        found = store.find(SERVICE_ACCOUNT, (about["namespace"], account["name"]))
        now_s = self._clock.now_s()
        if not claims["nbf"] <= now_s < claims["exp"] or ISSUER not in claims["aud"]:
            return None
        if found is None or found["metadata"]["uid"] != account["uid"] or not _still_there(store, about):
            return None
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{about['namespace']}"]
        return replace(authenticated(claims["sub"], groups, account["uid"]), credential=f"JTI={claims['jti']}")


def _check(spec: Mapping[str, Any]) -> None:
    seconds, path = int(spec["expirationSeconds"]), "spec.expirationSeconds"
    errors: list[FieldError] = []
    if seconds < SHORTEST_S:
        errors.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > LONGEST_S:
        errors.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
    if errors:
        raise invalid_object(_REQUEST, "", errors)


def _bound(store: Store, namespace: str, reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the token holds as long as: a pod or a secret of the namespace."""
    if not reference:
        return {}
    kind = find_kind(reference.get("apiVersion") or "v1", reference.get("kind") or "")
    if kind not in (POD, SECRET):
        text = f"cannot bind token to object of type {reference.get('kind')}"
        raise invalid_object(_REQUEST, "", [invalid("spec.boundObjectRef.kind", reference.get("kind"), text)])
    found = store.find(kind, (namespace, reference.get("name") or ""))
    if found is None:
        raise not_found(kind, reference.get("name") or "")
    return {kind.kind.lower(): {"name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}}


def _still_there(store: Store, about: Mapping[str, Any]) -> bool:
    for kind in (POD, SECRET):
        bound = about.get(kind.kind.lower())
        if bound is not None:
            found = store.find(kind, (about["namespace"], bound["name"]))
            if found is None or found["metadata"]["uid"] != bound["uid"]:
                return False
    return True


def _encoded(value: Mapping[str, Any]) -> str:
    return _base64(msgspec.json.encode(value))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
