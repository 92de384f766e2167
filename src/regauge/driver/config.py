"""devices.yaml to a `Description`, strictly: what is wrong is said with file, line, device, field and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from regauge.base import InputError, Where
from regauge.cdi import ContainerEdits, Spec, split_kind
from regauge.cdi import Device as CdiDevice
from regauge.cdi import problems as cdi_problems
from regauge.driver.description import API_VERSION, KIND, Description, Device, NetworkPool, Stack, TaintPolicy
from regauge.driver.fields import Fields
from regauge.driver.names import driver_name_problem, pool_name_problem, resource_name_problem
from regauge.driver.parts import read_device, refuse
from regauge.model import Document, read_documents

_TOP = (
    "apiVersion",
    "kind",
    "metadata",
    "driver",
    "resource",
    "cdiKind",
    "deviceKind",
    "devicePlugin",
    "healthTaint",
    "deviceMetadata",
    "networkPool",
    "discover",
    "rules",
    "devices",
)
_TAINT_LIMIT_S = 86_400


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
    refuse(top, "driver", driver_name_problem(driver))
    resource = top.text("resource", "")
    if resource:
        refuse(top, "resource", resource_name_problem(resource))
    kind = top.text("cdiKind", resource or f"{driver}/device")
    refuse(top, "cdiKind", _kind_problem(kind))
    plugin = top.mapping("devicePlugin")
    plugin.only("answer", "preStart", "preferred")
    answer = plugin.choice("answer", ("cdi", "classic", "both"), "cdi")
    devices = tuple(read_device(fields) for fields in top.mappings("devices"))
    if not devices and "discover" not in top.value and "rules" not in top.value:
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
        spread=plugin.choice("preferred", ("packed", "spread"), "packed") == "spread",
        health_taint=_taint(top.mapping("healthTaint")),
        metadata=top.flag("deviceMetadata", False),
        network=_network(top, devices),
        discover=top.mapping("discover"),
        rules=tuple(top.mappings("rules")),
    )


def _taint(fields: Fields) -> TaintPolicy:
    fields.only("effect", "afterSeconds", "clearSeconds")
    usual = TaintPolicy()
    effect = fields.choice("effect", ("NoSchedule", "NoExecute", "none"), usual.effect)
    seconds = []
    for name, default in (("afterSeconds", usual.after_s), ("clearSeconds", usual.clear_s)):
        value = fields.number(name, int(default))
        if value is None or not 0 <= value <= _TAINT_LIMIT_S:
            raise fields.wrong(name, f"{value} is out of range", f"seconds, from 0 to {_TAINT_LIMIT_S}")
        seconds.append(float(value))
    return TaintPolicy("" if effect == "none" else effect, *seconds)


def _network(top: Fields, devices: Sequence[Device]) -> NetworkPool | None:
    if "networkPool" not in top.value:
        return None
    fields = top.mapping("networkPool")
    fields.only("name", "nodeLabels", "publishedBy")
    name = fields.text("name")
    refuse(fields, "name", pool_name_problem(name))
    labels = fields.mapping("nodeLabels")
    given = tuple((key, labels.text(key)) for key in labels.value)
    if any(device.stack is Stack.DEVICE_PLUGIN for device in devices):
        raise top.wrong("networkPool", "a device plugin serves the devices of its own node only", "say stack: dra")
    return NetworkPool(name, given, fields.text("publishedBy"))


def _kind_problem(kind: str) -> str | None:
    vendor, class_name = split_kind(kind)
    if len(vendor) == 1 or len(class_name) == 1:
        return "some runtimes crash on a vendor or class of one letter"
    probe = Spec(cdi_version="0.6.0", kind=kind, devices=(CdiDevice(name="x", container_edits=_PROBE),))
    return next((finding.what for finding in cdi_problems(probe) if finding.severity == "error"), None)


_PROBE = ContainerEdits(env=("A=1",))
