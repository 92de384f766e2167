"""The packaged tables: gates, extension table, versions, quirks. Decoded once, strictly."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TypeVar

import msgspec

T = TypeVar("T")

_PARTS_OF_MINOR = 2


class GateSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a gate is from one minor on. `stage`: alpha, beta, stable, deprecated."""

    since: str
    stage: str
    default: bool
    locked: bool


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feature gate. `gone`: the first minor without it; `now`: what holds there (on, off, or the gate to ask)."""

    specs: tuple[GateSpec, ...]
    depends_on: tuple[str, ...]
    source: str
    gone: str | None = None
    now: str | None = None


class GateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`gates`: those that bear on devices. `other`: names of gates that do not."""

    gates: dict[str, Gate]
    other: frozenset[str]


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the extension table. `planned`: stage to minor as the KEP foresees it; `announced`: posts that name it."""

    name: str
    title: str
    kep: int
    gates: tuple[str, ...]
    fields: tuple[str, ...]
    components: tuple[str, ...]
    planned: dict[str, str]
    remarks: tuple[str, ...]
    source: str
    announced: tuple[str, ...] = ()


class Quirk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A surprising behaviour: the first minor seen with it, the first one seen without it, and what shows it."""

    id: str
    since: str
    fixed_in: str | None
    what: str
    source: str
    shown_by: str


class KindSpan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind within one API version."""

    kind: str
    since: str
    gone: str | None


class ApiVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of an API group. `served`: without being asked for in the runtime config."""

    group: str
    version: str
    since: str
    gone: str | None
    served: bool
    kinds: tuple[KindSpan, ...]


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of a gRPC service between kubelet and plugins."""

    service: str
    version: str
    since: str
    gone: str | None


class AllocatorFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An allocator feature: on when all its gates are, and handed over by the scheduler from `since` on."""

    feature: str
    gates: tuple[str, ...]
    since: str


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One implementation of the allocator."""

    name: str
    supports: frozenset[str]


class VariantSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The implementations from one minor on, in the order in which upstream tries them."""

    since: str
    variants: tuple[Variant, ...]


class Versions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that depends on the minor and is not a gate."""

    minors: tuple[str, ...]
    default: str
    unmet_dependency_refused_since: str
    api: tuple[ApiVersion, ...]
    services: tuple[Service, ...]
    allocator_features: tuple[AllocatorFeature, ...]
    allocator_variants: tuple[VariantSet, ...]
    sources: dict[str, str]


def number(version: str) -> tuple[int, ...]:
    """A minor such as "1.36", or a patch of it such as "1.36.4", as numbers, for comparing."""
    return tuple(int(part) for part in version.split("."))


def holds(version: str, since: str, gone: str | None) -> bool:
    """Whether `version` lies in the span from `since` up to, not including, `gone`.

    A minor alone is its newest patch: what one of its patches mended is gone in it.
    """
    asked = number(version)
    if len(asked) == _PARTS_OF_MINOR and gone is not None and number(gone)[:_PARTS_OF_MINOR] == asked:
        return False
    return number(since) <= asked and (gone is None or asked < number(gone))


def _read(name: str, kind: type[T]) -> T:
    return msgspec.json.decode((files("regauge.features") / "data" / name).read_bytes(), type=kind)


@cache
def gate_table() -> GateTable:
    """All gates."""
    return _read("gates.json", GateTable)


@cache
def versions() -> Versions:
    """API versions, services, allocator inputs."""
    return _read("versions.json", Versions)


@cache
def feature_table() -> tuple[Feature, ...]:
    """The extension table."""
    return _read("features.json", tuple[Feature, ...])


@cache
def quirk_table() -> tuple[Quirk, ...]:
    """All quirks, sorted by id."""
    return _read("quirks.json", tuple[Quirk, ...])
