#!/usr/bin/env python3
"""Scale and worst-case inputs. usage: scale_cases.py [group ...] > cases.jsonl (groups: single nodes onepool backtrack)"""

# ruff: noqa: E501  (CEL expressions read better on one line)
import json
import sys

GPU = "gpu.example.com"
FEATS = dict.fromkeys(
    [
        "AdminAccess",
        "PrioritizedList",
        "PartitionableDevices",
        "DeviceTaints",
        "DeviceBindingAndStatus",
        "ConsumableCapacity",
    ],
    True,
)


def dev(i, group=None, **kw):
    a = {"model": {"string": "h100" if i % 2 else "a100"}, "index": {"int": i}, "driverVersion": {"version": "1.2.3"}}
    if group is not None:
        a["group"] = {"string": group}
    return {"name": f"gpu-{i}", "attributes": a, "capacity": {"memory": {"value": "80Gi"}}, **kw}


def slc(node, devices, name=None, count=1, pool=None, **spec):
    return {
        "metadata": {"name": name or f"{node}-slice"},
        "spec": {
            "driver": GPU,
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": count},
            "nodeName": node,
            "devices": devices,
            **spec,
        },
    }


def node(n):
    return {"metadata": {"name": n}}


CLASSES = [{"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]}}]
CEL = f'device.attributes["{GPU}"].model in ["a100", "h100"] && device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0 && device.attributes["{GPU}"].driverVersion.compareTo(semver("1.0.0")) >= 0'
NEVER = f'device.attributes["{GPU}"].index > 100000'


def req(name, count, cel=CEL, **kw):
    e = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **kw}
    if cel:
        e["selectors"] = [{"cel": {"expression": cel}}]
    return {"name": name, "exactly": e}


def claim(name, reqs, constraints=None):
    d = {"requests": reqs}
    if constraints:
        d["constraints"] = constraints
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": d}}


def case(name, slices, claims, nodes=None, repeat=5, **kw):
    c = {
        "name": name,
        "features": FEATS,
        "classes": CLASSES,
        "slices": slices,
        "claims": claims,
        "repeat": repeat,
        "variant": "auto",
    }
    c.update({"nodes": [node(n) for n in nodes]} if nodes else {"node": node("node-a")})
    c.update(kw)
    return c


def single():
    for n in (8, 16, 32, 64):
        for k in (1, 2, 4, 8, 16):
            if k <= n:
                yield case(
                    f"single-{n}dev-claim{k}",
                    [slc("node-a", [dev(i) for i in range(n)])],
                    [claim("c", [req("r", k)])],
                    repeat=21,
                )
    yield case(
        "single-64dev-lastmatches",
        [slc("node-a", [dev(i) for i in range(64)])],
        [claim("c", [req("r", 1, f'device.attributes["{GPU}"].index == 63')])],
        repeat=21,
    )
    yield case(
        "single-64dev-nomatch",
        [slc("node-a", [dev(i) for i in range(64)])],
        [claim("c", [req("r", 1, NEVER)])],
        repeat=21,
    )
    yield case(
        "single-16dev-all",
        [slc("node-a", [dev(i) for i in range(16)])],
        [claim("c", [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}])],
        repeat=21,
    )
    yield case(
        "single-64dev-8claims",
        [slc("node-a", [dev(i) for i in range(64)])],
        [claim(f"c{i}", [req("r", 1)]) for i in range(8)],
        repeat=21,
    )


def nodes():
    for n in (100, 1000, 5000):
        names = [f"node-{i:05d}" for i in range(n)]
        slices = [slc(x, [dev(i) for i in range(8)]) for x in names]
        used_all = [{"driver": GPU, "pool": x, "device": f"gpu-{i}"} for x in names for i in range(8)]
        yield case(f"nodes-{n}-claim1", slices, [claim("c", [req("r", 1)])], nodes=names, repeat=3)
        yield case(f"nodes-{n}-claim8", slices, [claim("c", [req("r", 8)])], nodes=names, repeat=3)
        yield case(
            f"nodes-{n}-full", slices, [claim("c", [req("r", 1)])], nodes=names, repeat=3, allocatedDevices=used_all
        )
        yield case(f"nodes-{n}-nomatch", slices, [claim("c", [req("r", 1, NEVER)])], nodes=names, repeat=3)
        yield case(f"nodes-{n}-claim1-nocel", slices, [claim("c", [req("r", 1, None)])], nodes=names, repeat=3)
        if n <= 1000:  # all slices network attached with a selector: every node must look at every slice
            sel = [
                {
                    "metadata": {"name": f"s-{x}"},
                    "spec": {
                        "driver": GPU,
                        "pool": {"name": x, "generation": 1, "resourceSliceCount": 1},
                        "nodeSelector": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [x]}]}
                            ]
                        },
                        "devices": [dev(i) for i in range(8)],
                    },
                }
                for x in names
            ]
            yield case(f"nodes-{n}-claim1-selectorslices", sel, [claim("c", [req("r", 1)])], nodes=names, repeat=1)


def onepool():
    """one pool whose slices are spread over all nodes: every node converts every other node's slice"""
    for n in (100, 300, 1000):
        names = [f"node-{i:05d}" for i in range(n)]
        yield case(
            f"onepool-{n}nodes-claim1",
            [slc(x, [dev(i) for i in range(8)], pool="gpus", count=n) for x in names],
            [claim("c", [req("r", 1)])],
            nodes=names,
            repeat=1,
        )


def backtrack():
    match = [{"matchAttribute": f"{GPU}/group"}]
    # a) count k of n, two groups of n/2, none large enough -> search inside groups (C(n/2, i) each)
    for n, k in ((12, 7), (16, 9), (20, 11), (24, 13), (28, 15), (32, 17)):
        yield case(
            f"bt-twogroups-{n}dev-count{k}",
            [slc("node-a", [dev(i, "ab"[i % 2]) for i in range(n)])],
            [claim("c", [req("r", k)], match)],
            repeat=1,
        )
    # b) 8 of 16 with group sizes 7/7/2
    g = ["a"] * 7 + ["b"] * 7 + ["c"] * 2
    yield case(
        "bt-8of16-groups772",
        [slc("node-a", [dev(i, g[i]) for i in range(16)])],
        [claim("c", [req("r", 8)], match)],
        repeat=5,
    )
    # c) last request cannot be satisfied: earlier requests permute (P(n, m))
    for n, m in ((8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (16, 4), (16, 5), (16, 6)):
        yield case(
            f"bt-requests-{n}dev-{m}req+never",
            [slc("node-a", [dev(i) for i in range(n)])],
            [claim("c", [req(f"r{i}", 1) for i in range(m)] + [req("never", 1, NEVER)])],
            repeat=1,
        )
    # d) n+1 requests for n devices
    for n in (4, 6, 7, 8, 9):
        yield case(
            f"bt-requests-{n}dev-{n + 1}req",
            [slc("node-a", [dev(i) for i in range(n)])],
            [claim("c", [req(f"r{i}", 1) for i in range(n + 1)])],
            repeat=1,
        )
    # e) count k of n then an impossible claim: combinations C(n, k)
    for n, k in ((8, 4), (16, 4), (16, 8), (20, 10), (24, 8), (24, 12), (32, 8)):
        yield case(
            f"bt-comb-{n}dev-count{k}-then-never",
            [slc("node-a", [dev(i) for i in range(n)])],
            [claim("c", [req("r", k)]), claim("d", [req("never", 1, NEVER)])],
            repeat=1,
        )
    # f) more than available: count n+1 of n
    for n in (8, 16, 20, 22, 24):
        yield case(
            f"bt-count{n + 1}-of-{n}",
            [slc("node-a", [dev(i) for i in range(n)])],
            [claim("c", [req("r", n + 1)])],
            repeat=1,
        )
    # g) distinctAttribute with too few values: 4 values on 32 devices, 5 wanted
    for n, v in ((16, 4), (32, 4), (24, 6), (32, 6), (32, 8)):
        yield case(
            f"bt-distinct-{n}dev-{v}values-count{v + 1}",
            [slc("node-a", [dev(i, f"g{i % v}") for i in range(n)])],
            [claim("c", [req("r", v + 1)], [{"distinctAttribute": f"{GPU}/group"}])],
            repeat=1,
        )
    # h) firstAvailable: q requests with s alternatives each, then an impossible request
    for q, s in ((2, 4), (3, 4), (4, 4), (3, 8)):
        reqs = [
            {
                "name": f"r{i}",
                "firstAvailable": [
                    {
                        "name": f"s{j}",
                        "deviceClassName": "gpu",
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "selectors": [{"cel": {"expression": CEL}}],
                    }
                    for j in range(s)
                ],
            }
            for i in range(q)
        ]
        yield case(
            f"bt-first-{q}req-{s}alt-8dev",
            [slc("node-a", [dev(i) for i in range(8)])],
            [claim("c", [*reqs, req("never", 1, NEVER)])],
            repeat=1,
        )
    # i) shared counters (MIG like): 8 GPUs x 7 one-slot partitions, counters allow only 4 per GPU, 33rd cannot fit
    for gpus, want in ((1, 5), (2, 9), (3, 13), (4, 17)):
        cs = [{"name": f"g{g}", "counters": {"slots": {"value": "4"}}} for g in range(gpus)]
        d = [
            dev(g * 7 + j, consumesCounters=[{"counterSet": f"g{g}", "counters": {"slots": {"value": "1"}}}])
            for g in range(gpus)
            for j in range(7)
        ]
        s = [
            slc("node-a", d, name="devs", count=2),
            {
                "metadata": {"name": "counters"},
                "spec": {
                    "driver": GPU,
                    "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 2},
                    "nodeName": "node-a",
                    "sharedCounters": cs,
                },
            },
        ]
        yield case(f"bt-counters-{gpus}gpu-want{want}", s, [claim("c", [req("r", want)])], repeat=1)
    # j) consumable capacity: 4 devices, shares; the last request too big
    for n, m in ((2, 6), (4, 5), (4, 6), (4, 8)):
        d = [{**dev(i), "allowMultipleAllocations": True} for i in range(n)]
        for x in d:
            x["capacity"]["memory"]["requestPolicy"] = {"default": "1Gi"}
        yield case(
            f"bt-shares-{n}dev-{m}req+never",
            [slc("node-a", d)],
            [
                claim(
                    "c",
                    [req(f"r{i}", 1, capacity={"requests": {"memory": "1Gi"}}) for i in range(m)]
                    + [req("never", 1, NEVER)],
                )
            ],
            repeat=1,
        )


if __name__ == "__main__":
    for g in sys.argv[1:] or ["single", "nodes", "onepool", "backtrack"]:
        for c in {"single": single, "nodes": nodes, "backtrack": backtrack, "onepool": onepool}[g]():
            print(json.dumps(c, separators=(",", ":")))
