"""How long calls take and how they end, told to whoever counts: a port, and the faces of both stacks that tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from regauge.base import Clock
from regauge.driver.device_plugin import Plugin
from regauge.driver.fleet import Fleet
from regauge.driver.notices import Tell
from regauge.pluginapi import (
    ClaimRef,
    ContainerAllocateResponse,
    DRAPlugin,
    PreferredAllocationRequest,
    PrepareResult,
    RpcError,
)

CLAIM_ERROR = "ClaimError"  # the call was answered, with an error for one of its claims


class Meter(Protocol):
    """Who counts. It must be quick and must not fail."""

    def took(self, call: str, code: str, duration_s: float) -> None:
        """A call of the kubelet, or `Reconcile` of the slices, ended with a gRPC code or `ClaimError`."""

    def asked(self, verb: str, resource: str, code: str, duration_s: float) -> None:
        """A request to the API server ended: see `MeasuredClient`."""


class NoMeter:
    """A `Meter` that forgets."""

    def took(self, call: str, code: str, duration_s: float) -> None:
        return None

    def asked(self, verb: str, resource: str, code: str, duration_s: float) -> None:
        return None


class _Timed:
    def __init__(self) -> None:
        self.code = "OK"


@contextmanager
def timed(meter: Meter, clock: Clock, call: str) -> Iterator[_Timed]:
    """Tell the meter how long the block took, and how it ended: what it raised, else what it wrote into `code`."""
    start_s = clock.monotonic_s()
    outcome = _Timed()
    try:
        yield outcome
    except RpcError as error:
        outcome.code = error.code
        raise
    except BaseException:
        outcome.code = "Unknown"
        raise
    finally:
        meter.took(call, outcome.code, clock.monotonic_s() - start_s)


class MeasuredPlugin(Plugin):
    """The device plugin stack, measured."""

    def __init__(self, fleet: Fleet, tell: Tell, meter: Meter, clock: Clock) -> None:
        super().__init__(fleet, tell)
        self._meter = meter
        self._clock = clock

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[ContainerAllocateResponse, ...]:
        with timed(self._meter, self._clock, "Allocate"):
            return await super().allocate(requests)

    async def get_preferred_allocation(
        self, requests: Sequence[PreferredAllocationRequest]
    ) -> tuple[tuple[str, ...], ...]:
        with timed(self._meter, self._clock, "GetPreferredAllocation"):
            return await super().get_preferred_allocation(requests)

    async def pre_start_container(self, device_ids: Sequence[str]) -> None:
        with timed(self._meter, self._clock, "PreStartContainer"):
            await super().pre_start_container(device_ids)


class MeasuredClaims:
    """The DRA stack, measured."""

    def __init__(self, claims: DRAPlugin, meter: Meter, clock: Clock) -> None:
        self._claims = claims
        self._meter = meter
        self._clock = clock

    async def node_prepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        with timed(self._meter, self._clock, "NodePrepareResources") as outcome:
            results = await self._claims.node_prepare_resources(claims)
            if any(result.error for result in results.values()):
                outcome.code = CLAIM_ERROR
            return results

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        with timed(self._meter, self._clock, "NodeUnprepareResources") as outcome:
            results = await self._claims.node_unprepare_resources(claims)
            if any(results.values()):
                outcome.code = CLAIM_ERROR
            return results
