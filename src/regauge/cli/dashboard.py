"""`regauge dashboard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, rules_of, tell_skipped
from regauge.cli.output import say
from regauge.cli.reading import Input, read_estate
from regauge.cli.tokens import read_token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from regauge.collect import Estate
    from regauge.model import Rules
    from regauge.observe.dashboard import Dashboard, Door
    from regauge.observe.dashboard.serving import Site

    Begin = Callable[[Rules], Dashboard]
    Work = Callable[[Begin], Awaitable[None]]
    Asked = tuple[str | None, str | None]

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any that is free.")]
Listen = Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="IP address to listen on.")]
Open = Annotated[bool, typer.Option("--open", help="Open it in a browser.")]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", help="File with the token that readers must show. Off loopback: made."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="HOST[:PORT]", help="A name under which readers reach it; may be repeated."),
]
Certificate = Annotated[str, typer.Option("--tls-cert-file", metavar="FILE", help="Certificate chain, PEM.")]
PrivateKey = Annotated[str, typer.Option("--tls-private-key-file", metavar="FILE", help="Its key, PEM.")]
PlainHttp = Annotated[
    bool, typer.Option("--plain-http", help="No TLS although others reach it: behind a proxy that has it.")
]


def command(
    place: Input = None,
    port: Port = 8095,
    listen: Listen = "127.0.0.1",
    open_: Open = False,
    token_file: TokenFile = None,
    name: Names = None,
    tls_cert_file: Certificate = "",
    tls_private_key_file: PrivateKey = "",
    plain_http: PlainHttp = False,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show devices, who holds them, what waits and why, findings and rollouts on a page. Reads only; Ctrl-C ends it.

    The current kube context is followed by list and watch; a bundle or files are shown as they are.

    \b
    regauge dashboard                       the current kube context, live, on http://127.0.0.1:8095/
    regauge dashboard sample --open         the packaged estate, in a browser
    regauge dashboard --listen 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key --name gpus.example.com

    On loopback nothing is asked; elsewhere a token is: that of --token-file, or one that is made and printed.
    """
    import asyncio
    import secrets

    from regauge.base import InputError
    from regauge.observe.dashboard import Door

    try:
        from regauge.observe.dashboard.serving import site_of
    except ImportError as error:
        fix = "pip install regauge[cluster], or regauge[driver]"
        raise InputError(f"the page needs an HTTP server, and {error.name} is not installed", fix=fix) from None
    site = site_of(listen, port, tls_cert_file, tls_private_key_file)
    token = _token(token_file, site, plain_http=plain_http)
    door = Door(token, secrets.token_bytes(32), name or ())
    asked = (kube_version, feature_gates)
    if place is not None:
        estate = read_estate(place, kubeconfig, context)
        tell_skipped(estate)
        work = _still(estate, asked)
    else:
        work = _live(kubeconfig, context, asked)

    def ready(url: str) -> None:
        _tell(url, token, made=token_file is None, open_=open_)

    try:
        asyncio.run(_served(work, door, site, ready))
    except KeyboardInterrupt:
        say("stopped")


def _token(file: str | None, site: Site, *, plain_http: bool) -> str:
    """The token to ask for, "" for none. Raises `InputError` for a site that would send it in the clear."""
    import secrets

    from regauge.base import InputError

    if not site.is_loopback and not site.certificate and not plain_http:
        raise InputError(
            f"--listen: {site.host} is reached from other machines, and without TLS all of it could be read on the way",
            fix="give --tls-cert-file and --tls-private-key-file; or --plain-http behind a proxy that has TLS",
        )
    if file is None:
        return "" if site.is_loopback else secrets.token_urlsafe(32)
    return read_token(file)


def _still(estate: Estate, asked: Asked) -> Work:
    """The work of a dashboard about an estate that does not change."""

    async def work(begin: Begin) -> None:
        await begin(rules_of(estate, *asked)).show(estate)

    return work


def _live(kubeconfig: str | None, context: str | None, asked: Asked) -> Work:
    """The work of a dashboard about the cluster of a context."""

    async def work(begin: Begin) -> None:
        import asyncio
        import os

        from regauge.cli.reading import with_gates
        from regauge.collect import Estate
        from regauge.host import RealClock
        from regauge.kube.config import load_connection
        from regauge.kube.http import HttpClient
        from regauge.model import Snapshot
        from regauge.observe.dashboard import followed_kinds
        from regauge.observe.watching import Watched

        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))
        try:
            version = await client.version()
            source = f"context {context}" if context else "the current context"
            estate = await with_gates(client, Estate(Snapshot.of(()), source, version.git_version))
            dashboard = begin(rules_of(estate, *asked))
            watched = Watched(client, RealClock(), followed_kinds())
            await asyncio.gather(watched.run(), dashboard.follow(watched, estate))
        finally:
            await client.close()

    return work


async def _served(work: Work, door: Door, site: Site, ready: Callable[[str], None]) -> None:
    """Do the work, and answer readers from its beginning on, until interrupted."""
    import asyncio
    import secrets
    from dataclasses import replace

    from regauge.host import RealClock
    from regauge.observe.dashboard import Dashboard, Feed, World
    from regauge.observe.dashboard.server import make_app
    from regauge.observe.dashboard.serving import serving

    begun: asyncio.Future[Dashboard] = asyncio.get_running_loop().create_future()

    def begin(rules: Rules) -> Dashboard:
        dashboard = Dashboard(Feed(secrets.token_hex(8)), World(RealClock(), secrets.SystemRandom(), rules))
        begun.set_result(dashboard)
        return dashboard

    working = asyncio.ensure_future(work(begin))
    try:
        await asyncio.wait((begun, working), return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            return await working
        dashboard = begun.result()
        async with serving(make_app(dashboard.feed, door, dashboard.details), site) as port:
            door.listen(site.host, port)
            ready(replace(site, port=port).url)
            await working
            await asyncio.Event().wait()
    finally:
        working.cancel()


def _tell(url: str, token: str, *, made: bool, open_: bool) -> None:
    """Say where it is. A token that was made goes into the fragment of the address, which browsers do not send."""
    from urllib.parse import quote

    address = f"{url}#token={quote(token)}" if token and made else url
    say(f"the dashboard is on {address}")
    if token and not made:
        say("it asks for the token of --token-file")
    say("Ctrl-C ends it")
    if open_:
        import webbrowser

        webbrowser.open(address)
