"""The tables of who serves devices and of what can be asked for: drivers, device plugins, device classes. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from regauge.audit import Ground
from regauge.model.kinds import RESOURCE_SLICE
from regauge.model.resource import DeviceClass, ResourceSlice
from regauge.observe.advancing import class_label
from regauge.observe.dashboard.looking import Look
from regauge.observe.dashboard.tables import Row, Table
from regauge.observe.families_claims import state_of
from regauge.observe.families_slices import written_s

MOST_NAMES = 6


def supply_tables(ground: Ground, look: Look) -> dict[str, Table]:
    """The tables `drivers` (by DRIVER, or by the RESOURCE of a device plugin) and `classes`."""
    return {"drivers": {**_drivers(ground), **_plugins(look)}, "classes": _classes(ground, look)}


@dataclass(slots=True)
class _Driver:
    slices: int = 0
    outdated: int = 0
    devices: int = 0
    written_s: float = 0.0
    nodes: set[str] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)
    said: dict[str, int] = field(default_factory=dict)

    def take(self, one: ResourceSlice) -> None:
        """A slice of the newest generation of its pool."""
        pool = one.spec.pool
        self.slices += 1
        self.devices += len(one.spec.devices)
        self.seen[pool.name] += 1
        self.said.setdefault(pool.name, pool.resource_slice_count)
        self.nodes |= {device.node_name or one.spec.node_name or "" for device in one.spec.devices} - {""}

    def row(self) -> Row:
        incomplete = sorted(pool for pool, count in self.seen.items() if count != self.said[pool])
        optional: dict[str, Any] = {
            "outdated": self.outdated,
            "incomplete": incomplete[:MOST_NAMES],
            "incompleteCount": len(incomplete),
            "writtenS": int(self.written_s),
        }
        told = {name: value for name, value in optional.items() if value}
        counts = {"slices": self.slices, "pools": len(self.seen), "nodes": len(self.nodes), "devices": self.devices}
        return {"stack": "dra", **counts, **told}


def _drivers(ground: Ground) -> Table:
    found: dict[str, _Driver] = defaultdict(_Driver)
    newest = {id(one) for one in ground.newest}
    for document, one in ground.pairs(RESOURCE_SLICE, ResourceSlice):
        driver = found[one.spec.driver]
        if id(one) not in newest:
            driver.outdated += 1
            continue
        driver.take(one)
        driver.written_s = max(driver.written_s, written_s(document) or 0.0)
    return {name: driver.row() for name, driver in sorted(found.items())}


def _plugins(look: Look) -> Table:
    """Device plugins, by what their nodes count; a name that DRA serves alone is counted nowhere."""
    nodes: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in look.inventory.counted:
        if one.capacity:
            nodes[one.resource_name].add(one.node)
            counts[one.resource_name].update(
                devices=one.capacity, unhealthy=max(one.capacity - one.allocatable, 0), asked=one.requested
            )
    return {
        name: {"stack": "plugin", "nodes": len(nodes[name]), **{what: count for what, count in told.items() if count}}
        for name, told in sorted(counts.items())
    }


def _classes(ground: Ground, look: Look) -> Table:
    states: dict[str, Counter[str]] = defaultdict(Counter)
    for _, claim in ground.claims:
        states[class_label(claim)][state_of(claim)] += 1
    held = {"/".join(key) for key, rows in look.held.items() if any(not one.admin_access for one in rows)}
    found: dict[str, Row] = {}
    for _, one in ground.classes:
        found[one.metadata.name] = _class(one, ground, held, states)
    several = states.get("several")
    return found | ({"(several classes)": {"claims": dict(several)}} if several else {})


def _class(one: DeviceClass, ground: Ground, held: set[str], states: dict[str, Counter[str]]) -> Row:
    selected = ground.matched(one)
    row: dict[str, Any] = {
        "devices": len(selected.devices),
        "free": sum(name not in held for name, _ in selected.devices),
        "claims": dict(states.get(one.metadata.name, {})),
        "failing": len(selected.failing),
        "resource": one.spec.extended_resource_name or "",
        "broken": not selected.compiles,
    }
    return {name: value for name, value in row.items() if value or name in ("devices", "free")}
