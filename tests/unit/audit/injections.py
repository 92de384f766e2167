"""For every rule about an estate a fault as it gets into a cluster: written to an API server, or told by a node.

`HEALTHY` is what the cluster has before. A fault is objects to write (the status, too), facts of nodes and versions beside
them, and objects of kinds that this API server does not serve. `also`: what follows from the same fault. A fault that an API
server refuses is in `REFUSED`: it comes from manifests, or from what another version has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
DRIVER, NODE, SPACE = "gpu.example.com", "n1", "team-a"
RBAC = "rbac.authorization.k8s.io"
MODEL = f'device.driver == "{DRIVER}"'


@dataclass(frozen=True)
class Fault:
    objects: tuple[Object, ...] = ()
    also: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[Object, ...] = ()
    gates: Mapping[str, bool] = field(default_factory=dict)


def thing(version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def node(name: str, labels: Object | None = None, kubelet: str = "v1.36.2", **counted: str) -> Object:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **counted}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}],
              "nodeInfo": {**dict.fromkeys(("architecture", "bootID", "kernelVersion", "kubeProxyVersion", "machineID",
                           "operatingSystem", "osImage", "systemUUID"), "x"), "kubeletVersion": kubelet,
                           "containerRuntimeVersion": "containerd://2.1.4"}}  # fmt: skip
    return thing("v1", "Node", name, metadata={"labels": labels or {}}, status=status)


def device(name: str, **rest: Any) -> Object:
    attributes = {"uuid": {"string": f"GPU-{name}"}, **rest.pop("attributes", {})}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **rest}


def resource_slice(name: str, *devices: Object, pool: str = NODE, node: str = NODE, generation: int = 1, count: int = 1,
                   driver: str = DRIVER) -> Object:  # fmt: skip
    of = {"name": pool, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": driver, "nodeName": node, "pool": of, "devices": list(devices)}
    return thing("resource.k8s.io/v1", "ResourceSlice", name, spec=spec)


def device_class(name: str, *expressions: str, **spec: Any) -> Object:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return thing("resource.k8s.io/v1", "DeviceClass", name, spec={"selectors": selectors, **spec})


def request(**more: Any) -> Object:
    return {"name": "gpu", "exactly": {"deviceClassName": "big", "allocationMode": "ExactCount", "count": 1, **more}}


def claim(name: str, held: str = "", *, pods: tuple[str, ...] = (), namespace: str = SPACE, on: str = NODE,
          metadata: Object | None = None, config: Any = (), result: Any = (), **status: Any) -> Object:  # fmt: skip
    """A claim; `held` is the device that is allocated, `pods` those for which it is reserved (names, or name=uid)."""
    spec = {"devices": {"requests": [request()], **({"config": list(config)} if config else {})}}
    told: Object = dict(status)
    if held:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]
        one = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": held, **dict(result)}
        taken = [{"source": "FromClaim", **of} for of in config]
        told["allocation"] = {"devices": {"results": [one], **({"config": taken} if taken else {})},
                              "nodeSelector": {"nodeSelectorTerms": terms}}  # fmt: skip
        told["reservedFor"] = [{"resource": "pods", "name": one.partition("=")[0],
                                "uid": one.partition("=")[2] or f"UID:Pod/{namespace}/{one}"} for one in pods]  # fmt: skip
    meta = {"finalizers": ["resource.kubernetes.io/delete-protection"] if held else [], **(metadata or {})}
    return thing("resource.k8s.io/v1", "ResourceClaim", name, namespace, metadata=meta, spec=spec, status=told)


def pod(name: str, claim_name: str = "", *, namespace: str = SPACE, on: str = NODE, phase: str = "Running", counted: str = "",
        template: str = "", status: Object | None = None, owner: Object | None = None, **spec: Any) -> Object:  # fmt: skip
    container: Object = {"name": "c", "image": "x"}
    if counted:
        container["resources"] = {"limits": {counted: "1"}, "requests": {counted: "1"}}
    if claim_name or template:
        container["resources"] = {"claims": [{"name": "gpu"}]}
        how = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim_name}
        spec["resourceClaims"] = [{"name": "gpu", **how}]
    if on:
        spec["nodeName"] = on
    metadata = {"ownerReferences": [owner]} if owner else {}
    return thing("v1", "Pod", name, namespace, metadata=metadata, spec={"containers": [container], **spec},
                 status={"phase": phase, **(status or {})})  # fmt: skip


def daemon_set(name: str, image: str = "registry.example.com/d@sha256:" + "0" * 64, paths: tuple[str, ...] = (),
               context: Object | None = None, account: str = "driver") -> Object:  # fmt: skip
    mounted = ("/var/lib/kubelet/plugins", *paths)
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in enumerate(mounted)]
    mounts = [{"name": f"v{number}", "mountPath": f"/m{number}"} for number in range(len(mounted))]
    container = {
        "name": "c",
        "image": image,
        "volumeMounts": mounts,
        **({"securityContext": context} if context else {}),
    }
    template = {"metadata": {"labels": {"app": name}},
                "spec": {"serviceAccountName": account, "containers": [container], "volumes": volumes}}  # fmt: skip
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return thing("apps/v1", "DaemonSet", name, "gpu-system", spec=spec)


def deployment(name: str, replicas: int = 1, labels: Object | None = None, **spec: Any) -> Object:
    spec.setdefault("containers", [{"name": "c", "image": "x"}])
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return thing("apps/v1", "Deployment", name, SPACE,
                 spec={"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template})  # fmt: skip


def rights(*rules: Object, to: Object | None = None, namespace: str = "") -> tuple[Object, Object]:
    """A role with rules, and its binding: by default to the group team-a everywhere."""
    subject = to or {"kind": "Group", "name": SPACE, "apiGroup": RBAC}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return (
        thing(f"{RBAC}/v1", "ClusterRole", "r", rules=list(rules)),
        thing(f"{RBAC}/v1", kind, "r", namespace, roleRef=reference, subjects=[subject]),
    )


def rule(group: str, resources: str, *verbs: str, **more: Any) -> Object:
    return {"apiGroups": [group], "resources": resources.split(","), "verbs": list(verbs), **more}


def event(reason: str, message: str, count: int) -> Object:
    about = {"kind": "Pod", "apiVersion": "v1", "namespace": SPACE, "name": "late", "uid": f"UID:Pod/{SPACE}/late"}
    return thing("v1", "Event", f"late.{reason.lower()}", SPACE, involvedObject=about, reason=reason, message=message,
                 count=count, type="Warning", firstTimestamp="2026-11-29T08:10:00Z",
                 lastTimestamp="2026-11-29T11:50:00Z")  # fmt: skip


def quota(**hard: str) -> Object:
    return thing("v1", "ResourceQuota", "q", SPACE, spec={"hard": hard})


ACCOUNT = {"kind": "ServiceAccount", "name": "driver", "namespace": "gpu-system"}
ACCELERATOR = {"address": "0000:01:00.0", "vendor": "0x10de", "device": "0x2330", "class_code": "0x030200"}


def function(address: str, driver: str, group: str = "", **more: str) -> Object:
    return {**ACCELERATOR, "address": address, "driver": driver, "iommu_group": group, **more}


def on_node(**facts: Any) -> Mapping[str, Any]:
    return {"nodes": {NODE: facts}}


def spec_of(*paths: str) -> Object:
    edits = {"deviceNodes": [{"path": path} for path in paths]}
    one = {"cdiVersion": "0.5.0", "kind": "example.com/gpu", "devices": [{"name": "g0", "containerEdits": edits}]}
    return {"specs": {"a.json": one}, "paths": list(paths)}


def unit(mode: int, *lines: str) -> Object:
    text = "\n".join(("[Service]", "ExecStart=/usr/bin/acme-ctk cdi generate", *lines))
    return {"units": {"/etc/systemd/system/acme-cdi-refresh.service": {"text": text, "mode": mode}}}


HEALTHY: tuple[Object, ...] = (
    thing("v1", "Namespace", SPACE),
    thing("v1", "Namespace", "team-b"),
    thing("v1", "Namespace", "gpu-system"),
    node(NODE),
    resource_slice("s", device("g0"), device("g1"), device("g2")),
    device_class("big", MODEL),
    thing(
        "resource.k8s.io/v1", "ResourceClaimTemplate", "t", SPACE, spec={"spec": {"devices": {"requests": [request()]}}}
    ),
    pod("train", "w"),
    claim("w", "g0", pods=("train",)),
    daemon_set("driver"),
)
SHARE = "00000000-0000-4000-8000-00000000000"


def shared(name: str, namespace: str, number: int) -> Object:
    result = {"shareID": f"{SHARE}{number}", "consumedCapacity": {"memory": "1Gi"}}
    return claim(name, "s0", pods=(name,), namespace=namespace, result=result)


def replicas(namespace: str) -> Object:
    return pod(f"counted-{namespace}", namespace=namespace, counted="example.com/gpu")


def faults() -> Iterator[tuple[str, Fault]]:
    yield from _of_owners()
    yield from _of_classes()
    yield from _of_claims()
    yield from _of_slices()
    yield from _of_versions()
    yield from _of_nodes()
    yield from _of_threats()
    yield from _of_drivers()
    yield from _of_rights()


def _of_owners() -> Iterator[tuple[str, Fault]]:
    counted = node("n2", **{"example.com/gpu": "1"})
    mine = resource_slice("two", device("x0"), pool="n2", node="n2")
    listed = {"nodes": {"n2": {"plugin": {"example.com/gpu": ["GPU-x0"]}}}}
    yield "OWN-TWICE", Fault((counted, mine), given=listed)
    named = device_class("named", MODEL, extendedResourceName="example.com/gpu")
    yield (
        "OWN-SAME-NAME",
        Fault((counted, mine, named), given={"nodes": {"n2": {"plugin": {"example.com/gpu": ["other"]}}}}),
    )
    pair = (device_class("one", MODEL, extendedResourceName="example.com/a"),
            device_class("two", MODEL, extendedResourceName="example.com/a"))  # fmt: skip
    yield "CLASS-SHARED-NAME", Fault(pair)


def _of_classes() -> Iterator[tuple[str, Fault]]:
    yield "CLASS-FAILS", Fault((device_class("c", f'device.attributes["{DRIVER}"].nothing == "x"'),))
    yield "CLASS-UNGUARDED", Fault((device_class("c", f'device.attributes["{DRIVER}"].uuid == "GPU-g1"'),))
    yield "CLASS-MATCHES-NOTHING", Fault((device_class("c", 'device.driver == "gone.example.com"'),))
    failing = {"cel": {"expression": f'device.attributes["{DRIVER}"].fw == "x"'}}
    asking = claim("picky")
    asking["spec"]["devices"]["requests"] = [request(selectors=[failing])]
    yield "REQUEST-FAILS", Fault((asking,))
    guarded = {"cel": {"expression": f'"fw" in device.attributes["{DRIVER}"]'}}
    asking = claim("picky")
    asking["spec"]["devices"]["requests"] = [request(selectors=[guarded])]
    yield "REQUEST-MATCHES-NOTHING", Fault((asking,))
    yield "CLASS-ALWAYS-FALSE", Fault((device_class("c", '"a" == "b"'),))
    yield "CLASS-OVER-BROAD", Fault((device_class("c"),))


def _of_claims() -> Iterator[tuple[str, Fault]]:
    impossible = claim("late")
    impossible["spec"]["devices"]["requests"] = [request(count=9)]
    yield "CLAIM-STUCK", Fault((impossible, pod("late", "late", on="", phase="Pending")))
    yield "CLAIM-NOT-CREATED", Fault((pod("late", template="gone", on="", phase="Pending"),))
    yield "CLAIM-RESERVED-BY-DEAD", Fault((claim("dead", "g1", pods=("gone=0-0-0",)),))
    yield "CLAIM-IDLE", Fault((claim("idle", "g1"),))
    yield "CLAIM-BYPASSED", Fault((claim("late"), pod("late", "late", phase="Pending")))
    yield (
        "CLAIM-NODE-NAMED",
        Fault((deployment("d", nodeName=NODE, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]),)),
    )
    yield (
        "CLAIM-UNPROTECTED",
        Fault((claim("bare", "g1", pods=("bare",), metadata={"finalizers": []}), pod("bare", "bare"))),
    )
    many = tuple(f"p{number}=u-{number}" for number in range(256))
    yield "CLAIM-FULL", Fault((claim("full", "g1", pods=many),), also=("CLAIM-RESERVED-BY-DEAD",))
    using = [{"name": "g", "resourceClaimName": "w"}]
    yield "CLAIM-TOO-WIDE", Fault((deployment("wide", 300, resourceClaims=using),))
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}]}}  # fmt: skip
    yield "CLAIM-APART", Fault((deployment("apart", 2, resourceClaims=using, affinity=apart),))
    yield (
        "CLAIM-NODE-GONE",
        Fault((claim("lost", "g1", pods=("lost",), on="gone"), pod("lost", "lost", on="", phase="Pending"))),
    )
    yield "CLAIM-DEVICE-GONE", Fault((claim("lost", "g9", pods=("lost",)), pod("lost", "lost")))
    failing = (claim("late", "g1", pods=("late",)), pod("late", "late", phase="Pending"),
               event("FailedPrepareDynamicResources", "prepare: no such profile", 40))  # fmt: skip
    yield "PREPARE-FAILING", Fault(failing)
    config = ({"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "a/v1", "kind": "B"}}},)
    yield "CLAIM-CONFIG", Fault((claim("set", config=config),))
    selecting = [{"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu": "1"}}}]
    yield (
        "WORKLOAD-BY-LABELS",
        Fault((deployment("d", nodeSelector={"example.com/gpu.model": "big"}, containers=selecting),)),
    )


def _of_slices() -> Iterator[tuple[str, Fault]]:
    yield "SLICE-INCOMPLETE", Fault((resource_slice("two", device("x0"), pool="p", count=2),))
    yield "SLICE-COUNTS", Fault((resource_slice("two", device("x0"), pool="p", count=2),
                                 resource_slice("three", device("x1"), pool="p", count=3))
    )  # fmt: skip
    yield "SLICE-OLD-GENERATION", Fault((resource_slice("two", device("x0"), pool="p"),
                                         resource_slice("three", device("x0"), pool="p", generation=2)))  # fmt: skip
    yield "SLICE-ORPHANED", Fault((resource_slice("two", device("x0"), pool="gone", node="gone"),))
    yield "SLICE-EMPTY", Fault((resource_slice("two", pool="p"),))
    yield "SLICE-DUPLICATE", Fault((resource_slice("two", device("x0"), pool="p", count=2),
                                    resource_slice("three", device("x0"), pool="p", count=2)))  # fmt: skip
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "ECC",
        "message": "broken",
        "lastTransitionTime": "2026-11-29T08:00:00Z",
    }
    broken = [{"driver": DRIVER, "pool": NODE, "device": "g1", "conditions": [condition]}]
    yield "HEALTH-NOT-BLOCKED", Fault((claim("sick", "g1", pods=("sick",), devices=broken), pod("sick", "sick")))
    tainted = resource_slice("two", device("x0", taints=[{"key": "a", "effect": "NoSchedule"}]), pool="p")
    yield (
        "HEALTH-TAINT-IGNORED",
        Fault((tainted,), also=("FEATURE-OFF",), given={"featureGates": {"DRADeviceTaints": False}}),
    )
    told = [{"name": "example.com/gpu", "resources": [{"resourceID": "GPU-bad", "health": "Unhealthy"}]}]
    container = {"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
    unhealthy = {"containerStatuses": [{**container, "allocatedResourcesStatus": told}]}
    yield "HEALTH-UNHEALTHY-HELD", Fault((node("n2", **{"example.com/gpu": "1"}),
                                          pod("holder", on="n2", counted="example.com/gpu", status=unhealthy)))  # fmt: skip


def _of_versions() -> Iterator[tuple[str, Fault]]:
    named = device_class("c", MODEL, extendedResourceName="example.com/a")
    yield "FEATURE-OFF", Fault((named,), given={"featureGates": {"DRAExtendedResource": False}})
    lanes = resource_slice("two", device("x0", attributes={"lanes": {"ints": [1, 2]}}), pool="p")
    on = {"DRAListTypeAttributes": True}
    yield "FEATURE-ALPHA", Fault((lanes,), given={"featureGates": on}, gates=on)
    yield "VERSION-SKEW", Fault((node("n2", kubelet="v1.30.1"),))
    yield "UPGRADE-GATE", Fault((lanes,), also=("FEATURE-ALPHA",), given={"featureGates": on, "to": "1.37"}, gates=on)
    yield "UPGRADE-SKIPS", Fault(given={"to": "1.34"})


def _of_nodes() -> Iterator[tuple[str, Fault]]:
    yield "TOPOLOGY-BLIND", Fault(given=on_node(kubelet={"topologyManagerPolicy": "single-numa-node"}))
    kept = {
        "/var/lib/kubelet/plugins/d/checkpoint.json": {"preparedClaims": {"c3c30000-0000-4000-8000-000000000001": {}}}
    }
    yield "CHECKPOINT-ORPHAN", Fault(given=on_node(checkpoints=kept))
    early = {"startTime": "2026-11-29T08:00:00Z"}
    strange = (claim("odd", "g1", pods=("odd",)), pod("odd", "odd", status=early))
    yield "KUBELET-NOT-PREPARED", Fault(strange, given=on_node(kubeletClaims=[]))
    yield "DRIVER-MISSING", Fault(given=on_node(functions=[function("0000:01:00.0", "")]))
    yield (
        "DISCOVERY-NONE",
        Fault((node("n2"),), given={"nodes": {"n2": {"functions": [function("0000:01:00.0", "nvidia")]}}}),
    )
    yield (
        "DISCOVERY-NO-DEVICE-FILE",
        Fault(given=on_node(functions=[function("0000:01:00.0", "nvidia")], deviceFiles=[])),
    )
    yield "QUOTA-OLD-NAMES", Fault((quota(**{"requests.example.com/gpu": "4"}),))
    bridged = device_class("c", MODEL, extendedResourceName="example.com/gpu")
    limited = quota(**{"requests.example.com/gpu": "4", "big.deviceclass.resource.k8s.io/devices": "4"})
    yield "QUOTA-BYPASS", Fault((limited, bridged))
    text = 'sum(kube_pod_container_resource_requests{resource="example_com_gpu"})'
    dashboard = thing("v1", "ConfigMap", "board", SPACE, data={"a.json": text})
    yield "MONITORING-BLANK", Fault((dashboard,))
    exporter = deployment("exporter", containers=[{"name": "c", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.0"}])
    of_vendor = resource_slice("two", device("x0"), pool="p", driver="gpu.nvidia.com")
    yield "MONITORING-ATTRIBUTION", Fault((exporter, of_vendor))


def _of_threats() -> Iterator[tuple[str, Fault]]:
    yield "SHARING-DOUBLE", Fault((pod("again", "again"), claim("again", "g0", pods=("again",))))
    many = resource_slice("two", device("s0", allowMultipleAllocations=True), pool="p")
    pool = {"pool": "p"}
    both = tuple(one for space, number in ((SPACE, 1), ("team-b", 2))
                 for one in (pod(f"s{number}", f"s{number}", namespace=space),
                             shared(f"s{number}", space, number)))  # fmt: skip
    for one in both:
        for result in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
            result.update(pool)
    yield "SHARING-TENANTS", Fault((many, *both))
    free = {"name": "x0", "allowMultipleAllocations": True}
    yield "SHARING-UNBOUNDED", Fault((resource_slice("two", free, pool="p"),))
    sliced = node("n2", {"example.com/gpu.sharing-strategy": "time-slicing"}, **{"example.com/gpu": "4"})
    users = tuple(
        {**replicas(space), "spec": {**replicas(space)["spec"], "nodeName": "n2"}} for space in (SPACE, "team-b")
    )
    yield "SHARING-TIME-SLICED", Fault((sliced, *users))
    config = ({"opaque": {"driver": DRIVER, "parameters": {"sharing": {"strategy": "TimeSlicing"}}}},)
    several = (claim("several", "g1", pods=("p1", "p2"), config=config), pod("p1", "several"), pod("p2", "several"))
    yield "SHARING-NO-ISOLATION", Fault(several, also=("CLAIM-CONFIG",))
    vfio = function("0000:01:00.0", "vfio-pci", "7")
    audio = function("0000:01:00.1", "snd_hda_intel", "7", class_code="0x040300")
    yield "PASSTHROUGH-NOT-VIABLE", Fault(given=on_node(functions=[vfio, audio]))
    addressed = [device(name, attributes={"resource.kubernetes.io/pciBusID": {"string": f"0000:0{number}:00.0"}})
                 for number, name in ((1, "x1"), (2, "x2"))]  # fmt: skip
    fellow = function("0000:02:00.0", "vfio-pci", "7")
    split = resource_slice("two", *addressed, pool="p")
    yield (
        "PASSTHROUGH-GROUP-SPLIT",
        Fault((split,), given=on_node(functions=[vfio, fellow], deviceFiles=["/dev/vfio/7"])),
    )
    host = function("0000:01:00.0", "nvidia", "7")
    yield "PASSTHROUGH-UNBOUND", Fault(given=on_node(functions=[host], **spec_of("/dev/vfio/7")))
    yield "PASSTHROUGH-NO-IOMMU", Fault(given=on_node(**spec_of("/dev/vfio/noiommu-0")))
    raw = deployment("vm", volumes=[{"name": "v", "hostPath": {"path": "/dev/vfio"}}])
    yield "PASSTHROUGH-HOSTPATH", Fault((raw,))
    kata = thing("node.k8s.io/v1", "RuntimeClass", "vm", handler="kata-qemu")
    inside = (kata, claim("inside", "g1", pods=("inside",)), pod("inside", "inside", runtimeClassName="vm"))
    taken = [
        {
            "uid": f"UID:ResourceClaim/{SPACE}/inside",
            "namespace": SPACE,
            "name": "inside",
            "driver": DRIVER,
            "cdi": ["example.com/gpu=g0"],
        }
    ]
    yield "KATA-DEVICE-NODES", Fault(inside, given=on_node(kubeletClaims=taken, **spec_of("/dev/nvidia0")))
    table = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]"
    toml = f"version = 3\n{table}\nruntime_type = 'io.containerd.kata.v2'\n"
    yield "KATA-HOST-DEVICES", Fault(given=on_node(configs={"/etc/containerd/config.toml": toml}))
    shared_ = (claim("inside", "g1", pods=("inside", "outside")), pod("outside", "inside"))
    yield "KATA-SHARED-CLAIM", Fault((kata, *shared_, pod("inside", "inside", runtimeClassName="vm")))


def _of_drivers() -> Iterator[tuple[str, Fault]]:
    yield "DRIVER-PRIVILEGED", Fault((daemon_set("other", context={"privileged": True}),))
    yield "DRIVER-HOSTPATH", Fault((daemon_set("other", paths=("/etc",)),))
    yield "DRIVER-UNPINNED", Fault((daemon_set("other", image="registry.example.com/d:1"),))
    everything = rule("*", "*", "*")
    yield "DRIVER-ACCOUNT", Fault(rights(everything, to=ACCOUNT))
    yield "GENERATOR-OPEN", Fault(given=on_node(**unit(0o666, "ProtectSystem=strict")))
    yield "GENERATOR-UNCONFINED", Fault(given=on_node(**unit(0o644)))
    yield "IMAGE-FOREIGN", Fault(given={"policy": {"registries": ["quay.io"]}})
    yield "IMAGE-UNSIGNED", Fault(given={"policy": {"signatures": True}})


def _of_rights() -> Iterator[tuple[str, Fault]]:
    dra = "resource.k8s.io"
    yield "ACCESS-CLASSES", Fault(rights(rule(dra, "deviceclasses", "create")))
    yield "ACCESS-SLICES", Fault(rights(rule(dra, "resourceslices", "patch")))
    yield "ACCESS-SLICES-ANY-NODE", Fault(rights(rule(dra, "resourceslices", "create", "delete"), to=ACCOUNT))
    status = rule(dra, "resourceclaims/status", "update")
    yield "ACCESS-CLAIM-STATUS", Fault(rights(status, rule(dra, "resourceclaims/binding", "update")))
    yield "DRIVER-STATUS-REFUSED", Fault(rights(status, to=ACCOUNT))
    yield "ACCESS-WILDCARD", Fault(rights(rule(dra, "resourceclaims", "*"), to=ACCOUNT))
    yield "ACCESS-EVERYTHING", Fault(rights(rule("*", "*", "*")))
    yield "ACCESS-ESCALATION", Fault(rights(rule(RBAC, "clusterroles", "escalate")))
    yield "ACCESS-DRIVERS", Fault(rights(rule("apps", "daemonsets", "patch", resourceNames=["driver"])))
    yield "ACCESS-DRIVER-INSIDE", Fault(rights(rule("", "pods/exec", "create"), namespace="gpu-system"))
    yield "ACCESS-RELEASES", Fault(rights(rule("", "secrets", "update"), namespace="gpu-system"))
    yield "ACCESS-DRIVER-CONFIG", Fault(rights(rule("config.example.com", "settings", "patch")))
    yield (
        "ACCESS-ADMIN-NAMESPACE",
        Fault(
            (
                thing(
                    "v1", "Namespace", "watchers", metadata={"labels": {"resource.kubernetes.io/admin-access": "true"}}
                ),
            )
        ),
    )
    yield "ACCESS-ADMIN-WRITABLE", Fault(rights(rule("", "namespaces", "patch")))


REFUSED: Mapping[str, Object] = {
    "CLASS-INVALID": device_class("c", 'device.drivers == "x"'),
    "CLASS-COST": device_class("c", "".join(f'device.attributes["a"].all({v}, ' for v in "xyzwvu") + "true" + ")" * 6),
    "REQUEST-INVALID": {
        **claim("c"),
        "spec": {"devices": {"requests": [request(selectors=[{"cel": {"expression": "device.memory > 3"}}])]}},
    },
    "SLICE-OVER-LIMITS": resource_slice("two", *(device(f"x{number}") for number in range(129)), pool="p"),
    "OBJECT-UNREADABLE": {**device_class("c"), "spec": {"selectors": "all"}},
}
"""What an API server does not take: it comes in manifests."""
ELSEWHERE: Mapping[str, str] = {
    "CLAIM-UNRELEASED": "a deleted object cannot be written; test_a_claim_that_is_not_let_go deletes one",
    "API-OFF": "an API server has objects in versions that it serves: it is said of manifests",
    "UPGRADE-API-GONE": "the same: objects come out of a server in the version that was asked for",
    "UPGRADE-FIELD-RENAMED": "the field is behind a gate of 1.36 that this server has off; its fixture has it",
}
