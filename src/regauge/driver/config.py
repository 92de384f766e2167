"""devices.yaml to a `Description`, strictly: what is wrong is said with file, line, device, field and what to do."""

from __future__ import annotations

import re
from typing import Any

from regauge.base import InputError, Where
from regauge.cdi import ContainerEdits, DeviceNode, Mount, Spec, edit_errors, split_kind
from regauge.cdi import Device as CdiDevice
from regauge.cdi import problems as cdi_problems
from regauge.driver.description import API_VERSION, KIND, Description, Device, Identity, Stack
from regauge.driver.fields import Fields, type_name
from regauge.driver.names import (
    attribute_name_problem,
    device_name_problem,
    driver_name_problem,
    resource_name_problem,
)
from regauge.model import Document, Quantity, Semver, read_documents

ATTRIBUTES_LIMIT = 32
ATTRIBUTE_VALUE_LIMIT = 64
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBERS = re.compile(r"[0-9]{1,7}:[0-9]{1,7}")
_ATTRIBUTE_TYPES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
_TOP = ("apiVersion", "kind", "metadata", "driver", "resource", "cdiKind", "deviceKind", "devicePlugin", "devices")
_DEVICE = (
    "name",
    "stack",
    "identity",
    "attributes",
    "capacity",
    "deviceNodes",
    "mounts",
    "env",
    "numaNode",
    "shared",
    "healthFile",
)


def read_description(data: bytes, file: str) -> Description:
    """The description in a file. Raises `InputError` for the first thing that is wrong with it by itself.

    What is wrong beside the host (a device node that does not exist) is told by `checks.check_host`.
    """
    documents = list(read_documents(data, file))
    for document in documents:
        if (document.api_version, document.kind) != (API_VERSION, KIND):
            raise InputError(
                f"it is a {document.kind} of {document.api_version}",
                where=document.where,
                fix=f"a description of devices says apiVersion: {API_VERSION} and kind: {KIND}",
            )
    if len(documents) != 1:
        raise InputError(f"{len(documents)} descriptions where one is expected", where=Where(file=file))
    return _description(documents[0])


def _description(document: Document) -> Description:
    top = Fields.of(document.object, document.where)
    if document.warnings:
        raise InputError(document.warnings[0], where=Where(file=document.where.file), fix="remove one of the two")
    top.only(*_TOP)
    driver = top.text("driver")
    _refuse(top, "driver", driver_name_problem(driver))
    resource = top.text("resource", "")
    if resource:
        _refuse(top, "resource", resource_name_problem(resource))
    kind = top.text("cdiKind", resource or f"{driver}/device")
    _refuse(top, "cdiKind", _kind_problem(kind))
    plugin = top.mapping("devicePlugin")
    plugin.only("answer", "preStart")
    answer = plugin.choice("answer", ("cdi", "classic", "both"), "cdi")
    devices = tuple(_device(fields, driver) for fields in top.mappings("devices"))
    if not devices:
        raise top.wrong("devices", "there are no devices", "list at least one")
    if not resource and any(device.stack is Stack.DEVICE_PLUGIN for device in devices):
        raise top.wrong("resource", "it is missing, and a device has stack: device-plugin", "add resource: domain/name")
    return Description(
        driver=driver,
        resource=resource,
        cdi_kind=kind,
        devices=devices,
        device_kind=top.text("deviceKind", "static"),
        answer_cdi=answer != "classic",
        answer_classic=answer != "cdi",
        pre_start=plugin.flag("preStart", False),
    )


def _refuse(fields: Fields, name: str, problem: str | None) -> None:
    if problem is not None:
        raise fields.wrong(name, f"{fields.value.get(name)!r} cannot be used: {problem}")


def _kind_problem(kind: str) -> str | None:
    vendor, class_name = split_kind(kind)
    if len(vendor) == 1 or len(class_name) == 1:
        return "some runtimes crash on a vendor or class of one letter"
    probe = Spec(cdi_version="0.6.0", kind=kind, devices=(CdiDevice(name="x", container_edits=_PROBE),))
    return next((finding.what for finding in cdi_problems(probe) if finding.severity == "error"), None)


_PROBE = ContainerEdits(env=("A=1",))


def _device(fields: Fields, driver: str) -> Device:
    name = fields.text("name")
    fields = fields.named(f"device {name}")
    fields.only(*_DEVICE)
    _refuse(fields, "name", device_name_problem(name))
    attributes = _attributes(fields.mapping("attributes"))
    capacity = _capacity(fields.mapping("capacity"))
    if len(attributes) + len(capacity) > ATTRIBUTES_LIMIT:
        raise fields.wrong(
            "attributes", f"{len(attributes) + len(capacity)} attributes and capacities, at most {ATTRIBUTES_LIMIT}"
        )
    numa_node = fields.number("numaNode", None)
    if numa_node is not None and numa_node < 0:
        raise fields.wrong("numaNode", f"{numa_node} is not a NUMA node", "leave it out when the node is unknown")
    health_file = fields.text("healthFile", "")
    if health_file:
        _absolute(fields, "healthFile", health_file)
    return Device(
        name=name,
        stack=Stack(fields.choice("stack", tuple(Stack))),
        edits=_edits(fields),
        identity=_identity(fields.mapping("identity")),
        attributes=attributes,
        capacity=capacity,
        numa_node=numa_node,
        shared=fields.flag("shared", False),
        health_file=health_file,
        line=fields.where.line,
    )


def _identity(fields: Fields) -> Identity:
    fields.only("uuid", "pci", "device")
    pci, numbers = fields.text("pci", "").lower(), fields.text("device", "")
    if pci and not _PCI.fullmatch(pci):
        raise fields.wrong("pci", f"{pci!r} is not a PCI address", "write domain:bus:device.function: 0000:3b:00.0")
    if numbers and not _NUMBERS.fullmatch(numbers):
        raise fields.wrong("device", f"{numbers!r} is not major:minor", "such as 195:0")
    return Identity(fields.text("uuid", ""), pci, numbers)


def _attributes(fields: Fields) -> dict[str, dict[str, Any]]:
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


def _capacity(fields: Fields) -> dict[str, str]:
    found = {}
    for name, value in fields.value.items():
        problem = attribute_name_problem(name)
        if problem:
            raise fields.wrong(name, problem)
        try:
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise ValueError(f"it is {type_name(value)}")
            found[name] = str(Quantity.from_document(value))
        except ValueError as error:
            raise fields.wrong(name, f"{value!r} is not a quantity: {error}", "such as 40Gi or 8") from None
    return found


def _edits(fields: Fields) -> ContainerEdits:
    env = fields.mapping("env")
    for name, value in env.value.items():
        if not name or "=" in name or "\0" in name:
            raise env.wrong(name, f"{name!r} cannot be the name of an environment variable")
        if not isinstance(value, str):
            raise env.wrong(name, f"it is {type_name(value)} where text is expected", "put it in quotes")
    edits = ContainerEdits(
        env=tuple(f"{name}={value}" for name, value in env.value.items()),
        device_nodes=tuple(_device_node(node) for node in fields.mappings("deviceNodes")),
        mounts=tuple(_mount(mount) for mount in fields.mappings("mounts")),
    )
    if edits.is_empty():
        raise fields.wrong(
            "deviceNodes", "the device gives a container nothing", "add deviceNodes, mounts or env; CDI refuses it else"
        )
    for finding in edit_errors(edits):
        raise InputError(finding.what, where=fields.where, fix=finding.fix)
    return edits


def _device_node(fields: Fields) -> DeviceNode:
    fields.only("path", "hostPath", "permissions")
    path = fields.text("path")
    host_path = fields.text("hostPath", path)
    _absolute(fields, "path", path)
    _absolute(fields, "hostPath", host_path)
    permissions = fields.text("permissions", "rw")
    if not permissions or set(permissions) - set("rwm"):
        raise fields.wrong("permissions", f"{permissions!r} are not permissions", "letters of rwm")
    return DeviceNode(path=path, host_path="" if host_path == path else host_path, permissions=permissions)


def _mount(fields: Fields) -> Mount:
    fields.only("hostPath", "containerPath", "options", "readOnly")
    host_path = fields.text("hostPath")
    container_path = fields.text("containerPath", host_path)
    _absolute(fields, "hostPath", host_path)
    _absolute(fields, "containerPath", container_path)
    read_only = fields.flag("readOnly", True)
    options = fields.texts("options") or ("ro" if read_only else "rw", "nosuid", "nodev", "bind")
    return Mount(host_path=host_path, container_path=container_path, options=options)


def _absolute(fields: Fields, name: str, path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise fields.wrong(name, f"{path!r} is not an absolute path", "begin it with /")
