"""From chosen devices to allocation results.

Source: the end of Allocate and createNodeSelector in structured/internal/*/allocator_*.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from regauge.allocator.inventory import DeviceEntry
from regauge.allocator.outcome import Abort, Fit
from regauge.allocator.pools import NodeView
from regauge.allocator.problem import ClaimPlan, Problem, Slot
from regauge.allocator.settings import Settings
from regauge.base import Randomness
from regauge.model import NodeSelector, NodeSelectorTerm, Quantity, SelectorRequirement
from regauge.model.core import Node
from regauge.model.resource import (
    AllocationResult,
    Device,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceSliceSpec,
)

_REQUIRED = ("request", "driver", "pool", "device")


@dataclass(frozen=True, slots=True)
class Solution:
    """What a search found, apart from any node: for each pick its slot and the device's place in the node's view.

    `selected` are the alternatives chosen for firstAvailable requests, by claim and request. The same solution can
    hold on many nodes.
    """

    picks: tuple[Chosen, ...]
    selected: Mapping[tuple[int, int], Slot]
    steps: int


class Chosen(NamedTuple):
    """One device of a solution."""

    slot: Slot
    device: int
    shared: bool
    consumed: tuple[tuple[str, Quantity], ...]


def outcome_of(solution: Solution, problem: Problem, view: NodeView, randomness: Randomness) -> Fit | Abort:
    """The solution on one node; `Abort` where upstream cannot write it down."""
    if not view.plain:
        for claim, found in zip(problem.claims, _node_selectors(solution, problem, view), strict=True):
            if isinstance(found, str):
                text = f"create NodeSelector for claim {claim.view.metadata.name}: {found}"
                return Abort(text, steps=solution.steps)

    def make() -> tuple[AllocationResult, ...]:
        selectors = [None if isinstance(one, str) else one for one in _node_selectors(solution, problem, view)]
        return tuple(
            AllocationResult(
                devices=DeviceAllocationResult(
                    results=tuple(
                        _result(pick, view.devices[pick.device], problem.settings, randomness)
                        for pick in solution.picks
                        if pick.slot.claim == number
                    ),
                    config=_config(claim, _slots(claim, number, solution), problem.settings),
                ),
                node_selector=selectors[number],
            )
            for number, claim in enumerate(problem.claims)
        )

    return Fit(make, solution.steps)


def _node_selectors(solution: Solution, problem: Problem, view: NodeView) -> list[NodeSelector | str | None]:
    """For each claim where its devices can be used. Only where a view is not plain, upstream may refuse."""
    return [
        _node_selector(
            [
                (view.devices[pick.device].slice.view.spec, view.devices[pick.device].view)
                for pick in solution.picks
                if pick.slot.claim == number
            ],
            view.node,
            problem.settings,
        )
        for number in range(len(problem.claims))
    ]


def _slots(claim: ClaimPlan, number: int, solution: Solution) -> list[Slot]:
    return [
        solution.selected.get((number, place)) or plan.slots[0]
        for place, plan in enumerate(claim.requests)
        if plan.slots
    ]


def _result(
    pick: Chosen, entry: DeviceEntry, settings: Settings, randomness: Randomness
) -> DeviceRequestAllocationResult:
    slot = pick.slot
    skips = entry.slice.view.spec.skip_node_operations
    return DeviceRequestAllocationResult(
        request=slot.name,
        driver=entry.id.driver,
        pool=entry.id.pool,
        device=entry.id.device,
        admin_access=True if slot.admin else None,
        tolerations=slot.tolerations if settings.copies_tolerations else (),
        binding_conditions=entry.view.binding_conditions if settings.binding_conditions else (),
        binding_failure_conditions=entry.view.binding_failure_conditions if settings.binding_conditions else (),
        share_id=_share_id(randomness) if pick.shared else None,
        consumed_capacity={name: str(quantity) for name, quantity in pick.consumed},
        skip_node_operations=skips if settings.optional_node_operations else (),
    )


def _share_id(randomness: Randomness) -> str:
    """A random UUID (RFC 9562, version 4)."""
    bits = randomness.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _config(claim: ClaimPlan, slots: list[Slot], settings: Settings) -> tuple[DeviceAllocationConfiguration, ...]:
    found: list[tuple[str, tuple[str, ...], Any]] = []
    of_class: dict[str, range] = {}
    for slot in slots:
        if slot.class_ is None:
            continue
        places = of_class.get(slot.class_.metadata.name)
        if places is None:
            start = len(found)
            found += [("FromClass", (slot.name,), one.opaque) for one in slot.class_.spec.config]
            of_class[slot.class_.metadata.name] = range(start, len(found))
            continue
        for place in places:
            source, names, opaque = found[place]
            found[place] = (source, (*names, slot.name), opaque)
    kept = settings.quirk("config-requests-kept")
    covered = [{slot.name, slot.parent or slot.own_name} for slot in slots]
    for config in claim.view.spec.devices.config:
        wanted = set(config.requests)
        hits = sum(1 for names in covered if names & wanted)
        times = 1 if not wanted else hits if kept else min(hits, 1)
        found += [("FromClaim", config.requests, config.opaque)] * times
    return tuple(
        DeviceAllocationConfiguration(
            source=source,
            requests=() if not kept and all(set(names) & one for one in covered) else names,
            opaque=opaque,
        )
        for source, names, opaque in found
    )


def _node_selector(
    offers: list[tuple[ResourceSliceSpec, Device]], node: Node, settings: Settings
) -> NodeSelector | str | None:
    """Where the devices can be used; None everywhere, a text where upstream refuses."""
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for spec, device in offers:
        local = device.node_name if spec.per_device_node_selection else spec.node_name
        selector = device.node_selector if spec.per_device_node_selection else spec.node_selector
        if local is not None or (device.binds_to_node and not settings.basic):
            name = local if settings.basic and local is not None else node.metadata.name
            only = SelectorRequirement(key="metadata.name", operator="In", values=(name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        if selector is None or not selector.node_selector_terms:
            continue
        if len(selector.node_selector_terms) > 1:
            return f"unsupported ResourceSlice.NodeSelector with {len(selector.node_selector_terms)} terms"
        _add_new(fields, selector.node_selector_terms[0].match_fields)
        _add_new(expressions, selector.node_selector_terms[0].match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(have: list[SelectorRequirement], more: tuple[SelectorRequirement, ...]) -> None:
    for item in more:
        same = (item.key, item.operator, set(item.values))
        if all((one.key, one.operator, set(one.values)) != same for one in have):
            have.append(item)


def as_document(result: AllocationResult) -> dict[str, Any]:
    """The result as JSON for the claim's status.allocation."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    document.setdefault("devices", {})
    for item in document["devices"].get("results", ()):
        for name in _REQUIRED:
            item.setdefault(name, "")
    for item in document["devices"].get("config", ()):
        if "opaque" in item and item["opaque"].get("parameters", 0) is None:
            del item["opaque"]["parameters"]
    for term in document.get("nodeSelector", {}).get("nodeSelectorTerms", ()):
        for item in (*term.get("matchExpressions", ()), *term.get("matchFields", ())):
            item.setdefault("key", "")
            item.setdefault("operator", "")
    return document
