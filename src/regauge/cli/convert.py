"""`regauge convert`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.base import pretty_json
from regauge.cli.manifests import ground_for, read_manifests
from regauge.cli.options import FeatureGates, KubeVersion
from regauge.cli.output import plain, say, tell

if TYPE_CHECKING:
    from regauge.cli.manifests import Manifest
    from regauge.migrate import Conversion, Converted, Ground, Replacement

SCHEMA = "regauge.convert/v1"


class To(StrEnum):
    """What `--to` takes."""

    dra = "dra"
    device_plugin = "device-plugin"
    bridge = "bridge"


class Form(StrEnum):
    """What `-o` takes."""

    yaml = "yaml"
    json = "json"


Filename = Annotated[
    str, typer.Option("--filename", "-f", metavar="FILE", help="File, directory, or - for standard input.")
]
Target = Annotated[
    To | None,
    typer.Option("--to", help="Claims, limits, or limits that DRA serves. Default: only newer API versions."),
]
EstatePlace = Annotated[
    str | None, typer.Option("--from", metavar="ESTATE", help="Dump whose classes, devices and nodes are the target.")
]
Classes = Annotated[
    list[str] | None, typer.Option("--class", metavar="NAME=CLASS", help="The device class for a counted name.")
]
Resources = Annotated[
    list[str] | None, typer.Option("--resource", metavar="NAME", help="Only this counted name. Default: all.")
]
Require = Annotated[
    list[str] | None, typer.Option("--require", metavar="CEL", help="A selector for every device, in CEL.")
]
Align = Annotated[
    str | None, typer.Option("--align", metavar="ATTRIBUTE", help="An attribute that the devices of a pod must share.")
]
TemplatePaths = Annotated[
    list[str] | None,
    typer.Option("--template-path", metavar="PATH", help="Where objects of unknown kinds have pod templates."),
]
Implicit = Annotated[bool, typer.Option("--implicit", help="For a bridge: count the classes' own names.")]
KeepLabels = Annotated[
    bool, typer.Option("--keep-labels", help="Keep labels on devices that no selector can say, instead of refusing.")
]
Patches = Annotated[
    str | None,
    typer.Option("--patches", metavar="DIR", help="Write patches for the source there: a kustomize component."),
]
Written = Annotated[Form, typer.Option("--output", "-o", help="yaml, or json for a program.")]


def command(
    file: Filename,
    to: Target = None,
    from_: EstatePlace = None,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    output: Written = Form.yaml,
    classes: Classes = None,
    resources: Resources = None,
    require: Require = None,
    align: Align = None,
    template_paths: TemplatePaths = None,
    implicit: Implicit = False,
    keep_labels: KeepLabels = False,
    patches: Patches = None,
) -> None:
    """Turn manifests from counted devices into claims, and back, or into counted names that DRA serves.

    What has no equivalent is refused with the reason on stderr (exit code 1). Comments and order of the YAML stay.

    \b
    regauge convert -f deployment.yaml --to dra --from DIR
    regauge convert -f deployment.yaml --to device-plugin
    kubectl kustomize . | regauge convert -f - --to dra --kube-version 1.36
    regauge convert -f old.yaml                      resource.k8s.io/v1beta1 to v1
    kubectl kustomize . | regauge convert -f - --to dra --patches ../dra
    """
    from regauge.migrate import AskStack, ConvertOptions, convert, parse_path

    options = ConvertOptions(
        to=AskStack(to.value) if to else None,
        paths=tuple(parse_path(text) for text in template_paths or ()),
        require=tuple(require or ()),
        align=align,
        resources=frozenset(resources or ()),
        implicit=implicit,
        keep_labels=keep_labels,
    )
    ground = ground_for(from_, kube_version, feature_gates, classes or [])
    manifests = read_manifests(file)
    found = convert([document for manifest in manifests for document in manifest.documents], ground, options)
    if patches:
        _write_patches(found, patches)
    elif output is Form.json:
        print(pretty_json(_document(found, ground)))
    else:
        _print(found, manifests)
    _tell(found)
    raise typer.Exit(1 if found.refused else 0)


def _write_patches(found: Conversion, directory: str) -> None:
    """The files of the component. A directory with somebody else's kustomization is left alone."""
    from pathlib import Path

    from regauge.base import InputError, Where
    from regauge.host import RealFiles
    from regauge.migrate import patch_files

    files = patch_files(found)
    place = Path(directory)
    head = files["kustomization.yaml"].partition("\n")[0]
    theirs = place / "kustomization.yaml"
    if place.is_file() or (theirs.exists() and not theirs.read_text(errors="replace").startswith(head)):
        raise InputError("there is something else already", where=Where(directory), fix="name a directory of its own")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            RealFiles().write(str(place.absolute() / name), text.encode(), 0o755 if name.endswith(".sh") else 0o644)
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}", fix="choose another place") from None
    tell(f"{directory}: a kustomize component, {len(files) - 2} files, and post-render.sh for Helm.")
    tell(f"Next: a kustomization with your overlay under resources and {directory} under components.")


def _print(found: Conversion, manifests: tuple[Manifest, ...]) -> None:
    from regauge.migrate import join, rewrite

    items = list(found.items)
    parts = []
    head = found.classes
    for manifest in manifests:
        own, items = items[: len(manifest.documents)], items[len(manifest.documents) :]
        rewritten = rewrite(manifest.text, manifest.file, [_replacement(item) for item in own], head)
        head = ()
        if rewritten.text:
            parts.append(rewritten.text)
        for note in rewritten.notes:
            say(f"note: {note}")
    print(join(parts), end="")


def _replacement(item: Converted) -> Replacement:
    from regauge.migrate import Replacement

    comment = ""
    if item.object is None:
        lines = item.reasons or item.notes
        comment = "".join(f"# regauge: {item.document.title} {item.fate.value}: {plain(line)}\n" for line in lines)
    return Replacement(item.object, item.before, comment.replace("\r", ""))


def _tell(found: Conversion) -> None:
    for item in found.items:
        for reason in item.reasons:
            say(f"refused: {item.document.where}: {item.document.title}: {reason}")
        for note in item.notes:
            say(f"note: {item.document.title}: {note}")
    for object_ in found.classes:
        say(f"note: DeviceClass {object_['metadata']['name']} is new: apply it where the driver runs")
    counts = [sum(item.fate.value == fate for item in found.items) for fate in ("changed", "kept", "refused")]
    say("{} changed, {} kept as they were, {} refused.".format(*counts))


def _document(found: Conversion, ground: Ground) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kubeVersion": ground.rules.minor,
        "documents": [
            {
                "namespace": item.document.namespace,
                "kind": item.document.kind,
                "name": item.document.name,
                "source": str(item.document.where),
                "result": item.fate.name.lower(),
                "notes": list(item.notes),
                "reasons": list(item.reasons),
            }
            for item in found.items
        ],
        "objects": [
            *found.classes,
            *(
                object_
                for item in found.items
                for object_ in (*item.before, *([item.object] if item.object is not None else []))
            ),
        ],
    }
