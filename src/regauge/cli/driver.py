"""`regauge driver`: the node driver, and what goes with it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli import driver_check, driver_probe
from regauge.cli.ending import in_words

if TYPE_CHECKING:
    from regauge.driver import Notice
    from regauge.driver.live import Watcher

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None, subcommand_metavar="[check|probe]")


class LogFormat(StrEnum):
    """What `--log` takes."""

    text = "text"
    json = "json"


PodUid = Annotated[
    str,
    typer.Option(
        "--pod-uid", metavar="UID", envvar="POD_UID", help="Of the driver's pod: a newer one may replace it running."
    ),
]


def command(
    context: typer.Context,
    config: Annotated[str, typer.Option("--config", metavar="FILE", help="The description of devices.")] = "",
    kubelet_dir: Annotated[
        str, typer.Option("--kubelet-dir", metavar="DIR", help="The kubelet's directory.")
    ] = "/var/lib/kubelet",
    api: Annotated[str | None, typer.Option("--api", metavar="unix:PATH", help="API server on a unix socket.")] = None,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the API server.")
    ] = None,
    slices_file: Annotated[
        str | None,
        typer.Option("--slices-file", metavar="FILE", help="Write ResourceSlices here; there is no API server."),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", envvar="NODE_NAME", help="Default: the host's name.")
    ] = None,
    pod_uid: PodUid = "",
    cdi_dir: Annotated[
        str, typer.Option("--cdi-dir", metavar="DIR", help="Where CDI specs are written.")
    ] = "/var/run/cdi",
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="ADDRESS", help="Health, readiness and metrics: unix:PATH or 127.0.0.1:PORT."),
    ] = "",
    log: Annotated[LogFormat, typer.Option("--log", help="How to tell what happens, on stderr.")] = LogFormat.text,
) -> None:
    """Serve the devices of one description to pods: some by the Device Plugin API, some by claims (DRA).

    The description says for each device which stack has it. It is read again when it changes; a device goes to the other
    stack once no pod holds it. Without --api, --kubeconfig and --slices-file the current kubeconfig, or the service
    account of the pod, is used. Stop it with SIGTERM; kill it whenever you like.

    \b
    regauge driver --config devices.yaml
    regauge driver --config devices.yaml --kubelet-dir ./k --slices-file s.json --cdi-dir ./cdi
    regauge driver check devices.yaml claim.yaml
    """
    if context.invoked_subcommand is not None:
        return
    if not config:
        raise typer.BadParameter("say --config FILE, or one of: check, probe")
    import asyncio
    import socket

    from regauge.driver.live import Settings, serve

    settings = Settings(
        config=config,
        node_name=node or socket.gethostname().lower(),
        kubelet_dir=kubelet_dir,
        cdi_dir=cdi_dir,
        api=api,
        kubeconfig=kubeconfig,
        slices_file=slices_file,
        pod_uid=pod_uid,
    )
    watcher = _watcher(listen) if listen else None
    asyncio.run(serve(settings, _json if log is LogFormat.json else _text, watcher))


app.callback()(in_words(command))
app.command("check")(in_words(driver_check.command))
app.command("probe")(in_words(driver_probe.command))


def _watcher(listen: str) -> Watcher:
    from regauge.base import InputError

    try:
        from regauge.driver.endpoint import Endpoint, address
    except ImportError as error:
        raise InputError(
            f"--listen needs {error.name}, which is not installed", fix="pip install 'regauge[driver]'"
        ) from None
    from regauge.host import RealClock

    return Endpoint(address(listen), RealClock())


def _text(notice: Notice) -> None:
    from regauge.cli.output import say

    about = f"{notice.about}: " if notice.about else ""
    say(f"{notice.level}: {notice.code}: {about}{notice.text}")


def _json(notice: Notice) -> None:
    from regauge.base import canonical_json
    from regauge.cli.output import say

    document = {"about": notice.about, "code": notice.code, "level": notice.level, "text": notice.text}
    say(canonical_json(document).decode())
