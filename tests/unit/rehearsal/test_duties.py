"""Who does what: with one part away its duty is not done, and nobody else does it."""

from __future__ import annotations

import pytest

from regauge.rehearsal.playing import Played, play
from regauge.rehearsal.scenario import read_scenarios

pytestmark = pytest.mark.row(5, how="unit")

HEAD = """
apiVersion: regauge.dev/v1alpha1
kind: Scenario
metadata: {name: duties}
title: who does what
base: gpus
"""
BRIDGE = """
objects:
  bridge:
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: bridge.example.com}
    spec:
      extendedResourceName: example.com/bridged
      selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]
  bridged:
    apiVersion: v1
    kind: Pod
    metadata: {name: bridged}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: registry.example.com/work:1, resources: {limits: {example.com/bridged: 1}}}
"""


def wrong(steps: str) -> list[str]:
    """What a scenario of these steps shows otherwise than they say."""
    (scenario,) = read_scenarios((HEAD + steps).encode(), "duties.yaml")
    return [
        f"{step.title}: {check.what}: {check.seen}"
        for step in played(play(scenario)).steps
        for check in step.checks
        if not check.holds
    ]


def played(found: Played) -> Played:
    assert any(step.checks for step in found.steps)
    return found


def test_without_a_driver_nothing_is_discovered_or_advertised_and_nobody_else_does_it() -> None:
    """Scheduler, kubelet and controllers go on: there is nothing to choose from, on either stack."""
    steps = """
checked: false
steps:
- fault: {what: driver-stopped}
- sleep: 60
- apply: [class, pod-a, counting]
- sleep: 120
- expect:
  - {device: node-1/gpu-0, is: not-published}
  - {node: "*", resources: {example.com/gpu: 0}, count: 2}
  - {claim: "a-*", is: unallocated}
  - {pod: "*", is: waiting, count: 2}
"""
    assert wrong(steps) == []


def test_without_a_scheduler_nothing_is_chosen_or_bound_and_nobody_else_does_it() -> None:
    """Devices are advertised and free on both stacks, and stay so: neither kubelet nor driver takes a step to a pod."""
    steps = """
steps:
- fault: {what: scheduler-killed, lasts: 0}
- apply: [pod-a, counting]
- sleep: 300
- expect:
  - {device: node-1/gpu-0, is: published}
  - {node: "*", resources: {example.com/gpu: 1}, count: 2}
  - {claim: "a-*", is: unallocated}
  - {pod: "*", is: waiting, count: 2}
"""
    assert wrong(steps) == []


def test_without_a_kubelet_nothing_is_prepared_or_injected_and_nobody_else_does_it() -> None:
    """The scheduler has chosen and bound; the driver waits to be called."""
    steps = """
steps:
- fault: {what: kubelet-killed, lasts: 0, node: node-1}
- apply: pinned
- wait: {claim: "a-*", is: reserved}
- sleep: 20
- expect:
  - {pod: a, is: starting, onNode: node-1}
  - {claim: "a-*", is: reserved}
  - {device: node-1/gpu-0, is: not-prepared}
"""
    assert wrong(steps) == []


def test_without_the_controllers_no_claim_is_made_or_given_back_and_nobody_else_does_it() -> None:
    """A pod that ran is deleted: its node lets go, and the allocation stays in the API."""
    steps = """
steps:
- apply: pod-a
- wait: {pod: a, is: running}
- fault: {what: controllers-killed, lasts: 0}
- apply: pod-b
- sleep: 2
- delete: {kind: Pod, name: a}
- wait: {pod: a, is: gone}
- sleep: 30
- expect:
  - {claim: "b-*", is: gone}
  - {pod: b, is: waiting}
  - {claim: "a-*", is: reserved}
"""
    assert wrong(steps) == []


def test_the_bridge_takes_driver_scheduler_and_kubelet_of_the_claims_and_nothing_of_the_device_plugins() -> None:
    """Asked by limits, answered by a claim: no node counts the name, and with the pod its claim goes."""
    steps = (
        BRIDGE
        + """
steps:
- apply: [bridge, bridged]
- wait: {pod: bridged, is: running}
- expect:
  - {node: "*", resources: {example.com/bridged: 0}, count: 2}
  - {claim: "bridged-*", is: reserved}
  - {writes: ["create ResourceClaim/bridged-* by kube-scheduler"]}
- delete: {kind: Pod, name: bridged}
- wait:
  - {pod: bridged, is: gone}
  - {claim: "bridged-*", is: gone}
  - {device: node-1/gpu-0, is: not-prepared}
  - {device: node-2/gpu-0, is: not-prepared}
"""
    )
    assert wrong(steps) == []


@pytest.mark.parametrize("missing", ["class", "driver"])
def test_a_bridge_needs_its_class_and_its_driver(missing: str) -> None:
    """Without the class nobody knows the name; without the driver the class has no devices."""
    away = "- fault: {what: driver-stopped}\n- sleep: 60\n- apply: bridge\n" if missing == "driver" else ""
    steps = f"""{BRIDGE}
checked: false
steps:
{away}- apply: bridged
- sleep: 120
- expect:
  - {{pod: bridged, is: waiting}}
  - {{claim: "*", is: gone}}
"""
    assert wrong(steps) == []


def test_a_quota_is_kept_by_the_api_server_and_by_nobody_after_it() -> None:
    """Over the quota the claim or pod is refused when it is made; what was made before is placed without a look at it."""
    steps = (
        BRIDGE
        + """
  quota:
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: devices}
    spec: {hard: {requests.example.com/gpu: "0", gpu.example.com.deviceclass.resource.k8s.io/devices: "0"}}
steps:
- apply: team
- apply: quota
- sleep: 2
- apply: counting
  refused: exceeded quota
- apply: {apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: second}, spec: {devices: {requests: [
    {name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
  refused: exceeded quota
- apply: member-1
- wait: [{pod: member-1, is: running}, {claim: team, is: reserved}]
"""
    )
    assert wrong(steps) == []


def test_over_the_bridge_a_pod_counts_by_name_when_written_and_its_claim_by_class_when_it_is_chosen() -> None:
    """A quota on the class alone takes the pod and refuses its claim; one on the name counts claims for the class too."""
    claim = """{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: plain}, spec: {devices: {requests: [
    {name: gpu, exactly: {deviceClassName: bridge.example.com}}]}}}"""
    steps = f"""{BRIDGE}
  by-class:
    apiVersion: v1
    kind: ResourceQuota
    metadata: {{name: devices}}
    spec: {{hard: {{bridge.example.com.deviceclass.resource.k8s.io/devices: "0"}}}}
  by-name:
    apiVersion: v1
    kind: ResourceQuota
    metadata: {{name: devices}}
    spec: {{hard: {{requests.example.com/bridged: "0"}}}}
steps:
- apply: [bridge, by-class]
- sleep: 2
- apply: bridged
- sleep: 60
- expect: [{{pod: bridged, is: waiting}}, {{claim: "*", is: gone}}]
- delete: {{kind: Pod, name: bridged}}
- delete: {{kind: ResourceQuota, name: devices}}
- apply: by-name
- sleep: 2
- apply: bridged
  refused: exceeded quota
- apply: {claim}
  refused: exceeded quota
"""
    assert wrong(steps) == []
