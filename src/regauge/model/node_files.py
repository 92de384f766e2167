"""What is in the files of one node, as read at one moment: CDI directories, runtime configuration, checkpoints, devices.

Made by `collect`, judged by `audit`. Paths are those of the node, wherever its files were read from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PathFacts:
    """What is at a path, links followed. `kind`: file, directory, char, block, fifo, socket, or "" where it cannot be told.

    `link_to` is where the path leads when it is a symbolic link itself. What is None is not known.
    """

    kind: str
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    modified_s: float | None = None
    link_to: str | None = None

    @property
    def is_device(self) -> bool:
        return self.kind in ("char", "block", "fifo")


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file. `data` is None when it could not be read; then `error` says why."""

    path: str
    data: bytes | None
    facts: PathFacts | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class NodeDirectory:
    """A directory and the files in it by name, in order. `real` is its path with links followed.

    `facts` is None when it is missing or not known; `error` says why it could not be listed.
    """

    path: str
    real: str
    exists: bool
    files: tuple[NodeFile, ...] = ()
    facts: PathFacts | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeProgram:
    """A runtime's program and what its builder noted in it, line by line (module versions); "" if nothing was found."""

    path: str
    build: str


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A PCI function that the kernel of the node found: numbers as sysfs has them, `driver` "" where none is bound.

    `iommu_group` is its number, "" where the kernel put it into none (no IOMMU, or it is off) or where it was not recorded.
    """

    address: str
    vendor: str
    device: str
    class_code: str
    numa: str = ""
    driver: str = ""
    iommu_group: str = ""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that was reported about a pod of the node."""

    regarding: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """One node's files. `paths` has what specs refer to: None for what is not there, no entry for what is not known
    (with `all_paths`, for what is not there).

    `spec_directories` are the CDI directories, lowest priority first; `other_directories` hold specs, too, but are not
    among these. `mounts` are types of file systems by mount point. `kubelet` is its configuration and what its managers keep;
    `functions` are accelerators and network controllers on the PCI bus. `units` are systemd's units that write CDI specs,
    `vm_runtimes` versions of runtimes that put pods into virtual machines, by name. `device_files` are accelerators in
    /dev, None where it was not looked at. Times in seconds since 1970.
    """

    source: str
    spec_directories: tuple[NodeDirectory, ...] = ()
    other_directories: tuple[NodeDirectory, ...] = ()
    paths: Mapping[str, PathFacts | None] = field(default_factory=dict)
    all_paths: bool = False
    configs: tuple[NodeFile, ...] = ()
    programs: tuple[RuntimeProgram, ...] = ()
    checkpoints: tuple[NodeFile, ...] = ()
    mounts: Mapping[str, str] = field(default_factory=dict)
    boot_time_s: float | None = None
    runtime_version: str = ""
    driver_versions: Mapping[str, str] = field(default_factory=dict)
    events: tuple[NodeEvent, ...] = ()
    runtime_classes: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[tuple[str, str], ...] = ()
    kubelet: tuple[NodeFile, ...] = ()
    boot_id: str = ""
    functions: tuple[HostFunction, ...] = ()
    units: tuple[NodeFile, ...] = ()
    vm_runtimes: Mapping[str, str] = field(default_factory=dict)
    device_files: tuple[str, ...] | None = None

    def has(self, path: str) -> bool | None:
        """Whether there is something at `path`; None when that is not known."""
        if path in self.paths:
            return self.paths[path] is not None
        return False if self.all_paths else None

    @property
    def directories(self) -> tuple[NodeDirectory, ...]:
        """All that hold specs, whether runtimes look there or not."""
        return (*self.spec_directories, *self.other_directories)
