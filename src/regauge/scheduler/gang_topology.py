"""A gang in one domain of a topology, with its devices and without: whether the two go together. Pure.

A domain is the nodes with the same values of some labels. The scheduler (TopologyAwareWorkloadScheduling) tries the pods in
order in each domain alone; pods that are placed decide which one. Source: KEP-5732; kube-scheduler topologyaware of 1.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from regauge.base import Randomness
from regauge.model.core import Pod
from regauge.scheduler.gang_kinds import TopologyWish
from regauge.scheduler.gang_search import Choice, GangPlaces, in_order, place_together
from regauge.scheduler.state import State

MOST_DOMAINS = 512


@dataclass(frozen=True, slots=True)
class GangDomain:
    """One domain: its values of the labels, whether the gang fits (`in_order`: as the scheduler does), and why not.

    `without_devices`: whether its pods would fit if they asked for no devices; None where they fit with them.
    """

    name: str
    nodes: int
    fits: bool
    in_order: bool
    why: str
    without_devices: bool | None


@dataclass(frozen=True, slots=True)
class InTopology:
    """The answer in the best domain, all domains, and in words how topology and devices are in each other's way."""

    places: GangPlaces
    domains: tuple[GangDomain, ...]
    conflict: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked: places for `needed` of the pods that wait, beside those that are placed already."""

    waiting: Sequence[Pod]
    placed: Sequence[Pod]
    needed: int
    steps: int
    quick: bool = False

    def places(self, state: State, random: Randomness) -> GangPlaces:
        """Places anywhere in the state."""
        return place_together(self.waiting, self.needed, state, random, self.steps, quick=self.quick)


def place_in_topology(asked: Asked, wish: TopologyWish, state: State, random: Randomness) -> InTopology:
    """Places in one domain, or anywhere if the topology is only preferred. The state is as before when this returns."""
    domains = _domains(wish, state)
    bound = {domain for pod in asked.placed if (domain := _domain_of(pod.spec.node_name, wish, state)) is not None}
    if len(bound) > 1 and wish.required:
        names = ", ".join(sorted(map("/".join, bound)))
        return InTopology(_none("its pods are in more than one domain"), (), f"its placed pods are in {names} already")
    if bound and wish.required:
        domains = {name: nodes for name, nodes in domains.items() if name in bound}
    best: GangPlaces | None = None
    told = []
    for name, nodes in list(domains.items())[:MOST_DOMAINS]:
        with state.only(nodes):
            found = asked.places(state, random)
            bare = None if found.fits else _fits_bare(asked, state, random)
        told.append(GangDomain("/".join(name), len(nodes), found.fits, found.in_order, found.why, bare))
        if best is None or _rank(found) > _rank(best):
            best = found
    if best is not None and best.fits:
        return InTopology(best, tuple(told), "")
    anywhere = asked.places(state, random)
    conflict = _conflict(asked, wish, told, anywhere)
    return InTopology(anywhere if not wish.required else best or _none(conflict), tuple(told), conflict)


def most_in_order(asked: Asked, wish: TopologyWish, state: State, random: Randomness) -> list[Choice]:
    """What the pods would get one by one in the domain that takes the most of them."""
    best: list[Choice] = []
    for nodes in list(_domains(wish, state).values())[:MOST_DOMAINS]:
        with state.only(nodes):
            choices, _ = in_order(asked.waiting, state, random)
        best = choices if len(choices) > len(best) else best
    return best


def _rank(found: GangPlaces) -> tuple[bool, bool, int, bool]:
    return found.fits, found.in_order, found.lucky, not found.complete


def _none(why: str) -> GangPlaces:
    return GangPlaces((), False, 0, 0, True, why)


def _domain_of(node: str, wish: TopologyWish, state: State) -> tuple[str, ...] | None:
    info = state.nodes.get(node)
    labels = info.labels if info is not None else {}
    return tuple(str(labels[one]) for one in wish.labels) if all(one in labels for one in wish.labels) else None


def _domains(wish: TopologyWish, state: State) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for node in state.nodes:
        domain = _domain_of(node, wish, state)
        if domain is not None:
            found.setdefault(domain, []).append(node)
    return dict(sorted(found.items()))


def _fits_bare(asked: Asked, state: State, random: Randomness) -> bool:
    """Whether the pods would fit if they asked for no devices."""
    bare = [replace(pod, spec=replace(pod.spec, resource_claims=())) for pod in asked.waiting]
    for pod in bare:
        state.put_pod(pod)
    try:
        return place_together(bare, asked.needed, state, random, asked.steps, quick=True).fits
    finally:
        for pod in asked.waiting:
            state.put_pod(pod)


def _conflict(asked: Asked, wish: TopologyWish, domains: Sequence[GangDomain], anywhere: GangPlaces) -> str:
    if not domains:
        return f"no node has {wish} ({wish.asks})"
    roomy = [one.name for one in domains if one.without_devices]
    text = f"no domain of {wish} takes {asked.needed} more pods with their devices"
    if roomy:
        text += f"; without devices {_few(roomy)} would, so what decides by cpu, memory and pods alone takes it"
    if anywhere.fits:
        text += "; over several domains there are places"
    elif not roomy:
        text += ", nor without them"
    return text


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


__all__ = ["Asked", "GangDomain", "InTopology", "most_in_order", "place_in_topology"]
