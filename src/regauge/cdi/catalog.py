"""Which device a name stands for, given what is in the spec directories. Pure: the directories are handed in as read.

Rules, as in the reference: a later directory has priority over an earlier one; two files of the same directory that define
the same name are in conflict and the name is unusable, other names of the two files are not touched; a file that cannot be
read or is invalid gives no devices and hides nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from regauge.cdi.findings import Finding
from regauge.cdi.model import Device, Spec
from regauge.cdi.names import DeviceName, is_spec_file, split_kind
from regauge.cdi.reading import examine


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file of a spec directory. `spec` is None when the file is unusable; then a finding is an error that says why."""

    path: str
    spec: Spec | None
    findings: tuple[Finding, ...] = ()

    @property
    def error(self) -> Finding | None:
        """Why the file is unusable."""
        return next((finding for finding in self.findings if finding.severity == "error"), None)


@dataclass(frozen=True, slots=True)
class Entry:
    """A device that can be injected, and the file that defines it."""

    name: str
    device: Device
    file: SpecFile
    priority: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two files of one directory define the same device, so nobody can use it.

    `hidden` is the file of a directory with priority that defines it too: by the specification it should win, but the
    reference library, and so every runtime, drops the device all the same.
    """

    name: str
    file: str
    other: str
    hidden: str | None = None

    def __str__(self) -> str:
        text = f"device {self.name} is defined in {self.other} and in {self.file}: runtimes use neither"
        return f"{text}, nor the one in {self.hidden}" if self.hidden else text


@dataclass(frozen=True, slots=True)
class Catalog:
    """All spec directories together. `devices` by qualified name, sorted; `problems` by path, first errors only."""

    files: tuple[SpecFile, ...]
    devices: Mapping[str, Entry]
    conflicts: tuple[Conflict, ...]

    @property
    def vendors(self) -> list[str]:
        """Vendors of all valid specs, also of those whose devices are all in conflict."""
        return sorted({split_kind(file.spec.kind)[0] for file in self.files if file.spec})

    @property
    def classes(self) -> list[str]:
        """Classes of all valid specs."""
        return sorted({split_kind(file.spec.kind)[1] for file in self.files if file.spec})

    @property
    def unusable(self) -> list[SpecFile]:
        """The files that give no devices because they cannot be read or are invalid."""
        return [file for file in self.files if file.error]

    def why_not(self, name: str) -> str | None:
        """Why runtimes cannot resolve the name, in words; None when they can."""
        if name in self.devices:
            return None
        for conflict in self.conflicts:
            if conflict.name == name:
                return str(conflict)
        kind, _, device = name.partition("=")
        same = sorted(other for other in self.devices if other.partition("=")[0] == kind)
        if same:
            return f"no spec defines {device!r} of {kind}; there are {', '.join(same[:8])}"
        bad = ", ".join(file.path for file in self.unusable[:4])
        return f"no spec defines {name}" + (f"; unusable files: {bad}" if bad else "")


def spec_file(path: str, data: bytes | str) -> SpecFile:
    """The content of a spec file, read and validated."""
    reading = examine(data, path)
    return SpecFile(path, None if reading.error else reading.spec, reading.findings)


def catalog(directories: Iterable[Sequence[SpecFile]]) -> Catalog:
    """The devices of spec directories, given lowest priority first, each with its files in the order of their names."""
    files: list[SpecFile] = []
    devices: dict[str, Entry] = {}
    found: list[tuple[str, SpecFile, Entry]] = []
    for priority, directory in enumerate(directories):
        for file in directory:
            files.append(file)
            for entry in _entries(file, priority):
                old = devices.get(entry.name)
                if old is not None and old.priority == priority:
                    found.append((entry.name, file, old))
                else:
                    devices[entry.name] = entry
    conflicts = []
    for name, file, first in found:
        winner = devices[name]
        hidden = winner.file.path if winner.priority > first.priority else None
        conflicts.append(Conflict(name, file.path, first.file.path, hidden))
    for conflict in conflicts:
        devices.pop(conflict.name, None)
    return Catalog(tuple(files), MappingProxyType(dict(sorted(devices.items()))), tuple(conflicts))


def catalog_of(directories: Mapping[str, Mapping[str, bytes | str]]) -> Catalog:
    """The devices of directories given as path to (file name to content), lowest priority first."""
    return catalog(
        [spec_file(f"{path}/{name}", files[name]) for name in sorted(files) if is_spec_file(name) and "/" not in name]
        for path, files in directories.items()
    )


def _entries(file: SpecFile, priority: int) -> Iterable[Entry]:
    if file.spec is None:
        return []
    vendor, class_name = split_kind(file.spec.kind)
    return [
        Entry(str(DeviceName(vendor, class_name, device.name)), device, file, priority) for device in file.spec.devices
    ]
