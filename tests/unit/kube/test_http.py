"""The HTTP client when things go wrong: refused connections, broken answers, renewed credentials."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from regauge.base import InputError, TransientError
from regauge.kube import ApiError, Gone, NotFound, ServerUnavailable
from regauge.kube.config import Connection
from regauge.kube.errors import api_error
from regauge.kube.http import HttpClient, _http_client
from regauge.model.kinds import CONFIG_MAP, POD


def client_for(answer: Any, connection: Connection | None = None) -> HttpClient:
    """A client whose requests a function answers."""
    client = HttpClient(connection or Connection(server="https://a"), {})
    client._client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="https://a")
    return client


def test_a_server_that_is_not_there_is_trouble_that_may_pass(tmp_path: Path) -> None:
    async def main() -> None:
        client = HttpClient(Connection(server=f"unix:{tmp_path}/none.sock"), {})
        with pytest.raises(ServerUnavailable, match="does not answer") as refused:
            await client.get(POD, "p", "default")
        assert isinstance(refused.value, TransientError)
        with pytest.raises(ServerUnavailable):
            async for _event in client.watch(POD):
                pass
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        (httpx.Response(503, json={"kind": "Status", "message": "overloaded"}), ServerUnavailable, "overloaded"),
        (httpx.Response(429, text="slow down"), ServerUnavailable, "slow down"),
        (httpx.Response(404, text="404 page not found"), NotFound, "404 page not found"),
        (httpx.Response(500, json={"kind": "Status", "message": "boom", "reason": "InternalError"}), ApiError, "boom"),
        (httpx.Response(200, text="<html>"), ServerUnavailable, "is this an API server"),
        (httpx.Response(200, json=[1]), ServerUnavailable, "is no Pod"),
    ],
)
def test_answers_become_the_errors_that_callers_know(
    response: httpx.Response, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        asyncio.run(client_for(lambda request: response).get(POD, "p", "default"))


def test_an_exhausted_disruption_budget_is_a_refusal() -> None:
    causes = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]}
    found = api_error(429, {"kind": "Status", "message": "Cannot evict", "details": causes})
    assert isinstance(found, ApiError) and found.code == 429


def test_credentials_that_were_not_taken_are_got_anew_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        token.write_text("new")
        ok = request.headers["Authorization"] == "Bearer new"
        return httpx.Response(200 if ok else 401, json={"metadata": {"name": "p"}})

    client = client_for(answer, Connection(server="https://a", token_file=str(token)))
    asyncio.run(client.get(POD, "p", "default"))
    assert seen == ["Bearer old", "Bearer new"]


def test_writes_that_were_not_taken_are_not_repeated_beyond_that() -> None:
    calls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request.method)
        raise httpx.ReadTimeout("slow", request=request)

    with pytest.raises(ServerUnavailable):
        asyncio.run(client_for(answer).create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "n"}}))
    assert calls == ["POST"]


def test_a_watch_told_that_it_is_too_late() -> None:
    status = '{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}'
    body = f'{{"type":"ERROR","object":{status}}}\n'

    async def main() -> None:
        async for _event in client_for(lambda request: httpx.Response(200, text=body)).watch(POD):
            pass

    with pytest.raises(Gone, match="too old resource version"):
        asyncio.run(main())


def test_a_watch_that_the_server_ends_just_ends() -> None:
    body = '{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n\n{"type":"BOOKMARK","object":{"metadata":{}}}\n'

    async def main() -> list[tuple[str, str]]:
        client = client_for(lambda request: httpx.Response(200, text=body))
        return [(event.type, event.object["kind"]) async for event in client.watch(POD)]

    assert asyncio.run(main()) == [("ADDED", "Pod"), ("BOOKMARK", "Pod")]


def test_a_watch_that_is_refused() -> None:
    refusal = {"kind": "Status", "message": "pods is forbidden", "reason": "Forbidden"}

    async def main() -> None:
        async for _event in client_for(lambda request: httpx.Response(403, json=refusal)).watch(POD):
            pass

    with pytest.raises(ApiError, match="pods is forbidden"):
        asyncio.run(main())


@pytest.mark.parametrize("server", ["https://host:6443", "https://host/k8s/clusters/c-1"])
def test_a_server_may_have_a_path_of_its_own(server: str) -> None:
    client = _http_client(Connection(server=server), ("", ""), "test")
    request = client.build_request("GET", "/api/v1/pods")
    assert str(request.url) == f"{server}/api/v1/pods"


def test_certificates_that_are_none_are_told() -> None:
    connection = Connection(server="https://a", context="dev", client_certificate_pem="x", client_key_pem="y")
    with pytest.raises(InputError, match="the certificates cannot be used"):
        asyncio.run(HttpClient(connection, {}).get(POD, "p", "default"))
