"""Writes the generated half of src/regauge/features/data from collected facts.

    make_features.py FACTS [KUBERNETES_SOURCE ...]

FACTS is a directory with readiness.json and gates_in_source.json (features and gates by Kubernetes minor, each with
its source). Each KUBERNETES_SOURCE is an unpacked `k8s.io/...` module: the names of all
its gates are collected, so that a gate which has nothing to do with devices is told apart from a misspelt one.
Without sources the names of the present file are kept. quirks.json and versions.json are written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "src" / "regauge" / "features" / "data"
STAGES = {"Alpha": "alpha", "Beta": "beta", "GA": "stable", "Deprecated": "deprecated"}
GATE_NAME = re.compile(r'\bFeature = "([A-Za-z0-9]+)"')

# Gates that left the source although their behaviour lives on: from which minor, and what stands for them now.
GONE = {
    "DRAControlPlaneController": ("1.32", "off"),
    "DevicePluginCDIDevices": ("1.36", "on"),
    "GangScheduling": ("1.37", "GenericWorkload"),
    "WorkloadAwarePreemption": ("1.37", "GenericWorkload"),
}

# Our own names and remarks; the facts (versions, gates, fields, components) come from the input.
WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "core": (
        "Claims, classes and slices: the core of DRA",
        ("Off by default up to 1.33; on since 1.34; cannot be turned off since 1.35.",),
    ),
    "classic": ("Claims decided by a driver's own controller", ("Withdrawn; gone since 1.32.",)),
    "admin_access": (
        "Access for administrators to devices in use",
        ('The namespace needs the label resource.kubernetes.io/admin-access: "true".',),
    ),
    "prioritized_list": ("Alternatives in order of preference (firstAvailable)", ()),
    "taints": (
        "Taints on devices, tolerations in requests",
        (
            "1.36: DeviceTaintRule objects need their gate and resource.k8s.io/v1beta2 in the runtime config.",
            "1.33 and 1.34: one gate covered the taints in slices and the rules.",
        ),
    ),
    "partitionable": (
        "Devices cut into overlapping partitions (shared counters)",
        ("At most 8 counter sets a slice, 32 counters a set, 64 devices a slice.",),
    ),
    "consumable_capacity": (
        "Parts of a device's capacity for several claims",
        ("Fractional ranges are on by default only where the minimum compatibility version is 1.37.",),
    ),
    "shared_consumable_capacity": ("Capacity shared between devices", ("Did not land in 1.37.",)),
    "claim_device_status": (
        "Status of allocated devices in the claim",
        ("Since 1.36 drivers need a permission of their own to write it.",),
    ),
    "health": (
        "Health of devices in the Pod status",
        ("The kubelet of 1.36 speaks v1alpha1 of the health service only.",),
    ),
    "binding_conditions": ("Devices that must become ready before the Pod is bound", ()),
    "device_metadata": ("Attributes of the device as a file in the container", ("No gate: the driver decides.",)),
    "workload_claims": ("Claims of a whole group of Pods", ()),
    "gang": (
        "Groups of Pods scheduled together",
        ("1.37 folds the gates GangScheduling and WorkloadAwarePreemption into GenericWorkload.",),
    ),
    "node_allocatable": (
        "Devices that stand for CPU, memory and the like",
        ("The field of the slice has another name and shape in 1.37 than in 1.36.",),
    ),
    "list_attributes": (
        "Attributes that are lists",
        ("1.36: selectors see the lists, constraints do not (the scheduler does not hand the gate on).",),
    ),
    "extended_resource": (
        "Extended resources served by DRA (the bridge)",
        ("One node must not offer the same name through a device plugin and through DRA.",),
    ),
    "dp_cdi": ("CDI devices in answers of device plugins", ()),
    "podresources": (
        "Claims in the kubelet's PodResources API",
        ("It names driver, pool and device; the physical identity is in the ResourceSlice.",),
    ),
    "pool_status": (
        "Asking for the free devices of a pool",
        ("Needs resource.k8s.io/v1alpha3 in the runtime config.",),
    ),
    "optional_node_ops": ("Claims that need no work on the node", ()),
    "compat_groups": ("Partitions that exclude each other by group", ()),
    "derived_attributes": ("Attributes computed for one request", ()),
    "numa_attr": ("A standard name for the NUMA node of a device", ("A convention for drivers, without gate.",)),
    "mixins": ("Shared parts of slices", ("Never landed.",)),
    "preemption": ("Preemption for the sake of devices", ("Not available up to 1.37.",)),
    "extended_resource_capacity": ("Capacity behind an extended resource", ("Planned for 1.38.",)),
    "cluster_rct": ("Claim templates for the whole cluster", ("Withdrawn.",)),
    "node_declared_features": ("Features that a node declares", ()),
}

# Posts of the Kubernetes project that announce features, with those that each names.
ANNOUNCEMENTS = {
    "https://kubernetes.io/blog/2025/09/01/kubernetes-v1-34-dra-updates/": (
        "core",
        "admin_access",
        "prioritized_list",
        "podresources",
        "extended_resource",
        "consumable_capacity",
        "binding_conditions",
    ),
    "https://kubernetes.io/blog/2026/05/07/kubernetes-v1-36-dra-136-updates/": (
        "prioritized_list",
        "extended_resource",
        "partitionable",
        "taints",
        "binding_conditions",
        "health",
        "workload_claims",
        "node_allocatable",
        "pool_status",
    ),
}

# Where the collected text is a sentence rather than the name of a field or a component.
FIELDS = {
    "device_metadata": ["metadata file of the driver (v1alpha1, v1beta1)"],
    "numa_attr": ["resource.kubernetes.io/numaNode"],
    "node_allocatable": [
        "Device.nodeAllocatableResourceMappings (1.36)",
        "Device.nodeAllocatableResources (1.37)",
        "pod.status.nodeAllocatableResourceClaimStatuses",
    ],
}
COMPONENTS = {
    "device_metadata": ["DRA driver"],
    "numa_attr": ["DRA driver"],
    "dp_cdi": ["kubelet", "container runtime"],
}


def feature_gates(readiness: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Gates named by a feature, from the table by version."""
    gates: dict[str, dict[str, Any]] = {}
    for feature in readiness["features"]:
        for name, facts in feature["gates"].items():
            specs = [
                {"since": s["version"], "stage": s["stage"], "default": s["default"], "locked": s["locked"]}
                for s in facts["specs"]
                if s["stage"] != "removed"
            ]
            gates[name] = {"specs": specs, "depends_on": [], "source": facts["source"].split(" (")[0]}
    return gates


def source_gates(in_source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Gates as the newest source that has them declares them. A default that needs a newer minimum compatibility
    version than a plain installation has (its own minor less one) is left out: there the earlier entry holds."""
    gates: dict[str, dict[str, Any]] = {}
    for version in ("1.36.3", "1.37.2"):
        for name, facts in in_source[version]["gates"].items():
            specs = [
                {
                    "since": s["version"],
                    "stage": STAGES[s["prerelease"]],
                    "default": s["default"],
                    "locked": s["lockToDefault"],
                }
                for s in facts["specs"]
                if "minCompatibilityVersion" not in s
            ]
            found = gates.get(name, {}).get("source", "").removeprefix("pkg/features/kube_features.go of ")
            where = " and ".join(part for part in (found, f"v{version}") if part)
            gates[name] = {
                "specs": specs,
                "depends_on": facts["dependsOn"],
                "source": f"pkg/features/kube_features.go of {where}",
            }
    return gates


def make_gates(readiness: dict[str, Any], in_source: dict[str, Any], other: list[str]) -> dict[str, Any]:
    """The gate table: source code wins over the collected table."""
    gates = feature_gates(readiness) | source_gates(in_source)
    for name, (minor, stands_for) in GONE.items():
        gates[name] |= {"gone": minor, "now": stands_for}
    known = set(gates)
    for gate in gates.values():
        gate["depends_on"] = [name for name in gate["depends_on"] if name in known]
    return {"gates": dict(sorted(gates.items())), "other": sorted(set(other) - known)}


def make_table(readiness: dict[str, Any]) -> list[dict[str, Any]]:
    """The extension table, in our words."""
    table = []
    for feature in readiness["features"]:
        key = feature["key"]
        title, remarks = WORDS[key]
        table.append(
            {
                "name": key.replace("_", "-"),
                "title": title,
                "kep": feature["kep"],
                "gates": list(feature["gates"]),
                "fields": FIELDS.get(key, feature["api_fields"]),
                "components": COMPONENTS.get(key) or [part.split(" (")[0] for part in feature["components"]],
                "planned": {k: v for k, v in feature["kep_yaml_milestones"].items() if v},
                "remarks": list(remarks),
                "source": f"KEP-{feature['kep']}",
                "announced": [url for url, keys in ANNOUNCEMENTS.items() if key in keys],
            }
        )
    return table


def other_names(sources: list[str]) -> list[str]:
    """Names of all gates in the given sources, or those of the present file."""
    if not sources:
        present = DATA / "gates.json"
        return json.loads(present.read_text())["other"] if present.exists() else []
    names: set[str] = set()
    for source in sources:
        for path in sorted(Path(source).rglob("*features.go")):
            names.update(GATE_NAME.findall(path.read_text()))
    return sorted(names)


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    facts = Path(arguments[0])
    readiness = json.loads((facts / "readiness.json").read_text())
    in_source = json.loads((facts / "gates_in_source.json").read_text())
    files = {
        "gates.json": make_gates(readiness, in_source, other_names(arguments[1:])),
        "features.json": make_table(readiness),
    }
    DATA.mkdir(exist_ok=True)
    for name, content in files.items():
        (DATA / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
