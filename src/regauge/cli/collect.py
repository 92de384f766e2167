"""`regauge collect`, `regauge collect node` and `regauge collect watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.ending import in_words
from regauge.cli.options import Context, Kubeconfig
from regauge.cli.output import print_table, say, tell
from regauge.cli.reading import From, read_estate, with_gates

if TYPE_CHECKING:
    from regauge.collect import Diagnosed, Estate
    from regauge.model.node_files import NodeFiles

DIAGNOSES = "diagnosis-"

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    help="Write a bundle: one file with everything that the other verbs look at. Reads only.",
)

Out = Annotated[str, typer.Option("--output-file", "-o", metavar="FILE", help="The bundle to write, or - for a pipe.")]
Anonymise = Annotated[bool, typer.Option("--anonymise", help="Replace names, each everywhere by the same word.")]
Nodes = Annotated[
    str | None,
    typer.Option("--nodes", metavar="DIR", help="Records that `regauge collect node` wrote, NODE.json each."),
]
Root = Annotated[str, typer.Option("--root", metavar="DIR", help="The root of the node's files, as mounted here.")]
Node = Annotated[
    str, typer.Option("--node", metavar="NAME", help="The node's name. Default: $NODE_NAME, then the host's.")
]


def command(
    context_: typer.Context,
    out: Out = "estate.zip",
    from_: From = None,
    nodes: Nodes = None,
    anonymise: Anonymise = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write a bundle of the current kube context, or of a dump.

    \b
    regauge collect -o estate.zip
    regauge collect -o estate.zip --anonymise --nodes records/
    regauge collect --from must-gather/ -o estate.zip
    regauge collect node -o -            on a node: CDI, kubelet, runtime, devices

    Secrets, values of environment variables and ConfigMaps that name no device are not in it; its manifest lists what is.
    Every verb that takes an INPUT takes a bundle. docs/collect.md has the rights it needs, and a DaemonSet for nodes.
    """
    if context_.invoked_subcommand is not None:
        return
    in_words(_collect)(out, from_, nodes, anonymise, kubeconfig, context)


def _collect(
    out: str, from_: str | None, nodes: str | None, anonymise: bool, kubeconfig: str | None, context: str | None
) -> None:
    from datetime import UTC, datetime

    from regauge.collect import AUDIT_KINDS, anonymised, bundle_bytes, without_secrets
    from regauge.model.kinds import CORE_EVENT

    kinds = (*AUDIT_KINDS, CORE_EVENT)
    estate = read_estate(from_, kubeconfig, context, progress=lambda what: say(f"  reading {what}"), more=kinds)
    estate = with_records(estate, nodes)
    estate, left_out = without_secrets(estate)
    if anonymise:
        estate = anonymised(estate)
        left_out = (*left_out, "names, addresses, images and commands of workloads; files of nodes")
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    data = bundle_bytes(estate, created, left_out, anonymised=anonymise)
    _write(out, data)
    if out == "-":
        return
    counts: dict[str, int] = {}
    for document in estate.snapshot.all_documents():
        counts[document.kind] = counts.get(document.kind, 0) + 1
    print_table(("KIND", "OBJECTS"), [(kind, str(count)) for kind, count in sorted(counts.items())])
    tell()
    for item in left_out:
        tell(f"left out: {item}")
    for missing in estate.skipped:
        tell(f"not read: {missing.what}: {missing.why}")
    tell(f"{out}: {len(data) >> 10} KiB, {sum(counts.values())} objects, {len(estate.nodes)} nodes' own records.")
    tell(f"Next: regauge assess {out}, regauge plan {out}")


def watch_command(
    into: Annotated[str, typer.Argument(metavar="DIR", help="Where the bundles go, mode 0600 each.")],
    every: Annotated[float, typer.Option("--every", min=1.0, metavar="SECONDS", help="Time between two looks.")] = 10.0,
    keep: Annotated[int, typer.Option("--keep", min=1, help="How many bundles stay; the oldest go.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="One look: what is ill now, if anything.")] = False,
    nodes: Nodes = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write a bundle whenever a device falls ill, until it is stopped: the diagnosis starts with what was so at that moment.

    Each look lists nodes and slices; the cluster is collected when a driver tells of a device that was well before.

    \b
    regauge collect watch /var/lib/regauge/diagnoses
    regauge collect watch diagnoses --once
    """
    import asyncio
    import os

    from regauge.collect import AUDIT_KINDS, Diagnosis, collect_live
    from regauge.host import RealClock
    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient

    async def watch() -> None:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))

        async def collect() -> Estate:
            estate = await with_gates(client, await collect_live(client, more=AUDIT_KINDS))
            return with_records(estate, nodes)

        def kept(found: Diagnosed) -> None:
            _keep(into, found, keep)

        diagnosis = Diagnosis(client, RealClock(), collect, kept, say)
        try:
            if not once:
                await diagnosis.run(every)
            elif await diagnosis.look() is None:
                tell("Every device is well.")
        finally:
            await client.close()

    asyncio.run(watch())


def _keep(directory: str, found: Diagnosed, most: int) -> None:
    """Write a bundle, tell of it, and let the oldest go."""
    from pathlib import Path

    place = Path(directory)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(str(place / found.name), found.data)
    for ailment in found.because:
        tell(f"{ailment}")
    tell(f"{place / found.name}: {len(found.data) >> 10} KiB. Next: regauge audit {place / found.name}")
    for old in sorted(place.glob(f"{DIAGNOSES}*.zip"))[:-most]:
        old.unlink()


def node_command(out: Out = "-", root: Root = "/", node: Node = "") -> None:
    """Record this node: CDI, the kubelet's and drivers' checkpoints, the runtime's configuration, the devices on its bus.

    \b
    regauge collect node -o -
    regauge collect node --root /host --node gpu-3 -o gpu-3.json

    Reads only, starts nothing, follows no link out of the root.
    """
    import os
    import socket

    import msgspec

    from regauge.collect import read_node

    name = node or os.environ.get("NODE_NAME") or socket.gethostname()
    files = read_node(root)
    _write(out, msgspec.json.encode(files))
    if out != "-":
        for path, why in files.unread:
            say(f"not read: {path}: {why}")
        specs = sum(len(directory.files) for directory in files.directories)
        tell(
            f"{out}: node {name}, {specs} CDI files, {len(files.kubelet)} of the kubelet, {len(files.functions)} functions."
        )


def with_records(estate: Estate, directory: str | None) -> Estate:
    """The estate with the records of its nodes in a directory, where one is given. Raises `InputError`."""
    from dataclasses import replace

    return replace(estate, nodes={**estate.nodes, **_records(directory)}) if directory else estate


def _records(directory: str) -> dict[str, NodeFiles]:
    from pathlib import Path

    from regauge.base import InputError, Where
    from regauge.collect import read_node_record

    place = Path(directory)
    if not place.is_dir():
        raise InputError("there is no such directory", where=Where(directory), fix="give the one with the records")
    return {path.stem: read_node_record(path.read_bytes(), str(path)) for path in sorted(place.glob("*.json"))}


def _write(out: str, data: bytes) -> None:
    import sys
    from pathlib import Path

    from regauge.base import InputError
    from regauge.host import RealFiles

    if out == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        RealFiles().write(str(Path(out).absolute()), data, 0o600)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}", fix="choose another place") from None


app.callback()(command)
app.command("node")(in_words(node_command))
app.command("watch")(in_words(watch_command))
