"""A real Prometheus on loopback, which scrapes and asks itself the rules it is given."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.support import program

START_S = 30.0
Labels = Mapping[str, str]


@dataclass
class Prometheus:
    """One that runs."""

    client: httpx.AsyncClient
    asked: dict[str, Any] = field(default_factory=dict)

    async def _get(self, path: str, **parameters: str) -> Any:
        response = await self.client.get(f"/api/v1/{path}", params=parameters)
        body = response.json()
        assert body["status"] == "success", f"{parameters}: {body.get('error')}"
        return body["data"]

    async def query(self, expr: str) -> list[tuple[Labels, float]]:
        """The samples of an expression now. Fails for one that Prometheus does not take."""
        found = await self._get("query", query=expr)
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in found["result"]]

    async def value(self, expr: str) -> float | None:
        """The only sample of an expression; None when there is none."""
        found = await self.query(expr)
        assert len(found) <= 1, f"{expr}: {found}"
        return found[0][1] if found else None

    async def by(self, expr: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The samples of an expression by some of their labels."""
        return {tuple(one.get(name, "") for name in labels): value for one, value in await self.query(expr)}

    async def firing(self) -> dict[str, list[Labels]]:
        """The labels of the alerts that fire, by their name."""
        found: dict[str, list[Labels]] = {}
        for one in (await self._get("alerts"))["alerts"]:
            if one["state"] == "firing":
                found.setdefault(one["labels"]["alertname"], []).append(one["labels"])
        return found

    async def unhealthy_rules(self) -> list[str]:
        """What the last evaluation of a rule failed with."""
        groups = (await self._get("rules"))["groups"]
        return [
            f"{rule['name']}: {rule['lastError']}"
            for group in groups
            for rule in group["rules"]
            if rule.get("lastError")
        ]

    async def targets(self) -> dict[str, str]:
        """Targets and what was wrong with them at the last scrape."""
        return {one["scrapeUrl"]: one["lastError"] for one in (await self._get("targets"))["activeTargets"]}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.asynccontextmanager
async def running(directory: Path, targets: Iterable[str], rules: Mapping[str, Any]) -> AsyncIterator[Prometheus]:
    """Prometheus that scrapes and evaluates every second, and is gone afterwards."""
    (directory / "rules.yaml").write_text(yaml.safe_dump(dict(rules)))
    job = {"job_name": "regauge", "honor_labels": True, "static_configs": [{"targets": list(targets)}]}
    times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config = {"global": times, "rule_files": ["rules.yaml"], "scrape_configs": [job]}
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [str(program("prometheus")), "--config.file=prometheus.yaml", "--storage.tsdb.path=data"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=1h", "--log.level=warn"]
    process = _started(command, directory)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client:
            await _ready(client, process, directory / "log")
            yield Prometheus(client)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _started(command: list[str], directory: Path) -> subprocess.Popen[bytes]:
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)


async def _ready(client: httpx.AsyncClient, process: subprocess.Popen[bytes], log: Path) -> None:
    async with asyncio.timeout(START_S):
        while True:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get("/-/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.1)
