"""Random allocation cases from a seed: small estates, what is asked of them and what is in use."""

from __future__ import annotations

import random

from tests.unit.allocator.estates import BASIC, DRIVERS, GPU, NEWEST, NIC, USUAL, Estate, Object

VARIANTS = ("stable", "incubating", "experimental")
FEATURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "1.34": ((), BASIC, BASIC, (*BASIC, "ConsumableCapacity"), USUAL),
    "1.35": ((), BASIC, BASIC, USUAL, USUAL),
    "1.36": (BASIC, USUAL, USUAL, USUAL, (*USUAL, "ListTypeAttributes")),
    "1.37": (BASIC, USUAL, USUAL, (*USUAL, "FractionalCapacityRange"), (*USUAL, *NEWEST), (*USUAL, *NEWEST)),
}
# The features up to which a forced implementation goes.
SUPPORTED = {"stable": BASIC, "incubating": (*USUAL, "FractionalCapacityRange"), "experimental": (*USUAL, *NEWEST)}
THEMES = (
    "counters", "places", "pools", "many", "operations", "taints", "binding", "capacity", "kinds", "lists", "broken",
    "groups", "admin", "first", "all", "constraints", "config", "selectors", "derived", "used",
)  # fmt: skip
EXPRESSIONS = (
    "true",
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "h100"',
    'device.attributes[device.driver].model in ["a100", "h100"]',
    '"model" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].model != "l4"',
    'device.attributes["gpu.example.com"].?index.orValue(0) < 3',
    '!has(device.attributes["gpu.example.com"].healthy) || device.attributes["gpu.example.com"].healthy',
    'device.capacity[device.driver].?memory.orValue(quantity("1")).compareTo(quantity("20Gi")) >= 0',
    'device.attributes["gpu.example.com"].index >= 1',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.1.0"))',
    "device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].missing == 1',
    'device.attributes["gpu.example.com"].model.matches("^[ah]100$")',
    "device.driver.nonsense",
    "1 / 0 == 1",
    'device.attributes["other.example.com"].size() == 0',
    'device.attributes["example.com"].?root.orValue("r0") == "r0"',
    "device.driver ==",
)
DERIVED = (
    "device.driver",
    'device.attributes["gpu.example.com"].model',
    'device.attributes["gpu.example.com"].?index.orValue(0) % 2',
    'device.attributes["gpu.example.com"].?healthy.orValue(true)',
    'device.attributes["gpu.example.com"].?version.orValue(semver("1.0.0"))',
    'device.attributes["gpu.example.com"].index % 2',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("15Gi"))',
    "device.nonsense",
    "[1, 2]",
)
MATCHED = (
    "example.com/root",
    "example.com/root",
    "gpu.example.com/model",
    "gpu.example.com/index",
    "gpu.example.com/version",
    "gpu.example.com/healthy",
    "nic.example.com/model",
    "example.com/links",
    "example.com/mixed",
    "example.com/derived",
    "example.com/none",
)


class Generator(Estate):
    """`Generator(seed, minor).case(number)`; a case depends on these three only."""

    def __init__(self, seed: int, minor: str) -> None:
        super().__init__()
        self.seed, self.minor = seed, minor

    def case(self, number: int) -> Object:
        self.chance = random.Random(f"{self.seed}/{self.minor}/{number}")
        forced = self.one(*VARIANTS) if self.minor != "1.34" and self.some(0.25) else None
        self.on = self.one(*FEATURES[self.minor])
        if forced and self.minor == "1.35":
            self.on = {"stable": (), "incubating": BASIC}.get(forced, USUAL)
        elif forced:
            self.on = tuple(name for name in self.on if name in SUPPORTED[forced])
        self.theme = tuple(self.chance.sample(THEMES, self.one(0, 1, 2, 3)))
        features = [name for name in self.on if not self.some(0.012)]
        case: Object = {"name": f"made-{self.seed}-{number}", "features": dict.fromkeys(features, True)}
        if forced:
            case["variant"] = forced
        slices = [one for driver in DRIVERS[: self.one(1, 1, 2)] for one in self.pools(driver)]
        self.chance.shuffle(slices)
        case |= {"classes": self.classes(), "slices": slices}
        case["claims"] = [self.claim(f"c{place}") for place in range(self.one(1, 1, 1, 1, 2, 3))]
        self.on_nodes(case)
        self.used(case)
        return case

    def on_nodes(self, case: Object) -> None:
        node: Object = {"metadata": {"name": "n1", "labels": {"zone": "z1", "rack": "7"}}}
        if self.minor != "1.34" and self.some(0.7):
            node["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
        if self.some(0.08):
            others = [{"metadata": {"name": "n2", "labels": {"zone": "z3"}}}, {"metadata": {"name": "n3"}}]
            case["nodes"] = [node, *others[: self.one(1, 2)]]
            return
        case["node"] = node
        if self.some(0.1) and self.minor in ("1.36", "1.37"):
            case["mode"] = "pools"

    # -- what is asked

    def classes(self) -> list[Object]:
        made = 'device.driver == "gpu.example.com"'
        odd = self.one('device.attributes["gpu.example.com"].missing', "nonsense", "1 / 0 == 1", 'device.driver != "x"')
        found: list[Object] = [
            {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": made}}]}},
            {"metadata": {"name": "any"}, "spec": {}},
            {
                "metadata": {"name": "odd"},
                "spec": {"selectors": [{"cel": {"expression": text}} for text in (made, odd)]},
            },
        ]
        for one in found:
            if self.some(0.2, "config"):
                one["spec"]["config"] = [self.config(one["metadata"]["name"]) for _ in range(self.one(1, 1, 2))]
        return found

    def config(self, source: str) -> Object:
        return {"opaque": {"driver": self.one(GPU, NIC), "parameters": {"from": source}}}

    def claim(self, name: str) -> Object:
        requests = [self.request(f"r{place}") for place in range(self.one(1, 1, 1, 2, 2, 3))]
        names = [one["name"] for one in requests]
        names += [f"{one['name']}/{sub['name']}" for one in requests for sub in one.get("firstAvailable", ())]
        devices: Object = {"requests": requests}
        constraints = []
        for _ in range(self.one(1, 1, 2) if self.some(0.3, "constraints") else 0):
            kind = "distinctAttribute" if self.some(0.35) else "matchAttribute"
            constraint: Object = {kind: self.one(*MATCHED)} if not self.some(0.01, "broken") else {}
            if self.some(0.006, "broken"):
                constraint = {kind: "unqualified"}
            if self.some(0.4):
                constraint["requests"] = self.some_of([*names, "r0/s0", "r9"])
            constraints.append(constraint)
        if constraints:
            devices["constraints"] = constraints
        if self.some(0.15, "config"):
            devices["config"] = [self.config("claim") for _ in range(self.one(1, 2))]
            for one in devices["config"]:
                if self.some(0.7):
                    one["requests"] = self.some_of(names)
        return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}

    def some_of(self, names: list[str]) -> list[str]:
        return self.chance.sample(names, self.chance.randint(1, min(3, len(names))))

    def request(self, name: str) -> Object:
        if self.some(0.2, "first") and ("PrioritizedList" in self.on or self.some(0.1)):
            several = [self.asked(f"s{place}") for place in range(self.one(1, 2, 2, 3))]
            return {"name": name, "firstAvailable": several}
        asked = self.asked(None)
        if self.some(0.08, "admin"):
            asked["adminAccess"] = self.some(0.9)
        return {"name": name, "exactly": asked}

    def asked(self, name: str | None) -> Object:
        asked: Object = {} if name is None else {"name": name}
        asked["deviceClassName"] = self.one(*["gpu"] * 10, *["any"] * 10, "odd")
        if self.some(0.006, "broken"):
            asked["deviceClassName"] = self.one("none", "")
        asked["allocationMode"] = "All" if self.some(0.08, "all") else "ExactCount"
        if self.some(0.004, "broken"):
            asked["allocationMode"] = self.one("Newer", "")
        if asked["allocationMode"] == "ExactCount":
            asked["count"] = self.one(1, 1, 1, 1, 2, 2, 3, 5)
            if self.some(0.02, "many"):
                asked["count"] = self.one(0, 16, 20, 32, 33, 10**12)
        if self.some(0.35, "selectors"):
            chosen = EXPRESSIONS[:8] if self.some(0.93) else EXPRESSIONS
            asked["selectors"] = [{"cel": {"expression": self.one(*chosen)}} for _ in range(1 + self.some(0.2))]
            if self.some(0.01, "broken"):
                asked["selectors"].append({})
        if self.some(0.15, "taints"):
            asked["tolerations"] = [self.toleration() for _ in range(self.one(1, 1, 2))]
        if self.some(0.15, "capacity") and ("ConsumableCapacity" in self.on or self.some(0.1)):
            asked["capacity"] = {"requests": self.amounts()} if not self.some(0.05) else {}
        if self.some(0.05, "derived") and (
            "DerivedAttributes" in self.on or (self.minor == "1.37" and self.some(0.05))
        ):
            asked["derivedAttributes"] = [{"name": "example.com/derived", "expression": self.one(*DERIVED)}]
        return asked

    def amounts(self) -> Object:
        found: Object = {"memory": self.one("1Gi", "1500Mi", "3Gi", "5Gi", "10Gi", "20Gi", "100Mi")}
        if self.some(0.3):
            found["cores"] = self.one("1", "700m", "1500m", "2", "250m", "1n")
        if self.some(0.04):
            found["none"] = "1"
        if self.some(0.05, "broken"):
            found[self.one("memory", "cores")] = self.one("9E", "100E", "-1", "1500u", "9223372036854775807", "0")
        return found

    def toleration(self) -> Object:
        toleration: Object = {"operator": self.one("Exists", "Exists", "Equal", "Equal", "")}
        toleration |= {"key": self.one("k1", "k2")} if self.some(0.8) else {}
        toleration |= {"value": self.one("v", "w")} if toleration["operator"] != "Exists" else {}
        toleration |= {"effect": self.one("NoSchedule", "NoExecute")} if self.some(0.3) else {}
        return toleration | ({"tolerationSeconds": 60} if self.some(0.1) else {})

    # -- what is in use

    def used(self, case: Object) -> None:
        devices = [(one["spec"], device) for one in case["slices"] for device in one["spec"].get("devices", ())]
        whole, shared, consumed = [], [], []
        for spec, device in devices:
            if not self.some(0.12, "used"):
                continue
            named = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if not device.get("allowMultipleAllocations") or self.some(0.05):
                whole.append(named)
                continue
            if self.some(0.9):
                shared.append({**named, "shareID": "7"})
            if self.some(0.8):
                consumed.append({**named, "capacity": {"memory": self.one("1Gi", "9Gi", "2500Mi")}})
        if self.some(0.05):
            whole.append({"driver": GPU, "pool": self.one("p1", "gone"), "device": self.one("d0", "d99")})
        for key, value in (
            ("allocatedDevices", whole),
            ("allocatedSharedDevices", shared),
            ("aggregatedCapacity", consumed),
        ):
            if value:
                case[key] = value
