"""kubeconfig files: found, merged, read as kubectl does, and refused in words."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from regauge.base import InputError, TransientError
from regauge.kube.config import Connection, ExecPlugin, load_connection
from regauge.kube.credentials import Credentials, run_plugin


def config(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    return {**document, **changes}


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


def load(path: str, **options: Any) -> Connection:
    return load_connection({}, kubeconfig=path, **options)


def test_the_current_context(tmp_path: Path) -> None:
    connection = load(write(tmp_path / "config", config()))
    assert (connection.server, connection.namespace, connection.context) == ("https://127.0.0.1:6443", "team", "dev")
    assert connection.token == "secret" and "secret" not in repr(connection)


def test_another_context(tmp_path: Path) -> None:
    contexts = [*config()["contexts"], {"name": "prod", "context": {"cluster": "c"}}]
    path = write(tmp_path / "config", config(contexts=contexts))
    assert load(path, context="prod").token == ""
    with pytest.raises(InputError, match="known: dev, prod"):
        load(path, context="nope")


def test_of_several_files_the_first_that_has_a_name_wins(tmp_path: Path) -> None:
    one = write(tmp_path / "one", config(users=[{"name": "u", "user": {"token": "one"}}], clusters=[]))
    two = write(tmp_path / "two", config(users=[{"name": "u", "user": {"token": "two"}}], **{"current-context": "x"}))
    listed = os.pathsep.join([str(tmp_path / "missing"), one, two])
    connection = load_connection({"KUBECONFIG": listed})
    assert (connection.token, connection.context, connection.server) == ("one", "dev", "https://127.0.0.1:6443")
    with pytest.raises(InputError, match="none of the kubeconfig files exists"):
        load_connection({"KUBECONFIG": os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")])})


def test_the_file_in_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", config())
    assert load_connection({"HOME": str(tmp_path)}).context == "dev"
    with pytest.raises(InputError, match="there is no kubeconfig and this is no pod"):
        load_connection({"HOME": str(tmp_path / "elsewhere")})


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    (tmp_path / "cert.pem").write_text("CERT")
    cluster = {"server": "https://a", "certificate-authority": "ca.pem"}
    key = base64.b64encode(b"KEY").decode()
    user = {"client-certificate": "cert.pem", "client-key-data": key, "tokenFile": "token"}
    document = config(clusters=[{"name": "c", "cluster": cluster}], users=[{"name": "u", "user": user}])
    connection = load(write(tmp_path / "config", document))
    assert (connection.ca_pem, connection.client_certificate_pem, connection.client_key_pem) == ("CA", "CERT", "KEY")
    assert connection.token_file == str(tmp_path / "token")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("a: [", "is not YAML"),
        ("- 1", "is a mapping"),
        (config(**{"current-context": ""}), "no current-context is set"),
        (config(clusters=[]), "names cluster 'c', which is not there"),
        (config(users=[]), "names user 'u', which is not there"),
        (config(clusters=[{"cluster": {}}]), "an entry has no name"),
        (config(clusters=[{"name": "c", "cluster": {}}]), "has no server"),
        (config(clusters=[{"name": "c", "cluster": 5}]), "must be a mapping"),
        (config(users=[{"name": "u", "user": {"client-key-data": "\u00e4"}}]), "not base64"),
        (config(users=[{"name": "u", "user": {"client-certificate": "/none"}}]), "cannot be read"),
        (config(users=[{"name": "u", "user": {"exec": {"args": []}}}]), "exec needs a command"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, document: Any, message: str) -> None:
    path = write(tmp_path / "config", document)
    with pytest.raises(InputError, match=message) as refused:
        load(path)
    assert path in str(refused.value)


def test_inside_of_a_pod(tmp_path: Path) -> None:
    for name, text in (("token", "t1\n"), ("ca.crt", "CA"), ("namespace", "team")):
        (tmp_path / name).write_text(text)
    environment = {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "REGAUGE_SERVICE_ACCOUNT_DIR": str(tmp_path),
    }
    connection = load_connection(environment)
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "team")
    assert asyncio.run(Credentials(connection, {}).headers()) == {"Authorization": "Bearer t1"}


def test_a_token_file_that_is_rotated_is_read_again_when_told(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    credentials = Credentials(Connection(server="https://a", token_file=str(token)), {})

    async def headers() -> str:
        return (await credentials.headers())["Authorization"]

    assert asyncio.run(headers()) == "Bearer one"
    token.write_text("two")
    assert asyncio.run(headers()) == "Bearer one"
    credentials.forget()
    assert asyncio.run(headers()) == "Bearer two"
    token.unlink()
    credentials.forget()
    assert asyncio.run(headers()) == "Bearer two"


def test_passwords_and_nothing() -> None:
    basic = Credentials(Connection(server="https://a", username="u", password="p"), {})
    assert asyncio.run(basic.headers()) == {"Authorization": "Basic " + base64.b64encode(b"u:p").decode()}
    assert asyncio.run(Credentials(Connection(server="https://a"), {}).headers()) == {}


def plugin(tmp_path: Path, program: str) -> ExecPlugin:
    path = tmp_path / "plugin"
    path.write_text(f"#!{sys.executable}\n{program}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(str(path), ("--cluster", "dev"), (("EXTRA", "yes"),), directory=str(tmp_path))


PRINTS = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = " ".join([os.environ["EXTRA"], *sys.argv[1:], info["kind"]])
print(json.dumps({"status": {"token": token, "expirationTimestamp": "2000-01-01T00:00:00Z"}}))
"""


def test_a_credential_plugin_gives_a_token(tmp_path: Path) -> None:
    connection = Connection(server="https://a", exec=plugin(tmp_path, PRINTS))
    found = asyncio.run(Credentials(connection, {}).headers())
    assert found == {"Authorization": "Bearer yes --cluster dev ExecCredential"}


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        ("print('hello')", InputError, "printed no ExecCredential"),
        ("print('{\"status\": {}}')", InputError, "neither a token nor a certificate"),
        ("import sys; sys.exit('log in first')", TransientError, "failed with code 1: log in first"),
    ],
)
def test_a_credential_plugin_that_does_not_is_told(
    tmp_path: Path, program: str, error: type[Exception], message: str
) -> None:
    connection = Connection(server="https://a")
    with pytest.raises(error, match=message):
        asyncio.run(run_plugin(plugin(tmp_path, program), connection, {}))


def test_a_credential_plugin_that_is_missing_says_how_to_get_it() -> None:
    missing = ExecPlugin("/nowhere/aws-iam", install_hint="pip install it")
    with pytest.raises(InputError, match="pip install it"):
        asyncio.run(run_plugin(missing, Connection(server="https://a"), {}))
