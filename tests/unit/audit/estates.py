"""Estates for the tests of the rules: fixtures in tests/fixtures/audit, one for each code, with a bad and a good side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regauge.audit import AuditInput
from regauge.base import Where
from regauge.collect import Estate, reports_of
from regauge.features import rules
from regauge.model import Document, Snapshot
from regauge.model.manifest_yaml import read_yaml
from regauge.model.node_files import HostFunction, NodeEvent, NodeFile, NodeFiles

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
    events = tuple(NodeEvent(**one) for one in facts.get("events", []))
    functions = tuple(HostFunction(**one) for one in facts.get("functions", []))
    return NodeFiles(
        name, boot_time_s=1.0, all_paths=True, kubelet=tuple(kubelet), checkpoints=checkpoints, events=events,
        functions=functions,
    )  # fmt: skip
