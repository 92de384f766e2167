"""Rules about health: whether what is broken is kept from new pods, and who holds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, at, seen, some
from regauge.base import Where
from regauge.inventory import pod_ask
from regauge.model.core import Pod
from regauge.model.kinds import POD
from regauge.scheduler import is_terminal

_BLOCKING = ("NoSchedule", "NoExecute")
_CONDITIONS = ("Ready", "Healthy", "Health")


def not_blocked(ground: Ground) -> Iterator[Spot]:
    """HEALTH-NOT-BLOCKED: a device that its driver or a pod calls unhealthy has no taint that keeps new claims away."""
    told = _told_by_claims(ground)
    for name, evidence in sorted(told.items()):
        device = ground.devices.get(name)
        if device is not None and not any(taint.effect in _BLOCKING for taint in device.taints):
            title = "/".join(name)
            yield Spot(
                f"device {title}", f"device {title} is unhealthy and can still be allocated", tuple(evidence), (title,)
            )


def taints_without_effect(ground: Ground) -> Iterator[Spot]:
    """HEALTH-TAINT-IGNORED: devices carry taints that this cluster does not go by."""
    if ground.rules.on("DRADeviceTaints"):
        return
    for document, one in ground.slices:
        tainted = [device.name for device in one.spec.devices if any(t.effect in _BLOCKING for t in device.taints)]
        if tainted:
            what = f"taints of {len(tainted)} devices of {document.title} do not block: the gate DRADeviceTaints is off"
            yield Spot(document.title, what, (seen(document, some(tainted), "spec.devices[].taints"),), tuple(tainted))


def held(ground: Ground) -> Iterator[Spot]:
    """HEALTH-UNHEALTHY-HELD: a running pod keeps an unhealthy device of a device plugin, and so blocks healthy ones."""
    free = {(one.node, one.resource_name): one.allocatable - one.requested for one in ground.inventory.counted}
    for document, pod in ground.pairs(POD, Pod):
        if is_terminal(pod) or not pod.spec.node_name:
            continue
        for resource, device, message in _unhealthy(pod):
            left = free.get((pod.spec.node_name, resource))
            if resource.startswith("claim:") or left is None:
                continue
            waiting = _waiting(ground, resource) if left <= 0 else []
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            told = f"; {some(waiting)} {'waits' if len(waiting) == 1 else 'wait'} only because of it" if waiting else ""
            yield Spot(
                document.title,
                f"pod {name} holds the unhealthy device {device} of {resource} on node {pod.spec.node_name}{told}",
                (
                    seen(document, f"{device} is Unhealthy{': ' + message if message else ''}",
                         "status.containerStatuses[].allocatedResourcesStatus"),
                    Evidence(Where(object=f"Node {pod.spec.node_name}"),
                             f"{resource}: allocatable less requested is {left}, a healthy device is uncounted"),
                ),
                (device,),
            )  # fmt: skip


def _waiting(ground: Ground, resource: str) -> list[str]:
    return [
        f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        for pod in ground.snapshot.pods
        if not pod.spec.node_name
        and not is_terminal(pod)
        and resource in pod_ask(pod.spec.containers, pod.spec.init_containers)
    ]


def _unhealthy(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """(resource, device, message) of all that a pod's status calls unhealthy."""
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        for resource in status.allocated_resources_status:
            for one in resource.resources:
                if one.health == "Unhealthy":
                    yield resource.name, one.resource_id, one.message


def _told_by_claims(ground: Ground) -> dict[tuple[str, str, str], list[Evidence]]:
    """Devices that the status of a claim, or of a pod with the claim, calls unhealthy."""
    found: dict[tuple[str, str, str], list[Evidence]] = defaultdict(list)
    for document, claim in ground.claims:
        for device in claim.status.devices:
            for one in device.conditions:
                if one.type in _CONDITIONS and one.status == "False":
                    told = f"{one.type} is False: {one.reason} {one.message}".strip()
                    found[device.driver, device.pool, device.device].append(
                        Evidence(at(document, "status.devices"), told)
                    )
        results = claim.status.allocation.devices.results if claim.status.allocation else ()
        for pod in ground.users(claim) if len(results) == 1 else ():
            names = {f"claim:{one.name}" for one in pod.spec.resource_claims}
            for resource, identity, message in _unhealthy(pod):
                if resource.partition("/")[0] in names and len(names) == 1:
                    key = (results[0].driver, results[0].pool, results[0].device)
                    where = Where(object=f"Pod {pod.metadata.namespace}/{pod.metadata.name}")
                    found[key].append(Evidence(where, f"{identity} is Unhealthy {message}".strip()))
    return found
