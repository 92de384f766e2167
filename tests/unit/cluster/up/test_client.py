"""The official Python client, and a process that is killed while it writes."""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes import client, config, watch
from tests.unit.cluster.up.program import Program, running


def core(program: Program) -> Any:
    return client.CoreV1Api(config.new_client_from_config(str(program.state / "kubeconfig")))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running(tmp_path_factory.mktemp("client") / "state", "--nodes", "1") as program:
        yield program


def test_the_official_client_lists_watches_and_creates(up: Program) -> None:
    api = core(up)
    assert [item.metadata.name for item in api.list_node().items] == ["node-1"]
    listed = api.list_namespaced_config_map("default")
    seen: list[str] = []

    def look() -> None:
        stream = watch.Watch().stream(
            api.list_namespaced_config_map,
            "default",
            resource_version=listed.metadata.resource_version,
            timeout_seconds=20,
        )
        for event in stream:
            seen.append(f"{event['type']} {event['object'].metadata.name}")
            if event["type"] == "DELETED":
                return

    looker = threading.Thread(target=look)
    looker.start()
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "v"})
    made = api.create_namespaced_config_map("default", body)
    api.patch_namespaced_config_map("a", "default", {"data": {"k": "w"}})
    with pytest.raises(client.ApiException) as refused:
        api.create_namespaced_config_map("default", body)
    assert refused.value.status == 409
    api.delete_namespaced_config_map("a", "default")
    looker.join(20)
    assert made.metadata.uid and seen == ["ADDED a", "MODIFIED a", "DELETED a"]


def test_strangers_see_health_and_version_alone(up: Program) -> None:
    authority = ssl.create_default_context(cafile=str(up.state / "ca.crt"))
    with httpx.Client(verify=authority, base_url=up.server, trust_env=False) as stranger:
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert stranger.get(path).status_code == 200
        for path in ("/api", "/apis", "/api/v1/pods", "/openapi/v3", "/api/v1/namespaces/default/secrets?watch=1"):
            assert stranger.get(path).status_code == 401, path
        assert stranger.get("/api", headers={"Authorization": "Bearer guessed"}).status_code == 401
        assert stranger.get("/version", headers={"Host": "evil.example"}).status_code == 403
        token = (up.state / "token").read_text()
        assert stranger.get("/api/v1/pods", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_there_is_nothing_without_tls(up: Program) -> None:
    host, _, port = up.server.removeprefix("https://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.request("GET", "/version")
        connection.getresponse()


@pytest.mark.parametrize("round_", range(3))
def test_nothing_acknowledged_is_lost_when_it_is_killed(tmp_path: Path, round_: int) -> None:
    state = tmp_path / "state"
    acknowledged: list[str] = []
    with running(state, "--nodes", "0") as program:
        token, authority = (state / "token").read_text(), ssl.create_default_context(cafile=str(state / "ca.crt"))
        headers = {"Authorization": f"Bearer {token}"}

        def write(writer: int) -> None:
            with httpx.Client(verify=authority, base_url=program.server, headers=headers, trust_env=False) as http_:
                for number in itertools.count():
                    name = f"w{writer}-{number}"
                    try:
                        answer = http_.post(
                            "/api/v1/namespaces/default/configmaps",
                            json={"metadata": {"name": name}, "data": {"a": "b"}},
                        )
                    except httpx.HTTPError:
                        return
                    if answer.status_code == 201:
                        acknowledged.append(name)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for writer in writers:
            writer.start()
        while len(acknowledged) < 40 + 25 * round_:
            time.sleep(0.002)
        program.end(signal.SIGKILL)
        for writer in writers:
            writer.join(20)
    with running(state, "--nodes", "0") as program:
        found = {item.metadata.name for item in core(program).list_namespaced_config_map("default").items}
        assert set(acknowledged) <= found
        assert len(found) <= len(acknowledged) + 3, "at most one write of each writer was not answered"


def test_it_is_ready_after_little_work(tmp_path: Path) -> None:
    """Measured in time of the processor, which the rest of the machine changes little: on an idle one that is the wait."""
    with running(tmp_path / "state", "--nodes", "1") as program:
        fields = Path(f"/proc/{program.process.pid}/stat").read_text().rpartition(")")[2].split()
        assert (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") < 3.0
