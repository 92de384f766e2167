"""Rules about nodes: what their own files say beside what the API says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from regauge.audit.checkpoints import DriverCheckpoint, driver_checkpoint
from regauge.audit.findings import Evidence
from regauge.audit.ground import GRACE_S, Ground, Spot, mapping, seen, some
from regauge.base import InputError, Where
from regauge.model.kinds import RESOURCE_CLAIM
from regauge.model.manifest_yaml import read_yaml
from regauge.model.node_files import HostFunction, NodeFiles

_ALIGNING = ("restricted", "single-numa-node")
_DEVICE_FILES = {
    "nvidia": r"/dev/nvidia\d+",
    "amdgpu": r"/dev/kfd|/dev/dri/renderD\d+",
    "i915": r"/dev/dri/renderD\d+",
    "xe": r"/dev/dri/renderD\d+",
    "habanalabs": r"/dev/accel/accel\d+|/dev/hl\d+",
    "vfio-pci": r"/dev/vfio/(?:\d+|devices)",
}
"""The files that kernel drivers make for their devices."""
_ACCELERATORS = ("0x0302", "0x12")
"""PCI classes: 3D controllers and processing accelerators. Plain display controllers may be a server's own console."""


def topology(ground: Ground) -> Iterator[Spot]:
    """TOPOLOGY-BLIND: a kubelet aligns by NUMA node and does not see devices of claims."""
    for node, files in sorted(ground.given.nodes.items()):
        config = kubelet_config(files)
        policy = config.get("topologyManagerPolicy")
        drivers = ground.drivers_on.get(node)
        if policy in _ALIGNING and drivers:
            path = next(file.path for file in files.kubelet if file.path.endswith("/config.yaml"))
            served = some(sorted(drivers))
            what = f"the kubelet of node {node} has topologyManagerPolicy {policy}, and {served} serves claims there"
            yield Spot(
                f"Node {node}", what, (Evidence(Where(path, None, f"Node {node}", "topologyManagerPolicy"), policy),)
            )


def orphaned_claims(ground: Ground) -> Iterator[Spot]:
    """CHECKPOINT-ORPHAN: a driver has prepared a claim that the API does not have; its devices are not free for others."""
    if not ground.has(RESOURCE_CLAIM):
        return
    known = {claim.metadata.uid for _, claim in ground.claims}
    for node, files in sorted(ground.given.nodes.items()):
        for checkpoint in map(driver_checkpoint, files.checkpoints):
            if checkpoint.file.path.endswith("dra_manager_state") or checkpoint.error:
                continue
            for uid, state in sorted(checkpoint.claims.items()):
                if uid not in known:
                    yield _orphan(node, files, checkpoint, uid, state)


def not_prepared(ground: Ground) -> Iterator[Spot]:
    """KUBELET-NOT-PREPARED: a pod runs with a claim that its kubelet does not know, though it has written its state since."""
    for node in sorted(ground.given.nodes):
        cdi = ground.cdi(node)
        state = cdi.kubelet if cdi else None
        if state is None or state.error or state.file.facts is None or state.file.facts.modified_s is None:
            continue
        known, age = {one.uid for one in state.claims}, ground.given.now_s - state.file.facts.modified_s
        for document, claim in ground.claims:
            for pod in ground.users(claim) if claim.status.allocation and claim.metadata.uid not in known else ():
                started = ground.seconds_since(pod.status.start_time)
                if (
                    pod.spec.node_name != node
                    or pod.status.phase != "Running"
                    or not started
                    or started < age + GRACE_S
                ):
                    continue
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                what = f"pod {name} runs on node {node} with {document.title}, of which the kubelet there knows nothing"
                evidence = (
                    seen(document, claim.metadata.uid, "metadata.uid"),
                    Evidence(Where(state.file.path, None, f"Node {node}"), f"has {some(sorted(known)) or 'no claim'}"),
                )
                yield Spot(f"Pod {name}", what, evidence)


def _orphan(node: str, files: NodeFiles, checkpoint: DriverCheckpoint, uid: str, state: str) -> Spot:
    path = checkpoint.file.path
    driver = checkpoint.driver or "a driver"
    evidence = [Evidence(Where(path, None, f"Node {node}"), f"{uid} is {state or 'prepared'}")]
    blocked = []
    for event in files.events:
        if uid in event.message:
            blocked.append(event.regarding)
            evidence.append(Evidence(Where(object=event.regarding), f"{event.reason}: {event.message}"))
    told = f"; {some(blocked)} cannot start because of it" if blocked else ""
    return Spot(
        f"Node {node}",
        f"{driver} on node {node} has prepared claim {uid}, which the API does not have{told}",
        tuple(evidence),
        fix=f"unprepare {uid} on node {node} by the driver's means, then remove its entry from {path} while it is stopped",
    )


def driver_missing(ground: Ground) -> Iterator[Spot]:
    """DRIVER-MISSING: an accelerator is on the bus, and no kernel driver has it."""
    for node, files in sorted(ground.given.nodes.items()):
        lost = [one for one in _accelerators(files) if not one.driver]
        if lost:
            what = (
                f"no kernel driver has {len(lost)} accelerators of node {node}: {some([one.address for one in lost])}"
            )
            yield Spot(f"Node {node}", what, tuple(_function(node, one) for one in lost[:10]))


def not_discovered(ground: Ground) -> Iterator[Spot]:
    """DISCOVERY-NONE: accelerators have a kernel driver, and neither stack advertises anything on the node."""
    counted = {one.node for one in ground.inventory.counted if one.capacity}
    for node, files in sorted(ground.given.nodes.items()):
        bound = [one for one in _accelerators(files) if one.driver and not one.driver.startswith("vfio")]
        if bound and node in ground.node_names and node not in counted and not ground.drivers_on.get(node):
            what = f"node {node} has {len(bound)} accelerators with a kernel driver, and nobody advertises them"
            yield Spot(f"Node {node}", what, tuple(_function(node, one) for one in bound[:10]))


def no_device_file(ground: Ground) -> Iterator[Spot]:
    """DISCOVERY-NO-DEVICE-FILE: devices are advertised, and what a container would open is not in /dev."""
    counted = {one.node for one in ground.inventory.counted if one.capacity}
    for node, files in sorted(ground.given.nodes.items()):
        if files.device_files is None or not (ground.drivers_on.get(node) or node in counted):
            continue
        for driver, pattern in _DEVICE_FILES.items():
            bound = [one for one in _accelerators(files) if one.driver == driver]
            elsewhere = (
                path for path, facts in files.paths.items() if facts is not None
            )  # a driver with a root of its own
            if bound and not any(re.search(f"(?:{pattern})$", path) for path in (*files.device_files, *elsewhere)):
                served = some(sorted(ground.drivers_on.get(node, ())) or ["a device plugin"])
                what = (
                    f"{served} advertises devices of node {node}; {len(bound)} of driver {driver} have no file in /dev"
                )
                yield Spot(f"Node {node}", what, tuple(_function(node, one) for one in bound[:10]))


def kubelet_config(files: NodeFiles) -> Mapping[str, Any]:
    """The kubelet's configuration file; empty where it was not read or is no configuration."""
    for file in files.kubelet:
        if file.path.endswith("/config.yaml") and file.data is not None:
            try:
                return mapping(next((value for value, _, _ in read_yaml(file.data, file.path)), None))
            except InputError:
                return {}
    return {}


def _accelerators(files: NodeFiles) -> list[HostFunction]:
    return [one for one in files.functions if one.class_code.startswith(_ACCELERATORS)]


def _function(node: str, one: HostFunction) -> Evidence:
    told = f"vendor {one.vendor}, device {one.device}, class {one.class_code}, driver {one.driver or 'none'}"
    return Evidence(Where(object=f"Node {node}", field=one.address), told)
