"""Small random clusters with one pod that waits: cases for the reference scheduler. The same seed, the same case."""

from __future__ import annotations

import random
from typing import Any

Document = dict[str, Any]
DRIVER, CLASS, RESOURCE = "gpu.example.com", "gpu", "example.com/gpu"
ZONES, APPS, KEYS = ("a", "b"), ("web", "db"), ("kubernetes.io/hostname", "zone")


class Maker:
    """Draws one case."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.uids = 0

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def uid(self) -> str:
        self.uids += 1
        return f"00000000-0000-4000-8000-{self.uids:012d}"

    def metadata(self, name: str, **more: Any) -> Document:
        return {"name": name, "uid": self.uid(), "resourceVersion": "1", **more}

    def case(self) -> Document:
        names = [f"n{index}" for index in range(self.chance.randint(1, 6))]
        objects = [self.node(name) for name in names]
        objects += [{"apiVersion": "v1", "kind": "Namespace", "metadata": self.metadata("default")}]
        bridge = self.maybe(0.4)
        if self.maybe(0.9):
            objects.append(self.device_class(bridge))
        counts = {name: self.chance.randint(1, 3) for name in names if self.maybe(0.7)}
        objects += [self.slice(name, count) for name, count in counts.items()]
        objects += [self.placed(index, names) for index in range(self.chance.randint(0, 6))]
        pod, claims = self.waiting(counts)
        return {"name": str(self.seed), "objects": [*objects, *claims], "pod": pod}

    def node(self, name: str) -> Document:
        labels = {"kubernetes.io/hostname": name}
        if self.maybe(0.8):
            labels["zone"] = self.chance.choice(ZONES)
        spec: Document = {}
        if self.maybe(0.1):
            spec["unschedulable"] = True
        if self.maybe(0.2):
            effect = self.chance.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
            spec["taints"] = [{"key": "k", "value": self.chance.choice("xy"), "effect": effect}]
        room = {"cpu": self.chance.choice(["2", "4", "8"]), "memory": "8Gi", "ephemeral-storage": "10Gi"}
        room["pods"] = self.chance.choice(["2", "110", "110", "110"])
        if self.maybe(0.25):
            room[RESOURCE] = self.chance.choice(["0", "1", "2"])
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": self.metadata(name, labels=labels),
            "spec": spec,
            "status": {"allocatable": room, "capacity": room},
        }

    def device_class(self, bridge: bool) -> Document:
        spec: Document = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
        if bridge:
            spec["extendedResourceName"] = RESOURCE
        metadata = self.metadata(CLASS, creationTimestamp="2026-01-01T00:00:00Z")
        return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}

    def slice(self, name: str, count: int) -> Document:
        devices = [
            {"name": f"gpu-{index}", "attributes": {"model": {"string": self.chance.choice("AB")}}}
            for index in range(count)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        metadata = self.metadata(f"{name}-gpu")
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}

    def requests(self) -> Document:
        found: Document = {}
        if self.maybe(0.7):
            found["cpu"] = self.chance.choice(["100m", "500m", "1", "3"])
        if self.maybe(0.5):
            found["memory"] = self.chance.choice(["1Gi", "1Gi", "3Gi", "9Gi"])
        return found

    def container(self, name: str, extended: float) -> Document:
        requests = self.requests()
        limits: Document = {}
        if self.maybe(extended):
            limits[RESOURCE] = requests[RESOURCE] = self.chance.choice(["1", "2"])
        made: Document = {"name": name, "image": "x", "resources": {"requests": requests, "limits": limits}}
        if self.maybe(0.1):
            made["ports"] = [{"containerPort": 80, "hostPort": self.chance.choice([80, 81]), "protocol": "TCP"}]
        return made

    def labels(self) -> Document:
        return {"app": self.chance.choice(APPS)}

    def selector(self) -> Document:
        return {"matchLabels": {"app": self.chance.choice(APPS)}}

    def affinity(self, share: float) -> Document:
        found: Document = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self.maybe(share):
                term = {"topologyKey": self.chance.choice(KEYS), "labelSelector": self.selector()}
                if self.maybe(0.5):
                    found[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                else:
                    soft = {"weight": self.chance.choice([1, 50]), "podAffinityTerm": term}
                    found[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": [soft]}
        return found

    def node_affinity(self) -> Document:
        zone = {"key": "zone", "operator": self.chance.choice(["In", "NotIn"]), "values": [self.chance.choice(ZONES)]}
        name = {"key": "metadata.name", "operator": "In", "values": [self.chance.choice(["n0", "n1", "n9"])]}
        term: Document = {"matchFields": [name]} if self.maybe(0.3) else {"matchExpressions": [zone]}
        if self.maybe(0.6):
            return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        preferred = {"weight": 10, "preference": {"matchExpressions": [zone]}}
        return {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}

    def placed(self, index: int, names: list[str]) -> Document:
        spec: Document = {
            "nodeName": self.chance.choice(names),
            "schedulerName": "default-scheduler",
            "containers": [self.container("main", 0.1)],
            "priority": self.chance.choice([0, 10]),
        }
        affinity = self.affinity(0.15)
        if affinity:
            spec["affinity"] = affinity
        metadata = self.metadata(f"there{index}", namespace="default", labels=self.labels())
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    def waiting(self, counts: dict[str, int]) -> tuple[Document, list[Document]]:
        spec: Document = {
            "schedulerName": "default-scheduler",
            "containers": [self.container(f"c{index}", 0.2) for index in range(self.chance.randint(1, 2))],
            "priority": 10,
        }
        if self.maybe(0.2):
            spec["initContainers"] = [self.container("init", 0.3)]
            spec["initContainers"][0].pop("ports", None)
            if self.maybe(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if self.maybe(0.2):
            spec["overhead"] = {"cpu": "250m"}
        if self.maybe(0.3):
            spec["tolerations"] = [{"key": "k", "operator": "Equal", "value": "x", "effect": ""}]
        if self.maybe(0.1):
            spec["nodeSelector"] = {"zone": self.chance.choice(ZONES)}
        affinity = self.affinity(0.2)
        if self.maybe(0.25):
            affinity["nodeAffinity"] = self.node_affinity()
        if affinity:
            spec["affinity"] = affinity
        if self.maybe(0.25):
            spec["topologySpreadConstraints"] = [self.spread()]
        metadata = self.metadata("p", namespace="default", labels=self.labels())
        claims = self.claims(spec, counts) if self.maybe(0.5) else []
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        return pod, claims

    def spread(self) -> Document:
        return {
            "maxSkew": self.chance.choice([1, 2]),
            "topologyKey": self.chance.choice(KEYS),
            "whenUnsatisfiable": self.chance.choice(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": self.selector(),
        }

    def claims(self, spec: Document, counts: dict[str, int]) -> list[Document]:
        """One or two named claims of the pod; the first may be allocated already, other claims may hold devices."""
        made = []
        spec["resourceClaims"] = []
        for index in range(self.chance.randint(1, 2)):
            name = f"c{index}"
            spec["resourceClaims"].append({"name": name, "resourceClaimName": name})
            spec["containers"][0]["resources"].setdefault("claims", []).append({"name": name})
            made.append(self.claim(name))
        taken = [(node, f"gpu-{index}") for node, count in counts.items() for index in range(count) if self.maybe(0.3)]
        for index, (node, device) in enumerate(taken):
            own = index == 0 and self.maybe(0.3)
            claim = made[0] if own else self.claim(f"other{index}")
            claim["spec"] = self.wants(1)
            claim["status"] = self.allocated(node, device)
            if not own:
                made.append(claim)
        return made

    def wants(self, count: int, selector: str = "") -> Document:
        exactly: Document = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
        if selector:
            exactly["selectors"] = [{"cel": {"expression": selector}}]
        return {"devices": {"requests": [{"name": "g", "exactly": exactly}]}}

    def claim(self, name: str) -> Document:
        model = self.chance.choice(["", "", 'device.attributes["gpu.example.com"].model == "A"'])
        if self.maybe(0.05):
            model = 'device.attributes["gpu.example.com"].nope == "A"'
        spec = self.wants(self.chance.choice([1, 1, 2]), model)
        if self.maybe(0.2):
            alternatives = [
                {"name": f"s{count}", "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
                for count in (2, 1)
            ]
            spec = {"devices": {"requests": [{"name": "g", "firstAvailable": alternatives}]}}
        metadata = self.metadata(name, namespace="default")
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}

    def allocated(self, node: str, device: str) -> Document:
        where = {"key": "metadata.name", "operator": "In", "values": [node]}
        result = {"request": "g", "driver": DRIVER, "pool": node, "device": device}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [where]}]},
        }
        return {"allocation": allocation}


def random_case(seed: int) -> Document:
    """One case."""
    return Maker(seed).case()


CAPACITY = "cores"
AMOUNTS = {"cpu": ("500m", "1", "3"), "memory": ("512Mi", "1Gi", "3G"), "hugepages-2Mi": ("2Mi", "64Mi")}


class MappedMaker(Maker):
    """Draws a case whose devices stand for resources of their nodes, or burden them (the form of 1.37)."""

    def amounts(self) -> Document:
        return {name: self.chance.choice(values) for name, values in AMOUNTS.items() if self.maybe(0.5)}

    def node(self, name: str) -> Document:
        made = super().node(name)
        room = made["status"]["allocatable"]
        room.update(cpu=self.chance.choice(["4", "16"]), memory=self.chance.choice(["8Gi", "64Gi"]), pods="110")
        if self.maybe(0.8):
            room["hugepages-2Mi"] = self.chance.choice(["64Mi", "1Gi"])
        if self.maybe(0.8):
            made["spec"] = {}
        if self.maybe(0.5):
            made["status"]["declaredFeatures"] = ["DRAOptionalNodeOperations"]
        return made

    def slice(self, name: str, count: int) -> Document:
        made = super().slice(name, count)
        shape = self.chance.random()
        for device in made["spec"]["devices"]:
            shared = shape < 0.3
            if shared:
                device["allowMultipleAllocations"] = True
                device["capacity"] = {CAPACITY: {"value": "8"}}
            if self.maybe(0.8):
                device["nodeAllocatableResources"] = self.taken(shared)
            if shape > 0.85:
                device.update(self.chance.choice([{"nodeName": name}, {"allNodes": True}, {"nodeName": "n0"}]))
        if shape > 0.85:
            del made["spec"]["nodeName"]
            made["spec"]["perDeviceNodeSelection"] = True
        elif shape > 0.75:
            del made["spec"]["nodeName"]
            made["spec"]["allNodes"] = True
        return made

    def taken(self, shared: bool) -> Document:
        found: Document = {}
        for name, amount in self.amounts().items():
            entry: Document = {}
            if self.maybe(0.6):
                entry["mapping"] = {"deviceMultiplier": amount}
                if self.maybe(0.9 if shared else 0.03):
                    multiplier = self.chance.choice(["1", "2", "250m"])
                    entry["mapping"] = {"capacityKey": CAPACITY, "capacityMultiplier": multiplier}
            if self.maybe(0.4) or not entry:
                parts = {"perPod": amount, "perContainer": self.chance.choice(AMOUNTS[name])}
                entry["overhead"] = dict(self.chance.sample(sorted(parts.items()), self.chance.randint(1, 2)))
            found[name] = entry
        return found

    def placed(self, index: int, names: list[str]) -> Document:
        made = super().placed(index, names)
        if self.maybe(0.4):
            status = {"resourceClaimName": f"gone{index}", "containers": ["main"]}
            mapping = [{"name": name, "quantity": amount} for name, amount in self.amounts().items()]
            overhead = [{"name": name, "perPod": one, "perContainer": one} for name, one in self.amounts().items()]
            made["status"]["nodeAllocatableResourceClaimStatuses"] = [
                {**status, "mapping": mapping, "overhead": overhead}
            ]
        return made

    def waiting(self, counts: dict[str, int]) -> tuple[Document, list[Document]]:
        pod, claims = super().waiting(counts)
        spec = pod["spec"]
        if not claims:
            claims = self.claims(spec, counts)
        everyone = [*spec.get("initContainers", ()), *spec["containers"]]
        for entry in spec["resourceClaims"]:
            for container in everyone:
                known = container["resources"].setdefault("claims", [])
                known[:] = [one for one in known if one["name"] != entry["name"]]
                if self.maybe(0.5):
                    known.append({"name": entry["name"]})
        for container in everyone:
            for name, amount in self.amounts().items() if self.maybe(0.3) else ():
                container["resources"]["limits"][name] = container["resources"]["requests"][name] = amount
        if self.maybe(0.3):
            spec["resources"] = {
                kind: {"cpu": self.chance.choice(["1", "4"]), "memory": self.chance.choice(["2Gi", "9Gi"])}
                for kind in ("requests", "limits")
                if self.maybe(0.6)
            }
            for kind in spec["resources"].values():
                if self.maybe(0.3):
                    kind["hugepages-2Mi"] = self.chance.choice(["64Mi", "128Mi"])
        for claim in claims:
            if "status" in claim and self.maybe(0.15):
                other = {"resource": "pods", "name": "there0", "uid": "00000000-0000-4000-8000-999999999999"}
                claim["status"]["reservedFor"] = [other]
        return pod, claims

    def allocated(self, node: str, device: str) -> Document:
        made = super().allocated(node, device)
        if self.maybe(0.3):
            made["allocation"]["devices"]["results"][0]["consumedCapacity"] = {CAPACITY: self.chance.choice("24")}
        if self.maybe(0.1):
            made["allocation"]["devices"]["results"][0]["device"] = "gone"
        if self.maybe(0.2):
            made["allocation"]["devices"]["results"][0]["skipNodeOperations"] = ["NodePrepareResources"]
        if self.maybe(0.2):
            del made["allocation"]["nodeSelector"]
        return made


def random_mapped_case(seed: int) -> Document:
    """A case with devices that take of their node's own resources."""
    return MappedMaker(seed).case()
