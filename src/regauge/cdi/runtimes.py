"""What container runtimes do about CDI, by their configuration and by what is noted in their programs. Pure.

containerd reads CDI specs from 1.7 on, by default from 2.0 on (`enable_cdi`, `cdi_spec_dirs` of its CRI plugin); CRI-O from
1.23 on, always (`cdi_spec_dirs`). Which spec versions they know is that of the CDI library that they were built with: its
releases carry the version of the specification. Sources: the runtimes' own configuration pages and releases.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regauge.cdi.versions import VERSIONS

CONTAINERD = "containerd"
CRIO = "cri-o"
VM_WORDS = frozenset({"kata", "vm", "firecracker", "hyperv"})
DEFAULT_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
CONTAINERD_FROM = (1, 7)
CONTAINERD_ON_FROM = (2, 0)
CRIO_FROM = (1, 23)
VENDOR_RUNTIME_CONFIG = "/etc/nvidia-container-runtime/config.toml"

_CRI_PLUGINS = ("cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
_LIBRARY = re.compile(r"^dep\t\S*/container-device-interface\tv(\d+)\.(\d+)\.", re.M)
_MODULE = re.compile(r"^mod\tgithub\.com/(?:containerd/containerd|cri-o/cri-o)(?:/v\d+)?\tv(\d[^\s-]*)", re.M)
_STAMP = re.compile(r"ersion\.Version=v?(\d+\.\d+[^\s\"']*)")
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")

# The CDI library in containerd's releases, by their go.mod, for programs that do not say themselves. Releases between two
# that were looked at get the later one's, so that no spec is called too new for a runtime that reads it.
_CONTAINERD_READS = (
    ((1, 7, 0), "0.5.0"),
    ((1, 7, 12), "0.6.0"),
    ((1, 7, 15), "0.7.0"),
    ((1, 7, 26), "0.8.0"),
    ((2, 0, 1), "1.0.0"),
    ((2, 2, 1), "1.1.0"),
)


@dataclass(frozen=True, slots=True)
class Handler:
    """A way to run containers that a RuntimeClass may name. `binary` is the program, "" for the runtime's own choice.

    `type` is what starts it (`io.containerd.kata.v2`, "vm" in CRI-O), `host_devices` whether privileged containers get the
    devices of the host.
    """

    name: str
    binary: str
    file: str
    type: str = ""
    host_devices: bool = True

    @property
    def is_vm(self) -> bool:
        """Whether pods of it run in virtual machines, which device nodes of the host do not reach."""
        return any(
            word in VM_WORDS for word in re.split(r"[^a-z]+", f"{self.type} {self.binary.rpartition('/')[2]}".lower())
        )


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """One runtime. `enabled` is None where it cannot be told; `reads` is the highest spec version it knows, "" if unknown.

    `because` says where `enabled` comes from, `reads_by` where `reads` does. `faults` are configuration files that cannot
    be understood, and why.
    """

    name: str
    version: str = ""
    enabled: bool | None = None
    because: str = ""
    too_old: bool = False
    directories: tuple[str, ...] = DEFAULT_DIRECTORIES
    directories_from: str = ""
    reads: str = ""
    reads_by: str = ""
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    faults: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class VendorRuntime:
    """The vendor's own low-level runtime, which edits containers beside CDI. `mode`: auto, cdi, legacy, csv."""

    file: str
    mode: str
    directories: tuple[str, ...]


def runtime_of(file: str) -> str:
    """The runtime whose configuration a file is, by its path; "" for others."""
    if "/crio/" in file:
        return CRIO
    return CONTAINERD if CONTAINERD in file else ""


def runtimes_of(
    configs: Sequence[tuple[str, bytes]], programs: Sequence[tuple[str, str]] = (), told: str = ""
) -> tuple[RuntimeSettings, ...]:
    """The runtimes of a node. `configs` in the order in which they are read, later ones win; `told` as in a Node's status.

    A runtime is there if there is a configuration, a program or a word of it.
    """
    found = []
    for name, settings in ((CONTAINERD, _containerd), (CRIO, _crio)):
        own = [(path, data) for path, data in configs if runtime_of(path) == name]
        builds = [text for path, text in programs if name.replace("-", "") == path.rpartition("/")[2]]
        said = told.partition("://")[2] if told.startswith(f"{name}://") else ""
        if own or builds or said:
            tables, faults = _tables(own)
            build = builds[0] if builds else ""
            version = said.removeprefix("v") or _version(build)
            found.append(_reading(settings(tables, version, faults), build))
    return tuple(found)


def vendor_runtime(configs: Sequence[tuple[str, bytes]]) -> VendorRuntime | None:
    """The vendor's runtime, where it is configured. A file that cannot be understood counts as none."""
    tables, _ = _tables([item for item in configs if item[0] == VENDOR_RUNTIME_CONFIG])
    for file, table in tables:
        section = _table(table, "nvidia-container-runtime")
        directories = _texts(_table(section, "modes", "cdi").get("spec-dirs"))
        mode = section.get("mode")
        return VendorRuntime(file, mode if isinstance(mode, str) else "auto", directories or DEFAULT_DIRECTORIES)
    return None


def imports_of(data: bytes) -> tuple[str, ...]:
    """The further files, as patterns, that a configuration of containerd takes in."""
    try:
        return _texts(tomllib.loads(data.decode()).get("imports"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return ()


def _tables(
    configs: Iterable[tuple[str, bytes]],
) -> tuple[list[tuple[str, dict[str, Any]]], tuple[tuple[str, str], ...]]:
    tables, faults = [], []
    for path, data in configs:
        try:
            tables.append((path, tomllib.loads(data.decode())))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            faults.append((path, str(error)))
        except RecursionError:
            faults.append((path, "it is nested too deeply"))
    return tables, tuple(faults)


def _containerd(
    tables: list[tuple[str, dict[str, Any]]], version: str, faults: tuple[tuple[str, str], ...]
) -> RuntimeSettings:
    number = _number(version)
    start = RuntimeSettings(CONTAINERD, version, *_containerd_default(number, tables), faults=faults)
    found = start
    # Up to 1.7 a file that is imported replaces the whole section of a plugin, from 2.0 on only what it sets.
    merges = (number or (0, 0)) >= CONTAINERD_ON_FROM or any(table.get("version") == 3 for _, table in tables)
    for path, section in _cri_sections(tables):
        found = _with_section(found if merges else start, path, section)
    if number is not None and number < CONTAINERD_FROM:
        found = replace(found, enabled=False, because="containerd knows CDI from 1.7 on", too_old=True)
    if tables and not found.handlers:
        found = replace(found, handlers={"runc": Handler("runc", "", "")})
    return found


def _with_section(settings: RuntimeSettings, path: str, section: dict[str, Any]) -> RuntimeSettings:
    """What the section of the CRI plugin in one file of containerd sets."""
    if isinstance(section.get("enable_cdi"), bool):
        settings = replace(settings, enabled=section["enable_cdi"], because=f"enable_cdi in {path}")
    if "cdi_spec_dirs" in section:
        settings = replace(settings, directories=_texts(section["cdi_spec_dirs"]), directories_from=path)
    handlers = dict(settings.handlers)
    for name, handler in _table(section, "containerd", "runtimes").items():
        binary = _table(handler if isinstance(handler, dict) else {}, "options").get("BinaryName", "")
        table = handler if isinstance(handler, dict) else {}
        handlers[name] = Handler(name, str(binary), path, *_kind(table))
    return replace(settings, handlers=handlers)


def _kind(handler: dict[str, Any]) -> tuple[str, bool]:
    """What starts a handler, and whether privileged containers of it get the devices of the host."""
    kind = handler.get("runtime_type")
    return kind if isinstance(kind, str) else "", handler.get("privileged_without_host_devices") is not True


def _containerd_default(
    number: tuple[int, int] | None, tables: list[tuple[str, dict[str, Any]]]
) -> tuple[bool | None, str]:
    if number is None and any(table.get("version") == 3 for _, table in tables):
        number = CONTAINERD_ON_FROM  # the third version of the configuration came with it
    if number is None:
        return None, "off by default up to containerd 1.7, on from 2.0"
    on = number >= CONTAINERD_ON_FROM
    return on, f"{'on' if on else 'off'} by default in containerd {number[0]}.{number[1]}"


def _cri_sections(tables: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, table in tables:
        for plugin in _CRI_PLUGINS:
            section = _table(table, "plugins", plugin)
            if section:
                yield path, section


def _crio(
    tables: list[tuple[str, dict[str, Any]]], version: str, faults: tuple[tuple[str, str], ...]
) -> RuntimeSettings:
    number = _number(version)
    too_old = number is not None and number < CRIO_FROM
    directories: tuple[str, ...] = DEFAULT_DIRECTORIES
    directories_from = ""
    handlers: dict[str, Handler] = {}
    for path, table in tables:
        section = _table(table, "crio", "runtime")
        if "cdi_spec_dirs" in section:
            directories, directories_from = _texts(section["cdi_spec_dirs"]), path
        for name, handler in _table(section, "runtimes").items():
            binary = handler.get("runtime_path", "") if isinstance(handler, dict) else ""
            table = handler if isinstance(handler, dict) else {}
            handlers[name] = Handler(name, str(binary), path, *_kind(table))
    because = "CRI-O knows CDI from 1.23 on, and has no switch for it"
    return RuntimeSettings(
        CRIO, version, not too_old, because, too_old, directories, directories_from, "", "", handlers, faults
    )


def _version(build: str) -> str:
    found = _MODULE.search(build) or _STAMP.search(build)
    return found[1] if found else ""


def _reading(settings: RuntimeSettings, build: str) -> RuntimeSettings:
    """The settings with the highest spec version that the runtime knows: by the library in its program, or its release."""
    known = [f"{major}.{minor}.0" for major, minor in _LIBRARY.findall(build)]
    told = max((one for one in known if one in VERSIONS), key=VERSIONS.index, default="")
    if told:
        return replace(settings, reads=told, reads_by="the CDI library that its program was built with")
    found = _NUMBERS.match(settings.version)
    if settings.name != CONTAINERD or found is None or found[3] is None:
        return settings
    release = (int(found[1]), int(found[2]), int(found[3]))
    by_release = next((reads for first, reads in reversed(_CONTAINERD_READS) if first <= release), "")
    return replace(settings, reads=by_release, reads_by="the CDI library of its release" if by_release else "")


def _number(version: str) -> tuple[int, int] | None:
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2])) if found else None


def _table(table: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """The table at `path`, empty when there is none."""
    here: Any = table
    for name in path:
        here = here.get(name) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
