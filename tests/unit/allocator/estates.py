"""Random pools, slices and devices of an allocation case, in which features, shortages and mistakes meet."""

from __future__ import annotations

import random
from typing import Any

Object = dict[str, Any]
GPU, NIC = DRIVERS = ("gpu.example.com", "nic.example.com")
BASIC = ("AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints")
USUAL = (*BASIC, "DeviceBindingAndStatus", "ConsumableCapacity")
NEWEST = (
    "ListTypeAttributes",
    "FractionalCapacityRange",
    "OptionalNodeOperations",
    "DerivedAttributes",
    "CompatibilityGroups",
)
SINCE_LISTS = ("1.36", "1.37")
REQUIREMENTS = (
    {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
    {"key": "zone", "operator": "In", "values": ["z2", "z1"]},
    {"key": "zone", "operator": "In", "values": ["z1"]},
    {"key": "zone", "operator": "NotIn", "values": ["z3"]},
    {"key": "zone", "operator": "NotIn", "values": ["z1"]},
    {"key": "zone", "operator": "Exists"},
    {"key": "rack", "operator": "Gt", "values": ["3"]},
    {"key": "rack", "operator": "Lt", "values": ["30"]},
    {"key": "gone", "operator": "DoesNotExist"},
)
POLICIES: dict[str, tuple[Object, ...]] = {
    "memory": (
        {"default": "1Gi"},
        {"default": "2Gi", "validValues": ["1Gi", "2Gi", "8Gi"]},
        {"default": "2Gi", "validRange": {"min": "1Gi", "max": "16Gi", "step": "1Gi"}},
        {"default": "1Gi", "validRange": {"min": "512Mi"}},
        {"default": "2Gi", "validRange": {"min": "2Gi", "max": "4Gi"}},
        {"default": "3Gi", "validRange": {"min": "1Gi", "step": "1500Mi"}},
        {"default": "1Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "3Gi"}},
    ),
    "cores": (
        {"default": "1"},
        {"default": "1", "validRange": {"min": "1", "step": "1"}},
        {"default": "500m", "validRange": {"min": "500m", "max": "2", "step": "250m"}},
        {"default": "1", "validRange": {"min": "1", "max": "4", "step": "700m"}},
        {"default": "1", "validRange": {"min": "1n", "step": "1n"}},
        {"validRange": {"min": "2"}},
        {"default": "500m", "validValues": ["500m", "1", "1500m"]},
        {},
    ),
}


class Estate:
    """What there is: `pools(driver)` gives slices. A case is made for the features `on`, and is about its `theme`."""

    minor: str
    on: tuple[str, ...] = ()
    theme: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.chance = random.Random(0)

    def some(self, share: float, theme: str | None = None) -> bool:
        """Whether it happens; three times as often in a case about `theme`."""
        return self.chance.random() < (min(0.85, 3 * share) if theme in self.theme else share)

    def one(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def pools(self, driver: str) -> list[Object]:
        found = []
        for pool in self.chance.sample(("p1", "p2", "p10", "n1"), self.one(1, 1, 2, 3)):
            found += self.pool(driver, pool)
        return found

    def pool(self, driver: str, pool: str) -> list[Object]:
        sets = ("s0", "s1")[: self.one(1, 2)] if self.some(0.2, "counters") else ()
        per_device, partitioned = self.some(0.1, "places"), bool(sets)
        count, where = self.one(1, 1, 1, 2), self.place()
        announced = count + partitioned + (self.one(-1, 1) if self.some(0.05, "pools") else 0)
        about = {"name": pool, "generation": 2, "resourceSliceCount": announced}
        slices, number = [], 0
        for place in range(count):
            spec: Object = {"driver": driver, "pool": dict(about), "devices": []}
            spec |= {"perDeviceNodeSelection": True} if per_device else where if self.some(0.8) else self.place()
            for _ in range(self.one(1, 2, 3, 4, 6) if not self.some(0.015, "many") else 40):
                spec["devices"].append(self.device(driver, number, sets, per_device))
                number += 0 if self.some(0.01, "pools") else 1
            if self.some(0.1, "operations") and "OptionalNodeOperations" in self.on:
                spec["skipNodeOperations"] = self.one(["*"], ["NodePrepareResources"], ["NodeUnprepareResources", "x"])
            slices.append({"metadata": {"name": f"{driver[:3]}-{pool}-{self.one('a', 'b')}{place}"}, "spec": spec})
        if partitioned:
            slices.append(self.counters(driver, about, where, sets))
        if self.some(0.06, "pools"):
            slices.append(self.of_another_generation(slices[0], about))
        return slices

    def of_another_generation(self, slice_: Object, about: Object) -> Object:
        name = slice_["metadata"]["name"] + "-other"
        spec = {**slice_["spec"], "pool": {**about, "generation": self.one(1, 2, 3)}}
        if "nodeName" in spec or self.some(0.5):
            for field in ("allNodes", "nodeSelector", "perDeviceNodeSelection"):
                spec.pop(field, None)
            spec["nodeName"] = self.one("n2", "n2", "n1")
        return {"metadata": {"name": name}, "spec": spec}

    def counters(self, driver: str, about: Object, where: Object, names: tuple[str, ...]) -> Object:
        names = names if not self.some(0.02, "pools") else ("s0", "s0")
        sets = [
            {"name": name, "counters": {"slots": {"value": self.one("1", "2", "4")}, "mem": {"value": "8Gi"}}}
            for name in names
        ]
        if self.some(0.04, "broken"):
            del sets[-1]["counters"][self.one("slots", "mem")]
        spec = {"driver": driver, "pool": dict(about), "sharedCounters": sets}
        spec |= where if self.some(0.6) else self.one({"allNodes": True}, {"allNodes": True}, {"nodeName": "n2"}, {})
        return {"metadata": {"name": f"{driver[:3]}-{about['name']}-{self.one('0', '')}counters"}, "spec": spec}

    def place(self) -> Object:
        """Where a slice or a device is reachable from."""
        kind = self.one(*["name"] * 4, *["all"] * 3, *["selector"] * 3, "elsewhere", "odd")
        if kind == "name":
            return {"nodeName": "n1"}
        if kind == "elsewhere":
            return {"nodeName": "n2"}
        if kind == "all":
            return {"allNodes": True}
        wanted = self.chance.sample(REQUIREMENTS, self.one(1, 1, 2))
        terms: list[Object] = [{"matchExpressions": [dict(one) for one in wanted]}]
        fields = [{"key": "metadata.name", "operator": self.one("In", "In", "NotIn"), "values": [self.one("n1", "n2")]}]
        if kind == "odd":
            terms = self.one(
                [*terms, {"matchFields": fields}],
                [{**terms[0], "matchFields": fields}],
                [{"matchFields": fields}],
                [{}],
                [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["z"]}]}]
                if self.some(0.3)
                else [],
                terms,
            )
        found: Object = {"nodeSelector": {"nodeSelectorTerms": terms}}
        return self.one(found, found, {}, {"allNodes": False}) if kind == "odd" and self.some(0.2) else found

    def device(self, driver: str, number: int, sets: tuple[str, ...], per_device: bool) -> Object:
        device: Object = {"name": f"d{number}", "attributes": self.attributes(driver, number)}
        device["capacity"] = {"memory": {"value": self.one("10Gi", "40Gi")}}
        if self.some(0.2, "capacity"):
            device["capacity"]["cores"] = {"value": self.one("4", "1500m", "2")}
        if sets and self.some(0.8):
            names = sets if self.some(0.1) else (self.one(*sets),)
            device["consumesCounters"] = [self.consumption(name) for name in names]
        if per_device:
            device |= self.place()
        if self.some(0.12, "taints"):
            device["taints"] = [self.taint() for _ in range(self.one(1, 1, 2))]
        if self.some(0.05, "binding") and ("DeviceBindingAndStatus" in self.on or self.some(0.1)):
            device["bindingConditions"] = ["ready", "up"][: self.one(1, 2)]
            device |= {"bindingFailureConditions": ["failed"]} if self.some(0.6) else {}
            device |= {"bindsToNode": self.some(0.7)} if self.some(0.6) else {}
        if self.some(0.2, "capacity") and ("ConsumableCapacity" in self.on or self.some(0.1)):
            device["allowMultipleAllocations"] = self.some(0.9)
            for name, value in device["capacity"].items():
                if self.some(0.75):
                    value["requestPolicy"] = self.policy(name)
            if self.some(0.05):
                del device["capacity"]
        return device

    def policy(self, name: str) -> Object:
        policy: Object = dict(self.one(*POLICIES[name]))
        if self.some(0.03) and "validRange" in policy:
            policy["validRange"] = {**policy["validRange"], "step": self.one("9E", "8191P", "1u", "5000000T")}
        return policy

    def attributes(self, driver: str, number: int) -> Object:
        found: Object = {"model": {"string": self.one("a100", "h100", "l4")}}
        if self.some(0.8):
            found[self.one("index", "index", f"{driver}/index")] = {"int": number % 4}
        if self.some(0.7):
            found["version"] = {"version": self.one("1.0.0", "1.2.0", "2.0.0-rc.1")}
        if self.some(0.5):
            found["healthy"] = {"bool": self.some(0.7)}
        if self.some(0.8):
            found["example.com/root"] = {"string": self.one("r0", "r1")}
        if self.some(0.08, "kinds"):
            found["example.com/mixed"] = self.one(
                {"string": "1"}, {"int": 1}, {"bool": True}, {"bool": False}, {"version": "1.0.0"}, {"int": 2}
            )
        if "ListTypeAttributes" in self.on or (self.minor in SINCE_LISTS and self.some(0.01)):
            if self.some(0.3, "lists"):
                links = self.chance.sample(("l0", "l1", "l2"), self.one(1, 2))
                found["example.com/links"] = self.one({"strings": links}, {"string": links[0]})
            if self.some(0.2, "lists"):
                found["example.com/mixed"] = self.one(
                    {"ints": self.one([1], [1, 2], [3])}, {"bools": self.one([True], [True, False])},
                    {"versions": self.one(["1.0.0"], ["1.0.0", "1.2.0"], ["2.0.0"])}, {"strings": ["1", "2"]},
                    {"ints": []}, {"int": 1}, {"bool": True}, {"version": "1.0.0"},
                )  # fmt: skip
        if self.some(0.006, "broken"):
            found["version"] = self.one({"version": "one"}, {})
        return found

    def taint(self) -> Object:
        effect = self.one("NoSchedule", "NoSchedule", "NoExecute", "None", "Later" if self.some(0.2) else "NoSchedule")
        return {"key": self.one("k1", "k2"), "value": self.one("v", "w"), "effect": effect}

    def consumption(self, name: str) -> Object:
        counters: Object = {"slots": {"value": self.one("1", "2", "500m")}}
        if self.some(0.3):
            counters["mem"] = {"value": self.one("1Gi", "4Gi")}
        if self.some(0.02, "broken"):
            counters["none"] = {"value": "1"}
        used: Object = {"counterSet": "none" if self.some(0.01, "broken") else name, "counters": counters}
        if "CompatibilityGroups" in self.on and self.some(0.2, "groups"):
            used["compatibilityGroups"] = self.chance.sample(("g1", "g2", "g3"), self.one(1, 2))
        return used
