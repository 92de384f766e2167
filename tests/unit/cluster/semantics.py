"""Replaying the recorded scripts of calls, in virtual time with the controllers at work."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.unit.cluster.vectors import ALPHA, alike, comparable, rows, same, without_age, without_empty

from regauge.base import canonical_json
from regauge.cluster.access.bootstrap import bootstrap_roles
from regauge.cluster.access.guard import Guard
from regauge.cluster.access.identity import Tokens, User
from regauge.cluster.access.tokens import AccountTokens
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.cluster.claims import ResourceClaimController
from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.cluster.controllers import workload_controllers
from regauge.cluster.controllers.accounts import RootCertificatePublisher, ServiceAccountController
from regauge.cluster.exchange import Answer
from regauge.cluster.queue import ControllerRunner
from regauge.cluster.server import make_app
from regauge.cluster.store import LOG_LENGTH
from regauge.cluster.streams import Streams
from regauge.features import rules
from regauge.model.kinds import CONFIG_MAP

EPOCH_S = 1_793_000_000.0
LOOK_AGAIN = 60
MASTER = "Bearer master"
_STARTS = re.compile(r"\$\{(\w+)\}")
_META = ("kind", "apiVersion", "metadata")
Shape = Callable[[Any], Any]


def _names(found: Any) -> list[str]:
    if found.get("kind") == "APIResourceList":
        return [item["name"] for item in found["resources"]]
    return [item["metadata"]["name"] for item in found["items"]]


def _or_status(shape: Shape) -> Shape:
    return lambda found: found if found.get("kind") == "Status" else shape(found)


def _pod_parts(found: Any) -> Any:
    metadata = {key: item for key, item in found["metadata"].items() if key != "managedFields"}
    return {"metadata": metadata, "spec.nodeName": found["spec"].get("nodeName"), "status": found.get("status")}


def _table(found: Any) -> Any:
    kept = ("name", "type", "format", "priority")
    columns = [{key: column[key] for key in kept} for column in found["columnDefinitions"]]
    cells = [[without_age(cell) for cell in row["cells"]] for row in found["rows"]]
    return {"apiVersion": found["apiVersion"], "kind": found["kind"], "columns": columns, "cells": cells}


SHAPES: Mapping[str, Shape] = {
    "kind and names, or Status": _or_status(lambda r: {"kind": r["kind"], "names": _names(r)}),
    "columnDefinitions without description, cells (ages as <age>)": _table,
    "names or Status": _or_status(_names),
    "kind and name": lambda r: {"kind": r["kind"], "name": r["metadata"]["name"]},
    "metadata.name": lambda r: r["metadata"]["name"],
    "metadata without managedFields, spec.nodeName, status; or Status": _or_status(_pod_parts),
    "names and metadata, or Status": _or_status(lambda r: {"names": _names(r), "metadata": r["metadata"]}),
    "kind": lambda r: r["kind"],
    "names": _names,
    "kind, or Status": _or_status(lambda r: r["kind"]),
    "kind, apiVersion, metadata, or Status": _or_status(lambda r: {key: r[key] for key in _META}),
    "name": lambda r: r["metadata"]["name"],
    "name, or Status": _or_status(lambda r: {"created": r["metadata"]["name"]}),
    "spec": lambda r: r["spec"],
    "status": lambda r: r.get("status"),
    "keys": sorted,
    "spec and status": lambda r: {"spec": r.get("spec"), "status": r.get("status")},
    "status without conditions": lambda r: {key: item for key, item in r["status"].items() if key != "conditions"},
    "apiVersion and kind": lambda r: f"{r['apiVersion']} {r['kind']}",
    "groups: name, versions, preferred version": lambda r: [
        [item["name"], [one["version"] for one in item["versions"]], item["preferredVersion"]["version"]]
        for item in r["groups"]
    ],
    "number of items or Status": _or_status(lambda r: {"n": len(r["items"])}),
    "number of items, metadata": lambda r: {"n": len(r["items"]), "metadata": r["metadata"]},
    "metadata": lambda r: {"metadata": r["metadata"]},
    "data": lambda r: r["data"],
    "status.disruptionsAllowed": lambda r: r["status"]["disruptionsAllowed"],
    "spec.ephemeralContainers": lambda r: r["spec"]["ephemeralContainers"],
    "status.userInfo": lambda r: r["status"]["userInfo"],
    "username, groups, keys of extra": lambda r: [
        r["status"]["userInfo"]["username"],
        r["status"]["userInfo"]["groups"],
        sorted(r["status"]["userInfo"].get("extra") or {}),
    ],
    "count": lambda r: r["count"],
    "spec.resourceClaims": lambda r: r["spec"]["resourceClaims"],
    "reason": lambda r: r["reason"],
    "conditions: type, status, reason, message": lambda r: [
        [item[key] for key in ("type", "status", "reason", "message")] for item in r["status"]["conditions"]
    ],
    "paths": lambda r: sorted(r["paths"]),
}
# What later steps of a script refer to: the number of the step, the name, and where in the answer it is.
SAVED: Mapping[str, tuple[tuple[int, str, tuple[Any, ...]], ...]] = {
    "crud": ((8, "rv", ("metadata", "resourceVersion")),),
    "list": (
        (9, "c", ("metadata", "continue")),
        (9, "lrv", ("metadata", "resourceVersion")),
        (10, "c2", ("metadata", "continue")),
    ),
    "resource-versions": (
        (2, "rva", ("metadata", "resourceVersion")),
        (3, "rvb", ("metadata", "resourceVersion")),
    ),
    "watch": ((2, "rv", ("metadata", "resourceVersion")),),
    "delete": ((2, "uid", ("metadata", "uid")), (2, "rv", ("metadata", "resourceVersion"))),
    "authorization": ((3, "token", ("status", "token")),),
    "claim-controller": ((4, "cn", ("status", "resourceClaimStatuses", 0, "resourceClaimName")),),
}


def semantic_differences(only: str = "") -> tuple[dict[str, str], int]:
    """`script/step` to what differs, and how many calls and watches were replayed."""
    found: dict[str, str] = {}
    steps = 0
    for script in rows("semantics.jsonl"):
        if only and script["script"] != only:
            continue
        replay = Replay(script)
        run_virtual(replay.run, epoch_s=EPOCH_S, limit_s=100_000.0)
        found.update(replay.differences)
        steps += replay.steps
    return found, steps


@dataclass(slots=True)
class _Watching:
    """A watch that goes on: what it was asked, and what it has brought."""

    task: asyncio.Task[None]
    code: int = 0
    body: bytes = b""
    events: list[Any] = field(default_factory=list)


COMPACTED = ("gone", "resource-versions")


def _compact(api: Api) -> None:
    """Forget the changes so far, as the recorded server had."""
    store = api.state.store
    for number in range(LOG_LENGTH + 1):
        store.put(
            CONFIG_MAP,
            ("default", "filler"),
            {"metadata": {"name": "filler", "namespace": "default", "uid": "filler"}, "n": number},
        )
    store.remove(CONFIG_MAP, ("default", "filler"))


class Replay:
    """One script on one cluster, over its ASGI application."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.differences: dict[str, str] = {}
        self.steps = 0
        self._script = script
        self._title = script["script"] + ("@default" if script["gates"] == "default" else "")
        self._saved: dict[str, str] = {}
        self._watches: dict[str, _Watching] = {}
        self._streams = Streams()

    async def run(self, clock: VirtualClock) -> None:
        everything = self._script["gates"] != "default"
        known = rules("1.36", dict.fromkeys(ALPHA, True) if everything else {})
        api = new_api_server(clock, random.Random(3), rules=known, versions={"api/all": True} if everything else {})
        bootstrap_roles(api)
        runners = _runners(api, known)
        tasks = [asyncio.create_task(runner.run()) for runner in runners]
        tokens = AccountTokens(b"key", clock)
        api.state.tokens = tokens
        api.state.address = "server:6443"
        guard = Guard(
            api.state.store,
            Tokens(
                {"master": User("admin", ("system:masters", "system:authenticated"), credential="X509SHA256=<hash>")}
            ),
            tokens,
        )
        guard.listen("server", 6443)
        transport = httpx.ASGITransport(make_app(api, self._streams, guard))
        async with httpx.AsyncClient(transport=transport, base_url="https://server:6443", timeout=None) as client:
            await asyncio.sleep(1)
            if self._script["script"] in COMPACTED:
                _compact(api)
            for number, step in enumerate(self._script["steps"]):
                if step.get("unstable"):
                    continue
                self.steps += 1
                word = await self._step(client, number, step)
                if word:
                    self.differences[f"{self._title}/{number}"] = word
        self._streams.end()
        for task in (*tasks, *(watch.task for watch in self._watches.values())):
            task.cancel()
        for runner in runners:
            runner.stop()

    async def _step(self, client: httpx.AsyncClient, number: int, step: dict[str, Any]) -> str:
        if "watchEnd" in step:
            return await self._end(step)
        if "watch" in step and step.get("method", "GET") == "GET":
            watching = _Watching(asyncio.create_task(asyncio.sleep(0)))
            watching.task = asyncio.create_task(self._follow(client, step, watching))
            self._watches[step["watch"]] = watching
            await asyncio.sleep(0.05)
            return ""
        got = await self._call(client, step)
        for _ in range(LOOK_AGAIN if step.get("until") else 0):
            if not self._difference(step, got):
                break
            await asyncio.sleep(1)
            got = await self._call(client, step)
        await asyncio.sleep(0.6)
        self._save(number, got)
        return self._difference(step, got)

    def _difference(self, step: dict[str, Any], got: httpx.Response) -> str:
        body, told = _body(got), step.get("response", step.get("responseText"))
        if got.status_code == step["status"] and "recorded" in step:
            shape = SHAPES.get(step["recorded"])
            if shape is not None and body is not None:
                try:
                    ours = canonical_json(without_empty(comparable(shape(body)))).decode()
                except (KeyError, IndexError, TypeError, AttributeError) as error:
                    return f"no {error} in {str(body)[:200]}"
                theirs = canonical_json(without_empty(comparable(_recorded(step["recorded"], told)))).decode()
                return "" if alike(ours, theirs) else f"{ours[:300]} instead of {theirs[:300]}"
            return "" if shape is None else "no body"
        if isinstance(told, str) and told.startswith('{"type"'):
            ours, theirs = (
                [canonical_json(without_empty(comparable(json.loads(line)))) for line in text.splitlines() if line]
                for text in (got.text, told)
            )
            return "" if ours == theirs else f"{ours[:1]} instead of {theirs[:1]}"
        if isinstance(told, str):
            return (
                "" if (got.status_code, got.text) == (step["status"], told) else f"{got.status_code}: {got.text[:80]!r}"
            )
        return same({**step, "response": told}, Answer(got.status_code, body))

    def _substituted(self, value: Any) -> Any:
        text = json.dumps(value)
        return json.loads(_STARTS.sub(lambda found: self._saved.get(found[1], found[0]), text))

    def _request(self, client: httpx.AsyncClient, step: dict[str, Any]) -> httpx.Request:
        kept = ("method", "path", "query", "contentType", "body", "bodyText", "accept", "headers", "user")
        call = self._substituted({key: step[key] for key in kept if key in step})
        headers = {"Authorization": MASTER, "Accept": call.get("accept") or "application/json", "User-Agent": ""}
        if call.get("user") == "token":
            headers["Authorization"] = f"Bearer {self._saved.get('token', '')}"
        elif call.get("user") == "anonymous":
            del headers["Authorization"]
        headers |= call.get("headers") or {}
        content = _content(call)
        if call.get("contentType"):
            headers["Content-Type"] = call["contentType"]
        elif content is not None:
            headers["Content-Type"] = "application/json"
        query = {key: str(value) for key, value in (call.get("query") or {}).items()}
        return client.build_request(
            call.get("method", "GET"), call["path"], params=query, headers=headers, content=content
        )

    async def _call(self, client: httpx.AsyncClient, step: dict[str, Any]) -> httpx.Response:
        return await client.send(self._request(client, step))

    async def _follow(self, client: httpx.AsyncClient, step: dict[str, Any], watching: _Watching) -> None:
        """Over ASGI a response comes when it is complete: the application is called by hand instead."""
        request = self._request(client, step)
        scope = {
            "type": "http",
            "method": "GET",
            "path": request.url.path,
            "raw_path": request.url.raw_path,
            "query_string": request.url.query,
            "headers": [(name.lower().encode(), value.encode()) for name, value in request.headers.items()],
            "server": ("server", 6443),
            "scheme": "https",
            "http_version": "1.1",
        }
        transport = client._transport
        assert isinstance(transport, httpx.ASGITransport)

        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                watching.code = message["status"]
            else:
                watching.body += message.get("body", b"")

        await transport.app(scope, receive, send)  # type: ignore[arg-type]  # httpx types its own scopes

    async def _end(self, step: dict[str, Any]) -> str:
        watching = self._watches[step["watchEnd"]]
        await asyncio.sleep(0.5)
        if watching.code != step["status"]:
            return f"code {watching.code} for {step['status']}"
        if step["status"] != 200:
            return same(step, Answer(watching.code, json.loads(watching.body)))
        events = [json.loads(line) for line in watching.body.splitlines() if line]
        ours = [canonical_json(without_empty(comparable(item))).decode() for item in events][: len(step["events"])]
        theirs = [canonical_json(without_empty(comparable(item))).decode() for item in step["events"]]
        if ours == theirs:
            return ""
        one = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), ("", ""))
        return f"{len(ours)} events of {len(theirs)}: {one[0][:300]} instead of {one[1][:300]}"

    def _save(self, number: int, got: httpx.Response) -> None:
        """What later steps of the script refer to."""
        body = _body(got)
        if self._script["script"] == "propagation" and isinstance(body, dict) and body.get("kind") == "ConfigMap":
            self._saved["uid"] = body["metadata"]["uid"]
        for place, name, path in SAVED.get(self._script["script"], ()):
            if place == number and isinstance(body, dict):
                value: Any = body
                for part in path:
                    try:
                        value = value[part]
                    except (KeyError, IndexError, TypeError):
                        value = ""
                        break
                self._saved[name] = str(value)


def _runners(api: Api, known: Any) -> list[ControllerRunner]:
    manager = api.as_actor("kube-controller-manager")
    parts = [
        *workload_controllers(manager),
        ResourceClaimController(manager, known),
        ServiceAccountController(manager),
        RootCertificatePublisher(manager, "certificate"),
    ]
    runners = [ControllerRunner(api, part, lambda *_: None) for part in parts]
    for runner in runners:
        runner.start()
    return runners


def _body(got: httpx.Response) -> Any:
    try:
        return got.json() if got.content else None
    except ValueError:
        return got.text


def _recorded(shape: str, told: Any) -> Any:
    if shape == "spec" and isinstance(told, dict) and list(told) == ["spec"]:
        return told["spec"]
    if shape == "metadata":
        return {"metadata": told}
    if isinstance(told, dict) and "cells" in told:
        return {**told, "cells": [[without_age(cell) for cell in row] for row in told["cells"]]}
    return told


def _content(call: dict[str, Any]) -> bytes | None:
    if "bodyText" in call:
        return str(call["bodyText"]).encode()
    body = call.get("body")
    if body is None:
        return None
    if isinstance(body, dict) and list(body) == ["note"]:
        size = int(re.findall(r"\d+", body["note"])[0])
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "huge"}, "data": {"x": "a" * size}}
    return json.dumps(body, separators=(",", ":")).encode()
