"""An estate from files: a directory, one file, or standard input, as `kubectl get -o yaml` or `-o json` wrote them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import msgspec
import yaml

from regauge.base import InputError, Where
from regauge.collect.bundle import is_bundle, read_bundle, read_node_record
from regauge.collect.estate import Estate, Skipped
from regauge.features import gates_from_prometheus
from regauge.model import Document, Snapshot, read_documents
from regauge.model.node_files import NodeFiles

OBJECT_SUFFIXES = frozenset((".yaml", ".yml", ".json"))
GATES_SUFFIX = ".prom"
MAX_YAML_BYTES = 256 << 20
MAX_JSON_BYTES = 4 << 30
MAX_FILES = 20_000
SAMPLE = "sample"
"""The word for the packaged estate, wherever an estate is asked for."""
_VERSION_FILE_BYTES = 64 << 10
_RECORD_HEAD_BYTES = 4 << 10


def load_estate(place: str, *, records_alone: bool = False) -> Estate:
    """The estate at `place`: a directory (read through), a file, a bundle, "-" for standard input, or "sample".

    Records of nodes among the files are those of nodes of the file's name. In a directory, files that hold no objects are
    skipped and listed in `Estate.skipped`. Raises `InputError` for a place that does not exist, a malformed file, or a place
    without a single Kubernetes object (with `records_alone` a record of a node is enough).
    """
    if place == SAMPLE:
        return sample_estate()
    gathered = _Gathered()
    if place == "-":
        gathered.add_objects(sys.stdin.buffer.read(), "standard input")
    else:
        path = Path(place)
        if not path.exists():
            raise InputError("there is no such file or directory", where=Where(place), fix="check the path")
        if path.is_file() and is_bundle(path):
            return read_bundle(place)
        if path.is_dir():
            for file in _files_below(path):
                gathered.add_file(file)
        else:
            gathered.add_file(path, asked_for=True)
    if not gathered.documents and not (records_alone and gathered.nodes):
        raise InputError(
            "no Kubernetes objects were found",
            where=Where(place),
            fix="give the output of kubectl get ... -o yaml or -o json, as files ending in .yaml, .yml or .json",
        )
    return gathered.estate("standard input" if place == "-" else place)


def sample_estate() -> Estate:
    """The packaged sample: sixteen nodes of a real control plane, both stacks, workloads of every sort.

    Raises `InputError` where something of that name is in the working directory: which of the two is meant is not guessed.
    """
    if Path(SAMPLE).exists():
        raise InputError(
            f"{SAMPLE} is the packaged estate, and something here is called so, too",
            where=Where(SAMPLE),
            fix=f"write ./{SAMPLE} for what is here, or go elsewhere for the packaged one",
        )
    with as_file(files("regauge.collect").joinpath("data/sample")) as place:
        return replace(load_estate(str(place)), source="the sample estate")


def _files_below(directory: Path) -> Iterator[Path]:
    count = 0
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(directory).parts):
            count += 1
            if count > MAX_FILES:
                raise InputError(
                    f"more than {MAX_FILES} files", where=Where(str(directory)), fix="name a smaller directory"
                )
            yield path


class _Gathered:
    """What has been read so far."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.skipped: list[Skipped] = []
        self.gates: dict[str, bool] = {}
        self.git_version: str | None = None
        self.nodes: dict[str, NodeFiles] = {}

    def add_file(self, path: Path, asked_for: bool = False) -> None:
        if path.suffix == GATES_SUFFIX:
            self.gates.update(gates_from_prometheus(path.read_text(encoding="utf-8", errors="replace")))
            return
        if path.suffix not in OBJECT_SUFFIXES and not asked_for:
            self.skipped.append(Skipped(str(path), "not a .yaml, .yml or .json file"))
            return
        limit = MAX_JSON_BYTES if path.suffix == ".json" else MAX_YAML_BYTES
        size = path.stat().st_size
        if size > limit:
            raise InputError(
                f"{size >> 20} MiB, and {limit >> 20} MiB is the limit for this format",
                where=Where(str(path)),
                fix="split the file, or write JSON (kubectl get -o json)",
            )
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"cannot be read: {error.strerror}", where=Where(str(path)), fix="check its permissions"
            ) from None
        self.add_objects(data, str(path))

    def add_objects(self, data: bytes, file: str) -> None:
        version = server_version(data)
        if version is not None:
            self.git_version = version
            return
        if not data.strip():
            self.skipped.append(Skipped(file, "empty"))
            return
        if is_node_record(data):
            self.nodes[Path(file).stem] = read_node_record(data, file)
            return
        self.documents.extend(read_documents(data, file))

    def estate(self, source: str) -> Estate:
        warnings = [f"{document.where}: {text}" for document in self.documents for text in document.warnings]
        return Estate(
            snapshot=Snapshot.of(self.documents),
            source=source,
            git_version=self.git_version,
            gates=self.gates,
            skipped=tuple(self.skipped),
            warnings=tuple(dict.fromkeys(warnings)),
            nodes=self.nodes,
        )


def is_node_record(data: bytes) -> bool:
    """Whether `data` is what `regauge collect node` wrote: no object of Kubernetes begins with such a field."""
    return data.startswith(b'{"source":') and b'"spec_directories":' in data[:_RECORD_HEAD_BYTES]


def server_version(data: bytes) -> str | None:
    """The server's version when `data` is the output of `kubectl version -o yaml|json`, which is no Kubernetes object."""
    if len(data) > _VERSION_FILE_BYTES or b"serverVersion" not in data:
        return None
    try:
        value = msgspec.json.decode(data) if data.lstrip()[:1] == b"{" else yaml.safe_load(data)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeError):
        return None
    server = value.get("serverVersion") if isinstance(value, dict) and "kind" not in value else None
    version = server.get("gitVersion") if isinstance(server, dict) else None
    return version if isinstance(version, str) else None
