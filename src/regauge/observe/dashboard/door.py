"""Who comes in: requests that name this server, with its token where one is asked for. Pure.

The Host header must name an address of the server, so that no web page reaches it through a name of its own (DNS
rebinding), and a browser that says that another site makes the request is refused.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from enum import Enum

COOKIE = "regauge-dashboard"
SHORTEST_TOKEN = 16
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_OUR_SITES = ("", "none", "same-origin")
_LINKED = "navigate"


class Entry(Enum):
    """What a request may do."""

    WELCOME = "welcome"
    STRANGER = "stranger"
    WRONG_HOST = "wrong host"
    FOREIGN_SITE = "foreign site"


class Door:
    """`token` is what readers must show, "" for nothing; `key` is chance of this run, from which the cookie is made.

    `names` are names under which readers reach the server, beside loopback and the address it listens on; with a port where
    that is another.
    """

    def __init__(self, token: str, key: bytes, names: Iterable[str] = ()) -> None:
        self._token = token
        self._cookie = hmac.new(key, token.encode(), hashlib.sha256).hexdigest()
        self._names = tuple(name.lower() for name in names)
        self._hosts: frozenset[str] = frozenset()
        self.cookie_name = COOKIE

    def listen(self, host: str, port: int) -> None:
        """The address is known: these are the hosts that requests may name."""
        own = f"[{host}]" if ":" in host else host
        found = {f"{name}:{port}" for name in (*_LOOPBACK, own, *self._names)}
        self._hosts = frozenset({*found, *self._names})
        self.cookie_name = f"{COOKIE}-{port}"  # browsers keep one set of cookies for all ports of a host

    @property
    def asks(self) -> bool:
        """Whether a token is asked for."""
        return bool(self._token)

    @property
    def cookie(self) -> str:
        """What a browser keeps instead of the token: good for this run of the server only."""
        return self._cookie

    def known(self, token: str) -> bool:
        """Whether this is the token. Takes as long for any that is not."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def entry(self, headers: Mapping[str, str], cookies: Mapping[str, str], *, public: bool = False) -> Entry:
        """What a request may do. `public`: it asks for what anybody may see, such as the page that asks for the token."""
        if headers.get("host", "").lower() not in self._hosts:
            return Entry.WRONG_HOST
        ours = headers.get("sec-fetch-site", "") in _OUR_SITES
        linked = public and headers.get("sec-fetch-mode", "") == _LINKED
        if not ours and not linked:
            return Entry.FOREIGN_SITE
        if public or not self._token:
            return Entry.WELCOME
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.known(token.strip()):
            return Entry.WELCOME
        return Entry.WELCOME if hmac.compare_digest(cookies.get(self.cookie_name, ""), self._cookie) else Entry.STRANGER
