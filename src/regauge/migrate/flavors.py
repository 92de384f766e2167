"""Accelerator Flavors: what users ask for by a name, and how each stack says it. Reading and checking. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from regauge.base import InputError, Where
from regauge.migrate.workloads import AskStack
from regauge.model import Document

API_VERSION = "regauge.dev/v1alpha1"
KIND = "AcceleratorFlavor"
NAME_ANNOTATION = "flavor.regauge.dev/name"
COUNT_ANNOTATION = "flavor.regauge.dev/count"
RENDERED_ANNOTATION = "flavor.regauge.dev/rendered"
MAX_UNITS = 1024
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_VERSION = re.compile(r"(>=|<=|>|<|=)?\s*v?(1\.[0-9]{1,3})")


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class CountedDevice(_Strict, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A counted resource, and how many of it one unit of the flavor is."""

    name: str
    count: int = 1


class DevicePluginForm(_Strict, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A flavor by limits. Everything beside the counts goes to the pod."""

    resources: tuple[CountedDevice, ...]
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    runtime_class_name: str = ""


class FlavorRequest(_Strict, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One request of a claim; `count` for one unit, `selectors` in CEL, `capacity` for devices that are shared."""

    name: str
    device_class_name: str
    count: int = 1
    selectors: tuple[str, ...] = ()
    capacity: dict[str, str] = {}


class DraForm(_Strict, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A flavor by claim. `match_attributes` have to be the same for all its devices."""

    requests: tuple[FlavorRequest, ...]
    match_attributes: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class Choice(_Strict, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A rule: the stack, if every condition that is given holds."""

    stack: str
    kube_version: str = ""
    pools: tuple[str, ...] = ()
    served: bool | None = None


class FlavorSpec(_Strict, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What `spec` of a flavor holds."""

    description: str = ""
    device_plugin: DevicePluginForm | None = None
    dra: DraForm | None = None
    bridge: DevicePluginForm | None = None
    choose: tuple[Choice, ...] = ()
    default: str = ""


class Flavor(msgspec.Struct, frozen=True):
    """One flavor, checked."""

    name: str
    spec: FlavorSpec

    @property
    def stacks(self) -> tuple[AskStack, ...]:
        """The stacks that it is written for."""
        forms = {
            AskStack.LIMITS: self.spec.device_plugin,
            AskStack.CLAIM: self.spec.dra,
            AskStack.BRIDGE: self.spec.bridge,
        }
        return tuple(stack for stack, form in forms.items() if form is not None)

    def counted(self, stack: AskStack) -> DevicePluginForm | None:
        """Its form by limits under a stack."""
        return self.spec.bridge if stack is AskStack.BRIDGE else self.spec.device_plugin


def is_flavor(document: Document) -> bool:
    """Whether a document is a flavor, of whatever version."""
    return document.kind == KIND and document.api_version.partition("/")[0] == API_VERSION.partition("/")[0]


def read_flavors(documents: Iterable[Document]) -> Mapping[str, Flavor]:
    """The flavors among documents, by name. Raises `InputError` for one that is wrong, or that stands twice."""
    found: dict[str, Flavor] = {}
    for document in documents:
        if not is_flavor(document):
            continue
        flavor = _read(document)
        if flavor.name in found and found[flavor.name] != flavor:
            raise _wrong(document, "metadata.name", "it stands twice with different content", "remove one of the two")
        found[flavor.name] = flavor
    return found


def _read(document: Document) -> Flavor:
    if document.api_version != API_VERSION:
        raise _wrong(document, "apiVersion", f"{document.api_version} is not known", f"write {API_VERSION}")
    unknown = set(document.object) - {"apiVersion", "kind", "metadata", "spec", "status"}
    if unknown:
        raise _wrong(document, sorted(unknown)[0], "there is no such field", "remove it")
    try:
        spec = msgspec.convert(document.object.get("spec"), FlavorSpec)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        field = path.rstrip("`").replace("$", "spec", 1) if path else "spec"
        raise _wrong(document, field, text, "see docs/flavors.md") from None
    flavor = Flavor(document.name, spec)
    for field, what, fix in _faults(flavor):
        raise _wrong(document, field, what, fix)
    return flavor


def _wrong(document: Document, field: str, what: str, fix: str) -> InputError:
    return InputError(what, where=Where(document.where.file, document.where.line, document.title, field), fix=fix)


def _faults(flavor: Flavor) -> Iterable[tuple[str, str, str]]:
    spec = flavor.spec
    if not _NAME.fullmatch(flavor.name):
        yield "metadata.name", f"{flavor.name!r} is no name", "small letters, digits and dashes, at most 63"
    if not flavor.stacks:
        yield "spec", "it is written for no stack", "give devicePlugin, dra or bridge"
    for field, form in (("devicePlugin", spec.device_plugin), ("bridge", spec.bridge)):
        if form is not None and not form.resources:
            yield f"spec.{field}.resources", "it counts nothing", "name a resource"
        for item in form.resources if form is not None else ():
            if "/" not in item.name or item.count < 1:
                yield (
                    f"spec.{field}.resources",
                    f"{item.name}: {item.count} is no count of an extended resource",
                    ("write DOMAIN/NAME, and a count from 1"),
                )
    names = [item.name for item in spec.dra.requests] if spec.dra else []
    if spec.dra is not None and not names:
        yield "spec.dra.requests", "it asks for nothing", "give a request"
    if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        yield "spec.dra.requests", "names of requests are small letters, digits and dashes, each once", "rename one"
    if spec.dra is not None and any(item.count < 1 for item in spec.dra.requests):
        yield "spec.dra.requests", "a request asks for less than one device", "write a count from 1"
    yield from _choice_faults(flavor)


def _choice_faults(flavor: Flavor) -> Iterable[tuple[str, str, str]]:
    known = [stack.value for stack in flavor.stacks]
    wanted = [*(item.stack for item in flavor.spec.choose), *([flavor.spec.default] if flavor.spec.default else [])]
    for stack in wanted:
        if stack not in known:
            yield "spec.choose", f"it may choose {stack}, which it is not written for", f"one of {', '.join(known)}"
    for item in flavor.spec.choose:
        if item.kube_version and not _VERSION.fullmatch(item.kube_version):
            yield "spec.choose", f"{item.kube_version!r} is no condition on a version", 'write ">=1.34"'
    if len(known) > 1 and not flavor.spec.default:
        yield (
            "spec.default",
            "it is written for several stacks and says none for the rest",
            f"one of {', '.join(known)}",
        )


def version_holds(condition: str, minor: str) -> bool:
    """Whether a condition such as ">=1.34" holds for a minor."""
    found = _VERSION.fullmatch(condition)
    if found is None:
        raise InputError(f"{condition!r} is no condition on a version", fix='write ">=1.34"')
    left, right = (tuple(int(part) for part in text.split(".")) for text in (minor, found[2]))
    holds = {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}
    return holds.get(found[1] or "=", left == right)
