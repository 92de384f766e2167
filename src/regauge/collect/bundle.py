"""A bundle: one zip file that holds an estate, its version and gates, what nodes tell, and a list of all that is in it.

Only entries of known names are read, nothing is unpacked to disk, and sizes are bounded before and while reading. What a
bundle says is data; nothing in it is ever executed.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from regauge.base import InputError, Where, canonical_json
from regauge.collect.estate import Estate, Skipped
from regauge.model import Document, Snapshot, read_documents
from regauge.model.node_files import NodeFiles

BUNDLE_SCHEMA = "regauge.bundle/v1"
MANIFEST = "manifest.json"
SUFFIX = ".zip"
MAX_ENTRIES = 20_000
MAX_ENTRY_BYTES = 4 << 30
MAX_TOTAL_BYTES = 8 << 30
MAX_RATIO = 400
"""JSON of Kubernetes objects compresses some twentyfold; far more is a trap."""
RATIO_FREE_BYTES = 16 << 20
_NAME = re.compile(r"manifest\.json|(objects|nodes)/[a-z0-9][a-z0-9.-]{0,252}\.json")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What a bundle says of itself. `objects` counts by resource, `left_out` is what was not taken, in words.

    `whole` as of an `Estate`.
    """

    schema: str
    created: str
    source: str
    git_version: str | None
    gates: dict[str, bool]
    objects: dict[str, int]
    nodes: tuple[str, ...]
    left_out: tuple[str, ...]
    not_read: tuple[tuple[str, str], ...]
    anonymised: bool = False
    whole: bool = False


def is_bundle(path: Path) -> bool:
    """Whether a file is to be read as a bundle: by its first bytes, whatever its name."""
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def bundle_bytes(estate: Estate, created: str, left_out: Iterable[str] = (), *, anonymised: bool = False) -> bytes:
    """The bundle of an estate. The same estate gives the same bytes."""
    by_resource: dict[str, list[Any]] = {}
    for document in estate.snapshot.all_documents():
        by_resource.setdefault(_resource(document), []).append(document.object)
    manifest = Manifest(
        schema=BUNDLE_SCHEMA,
        created=created,
        source=estate.source,
        git_version=estate.git_version,
        gates=dict(sorted(estate.gates.items())),
        objects={name: len(items) for name, items in sorted(by_resource.items())},
        nodes=tuple(sorted(estate.nodes)),
        left_out=tuple(left_out),
        not_read=tuple((item.what, item.why) for item in estate.skipped),
        anonymised=anonymised,
        whole=estate.whole,
    )
    parts = {MANIFEST: msgspec.json.format(msgspec.json.encode(manifest), indent=1)}
    for name, items in sorted(by_resource.items()):
        parts[f"objects/{name}.json"] = canonical_json({"apiVersion": "v1", "kind": "List", "items": items})
    for name, files in sorted(estate.nodes.items()):
        parts[f"nodes/{name}.json"] = msgspec.json.encode(files)
    return _zipped(parts)


def _resource(document: Document) -> str:
    known = document.known
    group = document.api_version.rpartition("/")[0]
    return (known.resource if known is not None else f"{document.kind}.{group}".rstrip(".")).lower()


def _zipped(parts: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def read_bundle(path: str, data: bytes | None = None) -> Estate:
    """The estate in a bundle: in the file at `path`, or in `data` under that name.

    Raises `InputError` for what is none, is damaged, or is too large to be one.
    """
    try:
        with zipfile.ZipFile(path if data is None else io.BytesIO(data)) as archive:
            infos = _checked(archive, path)
            manifest = _manifest(archive, infos, path)
            documents = [item for info in infos for item in _objects(archive, info, path)]
            nodes = {name: files for info in infos for name, files in _nodes(archive, info, path)}
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise InputError(f"the bundle is damaged: {error}", where=Where(path), fix="collect it again") from None
    if not documents:
        raise InputError("the bundle holds no Kubernetes objects", where=Where(path), fix="collect it again")
    skipped = tuple(Skipped(what, why) for what, why in manifest.not_read)
    estate = Estate(Snapshot.of(documents), path, manifest.git_version, manifest.gates, skipped)
    return replace(estate, nodes=nodes, whole=manifest.whole)


def _checked(archive: zipfile.ZipFile, path: str) -> list[zipfile.ZipInfo]:
    """The entries, all of known names and bounded sizes. Nothing has been read of them yet."""
    infos = archive.infolist()
    if len(infos) > MAX_ENTRIES:
        raise _refused(path, f"{len(infos)} entries, and {MAX_ENTRIES} is the limit")
    total = 0
    seen = set()
    for info in infos:
        if not _NAME.fullmatch(info.filename):
            raise _refused(path, f"an entry named {info.filename[:80]!r}, which no bundle has")
        if info.filename in seen:
            raise _refused(path, f"{info.filename} stands twice")
        seen.add(info.filename)
        if info.compress_type not in _COMPRESSIONS or info.flag_bits & _ENCRYPTED:
            raise _refused(path, f"{info.filename} is encrypted, or packed in a way that no bundle is")
        total += info.file_size
        ratio = info.file_size / max(info.compress_size, 1)
        if info.file_size > MAX_ENTRY_BYTES or (info.file_size > RATIO_FREE_BYTES and ratio > MAX_RATIO):
            raise _refused(path, f"{info.filename} would be {info.file_size >> 20} MiB")
    if total > MAX_TOTAL_BYTES:
        raise _refused(path, f"{total >> 20} MiB in all")
    return infos


def _refused(path: str, why: str) -> InputError:
    return InputError(f"it is no bundle to be trusted: {why}", where=Where(path), fix="look where it comes from")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
    """One entry; not a byte more than it said it has."""
    with archive.open(info) as stream:
        data = stream.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise _refused(path, f"{info.filename} is not of the size it says")
    return data


def _manifest(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], path: str) -> Manifest:
    info = next((item for item in infos if item.filename == MANIFEST), None)
    if info is None:
        raise InputError(f"there is no {MANIFEST} in it", where=Where(path), fix="give a file that `collect` wrote")
    try:
        manifest = msgspec.json.decode(_read(archive, info, path), type=Manifest)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError(f"its {MANIFEST} cannot be read: {error}", where=Where(path), fix="collect it again") from None
    if manifest.schema != BUNDLE_SCHEMA:
        raise InputError(
            f"it is of schema {manifest.schema}, and {BUNDLE_SCHEMA} is known here",
            where=Where(path),
            fix="use the regauge that wrote it, or collect again",
        )
    return manifest


def _objects(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Iterator[Document]:
    if info.filename.startswith("objects/"):
        yield from read_documents(_read(archive, info, path), f"{path}/{info.filename}")


def _nodes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Iterator[tuple[str, NodeFiles]]:
    if info.filename.startswith("nodes/"):
        name = info.filename.removeprefix("nodes/").removesuffix(".json")
        yield name, read_node_record(_read(archive, info, path), f"{path}/{info.filename}")


def read_node_record(data: bytes, file: str) -> NodeFiles:
    """One node's record. Raises `InputError` for what is none."""
    try:
        return msgspec.json.decode(data, type=NodeFiles)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"it is no node's record: {error}", where=Where(file), fix="write it with `regauge collect node`"
        ) from None
