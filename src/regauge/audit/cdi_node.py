"""One node's CDI, digested once for all rules: what is in the directories, which claims there are, what runtimes do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from regauge import cdi
from regauge.audit.checkpoints import KUBELET_STATE, DriverCheckpoint, KubeletState, driver_checkpoint, kubelet_state
from regauge.audit.generators import Generator, claim_uid, generator_of
from regauge.base import Where
from regauge.cdi import Catalog, ContainerEdits, Device, Entry, SpecFile, is_spec_file, line_finder, spec_file
from regauge.cdi import Finding as SpecFinding
from regauge.cdi.runtimes import RuntimeSettings, VendorRuntime, runtimes_of, vendor_runtime
from regauge.model.node_files import NodeDirectory, NodeFile, NodeFiles


@dataclass(frozen=True)
class CdiNode:
    """A node's files and what follows from them. Every property is worked out once."""

    files: NodeFiles

    @cached_property
    def catalog(self) -> Catalog:
        """The devices of the spec directories. As in runtimes, a directory that cannot be listed ends the scan."""
        found: list[list[SpecFile]] = []
        for directory in self.files.spec_directories:
            if directory.error:
                what = f"cannot be listed: {directory.error}; runtimes skip it and every directory after it"
                found.append([SpecFile(directory.path, None, (SpecFinding("unreadable", what, file=directory.path),))])
                break
            found.append([self.spec_of(file) for file in directory.files if is_spec_file(file.path)])
        return cdi.catalog(found)

    @cached_property
    def by_path(self) -> Mapping[str, tuple[NodeFile, NodeDirectory]]:
        """Files of all directories by path."""
        return {file.path: (file, place) for place in self.files.directories for file in place.files}

    def spec_of(self, file: NodeFile) -> SpecFile:
        if file.data is None:
            finding = SpecFinding("unreadable", f"cannot be read: {file.error}", file=file.path)
            return SpecFile(file.path, None, (finding,))
        return spec_file(file.path, file.data)

    @cached_property
    def hidden(self) -> tuple[tuple[str, Entry, str], ...]:
        """Definitions that a directory of higher priority replaces: (device, what wins, file that is hidden)."""
        found = []
        for file in self.catalog.files:
            for name in names_in(file):
                winner = self.catalog.devices.get(name)
                if winner is not None and winner.file.path != file.path:
                    found.append((name, winner, file.path))
        return tuple(found)

    @cached_property
    def unread_definitions(self) -> Mapping[str, str]:
        """Devices that are defined only where no runtime looks: file by name."""
        places = [place for place in self.files.other_directories if not self.reads(place)]
        files = [self.spec_of(file) for place in places for file in place.files if is_spec_file(file.path)]
        return {name: file.path for file in files for name in names_in(file) if name not in self.catalog.devices}

    @cached_property
    def by_name(self) -> Mapping[str, SpecFile]:
        """The files of the spec directories by path, as read."""
        return {file.path: file for file in self.catalog.files}

    def reads(self, place: NodeDirectory) -> bool:
        """Whether a runtime reads a directory, or the vendor's own program does."""
        vendor = self.vendor_runtime.directories if self.vendor_runtime else ()
        read = {path.rstrip("/") for runtime in self.runtimes for path in runtime.directories}
        return place.path in read or place.path in vendor

    @cached_property
    def kubelet(self) -> KubeletState | None:
        """The kubelet's claims; None when there is no such file."""
        files = (file for file in self.files.checkpoints if file.path.endswith(KUBELET_STATE))
        return next((kubelet_state(file) for file in files), None)

    @cached_property
    def drivers(self) -> tuple[DriverCheckpoint, ...]:
        """The checkpoints of drivers."""
        files = (file for file in self.files.checkpoints if not file.path.endswith(KUBELET_STATE))
        return tuple(driver_checkpoint(file) for file in files)

    @cached_property
    def driver_names(self) -> frozenset[str]:
        claims = self.kubelet.claims if self.kubelet else ()
        return frozenset((*(one.driver for one in self.drivers), *(name for one in claims for name in one.cdi_devices)))

    @cached_property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        programs = [(one.path, one.build) for one in self.files.programs]
        return runtimes_of(self._configs, programs, self.files.runtime_version)

    @cached_property
    def vendor_runtime(self) -> VendorRuntime | None:
        return vendor_runtime(self._configs)

    @property
    def _configs(self) -> list[tuple[str, bytes]]:
        return [(one.path, one.data) for one in self.files.configs if one.data is not None]

    @cached_property
    def generators(self) -> Mapping[str, Generator]:
        """Who wrote each valid spec, by path."""
        kept = {one.driver: one.devices | set(one.claims) for one in self.drivers if one.driver}
        return {
            file.path: generator_of(file.path, file.spec, self.driver_names, kept)
            for file in self.catalog.files
            if file.spec is not None
        }

    @cached_property
    def claim_files(self) -> Mapping[str, str]:
        """The claims of specs that were written for one: uid by path."""
        found = {one.path: claim_uid(one.path, one.spec) for one in self.catalog.files if one.spec is not None}
        return {path: uid for path, uid in found.items() if uid}

    def line(self, file: str, path: tuple[str | int, ...]) -> int | None:
        """The line of a part of a spec; each file is looked through once."""
        if file not in self._lines:
            found = self.by_path.get(file)
            self._lines[file] = line_finder(found[0].data if found and found[0].data is not None else b"")
        return self._lines[file](path)

    @cached_property
    def _lines(self) -> dict[str, Callable[[tuple[str | int, ...]], int | None]]:
        return {}

    def modified_s(self, path: str) -> float | None:
        file = self.by_path.get(path)
        return file[0].facts.modified_s if file and file[0].facts else None

    def file_system(self, path: str) -> str:
        """The type of the file system that holds a path of the node, or "" when that is not known."""
        place = next((found for found in self.files.directories if found.path == path), None)
        for one in (place.real,) if place and place.real != path else (path,):
            points = [point for point in self.files.mounts if within(one, point)]
            if points:
                return self.files.mounts[max(points, key=len)]
        return ""


def within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def used_names(node: CdiNode, file: SpecFile) -> tuple[str, ...]:
    """The names that a spec defines and no later directory replaces."""
    found = ((name, node.catalog.devices.get(name)) for name in names_in(file))
    return tuple(name for name, entry in found if entry is None or entry.file.path == file.path)


def names_in(file: SpecFile) -> list[str]:
    """The qualified names that a spec defines."""
    return [f"{file.spec.kind}={device.name}" for device in file.spec.devices] if file.spec else []


def edits_in(file: SpecFile) -> Iterator[tuple[ContainerEdits, tuple[str, ...], tuple[str | int, ...]]]:
    """The edits of a spec with the devices that they concern, and their place in the file: common ones first."""
    if file.spec is None:
        return
    yield file.spec.container_edits, tuple(names_in(file)), ("containerEdits",)
    for index, device in enumerate(file.spec.devices):
        yield device.container_edits, (device_name(file, device),), ("devices", index, "containerEdits")


def device_name(file: SpecFile, device: Device) -> str:
    return f"{file.spec.kind}={device.name}" if file.spec else device.name


def place_in(node: CdiNode, file: SpecFile, path: tuple[str | int, ...]) -> Where:
    """A part of a spec with its line."""
    return SpecFinding("", "", path, file=file.path, line=node.line(file.path, path)).where
