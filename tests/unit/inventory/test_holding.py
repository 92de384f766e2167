"""Whose claims hold which devices."""

from __future__ import annotations

from typing import Any

from regauge.inventory import claim_names, claimed_devices
from regauge.model import view
from regauge.model.core import Pod
from regauge.model.resource import ResourceClaim


def claim(name: str, *devices: str, namespace: str = "team") -> tuple[tuple[str, str], ResourceClaim]:
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device} for device in devices]
    object_: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace}, "spec": {}}
    if devices:
        object_["status"] = {"allocation": {"devices": {"results": results}}}
    return (namespace, name), view(object_, ResourceClaim)


POD = view(
    {
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "resourceClaims": [
                {"name": "own", "resourceClaimName": "shared"},
                {"name": "made", "resourceClaimTemplateName": "pair"},
                {"name": "not-made-yet", "resourceClaimTemplateName": "pair"},
            ]
        },
        "status": {
            "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "p-made"}, {"name": "needs-none"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "p-extended", "requestMappings": []},
        },
    },
    Pod,
)


def test_a_pod_s_claims_are_its_own_the_made_ones_and_the_bridged_one() -> None:
    assert claim_names(POD) == {"shared", "p-made", "p-extended"}
    assert claim_names(POD, bridged=False) == {"shared", "p-made"}
    assert claim_names(view({"metadata": {"name": "none"}}, Pod)) == frozenset()


def test_a_pod_holds_what_its_claims_were_given_each_device_once() -> None:
    claims = dict(
        [
            claim("shared", "g0", "g1"),
            claim("p-made", "g1"),
            claim("p-extended", "g2"),
            claim("shared", "g9", namespace="x"),
        ]
    )
    held = {device for _, _, device in claimed_devices(POD, claims)}
    assert held == {"g0", "g1", "g2"}
    assert {device for _, _, device in claimed_devices(POD, claims, bridged=False)} == {"g0", "g1"}


def test_a_claim_that_is_gone_or_has_nothing_yet_holds_nothing() -> None:
    assert claimed_devices(POD, {}) == frozenset()
    assert claimed_devices(POD, dict([claim("shared")])) == frozenset()
