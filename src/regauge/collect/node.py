"""The files of one node that CDI depends on, read from this machine or from a directory that holds a node's files.

Reads only, follows no link out of the tree, opens regular files alone (a pipe would block), runs nothing. What cannot be
read stands in the result with the reason.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from regauge.base import InputError, Where
from regauge.cdi import ContainerEdits, Spec, is_spec_file, spec_file
from regauge.cdi.runtimes import DEFAULT_DIRECTORIES, VENDOR_RUNTIME_CONFIG, imports_of, runtimes_of, vendor_runtime
from regauge.collect.builds import build_notes
from regauge.collect.node_tree import NodeTree
from regauge.collect.recorded_node import is_recorded, read_recorded_node
from regauge.model.node_files import HostFunction, NodeDirectory, NodeFile, NodeFiles, PathFacts, RuntimeProgram

FILE_LIMIT_BYTES = 16 << 20
FILES_LIMIT = 20_000
NEIGHBOURS_LIMIT = 4096
KUBELET_DIRECTORY = "/var/lib/kubelet"

# The containerd of a distribution of Kubernetes comes before one that stands beside it for other purposes.
_CONTAINERD_CONFIGS = (
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/etc/k0s/containerd.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/containerd/config.toml",
)
_CRIO_CONFIG, _CRIO_DIRECTORY = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
_PROGRAMS = ("containerd", "crio")
_PROGRAM_DIRECTORIES = ("/var/lib/rancher/rke2/bin", "/usr/local/bin", "/usr/bin", "/usr/sbin", "/opt/bin")
_OTHER_DIRECTORIES = ("/usr/local/etc/cdi", "/usr/share/cdi", "/var/lib/cdi", "/var/cdi", "/opt/cdi")
_KUBELET_FILES = (
    "config.yaml",
    "device-plugins/kubelet_internal_checkpoint",
    "cpu_manager_state",
    "memory_manager_state",
    "allocated_pods_state",
)
_PCI_DIRECTORY = "/sys/bus/pci/devices"
_PCI_FILES = ("vendor", "device", "class", "numa_node")
_DEVICE_CLASSES = ("0x02", "0x03", "0x12")
"""PCI base classes: network controllers, display controllers, processing accelerators."""
_BRIDGE = "0x06"
FUNCTIONS_LIMIT = 8192
UNIT_LIMIT_BYTES = 1 << 20
_UNIT_DIRECTORIES = ("/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system")
_WRITES_SPECS = re.compile(r"(?:nvidia-)?cdi[-_](?:refresh|generat)|\bcdi\s+generate|regauge driver", re.I)
_DEVICE_FILES = (
    ("/dev", "nvidia*"),
    ("/dev", "kfd"),
    ("/dev", "hl*"),
    ("/dev/dri", "*"),
    ("/dev/accel", "*"),
    ("/dev/vfio", "*"),
)
_VM_VERSIONS = {"kata": "/opt/kata/VERSION"}
_DRIVER_MODULES = ("nvidia", "amdgpu", "habanalabs")


def read_node(place: str = "/", directories: Sequence[str] = ()) -> NodeFiles:
    """The node whose root is the directory `place`, or that was recorded there (with `etc-cdi`, `run-cdi`, `host.json`).

    `directories` are the CDI directories, lowest priority first; without them, those that the node's runtime is configured
    with, and if it does not say, /etc/cdi and /var/run/cdi. Raises `InputError` when `place` is no directory.
    """
    if not Path(place).is_dir():
        raise InputError("there is no such directory", where=Where(place), fix="give the root of a node's files")
    if is_recorded(place):
        return read_recorded_node(place)
    return _Reader(NodeTree(place)).node(place, directories)


class _Reader:
    """One reading. `unread` grows."""

    def __init__(self, tree: NodeTree) -> None:
        self.tree = tree
        self.unread: list[tuple[str, str]] = []

    def node(self, place: str, directories: Sequence[str]) -> NodeFiles:
        configs = tuple(self.configs())
        specs = tuple(self.directory(path) for path in directories or configured_directories(configs))
        others = tuple(self.others(configs, specs))
        edits = list(edits_in(one.data for found in (*specs, *others) for one in found.files if one.data is not None))
        units = tuple(self.units())
        named = [path for one in edits for path in host_paths(one)] + [
            path for one in units for path in started_by(one)
        ]
        paths = self.paths(named, [found.path for found in specs])
        checkpoints = tuple(self.checkpoints())
        return NodeFiles(
            source=place,
            spec_directories=specs,
            other_directories=others,
            paths=paths,
            configs=configs,
            programs=tuple(self.programs()),
            checkpoints=checkpoints,
            mounts=self.mounts(),
            boot_time_s=self.boot_time_s(),
            driver_versions=self.driver_versions(),
            unread=tuple(self.unread),
            kubelet=tuple(self.kubelet()),
            boot_id=self.tree.text("/proc/sys/kernel/random/boot_id").strip(),
            functions=tuple(self.functions()),
            units=units,
            vm_runtimes=self.vm_runtimes(),
            device_files=self.device_files(),
        )

    def directory(self, path: str) -> NodeDirectory:
        real = path = path.rstrip("/") or "/"
        try:
            real = self.tree.real(path)
            facts = self.tree.facts(path)
            if facts is None:
                return NodeDirectory(path, real, exists=False)
            names = self.tree.names(path)
        except OSError as error:
            return NodeDirectory(path, real, exists=True, error=(error.strerror or str(error)).lower())
        if len(names) > FILES_LIMIT:
            self.unread.append((path, f"{len(names)} files, of which the first {FILES_LIMIT} were read"))
        read = (self.spec_file(f"{path}/{name}") for name in names[:FILES_LIMIT])
        return NodeDirectory(path, real, True, tuple(one for one in read if one is not None), facts)

    def spec_file(self, path: str) -> NodeFile | None:
        """The file; the content of one that runtimes do not look at is not read."""
        if is_spec_file(path):
            found = self.tree.file(path, FILE_LIMIT_BYTES)
            lost = found is None and self.tree.is_link(path)
            return NodeFile(path, None, None, "a link that leads nowhere") if lost else found
        try:
            return NodeFile(path, None, self.tree.facts(path))
        except OSError as error:
            return NodeFile(path, None, None, (error.strerror or str(error)).lower())

    def others(self, configs: Sequence[NodeFile], specs: Sequence[NodeDirectory]) -> Iterator[NodeDirectory]:
        """Directories with specs that are none of the spec directories: those that are configured, and usual mistakes."""
        known = {found.real for found in specs}
        vendor = vendor_runtime(_texts(configs))
        configured = [path for runtime in runtimes_of(_texts(configs)) for path in runtime.directories]
        usual = (*(vendor.directories if vendor else ()), *DEFAULT_DIRECTORIES, *_OTHER_DIRECTORIES)
        for path in dict.fromkeys((*configured, *usual)):
            found = self.directory(path)
            if found.exists and found.real not in known:
                known.add(found.real)
                yield found

    def paths(self, named: Iterable[str], directories: Sequence[str]) -> dict[str, PathFacts | None]:
        """Facts about what specs name, what is beside it under a similar name, and what is above the directories."""
        found: dict[str, PathFacts | None] = {}
        wanted = [path for path in dict.fromkeys(named) if path.startswith("/")]
        beside = [one for path in wanted for one in self.similar(path)]
        above = [one for path in directories for one in parents(path)]
        for path in dict.fromkeys((*wanted, *beside, *above)):
            try:
                found[path] = self.tree.facts(path)
            except OSError as error:
                self.unread.append((path, (error.strerror or str(error)).lower()))
        return self.without_guesses(found)

    def without_guesses(self, found: dict[str, PathFacts | None]) -> dict[str, PathFacts | None]:
        """An archive of a node's files often has no device nodes, or plain files in their place, which says nothing.

        Nor does it say anything of what would be in directories that are not in it.
        """
        try:
            names = self.tree.names("/dev")
        except OSError:
            names = []
        if not names:
            return {
                path: facts
                for path, facts in found.items()
                if not path.startswith("/dev/") and (facts is not None or self.is_there(path.rpartition("/")[0] or "/"))
            }
        null = self.tree.facts("/dev/null")
        if null is not None and null.is_device:
            return found
        return {
            path: replace(facts, kind="") if facts and facts.kind == "file" and path.startswith("/dev/") else facts
            for path, facts in found.items()
        }

    def is_there(self, directory: str) -> bool:
        try:
            return self.tree.facts(directory) is not None
        except OSError:
            return False

    def similar(self, path: str) -> Iterator[str]:
        directory, _, name = path.rpartition("/")
        pattern = family(name)
        if pattern is None:
            return
        try:
            names = self.tree.names(directory)
        except OSError:
            return
        yield from (f"{directory}/{one}" for one in names[:NEIGHBOURS_LIMIT] if family(one) == pattern)

    def configs(self) -> Iterator[NodeFile]:
        mains = [main for path in _CONTAINERD_CONFIGS if (main := self.tree.file(path, FILE_LIMIT_BYTES)) is not None]
        for main in mains[:1]:
            yield main
            yield from self.imported(main)
        self.unread.extend((main.path, f"{mains[0].path} is taken for the kubelet's containerd") for main in mains[1:])
        for path in (_CRIO_CONFIG, *self.inside(_CRIO_DIRECTORY, "*"), VENDOR_RUNTIME_CONFIG):
            found = self.tree.file(path, FILE_LIMIT_BYTES)
            if found is not None:
                yield found

    def imported(self, main: NodeFile) -> Iterator[NodeFile]:
        here = main.path.rpartition("/")[0]
        for pattern in imports_of(main.data or b""):
            directory, _, name = (pattern if pattern.startswith("/") else f"{here}/{pattern}").rpartition("/")
            for path in self.inside(directory, name):
                found = self.tree.file(path, FILE_LIMIT_BYTES)
                if found is not None and path != main.path:
                    yield found

    def inside(self, directory: str, pattern: str) -> list[str]:
        try:
            return [f"{directory}/{name}" for name in self.tree.names(directory) if fnmatch.fnmatchcase(name, pattern)]
        except OSError:
            return []

    def programs(self) -> Iterator[RuntimeProgram]:
        for name in _PROGRAMS:
            for path in (f"{directory}/{name}" for directory in _PROGRAM_DIRECTORIES):
                try:
                    facts = self.tree.facts(path)
                    if facts is not None and facts.kind == "file":
                        yield RuntimeProgram(path, build_notes(self.tree.outside(self.tree.real(path))))
                        break
                except (OSError, ValueError) as error:
                    self.unread.append((path, str(error).lower()))

    def checkpoints(self) -> Iterator[NodeFile]:
        plugins = f"{KUBELET_DIRECTORY}/plugins"
        kept = (path for driver in self.inside(plugins, "*") for path in self.inside(driver, "*checkpoint*"))
        for path in (f"{KUBELET_DIRECTORY}/dra_manager_state", *kept):
            found = self.tree.file(path, FILE_LIMIT_BYTES)
            if found is not None:
                yield found

    def kubelet(self) -> Iterator[NodeFile]:
        for path in _KUBELET_FILES:
            found = self.tree.file(f"{KUBELET_DIRECTORY}/{path}", FILE_LIMIT_BYTES)
            if found is not None:
                yield found

    def functions(self) -> Iterator[HostFunction]:
        """Accelerators, display and network controllers that the kernel found, and what shares an IOMMU group with one."""
        every = [self.function(directory) for directory in self.inside(_PCI_DIRECTORY, "*")[:FUNCTIONS_LIMIT]]
        kept = [one.class_code.startswith(_DEVICE_CLASSES) for one in every]
        groups = {one.iommu_group for one, is_kept in zip(every, kept, strict=True) if is_kept and one.iommu_group}
        for one, is_kept in zip(every, kept, strict=True):
            if is_kept or (one.iommu_group in groups and not one.class_code.startswith(_BRIDGE)):
                yield one

    def function(self, directory: str) -> HostFunction:
        values = {name: self.tree.text(f"{directory}/{name}").strip() for name in _PCI_FILES}
        driver = self.tree.real(f"{directory}/driver") if self.tree.is_link(f"{directory}/driver") else ""
        return HostFunction(
            address=directory.rpartition("/")[2],
            vendor=values["vendor"],
            device=values["device"],
            class_code=values["class"],
            numa=values["numa_node"],
            driver=driver.rpartition("/")[2],
            iommu_group=self.group(f"{directory}/iommu_group"),
        )

    def group(self, link: str) -> str:
        return self.tree.real(link).rpartition("/")[2] if self.tree.is_link(link) else ""

    def units(self) -> Iterator[NodeFile]:
        """Units that write CDI specs: by their name, or by what they run. A later directory's unit of a name counts."""
        found: dict[str, NodeFile] = {}
        for directory in _UNIT_DIRECTORIES:
            for path in self.inside(directory, "*.service")[:FILES_LIMIT]:
                one = self.tree.file(path, UNIT_LIMIT_BYTES)
                if one is not None and (
                    _WRITES_SPECS.search(path) or _WRITES_SPECS.search((one.data or b"").decode("latin-1"))
                ):
                    found[path.rpartition("/")[2]] = one
        yield from found.values()

    def device_files(self) -> tuple[str, ...] | None:
        """Device files of accelerators. None where /dev is none: an archive of a node's files has no device nodes."""
        try:
            null = self.tree.facts("/dev/null")
        except OSError:
            null = None
        if null is None or not null.is_device:
            return None
        found = [path for directory, pattern in _DEVICE_FILES for path in self.inside(directory, pattern)]
        return tuple(found[:NEIGHBOURS_LIMIT])

    def vm_runtimes(self) -> Mapping[str, str]:
        found = {name: self.tree.text(path).strip() for name, path in _VM_VERSIONS.items()}
        return {name: version for name, version in found.items() if version}

    def mounts(self) -> dict[str, str]:
        text = self.tree.text("/proc/1/mounts") or self.tree.text("/proc/self/mounts")
        rows = (line.split(" ") for line in text.splitlines())
        return {_unescaped(row[1]): row[2] for row in rows if len(row) > 2}

    def boot_time_s(self) -> float | None:
        found = re.search(r"^btime (\d+)$", self.tree.text("/proc/stat"), re.M)
        return float(found[1]) if found else None

    def driver_versions(self) -> Mapping[str, str]:
        found = {name: self.tree.text(f"/sys/module/{name}/version").strip() for name in _DRIVER_MODULES}
        return {name: version for name, version in found.items() if version}


def configured_directories(configs: Sequence[NodeFile]) -> tuple[str, ...]:
    """The directories that the first runtime with a configuration reads, else the usual ones."""
    runtimes = runtimes_of(_texts(configs))
    return (runtimes[0].directories if runtimes else ()) or DEFAULT_DIRECTORIES


def _texts(configs: Sequence[NodeFile]) -> list[tuple[str, bytes]]:
    return [(one.path, one.data) for one in configs if one.data is not None]


def edits_in(contents: Iterable[bytes]) -> Iterator[ContainerEdits]:
    """The edits in specs that can be understood."""
    for data in contents:
        spec = spec_file("", data).spec
        yield from _edits(spec) if spec else ()


def host_paths(edits: ContainerEdits) -> Iterator[str]:
    """The paths of the host that edits name."""
    yield from (node.host_path or node.path for node in edits.device_nodes)
    yield from (mount.host_path for mount in edits.mounts)
    yield from (hook.path for hook in edits.hooks)


def started_by(unit: NodeFile) -> Iterator[str]:
    """The programs that a unit of systemd starts."""
    for line in (unit.data or b"").decode("latin-1").splitlines():
        key, _, command = line.partition("=")
        program = command.strip().lstrip("-@:+!").split(" ")[0]
        if key.strip().startswith("Exec") and program.startswith("/"):
            yield program


def parents(path: str) -> Iterator[str]:
    """The directories above a path, the nearest first."""
    while path := path.rstrip("/").rpartition("/")[0]:
        yield path
    yield "/"


def family(name: str) -> str | None:
    """What names of the same family have in common: numbers do not count. None for a name without numbers."""
    pattern = re.sub(r"\d+(?:\.\d+)*", "#", name)
    return pattern if pattern != name else None


def _edits(spec: Spec) -> Iterator[ContainerEdits]:
    yield spec.container_edits
    yield from (device.container_edits for device in spec.devices)


def _unescaped(text: str) -> str:
    """A mount point as the kernel prints it, with octal numbers for blanks."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
