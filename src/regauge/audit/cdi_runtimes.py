"""Rules about container runtimes: CDI off or unknown to them, other directories, spec versions, handlers on another path."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.cdi_node import CdiNode, used_names
from regauge.audit.findings import Evidence, Finding, Layer, Severity, Unknown
from regauge.base import Where
from regauge.cdi import VERSIONS

VENDOR_PROGRAMS = ("nvidia-container-runtime", "habana-container-runtime", "amd-container-runtime")


def switches(node: CdiNode) -> Iterator[Finding]:
    """CDI-RUNTIME-TOO-OLD, CDI-RUNTIME-OFF, CDI-RUNTIME-CONFIG: does the runtime do CDI at all?"""
    for runtime in node.runtimes:
        for path, text in runtime.faults:
            yield Finding(
                "CDI-RUNTIME-CONFIG", Severity.ERROR, Layer.INSTALLATION, path,
                f"{path} is no TOML: {text}",
                f"{runtime.title} does not start with it, or runs with what it read before.",
                "correct the file and restart the runtime",
            )  # fmt: skip
        if runtime.too_old:
            yield Finding(
                "CDI-RUNTIME-TOO-OLD", Severity.ERROR, Layer.INSTALLATION, runtime.title,
                f"{runtime.title} does not know CDI: {runtime.because}",
                "It ignores the devices that drivers ask for, so containers start without them.",
                "upgrade the runtime", (), tuple(node.catalog.devices),
            )  # fmt: skip
        elif runtime.enabled is False:
            yield Finding(
                "CDI-RUNTIME-OFF", Severity.ERROR, Layer.INSTALLATION, runtime.title,
                f"CDI is off in {runtime.title}: {runtime.because}",
                "It ignores the devices that drivers ask for, so containers start without them.",
                "set enable_cdi = true in the CRI plugin's section of its configuration, and restart it",
                (Evidence(Where(), runtime.because),), tuple(node.catalog.devices),
            )  # fmt: skip


def other_directories(node: CdiNode) -> Iterator[Finding]:
    """CDI-RUNTIME-DIRECTORIES: specs in a directory that the runtime does not read."""
    for runtime in node.runtimes:
        read = {_real(node, path) for path in runtime.directories}
        for place in node.files.spec_directories:
            specs = [one for one in node.catalog.files if one.spec and _directory(one.path) == place.path]
            if _real(node, place.path) in read or not (specs or place is node.files.spec_directories[-1]):
                continue
            yield Finding(
                "CDI-RUNTIME-DIRECTORIES", Severity.ERROR if specs else Severity.WARNING, Layer.INJECTION, place.path,
                f"{runtime.title} does not read {place.path}: its directories are {', '.join(runtime.directories) or 'none'}",
                f"The {len(specs)} specs there cannot be resolved by it." if specs else "Drivers write there by custom.",
                f"add {place.path} to cdi_spec_dirs in {runtime.directories_from or 'its configuration'}, or have drivers"
                " write to a directory of that list",
                (Evidence(Where(file=runtime.directories_from or None), f"cdi_spec_dirs = {list(runtime.directories)}"),),
                tuple(name for one in specs for name in used_names(node, one)),
            )  # fmt: skip


def versions(node: CdiNode) -> Iterator[Finding]:
    """CDI-TOO-NEW: specs of a version that the installed runtime cannot read."""
    for runtime in node.runtimes:
        if runtime.reads not in VERSIONS:
            continue
        for file in node.catalog.files:
            declared = file.spec.cdi_version.removeprefix("v") if file.spec else ""
            if declared in VERSIONS and VERSIONS.index(declared) > VERSIONS.index(runtime.reads):
                yield Finding(
                    "CDI-TOO-NEW", Severity.ERROR, Layer.INJECTION, file.path,
                    f"{file.path} is of version {declared}, and {runtime.title} reads up to {runtime.reads}",
                    "The runtime drops the file, and containers that ask for a device in it do not start.",
                    "have the lowest version written that will do (regauge cdi validate tells it), or upgrade the runtime",
                    (Evidence(Where(), f"{runtime.title} was built with a CDI library for {runtime.reads}"),),
                    used_names(node, file),
                )  # fmt: skip


def handlers(node: CdiNode) -> Iterator[Finding]:
    """CDI-HANDLER-MISSING, CDI-HANDLER-PATH: RuntimeClasses whose handler is not there, or goes another way than CDI."""
    known = {name: one for runtime in node.runtimes for name, one in runtime.handlers.items()}
    if known:
        for name, handler in sorted(node.files.runtime_classes.items()):
            if handler not in known:
                yield Finding(
                    "CDI-HANDLER-MISSING", Severity.ERROR, Layer.INSTALLATION, f"RuntimeClass {name}",
                    f"RuntimeClass {name} asks for the handler {handler!r}, which no runtime of this node has",
                    "Pods with it do not start here.",
                    f"configure the handler, or keep such pods away from this node; there are {', '.join(sorted(known))}",
                )  # fmt: skip
    classes = {handler: name for name, handler in sorted(node.files.runtime_classes.items())}
    for handler_name, one in sorted(known.items()):
        if one.binary.rpartition("/")[2].split(".")[0] in VENDOR_PROGRAMS:
            by = f"RuntimeClass {classes[handler_name]}, handler" if handler_name in classes else "handler"
            yield from _vendor_path(node, f"{by} {handler_name}", one.binary, one.file)


def _vendor_path(node: CdiNode, title: str, binary: str, file: str) -> Iterator[Finding]:
    """A handler that runs the vendor's own program: does it look for specs where they are?"""
    vendor = node.vendor_runtime
    evidence = [Evidence(Where(file=file or None), f"runs {binary}")]
    if vendor is None or vendor.mode != "cdi":
        mode = f"mode {vendor.mode!r} in {vendor.file}" if vendor else "its mode is not known"
        yield Finding(
            "CDI-HANDLER-PATH", Severity.NOTE, Layer.INJECTION, title,
            f"the {title} runs {binary}, which edits containers by itself ({mode})",
            "Devices come by another way than CDI there; a pod that has both gets them twice, or different ones.",
            "use the plain handler with CDI devices, or set mode = \"cdi\" for it",
            tuple(evidence),
        )  # fmt: skip
        return
    written = {_directory(one.path) for one in node.catalog.files if one.spec}
    lost = sorted(path for path in written if _real(node, path) not in {_real(node, one) for one in vendor.directories})
    if lost:
        yield Finding(
            "CDI-HANDLER-DIRECTORIES", Severity.ERROR, Layer.INJECTION, title,
            f"the {title} runs {binary}, which reads specs from {', '.join(vendor.directories)} and not from"
            f" {', '.join(lost)}",
            "Pods of that RuntimeClass do not find the devices that others on this node find.",
            f"add the directory to spec-dirs in {vendor.file}",
            (*evidence, Evidence(Where(file=vendor.file), f"spec-dirs = {list(vendor.directories)}")),
        )  # fmt: skip


def unknowns(node: CdiNode) -> Iterator[Unknown]:
    """What could not be told about runtimes."""
    if not node.runtimes:
        yield Unknown("container runtime", "no configuration and no program of containerd or CRI-O was found")
    for runtime in node.runtimes:
        if runtime.enabled is None:
            yield Unknown(f"whether CDI is on in {runtime.name}", f"its version is not known: {runtime.because}")
        if not runtime.reads and not runtime.too_old:
            yield Unknown(f"which spec versions {runtime.title} reads", "neither its program nor its release tells")


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _real(node: CdiNode, path: str) -> str:
    """A directory with links followed. /var/run is a link to /run on all that run Kubernetes, also where it was not seen."""
    seen = next((place.real for place in node.files.directories if place.path == path.rstrip("/")), path.rstrip("/"))
    return seen.removeprefix("/var") if seen.startswith("/var/run/") else seen
