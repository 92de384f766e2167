"""The real kubectl on our API server, through a forwarder from loopback to the socket."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from tests.support import kubectl

from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.server import ApiSocket
from regauge.host import RealClock

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: "i:1", resources: {limits: {example.com/gpu: 1}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}
"""


async def forward(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    inner_reader, inner_writer = await asyncio.open_unix_connection(path)

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))


@pytest.mark.row(12, how="real")
def test_kubectl_finds_its_way(tmp_path: Path) -> None:
    program = kubectl()
    (tmp_path / "m.yaml").write_text(MANIFEST)

    async def main() -> None:
        socket = ApiSocket(new_api_server(RealClock(), random.Random(1)), str(tmp_path / "api.sock"))
        await socket.start()
        server = await asyncio.start_server(lambda r, w: forward(socket.path, r, w), "127.0.0.1", 0)
        address = "http://{}:{}".format(*server.sockets[0].getsockname())

        async def run(*words: str, code: int = 0) -> str:
            options = ("--server", address, "--kubeconfig", "/dev/null", "--cache-dir", str(tmp_path / "cache"))
            pipes: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
            process = await asyncio.create_subprocess_exec(str(program), *options, *words, cwd=tmp_path, **pipes)
            out, _ = await asyncio.wait_for(process.communicate(), 30)
            assert process.returncode == code, out.decode()
            return out.decode()

        assert "resourceclaims" in await run("api-resources", "--api-group=resource.k8s.io")
        assert "pod/p created" in await run("create", "--validate=false", "-f", "m.yaml")
        assert await run("get", "po,resourceclaims", "-o", "name") == "pod/p\nresourceclaim.resource.k8s.io/c\n"
        await run("label", "pod", "p", "a=b")
        assert await run("get", "pods", "-l", "a=b", "--no-headers", "-o", "custom-columns=:metadata.name") == "p\n"
        assert "Status:       Pending" in await run("describe", "pod", "p")
        refused = await run("create", "--validate=false", "-f", "m.yaml", code=1)
        assert 'Error from server (AlreadyExists): error when creating "m.yaml": pods "p" already exists' in refused
        refused = await run("apply", "--server-side", "--validate=false", "-f", "m.yaml", code=1)
        assert 'conflict with "kubectl-create" using resource.k8s.io/v1: .spec.devices.requests' in refused
        assert 'pod "p" deleted' in await run("delete", "pod", "p")
        server.close()
        await socket.stop()

    asyncio.run(asyncio.wait_for(main(), 100))
