#!/usr/bin/env python3
"""Random DRA allocation cases as JSON lines (seedable).

usage: gen.py [--seed 1] [--count 2000] > random_cases.jsonl

Every case has "tags" (what was put in) so that coverage can be counted.
Objects are meant to be what the API server would store; the tag "bad-*" marks
the deliberate exceptions.
"""

# ruff: noqa: E501  (CEL expressions read better on one line)
import argparse
import json
import random

GPU, NIC = "gpu.example.com", "nic.example.com"
DRIVERS = [GPU, NIC]
MODELS = ["a100", "h100", "l4"]
# default gates of kube-scheduler 1.36/1.37 -> "incubating"
DEFAULT = [
    "AdminAccess",
    "PrioritizedList",
    "PartitionableDevices",
    "DeviceTaints",
    "DeviceBindingAndStatus",
    "ConsumableCapacity",
]
STABLE = ["AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints"]
ALL = [
    *DEFAULT,
    "FractionalCapacityRange",
    "ListTypeAttributes",
    "OptionalNodeOperations",
    "DerivedAttributes",
    "CompatibilityGroups",
]
THEMES = [
    "plain",
    "cel",
    "match",
    "distinct",
    "all",
    "admin",
    "first",
    "taints",
    "partition",
    "consumable",
    "binding",
    "pernode",
    "pools",
    "allocated",
    "config",
    "lists",
    "derived",
    "groups",
    "skipops",
    "backtrack",
]
NEEDS = {
    "admin": ["AdminAccess"],
    "first": ["PrioritizedList"],
    "taints": ["DeviceTaints"],
    "partition": ["PartitionableDevices"],
    "pernode": ["PartitionableDevices"],
    "consumable": ["ConsumableCapacity"],
    "binding": ["DeviceBindingAndStatus"],
    "lists": ["ListTypeAttributes"],
    "derived": ["DerivedAttributes"],
    "groups": ["PartitionableDevices", "CompatibilityGroups"],
    "skipops": ["OptionalNodeOperations"],
    "distinct": ["ConsumableCapacity"],
}


class Gen:
    def __init__(self, rnd, name):
        self.r, self.name, self.tags = rnd, name, set()

    def p(self, x):
        return self.r.random() < x

    def tag(self, *t):
        self.tags.update(t)

    def case(self):
        r = self.r
        # one to three themes, so that features meet each other
        self.themes = set(r.sample(THEMES, r.choice([1, 1, 2, 2, 3])))
        if "groups" in self.themes:
            self.themes.add("partition")
        # match and distinct are easier to satisfy when there is something to choose from
        self.tag(*self.themes)
        need = {f for t in self.themes for f in NEEDS.get(t, [])}
        if need <= set(STABLE) and self.p(0.25):
            feats = set(STABLE)
            self.tag("gates-stable")
        elif need <= set(DEFAULT) and self.p(0.7):
            feats = set(DEFAULT)
            self.tag("gates-default")
        else:
            feats = set(ALL) if self.p(0.6) else set(DEFAULT) | need
            self.tag("gates-alpha")
        if self.p(0.3):
            feats.add("FractionalCapacityRange")
        if need and self.p(0.08):
            feats -= {r.choice(sorted(need))}
            self.tag("gate-off")
        self.feats = feats
        self.drivers = [GPU] if self.p(0.6) else DRIVERS
        node = {"metadata": {"name": "node-a", "labels": {"zone": "z1" if r.random() < 0.9 else "z2", "rack": "r1"}}}
        if "skipops" in self.themes and self.p(0.75):
            node["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
        slices = self.make_slices()
        if not self.devs:
            return self.case()
        classes = self.make_classes()
        claims = [
            self.make_claim(i)
            for i in range(r.choice([1, 1, 1, 2]) if "backtrack" not in self.themes else r.choice([1, 1, 2]))
        ]
        c = {
            "name": self.name,
            "features": dict.fromkeys(sorted(feats), True),
            "node": node,
            "claims": claims,
            "classes": classes,
            "slices": slices,
            "tags": None,
            "variant": "auto",
        }
        self.make_state(c)
        self.maybe_break(c)
        c["tags"] = sorted(self.tags)
        return c

    # ---- inventory
    def make_slices(self):
        r = self.r
        self.devs, slices = [], []
        for driver in self.drivers:
            npools = r.choice([1, 1, 2]) + (1 if "pools" in self.themes else 0)
            pool_names = r.sample(["node-a", "pool-x", "pool-b", "a-pool"], npools)
            for pool in pool_names:
                slices += self.make_pool(driver, pool)
        r.shuffle(slices)
        return slices

    def node_selection(self):
        r = self.r
        k = r.choice(["nodeName"] * 8 + ["allNodes"] * 4 + ["selector"] * 4 + ["otherNode", "otherSelector"])
        self.tag("sel-" + k)
        if k == "nodeName":
            return {"nodeName": "node-a"}
        if k == "otherNode":
            return {"nodeName": "node-b"}
        if k == "allNodes":
            return {"allNodes": True}
        exprs = [{"key": "zone", "operator": "In", "values": ["z1"] if k == "selector" else ["z9"]}]
        if self.p(0.3):
            exprs.append(
                r.choice(
                    [
                        {"key": "rack", "operator": "Exists"},
                        {"key": "gone", "operator": "DoesNotExist"},
                        {"key": "rack", "operator": "NotIn", "values": ["r7"]},
                    ]
                )
            )
        term = {"matchExpressions": exprs}
        if self.p(0.15):
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]
        return {"nodeSelector": {"nodeSelectorTerms": [term]}}

    def make_pool(self, driver, pool):
        r = self.r
        generation = r.choice([1, 1, 1, 3])
        nslices = r.choice([1, 1, 1, 2, 3]) if "pools" in self.themes else r.choice([1, 1, 1, 2])
        partition = "partition" in self.themes and self.p(0.85)
        pernode = "pernode" in self.themes and self.p(0.7)
        selection = self.node_selection()
        total = nslices + (1 if partition else 0)
        out, k = [], 0
        counters = {}
        if partition:
            for s in range(r.choice([1, 1, 2])):
                counters[f"set-{s}"] = {"memory": r.choice([6, 8, 12]), "slots": r.choice([2, 4])}
        for s in range(nslices):
            sl = {
                "metadata": {"name": f"{driver.split('.')[0]}-{pool}-{r.choice('abc')}{s}"},
                "spec": {
                    "driver": driver,
                    "pool": {"name": pool, "generation": generation, "resourceSliceCount": total},
                },
            }
            if pernode:
                self.tag("perDeviceNodeSelection")
                sl["spec"]["perDeviceNodeSelection"] = True
            else:
                # slices of one pool may target different nodes
                sl["spec"].update(selection if self.p(0.8) else self.node_selection())
            if "skipops" in self.themes and self.p(0.6):
                sl["spec"]["skipNodeOperations"] = r.choice(
                    [["*"], ["NodePrepareResources"], ["NodePrepareResources", "NodeUnprepareResources"]]
                )
            devices = []
            for _ in range(r.choice([2, 3, 3, 4, 5])):
                devices.append(self.make_device(driver, pool, k, counters, pernode))
                k += 1
            sl["spec"]["devices"] = devices
            out.append(sl)
        if partition:
            cs = {
                "metadata": {"name": f"{driver.split('.')[0]}-{pool}-{r.choice(['0counters', 'counters'])}"},
                "spec": {
                    "driver": driver,
                    "pool": {"name": pool, "generation": generation, "resourceSliceCount": total},
                    "sharedCounters": [
                        {"name": n, "counters": {c: {"value": str(v)} for c, v in cc.items()}}
                        for n, cc in counters.items()
                    ],
                },
            }
            cs["spec"].update({"allNodes": True} if pernode or self.p(0.5) else selection)
            out.append(cs)
            self.tag("sharedCounters")
        if self.p(0.3 if "pools" in self.themes else 0.03):
            what = r.choice(["stale", "incomplete", "newer-elsewhere", "dup-device"])
            self.tag("pool-" + what)
            if what == "stale":
                old = json.loads(json.dumps(out[0]))
                old["metadata"]["name"] += "-old"
                old["spec"]["pool"]["generation"] = generation - 1
                out.insert(0, old)
            elif what == "incomplete":
                for sl in out:
                    sl["spec"]["pool"]["resourceSliceCount"] += 1
            elif what == "newer-elsewhere":
                new = json.loads(json.dumps(out[0]))
                new["metadata"]["name"] += "-new"
                new["spec"]["pool"]["generation"] = generation + 1
                for key in ("allNodes", "nodeSelector", "perDeviceNodeSelection"):
                    new["spec"].pop(key, None)
                new["spec"]["nodeName"] = "node-b"
                out.append(new)
            elif out[0]["spec"].get("devices"):
                out[0]["spec"]["devices"].append(json.loads(json.dumps(out[0]["spec"]["devices"][0])))
        return out

    def make_device(self, driver, pool, k, counters, pernode):
        r = self.r
        d = {"name": f"dev-{k}", "attributes": {}, "capacity": {}}
        a = d["attributes"]
        a["model"] = {"string": r.choice(MODELS)}
        a[r.choice(["numa", f"{driver}/numa"])] = {"int": r.randrange(2)}
        if self.p(0.6):
            a["driverVersion"] = {"version": r.choice(["1.0.0", "1.2.3", "2.0.0-rc.1", "2.0.0"])}
        if self.p(0.5):
            a["healthy"] = {"bool": self.p(0.8)}
        if self.p(0.85):
            a["resource.example.com/pcieRoot"] = {"string": r.choice(["pci0", "pci1", "pci2"])}
        if "lists" in self.themes and self.p(0.7):
            a["resource.example.com/links"] = r.choice(
                [
                    {"strings": r.sample(["l0", "l1", "l2", "l3"], r.choice([1, 2, 3]))},
                    {"string": r.choice(["l0", "l1"])},
                ]
            )
            a["cores"] = {"ints": sorted(r.sample(range(6), 2))}
        d["capacity"]["memory"] = {"value": r.choice(["10Gi", "20Gi", "40Gi"])}
        if self.p(0.3):
            d["capacity"]["bandwidth"] = {"value": r.choice(["10", "100", "2500m"])}
        if counters and self.p(0.85):
            d["consumesCounters"] = []
            for name in r.sample(sorted(counters), r.choice([1, len(counters)])):
                cons = {"counterSet": name, "counters": {"memory": {"value": str(r.choice([1, 2, 3, 4, 8]))}}}
                if self.p(0.4):
                    cons["counters"]["slots"] = {"value": r.choice(["1", "2", "500m"])}
                if "groups" in self.themes and self.p(0.8):
                    cons["compatibilityGroups"] = r.sample(["g1", "g2", "g3"], r.choice([1, 2]))
                    self.tag("compatibilityGroups")
                d["consumesCounters"].append(cons)
            self.tag("consumesCounters")
        if pernode:
            d.update(self.node_selection())
        if "taints" in self.themes and self.p(0.5):
            d["taints"] = [
                {
                    "key": r.choice(["example.com/t1", "example.com/t2"]),
                    "value": r.choice(["v1", "v2"]),
                    "effect": r.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"]),
                }
                for _ in range(r.choice([1, 1, 2]))
            ]
        if "binding" in self.themes and self.p(0.6):
            d["bindingConditions"] = ["example.com/attached"]
            if self.p(0.7):
                d["bindingFailureConditions"] = ["example.com/failed"]
            if self.p(0.5):
                d["bindsToNode"] = True
        if "consumable" in self.themes and self.p(0.8):
            d["allowMultipleAllocations"] = True
            self.tag("allowMultiple")
            for name, cap in d["capacity"].items():
                if self.p(0.25):
                    continue
                if name == "memory":
                    cap["requestPolicy"] = r.choice(
                        [
                            {"default": "1Gi"},
                            {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi", "8Gi"]},
                            {"default": "2Gi", "validRange": {"min": "1Gi", "max": "16Gi", "step": "1Gi"}},
                            {"default": "1Gi", "validRange": {"min": "512Mi"}},
                            {"default": "4Gi", "validRange": {"min": "4Gi", "step": "4Gi"}},
                        ]
                    )
                else:
                    cap["requestPolicy"] = r.choice(
                        [
                            {"default": "1"},
                            {"default": "1", "validRange": {"min": "1", "step": "1"}},
                            {"default": "500m", "validRange": {"min": "500m", "max": "2", "step": "250m"}},
                        ]
                    )
        self.devs.append((driver, pool, d))
        return d

    # ---- classes
    def make_classes(self):
        r = self.r
        classes = []
        for driver in self.drivers:
            n = driver.split(".")[0]
            classes.append(
                {
                    "metadata": {"name": n},
                    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
                }
            )
            classes.append(
                {
                    "metadata": {"name": n + "-big"},
                    "spec": {
                        "selectors": [
                            {"cel": {"expression": f'device.driver == "{driver}"'}},
                            {
                                "cel": {
                                    "expression": f'device.capacity["{driver}"].memory.compareTo(quantity("20Gi")) >= 0'
                                }
                            },
                        ]
                    },
                }
            )
        classes.append({"metadata": {"name": "any"}, "spec": {}})
        if "config" in self.themes:
            for c in classes:
                if self.p(0.6):
                    c["spec"]["config"] = [
                        {
                            "opaque": {
                                "driver": r.choice(self.drivers),
                                "parameters": {"class": c["metadata"]["name"], "n": i},
                            }
                        }
                        for i in range(r.choice([1, 1, 2]))
                    ]
        return classes

    # ---- claims
    def cel(self, d):
        r = self.r
        m = r.choice(MODELS)
        safe = [
            f'device.attributes["{d}"].model == "{m}"',
            f'device.attributes["{d}"].model in ["{m}", "{r.choice(MODELS)}"]',
            f'device.driver == "{d}" && device.attributes["{d}"].numa == {r.randrange(2)}',
            f'"healthy" in device.attributes["{d}"] && device.attributes["{d}"].healthy',
            f'device.attributes["{d}"].?healthy.orValue(true)',
            f'has(device.attributes["{d}"].driverVersion) && device.attributes["{d}"].driverVersion.compareTo(semver("1.2.0")) >= 0',
            f'device.attributes["{d}"].?driverVersion.orValue(semver("9.9.9")).isLessThan(semver("2.0.0"))',
            f'device.capacity["{d}"].memory.isGreaterThan(quantity("{r.choice(["5Gi", "15Gi", "30Gi"])}"))',
            f'device.capacity["{d}"].memory == quantity("{r.choice(["10Gi", "20480Mi", "40Gi"])}")',
            f'has(device.capacity["{d}"].bandwidth) && device.capacity["{d}"].bandwidth.compareTo(quantity("10")) >= 0',
            f'cel.bind(a, device.attributes["{d}"], has(a.model) && a.model.startsWith("{m[0]}"))',
            f'device.attributes["{d}"].model.matches("^[ah]100$")',
            '!("resource.example.com" in device.attributes) || device.attributes["resource.example.com"].?pcieRoot.orValue("") != "pci1"',
            f'device.attributes["{d}"].model.lowerAscii() == "{m}"',
            f'[1, 2].exists(x, x == device.attributes["{d}"].numa + 1)',
        ]
        if "ConsumableCapacity" in self.feats:
            safe.append("device.allowMultipleAllocations == true")
        if "ListTypeAttributes" in self.feats:
            safe += [
                f'has(device.attributes["{d}"].cores) && device.attributes["{d}"].cores.exists(c, c > 2)',
                f'device.attributes["{d}"].model.includes("{m}")',
            ]
        if self.p(0.05):
            self.tag("cel-runtime-error")
            return r.choice(
                [
                    f'device.attributes["{d}"].missing == "x"',
                    f'device.attributes["{d}"].healthy',
                    f'device.capacity["{d}"].bandwidth.isGreaterThan(quantity("1"))',
                    f'device.attributes["{d}"].model > 3',
                    f'device.attributes["{d}"].model',
                    'quantity("x").isGreaterThan(quantity("1"))',
                ]
            )
        if self.p(0.02):
            self.tag("cel-compile-error")
            return r.choice(["device.foo == 1", "noSuchVar", '"text"', "device.driver == ", "device.driver == 1"])
        return r.choice(safe)

    def selectors(self, d):
        prob = 0.9 if "cel" in self.themes else 0.22
        if not self.p(prob):
            return None
        self.tag("request-cel")
        return [{"cel": {"expression": self.cel(d)}} for _ in range(self.r.choice([1, 1, 1, 2]))]

    def body(self, sub=False):
        r = self.r
        names = [d.split(".")[0] for d in self.drivers]
        b = {
            "deviceClassName": r.choice(
                names * 6 + [n + "-big" for n in names] + (["any"] if "cel" not in self.themes else [])
            )
        }
        driver = next((d for d in self.drivers if b["deviceClassName"].startswith(d.split(".")[0])), self.drivers[0])
        s = self.selectors(driver)
        if s:
            b["selectors"] = s
        if "all" in self.themes and self.p(0.5):
            b["allocationMode"] = "All"
            self.tag("mode-all")
        else:
            b["allocationMode"] = "ExactCount"
            b["count"] = r.choice([1, 1, 1, 1, 1, 2, 2, 3])
        if "admin" in self.themes and not sub and self.p(0.6):
            b["adminAccess"] = r.choice([True, True, True, False])
        if "taints" in self.themes and self.p(0.6):
            tol = []
            for _ in range(r.choice([1, 1, 2])):
                tol.append(
                    r.choice(
                        [
                            {"operator": "Exists"},
                            {"key": "example.com/t1", "operator": "Exists"},
                            {"key": "example.com/t1", "operator": "Exists", "effect": "NoSchedule"},
                            {"key": "example.com/t2", "operator": "Equal", "value": "v1"},
                            {
                                "key": "example.com/t2",
                                "operator": "Exists",
                                "effect": "NoExecute",
                                "tolerationSeconds": 60,
                            },
                        ]
                    )
                )
            b["tolerations"] = tol
        if "consumable" in self.themes and self.p(0.75):
            req = {"memory": r.choice(["1Gi", "1500Mi", "3Gi", "5Gi", "10Gi", "15Gi"])}
            if self.p(0.2):
                req["bandwidth"] = r.choice(["1", "700m", "1500m"])
            if self.p(0.05):
                req["nosuch"] = "1"
            b["capacity"] = {"requests": req}
            self.tag("capacity-request")
        if "derived" in self.themes and self.p(0.8):
            d = driver
            b["derivedAttributes"] = [
                {
                    "name": "example.com/derived",
                    "expression": r.choice(
                        [
                            f'device.attributes["{d}"].model',
                            f'device.attributes["{d}"].numa % 2',
                            f'device.attributes["{d}"].model + "-x"',
                            f'device.capacity["{d}"].memory.isGreaterThan(quantity("15Gi"))',
                            f'device.attributes["{d}"].?missing.orValue("none")',
                            f'device.attributes["{d}"].missing',
                        ]
                    ),
                }
            ]
        return b

    def make_claim(self, i):
        r = self.r
        reqs, names = [], []
        nreq = r.choice([1, 1, 1, 2, 2, 3]) if "backtrack" not in self.themes else r.choice([2, 2, 3])
        for q in range(nreq):
            name = f"r{q}"
            names.append(name)
            if "first" in self.themes and self.p(0.7):
                subs = []
                for k in range(r.choice([2, 2, 3])):
                    subs.append({"name": f"s{k}", **self.body(sub=True)})
                    names.append(f"{name}/s{k}")
                reqs.append({"name": name, "firstAvailable": subs})
                self.tag("firstAvailable")
            else:
                reqs.append({"name": name, "exactly": self.body()})
        spec = {"devices": {"requests": reqs}}
        cons = []
        attrs = ["resource.example.com/pcieRoot", f"{GPU}/numa", f"{GPU}/model", f"{r.choice(self.drivers)}/numa"]
        if "lists" in self.themes:
            attrs += ["resource.example.com/links"] * 4
        if "derived" in self.themes:
            attrs = ["example.com/derived"] * 3 + attrs[:1]
        kinds = []
        if "backtrack" in self.themes:
            attrs = ["resource.example.com/pcieRoot"] * 3 + [
                f"{reqs[0].get('exactly', reqs[0].get('firstAvailable', [{}])[0]).get('deviceClassName', 'gpu').split('-')[0]}.example.com/numa"
            ]
        if (
            "match" in self.themes
            or ("lists" in self.themes and self.p(0.6))
            or ("derived" in self.themes and self.p(0.7))
        ):
            kinds.append("matchAttribute")
        if "distinct" in self.themes:
            kinds.append("distinctAttribute")
        if "backtrack" in self.themes and self.p(0.7):
            kinds.append("matchAttribute")
        for kind in kinds:
            c = {kind: r.choice(attrs)}
            if self.p(0.5):
                c["requests"] = sorted(r.sample(names, r.randint(1, len(names))))
            cons.append(c)
            self.tag(kind)
        if cons:
            spec["devices"]["constraints"] = cons
        if "config" in self.themes:
            cfg = []
            for n in range(r.choice([1, 2])):
                e = {"opaque": {"driver": r.choice(self.drivers), "parameters": {"claim": n}}}
                if self.p(0.6):
                    e["requests"] = sorted(r.sample(names, r.randint(1, len(names))))
                cfg.append(e)
            spec["devices"]["config"] = cfg
        return {"metadata": {"name": f"claim-{i}", "namespace": "default", "uid": f"uid-{i}"}, "spec": spec}

    # ---- state
    def make_state(self, c):
        r = self.r
        used, shared, agg = [], [], []
        prob = 0.35 if "allocated" in self.themes else 0.05
        for driver, pool, d in self.devs:
            if not self.p(prob):
                continue
            ref = {"driver": driver, "pool": pool, "device": d["name"]}
            if d.get("allowMultipleAllocations") and "ConsumableCapacity" in self.feats:
                shared.append({**ref, "shareID": f"share-{len(shared)}"})
                if self.p(0.85):
                    agg.append({**ref, "capacity": {"memory": r.choice(["1Gi", "4Gi", "9Gi"])}})
                self.tag("shared-in-use")
            elif ref not in used:
                used.append(ref)
                self.tag("device-in-use")
        if used:
            c["allocatedDevices"] = used
        if shared:
            c["allocatedSharedDevices"] = shared
        if agg:
            c["aggregatedCapacity"] = agg

    def maybe_break(self, c):
        r = self.r
        if not self.p(0.12 if "partition" in self.themes else 0.07):
            return
        what = r.choice(["class", "mode", "constraint", "toomany", "selector"])
        if "partition" in self.themes and self.p(0.7):
            what = r.choice(["counterset", "counter"])
        reqs = c["claims"][-1]["spec"]["devices"]["requests"]
        body = reqs[-1].get("exactly") or reqs[-1]["firstAvailable"][-1]
        if what == "class":
            body["deviceClassName"] = "no-such-class"
        elif what == "mode":
            body["allocationMode"] = "future-mode"
        elif what == "constraint":
            c["claims"][-1]["spec"]["devices"].setdefault("constraints", []).append({"requests": [reqs[0]["name"]]})
        elif what == "toomany":
            body.update(allocationMode="ExactCount", count=33)
        elif what == "selector":
            body.setdefault("selectors", []).append({})
        else:
            hit = False
            for s in c["slices"]:
                for d in s["spec"].get("devices", []):
                    for cc in d.get("consumesCounters", []):
                        if not hit:
                            hit = True
                            if what == "counterset":
                                cc["counterSet"] = "no-such-set"
                            else:
                                cc["counters"]["nosuch"] = {"value": "1"}
            if not hit:
                return
        self.tag("bad-" + what)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=2000)
    args = ap.parse_args()
    for i in range(args.count):
        rnd = random.Random(f"{args.seed}/{i}")
        print(json.dumps(Gen(rnd, f"rnd-{args.seed}-{i:05d}").case(), separators=(",", ":")))


if __name__ == "__main__":
    main()
