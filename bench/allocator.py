"""The allocator: many nodes, one node, and inputs that take the reference program (Go) long or for ever.

The peer's times are its own, without starting it and without reading objects. Ours are those of a fresh allocator on
decoded objects, with the selectors compiled, as the peer's are; "after another claim": the allocator has answered before,
as a scheduler's has.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Row
from regauge.allocator import Allocator, Selectors, selectors_of
from regauge.features import rules
from regauge.model import view
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice

ORACLE = Path(__file__).resolve().parent.parent / ".cache" / "oracles" / "allocator"
RULES = rules("1.37")
DRIVER = "gpu.example.com"
FEATURES = (
    "AdminAccess",
    "PrioritizedList",
    "PartitionableDevices",
    "DeviceTaints",
    "DeviceBindingAndStatus",
    "ConsumableCapacity",
)
MODELS = ("a100", "h100", "b200")
HAS_MODEL = f'device.attributes["{DRIVER}"].model in ["a100", "h100"]'
NEVER = f'device.attributes["{DRIVER}"].index > 100000'
ROUNDS, PATIENCE_MS = 3, 10_000
Object = dict[str, Any]


def device(index: int, node: str, chance: random.Random, **more: Any) -> Object:
    attributes = {
        "model": {"string": chance.choice(MODELS)},
        "index": {"int": index},
        "uuid": {"string": f"GPU-{chance.getrandbits(64):016x}"},
        "driverVersion": {"version": "1.2.3"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": f"{node}-{index // 4}"},
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def slice_of(name: str, devices: list[Object], pool: str, count: int, where: Object) -> Object:
    about = {"name": pool, "generation": 1, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": about, "devices": devices, **where}}


def request(name: str, count: int, expression: str = HAS_MODEL) -> Object:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {**asked, "selectors": [{"cel": {"expression": expression}}]}}


def claim(*requests: Object, **constraint: str) -> Object:
    devices = {"requests": list(requests), "constraints": [constraint] if constraint else []}
    return {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": devices}}


def case(slices: list[Object], claims: list[Object], nodes: list[str], used: list[Object] | None = None) -> Object:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "name": "bench",
        "features": dict.fromkeys(FEATURES, True),
        "classes": [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}],
        "slices": slices,
        "claims": claims,
        "nodes": [{"metadata": {"name": name, "labels": {"host": name}}} for name in nodes],
        "allocatedDevices": used or [],
    }


def many_nodes(count: int) -> Iterator[tuple[str, Object]]:
    """Nodes of eight devices, a third of them in use, asked in several ways."""
    chance = random.Random(count)
    names = [f"node-{number:05d}" for number in range(count)]
    devices = {name: [device(index, name, chance) for index in range(8)] for name in names}
    by_name = [slice_of(name, devices[name], name, 1, {"nodeName": name}) for name in names]
    used = [
        {"driver": DRIVER, "pool": name, "device": one["name"]}
        for name in names
        for one in devices[name]
        if chance.random() < 1 / 3
    ]
    root = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}
    uuid = devices[names[count // 2]][5]["attributes"]["uuid"]["string"]
    for wanted in (1, 4, 8):
        yield f"{count} nodes, claim of {wanted}", case(by_name, [claim(request("r", wanted))], names, used)
    yield f"{count} nodes, 2 at one root", case(by_name, [claim(request("r", 2), **root)], names, used)
    only = f'device.attributes["{DRIVER}"].uuid == "{uuid}"'
    yield f"{count} nodes, one UUID", case(by_name, [claim(request("r", 1, only))], names)
    if count <= 1000:
        selected = [slice_of(name, devices[name], name, 1, {"nodeSelector": _host(name)}) for name in names]
        yield f"{count} nodes by selector, claim of 1", case(selected, [claim(request("r", 1))], names)
    if count <= 300:
        spread = [slice_of(name, devices[name], "gpus", count, {"nodeName": name}) for name in names]
        yield f"{count} nodes of one pool, claim of 1", case(spread, [claim(request("r", 1))], names)


def _host(name: str) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": [name]}]}]}


def one_node() -> Iterator[tuple[str, Object]]:
    chance = random.Random(1)
    offered = slice_of("n", [device(index, "n", chance) for index in range(64)], "n", 1, {"nodeName": "n"})
    for wanted in (1, 8, 16):
        yield f"one node of 64, claim of {wanted}", case([offered], [claim(request("r", wanted))], ["n"])
    yield "one node of 64, nothing matches", case([offered], [claim(request("r", 1, NEVER))], ["n"])


def worst() -> Iterator[tuple[str, Object]]:
    """Inputs of `exponential` size for a search that does not know when to stop; nothing fits."""

    def asked(count: int, claims: list[Object], **attributes: int) -> Object:
        chance = random.Random(1)
        offered = [device(index, "n", chance) for index in range(count)]
        for one in offered:
            for name, values in attributes.items():
                number = int(one["name"].removeprefix("gpu-"))
                one["attributes"][name] = {"string": f"v{number % values}"}
            one["attributes"]["model"] = {"string": "h100"}
        made = case([slice_of("n", offered, "n", 1, {"nodeName": "n"})], claims, ["n"])
        return {**made, "name": "worst"}

    group = f"{DRIVER}/group"
    yield "17 of 16", asked(16, [claim(request("r", 17))])
    yield "25 of 24", asked(24, [claim(request("r", 25))])
    yield "17 of 32 in two halves", asked(32, [claim(request("r", 17), matchAttribute=group)], group=2)
    yield "9 different of 32 with 8 values", asked(32, [claim(request("r", 9), distinctAttribute=group)], group=8)
    six = [request(f"r{number}", 1) for number in range(6)]
    yield "6 requests on 16, then never", asked(16, [claim(*six, request("never", 1, NEVER))])
    yield "8 of 32, then never", asked(32, [claim(request("r", 8)), claim(request("never", 1, NEVER))])


class Ours:
    """Our side of a case: objects are decoded once, selectors compiled once."""

    def __init__(self, asked: Object) -> None:
        self.slices = [view(one, ResourceSlice) for one in asked["slices"]]
        self.classes = [view(one, DeviceClass) for one in asked["classes"]]
        self.claims = [view(one, ResourceClaim) for one in asked["claims"]]
        self.nodes = [view(one, Node) for one in asked["nodes"]]
        results = [{"request": "r", **one} for one in asked["allocatedDevices"]]
        status = {"allocation": {"devices": {"results": results}}}
        self.held = [view({"metadata": {"name": "held"}, "status": status}, ResourceClaim)]
        self.selectors: Selectors = selectors_of(RULES)

    def fresh(self) -> Allocator:
        return Allocator(
            self.slices, self.classes, self.held, RULES, randomness=random.Random(1), selectors=self.selectors
        )

    def measure(self) -> tuple[float, float]:
        """The median times of the first answer of an allocator, and of the same answer after another one, in seconds."""
        other = [view(claim(request("other", 3)), ResourceClaim)]
        first, later = [], []
        self.fresh().allocate_nodes(self.nodes[:1], self.claims)
        for _ in range(ROUNDS):
            first.append(self._timed(self.fresh()))
            allocator = self.fresh()
            allocator.allocate_nodes(self.nodes, other)
            later.append(self._timed(allocator))
        return statistics.median(first), statistics.median(later)

    def _timed(self, allocator: Allocator) -> float:
        start = time.perf_counter()
        allocator.allocate_nodes(self.nodes, self.claims)
        return time.perf_counter() - start


def peer_s(asked: Object) -> float | None:
    """The time of the reference program for all nodes, in seconds; None if it is not there.

    Selectors are compiled in the first of several rounds. A round that runs into the peer's patience is the only one.
    """
    if not ORACLE.exists():
        return None
    rounds = 1 if asked["name"] == "worst" else ROUNDS
    line = json.dumps({**asked, "repeat": rounds, "timeoutMillis": PATIENCE_MS * ROUNDS})
    done = subprocess.run([ORACLE], input=line + "\n", capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["micros"]) / 1e6


def run() -> Iterator[Row]:
    """Every case, with the peer's time where the peer is there. Where the peer gives up, its time is its patience."""
    for what, asked in [*one_node(), *many_nodes(100), *many_nodes(300), *many_nodes(1000), *worst()]:
        first_s, later_s = Ours(asked).measure()
        theirs_s = peer_s(asked)
        yield what, first_s, theirs_s
        if len(asked["nodes"]) >= 300:
            yield f"{what}, after another claim", later_s, theirs_s
