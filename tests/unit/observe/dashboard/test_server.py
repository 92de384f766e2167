"""The server lets in whom it should, sends a page that runs nothing but its own modules, and leaves nobody waiting."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.types import Message

from regauge.base import InputError
from regauge.cluster.access.certificates import new_authority, new_server
from regauge.observe.dashboard import Delta, Door, Feed
from regauge.observe.dashboard import server as served
from regauge.observe.dashboard.server import Readers, make_app, packaged
from regauge.observe.dashboard.serving import Site, serving, site_of

TOKEN = "a-token-of-good-length"
PATHS = ["/", "/api/view", "/api/device?name=a", "/api/events", "/static/main.js"]


def app(token: str = "", *names: str) -> tuple[Feed, Any]:
    feed = Feed("run")
    feed.publish({"devices": {"a": {"node": "n"}}})
    door = Door(token, b"key", names)
    door.listen("127.0.0.1", 8095)
    return feed, make_app(feed, door, lambda name: {"slice": "s"} if name == "a" else None)


def ask(path: str, token: str = "", method: str = "GET", address: str = "127.0.0.1", **options: Any) -> httpx.Response:
    async def scene() -> httpx.Response:
        transport = httpx.ASGITransport(app(token, "gpus.example.com")[1], client=(address, 1))
        base = options.pop("base_url", "http://127.0.0.1:8095")
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **options)

    return asyncio.run(scene())


@asynccontextmanager
async def running(token: str = "") -> AsyncIterator[tuple[Feed, httpx.AsyncClient]]:
    feed = Feed("run")
    door = Door(token, b"key")
    async with serving(make_app(feed, door, lambda _: None), Site()) as port:
        door.listen("127.0.0.1", port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=5) as client:
            yield feed, client


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await scene()

    asyncio.run(limited())


# -- the door


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example.com", "127.0.0.1", "127.0.0.1:1", "", "localhost:8095.evil.example.com"]
)
def test_a_host_that_is_not_this_server_gets_nothing(path: str, host: str) -> None:
    assert ask(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8095", "localhost:8095", "[::1]:8095", "gpus.example.com", "GPUS.example.com:8095"]
)
def test_its_own_names_are_heard(host: str) -> None:
    assert ask("/api/view", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_cannot_have_the_data_fetched(site: str) -> None:
    assert ask("/api/view", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert ask("/api/events", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert ask("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 200


@pytest.mark.parametrize("path", PATHS[1:])
def test_without_the_token_there_is_nothing_but_the_door(path: str) -> None:
    assert ask(path, TOKEN).status_code == 401
    assert ask(path, TOKEN, headers={"Authorization": "Bearer another-token-of-that"}).status_code == 401
    assert ask(path, TOKEN, headers={"Cookie": f"regauge-dashboard-8095={TOKEN}"}).status_code == 401


def test_the_door_is_shown_to_strangers_and_the_page_to_those_who_are_known() -> None:
    stranger = ask("/", TOKEN)
    assert stranger.status_code == 401 and 'id="door"' in stranger.text
    known = ask("/", TOKEN, headers={"Authorization": f"Bearer {TOKEN}"})
    assert known.status_code == 200 and 'id="grid"' in known.text
    for name in re.findall(r"/static/([\w.]+)", stranger.text):
        assert ask(f"/static/{name}", TOKEN).status_code == 200, name


def test_a_token_becomes_a_cookie_that_does_not_tell_it() -> None:
    answer = ask("/login", TOKEN, "POST", content=f"{TOKEN}\n")
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie and "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    assert ask("/api/view", TOKEN, headers={"Cookie": cookie.partition(";")[0]}).status_code == 200
    secure = ask("/login", TOKEN, "POST", content=TOKEN, base_url="https://127.0.0.1:8095")
    assert "Secure" in secure.headers["set-cookie"]


@pytest.mark.parametrize(("content", "code"), [("wrong", 401), ("", 401), ("x" * 5000, 413), ("\xff", 401)])
def test_what_is_no_token_opens_nothing(content: str, code: int) -> None:
    answer = ask("/login", TOKEN, "POST", content=content)
    assert answer.status_code == code and "set-cookie" not in answer.headers


def test_a_server_without_a_token_gives_no_cookie() -> None:
    assert ask("/login", "", "POST", content="").status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
def test_there_is_nothing_to_write(method: str, path: str) -> None:
    assert ask(path, method=method).status_code == 405


# -- the page


@pytest.mark.parametrize("path", [*PATHS[:3], "/static/page.css", "/static/nothing.js"])
def test_every_answer_forbids_what_the_page_does_not_need(path: str) -> None:
    headers = ask(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_the_page_needs_nothing_from_elsewhere_and_has_no_script_in_it() -> None:
    for name, (_, data) in packaged().items():
        text = data.decode()
        found = [url for url in re.findall(r"https?://[^\s\"']+", text) if url != "http://www.w3.org/2000/svg"]
        assert found == [], name
        assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function)", text), (
            name
        )
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style|javascript:", text), name


def test_modules_are_short_and_so_are_their_lines() -> None:
    for name, (_, data) in packaged().items():
        lines = data.decode().splitlines()
        assert not name.endswith(".js") or (len(lines) <= 350 and max(map(len, lines)) <= 130), name


def test_every_module_that_is_imported_is_there() -> None:
    for name, (_, data) in packaged().items():
        for other in re.findall(r"from \"\./([\w.]+)\"", data.decode()):
            assert other in packaged(), f"{name} imports {other}"


def test_no_file_is_served_but_those_of_the_page() -> None:
    for path in ("/static/..%2Fserver.py", "/static/server.py", "/static/%2e%2e/server.py", "/server.py"):
        assert ask(path).status_code == 404, path


def test_details_are_given_where_there_are_some() -> None:
    assert ask("/api/device?name=a").json() == {"slice": "s"}
    assert ask("/api/device?name=b").status_code == 204


def test_far_readers_get_it_compressed() -> None:
    far = ask("/static/main.js", address="192.0.2.1", headers={"Accept-Encoding": "gzip"})
    near = ask("/static/main.js", headers={"Accept-Encoding": "gzip"})
    assert far.headers["content-encoding"] == "gzip" and "content-encoding" not in near.headers
    assert far.text == near.text


# -- changes


async def events_of(response: httpx.Response, count: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        name, colon, value = line.partition(": ")
        if colon and name in ("id", "data", "event"):
            event[name] = value
        if not line and event:
            found.append(event)
            event = {}
        if len(found) == count:
            return found
    return found


def test_changes_come_as_they_happen_and_a_reader_that_comes_again_misses_none() -> None:
    async def scene() -> None:
        async with running() as (feed, client):
            feed.publish({"devices": {"a": {"node": "n"}}})
            place = (await client.get("/api/view")).json()["place"]
            async with client.stream("GET", f"/api/events?after={place}") as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                feed.publish({"devices": {"a": {"node": "n", "state": "leaked"}}})
                (event,) = await events_of(response, 1)
            assert msgspec.json.decode(event["data"], type=Delta).put == {
                "devices": {"a": {"node": "n", "state": "leaked"}}
            }
            feed.publish({"devices": {}})
            feed.publish({"devices": {"b": {"node": "n"}}})
            async with client.stream("GET", "/api/events", headers={"Last-Event-ID": event["id"]}) as response:
                missed = await events_of(response, 2)
            assert [msgspec.json.decode(one["data"]) for one in missed] == [
                {"gone": {"devices": ["a"]}},
                {"put": {"devices": {"b": {"node": "n"}}}},
            ]

    play(scene)


@pytest.mark.parametrize("place", ["another-7", "", "run-99"])
def test_a_reader_from_elsewhere_is_told_to_read_everything_again(place: str) -> None:
    async def scene() -> None:
        async with running() as (_, client), client.stream("GET", f"/api/events?after={place}") as response:
            (event,) = await events_of(response, 5)
            assert event["event"] == "again"

    play(scene)


def test_a_reader_that_falls_behind_the_history_reads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        feed = Feed("run", most_bytes=500)
        sent: list[bytes] = []
        reading = asyncio.Event()

        async def send(message: Message) -> None:
            sent.append(message["body"])
            if message["body"].startswith(b"id"):
                await reading.wait()

        telling = asyncio.create_task(Readers(feed).send("run-0", send))
        await asyncio.sleep(0.01)
        feed.publish({"devices": {"a": {"state": "0"}}})
        await asyncio.sleep(0.01)
        for number in range(1, 60):
            feed.publish({"devices": {"a": {"state": str(number)}}})
        reading.set()
        await telling
        assert feed.held_bytes <= 500
        assert sent[-1].startswith(b"event: again")

    play(scene)


def test_who_does_not_read_is_dropped_and_too_many_are_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "SEND_WITHIN_S", 0.05)
    monkeypatch.setattr(served, "MOST_READERS", 1)

    async def scene() -> None:
        feed = Feed("run")
        readers = Readers(feed)

        async def never(_: Message) -> None:
            await asyncio.Event().wait()

        telling = asyncio.create_task(readers.send("run-0", never))
        await asyncio.sleep(0)
        request = served.Request({"type": "http", "headers": [], "query_string": b""})
        assert (await readers.follow(request)).status_code == 503
        await telling
        assert (await readers.follow(request)).status_code == 200

    play(scene)


def test_a_reader_that_goes_leaves_nothing_behind() -> None:
    async def scene() -> None:
        async with running() as (feed, client):
            for _ in range(3):
                async with client.stream("GET", f"/api/events?after={feed.place}"):
                    pass
            feed.publish({"devices": {"a": {}}})
            await asyncio.sleep(0.1)
            names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
            assert not [name for name in names if name.startswith("Readers")]

    play(scene)


# -- the address


def test_with_a_certificate_it_speaks_tls_alone(tmp_path: Path) -> None:
    authority = new_authority("test", time.time())
    pair = new_server(authority, ["127.0.0.1"], time.time())
    files = {"authority.crt": authority.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    site = site_of("127.0.0.1", 0, str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))

    async def scene() -> None:
        door = Door(TOKEN, b"key")
        context = ssl.create_default_context(cafile=str(tmp_path / "authority.crt"))
        async with serving(make_app(Feed("run"), door, lambda _: None), site) as port:
            door.listen("127.0.0.1", port)
            async with httpx.AsyncClient(verify=context, base_url=f"https://127.0.0.1:{port}") as client:
                answer = await client.post("/login", content=TOKEN)
                assert "Secure" in answer.headers["set-cookie"]
                assert (await client.get("/api/view")).status_code == 200
            async with httpx.AsyncClient() as client:
                with pytest.raises(httpx.HTTPError):
                    await client.get(f"http://127.0.0.1:{port}/")

    play(scene)


@pytest.mark.parametrize("listen", ["example.com", "", "127.0.0.1:80", "1.2.3", "::1]", "127.0.0.1\n"])
def test_what_is_no_address_is_told(listen: str) -> None:
    with pytest.raises(InputError, match="--listen"):
        site_of(listen, 0)


def test_sites_know_whether_others_reach_them_and_what_to_call_them() -> None:
    assert site_of("localhost", 80).is_loopback and site_of("[::1]", 80).url == "http://[::1]:80/"
    assert not site_of("0.0.0.0", 80).is_loopback
    assert site_of("0.0.0.0", 80, "c", "k").url == "https://127.0.0.1:80/"
    with pytest.raises(InputError, match="go together"):
        site_of("127.0.0.1", 80, "c")


def test_an_address_in_use_and_a_certificate_that_is_none_are_told() -> None:
    async def scene() -> None:
        async with running() as (_, client):
            taken = Site(port=client.base_url.port or 0)
            with pytest.raises(InputError, match="cannot listen"):
                async with serving(app()[1], taken):
                    pass
        with pytest.raises(InputError, match="certificate"):
            async with serving(app()[1], Site(certificate="/nothing.crt", key="/nothing.key")):
                pass

    play(scene)
