"""Rules about devices that several use at once: what keeps them apart, and what only shares out time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from regauge.audit.findings import Evidence, Severity
from regauge.audit.ground import Ground, Spot, mapping, seen, some
from regauge.base import Where
from regauge.inventory import pod_ask
from regauge.model.core import Pod
from regauge.model.kinds import NODE
from regauge.model.resource import ResourceClaim
from regauge.scheduler import is_terminal

_STRATEGY = "sharing-strategy"
_TIME = frozenset({"time-slicing", "timeslicing", "timeslice"})
_SERVICE = frozenset({"mps"})
_REPLICA = "::"


def held_twice(ground: Ground) -> Iterator[Spot]:
    """SHARING-DOUBLE: two claims hold one device that is not shared."""
    for key, held in sorted(ground.holders.items()):
        whole = [document for document, one in held if not one.share_id]
        if len(whole) > 1 or (whole and len(held) > 1):
            title = "/".join(key)
            claims = [document.title for document, _ in held]
            evidence = tuple(seen(one, title, "status.allocation.devices.results") for one, _ in held)
            yield Spot(f"device {title}", f"device {title} is allocated to {some(claims)} at once", evidence, (title,))


def shared_by_tenants(ground: Ground) -> Iterator[Spot]:
    """SHARING-TENANTS: shares of one device are held by claims of several namespaces."""
    for key, held in sorted(ground.holders.items()):
        spaces = sorted({document.namespace for document, one in held if one.share_id})
        if len(spaces) < 2:
            continue
        title = "/".join(key)
        device = ground.devices.get(key)
        limited = device is not None and any(one.request_policy is not None for one in device.capacity.values())
        what = f"device {title} is shared by namespaces {some(spaces)}"
        evidence = tuple(
            seen(
                document,
                f"share {one.share_id}, {_consumed(one.consumed_capacity)}",
                "status.allocation.devices.results",
            )
            for document, one in held
        )
        yield Spot(f"device {title}", what, evidence, (title,), severity=Severity.NOTE if limited else None)


def unbounded(ground: Ground) -> Iterator[Spot]:
    """SHARING-UNBOUNDED: a device may be allocated any number of times, and nothing of it is counted."""
    for document, one in ground.slices:
        free = [device.name for device in one.spec.devices if device.allow_multiple_allocations and not device.capacity]
        if free:
            what = f"{some(free)} of {document.title} can be shared without limit: no capacity is consumed"
            evidence = (seen(document, some(free), "spec.devices[].allowMultipleAllocations"),)
            names = tuple(f"{one.spec.driver}/{one.spec.pool.name}/{name}" for name in free)
            yield Spot(document.title, what, evidence, names)


def time_sliced(ground: Ground) -> Iterator[Spot]:
    """SHARING-TIME-SLICED: pods of several namespaces are on replicas of devices of one node."""
    users: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in ground.snapshot.pods:
        if pod.spec.node_name and not is_terminal(pod):
            for resource in pod_ask(pod.spec.containers, pod.spec.init_containers):
                users[pod.spec.node_name, resource].append(pod)
    replicated = _replicated(ground)
    for (node, resource), pods in sorted(users.items()):
        spaces = sorted({pod.metadata.namespace for pod in pods})
        why = replicated.get((node, resource))
        if why and len(spaces) > 1:
            what = f"pods of namespaces {some(spaces)} are on replicas of {resource} of node {node} ({why.text})"
            named = tuple(
                Evidence(Where(object=f"Pod {pod.metadata.namespace}/{pod.metadata.name}"), resource)
                for pod in pods[:5]
            )
            yield Spot(f"Node {node}", what, (why, *named))


def no_isolation(ground: Ground) -> Iterator[Spot]:
    """SHARING-NO-ISOLATION: pods of different owners use one claim whose configuration shares time, not memory."""
    for document, claim in ground.claims:
        configs = claim.status.allocation.devices.config if claim.status.allocation else ()
        told = {word for one in configs if one.opaque for word in _strategies(one.opaque.parameters)}
        owners = _owners(ground, claim)
        if told and len(owners) > 1:
            by = "time slices" if told & _TIME else "a service on the device"
            what = f"{document.title} is shared by {by} among pods of {some(sorted(owners))}"
            yield Spot(document.title, what, (seen(document, some(sorted(told)), "status.allocation.devices.config"),))


def _owners(ground: Ground, claim: ResourceClaim) -> set[str]:
    """Who owns the pods that a claim is reserved for: controllers, or the pods themselves."""
    found = set()
    for user in claim.status.reserved_for:
        pod = ground.pods.get((claim.metadata.namespace, user.name))
        controllers = [one for one in (pod.metadata.owner_references if pod else ()) if one.controller]
        found.add(f"{controllers[0].kind} {controllers[0].name}" if controllers else f"Pod {user.name}")
    return found


def _strategies(parameters: object) -> Iterator[str]:
    """Words of an opaque configuration that name a way to share, wherever a field of that name stands."""
    todo = [parameters]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            for key, value in one.items():
                if key == "strategy" and isinstance(value, str) and value.lower() in _TIME | _SERVICE:
                    yield value.lower()
                todo.append(value)
        elif isinstance(one, list):
            todo += one


def _replicated(ground: Ground) -> Mapping[tuple[str, str], Evidence]:
    """Counted resources whose devices are given out several times, and by what that is told."""
    found: dict[tuple[str, str], Evidence] = {}
    nodes = {document.name: document for document in ground.snapshot.documents(NODE)}
    for one in ground.inventory.counted:
        labels = mapping(mapping(nodes[one.node].object.get("metadata")).get("labels")) if one.node in nodes else {}
        told = _labelled(labels, one.resource_name)
        if told:
            found[one.node, one.resource_name] = seen(nodes[one.node], told, "metadata.labels")
    for report in ground.given.reports:
        for device in report.plugin_devices:
            if _REPLICA in device.device_id:
                where = Where(object=f"Node {report.node}")
                found.setdefault((report.node, device.resource_name), Evidence(where, f"device id {device.device_id}"))
    return found


def _labelled(labels: Mapping[str, Any], resource: str) -> str:
    domain, _, name = resource.partition("/")
    if name.endswith(".shared"):
        return f"the name {resource}"
    for key, value in labels.items():
        if key.partition("/")[0] == domain and key.endswith(_STRATEGY) and str(value).lower() in _TIME | _SERVICE:
            return f"{key}={value}"
    return ""


def _consumed(capacity: Mapping[str, object]) -> str:
    return some([f"{name} {value}" for name, value in capacity.items()]) or "no capacity consumed"
