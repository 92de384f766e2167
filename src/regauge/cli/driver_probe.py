"""`regauge driver probe`."""

from __future__ import annotations

from typing import Annotated

import typer

TIMEOUT_S = 5.0


def command(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="What the driver was told with --listen.")],
    live: Annotated[bool, typer.Option("--live", help="Only whether it lives.")] = False,
) -> None:
    """Ask a running driver whether it is ready, or whether it lives. Made for the probes of its pod.

    Exit code 1 says that it is not, or does not answer; the reasons are on stderr.

    \b
    regauge driver probe unix:/run/regauge/driver.sock
    """
    import httpx

    from regauge.cli.output import say
    from regauge.driver.endpoint import LIVE_PATH, READY_PATH
    from regauge.driver.endpoint import address as parsed

    where = parsed(address)
    transport = httpx.HTTPTransport(uds=where.socket or None)
    host = f"[{where.host}]" if ":" in where.host else where.host or "driver"
    url = f"http://{host}:{where.port or 80}{LIVE_PATH if live else READY_PATH}"
    try:
        with httpx.Client(transport=transport, timeout=TIMEOUT_S) as client:
            answer = client.get(url)
    except httpx.HTTPError as error:
        say(f"{address} does not answer: {error}")
        raise typer.Exit(1) from None
    if answer.status_code != 200:
        say(answer.text.strip())
        raise typer.Exit(1)
