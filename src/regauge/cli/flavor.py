"""`regauge flavor render` and `regauge flavor check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.base import pretty_json
from regauge.cli.convert import Form, TemplatePaths, To, Written
from regauge.cli.ending import in_words
from regauge.cli.manifests import ground_for, read_manifests
from regauge.cli.options import FeatureGates, KubeVersion, Output
from regauge.cli.output import Format, print_document, print_table, say, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.cli.manifests import Manifest
    from regauge.migrate import Drift, Flavor, Ground, Rendered

RENDER_SCHEMA = "regauge.flavor.render/v1"
CHECK_SCHEMA = "regauge.flavor.check/v1"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="One source, two stacks: workloads name an accelerator flavor, and get the manifests of either stack.",
)

Source = Annotated[str, typer.Argument(metavar="INPUT", help="File, directory, or - for standard input.")]
Flavors = Annotated[
    str | None,
    typer.Option(
        "--flavors", metavar="FILE", help="File or directory with AcceleratorFlavors. Default: those in INPUT."
    ),
]
Stack = Annotated[To | None, typer.Option("--stack", help="This stack, whatever the flavors' rules choose.")]


def render_command(
    source: Source = "-",
    flavors: Flavors = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="ESTATE", help="Dump whose pools and classes the rules look at.")
    ] = None,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    stack: Stack = None,
    template_paths: TemplatePaths = None,
    output: Written = Form.yaml,
) -> None:
    """Render workloads that name a flavor for the stack that the flavor's rules choose; everything else passes through.

    \b
    regauge flavor render app.yaml --flavors flavors.yaml --kube-version 1.36
    kubectl kustomize . | regauge flavor render - --flavors flavors.yaml | kubectl apply -f -
    """
    manifests = read_manifests(source)
    known = _flavors(flavors, manifests)
    ground = ground_for(from_, kube_version, feature_gates, [])
    rendered = _rendered(manifests, known, ground, stack, template_paths)
    if output is Form.json:
        print(pretty_json(_render_document(rendered, ground)))
    else:
        _print(rendered, manifests)
    for item in rendered.values():
        for why in item.why:
            say(f"note: {item.document.title}: {why}")


def check_command(
    source: Source,
    from_: Annotated[str, typer.Option("--from", metavar="ESTATE", help="Dump of what runs.")],
    flavors: Flavors = None,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    stack: Stack = None,
    template_paths: TemplatePaths = None,
    output: Output = Format.table,
) -> None:
    """Find where what runs differs from what its source renders to. Exit code 1 when it does.

    \b
    regauge flavor check app.yaml --flavors flavors.yaml --from DIR
    """
    from regauge.migrate import find_drift

    manifests = read_manifests(source)
    known = _flavors(flavors, manifests)
    ground = ground_for(from_, kube_version, feature_gates, [])
    rendered = [item for item in _rendered(manifests, known, ground, stack, template_paths).values() if item.changed]
    found = (
        [] if ground.snapshot is None else [drift for item in rendered for drift in find_drift(item, ground.snapshot)]
    )
    if output is Format.table:
        _print_drift(found, len(rendered))
    else:
        print_document(_check_document(found, len(rendered), ground), output)
    raise typer.Exit(1 if found else 0)


def _flavors(place: str | None, manifests: Iterable[Manifest]) -> Mapping[str, Flavor]:
    """The flavors that are given, and those in the input."""
    from regauge.migrate import read_flavors

    given = read_manifests(place) if place else ()
    return read_flavors(document for manifest in (*given, *manifests) for document in manifest.documents)


def _rendered(
    manifests: Iterable[Manifest],
    known: Mapping[str, Flavor],
    ground: Ground,
    stack: To | None,
    template_paths: list[str] | None,
) -> dict[int, Rendered]:
    """Every workload of the input rendered, by the identity of its document. Flavors are left out."""
    from regauge.migrate import AskStack, is_flavor, parse_path, render

    paths = tuple(parse_path(text) for text in template_paths or ())
    forced = AskStack(stack.value) if stack else None
    return {
        id(document): render(document, known, ground, forced, paths)
        for manifest in manifests
        for document in manifest.documents
        if not is_flavor(document)
    }


def _print(rendered: Mapping[int, Rendered], manifests: Iterable[Manifest]) -> None:
    from regauge.migrate import Replacement, join, rewrite

    parts = []
    for manifest in manifests:
        items = [rendered.get(id(document)) for document in manifest.documents]
        own = [Replacement(item.object, item.before) if item else Replacement(None) for item in items]
        rewritten = rewrite(manifest.text, manifest.file, own)
        if rewritten.text.strip():
            parts.append(rewritten.text)
        for note in rewritten.notes:
            say(f"note: {note}")
    print(join(parts), end="")


def _render_document(rendered: Mapping[int, Rendered], ground: Ground) -> dict[str, Any]:
    return {
        "schema": RENDER_SCHEMA,
        "kubeVersion": ground.rules.minor,
        "workloads": [
            {
                "namespace": item.document.namespace,
                "kind": item.document.kind,
                "name": item.document.name,
                "why": list(item.why),
            }
            for item in rendered.values()
            if item.changed
        ],
        "objects": [object_ for item in rendered.values() for object_ in (*item.before, item.object)],
    }


def _print_drift(found: list[Drift], count: int) -> None:
    if found:
        rows = [(item.object, item.path or "-", item.source, item.running) for item in found]
        print_table(("OBJECT", "WHERE", "SOURCE", "RUNS"), rows)
        tell()
    tell(f"{count} workloads name a flavor, {len(found)} differences.")


def _check_document(found: list[Drift], count: int, ground: Ground) -> dict[str, Any]:
    return {
        "schema": CHECK_SCHEMA,
        "kubeVersion": ground.rules.minor,
        "workloads": count,
        "differences": [
            {"object": item.object, "where": item.path, "source": item.source, "running": item.running}
            for item in found
        ],
    }


app.command("render")(in_words(render_command))
app.command("check")(in_words(check_command))
