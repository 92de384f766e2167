"""`regauge convert`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import FeatureGates, KubeVersion, rules_of
from regauge.cli.output import plain, print_document, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.collect import Estate
    from regauge.migrate import Conversion, Converted, Ground, Replacement
    from regauge.model import Document, Rules

CORE_GATE = "DynamicResourceAllocation"
SCHEMA = "regauge.convert/v1"
MAX_BYTES = 64 << 20


class To(StrEnum):
    """What `--to` takes."""

    dra = "dra"
    device_plugin = "device-plugin"
    bridge = "bridge"


class Form(StrEnum):
    """What `-o` takes."""

    yaml = "yaml"
    json = "json"


def command(
    file: Annotated[
        str, typer.Option("--filename", "-f", metavar="FILE", help="File, directory, or - for standard input.")
    ],
    to: Annotated[
        To | None,
        typer.Option("--to", help="Claims, limits, or limits that DRA serves. Default: only newer API versions."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="ESTATE", help="Dump whose classes, devices and nodes are the target."),
    ] = None,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="yaml, or json for a program.")] = Form.yaml,
    classes: Annotated[
        list[str] | None, typer.Option("--class", metavar="NAME=CLASS", help="The device class for a counted name.")
    ] = None,
    resources: Annotated[
        list[str] | None, typer.Option("--resource", metavar="NAME", help="Only this counted name. Default: all.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", metavar="CEL", help="A selector for every device, in CEL.")
    ] = None,
    align: Annotated[
        str | None,
        typer.Option("--align", metavar="ATTRIBUTE", help="An attribute that the devices of a pod must share."),
    ] = None,
    template_paths: Annotated[
        list[str] | None,
        typer.Option("--template-path", metavar="PATH", help="Where objects of unknown kinds have pod templates."),
    ] = None,
    implicit: Annotated[bool, typer.Option("--implicit", help="For a bridge: count the classes' own names.")] = False,
    keep_labels: Annotated[
        bool,
        typer.Option("--keep-labels", help="Keep labels on devices that no selector can say, instead of refusing."),
    ] = False,
) -> None:
    """Turn manifests from counted devices into claims, and back, or into counted names that DRA serves.

    What has no equivalent is refused with the reason on stderr (exit code 1). Comments and order of the YAML stay.

    \b
    regauge convert -f deployment.yaml --to dra --from DIR
    regauge convert -f deployment.yaml --to device-plugin
    kubectl kustomize . | regauge convert -f - --to dra --kube-version 1.36
    regauge convert -f old.yaml                      resource.k8s.io/v1beta1 to v1
    """
    from regauge.migrate import AskStack, ConvertOptions, convert, ground_of, parse_path

    estate = _estate(from_)
    rules = _rules(estate, kube_version, feature_gates)
    options = ConvertOptions(
        to=AskStack(to.value) if to else None,
        paths=tuple(parse_path(text) for text in template_paths or ()),
        require=tuple(require or ()),
        align=align,
        resources=frozenset(resources or ()),
        implicit=implicit,
        keep_labels=keep_labels,
    )
    ground = ground_of(rules, estate.snapshot if estate else None, _pairs(classes or []))
    texts = dict(_texts(file))
    read = {name: _documents(text, name) for name, text in texts.items()}
    found = convert([document for documents in read.values() for document in documents], ground, options)
    if output is Form.json:
        print_document(_document(found, ground), _json())
    else:
        _print(found, texts, read)
    _tell(found)
    raise typer.Exit(1 if found.refused else 0)


def _json() -> Any:
    from regauge.cli.output import Format

    return Format.json


def _estate(place: str | None) -> Estate | None:
    if place is None:
        return None
    from regauge.collect import load_estate

    return load_estate(place)


def _rules(estate: Estate | None, kube_version: str | None, feature_gates: str | None) -> Rules:
    if estate is None:
        from regauge.collect import Estate as Empty
        from regauge.model import Snapshot

        estate = Empty(Snapshot.of(()), "")
    rules = rules_of(estate, kube_version, feature_gates)
    if rules.on(CORE_GATE) or CORE_GATE in (feature_gates or ""):
        return rules
    say(f"note: Kubernetes {rules.minor} has this API only where the gate {CORE_GATE} is on; taken as on")
    return rules_of(estate, kube_version, ",".join(filter(None, (f"{CORE_GATE}=true", feature_gates))))


def _pairs(texts: list[str]) -> dict[str, str]:
    from regauge.base import InputError, Where

    found = {}
    for text in texts:
        name, equals, class_name = text.partition("=")
        if not (name and equals and class_name):
            raise InputError(
                f"{text} is not NAME=CLASS", where=Where(field="class"), fix="write nvidia.com/gpu=my-class"
            )
        found[name] = class_name
    return found


def _texts(place: str) -> Iterator[tuple[str, str]]:
    """The input as text, file by file."""
    from regauge.base import InputError, Where

    if place == "-":
        yield "standard input", _decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
        return
    path = Path(place)
    if not path.exists():
        raise InputError("there is no such file or directory", where=Where(place), fix="check the path")
    inside = sorted(item for item in path.rglob("*") if item.suffix in (".yaml", ".yml", ".json") and item.is_file())
    for item in inside if path.is_dir() else [path]:
        with item.open("rb") as stream:
            yield str(item), _decoded(stream.read(MAX_BYTES + 1), str(item))


def _decoded(data: bytes, file: str) -> str:
    from regauge.base import InputError, Where

    if len(data) > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20} MiB", where=Where(file), fix="split the file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=Where(file), fix="give YAML or JSON") from None


def _documents(text: str, file: str) -> list[Document]:
    from regauge.model import read_documents

    return list(read_documents(text.encode(), file))


def _print(found: Conversion, texts: dict[str, str], read: dict[str, list[Document]]) -> None:
    from regauge.migrate import join, rewrite

    items = list(found.items)
    parts = []
    head = found.classes
    for file, text in texts.items():
        own, items = items[: len(read[file])], items[len(read[file]) :]
        rewritten = rewrite(text, file, [_replacement(item) for item in own], head)
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
