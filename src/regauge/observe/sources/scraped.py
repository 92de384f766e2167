"""An exporter, a driver or a kubelet that is asked for its metrics over HTTP: TCP, TLS with a token, or a unix socket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import httpx

from regauge.base import InputError
from regauge.observe.ports import Readings, Trouble
from regauge.observe.sources.mappings import Mappings
from regauge.observe.sources.text import SIZE_LIMIT_BYTES, TextError, read_samples
from regauge.observe.sources.translating import (
    OF_OUR_DRIVER,
    Place,
    call_readings,
    device_readings,
    driver_reports,
    named,
)

TIMEOUT_S = 5.0
METRICS_PATH = "/metrics"
ACCEPT = "text/plain; version=0.0.4"


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint. `url` is http(s), or `unix:/PATH` of a socket that answers at /metrics.

    `node` and `driver` are what its samples do not tell. `token_file` is read anew for every request; `ca_file` is who
    signed its certificate, without one the system's; `insecure` accepts any certificate, as a kubelet's own.
    """

    url: str
    node: str = ""
    driver: str = ""
    token_file: str = ""
    ca_file: str = ""
    insecure: bool = False


def check_url(url: str) -> str:
    """The address, if it is one that can be asked. Raises `InputError`."""
    fix = "say http://HOST:PORT/metrics, https://HOST:PORT/metrics or unix:/PATH"
    if url.startswith("unix:"):
        if not url.startswith("unix:/"):
            raise InputError(f"{url!r} is no path of a socket", fix=fix)
        return url
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise InputError(f"{url!r} is no address", fix=fix) from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError(f"{url!r} is no address", fix=fix)
    return url if parsed.path not in ("", "/") else f"{url.rstrip('/')}{METRICS_PATH}"


class TooLarge(Exception):
    """The answer is longer than what is read."""


@dataclass(slots=True)
class ScrapedSource:
    """`Source` that asks its targets all at once, each with its own time limit."""

    name: str
    targets: Sequence[Target]
    mappings: Mappings
    timeout_s: float = TIMEOUT_S
    _clients: dict[Target, httpx.AsyncClient] = field(default_factory=dict)

    async def read(self, now_s: float) -> Readings:
        told = await asyncio.gather(*(self._of(target) for target in self.targets))
        return together(self.name, told)

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def _of(self, target: Target) -> Readings:
        try:
            async with asyncio.timeout(self.timeout_s):
                data = await self._fetch(target)
            return translated(data, self.mappings, Place(self.name, target.node, target.driver))
        except TimeoutError:
            return self._trouble(target, "slow", f"it did not answer within {self.timeout_s:g} s")
        except httpx.HTTPStatusError as error:
            return self._trouble(target, "refused", f"it answered with code {error.response.status_code}")
        except (httpx.HTTPError, OSError, ssl.SSLError) as error:
            return self._trouble(target, "unreachable", str(error) or type(error).__name__)
        except TooLarge:
            return self._trouble(target, "too-large", f"it answers with more than {SIZE_LIMIT_BYTES} bytes")
        except TextError as error:
            return self._trouble(target, "not-understood", str(error))

    def _trouble(self, target: Target, reason: str, text: str) -> Readings:
        return Readings(self.name, troubles=(Trouble(self.name, target.url, reason, text),))

    async def _fetch(self, target: Target) -> bytes:
        client = self._clients.get(target)
        if client is None:
            client = self._clients[target] = _client(target, self.timeout_s)
        url = f"http://socket{METRICS_PATH}" if target.url.startswith("unix:") else target.url
        headers = {"accept": ACCEPT}
        if target.token_file:
            headers["authorization"] = f"Bearer {await asyncio.to_thread(_token, target.token_file)}"
        async with client.stream("GET", url, headers=headers) as response:
            response.raise_for_status()
            parts, size = [], 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > SIZE_LIMIT_BYTES:
                    raise TooLarge
                parts.append(part)
        return b"".join(parts)


def together(source: str, told: Iterable[Readings], troubles: Iterable[Trouble] = ()) -> Readings:
    """What the places of one source told, as the source's word."""
    found = tuple(told)
    return Readings(
        source=source,
        devices=tuple(one for readings in found for one in readings.devices),
        errors=tuple(one for readings in found for one in readings.errors),
        latencies=tuple(one for readings in found for one in readings.latencies),
        reports=tuple(one for readings in found for one in readings.reports),
        troubles=(*troubles, *(one for readings in found for one in readings.troubles)),
    )


def translated(data: bytes, mappings: Mappings, place: Place) -> Readings:
    """What a text tells. Raises `TextError`."""
    samples = read_samples(data, mappings.names() | OF_OUR_DRIVER)
    place = named(place, samples)
    errors, latencies = call_readings(samples, mappings, place)
    return Readings(
        source=place.source,
        devices=device_readings(samples, mappings, place),
        errors=errors,
        latencies=latencies,
        reports=tuple(driver_reports(samples)),
    )


def _token(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _client(target: Target, timeout_s: float) -> httpx.AsyncClient:
    """No proxy of the environment and no redirect: what is asked is what was said."""
    limits = httpx.Limits(max_connections=2)
    if target.url.startswith("unix:"):
        transport = httpx.AsyncHTTPTransport(uds=target.url.removeprefix("unix:"), limits=limits)
        return httpx.AsyncClient(transport=transport, timeout=timeout_s, trust_env=False)
    verify: ssl.SSLContext | bool = True
    if target.insecure:
        verify = False
    elif target.ca_file:
        verify = ssl.create_default_context(cafile=target.ca_file)
    return httpx.AsyncClient(verify=verify, timeout=timeout_s, trust_env=False, limits=limits)
