"""kubeconfig: which server, which certificates, which credentials. Read as kubectl reads it.

`KUBECONFIG` may name several files: for each name the first file that has it wins, as does the first current-context.
Relative paths are relative to the file that names them. Source: client-go tools/clientcmd.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regauge.base import InputError, Where

IN_CLUSTER_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
MAX_CONFIG_BYTES = 10 * 1024 * 1024
_PATHS = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials (`ExecCredential`)."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    install_hint: str = ""
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    """All that is needed to reach one API server. Certificates are PEM text; secrets are not shown by `repr`."""

    server: str
    namespace: str = "default"
    context: str = ""
    ca_pem: str = ""
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    client_certificate_pem: str = field(default="", repr=False)
    client_key_pem: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()


def load_connection(
    environment: Mapping[str, str], *, kubeconfig: str = "", context: str = "", home: str = ""
) -> Connection:
    """The connection of a context (the current one when `context` is empty).

    Looked for in: `kubeconfig`, `$KUBECONFIG`, `~/.kube/config`, and the service account of a pod. A server of
    `unix:/path` is an API server on a unix socket. Raises `InputError` that names file and entry.
    """
    merged = _merged(_files(environment, kubeconfig, home))
    if merged is None:
        inside = _in_cluster(environment)
        if inside is None:
            raise InputError(
                "there is no kubeconfig and this is no pod of a cluster",
                fix="set KUBECONFIG, or say --kubeconfig FILE",
            )
        return inside
    name = context or str(merged["current-context"] or "")
    if not name:
        raise InputError(
            "no current-context is set", where=Where(file=merged["files"]), fix="say which with --context NAME"
        )
    return _connection(merged, name)


def context_names(environment: Mapping[str, str], *, kubeconfig: str = "", home: str = "") -> tuple[str, ...]:
    """The contexts that may be named, sorted; none where there is no kubeconfig. Raises `InputError` as `load_connection`."""
    merged = _merged(_files(environment, kubeconfig, home))
    return tuple(sorted(merged["contexts"])) if merged is not None else ()


def _files(environment: Mapping[str, str], kubeconfig: str, home: str) -> list[str]:
    if kubeconfig:
        return [kubeconfig]
    listed = [path for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]
    if listed:
        return listed
    default = os.path.join(home or environment.get("HOME", ""), ".kube", "config")
    return [default] if os.path.exists(default) else []


def _merged(paths: list[str]) -> dict[str, Any] | None:
    """All files as one. A file of a list that is missing is passed over; when all are missing it is an error."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": "", "files": ""}
    read = 0
    for path in paths:
        if not os.path.exists(path) and len(paths) > 1:
            continue
        document = _read(path)
        read += 1
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for section, entry in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in document.get(section) or []:
                name, value = _entry(path, section, entry, item)
                merged[section].setdefault(name, (_absolute(path, entry, value), path))
    merged["files"] = os.pathsep.join(paths)
    if paths and not read:
        raise InputError(
            "none of the kubeconfig files exists", where=Where(file=merged["files"]), fix="check KUBECONFIG"
        )
    return merged if read else None


def _read(path: str) -> dict[str, Any]:
    where = Where(file=path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"the kubeconfig cannot be read: {error.strerror}", where=where, fix="check KUBECONFIG or --kubeconfig"
        ) from None
    if len(data) > MAX_CONFIG_BYTES:
        raise InputError("this is too large for a kubeconfig", where=where, fix="name another file")
    try:
        document = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise InputError(f"the kubeconfig is not YAML: {error}", where=where, fix="correct or replace it") from None
    if document is not None and not isinstance(document, dict):
        raise InputError("a kubeconfig is a mapping", where=where, fix="correct or replace it")
    return document or {}


def _entry(path: str, section: str, entry: str, item: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise InputError("an entry has no name", where=Where(file=path, field=section), fix="name every entry")
    value = item.get(entry) or {}
    if not isinstance(value, dict):
        place = Where(file=path, object=item["name"], field=f"{section}.{entry}")
        raise InputError("this must be a mapping", where=place, fix="correct the entry")
    return item["name"], value


def _absolute(path: str, entry: str, value: dict[str, Any]) -> dict[str, Any]:
    base = os.path.dirname(os.path.abspath(path))
    changed: dict[str, Any] = {
        name: os.path.join(base, value[name]) for name in _PATHS.get(entry, ()) if value.get(name)
    }
    command = (value.get("exec") or {}).get("command") if isinstance(value.get("exec"), dict) else None
    if command and os.sep in command:
        changed["exec"] = {**value["exec"], "command": os.path.join(base, command)}
    return {**value, **changed}


def _connection(merged: dict[str, Any], name: str) -> Connection:
    context, path = _find(merged, "contexts", name, "--context, or the current-context,")
    cluster, cluster_path = _find(merged, "clusters", str(context.get("cluster") or ""), f"context {name}")
    user: dict[str, Any] = {}
    if context.get("user"):
        user, path = _find(merged, "users", str(context["user"]), f"context {name}")
    if not cluster.get("server"):
        raise InputError(
            "the cluster has no server",
            where=Where(file=cluster_path, object=str(context["cluster"])),
            fix="give it a server",
        )
    return Connection(
        server=str(cluster["server"]).rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        context=name,
        ca_pem=_pem(cluster, "certificate-authority", cluster_path),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
        client_certificate_pem=_pem(user, "client-certificate", path),
        client_key_pem=_pem(user, "client-key", path),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        exec=_exec(user.get("exec"), path),
        impersonate=_impersonation(user),
    )


def _find(merged: dict[str, Any], section: str, name: str, by: str) -> tuple[dict[str, Any], str]:
    if name not in merged[section]:
        known = ", ".join(sorted(merged[section])) or "none"
        raise InputError(
            f"{by} names {section[:-1]} {name!r}, which is not there",
            where=Where(file=merged["files"], field=section),
            fix=f"known: {known}",
        )
    found: tuple[dict[str, Any], str] = merged[section][name]
    return found


def _pem(entry: dict[str, Any], field_: str, path: str) -> str:
    """The PEM text of FIELD-data (base64), else of the file that FIELD names."""
    data = entry.get(f"{field_}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=False).decode()
        except ValueError:
            place = Where(file=path, field=f"{field_}-data")
            raise InputError("this is not base64 of PEM text", where=place, fix="correct it") from None
    if not entry.get(field_):
        return ""
    try:
        return Path(entry[field_]).read_text()
    except OSError as error:
        place = Where(file=path, field=field_)
        what = f"{entry[field_]} cannot be read: {error.strerror}"
        raise InputError(what, where=place, fix="check the path and its permissions") from None


def _exec(value: Any, path: str) -> ExecPlugin | None:
    if not value:
        return None
    place = Where(file=path, field="exec")
    if not isinstance(value, dict) or not value.get("command"):
        raise InputError("exec needs a command", where=place, fix="correct the user's entry")
    env = tuple((str(item["name"]), str(item.get("value") or "")) for item in value.get("env") or [] if "name" in item)
    return ExecPlugin(
        command=str(value["command"]),
        args=tuple(str(item) for item in value.get("args") or ()),
        env=env,
        api_version=str(value.get("apiVersion") or "client.authentication.k8s.io/v1"),
        provide_cluster_info=bool(value.get("provideClusterInfo")),
        install_hint=str(value.get("installHint") or ""),
        directory=os.path.dirname(os.path.abspath(path)),
    )


def _impersonation(user: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    headers = []
    if user.get("as"):
        headers.append(("Impersonate-User", str(user["as"])))
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or []]
    return tuple(headers)


def _in_cluster(environment: Mapping[str, str]) -> Connection | None:
    """The service account that every pod is given."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = Path(environment.get("REGAUGE_SERVICE_ACCOUNT_DIR", IN_CLUSTER_DIRECTORY)) / "token"
    if not host or not port or not token.exists():
        return None
    namespace = token.parent / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        context="in-cluster",
        ca_pem=(token.parent / "ca.crt").read_text(),
        token_file=str(token),
    )
