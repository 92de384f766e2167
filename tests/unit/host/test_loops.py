"""Cancelled in the moment in which data arrive: the end is quiet, and real faults are not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from regauge.host.loops import forgive_late_wakes


def told(caplog: pytest.LogCaptureFixture, act: Callable[[asyncio.Future[None]], object], forgive: bool) -> list[str]:
    """What the loop complains of when a future waits for a socket, and `act` happens as the socket becomes readable."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        if forgive:
            forgive_late_wakes(loop)
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            waits = loop.create_future()
            loop.add_reader(near, waits.set_result, None)
            far.send(b"x")
            loop.call_soon(act, waits)  # the loop looks at its sockets before it comes to this
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            loop.remove_reader(near)

    asyncio.run(main())
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("forgive", "complaints"), [(False, 1), (True, 0)])
def test_a_reader_that_was_cancelled_just_then_is_no_complaint(
    caplog: pytest.LogCaptureFixture, forgive: bool, complaints: int
) -> None:
    said = told(caplog, lambda waits: waits.cancel(), forgive)
    assert len(said) >= complaints if complaints else said == []


def test_a_result_that_is_set_twice_is_still_said(caplog: pytest.LogCaptureFixture) -> None:
    said = told(caplog, lambda waits: waits.set_result(None), True)
    assert said and all("Exception in callback" in one for one in said)


def test_other_faults_are_still_said(caplog: pytest.LogCaptureFixture) -> None:
    def fails(waits: asyncio.Future[None]) -> None:
        waits.cancel()
        raise RuntimeError("something else")

    (said,) = told(caplog, fails, True)
    assert "fails" in said
