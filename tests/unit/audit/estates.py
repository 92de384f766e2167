"""Estates for the tests of the rules: fixtures in tests/fixtures/audit, one for each code, with a bad and a good side."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regauge.audit import AuditInput, OwnerPolicy
from regauge.base import Where
from regauge.collect import Estate, reports_of
from regauge.features import rules
from regauge.model import Document, Snapshot
from regauge.model.manifest_yaml import read_yaml
from regauge.model.node_files import HostFunction, NodeDirectory, NodeEvent, NodeFile, NodeFiles, PathFacts

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "audit"
NOW_S = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()
KUBELET = "/var/lib/kubelet"


def fixture(code: str, side: str) -> AuditInput:
    """The bad or the good side of a rule's fixture."""
    path = FIXTURES / f"{code}.yaml"
    content = next(value for value, _, _ in read_yaml(path.read_bytes(), path.name))
    objects = [*content.get("both", []), *content.get(side, [])]
    given = {**content.get("given", {}), **content.get(f"{side}Given", {})}
    documents = [Document(one, Where(path.name, number)) for number, one in enumerate(objects, 1)]
    return estate_of(documents, given)


def estate_of(documents: list[Document], given: Mapping[str, Any]) -> AuditInput:
    """An input of objects and of what a fixture says beside them."""
    nodes = {name: node_files(name, facts) for name, facts in given.get("nodes", {}).items()}
    snapshot = Snapshot.of(documents)
    return AuditInput(
        snapshot,
        rules(given.get("kubeVersion", "1.36"), given.get("featureGates", {})),
        "fixture",
        NOW_S,
        nodes,
        reports_of(Estate(snapshot, "fixture", nodes=nodes)),
        given.get("serverVersion", "v1.36.3"),
        rules(given["to"]) if "to" in given else None,
        OwnerPolicy(
            **{
                key: tuple(value) if isinstance(value, list) else value
                for key, value in given.get("policy", {}).items()
            }
        ),
    )


def node_files(name: str, facts: Mapping[str, Any]) -> NodeFiles:
    kubelet = []
    if "kubelet" in facts:
        kubelet.append(NodeFile(f"{KUBELET}/config.yaml", json.dumps(facts["kubelet"]).encode()))
    if "plugin" in facts:
        data = {"PodDeviceEntries": facts.get("holds"), "RegisteredDevices": facts["plugin"]}
        registered = {"Data": data, "Checksum": 0}
        path = f"{KUBELET}/device-plugins/kubelet_internal_checkpoint"
        kubelet.append(NodeFile(path, json.dumps(registered).encode()))
    checkpoints = tuple(
        NodeFile(path, json.dumps(content).encode()) for path, content in facts.get("checkpoints", {}).items()
    )
    if "kubeletClaims" in facts:
        checkpoints += (kubelet_claims(facts["kubeletClaims"]),)
    specs = tuple(
        NodeFile(f"/var/run/cdi/{name}", json.dumps(one).encode()) for name, one in facts.get("specs", {}).items()
    )
    units = tuple(
        NodeFile(path, one["text"].encode(), PathFacts("file", one.get("mode", 0o644), one.get("uid", 0), 0))
        for path, one in facts.get("units", {}).items()
    )
    paths = {path: PathFacts("char", 0o666, 0, 0) for path in facts.get("paths", [])}
    return NodeFiles(
        name,
        spec_directories=(NodeDirectory("/var/run/cdi", "/run/cdi", True, specs),) if specs else (),
        boot_time_s=1.0,
        all_paths=True,
        paths=paths,
        kubelet=tuple(kubelet),
        checkpoints=checkpoints,
        events=tuple(NodeEvent(**one) for one in facts.get("events", [])),
        functions=tuple(HostFunction(**one) for one in facts.get("functions", [])),
        configs=tuple(NodeFile(path, text.encode()) for path, text in facts.get("configs", {}).items()),
        units=units,
        device_files=tuple(facts["deviceFiles"]) if "deviceFiles" in facts else None,
        vm_runtimes=facts.get("vmRuntimes", {}),
    )


def kubelet_claims(claims: list[dict[str, Any]]) -> NodeFile:
    """The kubelet's state of claims: uid, namespace, name, driver and CDI devices of each."""
    listed = [
        {
            "ClaimUID": one["uid"],
            "ClaimName": one["name"],
            "Namespace": one["namespace"],
            "PodUIDs": {},
            "DriverState": {
                one["driver"]: {"Devices": [{"PoolName": "p", "DeviceName": "d", "CDIDeviceIDs": one["cdi"]}]}
            },
        }
        for one in claims
    ]
    text = json.dumps({"kind": "DRACheckpointData", "ClaimInfoStateList": listed})
    data = json.dumps({"Data": text, "Checksum": zlib.crc32(text.encode())}).encode()
    return NodeFile(f"{KUBELET}/dra_manager_state", data, PathFacts("file", 0o600, 0, 0, NOW_S - 60))
