"""What becomes of claims when their pod is preempted, evicted or comes back: released or used again, in the cluster inside.

A claim that was made for a pod goes with it; one that a pod names stays, free for whoever comes next. No scheduler up to
1.37 takes a pod away for a device of a claim. Victims end at once here, as their kubelet would report.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.scheduler.player import EPOCH_S, RULES, Player

from regauge.cluster.clock import VirtualClock, run_virtual
from regauge.features import rules
from regauge.model import Rules

Object = dict[str, Any]
DRIVER = "gpu.example.com"
SETTLED: Object = {"settle": {}}
END_LOW: Object = {"delete": {"apiVersion": "v1", "kind": "Pod", "name": "low", "options": {"gracePeriodSeconds": 0}}}
KINDS_OF_CLAIM = ("made for the pod", "named by the pod")


def setup(devices: int, claims: str) -> list[Object]:
    """One node of four processors and so many devices."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    room = {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "10Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    times = {"lastHeartbeatTime": "2026-11-01T00:00:00Z", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    spec: Object = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{n}"} for n in range(devices)],
    }
    asked = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": DRIVER}}]}}
    found: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
            "spec": {},
            "status": {"capacity": room, "allocatable": room, "conditions": [{**ready, **times}]},
        },
        resource("DeviceClass", DRIVER, {"selectors": [selector]}),
        resource("ResourceSlice", "n1-gpus", spec),
        resource("ResourceClaimTemplate", "one", {"spec": asked}, "default"),
    ]
    for name, value in (("low", 1), ("high", 100)):
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        found.append({**head, "value": value})
    if claims == KINDS_OF_CLAIM[1]:
        found += [resource("ResourceClaim", f"{name}-claim", asked, "default") for name in ("low", "high")]
    return found


def resource(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def pod(name: str, claims: str, cpu: str = "1") -> Object:
    """A pod of the priority of its name, with one claim."""
    entry = {"name": "g", "resourceClaimTemplateName": "one"}
    if claims == KINDS_OF_CLAIM[1]:
        entry = {"name": "g", "resourceClaimName": f"{name}-claim"}
    resources = {"requests": {"cpu": cpu}}
    spec = {
        "containers": [{"name": "main", "image": "x", "resources": resources}],
        "resourceClaims": [entry],
        "priorityClassName": name,
        "restartPolicy": "Never",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def played(devices: int, claims: str, steps: list[Object], ruling: Rules = RULES) -> Object:
    scenario = {"setup": setup(devices, claims), "steps": steps}

    async def main(clock: VirtualClock) -> Object:
        return await Player(scenario, clock, ruling).play()

    return run_virtual(main, epoch_s=EPOCH_S, limit_s=1000)["final"]


def claim_of(final: Object, name: str) -> Object | None:
    """The claim of a pod, whoever made it."""
    return next((one for key, one in final["ResourceClaim"].items() if key.startswith(f"{name}-")), None)


def users(claim: Object) -> list[str]:
    return [one["name"] for one in claim.get("reservedFor") or []]


def devices_of(claim: Object) -> list[str]:
    return [one["device"] for one in (claim.get("allocation") or {}).get("devices", {}).get("results", [])]


def released(final: Object, claims: str) -> bool:
    """Whether nothing is held for the pod that went: its own claim is gone, one that it named is free."""
    claim = claim_of(final, "low")
    if claims == KINDS_OF_CLAIM[0]:
        return claim is None
    return claim is not None and not users(claim) and not devices_of(claim)


@pytest.mark.row(118, how="unit")
@pytest.mark.parametrize("claims", KINDS_OF_CLAIM)
def test_preempted_for_processors(claims: str) -> None:
    """Two devices, processors for one: the victim's device is free again once it is gone."""
    steps = [
        {"create": pod("low", claims, "3")},
        SETTLED,
        {"create": pod("high", claims, "3")},
        SETTLED,
        END_LOW,
        SETTLED,
    ]
    final = played(2, claims, steps)
    assert "low" not in final["Pod"] and final["Pod"]["high"]["node"] == "n1"
    high = claim_of(final, "high")
    assert high is not None and users(high) == ["high"] and len(devices_of(high)) == 1
    assert released(final, claims)


@pytest.mark.row(118, how="unit")
@pytest.mark.row(270, how="unit")
@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize("claims", KINDS_OF_CLAIM)
def test_nobody_is_preempted_for_a_device(claims: str, minor: str) -> None:
    """One device: the pod of high priority waits, with room for it in every other way."""
    steps = [{"create": pod("low", claims)}, SETTLED, {"create": pod("high", claims)}, SETTLED]
    final = played(1, claims, steps, rules(minor))
    assert final["Pod"]["low"]["node"] == "n1" and not final["Pod"]["low"].get("terminating")
    told = final["Pod"]["high"]["PodScheduled"]["message"]
    assert final["Pod"]["high"]["node"] is None and "cannot allocate all claims" in told
    low, high = claim_of(final, "low"), claim_of(final, "high")
    assert low is not None and users(low) == ["low"] and devices_of(low) == ["gpu-0"]
    assert high is not None and not devices_of(high)


@pytest.mark.row(118, how="unit")
@pytest.mark.parametrize("claims", KINDS_OF_CLAIM)
def test_evicted_by_a_taint_on_the_device(claims: str) -> None:
    taint = {"key": "ill", "value": "yes", "effect": "NoExecute"}
    spec = {"deviceSelector": {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}, "taint": taint}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "ill"},
        "spec": spec,
    }
    steps = [
        {"create": pod("low", claims)},
        SETTLED,
        {"create": rule},
        {"sleep": 3},
        SETTLED,
        END_LOW,
        SETTLED,
        {"create": pod("high", claims)},
        SETTLED,
    ]
    final = played(2, claims, steps)
    assert "low" not in final["Pod"] and released(final, claims)
    high = claim_of(final, "high")
    assert high is not None and devices_of(high) == ["gpu-1"]


@pytest.mark.row(118, how="unit")
@pytest.mark.parametrize("claims", KINDS_OF_CLAIM)
def test_requeued_the_pod_has_a_device_again(claims: str) -> None:
    """As a queue does: the pod goes and comes back under its name. A named claim is used again, the other made anew."""
    steps = [{"create": pod("low", claims)}, SETTLED, END_LOW, SETTLED]
    assert released(played(1, claims, steps), claims)
    final = played(1, claims, [*steps, {"create": pod("low", claims)}, SETTLED])
    assert final["Pod"]["low"]["node"] == "n1" and len(final["ResourceClaim"]) == (
        1 if claims == KINDS_OF_CLAIM[0] else 2
    )
    claim = claim_of(final, "low")
    assert claim is not None and users(claim) == ["low"] and devices_of(claim) == ["gpu-0"]
