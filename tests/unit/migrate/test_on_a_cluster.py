"""What comes out of a conversion is taken by an API server of the target version."""

from __future__ import annotations

from random import Random

import pytest
from tests.support import ROOT, shared
from tests.unit.migrate.building import GPU, container, deployment, document, documents, pod_spec

from regauge.cluster import ControlPlane, VirtualClock, run_virtual
from regauge.collect import load_estate
from regauge.features import rules
from regauge.migrate import AskStack, ConvertOptions, Ground, convert, ground_of, read_flavors, render
from regauge.model import Document, Object, find_kind
from regauge.model.kinds import NAMESPACE


def taken(objects: list[Object], minor: str) -> int:
    """How many of the objects an API server of this minor stores. It raises for one that it refuses."""

    async def run(clock: VirtualClock) -> int:
        api = ControlPlane(clock, Random(0), rules(minor)).api
        for name in sorted({str(item["metadata"].get("namespace") or "default") for item in objects} - {"default"}):
            api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "")
        for item in objects:
            kind = find_kind(item["apiVersion"], item["kind"])
            assert kind is not None
            api.create(kind, item, (item["metadata"].get("namespace") or "default") if kind.namespaced else "")
        return len(objects)

    return run_virtual(run, epoch_s=1_800_000_000.0)


def outcome(source: list[Document], to: AskStack, ground: Ground) -> list[Object]:
    """What changes in a conversion, with what comes with it."""
    found = convert(source, ground, ConvertOptions(to=to))
    items = [item for item in found.items if item.before]
    return [*found.classes, *(one for item in items for one in (*item.before, item.object or {}))]


@pytest.mark.row(53, 108)
@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_the_sample_estate_converted_is_taken(minor: str) -> None:
    snapshot = load_estate(str(shared("estates/small"))).snapshot
    source = [item for item in snapshot.all_documents() if item.kind in ("Deployment", "Job", "StatefulSet")]
    objects = outcome(source, AskStack.CLAIM, ground_of(rules(minor), snapshot))
    assert taken(objects, minor) == len(objects) >= 16


@pytest.mark.row(53)
@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36", "1.37"])
def test_claims_of_all_shapes_are_taken(minor: str) -> None:
    init = {**container("warm", gpu=3), "image": "i"}
    sidecar = {**container("side", gpu=1), "restartPolicy": "Always"}
    affinity = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": f"{GPU}.memory", "operator": "Gt", "values": ["1"]}]}]
    }
    spec = pod_spec(
        container("a", limits={GPU: 1, "rdma/hca": 1}),
        container("b", limits={"nvidia.com/mig-1g.10gb": 2}),
        initContainers=[init, sidecar],
        nodeSelector={f"{GPU}.product": "NVIDIA-A100-SXM4-80GB", f"{GPU}.compute.major": "8"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
    )
    objects = outcome([document(deployment(spec))], AskStack.CLAIM, ground_of(rules(minor)))
    assert taken(objects, minor) == 2


@pytest.mark.row(108, 214)
def test_bridges_and_flavors_are_taken() -> None:
    bridge = convert([document(deployment(pod_spec()))], ground_of(rules("1.36")), ConvertOptions(to=AskStack.BRIDGE))
    assert taken(list(bridge.classes), "1.36") == 1
    library = read_flavors(documents((ROOT / "deploy/flavors/nvidia.yaml").read_text()))
    for name, flavor in library.items():
        for stack in flavor.stacks:
            own = deployment({"containers": [{"name": "main", "image": "i"}]})
            own["metadata"]["annotations"] = {"flavor.regauge.dev/name": name}
            found = render(document(own), library, ground_of(rules("1.36")), stack)
            assert taken([*found.before, found.object], "1.36")
