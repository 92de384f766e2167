"""LimitRanges in the way of a move: what they would give to, or want from, the pods that come after it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regauge.inventory import is_extended_resource
from regauge.migrate.workloads import Ask, Workload
from regauge.model import Object, Snapshot
from regauge.model.kinds import LIMIT_RANGE

# Where none is told, max becomes the default limit, that the default request, and min the request at last.
_GIVING = ("min", "max", "default", "defaultRequest")
_WANTING = ("min", "max", "maxLimitRequestRatio")


def limit_range_blockers(workload: Workload, ask: Ask, snapshot: Snapshot) -> Iterator[str]:
    """Why pods of the workload would not be right once they no longer count what `ask` counts, by the LimitRanges of the
    namespace: a container that names no amount is given one, and a pod that names none is refused.
    """
    for document in snapshot.documents(LIMIT_RANGE):
        if document.namespace == workload.namespace:
            for item in _dict(document.object, "spec").get("limits") or ():
                if isinstance(item, dict):
                    yield from (f"LimitRange {document.name} changed: {why}" for why in _why(item, workload, ask))


def _why(item: Object, workload: Workload, ask: Ask) -> Iterator[str]:
    if item.get("type") == "Container":
        for name, amount in _given(item).items():
            if name == ask.name or not _all_name(workload, name):
                yield f"it gives {amount} {name} to every container that names none"
    elif item.get("type") == "Pod" and any(ask.name in _dict(item, field) for field in _WANTING):
        yield f"it refuses pods that do not count {ask.name}"


def _dict(object_: Object, field: str) -> dict[str, Any]:
    found = object_.get(field)
    return found if isinstance(found, dict) else {}


def _given(item: Object) -> dict[str, str]:
    """The extended resources that a container gets when it names none."""
    found = {name: amount for field in _GIVING for name, amount in _dict(item, field).items()}
    return {name: str(amount) for name, amount in sorted(found.items()) if is_extended_resource(name)}


def _all_name(workload: Workload, name: str) -> bool:
    spec = workload.template.spec
    return all(name in item.resources.limits for item in (*spec.containers, *spec.init_containers))
