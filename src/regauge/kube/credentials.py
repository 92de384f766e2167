"""What goes into the Authorization header: tokens, files that are rotated, programs that print credentials."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from regauge.base import InputError, TransientError
from regauge.kube.config import Connection, ExecPlugin

TOKEN_FILE_FRESH_S = 60.0
EXEC_TIMEOUT_S = 60.0
EXEC_OUTPUT_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a program printed. `expires_s` is wall time, None for no end."""

    token: str
    certificate_pem: str
    key_pem: str
    expires_s: float | None


class Credentials:
    """The headers for one connection. Files are read again after a minute, programs run again when told to expire."""

    def __init__(self, connection: Connection, environment: Mapping[str, str]) -> None:
        self._connection = connection
        self._environment = environment
        self._file_token = ""
        self._file_read_s = -TOKEN_FILE_FRESH_S
        self._exec: ExecCredential | None = None

    async def headers(self) -> dict[str, str]:
        connection = self._connection
        if connection.exec is not None and not (connection.token or connection.token_file):
            credential = await self.exec_credential()
            return {"Authorization": f"Bearer {credential.token}"} if credential.token else {}
        if connection.token_file:
            return {"Authorization": f"Bearer {self._token_of_file()}"}
        if connection.token:
            return {"Authorization": f"Bearer {connection.token}"}
        if connection.username:
            pair = f"{connection.username}:{connection.password}".encode()
            return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
        return {}

    async def exec_credential(self) -> ExecCredential:
        """The credentials of the exec plugin; it runs when there are none or they are over."""
        plugin = self._connection.exec
        if plugin is None:
            return ExecCredential("", "", "", None)
        known = self._exec
        if known is None or (known.expires_s is not None and known.expires_s <= time.time()):
            known = self._exec = await run_plugin(plugin, self._connection, self._environment)
        return known

    def forget(self) -> None:
        """The server did not take them: get new ones next time."""
        self._exec = None
        self._file_read_s = -TOKEN_FILE_FRESH_S

    def _token_of_file(self) -> str:
        if time.monotonic() - self._file_read_s >= TOKEN_FILE_FRESH_S:
            try:
                self._file_token = Path(self._connection.token_file).read_text().strip()
            except OSError as error:
                if not self._file_token:
                    what = f"the token file {self._connection.token_file} cannot be read: {error.strerror}"
                    raise InputError(what, fix="check tokenFile in the kubeconfig") from None
            self._file_read_s = time.monotonic()
        return self._file_token


async def run_plugin(plugin: ExecPlugin, connection: Connection, environment: Mapping[str, str]) -> ExecCredential:
    """Run the program that the kubeconfig names and read its ExecCredential.

    Raises `InputError` when it is missing or prints something else, `TransientError` when it fails or takes too long.
    """
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = {
            "server": connection.server,
            "certificate-authority-data": base64.b64encode(connection.ca_pem.encode()).decode(),
            "insecure-skip-tls-verify": connection.insecure,
        }
    asked = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    variables = {**environment, **dict(plugin.env), "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=variables,
            cwd=plugin.directory if os.path.isdir(plugin.directory) else None,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=EXEC_OUTPUT_LIMIT_BYTES,
        )
    except OSError as error:
        hint = plugin.install_hint or "install it, or correct exec in the kubeconfig"
        raise InputError(f"the credential plugin {plugin.command} cannot run: {error.strerror}", fix=hint) from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), EXEC_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise TransientError(f"the credential plugin {plugin.command} took over {EXEC_TIMEOUT_S:g} s") from None
    if process.returncode:
        told = err.decode(errors="replace").strip()[-500:]
        raise TransientError(f"the credential plugin {plugin.command} failed with code {process.returncode}: {told}")
    return _read_credential(plugin, out)


def _read_credential(plugin: ExecPlugin, out: bytes) -> ExecCredential:
    try:
        document = json.loads(out)
        status = document["status"]
        found = ExecCredential(
            token=str(status.get("token") or ""),
            certificate_pem=str(status.get("clientCertificateData") or ""),
            key_pem=str(status.get("clientKeyData") or ""),
            expires_s=_seconds(status.get("expirationTimestamp")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        what = f"the credential plugin {plugin.command} printed no ExecCredential with a status"
        raise InputError(what, fix="run it by hand and look at what it prints") from None
    if not found.token and not found.certificate_pem:
        what = f"the credential plugin {plugin.command} gave neither a token nor a certificate"
        raise InputError(what, fix="log in again with it")
    return found


def _seconds(text: Any) -> float | None:
    if not text:
        return None
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
