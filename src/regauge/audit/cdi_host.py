"""Rules about specs and the host: what they name and the host has not, hooks, nodes left out, specs older than the host."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from regauge.audit.cdi_node import CdiNode, edits_in, names_in, place_in, used_names
from regauge.audit.findings import Evidence, Finding, Layer, Severity
from regauge.base import Where
from regauge.cdi import DeviceNode, Mount, SpecFile

SHOWN = 8
_FAMILY = re.compile(r"\d+(?:\.\d+)*")
_LIBRARY = re.compile(r"(.*\.so)(?:\.[\d.]+)?")
_HOOK_WRITABLE = 0o022
_STALE = ("CDI-STALE-NODE", "CDI-STALE-MOUNT", "CDI-HOOK-MISSING")


@dataclass(frozen=True, slots=True)
class HookUse:
    """A program that runtimes run on the host for containers. `safe`: root's, and nobody else may write it; None: unknown.

    `devices` are those that it is run for.
    """

    path: str
    names: tuple[str, ...]
    files: tuple[str, ...]
    exists: bool | None
    uid: int | None
    mode: int | None
    safe: bool | None
    devices: tuple[str, ...]


def stale_parts(node: CdiNode) -> Iterator[Finding]:
    """CDI-STALE-NODE, CDI-STALE-MOUNT, CDI-NOT-A-DEVICE: what a spec names and the host has not, or not as a device."""
    for file in node.catalog.files:
        used = set(used_names(node, file))
        for finding in stale_in(node, file):
            devices = tuple(name for name in finding.devices if name in used)
            if devices or not finding.devices:
                yield replace(finding, devices=devices)
            else:
                why = "A later directory replaces what the file defines, so that no container gets it from there."
                yield replace(finding, devices=(), severity=Severity.NOTE, why=why)


def stale_in(node: CdiNode, *files: SpecFile) -> Iterator[Finding]:
    """The same for these files, with all devices that they define, replaced or not."""
    for file in files:
        for edits, devices, at in edits_in(file):
            for index, device in enumerate(edits.device_nodes):
                yield from _node(node, file, device, devices, (*at, "deviceNodes", index))
            for index, mount in enumerate(edits.mounts):
                yield from _mount(node, file, mount, devices, (*at, "mounts", index, "hostPath"))


def _node(
    node: CdiNode, file: SpecFile, device: DeviceNode, devices: tuple[str, ...], at: tuple[str | int, ...]
) -> Iterator[Finding]:
    path = device.host_path or device.path
    where = place_in(node, file, at)
    if node.files.has(path) is False:
        described = bool(device.type) and (device.major != 0 or device.type == "p")
        why = (
            "The spec gives type and numbers, so runtimes make a node all the same, of a device that is not there."
            if described
            else "Runtimes ask the host for the node's numbers and refuse to start the container."
        )
        yield Finding(
            "CDI-STALE-NODE", Severity.WARNING if described else Severity.ERROR, Layer.INJECTION, path,
            f"{path} is not on this node, but {file.path} gives it to {_shown(devices)}",
            why,
            "have the spec written anew by its generator; if the device should be there, look at the kernel driver",
            (Evidence(where, f"names {path}"), Evidence(Where(file=path), "there is no such file")),
            devices,
        )  # fmt: skip
        return
    facts = node.files.paths.get(path)
    if facts is not None and (facts.kind in ("directory", "socket", "file") or facts.link_to):
        seen = f"a link to {facts.link_to}" if facts.link_to else f"a {facts.kind}"
        yield Finding(
            "CDI-NOT-A-DEVICE", Severity.ERROR, Layer.INJECTION, path,
            f"{path} is {seen} and no device node, but {file.path} gives it to {_shown(devices)} as one",
            "Runtimes look at the node itself, do not follow links, and refuse to start the container.",
            "name the device node itself (hostPath for the node, path for its place in the container)",
            (Evidence(where, f"names {path}"), Evidence(Where(file=path), seen)),
            devices,
        )  # fmt: skip


def _mount(
    node: CdiNode, file: SpecFile, mount: Mount, devices: tuple[str, ...], at: tuple[str | int, ...]
) -> Iterator[Finding]:
    if not _is_bind(mount) or node.files.has(mount.host_path) is not False:
        return
    other = _same_library(node, mount.host_path)
    versions = ", ".join(f"{name} {version}" for name, version in node.files.driver_versions.items())
    instead = f"; the host has {other}" if other else ""
    yield Finding(
        "CDI-STALE-MOUNT", Severity.ERROR, Layer.INJECTION, mount.host_path,
        f"{mount.host_path} is not on this node{instead}, but {file.path} mounts it for {_shown(devices)}",
        "The mount fails, and with it every container that asks for one of these devices."
        + (" The driver was changed after the spec was written." if other else ""),
        "have the spec written anew by its generator after each change of the driver",
        (
            Evidence(place_in(node, file, at), f"mounts {mount.host_path}"),
            *((Evidence(Where(file=other), "is there instead"),) if other else ()),
            *((Evidence(Where(), f"version in use: {versions}"),) if versions else ()),
        ),
        devices,
    )  # fmt: skip


def _is_bind(mount: Mount) -> bool:
    return mount.type in ("", "bind", "none", "rbind") or bool({"bind", "rbind"} & set(mount.options))


def _same_library(node: CdiNode, path: str) -> str:
    """The same shared library in another version, if the host has one."""
    found = _LIBRARY.fullmatch(path)
    if not found:
        return ""
    same = [
        other
        for other, facts in node.files.paths.items()
        if facts is not None and other != path and (one := _LIBRARY.fullmatch(other)) and one[1] == found[1]
    ]
    return max(same, default="", key=len)


def hooks(node: CdiNode) -> tuple[HookUse, ...]:
    """Every program that specs have runtimes run, by path."""
    found_in: dict[str, tuple[dict[str, None], dict[str, None], dict[str, None]]] = {}
    for file in node.catalog.files:
        used = set(used_names(node, file))
        for edits, devices, _ in edits_in(file):
            for hook in edits.hooks:
                names, files, users = found_in.setdefault(hook.path, ({}, {}, {}))
                names[hook.hook_name], files[file.path] = None, None
                users.update(dict.fromkeys(name for name in devices if name in used))
    found = []
    for path, (names, files, users) in sorted(found_in.items()):
        facts = node.files.paths.get(path)
        mode, uid = (facts.mode, facts.uid) if facts else (None, None)
        safe = None if mode is None or uid is None else uid == 0 and not mode & _HOOK_WRITABLE
        there = node.files.has(path)
        found.append(HookUse(path, tuple(names), tuple(files), there, uid, mode, safe, tuple(users)))
    return tuple(found)


def hook_findings(node: CdiNode) -> Iterator[Finding]:
    """CDI-HOOK-MISSING, CDI-HOOK-OPEN: hooks run as root on the host, so their programs are as trusted as root."""
    for hook in hooks(node):
        evidence = tuple(
            Evidence(Where(file=path), f"runs {hook.path} as {', '.join(hook.names)}") for path in hook.files
        )
        if hook.exists is False:
            yield Finding(
                "CDI-HOOK-MISSING", Severity.ERROR, Layer.INJECTION, hook.path,
                f"the hook {hook.path} is not on this node",
                "The runtime cannot run it, and the container does not start.",
                "install the program, or have the specs written anew",
                evidence, hook.devices,
            )  # fmt: skip
        elif hook.safe is False:
            yield Finding(
                "CDI-HOOK-OPEN", Severity.ERROR, Layer.INSTALLATION, hook.path,
                f"the hook {hook.path} is owned by uid {hook.uid} with mode {hook.mode or 0:04o}",
                "Runtimes run it as root on the host: who can write it is root.",
                f"chown root:root {hook.path} && chmod go-w {hook.path}",
                evidence, hook.devices,
            )  # fmt: skip


def left_out(node: CdiNode) -> Iterator[Finding]:
    """CDI-INCOMPLETE: a device without a node that its fellows have, or nodes of the host that no spec of the kind has."""
    families = _families(node)
    for family, users in families.items():
        for file in node.catalog.files:
            yield from _odd_ones(file, family, users)
        yield from _unused(node, family, users)


def _families(node: CdiNode) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Device nodes that differ by numbers only: devices by node, by family."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in node.catalog.files:
        for edits, devices, _ in edits_in(file):
            for one in edits.device_nodes:
                path = one.host_path or one.path
                if _FAMILY.search(path.rpartition("/")[2]):
                    found[family_of(path)][path].update(devices)
    return {family: {path: frozenset(users) for path, users in paths.items()} for family, paths in found.items()}


def family_of(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/{_FAMILY.sub('#', name)}"


def _odd_ones(file: SpecFile, family: str, users: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    names = names_in(file)
    have = {name for devices in users.values() for name in devices}
    without = [name for name in names if name not in have]
    with_ = [name for name in names if name in have]
    if len(with_) < 2 or not without or len(without) > len(with_) // 2:
        return
    yield Finding(
        "CDI-INCOMPLETE", Severity.WARNING, Layer.INJECTION, file.path,
        f"{_shown(tuple(without))} in {file.path} has no node {family}, which {len(with_)} others of the file have",
        "Containers start, and the device does not work in them.",
        "have the spec written anew; compare the devices with regauge cdi show",
        (Evidence(Where(file=file.path), f"{_shown(tuple(with_))} have one"),),
        tuple(without),
    )  # fmt: skip


def _unused(node: CdiNode, family: str, users: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    unused = sorted(
        path
        for path, facts in node.files.paths.items()
        if facts is not None and path.startswith(family.rpartition("/")[0]) and path not in users
        and _FAMILY.search(path.rpartition("/")[2]) and family_of(path) == family
    )  # fmt: skip
    if unused:
        files = sorted({name.partition("=")[0] for devices in users.values() for name in devices})
        yield Finding(
            "CDI-INCOMPLETE", Severity.WARNING, Layer.DISCOVERY, family,
            f"this node has {_shown(tuple(unused))}, which no spec names, beside {_shown(tuple(sorted(users)))}",
            "Devices that came or were reconfigured after the spec was written cannot be used, or lack a part.",
            "have the specs written anew; nothing, if these nodes are not for containers",
            tuple(Evidence(Where(file=path), "no spec names it") for path in unused[:SHOWN]),
            tuple(files),
        )  # fmt: skip


def too_old(node: CdiNode, found: tuple[Finding, ...]) -> Iterator[Finding]:
    """CDI-OLDER-THAN-BOOT, CDI-OLDER-THAN-DEVICE: specs that were written before the host became what it is."""
    boot_s = node.files.boot_time_s
    stale = {file for one in found if one.code in _STALE for file in (str(e.where.file) for e in one.evidence)}
    for file in node.catalog.files:
        written_s = node.modified_s(file.path)
        if file.spec is None or written_s is None:
            continue
        if boot_s is not None and written_s < boot_s:
            yield Finding(
                "CDI-OLDER-THAN-BOOT", Severity.WARNING if file.path in stale else Severity.NOTE, Layer.INJECTION,
                file.path, f"{file.path} was written before this node was started",
                "Drivers and devices may have changed since; "
                + ("some of what it names is gone." if file.path in stale else "all that it names is still there."),
                "have it written at each start of the node, after the drivers are loaded",
                (Evidence(Where(file=file.path), f"written {moment(written_s)}; started {moment(boot_s)}"),),
                tuple(names_in(file)),
            )  # fmt: skip
            continue
        yield from _newer_nodes(node, file, written_s)


def _newer_nodes(node: CdiNode, file: SpecFile, written_s: float) -> Iterator[Finding]:
    newer = []
    for edits, _, _ in edits_in(file):
        for device in edits.device_nodes:
            path = device.host_path or device.path
            facts = node.files.paths.get(path)
            if facts is not None and facts.is_device and facts.modified_s and facts.modified_s > written_s:
                newer.append((path, facts.modified_s))
    if newer:
        yield Finding(
            "CDI-OLDER-THAN-DEVICE", Severity.WARNING, Layer.INJECTION, file.path,
            f"{file.path} was written before {_shown(tuple(path for path, _ in newer))} came",
            "The devices were made anew, or reconfigured, after the spec was written: it may describe what was before.",
            "have the spec written anew after each reconfiguration",
            (
                Evidence(Where(file=file.path), f"written {moment(written_s)}"),
                *(Evidence(Where(file=path), f"made {moment(made_s)}") for path, made_s in newer[:SHOWN]),
            ),
            tuple(names_in(file)),
        )  # fmt: skip


def moment(time_s: float) -> str:
    """A time as people and logs write it, UTC."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
