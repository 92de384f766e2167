"""The client over HTTP: TCP with a kubeconfig's certificates and credentials, or a unix socket (`unix:/path`)."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from regauge.base import InputError, Where
from regauge.kube.config import Connection
from regauge.kube.credentials import Credentials
from regauge.kube.errors import api_error
from regauge.kube.port import ApiError, ObjectList, PatchType, ServerUnavailable, Version, WatchEvent
from regauge.model import Kind, Object

UNIX = "unix:"
PAGE_SIZE = 500
TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
USER_AGENT = "regauge"
_CONTENT_TYPES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


class HttpClient:
    """`KubeClient` over HTTP. `user_agent` is the field manager of what it writes.

    Retry: nothing is repeated, except that a 401 makes credentials that can be renewed be got again, once.
    """

    def __init__(
        self, connection: Connection, environment: Mapping[str, str] | None = None, *, user_agent: str = USER_AGENT
    ) -> None:
        self._connection = connection
        self._environment = dict(os.environ if environment is None else environment)
        self._credentials = Credentials(connection, self._environment)
        self._user_agent = user_agent
        self._client: httpx.AsyncClient | None = None

    async def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            certificate = await self._client_certificate()
            self._client = _http_client(self._connection, certificate, self._user_agent)
        return self._client

    async def _client_certificate(self) -> tuple[str, str]:
        if self._connection.client_certificate_pem:
            return self._connection.client_certificate_pem, self._connection.client_key_pem
        if self._connection.exec is None:
            return "", ""
        found = await self._credentials.exec_credential()
        return found.certificate_pem, found.key_pem

    async def _request(self, method: str, path: str, **options: Any) -> Any:
        response = await self._answer(method, path, options)
        if response.status_code == 401:
            self._credentials.forget()
            response = await self._answer(method, path, options)
        return _body(response)

    async def _answer(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        client = await self._http()
        headers = {**await self._credentials.headers(), **options.pop("headers", {})}
        request = client.build_request(method, path, headers=headers, extensions=self._extensions(client), **options)
        options["headers"] = {key: value for key, value in headers.items() if key != "Authorization"}
        try:
            return await client.send(request)
        except httpx.HTTPError as error:
            raise _unreachable(self._connection, error) from None

    def _extensions(self, client: httpx.AsyncClient) -> dict[str, Any]:
        timeout = {"timeout": client.timeout.as_dict()}
        name = self._connection.tls_server_name
        return {**timeout, "sni_hostname": name} if name else timeout

    async def version(self) -> Version:
        found = await self._request("GET", "/version")
        minor = str(found.get("minor", "")).rstrip("+")
        return Version(str(found.get("gitVersion", "")), f"{found.get('major', '')}.{minor}")

    async def metrics(self) -> str:
        """The server's own metrics, as it writes them. Needs the right to get the path /metrics."""
        response = await self._answer("GET", "/metrics", {"headers": {"Accept": "text/plain"}})
        return response.text if response.status_code < 400 else str(_body(response))

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return _object(await self._request("GET", _path(kind, namespace, name)), kind)

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        query = {**_selectors(label_selector, field_selector), "limit": str(PAGE_SIZE)}
        items: list[Object] = []
        while True:
            page = await self._request("GET", _path(kind, namespace), params=query)
            items += [_object(item, kind) for item in page.get("items") or ()]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return ObjectList(tuple(items), str(metadata.get("resourceVersion", "")))
            query["continue"] = metadata["continue"]

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        query = {**_selectors(label_selector, field_selector), "watch": "true", "allowWatchBookmarks": "true"}
        if resource_version:
            query["resourceVersion"] = resource_version
        client = await self._http()
        timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=None)
        headers = await self._credentials.headers()
        try:
            async with client.stream(
                "GET",
                _path(kind, namespace),
                params=query,
                headers=headers,
                timeout=timeout,
                extensions={key: value for key, value in self._extensions(client).items() if key != "timeout"},
            ) as response:
                if response.status_code >= 400:
                    await response.aread()
                    _body(response)
                async for line in response.aiter_lines():
                    if line.strip():
                        yield _event(line, kind)
        except httpx.HTTPError as error:
            raise _unreachable(self._connection, error) from None

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        metadata = object_.get("metadata") or {}
        namespace = namespace or str(metadata.get("namespace") or "")
        name = str(metadata.get("name") or "") if subresource else ""
        body = object_ if subresource else _object(object_, kind)
        made = await self._request("POST", _path(kind, namespace, name, subresource), **_json(body))
        return made if subresource else _object(made, kind)

    async def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        place = namespace or str((object_.get("metadata") or {}).get("namespace") or "")
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        return _object(
            await self._request("POST", _path(kind, place), params=query, **_json(_object(object_, kind))), kind
        )

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        metadata = object_["metadata"]
        path = _path(kind, namespace or metadata.get("namespace", ""), metadata["name"], subresource)
        return _object(await self._request("PUT", path, **_json(_object(object_, kind))), kind)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Object:
        query = {"fieldManager": self._user_agent, "force": "true"} if patch_type == "apply" else {}
        path = _path(kind, namespace, name, subresource)
        content = _json(body, _CONTENT_TYPES[patch_type])
        return _object(await self._request("PATCH", path, params=query, **content), kind)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        await self._request("DELETE", _path(kind, namespace, name), **_json(options))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _path(kind: Kind, namespace: str, name: str = "", subresource: str = "") -> str:
    start = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = f"/namespaces/{_segment(namespace)}" if kind.namespaced and namespace else ""
    return "/".join(part for part in (f"{start}{within}/{kind.plural}", _segment(name), subresource) if part)


def _segment(name: str) -> str:
    """A name as one part of a path, whatever is in it. Raises `InputError` for one that would lead elsewhere."""
    if name in (".", ".."):
        raise InputError(f"{name!r} is no name of an object", fix="give a name as Kubernetes has it")
    return quote(name, safe=":")


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    both = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in both.items() if value}


def _json(body: Any, content_type: str = "application/json") -> dict[str, Any]:
    return {"content": msgspec.json.encode(body), "headers": {"Content-Type": content_type}}


def _object(value: Any, kind: Kind) -> Object:
    """With kind and apiVersion, which members of lists lack."""
    if not isinstance(value, dict):
        raise ServerUnavailable(f"the API server answered with something that is no {kind.kind}")
    return {"apiVersion": kind.api_version, "kind": kind.kind, **value}


def _body(response: httpx.Response) -> Any:
    """The JSON of an answer. Raises the error that a refusal stands for."""
    try:
        body = msgspec.json.decode(response.content) if response.content else {}
    except msgspec.DecodeError:
        body = None
    if response.status_code >= 400:
        raise api_error(response.status_code, body if isinstance(body, dict) else None, response.text)
    if body is None:
        raise ServerUnavailable(f"the answer to {response.request.url} is not JSON (is this an API server?)")
    return body


def _event(line: str, kind: Kind) -> WatchEvent:
    try:
        event = msgspec.json.decode(line)
        type_, object_ = event["type"], event["object"]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise ServerUnavailable("the watch brought something that is no event") from None
    if type_ == "ERROR":
        code = int(object_.get("code") or 500)
        raise api_error(code, object_)
    if type_ not in _EVENT_TYPES:
        raise ApiError(500, "UnknownEvent", f"the watch brought an event of the unknown type {type_}")
    return WatchEvent(type_, _object(object_, kind))


def _http_client(connection: Connection, certificate: tuple[str, str], user_agent: str) -> httpx.AsyncClient:
    headers = {"User-Agent": user_agent, "Accept": "application/json", **dict(connection.impersonate)}
    timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    if connection.server.startswith(UNIX):
        transport = httpx.AsyncHTTPTransport(uds=connection.server.removeprefix(UNIX))
        return httpx.AsyncClient(
            transport=transport, base_url="http://regauge", headers=headers, timeout=timeout, trust_env=False
        )
    return httpx.AsyncClient(
        base_url=connection.server,
        headers=headers,
        timeout=timeout,
        verify=tls_context(connection, certificate),
        proxy=connection.proxy or None,
    )


def tls_context(connection: Connection, certificate: tuple[str, str]) -> ssl.SSLContext:
    """Whom to trust and what to show. Raises `InputError` for certificates that cannot be used."""
    try:
        context = ssl.create_default_context(cadata=connection.ca_pem or None)
        if connection.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate[0]:
            _load_certificate(context, *certificate)
    except (ssl.SSLError, ValueError) as error:
        where = Where(object=f"context {connection.context}")
        what = f"the certificates cannot be used: {error}"
        raise InputError(what, where=where, fix="check the certificate and key data in the kubeconfig") from None
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """OpenSSL reads a chain from files only: they live, readable by us alone, as long as it takes to load them."""
    with contextlib.ExitStack() as stack:
        paths = []
        for text in (certificate, key):
            handle = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="regauge-", suffix=".pem"))
            handle.write(text)
            handle.flush()
            paths.append(handle.name)
        context.load_cert_chain(paths[0], paths[1] if key else None)


def _unreachable(connection: Connection, error: httpx.HTTPError) -> ServerUnavailable:
    told = str(error) or type(error).__name__
    return ServerUnavailable(f"the API server at {connection.server} does not answer: {told}")
