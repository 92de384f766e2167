"""Every known mistake of a minor's allocator: there is a case that it decides, and the explanation names it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.allocator.objects import DRIVER, allocated, claim, device, device_class, node, request, slice_of
from tests.unit.allocator.vectors import lines, selectors

from regauge.allocator import Abort, Allocator, Explanation
from regauge.allocator.conformance import _settings, _usage
from regauge.allocator.mistakes import mistakes
from regauge.features import quirk_table, rules
from regauge.model import view
from regauge.model.core import Node
from regauge.model.resource import DeviceClass, ResourceClaim, ResourceSlice

# Where a mistake changes who gets what: the file and name of a case, and a minor that makes it.
DECIDED = {
    "all-forgets-alternative": ("upstream", "prioritized-list-allocation-mode-all-with-selectors", "1.35"),
    "all-leaves-out-partly-used": ("quirks", "all-with-share-partly-used", "1.35"),
    "all-reuses-first-alternative": ("upstream", "prioritized-list-allocation-mode-all-with-selectors", "1.35"),
    "binding-slices-last": ("upstream", "lexicographical-sorting-slices-with-binding-conditions", "1.34"),
    "capacity-wraps": ("upstream", "consumable-capacity-negative-request-aborts", "1.34"),
    "counter-slices-everywhere": ("random36", "rnd-5-02925", "1.36"),
    "counters-by-pool-name": (
        "upstream",
        "partitionable-devices-counter-cache-not-crossed-between-driver-schemas",
        "1.35",
    ),
    "counters-by-slice": ("quirks", "counter-limits-3", "1.34"),
    "distinct-by-identity": ("upstream", "distinct-constraint-single-request-not-enough-distinct-values", "1.34"),
    "distinct-remembers-last": ("quirks", "distinct-three-in-one-request", "1.35"),
    "groups-unknown": ("quirks", "compat-groups-gate-off-makes-pool-incomplete", "1.34"),
    "invalid-pools-end-search": ("quirks", "invalid-pool-silent-if-other-fits", "1.34"),
    "leaks-on-reject": ("upstream", "consumable-capacity-rejection-rolls-back-constraints", "1.35"),
    "match-keeps-intersection": (
        "upstream",
        "list-attributes-match-constraint-backtrack-needs-intersection-restore",
        "1.36",
    ),
    "plain-shares-pay-counters": (
        "upstream",
        "partitionable-consumable-capacity-shared-device-counter-not-recharged",
        "1.36",
    ),
    "pools-by-node": ("quirks", "newer-generation-elsewhere-ignores-pool", "1.34"),
    "pools-unsorted": ("quirks", "pool-order-bytewise", "1.35"),
    "rechecks-wrong-device": ("quirks", "pool-order-bytewise", "1.34"),
    "share-twice-in-request": ("quirks", "share-count-2-one-device", "1.35"),
    "shares-charge-no-counters": (
        "upstream",
        "allow-multiple-allocations-with-shared-device-counter-cross-cycle",
        "1.35",
    ),
    "skip-operations-unknown": ("quirks", "skipops-incubating-ignores", "1.34"),
    "taints-of-any-effect": ("quirks", "taint-none-ignored", "1.34"),
    "tolerations-not-copied": ("quirks", "toleration-empty-key-equal-matches-any-key", "1.34"),
    "wide-requests-grow": ("upstream", "consumable-capacity-requests-are-not-modified", "1.34"),
}
OWN = {"shares-always-pay"}
# Those of the implementation that 1.35 comes to without alternatives and admin access.
COUNTERS = [{"name": "set", "counters": {"x": {"value": "1"}}}]
STABLE: dict[str, tuple[list[ResourceSlice], dict[str, Any], str]] = {
    "stable-checks-incomplete-pools": ([slice_of("n", [device("a"), device("a")], count=2)], {}, "does not fit"),
    "stable-drops-tolerations": (
        [slice_of("n", [device("a")])],
        {"tolerations": [{"operator": "Exists"}]},
        f"fits: r: {DRIVER}/n/a",
    ),
    "stable-sees-counter-slices": (
        [slice_of("n", [device("a")]), slice_of("n", [], object="counters", sharedCounters=COUNTERS)],
        {},
        f"fits: r: {DRIVER}/n/a",
    ),
}
# Those that change words only, or what else stands in an allocation. They are held against the reference's words.
WORDS = {"capacity-gate-names-request", "config-requests-kept", "counts-before-search", "error-without-device"}


def test_every_mistake_of_the_table_is_here() -> None:
    known = {one.id.removeprefix("allocator-") for one in quirk_table() if one.id.startswith("allocator-")}
    assert known == {*DECIDED, *OWN, *WORDS, *STABLE}


def asked(case: dict[str, Any], minor: str) -> tuple[Allocator, Node, list[ResourceClaim]]:
    _, ruling, _ = _settings({**case, "kubeVersion": minor})
    whole = Allocator(
        [view(one, ResourceSlice) for one in case.get("slices", ())],
        [view(one, DeviceClass) for one in case.get("classes", ())],
        _usage(case),
        ruling,
        selectors=selectors(ruling),
        randomness=random.Random(1),
    )
    return whole, view(case.get("node", {}), Node), [view(one, ResourceClaim) for one in case.get("claims", ())]


@pytest.mark.parametrize("quirk", sorted(DECIDED))
def test_a_mistake_that_decides_is_named(quirk: str) -> None:
    file, name, minor = DECIDED[quirk]
    case = next(one for one in lines(f"{file}_cases") if one["name"] == name)
    found = asked(case, minor)[0].mistakes(*asked(case, minor)[1:])
    named = {one for mistake in found for one in mistake.names}
    assert f"allocator-{quirk}" in named, found
    fixed = next(one.fixed_in for one in quirk_table() if one.id == f"allocator-{quirk}")
    assert all(mistake.fixed_in for mistake in found) and fixed in {mistake.fixed_in for mistake in found}
    explained = asked(case, minor)[0].explain(*asked(case, minor)[1:])
    if explained.outcome != "fits":
        assert any(f"allocator-{quirk}" in one.text for one in explained.missed)
        assert explained.outcome != "does not fit" or explained.text == explained.missed[0].text


@pytest.mark.parametrize("quirk", sorted(WORDS - {"counts-before-search"}))
def test_a_mistake_in_words_is_no_other_answer(quirk: str) -> None:
    ruling = rules("1.34")
    assert f"allocator-{quirk}" in ruling.quirks
    alike = [device("a"), device("b")]
    whole = Allocator([slice_of("n", alike)], [device_class()], [], ruling, randomness=random.Random(1))
    assert whole.mistakes(node("n"), [claim("c", request())]) == ()


def explained(minor: str, *claims: ResourceClaim, offered: list[dict[str, Any]], **gates: bool) -> Explanation:
    whole = Allocator(
        [slice_of("n", offered)],
        [device_class()],
        [allocated("other", ("n", "held"))],
        rules(minor, gates),
        randomness=random.Random(1),
    )
    return whole.explain(node("n"), list(claims))


def test_a_crash_of_1_34_is_told_with_what_a_newer_one_gives() -> None:
    """The second look at capacities in 1.34 goes beyond the devices of the slice: kube-scheduler dies of it."""
    case = next(one for one in lines("quirks_cases") if one["name"] == "pool-order-bytewise")
    whole, where, claims = asked(case, "1.34")
    found = whole.explain(where, claims)
    assert found.outcome == "error" and "PANIC" in found.error
    (text,) = [one.text for one in found.missed if "rechecks-wrong-device" in one.text]
    assert "fixed in 1.35" in text and "without it: fits: " in text


@pytest.mark.parametrize("quirk", sorted(STABLE))
def test_a_mistake_of_the_oldest_implementation_is_named(quirk: str) -> None:
    slices, more, instead = STABLE[quirk]
    ruling = rules("1.35", {"DRAPrioritizedList": False, "DRAAdminAccess": False})
    whole = Allocator(slices, [device_class()], [], ruling, randomness=random.Random(1))
    assert ruling.allocator_variant == "stable"
    found = {one.names: one.instead for one in whole.mistakes(node("n"), [claim("c", request(**more))])}
    assert found[(f"allocator-{quirk}",)] == instead


def test_a_share_that_pays_again_in_1_34() -> None:
    uses = [{"counterSet": "set", "counters": {"x": {"value": "1"}}}]
    room = {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi"}}}
    shared = {**device("v"), "allowMultipleAllocations": True, "consumesCounters": uses, "capacity": {"memory": room}}
    pool = slice_of("n", [shared, device("w")], sharedCounters=[{"name": "set", "counters": {"x": {"value": "1"}}}])
    gates = {"DRAPartitionableDevices": True, "DRAConsumableCapacity": True}
    whole = Allocator([pool], [device_class()], [], rules("1.34", gates), randomness=random.Random(1))
    part = {"capacity": {"requests": {"memory": "10Gi"}}}
    found = whole.mistakes(node("n"), [claim("c", request("r1", **part), request("r2", **part))])
    (one,) = [one for one in found if one.names == ("allocator-shares-always-pay",)]
    assert (one.fixed_in, one.instead) == ("1.35", f"fits: r1: {DRIVER}/n/v; r2: {DRIVER}/n/v")


def test_mistakes_that_decide_only_together_are_named_together() -> None:
    ruling = rules("1.34")

    def without(left_out: frozenset[str]) -> tuple[str, bool] | None:
        both = {"allocator-leaks-on-reject", "allocator-capacity-wraps"} <= left_out
        return ("fits: x", True) if both else None

    (found,) = mistakes(ruling, without)
    assert set(found.names) == {"allocator-leaks-on-reject", "allocator-capacity-wraps"}
    assert (found.fixed_in, found.fits) == ("1.37", True)
    assert mistakes(ruling, lambda left_out: None) == ()
    assert mistakes(replace(ruling, quirks=frozenset()), without) == ()


def test_an_answer_without_mistakes_names_none() -> None:
    asked_for = request(expression=f'device.attributes["{DRIVER}"].model == "h100"')
    found = explained("1.36", claim("c", asked_for), offered=[device("held", model="h100"), device("a", model="a100")])
    assert found.outcome == "does not fit" and found.missed == ()


@pytest.mark.parametrize(
    ("version", "counts", "says"),
    [
        ("1.36.3", (33,), "claim ns/c: number of requested devices 33 exceeds the claim limit of 32"),
        ("1.36.4", (20, 20), "claim ns/c: number of requested devices 40 exceeds the claim limit of 32"),
        ("1.36.4", (2**62, 2**62), "PANIC: runtime error: makeslice: cap out of range"),
        ("1.36.5", (20, 20), "request r1: adding 20 devices exceeds the claim limit of 32, with 20 already accounted"),
        ("1.36", (2**62, 2**62), f"request r0: adding {2**62} devices exceeds the claim limit of 32, with 0 already"),
    ],
)
def test_a_patch_counts_a_claim_in_its_way(version: str, counts: tuple[int, ...], says: str) -> None:
    requests = [
        {"name": f"r{place}", "exactly": {"deviceClassName": "class", "allocationMode": "ExactCount", "count": count}}
        for place, count in enumerate(counts)
    ]
    asking = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {"devices": {"requests": requests}}}
    whole, node, claims = asked({"classes": [{"metadata": {"name": "class"}}], "claims": [asking]}, version)
    found = whole.allocate(node, claims)
    assert isinstance(found, Abort) and says in found.text
