"""Manifests as text: what `-f` names, read for the verbs that give the same text back with changes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.migrate import Ground
    from regauge.model import Document

CORE_GATE = "DynamicResourceAllocation"
MAX_BYTES = 64 << 20
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file: its name for messages, its text, and the objects in it in their order."""

    file: str
    text: str
    documents: tuple[Document, ...]


def read_manifests(place: str) -> tuple[Manifest, ...]:
    """A file, every manifest below a directory, or standard input for "-". Raises `InputError` for what is none."""
    from regauge.model import read_documents

    return tuple(Manifest(file, text, tuple(read_documents(text.encode(), file))) for file, text in _texts(place))


def _texts(place: str) -> Iterator[tuple[str, str]]:
    from regauge.base import InputError, Where

    if place == "-":
        yield "standard input", _decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
        return
    path = Path(place)
    if not path.exists():
        raise InputError("there is no such file or directory", where=Where(place), fix="check the path")
    inside = sorted(item for item in path.rglob("*") if item.suffix in SUFFIXES and item.is_file())
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


def ground_for(
    estate_place: str | None, kube_version: str | None, feature_gates: str | None, classes: list[str]
) -> Ground:
    """The target of a conversion: an estate or none, with the version and gates that it or the user tells of."""
    from regauge.cli.options import rules_of
    from regauge.cli.output import say
    from regauge.collect import Estate, load_estate
    from regauge.migrate import ground_of
    from regauge.model import Snapshot

    estate = load_estate(estate_place) if estate_place else Estate(Snapshot.of(()), "")
    rules = rules_of(estate, kube_version, feature_gates)
    if not rules.on(CORE_GATE) and CORE_GATE not in (feature_gates or ""):
        say(f"note: Kubernetes {rules.minor} has this API only where the gate {CORE_GATE} is on; taken as on")
        rules = rules_of(estate, kube_version, ",".join(filter(None, (f"{CORE_GATE}=true", feature_gates))))
    return ground_of(rules, estate.snapshot if estate_place else None, _pairs(classes))


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
