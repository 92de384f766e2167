"""What the allocator's benchmarks and tests ask: cases in the reference program's format."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

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
GROUP = f"{DRIVER}/group"
Object = dict[str, Any]


def device(index: int, node: str, chance: random.Random, **more: Any) -> Object:
    """A device with its own UUID and PCI address; four share a PCIe root."""
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
    return {"name": name, "exactly": _exactly(count, expression)}


def _exactly(count: int, expression: str) -> Object:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {**asked, "selectors": [{"cel": {"expression": expression}}]}


def claim(*requests: Object, name: str = "c", **constraint: str) -> Object:
    devices = {"requests": list(requests), "constraints": [constraint] if constraint else []}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"devices": devices}}


def case(slices: list[Object], claims: list[Object], nodes: Sequence[str], used: Sequence[Object] = ()) -> Object:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {
        "name": "bench",
        "features": dict.fromkeys(FEATURES, True),
        "classes": [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}],
        "slices": slices,
        "claims": claims,
        "nodes": [{"metadata": {"name": name, "labels": {"host": name}}} for name in nodes],
        "allocatedDevices": list(used),
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
    for wanted in (1, 4, 8):
        yield f"claim of {wanted}", case(by_name, [claim(request("r", wanted))], names, used)
    root = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}
    yield "2 at one PCIe root", case(by_name, [claim(request("r", 2), **root)], names, used)
    uuid = devices[names[count // 2]][5]["attributes"]["uuid"]["string"]
    only = f'device.attributes["{DRIVER}"].uuid == "{uuid}"'
    yield "one UUID", case(by_name, [claim(request("r", 1, only))], names)
    selected = [slice_of(name, devices[name], name, 1, {"nodeSelector": _host(name)}) for name in names]
    yield "nodes by selector", case(selected, [claim(request("r", 1))], names)
    spread = [slice_of(name, devices[name], "gpus", count, {"nodeName": name}) for name in names]
    yield "one pool of all nodes", case(spread, [claim(request("r", 1))], names)


def _host(name: str) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": [name]}]}]}


def one_node() -> Iterator[tuple[str, Object]]:
    chance = random.Random(1)
    offered = [slice_of("n", [device(index, "n", chance) for index in range(64)], "n", 1, {"nodeName": "n"})]
    for wanted in (1, 8, 16):
        yield f"claim of {wanted} of 64", case(offered, [claim(request("r", wanted))], ["n"])
    yield "none of 64 matches", case(offered, [claim(request("r", 1, NEVER))], ["n"])


def _asked(count: int, *claims: Object, groups: Sequence[int] = (), **more: Any) -> Object:
    """Equal devices on one node; `groups` says in turn which group each belongs to."""
    chance = random.Random(1)
    offered = [device(index, "n", chance, **more) for index in range(count)]
    for index, one in enumerate(offered):
        one["attributes"]["model"] = {"string": "h100"}
        if groups:
            one["attributes"]["group"] = {"string": f"g{groups[index % len(groups)]}"}
    return case([slice_of("n", offered, "n", 1, {"nodeName": "n"})], list(claims), ["n"])


def _singles(count: int, *more: Object) -> Object:
    return claim(*(request(f"r{number}", 1) for number in range(count)), *more)


def _partitions(gpus: int) -> Object:
    """Seven partitions a GPU, of which its counter allows four; one more is wanted than can be."""
    made = _asked(7 * gpus, claim(request("r", 4 * gpus + 1)))
    for index, one in enumerate(made["slices"][0]["spec"]["devices"]):
        counters = {"slots": {"value": "1"}}
        one["consumesCounters"] = [{"counterSet": f"gpu-{index // 7}", "counters": counters}]
    sets = [{"name": f"gpu-{gpu}", "counters": {"slots": {"value": "4"}}} for gpu in range(gpus)]
    counting = slice_of("counters", [], "n", 2, {"nodeName": "n", "sharedCounters": sets})
    del counting["spec"]["devices"]
    made["slices"][0]["spec"]["pool"]["resourceSliceCount"] = 2
    made["slices"].append(counting)
    return made


def _shares() -> Object:
    made = _asked(4, _singles(8, request("never", 1, NEVER)), allowMultipleAllocations=True)
    for one in made["slices"][0]["spec"]["devices"]:
        one["capacity"]["memory"]["requestPolicy"] = {"default": "1Gi"}
    return made


def _prioritized(requests: int, alternatives: int) -> Object:
    several = [{"name": f"s{number}", **_exactly(1, HAS_MODEL)} for number in range(alternatives)]
    asked = [{"name": f"r{number}", "firstAvailable": several} for number in range(requests)]
    return _asked(8, claim(*asked, request("never", 1, NEVER)))


def worst() -> Iterator[tuple[str, Object]]:
    """Inputs of exponential size for a search that does not know when to stop: nothing fits in any of them."""
    never = request("never", 1, NEVER)
    for count in (8, 16, 20, 24):
        yield f"{count + 1} of {count}", _asked(count, claim(request("r", count + 1)))
    for count in (16, 24, 28, 32):
        asked = claim(request("r", count // 2 + 1), matchAttribute=GROUP)
        yield f"{count // 2 + 1} equal of {count} in two groups", _asked(count, asked, groups=(0, 1))
    asked = claim(request("r", 8), matchAttribute=GROUP)
    yield "8 equal of 16 in groups of 7, 7 and 2", _asked(16, asked, groups=(0,) * 7 + (1,) * 7 + (2,) * 2)
    for count, singles in ((8, 5), (8, 6), (8, 7), (16, 4), (16, 5), (16, 6)):
        yield f"{singles} requests on {count}, then never", _asked(count, _singles(singles, never))
    for count in (6, 8, 9):
        yield f"{count + 1} requests on {count}", _asked(count, _singles(count + 1))
    for wanted, count in ((4, 16), (8, 16), (10, 20), (8, 24), (8, 32)):
        second = claim(never, name="d")
        yield f"{wanted} of {count}, then another claim never", _asked(count, claim(request("r", wanted)), second)
    for values in (4, 6, 8):
        asked = claim(request("r", values + 1), distinctAttribute=GROUP)
        yield f"{values + 1} different of 32 with {values} values", _asked(32, asked, groups=range(values))
    for requests, alternatives in ((3, 4), (4, 4), (3, 8)):
        yield f"{requests} requests of {alternatives} alternatives, then never", _prioritized(requests, alternatives)
    for gpus in (2, 3, 4):
        yield f"{4 * gpus + 1} partitions of {gpus} GPUs for {4 * gpus}", _partitions(gpus)
    yield "8 shares of 4 devices, then never", _shares()
    for what, made in (
        ("9 of 8", _asked(8, claim(request("r", 9)))),
        ("17 of 16", _asked(16, claim(request("r", 17)))),
        ("9 equal of 16 in two groups", _asked(16, claim(request("r", 9), matchAttribute=GROUP), groups=(0, 1))),
    ):
        yield f"{what}, implementation `stable`", {**made, "variant": "stable", "features": {}}
