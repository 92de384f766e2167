"""The audit of a node's CDI: all rules over one `NodeFiles`, and what they mean for each device. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from regauge.audit import cdi_claims, cdi_host, cdi_places, cdi_runtimes, cdi_specs
from regauge.audit.cdi_host import HookUse
from regauge.audit.cdi_node import CdiNode, edits_in, names_in
from regauge.audit.findings import Finding, Severity, Unknown, in_order
from regauge.audit.generators import Generator
from regauge.cdi import Catalog, DeviceName, parse_device
from regauge.model.node_files import NodeFiles


class Usable(StrEnum):
    """Can a container get the device now?"""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A device by its qualified name, the file that defines it ("" if none), and the codes of what breaks it."""

    device: str
    file: str
    usable: Usable
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiAudit:
    """What was found on a node, worst first, what could not be seen, and the verdict on each device and hook."""

    source: str
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    verdicts: tuple[Verdict, ...]
    hooks: tuple[HookUse, ...]


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device of a node, or a name that several files define: where it is from, and who wrote that."""

    name: DeviceName
    file: str
    priority: int
    generator: Generator
    conflicts: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that no container needs any more, and why that is sure."""

    path: str
    why: str


_SETTLED_S = 60.0  # a driver may write a spec before it writes that its claim is prepared
_RULES: tuple[Callable[[CdiNode], Iterator[Finding]], ...] = (
    cdi_specs.invalid_files,
    cdi_specs.conflicts,
    cdi_specs.shadowed,
    cdi_specs.generators,
    cdi_specs.odd_specs,
    cdi_host.stale_parts,
    cdi_host.hook_findings,
    cdi_host.left_out,
    cdi_places.directories,
    cdi_places.files,
    cdi_places.elsewhere,
    cdi_runtimes.switches,
    cdi_runtimes.other_directories,
    cdi_runtimes.versions,
    cdi_runtimes.handlers,
    cdi_claims.lost_specs,
    cdi_claims.leftovers,
    cdi_claims.corrupt,
)


def audit_cdi(files: NodeFiles) -> CdiAudit:
    """All that there is to say about a node's CDI."""
    node = CdiNode(files)
    found = tuple(finding for rule in _RULES for finding in rule(node))
    found = in_order((*found, *cdi_host.too_old(node, found)))
    unread = (Unknown(what, why) for what, why in files.unread)
    unknown = (*unread, *_unseen(node), *cdi_runtimes.unknowns(node), *cdi_claims.unknowns(node))
    return CdiAudit(files.source, found, unknown, tuple(_verdicts(node, found)), cdi_host.hooks(node))


def device_catalog(files: NodeFiles) -> Catalog:
    """The devices of a node's spec directories."""
    return CdiNode(files).catalog


def listed_devices(files: NodeFiles) -> tuple[ListedDevice, ...]:
    """The devices that containers can ask for, and the names that are in conflict, by name."""
    node = CdiNode(files)
    priorities = {file.path: priority for priority, place in enumerate(files.spec_directories) for file in place.files}
    shadows: dict[str, tuple[str, ...]] = {}
    for name, _, hidden in node.hidden:
        shadows[name] = (*shadows.get(name, ()), hidden)
    found = [
        ListedDevice(parse_device(name), entry.file.path, entry.priority, node.generators[entry.file.path], (),
                     shadows.get(name, ()))
        for name, entry in node.catalog.devices.items()
    ]  # fmt: skip
    fighting: dict[str, dict[str, None]] = {}
    for conflict in node.catalog.conflicts:
        fighting.setdefault(conflict.name, {}).update({conflict.other: None, conflict.file: None})
    for name, paths in fighting.items():
        for path in paths:
            others = tuple(other for other in paths if other != path)
            found.append(ListedDevice(parse_device(name), path, priorities[path], node.generators[path], others))
    return tuple(sorted(found, key=lambda one: (str(one.name), one.file)))


def leftover_files(files: NodeFiles, now_s: float | None = None) -> tuple[Leftover, ...]:
    """Spec files that can go: each device needs a node that is gone, or the claim that it was written for is gone.

    Never one that could not be read or understood, one of a claim that may still be there, one that was written in the
    last minute before `now_s`, and none of claims where a checkpoint could not be read.
    """
    node = CdiNode(files)
    in_use = {name for claim in (node.kubelet.claims if node.kubelet else ()) for one in claim.cdi_devices.values()
              for name in one}  # fmt: skip
    gone: dict[str, set[str]] = {}
    for finding in cdi_host.stale_in(node, *node.catalog.files):
        if finding.code == "CDI-STALE-NODE" and finding.evidence[0].where.file:
            gone.setdefault(finding.evidence[0].where.file, set()).update(finding.devices)
    found = []
    for file in node.catalog.files:
        names, written_s = set(names_in(file)), node.modified_s(file.path)
        fresh = now_s is not None and written_s is not None and written_s > now_s - _SETTLED_S
        if file.spec is None or fresh or names & in_use:
            continue
        if cdi_claims.claim_is_gone(node, file.path):
            found.append(Leftover(file.path, f"its claim {node.claim_files[file.path]} is gone"))
        elif file.path not in node.claim_files and names <= gone.get(file.path, set()):
            found.append(Leftover(file.path, f"device nodes of all its {len(names)} devices are gone"))
    return tuple(found)


def _verdicts(node: CdiNode, findings: tuple[Finding, ...]) -> Iterator[Verdict]:
    broken: dict[str, dict[str, None]] = {}
    for finding in findings:
        if finding.severity is Severity.ERROR:
            for name in finding.devices:
                broken.setdefault(name, {})[finding.code] = None
    unseen = {what for what, _ in _unseen_paths(node)}
    for name in sorted({*node.catalog.devices, *broken}):
        entry = node.catalog.devices.get(name)
        because = tuple(broken.get(name, ()))
        state = Usable.NO if because else Usable.UNKNOWN if name in unseen else Usable.YES
        yield Verdict(name, entry.file.path if entry else "", state, because)


def _unseen_paths(node: CdiNode) -> Iterator[tuple[str, str]]:
    """(device, path) for all that a device needs and that could not be looked at."""
    for file in node.catalog.files:
        for edits, devices, _ in edits_in(file):
            for one in edits.device_nodes:
                path = one.host_path or one.path
                if node.files.has(path) is None:
                    yield from ((name, path) for name in devices)


def _unseen(node: CdiNode) -> Iterator[Unknown]:
    paths = dict.fromkeys(path for _, path in _unseen_paths(node))
    if paths:
        shown = ", ".join(list(paths)[:8])
        yield Unknown(f"whether device nodes are there: {shown}", "the devices of the node were not looked at")
    if node.files.boot_time_s is None:
        yield Unknown("when the node was started", "its kernel was not asked")
