"""Objects for the tests of the move."""

from __future__ import annotations

from typing import Any

from regauge.base import Where
from regauge.features import rules
from regauge.migrate import AskStack, Conversion, ConvertOptions, Ground, convert, ground_of
from regauge.model import Document, Object, Snapshot, read_documents

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
