"""Rules about devices that are handed to a container or a virtual machine whole (VFIO): what keeps them apart from others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from regauge.audit.cdi_node import CdiNode, edits_in
from regauge.audit.estate_drivers import drivers, host_paths
from regauge.audit.findings import Evidence, Severity
from regauge.audit.ground import Ground, Spot, seen, some
from regauge.base import Where
from regauge.model.kinds import DAEMON_SET
from regauge.model.node_files import HostFunction

VFIO = "/dev/vfio"
_GROUP = re.compile(r"/dev/vfio/(\d+)")
_UNSAFE = re.compile(r"/dev/vfio/noiommu-\d+")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HARMLESS = ("", "pci-stub")
"""What may drive a function beside one that is handed over: nothing, or a driver that does nothing."""
_RAW_PATHS = ("/dev/vfio", "/sys/bus/pci", "/sys/kernel/iommu_groups")
_SYSTEM = ("kube-system",)


def not_viable(ground: Ground) -> Iterator[Spot]:
    """PASSTHROUGH-NOT-VIABLE: a group has one function for VFIO and another that a driver of the host has."""
    for node, found in _groups(ground).items():
        for group, functions in sorted(found.items()):
            ours = [one for one in functions if _for_vfio(one)]
            others = [one for one in functions if not _for_vfio(one) and one.driver not in _HARMLESS]
            if ours and others:
                what = (
                    f"IOMMU group {group} of node {node} has {some([one.address for one in ours])} for VFIO, and the host's"
                    f" own driver has {some([f'{one.address} ({one.driver})' for one in others])}"
                )
                yield Spot(f"Node {node}", what, tuple(_function(node, one) for one in functions), _addresses(ours))


def group_split(ground: Ground) -> Iterator[Spot]:
    """PASSTHROUGH-GROUP-SPLIT: devices of one IOMMU group are advertised one by one, and may go to different tenants."""
    for node, found in _groups(ground).items():
        place = _advertised(ground, node)
        for group, functions in sorted(found.items()):
            apart = [one for one in functions if _for_vfio(one) and one.address in place]
            if len(apart) < 2:
                continue
            holders = sorted({holder for one in apart for holder in place[one.address]})
            told = f", held by {some(holders)}" if holders else ""
            names = some([one.address for one in apart])
            what = f"{names} of node {node} share IOMMU group {group} and are advertised apart{told}"
            severity = Severity.ERROR if len(holders) > 1 else None
            evidence = tuple(_function(node, one) for one in apart)
            yield Spot(f"Node {node}", what, evidence, _addresses(apart), severity=severity)


def unbound(ground: Ground) -> Iterator[Spot]:
    """PASSTHROUGH-UNBOUND: a CDI spec names a VFIO group in which VFIO has no function."""
    for node, found in _groups(ground).items():
        for path, devices, file in _named(ground.cdi(node)):
            match = _GROUP.fullmatch(path)
            functions = found.get(match[1], []) if match else []
            if functions and not any(_for_vfio(one) for one in functions):
                drivers_ = some([f"{one.address} ({one.driver or 'no driver'})" for one in functions])
                what = f"{some(devices)} needs {path} of node {node}, and VFIO has none of its functions: {drivers_}"
                evidence = (
                    Evidence(Where(file, None, f"Node {node}"), path),
                    *(_function(node, one) for one in functions),
                )
                yield Spot(f"Node {node}", what, evidence, tuple(devices))


def unsafe(ground: Ground) -> Iterator[Spot]:
    """PASSTHROUGH-NO-IOMMU: a CDI spec hands over a device that no IOMMU keeps from the memory of the host."""
    for node in sorted(ground.given.nodes):
        for path, devices, file in _named(ground.cdi(node)):
            if _UNSAFE.fullmatch(path):
                what = f"{some(devices)} of node {node} is {path}: VFIO without an IOMMU"
                yield Spot(f"Node {node}", what, (Evidence(Where(file, None, f"Node {node}"), path),), tuple(devices))


def past_claims(ground: Ground) -> Iterator[Spot]:
    """PASSTHROUGH-HOSTPATH: a workload mounts VFIO or the PCI bus from the host, past plugins and claims."""
    own = {one.document.title for one in drivers(ground)}
    for document, spec in ground.workloads:
        agent = document.kind == DAEMON_SET.kind
        if document.title in own or (agent and document.namespace in _SYSTEM):
            continue
        raw = {name: path for name, path in host_paths(spec).items() if _is_raw(path) or (path == "/dev" and not agent)}
        if raw:
            what = f"{document.title} mounts {some(list(raw.values()))} of its host"
            yield Spot(
                document.title,
                what,
                tuple(seen(document, path, f"volumes[{name}].hostPath") for name, path in raw.items()),
            )


def _is_raw(path: str) -> bool:
    return path.rstrip("/") in _RAW_PATHS or path.startswith((f"{VFIO}/", "/sys/bus/pci/"))


def _groups(ground: Ground) -> Mapping[str, Mapping[str, list[HostFunction]]]:
    """The functions of each IOMMU group of each node."""
    every = {}
    for node, files in sorted(ground.given.nodes.items()):
        found: dict[str, list[HostFunction]] = defaultdict(list)
        for one in files.functions:
            if one.iommu_group:
                found[one.iommu_group].append(one)
        every[node] = found
    return every


def _advertised(ground: Ground, node: str) -> Mapping[str, tuple[str, ...]]:
    """The PCI addresses that a node advertises one by one, with those who hold them."""
    found: dict[str, tuple[str, ...]] = {}
    for device in ground.inventory.devices:
        if device.node == node:
            found.update(dict.fromkeys(_ADDRESS.findall(device.identity.lower()), device.holders))
    for key, device_node in ground.nodes_of_devices.items():
        for name, value in ground.devices[key].attributes.items() if device_node == node else ():
            if name.rpartition("/")[2] == "pciBusID" and value.string_value:
                found[value.string_value.lower()] = tuple(one.title for one, _ in ground.holders.get(key, ()))
    return found


def _named(node: CdiNode | None) -> Iterator[tuple[str, list[str], str]]:
    """(path, devices, file) for every VFIO node that a spec of the node names."""
    for file in node.catalog.files if node else ():
        for edits, devices, _ in edits_in(file):
            for one in edits.device_nodes:
                path = one.host_path or one.path
                if path.startswith(f"{VFIO}/"):
                    yield path, list(devices), file.path


def _for_vfio(one: HostFunction) -> bool:
    return one.driver.startswith("vfio")


def _addresses(functions: list[HostFunction]) -> tuple[str, ...]:
    return tuple(one.address for one in functions)


def _function(node: str, one: HostFunction) -> Evidence:
    told = f"IOMMU group {one.iommu_group}, driver {one.driver or 'none'}, class {one.class_code}"
    return Evidence(Where(object=f"Node {node}", field=one.address), told)
