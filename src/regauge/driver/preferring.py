"""Which of the available devices a container should get: near each other, or far from what is in use. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regauge.driver.description import Device
from regauge.pluginapi import PreferredAllocationRequest


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is: its NUMA node, the group that it has fast links to, and the device of which it is a replica."""

    numa_node: int | None = None
    link_group: str = ""
    part_of: str = ""

    @staticmethod
    def of(device: Device) -> Place:
        return Place(device.numa_node, device.link_group, device.part_of or device.name)

    @property
    def group(self) -> tuple[str, int | None]:
        """Devices of one link group belong together wherever they are, others by NUMA node."""
        return (self.link_group, None) if self.link_group else ("", self.numa_node)


_NOWHERE = Place()


def preferred(
    request: PreferredAllocationRequest, places: Mapping[str, Place], spread: bool = False
) -> tuple[str, ...]:
    """The devices to take: those that must be, then the rest in the order of `places`.

    Packed: from as few link groups and NUMA nodes as possible. Those of the required ones come first, then where the rest
    fits most tightly, else where most is free. Spread: from devices of which the fewest replicas are taken, then from groups
    of which the fewest devices are.
    """
    chosen = list(dict.fromkeys(request.must_include_ids))
    order = {name: place for place, name in enumerate(places)}
    left = sorted(
        (id_ for id_ in dict.fromkeys(request.available_ids) if id_ not in chosen),
        key=lambda id_: (order.get(id_, len(order)), id_),
    )
    take = _spread if spread else _packed
    return tuple(take(chosen, left, places, request.allocation_size))


def _packed(chosen: list[str], left: Sequence[str], places: Mapping[str, Place], size: int) -> list[str]:
    groups: dict[tuple[str, int | None], list[str]] = {}
    for id_ in left:
        groups.setdefault(places.get(id_, _NOWHERE).group, []).append(id_)
    while groups and len(chosen) < size:
        need = size - len(chosen)
        near = [places.get(id_, _NOWHERE) for id_ in chosen]
        links = {place.link_group for place in near if place.link_group}
        nodes = {place.numa_node for place in near if place.numa_node is not None}

        def rank(
            key: tuple[str, int | None], need: int = need, links: set[str] = links, nodes: set[int] = nodes
        ) -> tuple[bool, bool, bool, int, bool]:
            members = groups[key]
            at = {places.get(id_, _NOWHERE).numa_node for id_ in members}
            fits = len(members) >= need
            size = len(members) if fits else -len(members)
            return key[0] not in links, at.isdisjoint(nodes), not fits, size, not key[0]

        chosen.extend(groups.pop(min(groups, key=rank))[:need])
    return chosen


def _spread(chosen: list[str], left: Sequence[str], places: Mapping[str, Place], size: int) -> list[str]:
    rest = list(left)
    parts = Counter(places.get(id_, _NOWHERE).part_of for id_ in chosen)
    groups = Counter(places.get(id_, _NOWHERE).group for id_ in chosen)
    free = Counter(places.get(id_, _NOWHERE).part_of for id_ in left)
    while rest and len(chosen) < size:

        def rank(id_: str) -> tuple[int, int, int]:
            place = places.get(id_, _NOWHERE)
            return parts[place.part_of], groups[place.group], -free[place.part_of]

        best = min(rest, key=rank)
        rest.remove(best)
        chosen.append(best)
        place = places.get(best, _NOWHERE)
        parts[place.part_of] += 1
        groups[place.group] += 1
        free[place.part_of] -= 1
    return chosen
