"""A node that was recorded in a directory: `etc-cdi` and `run-cdi` with specs, and what else was noted beside them.

`host.json` may have `files` (paths that the host has; with it, all others are missing), `bootTime`, `specModified`,
`driverCheckpointModified`, `mounts` (type by mount point), `driverVersion` and `runtimeVersion`. Beside it may stand
`containerd.toml`, `crio.conf`, `dra_manager_state`, `driver-checkpoint.json` and `events.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from regauge.base import InputError, Where
from regauge.cdi import is_spec_file
from regauge.model.node_files import NodeDirectory, NodeEvent, NodeFile, NodeFiles, PathFacts

DIRECTORIES = {"etc-cdi": "/etc/cdi", "run-cdi": "/var/run/cdi"}
CONFIGS = {"containerd.toml": "/etc/containerd/config.toml", "crio.conf": "/etc/crio/crio.conf"}
KUBELET_STATE = "/var/lib/kubelet/dra_manager_state"
DRIVER_CHECKPOINT = "driver-checkpoint.json"
_LIMIT_BYTES = 16 << 20


class _Host(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    files: list[str] | None = None
    boot_time: datetime | None = None
    spec_modified: datetime | None = None
    driver_checkpoint_modified: datetime | None = None
    mounts: dict[str, str] = {}
    driver_version: str = ""
    runtime_version: str = ""


def is_recorded(place: str) -> bool:
    """Whether a directory is a recorded node and not the root of one."""
    return any((Path(place) / name).is_dir() for name in DIRECTORIES)


def read_recorded_node(place: str) -> NodeFiles:
    """The node recorded at `place`. Raises `InputError` for a record that cannot be understood."""
    directory = Path(place)
    host = _host(directory / "host.json")
    return NodeFiles(
        source=place,
        spec_directories=tuple(_directory(directory / name, path, host) for name, path in DIRECTORIES.items()),
        paths=dict.fromkeys(host.files or (), PathFacts("")),
        all_paths=host.files is not None,
        configs=tuple(_files(directory, CONFIGS, None)),
        checkpoints=tuple(
            _files(
                directory,
                {"dra_manager_state": KUBELET_STATE, DRIVER_CHECKPOINT: DRIVER_CHECKPOINT},
                _seconds(host.driver_checkpoint_modified),
            )
        ),
        mounts=host.mounts,
        boot_time_s=_seconds(host.boot_time),
        runtime_version=host.runtime_version,
        driver_versions={"driver": host.driver_version} if host.driver_version else {},
        events=tuple(_events(directory / "events.yaml")),
    )


def _host(path: Path) -> _Host:
    if not path.exists():
        return _Host()
    try:
        return msgspec.json.decode(_read(path), type=_Host)
    except msgspec.DecodeError as error:
        raise InputError(str(error), where=Where(str(path)), fix="give the fields that a recorded host has") from None


def _directory(place: Path, path: str, host: _Host) -> NodeDirectory:
    if not place.is_dir():
        return NodeDirectory(path, path, exists=False)
    facts = PathFacts("file", modified_s=_seconds(host.spec_modified))
    found = [one for one in sorted(place.iterdir()) if one.is_file()]
    files = [NodeFile(f"{path}/{one.name}", _read(one) if is_spec_file(one.name) else None, facts) for one in found]
    return NodeDirectory(path, path, True, tuple(files), PathFacts("directory"))


def _files(directory: Path, names: Mapping[str, str], modified_s: float | None) -> Iterator[NodeFile]:
    for name, path in names.items():
        if (directory / name).is_file():
            yield NodeFile(path, _read(directory / name), PathFacts("file", modified_s=modified_s))


def _events(path: Path) -> Iterator[NodeEvent]:
    if not path.is_file():
        return
    try:
        found = yaml.safe_load(_read(path))
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise InputError(f"not YAML: {error}", where=Where(str(path))) from None
    items = found.get("items") if isinstance(found, dict) else found
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield NodeEvent(
                _regarding(item), str(item.get("reason", "")), str(item.get("message") or item.get("note", ""))
            )


def _regarding(event: Mapping[str, Any]) -> str:
    about = event.get("regarding") or event.get("involvedObject") or ""
    if isinstance(about, dict):
        return "/".join(str(about.get(key, "")).lower() for key in ("kind", "namespace", "name"))
    return str(about)


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_LIMIT_BYTES + 1)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
