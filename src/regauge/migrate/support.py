"""What of DRA's features is there with each driver: the version has it, the gate is on, and the driver shows it. Pure.

That a driver does something is only said where its objects show it; that nothing shows it is no proof that it could not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from regauge.features import FeatureRow, feature_rows
from regauge.inventory import newest_slices
from regauge.migrate.plan_sources import driver_source, images_of
from regauge.model import Rules, Snapshot
from regauge.model.resource import Device, ResourceClaim, ResourceSlice


class Supported(StrEnum):
    """yes: everything that it takes is there. not-shown: version and gate are, and nothing of the driver shows it."""

    YES = "yes"
    GATE_OFF = "gate off"
    NOT_THERE = "not in this version"
    NOT_SHOWN = "not shown by the driver"


@dataclass(frozen=True, slots=True)
class Support:
    """One feature with one driver. `stage` is the gate's in this minor, in words; `evidence` what the answer rests on."""

    feature: str
    gate: str
    stage: str
    answer: Supported
    evidence: str


@dataclass(frozen=True, slots=True)
class DriverSupport:
    """A driver that publishes devices: the images that serve it (empty: not seen), and every feature."""

    driver: str
    images: tuple[str, ...]
    devices: int
    features: tuple[Support, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    """Everything in the cluster that is of one driver."""

    slices: tuple[ResourceSlice, ...]
    devices: tuple[Device, ...]
    claims: tuple[ResourceClaim, ...]


def driver_support(snapshot: Snapshot, rules: Rules) -> tuple[DriverSupport, ...]:
    """Every driver that publishes slices, in the order of their names."""
    newest = tuple(newest_slices(snapshot.slices))
    claims = tuple(snapshot.claims)
    found = []
    for driver in sorted({slice_.spec.driver for slice_ in newest}):
        own = tuple(slice_ for slice_ in newest if slice_.spec.driver == driver)
        theirs = tuple(claim for claim in claims if any(one.driver == driver for one in claim.status.devices))
        shown = _Shown(own, tuple(device for slice_ in own for device in slice_.spec.devices), theirs)
        source = driver_source(driver, snapshot, {})
        images = images_of(source.document) if source.document is not None else ()
        found.append(DriverSupport(driver, images, len(shown.devices), tuple(_features(shown, rules))))
    return tuple(found)


def _features(shown: _Shown, rules: Rules) -> Iterator[Support]:
    for row in feature_rows(rules.minor):
        if row.gate is not None and row.feature in (*_SIGNS, *_WITHOUT_DRIVER) and _first_gate(row):
            yield _support(row, row.gate, shown, rules)


def _first_gate(row: FeatureRow) -> bool:
    return next(one.gate for one in feature_rows() if one.feature == row.feature) == row.gate


def _support(row: FeatureRow, gate: str, shown: _Shown, rules: Rules) -> Support:
    stage = row.stages[rules.minor]
    told = "-" if stage is None else f"{stage.stage}{' locked' if stage.locked else ''}"
    if stage is None:
        answer, evidence = Supported.NOT_THERE, f"{gate} is not in {rules.minor}"
    elif not rules.on(gate):
        answer, evidence = Supported.GATE_OFF, f"{gate} is off"
    elif row.feature in _WITHOUT_DRIVER:
        answer, evidence = Supported.YES, f"{gate} is on, and it takes nothing of a driver"
    else:
        count, what = _SIGNS[row.feature](shown)
        answer = Supported.YES if count else Supported.NOT_SHOWN
        evidence = f"{count} {what}" if count else f"nothing that it publishes shows it: no {what}"
    return Support(row.feature, gate, told, answer, evidence)


def _count(values: Iterable[object]) -> int:
    return sum(bool(value) for value in values)


def _lists(device: Device) -> bool:
    return any(
        one.int_values or one.bool_values or one.string_values or one.version_values
        for one in device.attributes.values()
    )


# Features that the control plane has by itself.
_WITHOUT_DRIVER = ("core", "admin-access", "prioritized-list", "extended-resource", "workload-claims")
# Features that a driver has to use, by what shows that it does.
_SIGNS: Mapping[str, Callable[[_Shown], tuple[int, str]]] = {
    "taints": lambda shown: (_count(one.taints for one in shown.devices), "devices with taints of the driver"),
    "partitionable": lambda shown: (
        _count(one.consumes_counters for one in shown.devices),
        "devices that use counters",
    ),
    "consumable-capacity": lambda shown: (
        _count(one.allow_multiple_allocations for one in shown.devices),
        "devices that allow several allocations",
    ),
    "binding-conditions": lambda shown: (
        _count(one.binding_conditions for one in shown.devices),
        "devices with binding conditions",
    ),
    "node-allocatable": lambda shown: (
        _count(one.node_allocatable_resources or one.node_allocatable_resource_mappings for one in shown.devices),
        "devices that stand for resources of the node",
    ),
    "list-attributes": lambda shown: (_count(map(_lists, shown.devices)), "devices with attributes that are lists"),
    "optional-node-ops": lambda shown: (
        _count(one.spec.skip_node_operations for one in shown.slices),
        "slices that skip operations on the node",
    ),
    "claim-device-status": lambda shown: (len(shown.claims), "claims with a status of the driver's devices"),
}
