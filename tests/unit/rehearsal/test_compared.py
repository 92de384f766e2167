"""The two APIs side by side, where only a whole cluster shows the difference."""

from __future__ import annotations

import pytest
from tests.unit.rehearsal.test_duties import HEAD

from regauge.rehearsal.playing import play
from regauge.rehearsal.scenario import read_scenarios

PRIORITIES = """
objects:
  low: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 1}
  high: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
"""


def wrong(text: str) -> list[str]:
    """What a scenario shows otherwise than it says."""
    (scenario,) = read_scenarios((HEAD + text).encode(), "compared.yaml")
    played = play(scenario)
    assert any(step.checks for step in played.steps)
    return [
        f"{step.title}: {check.what}: {check.seen}" for step in played.steps for check in step.checks if not check.holds
    ]


def counting(name: str, priority: str, containers: int = 1) -> str:
    one = "{name: cNUMBER, image: registry.example.com/work:1, resources: {limits: {example.com/gpu: 1}}}"
    listed = ", ".join(one.replace("NUMBER", str(number)) for number in range(containers))
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{priorityClassName: {priority}, "
        f"terminationGracePeriodSeconds: 1, containers: [{listed}]}}}}"
    )


def claiming(name: str, priority: str) -> str:
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{priorityClassName: {priority}, "
        "terminationGracePeriodSeconds: 1, resourceClaims: [{name: gpu, resourceClaimTemplateName: all}], containers: ["
        "{name: main, image: registry.example.com/work:1, resources: {claims: [{name: gpu}]}}]}}"
    )


def test_counted_devices_are_freed_by_preemption_and_claimed_ones_are_not() -> None:
    all_of_a_node = """
  all:
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: all}
    spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 3}}]}}}
"""
    steps = f"""{PRIORITIES}{all_of_a_node}
steps:
- apply: [low, high, all]
- apply: [{counting("a", "low")}, {counting("b", "low")}]
- wait: {{pod: "*", is: running, count: 2}}
- apply: {counting("urgent", "high")}
- wait: [{{pod: urgent, is: running}}, {{pod: "?", is: running, count: 1}}]
- apply: [{claiming("x", "low")}, {claiming("z", "low")}]
- wait: [{{claim: "*", is: reserved, count: 2}}, {{pod: x, is: running}}, {{pod: z, is: running}}]
- apply: {claiming("asap", "high")}
- sleep: 120
- expect: [{{pod: asap, is: waiting}}, {{pod: x, is: running}}, {{pod: z, is: running}}]
"""
    assert wrong(steps) == []


@pytest.mark.row(185, how="unit")
def test_counted_devices_are_not_shared_by_the_containers_of_a_pod_and_a_claim_is() -> None:
    """Two containers that count need two devices, where each node has one; two that name a claim both see its device."""
    shared = """{apiVersion: v1, kind: Pod, metadata: {name: shared}, spec: {terminationGracePeriodSeconds: 1,
    resourceClaims: [{name: gpu, resourceClaimTemplateName: one}], containers: [
    {name: c0, image: registry.example.com/work:1, resources: {claims: [{name: gpu}]}},
    {name: c1, image: registry.example.com/work:1, resources: {claims: [{name: gpu}]}}]}}"""
    steps = f"""{PRIORITIES}
steps:
- apply: [low]
- apply: {counting("two", "low", 2)}
- apply: {shared}
- wait: {{pod: shared, is: running}}
- sleep: 60
- expect:
  - {{pod: two, is: waiting, message: Insufficient example.com/gpu}}
  - {{claim: "shared-*", is: reserved, count: 1}}
  - {{pod: shared, is: running, devices: [gpu-0], message: "gpu-0 Healthy; example.com/gpu=claim-"}}
"""
    assert wrong(steps) == []
