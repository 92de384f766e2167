"""`regauge export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from regauge.cli import export_views
from regauge.cli.ending import in_words
from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, rules_of, tell_skipped
from regauge.cli.output import say
from regauge.cli.reading import Input, read_estate
from regauge.cli.tokens import read_token

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from regauge.collect import Estate
    from regauge.model import Rules
    from regauge.observe import Readings, Source
    from regauge.observe.dashboard.serving import Site
    from regauge.observe.exporter import Followed, Options, World
    from regauge.observe.scraping import Guard

    RulesOf = Callable[[Estate], Rules]

Once = Annotated[bool, typer.Option("--once", help="Print the metrics of one look, and end.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any that is free.")]
Listen = Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="IP address to listen on.")]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", help="File with the token that scrapers must show. Off loopback: needed."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="HOST", help="A name under which scrapers reach it without a token; may be repeated."
    ),
]
Certificate = Annotated[str, typer.Option("--tls-cert-file", metavar="FILE", help="Certificate chain, PEM.")]
PrivateKey = Annotated[str, typer.Option("--tls-private-key-file", metavar="FILE", help="Its key, PEM.")]
PlainHttp = Annotated[
    bool, typer.Option("--plain-http", help="No TLS although others reach it: behind a proxy that has it.")
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="KIND[=PLACE]", help="Who measures: see docs/export.md; may be repeated."),
]
Node = Annotated[
    str, typer.Option("--node", metavar="NAME", help="Tell only what this node's kubelet and sources know.")
]
StateFile = Annotated[
    str, typer.Option("--state", metavar="FILE", help="Where counters are kept, so that they survive a restart.")
]
Interval = Annotated[float, typer.Option("--interval", metavar="SECONDS", min=1.0, help="How often sources are read.")]
Compare = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--compare", metavar="FILE FILE", help="Hold the device-seconds of two --state files against each other."
    ),
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", metavar="SHARE", min=0.0, max=1.0, help="With --compare: the share tolerated.")
]
MostSeries = Annotated[int, typer.Option("--max-series", min=1, help="At most so many series of each metric.")]


def command(
    place: Input = None,
    once: Once = False,
    port: Port = 9836,
    listen: Listen = "127.0.0.1",
    token_file: TokenFile = None,
    name: Names = None,
    tls_cert_file: Certificate = "",
    tls_private_key_file: PrivateKey = "",
    plain_http: PlainHttp = False,
    source: SourceOption = None,
    node: Node = "",
    state: StateFile = "",
    interval: Interval = 15.0,
    max_series: MostSeries = 100_000,
    compare: Compare = None,
    tolerance: Tolerance = 0.01,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Metrics of devices, claims and who holds what, over both stacks, for Prometheus. Reads only; Ctrl-C ends it.

    The current kube context is followed by list and watch; a bundle or files are told as they are.

    \b
    regauge export --once                   the metrics of this moment, on stdout
    regauge export --once estate.zip        those of a bundle, at the moment it was made
    regauge export --state export.state     serve http://127.0.0.1:9836/metrics
    regauge export --node gpu-3 --source pod-resources --source nvml       what only that node knows
    regauge export --compare a.state b.state    two attributions: 0 if they agree within what they state, else 1
    regauge export --listen 0.0.0.0 --token-file token --tls-cert-file tls.crt --tls-private-key-file tls.key

    On loopback nothing is asked; elsewhere the token of --token-file, over TLS.
    """
    if compare is not None:
        raise typer.Exit(0 if _compare(compare, tolerance) else 1)

    def rules(estate: Estate) -> Rules:
        return rules_of(estate, kube_version, feature_gates)

    options = _options(node, state, interval, max_series)
    sources = _sources(source or (), node)
    if once:
        live = place is None
        estate = _list(kubeconfig, context, node) if live else read_estate(place, kubeconfig, context)
        tell_skipped(estate)
        _print_once(estate, rules(estate), sources, options, live=live)
        return
    site = _site(listen, port, (tls_cert_file, tls_private_key_file))
    guard = _guard(token_file, site, name, plain_http=plain_http)
    if place is not None:
        estate = read_estate(place, kubeconfig, context)
        tell_skipped(estate)
        work = _still(estate, rules, sources, options, (site, guard))
    else:
        work = _live((kubeconfig, context), rules, sources, options, (site, guard))
    _run(work)


def _options(node: str, state: str, interval_s: float, most_series: int) -> Options:
    from importlib.metadata import version

    from regauge.observe.exporter import Options

    return Options(node, state, interval_s, most_series, version("regauge"))


def _compare(files: tuple[str, str], tolerance: float) -> bool:
    """Whether the device-seconds in two states agree. Raises `InputError` for a file that is no state."""
    from regauge.base import InputError
    from regauge.cli.output import print_table, tell
    from regauge.host import RealFiles
    from regauge.observe.comparing import compare
    from regauge.observe.history import from_bytes

    try:
        left, right = (from_bytes(RealFiles().read(file), file) for file in files)
    except OSError as error:
        raise InputError(f"--compare: {error}", fix="give two files that --state wrote") from None
    found = compare(left.charges, right.charges, tolerance)
    rows = [
        (
            one.namespace,
            f"{one.kind}/{one.workload}" if one.kind else "-",
            f"{one.left_s:.1f}",
            f"{one.right_s:.1f}",
            f"{one.left_s - one.right_s:+.1f}",
            f"{one.allowed_s:.1f}",
            "+".join(sorted({*one.stacks[0], *one.stacks[1]})),
            "" if one.agrees else "differs",
        )
        for one in found
    ]
    print_table(("NAMESPACE", "WORKLOAD", "LEFT S", "RIGHT S", "DIFFERENCE", "ALLOWED", "STACKS", ""), rows)
    apart = sum(not one.agrees for one in found)
    tell(f"{len(found)} workloads, {apart} of them differ by more than is stated and tolerated.")
    return not apart


def _sources(names: list[str] | tuple[str, ...], node: str) -> tuple[Source, ...]:
    if not names:
        return ()
    from regauge.host import RealFiles
    from regauge.observe.sources import Surroundings, make_sources
    from regauge.pluginapi.wire import WireNet

    return make_sources(names, Surroundings(WireNet(), RealFiles(), node))


def _site(listen: str, port: int, tls: tuple[str, str]) -> Site:
    from regauge.observe.dashboard.serving import site_of

    return site_of(listen, port, *tls)


def _guard(token_file: str | None, site: Site, names: list[str] | None, *, plain_http: bool) -> Guard:
    """Who may scrape. Raises `InputError` for a site that others reach without TLS and a token."""
    from regauge.base import InputError
    from regauge.observe.scraping import Guard

    if not site.is_loopback:
        reached = f"--listen: {site.host} is reached from other machines"
        if not site.certificate and not plain_http:
            raise InputError(
                f"{reached}, and without TLS all of it could be read on the way",
                fix="give --tls-cert-file and --tls-private-key-file; or --plain-http behind a proxy that has TLS",
            )
        if token_file is None:
            raise InputError(f"{reached}, and who scrapes must show a token", fix="give --token-file")
    return Guard(read_token(token_file) if token_file is not None else "", names or ())


def _print_once(estate: Estate, rules: Rules, sources: tuple[Source, ...], options: Options, *, live: bool) -> None:
    """The metrics of one look. Of a dump at the moment that its objects tell, else ages would be those of its keeping."""
    import asyncio
    import sys
    import time

    from regauge.audit import AuditInput
    from regauge.collect import reports_of
    from regauge.observe.dump_time import moment_of
    from regauge.observe.exporter import tell_once, upkeep_of
    from regauge.observe.metric_moment import merged_reports

    told_s = None if live else moment_of(estate.snapshot)
    now_s = time.time() if told_s is None else told_s

    async def read() -> list[Readings]:
        return [await source.read(now_s) for source in sources]

    readings = asyncio.run(read())
    reports = merged_reports(reports_of(estate), readings)
    given = AuditInput(estate.snapshot, rules, estate.source, now_s, estate.nodes, reports)
    upkeep = upkeep_of(estate, options.version) if live else None
    sys.stdout.buffer.write(tell_once(given, readings, options, upkeep))


def _list(kubeconfig: str | None, context: str | None, node: str) -> Estate:
    """What the exporter looks at of the cluster of a context, by list alone."""
    import asyncio
    import os

    from regauge.cli.reading import with_gates
    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient
    from regauge.observe.exporter import list_once

    async def collect() -> Estate:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))
        try:
            return await with_gates(client, await list_once(client, node))
        finally:
            await client.close()

    return asyncio.run(collect())


def _still(
    estate: Estate, rules: RulesOf, sources: tuple[Source, ...], options: Options, door: tuple[Site, Guard]
) -> Coroutine[None, None, None]:
    """Serve the metrics of an estate that does not change."""

    async def work() -> None:
        from regauge.collect import reports_of
        from regauge.host import RealClock, RealFiles
        from regauge.observe.exporter import Still, World

        async def known() -> Rules:
            return rules(estate)

        around = World(RealClock(), RealFiles(), known, say, sources, reports_of(estate))
        await _serve(Still(estate), around, options, door)

    return work()


def _live(
    asked: tuple[str | None, str | None],
    rules: RulesOf,
    sources: tuple[Source, ...],
    options: Options,
    door: tuple[Site, Guard],
) -> Coroutine[None, None, None]:
    """Serve the metrics of the cluster of a context."""

    async def work() -> None:
        import os

        from regauge.cli.reading import with_gates
        from regauge.collect import Estate
        from regauge.host import RealClock, RealFiles
        from regauge.kube.config import load_connection
        from regauge.kube.http import HttpClient
        from regauge.model import Snapshot
        from regauge.observe.exporter import World, follow

        kubeconfig, context = asked
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))

        async def known() -> Rules:
            version = await client.version()
            found = Estate(Snapshot.of(()), "the current context", version.git_version)
            return rules(await with_gates(client, found))

        try:
            around = World(RealClock(), RealFiles(), known, say, sources)
            await _serve(follow(client, around.clock, options.node), around, options, door)
        finally:
            await client.close()

    return work()


async def _serve(watched: Followed, around: World, options: Options, door: tuple[Site, Guard]) -> None:
    import asyncio
    from dataclasses import replace

    from regauge.host import FileLock
    from regauge.observe.dashboard.serving import serving
    from regauge.observe.exporter import Exporter
    from regauge.observe.scraping import make_app

    site, guard = door
    lock = FileLock(f"{options.state}.lock") if options.state else None
    _take(lock, options.state)
    exporter = Exporter(watched, around, options)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(exporter.run())
            async with serving(make_app(exporter, guard), site) as port:
                say(f"metrics are on {replace(site, port=port).url}metrics")
                await asyncio.wait((running,))
    finally:
        if lock is not None:
            lock.release()


def _take(lock: object, state: str) -> None:
    """Raises `InputError` where the state belongs to another exporter, or cannot be there."""
    from regauge.base import InputError
    from regauge.host import FileLock

    if not isinstance(lock, FileLock):
        return
    try:
        taken = lock.take()
    except OSError as error:
        raise InputError(
            f"--state: {state} cannot be used: {error}", fix="give a file in a directory that exists"
        ) from None
    if not taken:
        raise InputError(f"--state: another exporter has {state}", fix="stop it, or give each its own file")


def _run(work: Coroutine[None, None, None]) -> None:
    """Run until Ctrl-C or SIGTERM, and let it save what it counted."""
    import asyncio
    import contextlib
    import signal

    async def run() -> None:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
    say("stopped")


SERVE = "serve"
BESIDE = "Beside it: regauge export rules (alerts), grafana (a dashboard), manifests (what a cluster needs to run it)."


class _Group(TyperGroup):
    """Metrics are what is meant where no other command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if named else [SERVE, *args])


app = typer.Typer(cls=_Group, rich_markup_mode=None, help="Metrics for Prometheus, and what goes with them.")
app.command(SERVE, epilog=BESIDE)(in_words(command))
app.command("rules")(in_words(export_views.rules_command))
app.command("grafana")(in_words(export_views.grafana_command))
app.command("manifests")(in_words(export_views.manifests_command))
