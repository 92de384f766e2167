"""Is a spec valid? Every rule of the reference library, in its order, and advice beyond it.

The first error is the one at which the reference stops: version, vendor, class, edits of the spec, devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from regauge.cdi.findings import Finding, Path
from regauge.cdi.model import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec
from regauge.cdi.names import device_problem, kind_part_problem, split_kind
from regauge.cdi.versions import VERSIONS, enforced_version, minimum_version, normal_version

HOOK_NAMES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
NODE_TYPES = ("", "b", "c", "u", "p")
CLOS_ID_LIMIT_BYTES = 4096
ANNOTATIONS_LIMIT_BYTES = 256 * 1024

_PERMISSIONS = re.compile(r"[rwm]*|none")
_ANNOTATION_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)


def problems(spec: Spec) -> Iterator[Finding]:
    """Errors, in the reference's order, then warnings and notes. Paths lead from the top of the spec; no lines yet."""
    errors = list(_errors(spec))
    yield from errors
    yield from _advice(spec, bool(errors))


def edit_errors(edits: ContainerEdits, at: Path = ()) -> Iterator[Finding]:
    """What is wrong with edits, in the reference's order."""
    yield from _env_errors(edits.env, (*at, "env"))
    for index, node in enumerate(edits.device_nodes):
        yield from _node_errors(node, (*at, "deviceNodes", index))
    for index, hook in enumerate(edits.hooks):
        yield from _hook_errors(hook, (*at, "hooks", index))
    for index, mount in enumerate(edits.mounts):
        yield from _mount_errors(mount, (*at, "mounts", index))
    if edits.intel_rdt is not None:
        yield from _rdt_errors(edits.intel_rdt, (*at, "intelRdt"))
    yield from _net_errors(edits.net_devices, (*at, "netDevices"))


def _errors(spec: Spec) -> Iterator[Finding]:
    yield from _version_errors(spec)
    vendor, class_name = split_kind(spec.kind)
    for what, name in (("vendor", vendor), ("class", class_name)):
        problem = kind_part_problem(what, name)
        if problem:
            yield Finding(what, problem, ("kind",))
    yield from edit_errors(spec.container_edits, ("containerEdits",))
    yield from _device_errors(spec)
    if not spec.devices:
        yield Finding("no-devices", "the spec has no devices", ("devices",), fix="list at least one device")


def _version_errors(spec: Spec) -> Iterator[Finding]:
    declared = normal_version(spec.cdi_version)
    if declared not in VERSIONS:
        what = f"{spec.cdi_version!r} is not a version of CDI" if spec.cdi_version else "cdiVersion is missing"
        yield Finding("version-unknown", what, ("cdiVersion",), fix=f"write {minimum_version(spec)}")
        return
    if VERSIONS.index(declared) < VERSIONS.index(enforced_version(spec)):
        needed = minimum_version(spec)
        what = f"cdiVersion is {declared}, but what the spec uses came with {needed}"
        yield Finding("version-too-low", what, ("cdiVersion",), fix=f"write {needed}")


def _device_errors(spec: Spec) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, device in enumerate(spec.devices):
        at: Path = ("devices", index)
        problem = device_problem(device.name)
        if problem:
            yield Finding("device-name", problem, (*at, "name"))
        if device.container_edits.is_empty():
            what = f"device {device.name!r} has no edits of its own: the spec's common edits do not count"
            yield Finding("empty-edits", what, (*at, "containerEdits"), fix="add at least one edit, such as an env")
        yield from edit_errors(device.container_edits, (*at, "containerEdits"))
        if device.name in seen:
            what = f"device {device.name!r} is in this spec twice"
            yield Finding("device-duplicate", what, (*at, "name"), fix="rename or remove one of them")
        seen.add(device.name)


def _env_errors(env: tuple[str, ...], at: Path) -> Iterator[Finding]:
    for index, item in enumerate(env):
        if item.find("=") < 1:
            yield Finding("env", f"{item!r} is not NAME=VALUE", (*at, index))


def _node_errors(node: DeviceNode, at: Path) -> Iterator[Finding]:
    if not node.path:
        yield Finding("node-path", "the device node has no path", (*at, "path"))
    if node.type not in NODE_TYPES:
        what = f"{node.type!r} is not a type of device node"
        yield Finding("node-type", what, (*at, "type"), fix="b (block), c or u (character), p (fifo)")
    for name, number in (("major", node.major), ("minor", node.minor)):
        if number < 0:
            yield Finding("node-number", f"the {name} number is negative: {number}", (*at, name))
    if not _PERMISSIONS.fullmatch(node.permissions):
        what = f"{node.permissions!r} are not permissions"
        yield Finding("node-permissions", what, (*at, "permissions"), fix="letters of rwm, or none")


def _hook_errors(hook: Hook, at: Path) -> Iterator[Finding]:
    if hook.hook_name not in HOOK_NAMES:
        what = f"{hook.hook_name!r} is not the name of a hook"
        yield Finding("hook-name", what, (*at, "hookName"), fix=f"one of {', '.join(HOOK_NAMES)}")
    if not hook.path:
        yield Finding("hook-path", f"the {hook.hook_name} hook has no path", (*at, "path"))
    for finding in _env_errors(hook.env, (*at, "env")):
        yield Finding("hook-env", finding.what, finding.path)


def _mount_errors(mount: Mount, at: Path) -> Iterator[Finding]:
    if not mount.host_path:
        yield Finding("mount-host-path", "the mount has no hostPath", (*at, "hostPath"))
    if not mount.container_path:
        yield Finding("mount-container-path", "the mount has no containerPath", (*at, "containerPath"))


def _rdt_errors(rdt: IntelRdt, at: Path) -> Iterator[Finding]:
    name = rdt.clos_id
    if name == "/":
        return
    if len(name.encode()) >= CLOS_ID_LIMIT_BYTES or name in (".", "..") or "/" in name or "\n" in name:
        what = f"{name[:40]!r} cannot be a closID: it is the name of a directory, under {CLOS_ID_LIMIT_BYTES} bytes"
        yield Finding("clos-id", what, (*at, "closID"))


def _net_errors(devices: tuple[NetDevice, ...], at: Path) -> Iterator[Finding]:
    hosts: dict[str, int] = {}
    names: dict[str, int] = {}
    for index, device in enumerate(devices):
        if not device.host_interface_name:
            yield Finding("net-host", "the network device has no hostInterfaceName", (*at, index, "hostInterfaceName"))
        if not device.name:
            yield Finding("net-name", "the network device has no name", (*at, index, "name"))
        if device.host_interface_name in hosts:
            what = f"host interface {device.host_interface_name!r} is given twice"
            yield Finding("net-host-duplicate", what, (*at, index, "hostInterfaceName"))
        elif device.name in names:
            what = f"two network devices get the name {device.name!r} in the container"
            yield Finding("net-name-duplicate", what, (*at, index, "name"))
        hosts[device.host_interface_name] = index
        names[device.name] = index


def _advice(spec: Spec, refused: bool) -> Iterator[Finding]:
    for what, name in zip(("vendor", "class"), split_kind(spec.kind), strict=True):
        if len(name) == 1:
            text = f"podman 4.3 crashes on kinds with a one-letter {what} ({name!r})"
            yield Finding("one-letter-name", text, ("kind",), severity="warning", fix="use a longer name")
    yield from _annotation_advice(spec.annotations, ("annotations",))
    yield from _edit_advice(spec.container_edits, ("containerEdits",))
    for index, device in enumerate(spec.devices):
        yield from _annotation_advice(device.annotations, ("devices", index, "annotations"))
        yield from _edit_advice(device.container_edits, ("devices", index, "containerEdits"))
    if not refused:
        yield from _version_advice(spec)


def _version_advice(spec: Spec) -> Iterator[Finding]:
    declared, needed = normal_version(spec.cdi_version), minimum_version(spec)
    if VERSIONS.index(declared) < VERSIONS.index(needed):
        text = f"what the spec uses came with {needed}; runtimes overlook it, as they check only the last device for it"
        yield Finding("version-too-low", text, ("cdiVersion",), severity="warning", fix=f"write {needed}")
    elif declared != needed:
        text = f"cdiVersion {spec.cdi_version} is higher than needed: runtimes that know only {needed} refuse the spec"
        yield Finding("version-higher-than-needed", text, ("cdiVersion",), severity="note", fix=f"write {needed}")


def _annotation_advice(annotations: Mapping[str, str], at: Path) -> Iterator[Finding]:
    # The reference means to check these and, by a slip, never does. A library that mends it will refuse them.
    for key in annotations:
        if not _ANNOTATION_KEY.fullmatch(key):
            what = f"{key!r} is not a key that Kubernetes accepts; no runtime checks it so far"
            yield Finding("annotation-key", what, (*at, key), severity="warning")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT_BYTES:
        what = f"{size} bytes of annotations; Kubernetes accepts {ANNOTATIONS_LIMIT_BYTES}"
        yield Finding("annotation-size", what, at, severity="warning")


def _edit_advice(edits: ContainerEdits, at: Path) -> Iterator[Finding]:
    paths: list[tuple[Path, str]] = [
        ((*at, "deviceNodes", index, "path"), node.path) for index, node in enumerate(edits.device_nodes)
    ]
    paths += [
        ((*at, "mounts", index, "containerPath"), mount.container_path) for index, mount in enumerate(edits.mounts)
    ]
    paths += [((*at, "hooks", index, "path"), hook.path) for index, hook in enumerate(edits.hooks)]
    for path, text in paths:
        if text and not text.startswith("/"):
            yield Finding("relative-path", f"{text!r} is not an absolute path", path, severity="warning")
    for index, hook in enumerate(edits.hooks):
        if hook.timeout is not None and hook.timeout < 0:
            what = f"the timeout is negative: {hook.timeout}"
            yield Finding("hook-timeout", what, (*at, "hooks", index, "timeout"), severity="warning")
