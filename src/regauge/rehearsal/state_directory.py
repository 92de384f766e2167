"""The directory of one lasting cluster: its store, certificates, tokens and kubeconfig. Only its owner may look in.

Certificates are made once and again when they end within a week; what cannot be read is kept aside and made anew.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from regauge.base import InputError
from regauge.cluster.access.certificates import Pair, expires_s, new_authority, new_client, new_server
from regauge.cluster.access.identity import ADMIN, MASTERS
from regauge.host import RealFiles

RENEW_BEFORE_S = 7 * 86400.0
STORE = "store.db"
LOCK = "lock"
NODES = "nodes"
KUBECONFIG = "kubeconfig"
CLUSTER = "regauge"
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the server and its administrator prove themselves with."""

    authority: Pair
    admin: Pair
    token: str


class StateDirectory:
    """A directory with mode 0700, made when it is missing. Raises `InputError` when others can get into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = RealFiles()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise InputError(f"{path} belongs to another user", fix="choose a directory of your own with --state")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise InputError(f"{path} is open to other users", fix=f"chmod 700 {path}, or choose another directory")

    def place(self, name: str) -> str:
        return str(self.path / name)

    def credentials(self, now_s: float) -> Credentials:
        """The authority, the administrator's certificate and the administrator's token."""
        authority = self._pair("ca", lambda: new_authority(f"{CLUSTER}-ca", now_s), now_s)
        admin = self._pair("admin", lambda: new_client(authority, ADMIN, [MASTERS], now_s), now_s, authority)
        token_path = self.path / "token"
        if not token_path.exists():
            self._files.write(str(token_path), secrets.token_urlsafe(32).encode(), 0o600)
        return Credentials(authority, admin, token_path.read_text().strip())

    def accounts_key(self) -> bytes:
        """What the tokens of service accounts are signed with. Made once."""
        path = self.path / "accounts.key"
        if not path.exists():
            self._files.write(str(path), secrets.token_bytes(KEY_BYTES), 0o600)
        return path.read_bytes()

    def server(self, authority: Pair, addresses: Sequence[str], now_s: float) -> None:
        """Write the server's certificate for these addresses."""
        self._write("server", new_server(authority, addresses, now_s))

    def _pair(self, name: str, make: Callable[[], Pair], now_s: float, issuer: Pair | None = None) -> Pair:
        certificate, key = self.path / f"{name}.crt", self.path / f"{name}.key"
        mark = self.path / f"{name}.issuer"
        wanted = issuer.certificate if issuer else b""
        if certificate.exists() and key.exists() and (mark.read_bytes() if mark.exists() else b"") == wanted:
            found = Pair(certificate.read_bytes(), key.read_bytes())
            try:
                if expires_s(found) > now_s + RENEW_BEFORE_S:
                    return found
            except ValueError:
                os.replace(certificate, f"{certificate}.unreadable")
        made = make()
        self._write(name, made)
        if issuer:
            self._files.write(str(mark), wanted, 0o600)
        return made

    def _write(self, name: str, pair: Pair) -> None:
        self._files.write(self.place(f"{name}.key"), pair.key, 0o600)
        self._files.write(self.place(f"{name}.crt"), pair.certificate, 0o600)

    def write_kubeconfig(self, path: Path, server: str, credentials: Credentials) -> None:
        """The administrator's kubeconfig, mode 0600. A file that is there and is not ours is not touched."""
        if path.exists() and not _ours(path):
            raise InputError(f"{path} is a kubeconfig of something else", fix="choose another file with --kubeconfig")
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": CLUSTER,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _text(credentials.authority.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": ADMIN,
                    "user": {
                        "client-certificate-data": _text(credentials.admin.certificate),
                        "client-key-data": _text(credentials.admin.key),
                    },
                }
            ],
            "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": ADMIN}}],
            "current-context": CLUSTER,
        }
        self._files.write(str(path), yaml.safe_dump(document, sort_keys=False).encode(), 0o600)


def _ours(path: Path) -> bool:
    """Whether a kubeconfig names our cluster and nothing else."""
    try:
        found = yaml.safe_load(path.read_bytes())
        return [item["name"] for item in found["clusters"]] == [CLUSTER]
    except (OSError, yaml.YAMLError, TypeError, KeyError):
        return False


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
