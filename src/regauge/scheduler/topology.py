"""The kubelet's topology manager: which NUMA nodes can serve all resources of a container, or of a pod. Pure.

The kubelet asks it; the scheduler does not. Device plugins are the only ones that give hints here: the managers for CPUs and
memory are not modelled (a pod that a real node would refuse for them is admitted), and DRA gives none up to 1.37.
Source: pkg/kubelet/cm/topologymanager of 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from regauge.base import InputError, Where

NONE, BEST_EFFORT, RESTRICTED, SINGLE_NODE = "none", "best-effort", "restricted", "single-numa-node"
TOPOLOGY_POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NODE)
PER_CONTAINER, PER_POD = "container", "pod"
TOPOLOGY_SCOPES = (PER_CONTAINER, PER_POD)
MOST_NODES = 8
NOT_ALIGNED_REASON = "TopologyAffinityError"
NOT_ALIGNED = "Resources cannot be allocated with Topology locality"

NumaNodes = frozenset[int]


@dataclass(frozen=True, slots=True)
class NumaHint:
    """NUMA nodes that can serve a request together, None for any. `preferred`: no fewer nodes could."""

    nodes: NumaNodes | None
    preferred: bool


ANYWHERE = NumaHint(None, True)
NOWHERE = NumaHint(None, False)
NumaHints = Sequence[NumaHint] | None
"""What one resource wishes: None is no wish at all, an empty list is that no nodes can serve it."""


@dataclass(frozen=True, slots=True)
class Topology:
    """How the machine's NUMA nodes are used. `distances`: from each node to each (as in the SLIT), needed for `closest`.

    Raises `InputError` for a policy or scope that there is not, and for a machine of too many nodes.
    """

    policy: str = NONE
    scope: str = PER_CONTAINER
    nodes: tuple[int, ...] = (0,)
    closest: bool = False
    distances: Mapping[int, Mapping[int, int]] | None = None

    def __post_init__(self) -> None:
        for given, known, field in ((self.policy, TOPOLOGY_POLICIES, "policy"), (self.scope, TOPOLOGY_SCOPES, "scope")):
            if given not in known:
                fix = f"use one of: {', '.join(known)}"
                raise InputError(f"unknown {field}: {given!r}", where=Where(field=f"topology.{field}"), fix=fix)
        if self.policy != NONE and len(self.nodes) > MOST_NODES:
            text = f"unsupported on machines with more than {MOST_NODES} NUMA Nodes"
            raise InputError(text, where=Where(field="topology.nodes"), fix=f"use the policy {NONE} on this node")
        if self.closest and self.distances is None:
            text = "the closest nodes cannot be found without distances"
            raise InputError(text, where=Where(field="topology.distances"), fix="give the distances, or leave it out")

    @property
    def aligns(self) -> bool:
        return self.policy != NONE

    @property
    def per_pod(self) -> bool:
        """Whether all containers of a pod come from the same nodes."""
        return self.scope == PER_POD

    def merge(self, wishes: Iterable[NumaHints]) -> tuple[NumaHint, bool]:
        """The best nodes for all resources together, and whether the pod may run with them."""
        hints = [_told(wish) for wish in wishes] or [[ANYWHERE]]
        if self.policy == SINGLE_NODE:
            hints = [[hint for hint in told if _is_single(hint)] for told in hints]
        best = self._best(hints)
        if self.policy == SINGLE_NODE and best.nodes == frozenset(self.nodes):
            best = NumaHint(None, best.preferred)
        return best, self.policy == BEST_EFFORT or best.preferred

    def _best(self, hints: list[list[NumaHint]]) -> NumaHint:
        everywhere = frozenset(self.nodes)
        most = max((min(len(hint.nodes) for hint in told if hint.nodes) for told in hints if _narrow(told)), default=0)
        best: NumaHint | None = None
        for chosen in product(*hints):
            candidate = _merged(everywhere, chosen)
            if candidate.nodes:
                best = candidate if best is None else self._better(best, candidate, most)
        return best or NumaHint(everywhere, False)

    def _better(self, current: NumaHint, candidate: NumaHint, most: int) -> NumaHint:
        """Which of two is better. `most`: the fewest nodes that the most demanding resource needs; where nothing is
        preferred, an affinity of that many nodes is wanted, or else as close below it as possible."""
        if current.preferred != candidate.preferred:
            return current if current.preferred else candidate
        have, new = len(current.nodes or ()), len(candidate.nodes or ())
        if current.preferred or have > most:
            return self._fitter(current, candidate)
        if have == most:
            return self._fitter(current, candidate) if new == most else current
        if new > most:
            return current
        if new == most or new > have:
            return candidate
        return current if new < have else self._fitter(current, candidate)

    def _fitter(self, current: NumaHint, candidate: NumaHint) -> NumaHint:
        """The narrower one, or the one whose nodes are closer together; of two alike the one with the lower numbers."""
        one, other = current.nodes or frozenset(), candidate.nodes or frozenset()
        if one == other:
            return current
        if self.closest and self.policy != SINGLE_NODE and len(one) == len(other):
            near, far = self._distance(one), self._distance(other)
            if near != far:
                return current if near < far else candidate
        return current if _rank(one) < _rank(other) else candidate

    def _distance(self, nodes: NumaNodes) -> float:
        distances = self.distances or {}
        return sum(distances[one][other] for one in nodes for other in nodes) / len(nodes) ** 2


def _told(wish: NumaHints) -> list[NumaHint]:
    if wish is None:
        return [ANYWHERE]
    return list(wish) or [NOWHERE]


def _is_single(hint: NumaHint) -> bool:
    return hint.preferred and (hint.nodes is None or len(hint.nodes) == 1)


def _narrow(told: Iterable[NumaHint]) -> bool:
    return any(hint.nodes for hint in told)


def _rank(nodes: NumaNodes) -> tuple[int, int]:
    """Narrow first, then by the numbers as bits of one number."""
    return len(nodes), sum(1 << node for node in nodes)


def _merged(everywhere: NumaNodes, chosen: Sequence[NumaHint]) -> NumaHint:
    """One hint per resource become one: their common nodes, preferred when all are and wish for the same."""
    wished = [hint.nodes for hint in chosen if hint.nodes is not None]
    alike = all(nodes == wished[0] for nodes in wished)
    return NumaHint(everywhere.intersection(*wished), alike and all(hint.preferred for hint in chosen))


def subsets(nodes: Iterable[int]) -> Iterator[NumaNodes]:
    """All non-empty sets of NUMA nodes, the narrow ones first."""
    listed = sorted(nodes)
    for size in range(1, len(listed) + 1):
        yield from map(frozenset, combinations(listed, size))


def device_hints(
    places: Mapping[str, NumaNodes], free: Iterable[str], reusable: Iterable[str], count: int, known: Iterable[int]
) -> list[NumaHint]:
    """The hints for `count` devices of one resource. `places`: the NUMA nodes of every device, none for a device that has
    no place; `free` can be given, `reusable` have to be taken first; `known` are the machine's nodes.
    """
    machine = frozenset(known)
    bearing = frozenset().union(*places.values()) & machine or machine
    least = len(bearing)
    able: list[NumaNodes] = []
    kept = [id_ for id_ in reusable if places.get(id_)]
    ready = list(free)
    for nodes in subsets(bearing):
        if sum(1 for own in places.values() if own & nodes) >= count:
            least = min(least, len(nodes))
        if any(not places[id_] & nodes for id_ in kept):
            continue
        if len(kept) + sum(1 for id_ in ready if places.get(id_, frozenset()) & nodes) >= count:
            able.append(nodes)
    return [NumaHint(nodes, len(nodes) == least) for nodes in able]
