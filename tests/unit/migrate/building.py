"""Objects for the tests of the move."""

from __future__ import annotations

from typing import Any

from regauge.base import Where
from regauge.features import rules
from regauge.migrate import AskStack, Conversion, ConvertOptions, Fate, Ground, convert, ground_of
from regauge.model import Document, Object, Snapshot, read_documents

ESTATE = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: nics}
spec: {selectors: [{cel: {expression: 'device.driver == "dra.net"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.nvidia.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: g0, attributes: {productName: {string: NVIDIA A100-SXM4-80GB}, resource.kubernetes.io/numaNode: {int: 0}}}
  - {name: g1, attributes: {productName: {string: NVIDIA A100-SXM4-80GB}, resource.kubernetes.io/numaNode: {int: 1}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b}
spec:
  driver: dra.net
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: mlx0, attributes: {resource.kubernetes.io/numaNode: {int: 1}}}]
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {pool: a}}
"""
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


def documents(text: str) -> list[Document]:
    return list(read_documents(text.encode(), "f.yaml"))


def document(object_: Object) -> Document:
    return Document(object_, Where("f.yaml", 1))


def container(name: str = "main", **counts: Any) -> Object:
    """A container; counts as `gpu=2` for nvidia.com/gpu, or by a dict under `limits` and `requests`."""
    resources = {part: dict(counts[part]) for part in ("limits", "requests") if part in counts}
    if "gpu" in counts:
        resources.setdefault("limits", {})[GPU] = counts["gpu"]
    return {"name": name, "image": "i", "resources": resources}


def pod_spec(*containers: Object, **more: Any) -> Object:
    return {"containers": list(containers or (container(gpu=1),)), **more}


def deployment(spec: Object, name: str = "app", namespace: str = "team") -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def ground(estate: str = "", minor: str = "1.36", gates: dict[str, bool] | None = None, **classes: str) -> Ground:
    snapshot = Snapshot.of(documents(estate)) if estate else None
    return ground_of(rules(minor, gates or {}), snapshot, classes)


def converted(objects: list[Object], to: AskStack | None, on: Ground | None = None, **options: Any) -> Conversion:
    return convert([document(item) for item in objects], on or ground(), ConvertOptions(to=to, **options))


def results(found: Conversion) -> list[Object]:
    """Every object that comes out, in order."""
    out = list(found.classes)
    for item in found.items:
        out += [*item.before, *([item.object] if item.object is not None else [])]
    return out


def claims(object_: Object, **options: Any) -> tuple[Object, Object, tuple[str, ...]]:
    """A workload as it comes out with one claim template."""
    (item,) = converted([object_], AskStack.CLAIM, **options).items
    assert item.fate is Fate.CHANGED, item.reasons
    (template,) = item.before
    assert item.object is not None
    return item.object, template, item.notes


def refusal(object_: Object, to: AskStack = AskStack.CLAIM, **options: Any) -> str:
    (item,) = converted([object_], to, **options).items
    assert item.fate is Fate.REFUSED
    assert item.object is None
    return "; ".join(item.reasons)


def requests(template: Object) -> list[Object]:
    found: list[Object] = template["spec"]["spec"]["devices"]["requests"]
    return found


def claim_template(*own: Object, name: str = "t") -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"spec": {"devices": {"requests": list(own)}}},
    }


def claiming(*containers: Object, entry: str = "gpu", template: str = "t") -> Object:
    using = containers or ({"name": "main", "image": "i", "resources": {"claims": [{"name": entry}]}},)
    return deployment(
        {"containers": list(using), "resourceClaims": [{"name": entry, "resourceClaimTemplateName": template}]}
    )


def exactly(**more: Any) -> Object:
    return {"deviceClassName": "gpu.nvidia.com", "count": 2, **more}
