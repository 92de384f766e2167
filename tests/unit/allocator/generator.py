"""Random allocation cases from a seed: small estates in which features, shortages and mistakes meet."""

from __future__ import annotations

import random
from typing import Any

Object = dict[str, Any]
DRIVERS = ("gpu.example.com", "nic.example.com")
BASIC = ("AdminAccess", "PrioritizedList", "PartitionableDevices", "DeviceTaints")
USUAL = (*BASIC, "DeviceBindingAndStatus", "ConsumableCapacity")
NEWEST = ("FractionalCapacityRange", "OptionalNodeOperations", "DerivedAttributes", "CompatibilityGroups")
FEATURES = {
    "1.34": (BASIC, (*BASIC, "ConsumableCapacity")),
    "1.35": (BASIC, USUAL),
    "1.36": (BASIC, USUAL, USUAL, (*USUAL, "ListTypeAttributes")),
    "1.37": (BASIC, USUAL, USUAL, (*USUAL, "ListTypeAttributes", *NEWEST)),
}
EXPRESSIONS = (
    "true",
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "h100"',
    'device.attributes[device.driver].model in ["a100", "h100"]',
    '"model" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].model != "l4"',
    'device.attributes["gpu.example.com"].?index.orValue(0) < 3',
    'device.attributes["gpu.example.com"].index >= 1',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.1.0"))',
    'device.capacity[device.driver].memory.compareTo(quantity("20Gi")) >= 0',
    "device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].missing == 1',
    'device.attributes["gpu.example.com"].model.matches("^[ah]100$")',
    "device.driver.nonsense",
    "1 / 0 == 1",
    'device.attributes["other.example.com"].size() == 0',
)
MATCHED = (
    "example.com/root",
    "gpu.example.com/model",
    "gpu.example.com/index",
    "example.com/links",
    "example.com/none",
)


class Generator:
    """One case after the other; `Generator(seed, minor).case(number)`."""

    def __init__(self, seed: int, minor: str) -> None:
        self.minor = minor
        self.chance = random.Random(f"{seed}-{minor}")
        self.on: tuple[str, ...] = ()

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def case(self, number: int) -> Object:
        self.on = self.chance.choice(FEATURES[self.minor])
        features = [name for name in self.on if not self.some(0.03)]
        slices = [one for driver in DRIVERS[: self.chance.choice((1, 1, 2))] for one in self.pools(driver)]
        self.chance.shuffle(slices)
        case: Object = {
            "name": f"made-{number}",
            "features": dict.fromkeys(features, True),
            "node": {"metadata": {"name": "n1", "labels": {"zone": "z1", "rack": "7"}}},
            "classes": self.classes(),
            "slices": slices,
            "claims": [self.claim(f"c{place}") for place in range(self.chance.choice((1, 1, 1, 2, 3)))],
        }
        if self.some(0.5) and "OptionalNodeOperations" in features:
            case["node"]["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
        self.used(case)
        return case

    # -- what there is

    def pools(self, driver: str) -> list[Object]:
        found = []
        for pool in self.chance.sample(("p1", "p2", "p10", "n1"), self.chance.choice((1, 1, 2, 3))):
            found += self.pool(driver, pool)
        return found

    def pool(self, driver: str, pool: str) -> list[Object]:
        partitioned = self.some(0.3)
        count = self.chance.choice((1, 1, 1, 2))
        announced = count + partitioned + (self.chance.choice((-1, 1)) if self.some(0.06) else 0)
        where = self.place()
        per_device = self.some(0.1)
        about = {"name": pool, "generation": 2, "resourceSliceCount": announced}
        slices, number = [], 0
        for place in range(count):
            spec: Object = {"driver": driver, "pool": dict(about)}
            spec |= {"perDeviceNodeSelection": True} if per_device else where if self.some(0.8) else self.place()
            spec["devices"] = []
            for _ in range(self.chance.choice((1, 2, 3, 4, 6))):
                spec["devices"].append(self.device(driver, number, partitioned, per_device))
                number += 0 if self.some(0.02) else 1
            if "OptionalNodeOperations" in self.on and self.some(0.15):
                spec["skipNodeOperations"] = ["*"]
            slices.append(
                {"metadata": {"name": f"{driver[:3]}-{pool}-{self.chance.choice('ab')}{place}"}, "spec": spec}
            )
        if partitioned:
            slices.append(self.counters(driver, about, where))
        if self.some(0.08):
            other = {**slices[0], "metadata": {"name": slices[0]["metadata"]["name"] + "-other"}}
            spec = {**slices[0]["spec"], "pool": {**about, "generation": self.chance.choice((1, 2, 3))}}
            slices.append({**other, "spec": {**spec, "nodeName": "n2"} if "nodeName" in spec else spec})
        return slices

    def counters(self, driver: str, about: Object, where: Object) -> Object:
        sets = [
            {
                "name": f"s{place}",
                "counters": {"slots": {"value": str(self.chance.choice((1, 2, 4)))}, "mem": {"value": "8Gi"}},
            }
            for place in range(self.chance.choice((1, 2)))
        ]
        spec = {
            "driver": driver,
            "pool": dict(about),
            "sharedCounters": sets,
            **(where if self.some(0.7) else {"allNodes": True}),
        }
        return {"metadata": {"name": f"{driver[:3]}-{about['name']}-counters"}, "spec": spec}

    def place(self) -> Object:
        kind = self.chance.choice(("name", "name", "name", "all", "all", "selector", "selector", "elsewhere", "odd"))
        if kind == "name":
            return {"nodeName": "n1"}
        if kind == "elsewhere":
            return {"nodeName": "n2"}
        if kind == "all":
            return {"allNodes": True}
        requirement = self.chance.choice(
            (
                {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
                {"key": "zone", "operator": "NotIn", "values": ["z1"]},
                {"key": "rack", "operator": "Gt", "values": ["3"]},
                {"key": "gone", "operator": "DoesNotExist"},
            )
        )
        terms: list[Object] = [{"matchExpressions": [requirement]}]
        if kind == "odd" and self.some(0.3):
            terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})
        if kind == "odd" and self.some(0.1):
            terms = [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["z"]}]}]
        return {"nodeSelector": {"nodeSelectorTerms": terms}}

    def device(self, driver: str, number: int, partitioned: bool, per_device: bool) -> Object:
        attributes: Object = {"model": {"string": self.chance.choice(("a100", "h100", "l4"))}}
        if self.some(0.8):
            attributes["index"] = {"int": number % 4}
        if self.some(0.7):
            attributes["version"] = {"version": self.chance.choice(("1.0.0", "1.2.0", "2.0.0-rc.1"))}
        if self.some(0.8):
            attributes["example.com/root"] = {"string": self.chance.choice(("r0", "r1"))}
        if "ListTypeAttributes" in self.on and self.some(0.5):
            links = self.chance.sample(("l0", "l1", "l2"), self.chance.choice((1, 2)))
            attributes["example.com/links"] = self.chance.choice(({"strings": links}, {"string": links[0]}))
        if self.some(0.01):
            attributes["version"] = {"version": "one"}
        device: Object = {"name": f"d{number}", "attributes": attributes}
        device["capacity"] = {"memory": {"value": self.chance.choice(("10Gi", "40Gi"))}}
        if self.some(0.2):
            device["capacity"]["cores"] = {"value": self.chance.choice(("4", "1500m"))}
        if partitioned and self.some(0.8):
            device["consumesCounters"] = [self.consumption(name) for name in self.chance.sample(("s0", "s0", "s1"), 1)]
        if per_device:
            device |= self.place()
        if self.some(0.2):
            effect = self.chance.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": self.chance.choice(("k1", "k2")), "value": "v", "effect": effect}]
        if "DeviceBindingAndStatus" in self.on and self.some(0.1):
            device |= {
                "bindingConditions": ["ready"],
                "bindingFailureConditions": ["failed"],
                "bindsToNode": self.some(0.5),
            }
        if "ConsumableCapacity" in self.on and self.some(0.3):
            device["allowMultipleAllocations"] = True
            device["capacity"]["memory"]["requestPolicy"] = self.policy()
        return device

    def consumption(self, name: str) -> Object:
        counters = {"slots": {"value": self.chance.choice(("1", "2", "500m"))}}
        if self.some(0.3):
            counters["mem"] = {"value": self.chance.choice(("1Gi", "4Gi"))}
        used: Object = {"counterSet": name, "counters": counters}
        if "CompatibilityGroups" in self.on and self.some(0.4):
            used["compatibilityGroups"] = self.chance.sample(("g1", "g2", "g3"), self.chance.choice((1, 2)))
        return used

    def policy(self) -> Object:
        return self.chance.choice(
            (
                {"default": "1Gi"},
                {"default": "2Gi", "validValues": ["1Gi", "2Gi", "8Gi"]},
                {"default": "2Gi", "validRange": {"min": "1Gi", "max": "16Gi", "step": "1Gi"}},
                {"default": "1Gi", "validRange": {"min": "512Mi"}},
                {"default": "3Gi", "validRange": {"min": "1Gi", "step": "1500Mi"}},
            )
        )

    # -- what is asked

    def classes(self) -> list[Object]:
        config = [{"opaque": {"driver": DRIVERS[0], "parameters": {"from": "class"}}}] if self.some(0.3) else []
        selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
        return [
            {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors, "config": config}},
            {"metadata": {"name": "any"}, "spec": {}},
        ]

    def claim(self, name: str) -> Object:
        requests = [self.request(f"r{place}") for place in range(self.chance.choice((1, 1, 2, 3)))]
        names = [one["name"] for one in requests]
        constraints = []
        for _ in range(self.chance.choice((0, 0, 0, 1, 1, 2))):
            kind = "distinctAttribute" if self.some(0.35) else "matchAttribute"
            constraint: Object = {kind: self.chance.choice(MATCHED)} if not self.some(0.02) else {}
            if self.some(0.4):
                constraint["requests"] = self.chance.sample([*names, "r0/s0", "r9"], 1)
            constraints.append(constraint)
        config = []
        if self.some(0.2):
            wanted = self.chance.choice(([], names[:1], names))
            config.append({"requests": wanted, "opaque": {"driver": DRIVERS[0], "parameters": {"from": "claim"}}})
        devices = {"requests": requests, "constraints": constraints, "config": config}
        return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}

    def request(self, name: str) -> Object:
        if "PrioritizedList" in self.on and self.some(0.25):
            several = [self.asked(f"s{place}") for place in range(self.chance.choice((1, 2, 3)))]
            return {"name": name, "firstAvailable": several}
        asked = self.asked(None)
        if self.some(0.1):
            asked["adminAccess"] = self.some(0.9)
        return {"name": name, "exactly": asked}

    def asked(self, name: str | None) -> Object:
        asked: Object = {} if name is None else {"name": name}
        asked["deviceClassName"] = self.chance.choice(("gpu", "gpu", "any", "any", "none" if self.some(0.1) else "any"))
        asked["allocationMode"] = "All" if self.some(0.15) else "ExactCount"
        if asked["allocationMode"] == "ExactCount":
            asked["count"] = (
                self.chance.choice((1, 1, 1, 2, 2, 3, 5)) if not self.some(0.04) else self.chance.choice((0, 33))
            )
        if self.some(0.4):
            chosen = EXPRESSIONS[:10] if self.some(0.85) else EXPRESSIONS
            asked["selectors"] = [
                {"cel": {"expression": self.chance.choice(chosen)}} for _ in range(1 + self.some(0.2))
            ]
        if self.some(0.25):
            toleration: Object = {"operator": self.chance.choice(("Exists", "Equal"))}
            toleration |= {"key": "k1"} if self.some(0.7) else {}
            toleration |= {"value": "v"} if toleration["operator"] == "Equal" else {}
            asked["tolerations"] = [toleration]
        if "ConsumableCapacity" in self.on and self.some(0.2):
            asked["capacity"] = {"requests": {"memory": self.chance.choice(("1Gi", "1500Mi", "3Gi", "20Gi"))}}
        if "DerivedAttributes" in self.on and self.some(0.1):
            expression = self.chance.choice(("device.driver", 'device.attributes["gpu.example.com"].index % 2'))
            asked["derivedAttributes"] = [{"name": "example.com/none", "expression": expression}]
        return asked

    # -- what is in use

    def used(self, case: Object) -> None:
        devices = [(one["spec"], device) for one in case["slices"] for device in one["spec"].get("devices", ())]
        whole, shared, consumed = [], [], []
        for spec, device in devices:
            if not self.some(0.15):
                continue
            named = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if not device.get("allowMultipleAllocations"):
                whole.append(named)
                continue
            shared.append({**named, "shareID": "7"})
            if self.some(0.8):
                consumed.append({**named, "capacity": {"memory": self.chance.choice(("1Gi", "9Gi"))}})
        for key, value in (
            ("allocatedDevices", whole),
            ("allocatedSharedDevices", shared),
            ("aggregatedCapacity", consumed),
        ):
            if value:
                case[key] = value
