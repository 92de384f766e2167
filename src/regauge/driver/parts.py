"""The parts of a device as a document states them, read strictly: identity, attributes, capacity, what a container gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from regauge.base import InputError
from regauge.cdi import ContainerEdits, DeviceNode, Hook, Mount, NetDevice, edit_errors
from regauge.driver.description import Device, Identity, Stack
from regauge.driver.fields import Fields, type_name
from regauge.driver.names import attribute_name_problem, condition_problem, device_name_problem
from regauge.driver.policies import request_policy
from regauge.model import Quantity, Semver

ATTRIBUTES_LIMIT = 32
ATTRIBUTE_VALUE_LIMIT = 64
BINDING_LIMIT = 4
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBERS = re.compile(r"[0-9]{1,7}:[0-9]{1,7}")
_ATTRIBUTE_TYPES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
_INTERFACE_LIMIT = 15
_DEVICE = (
    "name",
    "stack",
    "identity",
    "attributes",
    "capacity",
    "deviceNodes",
    "netDevices",
    "mounts",
    "hooks",
    "env",
    "gids",
    "numaNode",
    "linkGroup",
    "shared",
    "healthFile",
    "bindingConditions",
    "bindingFailureConditions",
    "bindsToNode",
)
DEVICE_FIELDS = _DEVICE


def read_device(fields: Fields) -> Device:
    """One device. Raises `InputError` for the first thing that is wrong with it."""
    name = fields.text("name")
    fields = fields.named(f"device {name}")
    fields.only(*_DEVICE)
    refuse(fields, "name", device_name_problem(name))
    edits = read_edits(fields)
    if edits.is_empty():
        raise fields.wrong(
            "deviceNodes", "the device gives a container nothing", "add deviceNodes, mounts or env; CDI refuses it else"
        )
    return device_of(fields, name, edits)


def device_of(fields: Fields, name: str, edits: ContainerEdits) -> Device:
    """A device from its fields, with what it gives a container said apart."""
    attributes = read_attributes(fields.mapping("attributes"))
    shared = fields.flag("shared", False)
    capacity, policies = read_capacity(fields.mapping("capacity"), shared)
    if len(attributes) + len(capacity) > ATTRIBUTES_LIMIT:
        raise fields.wrong(
            "attributes", f"{len(attributes) + len(capacity)} attributes and capacities, at most {ATTRIBUTES_LIMIT}"
        )
    numa_node = fields.number("numaNode", None)
    if numa_node is not None and numa_node < 0:
        raise fields.wrong("numaNode", f"{numa_node} is not a NUMA node", "leave it out when the node is unknown")
    health_file = fields.text("healthFile", "")
    if health_file:
        check_absolute(fields, "healthFile", health_file)
    conditions, failures = read_binding(fields)
    return Device(
        name=name,
        stack=Stack(fields.choice("stack", tuple(Stack))),
        edits=edits,
        identity=read_identity(fields.mapping("identity")),
        attributes=attributes,
        capacity=capacity,
        policies=policies,
        numa_node=numa_node,
        link_group=fields.text("linkGroup", ""),
        shared=shared,
        health_file=health_file,
        binding_conditions=conditions,
        binding_failures=failures,
        binds_to_node=fields.flag("bindsToNode", False),
        line=fields.where.line,
    )


def refuse(fields: Fields, name: str, problem: str | None) -> None:
    """Raises `InputError` about the field when there is a problem."""
    if problem is not None:
        raise fields.wrong(name, f"{fields.value.get(name)!r} cannot be used: {problem}")


def read_identity(fields: Fields) -> Identity:
    fields.only("uuid", "pci", "device")
    pci, numbers = fields.text("pci", "").lower(), fields.text("device", "")
    if pci and not _PCI.fullmatch(pci):
        raise fields.wrong("pci", f"{pci!r} is not a PCI address", "write domain:bus:device.function: 0000:3b:00.0")
    if numbers and not _NUMBERS.fullmatch(numbers):
        raise fields.wrong("device", f"{numbers!r} is not major:minor", "such as 195:0")
    return Identity(fields.text("uuid", ""), pci, numbers)


def read_binding(fields: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Binding conditions, and the conditions of failure: both or none, at most 4 each, no name twice."""
    found = []
    for name in ("bindingConditions", "bindingFailureConditions"):
        types = fields.texts(name)
        if len(types) > BINDING_LIMIT:
            raise fields.wrong(name, f"{len(types)} conditions, at most {BINDING_LIMIT}")
        for type_ in types:
            if problem := condition_problem(type_):
                raise fields.wrong(name, f"{type_!r} cannot be used: {problem}")
        found.append(types)
    conditions, failures = found
    if bool(conditions) != bool(failures):
        missing = "bindingFailureConditions" if conditions else "bindingConditions"
        raise fields.wrong(missing, "it is missing: binding conditions and conditions of failure go together")
    if len({*conditions, *failures}) != len(conditions) + len(failures):
        raise fields.wrong("bindingConditions", "a condition stands twice")
    return conditions, failures


def read_attributes(fields: Fields) -> dict[str, dict[str, Any]]:
    """By name, each with its type, as a ResourceSlice holds them."""
    found = {}
    for name, value in fields.value.items():
        problem = attribute_name_problem(name)
        if problem:
            raise fields.wrong(name, problem)
        typed = value if isinstance(value, dict) else {_attribute_type(fields, name, value): value}
        if len(typed) != 1 or next(iter(typed)) not in _ATTRIBUTE_TYPES:
            raise fields.wrong(name, "an attribute has one type and value", f"types: {', '.join(_ATTRIBUTE_TYPES)}")
        ((type_, inner),) = typed.items()
        _check_attribute(fields, name, type_, inner)
        found[name] = {type_: inner}
    return found


def _attribute_type(fields: Fields, name: str, value: Any) -> str:
    for type_, text in ((bool, "bool"), (int, "int"), (str, "string")):
        if isinstance(value, type_):
            return text
    raise fields.wrong(name, f"an attribute cannot be {type_name(value)}", "write text, a whole number, true or false")


def _check_attribute(fields: Fields, name: str, type_: str, value: Any) -> None:
    many = type_.endswith("s")
    items = value if many else [value]
    expected = {"string": str, "version": str, "int": int, "bool": bool}[type_.rstrip("s")]
    if not isinstance(items, list) or not items:
        raise fields.wrong(name, f"{type_} needs a list that is not empty")
    for item in items:
        if not isinstance(item, expected) or (expected is int and isinstance(item, bool)):
            raise fields.wrong(name, f"{item!r} is {type_name(item)} and not {type_}")
        if isinstance(item, str) and len(item.encode()) > ATTRIBUTE_VALUE_LIMIT:
            raise fields.wrong(name, f"the value is longer than {ATTRIBUTE_VALUE_LIMIT} bytes")
        if type_.startswith("version"):
            try:
                Semver.parse(str(item))
            except ValueError as error:
                raise fields.wrong(name, f"{item!r} is not a version: {error}", "write major.minor.patch") from None


def read_capacity(fields: Fields, shared: bool) -> tuple[dict[str, str], dict[str, Mapping[str, Any]]]:
    """By name the quantities, and for those that are shared out by request the policy, as a ResourceSlice holds it."""
    found, policies = {}, {}
    for name, value in fields.value.items():
        problem = attribute_name_problem(name)
        if problem:
            raise fields.wrong(name, problem)
        if isinstance(value, dict):
            if not shared:
                fix = "add shared: true to the device, or write the quantity alone"
                raise fields.wrong(name, "only a device that is shared is given out in parts", fix)
            found[name], policies[name] = request_policy(fields.mapping(name))
        else:
            found[name] = read_quantity(fields, name)
    return found, policies


def read_quantity(fields: Fields, name: str) -> str:
    """A quantity in its canonical form."""
    value = fields.value.get(name)
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError(f"it is {type_name(value)}")
        return str(Quantity.from_document(value))
    except ValueError as error:
        raise fields.wrong(name, f"{value!r} is not a quantity: {error}", "such as 40Gi or 8") from None


def read_edits(fields: Fields) -> ContainerEdits:
    """What a container gets: maybe nothing."""
    env = fields.mapping("env")
    for name, value in env.value.items():
        if not name or "=" in name or "\0" in name:
            raise env.wrong(name, f"{name!r} cannot be the name of an environment variable")
        if not isinstance(value, str):
            raise env.wrong(name, f"it is {type_name(value)} where text is expected", "put it in quotes")
    edits = ContainerEdits(
        env=tuple(f"{name}={value}" for name, value in env.value.items()),
        device_nodes=tuple(_device_node(node) for node in fields.mappings("deviceNodes")),
        net_devices=tuple(_net_device(device) for device in fields.mappings("netDevices")),
        mounts=tuple(_mount(mount) for mount in fields.mappings("mounts")),
        hooks=tuple(_hook(hook) for hook in fields.mappings("hooks")),
        additional_gids=fields.numbers("gids"),
    )
    for finding in () if edits.is_empty() else edit_errors(edits):
        raise InputError(finding.what, where=fields.where, fix=finding.fix)
    return edits


def _device_node(fields: Fields) -> DeviceNode:
    fields.only("path", "hostPath", "permissions", "type", "major", "minor", "fileMode", "uid", "gid")
    path = fields.text("path")
    host_path = fields.text("hostPath", path)
    check_absolute(fields, "path", path)
    check_absolute(fields, "hostPath", host_path)
    permissions = fields.text("permissions", "rw")
    if not permissions or set(permissions) - set("rwm"):
        raise fields.wrong("permissions", f"{permissions!r} are not permissions", "letters of rwm")
    return DeviceNode(
        path=path,
        host_path="" if host_path == path else host_path,
        permissions=permissions,
        type=fields.choice("type", ("", "b", "c", "u", "p"), ""),
        major=_natural(fields, "major") or 0,
        minor=_natural(fields, "minor") or 0,
        file_mode=_natural(fields, "fileMode"),
        uid=_natural(fields, "uid"),
        gid=_natural(fields, "gid"),
    )


def _natural(fields: Fields, name: str) -> int | None:
    value = fields.number(name, None)
    if value is not None and not 0 <= value < 2**32:
        raise fields.wrong(name, f"{value} is out of range", "from 0 to 4294967295")
    return value


def _net_device(fields: Fields) -> NetDevice:
    fields.only("hostInterfaceName", "name")
    host_name = fields.text("hostInterfaceName")
    return NetDevice(
        host_interface_name=host_name, name=check_interface(fields, "name", fields.text("name", host_name))
    )


def check_interface(fields: Fields, field: str, name: str) -> str:
    """The name of a network interface, if the kernel accepts it."""
    if not 0 < len(name.encode()) <= _INTERFACE_LIMIT or name in (".", "..") or re.search(r"[\s/:]", name):
        fix = f"at most {_INTERFACE_LIMIT} letters, without '/', ':' and blanks"
        raise fields.wrong(field, f"{name!r} cannot be the name of an interface", fix)
    return name


def _mount(fields: Fields) -> Mount:
    fields.only("hostPath", "containerPath", "options", "readOnly")
    host_path = fields.text("hostPath")
    container_path = fields.text("containerPath", host_path)
    check_absolute(fields, "hostPath", host_path)
    check_absolute(fields, "containerPath", container_path)
    read_only = fields.flag("readOnly", True)
    options = fields.texts("options") or ("ro" if read_only else "rw", "nosuid", "nodev", "bind")
    return Mount(host_path=host_path, container_path=container_path, options=options)


def _hook(fields: Fields) -> Hook:
    fields.only("hookName", "path", "args", "env", "timeout")
    path = fields.text("path")
    check_absolute(fields, "path", path)
    return Hook(
        hook_name=fields.text("hookName"),
        path=path,
        args=fields.texts("args"),
        env=fields.texts("env"),
        timeout=_natural(fields, "timeout"),
    )


def check_absolute(fields: Fields, name: str, path: str) -> None:
    """Raises `InputError` for a path that is not absolute."""
    if not path.startswith("/") or "\0" in path:
        raise fields.wrong(name, f"{path!r} is not an absolute path", "begin it with /")
