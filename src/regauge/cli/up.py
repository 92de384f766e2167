"""`regauge up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.ending import in_words
from regauge.cli.options import FeatureGates, rules_of, tell_skipped
from regauge.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.model import Rules
    from regauge.rehearsal.up import Started
    from regauge.rehearsal.up_estate import EstateOptions

State = Annotated[
    str | None,
    typer.Option("--state", metavar="DIR", help="Where the cluster is kept. Default: ~/.local/state/regauge/up."),
]
EstateFrom = Annotated[
    str | None,
    typer.Option("--estate", metavar="INPUT", help="Hold the nodes and objects of a dump or bundle; `sample`."),
]
ForgetAfter = Annotated[
    float | None,
    typer.Option(
        "--forget-after",
        metavar="SECONDS",
        min=0.0,
        help="How long kubelets of an estate remember a plugin that went. Default: as upstream, 300 for a counted name.",
    ),
]
DEFAULT_STATE = "~/.local/state/regauge/up"

RuntimeConfig = Annotated[
    str | None,
    typer.Option(
        "--runtime-config",
        metavar="GROUP/VERSION=BOOL,...",
        help="Versions of the API to serve or not, such as resource.k8s.io/v1beta1=true; api/all, api/beta, api/alpha.",
    ),
]
TopologyPolicy = Annotated[
    str, typer.Option("--topology-policy", help="none, best-effort, restricted or single-numa-node.")
]
RunCommands = Annotated[
    bool, typer.Option("--run-commands", help="Run the commands of pods here, as processes with your rights.")
]


def api_versions(text: str | None) -> dict[str, bool]:
    """The versions that --runtime-config switches on and off. Raises `InputError` for what is no such list."""
    from regauge.base import InputError

    found: dict[str, bool] = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, value = part.strip().partition("=")
        if name.count("/") != 1 or (equals and value not in ("true", "false")):
            raise InputError(f"--runtime-config: {part} is no version", fix="give GROUP/VERSION=true or =false")
        found[name] = value != "false"
    return found


app = typer.Typer(rich_markup_mode=None, invoke_without_command=True, add_completion=False)


@app.callback()
@in_words
def command(
    context: typer.Context,
    state: State = None,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="Write it here. Default: kubeconfig in --state.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=0, max=5000, help="How many nodes.")] = 1,
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="FILE", help="The devices of every node. Default: the sample.")
    ] = None,
    kube_version: Annotated[
        str | None, typer.Option("--kube-version", help="Kubernetes version to be: 1.36 (default) or 1.37.")
    ] = None,
    feature_gates: FeatureGates = None,
    listen: Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Port 0: any.")] = "127.0.0.1:0",
    expose: Annotated[bool, typer.Option("--expose", help="Listen also where other machines reach it.")] = False,
    topology_policy: TopologyPolicy = "none",
    topology_scope: Annotated[str, typer.Option("--topology-scope", help="container or pod.")] = "container",
    estate: EstateFrom = None,
    forget_after: ForgetAfter = None,
    runtime_config: RuntimeConfig = None,
    run_commands: RunCommands = False,
) -> None:
    """A cluster in this process that kubectl believes in: API server, controllers, scheduler, nodes with our driver.

    It runs until Ctrl-C or SIGTERM and is there again at the next start: every write that was answered is on disk.
    Containers are records; no command of a pod is executed unless --run-commands is given. It is for rehearsals.

    \b
    regauge up --nodes 3
    regauge up --estate sample --forget-after 2
    """
    if context.invoked_subcommand is not None:
        context.obj = state
        return
    import asyncio
    from pathlib import Path

    from regauge.rehearsal.up import UpOptions, run_until_stopped

    apart = {"--devices": devices, "--run-commands": run_commands, "--topology-policy": topology_policy != "none"}
    held = _estate(estate, (kube_version, feature_gates), forget_after, [name for name in apart if apart[name]])
    options = UpOptions(
        state=_state(state),
        rules=held.rules if held else _rules(kube_version, feature_gates),
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        nodes=nodes,
        devices=_read(devices) if devices else None,
        devices_file=devices or "sample/devices.yaml",
        host=_address(listen)[0],
        port=_address(listen)[1],
        exposed=expose,
        versions=api_versions(runtime_config),
        run_commands=run_commands,
        topology_policy=topology_policy,
        topology_scope=topology_scope,
        estate=held,
    )
    asyncio.run(run_until_stopped(options, _ready))
    say("stopped; regauge up starts it again as it was")


@app.command("backup")
@in_words
def backup_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The backup to write.")],
    state: State = None,
) -> None:
    """Write a consistent copy of the cluster's store, also while the cluster runs. No file is overwritten."""
    from regauge.rehearsal.up import backup_state

    place = _state(state or context.obj)
    say(f"backup of {place} at revision {backup_state(place, file)}: {file}")


@app.command("restore")
@in_words
def restore_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A backup.")],
    state: State = None,
) -> None:
    """Put a backup in the place of the store of a stopped cluster. What was there stays beside it."""
    from regauge.rehearsal.up import restore_state

    place = _state(state or context.obj)
    revision = restore_state(place, file)
    say(f"{place} is at revision {revision} again; what was there is in store.db.before-restore")


def _rules(kube_version: str | None, feature_gates: str | None) -> Rules:
    from regauge.features import DEFAULT_MINOR, parse_feature_gates, rules

    return rules(kube_version or DEFAULT_MINOR, parse_feature_gates(feature_gates) if feature_gates else {})


def _estate(
    place: str | None, version: tuple[str | None, str | None], forget_s: float | None, apart: list[str]
) -> EstateOptions | None:
    """The estate to hold, by a version and gates. Raises `InputError` for options (`apart`) that go with none."""
    from regauge.base import InputError

    if place is None:
        if forget_s is not None:
            raise InputError("--forget-after is for an estate", fix="give --estate too")
        return None
    if apart:
        why = "the estate says what its nodes have, and no command of it is executed"
        raise InputError(f"--estate and {apart[0]} exclude each other: {why}", fix="give one of them")
    from regauge.rehearsal.up_estate import EstateOptions, read_estate

    found = read_estate(place)
    tell_skipped(found)
    return EstateOptions(found, rules_of(found, *version), forget_s, say)


def _state(given: str | None) -> Path:
    from pathlib import Path

    return Path(given or DEFAULT_STATE).expanduser()


def _read(path: str) -> bytes:
    from regauge.base import InputError

    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", fix="check the path") from None


def _address(text: str) -> tuple[str, int]:
    from regauge.base import InputError

    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputError(f"--listen: {text} is no address", fix="give ADDRESS:PORT, such as 127.0.0.1:6443")
    return host.strip("[]") or "127.0.0.1", int(port)


def _ready(started: Started) -> None:
    say(f"ready: {started.server} with {started.nodes} node{'' if started.nodes == 1 else 's'}")
    say(f"export KUBECONFIG={started.kubeconfig}")
