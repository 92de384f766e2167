"""Small objects for tests, as views."""

from __future__ import annotations

import random
from typing import Any

from regauge.allocator import Allocator, Usage
from regauge.features import rules
from regauge.model import view
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from regauge.model.rules import Rules

DRIVER = "gpu.example.com"
RULES = rules("1.36")


def node(name: str, **labels: str) -> Node:
    return view({"metadata": {"name": name, "labels": labels}}, Node)


def device_class(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"') -> DeviceClass:
    return view({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}, DeviceClass)


def device(name: str, **attributes: Any) -> dict[str, Any]:
    kinds = {int: "int", str: "string", bool: "bool"}
    values = {key: {kinds[type(value)]: value} for key, value in attributes.items()}
    return {"name": name, "attributes": values, "capacity": {"memory": {"value": "80Gi"}}}


def slice_of(
    name: str, devices: list[dict[str, Any]], count: int = 1, generation: int = 1, **more: Any
) -> ResourceSlice:
    """A slice of the pool and node `name`, unless `pool` or a node selection says otherwise."""
    pool = {"name": more.pop("pool", name), "generation": generation, "resourceSliceCount": count}
    where = {} if {"nodeSelector", "allNodes"} & set(more) else {"nodeName": more.pop("node", name)}
    spec = {"driver": DRIVER, "pool": pool, "devices": devices, **where, **more}
    return view({"metadata": {"name": more.get("object", name)}, "spec": spec}, ResourceSlice)


def request(name: str = "r", count: int | None = 1, expression: str | None = None, **more: Any) -> dict[str, Any]:
    """A request; `count` None asks for all."""
    asked: dict[str, Any] = {
        "deviceClassName": "gpu",
        "allocationMode": "All" if count is None else "ExactCount",
        **more,
    }
    if count is not None:
        asked["count"] = count
    if expression:
        asked["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": asked}


def claim(name: str, *requests: dict[str, Any], constraints: list[dict[str, Any]] | None = None) -> ResourceClaim:
    devices = {"requests": list(requests), "constraints": constraints or []}
    return view({"metadata": {"name": name, "namespace": "team"}, "spec": {"devices": devices}}, ResourceClaim)


def allocated(name: str, *devices: tuple[str, str], **more: Any) -> ResourceClaim:
    """A claim that holds devices, each given by pool and name."""
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": one, **more} for pool, one in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return view({"metadata": {"name": name, "namespace": "team"}, "status": status}, ResourceClaim)


def allocator(
    slices: list[ResourceSlice], usage: Usage | list[ResourceClaim] | None = None, rules: Rules = RULES
) -> Allocator:
    return Allocator(slices, [device_class()], usage if usage is not None else [], rules, randomness=random.Random(1))
