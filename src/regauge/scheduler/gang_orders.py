"""In which orders the pods of a gang may be tried: all of them where they are few, else some by chance. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from regauge.base import Randomness
from regauge.model.core import Pod

MOST_ORDERS = 24
DRAWS = 8
MOST_ATTEMPTS = 256


def orders(pods: Sequence[Pod], kinds: Sequence[Sequence[Pod]], random: Randomness) -> Iterator[list[Pod]]:
    """Pods of a higher priority first, then any order of unlike ones; pods that no kind has come last.

    Every order once where there are few, and several times where chance picks nodes, too. The given order comes first.
    """
    kind_of = {id(pod): index for index, kind in enumerate(kinds) for pod in kind}
    ranked = sorted(pods, key=lambda pod: -(pod.spec.priority or 0))
    known = [pod for pod in ranked if id(pod) in kind_of]
    rest = [pod for pod in ranked if id(pod) not in kind_of]
    draws = max(1, min(DRAWS, MOST_ATTEMPTS // max(len(pods), 1)))
    yield [*known, *rest]
    ways = _ways(known, kind_of, MOST_ORDERS + 1) if draws == DRAWS else []
    if 1 < len(ways) <= MOST_ORDERS:
        for way in ways[1:]:
            yield [*_dealt(way, kinds), *rest]
        return
    for _ in range(draws - 1):
        yield [*_shuffled(known, random), *rest]


def _ways(pods: Sequence[Pod], kind_of: dict[int, int], most: int) -> list[tuple[int, ...]]:
    """The different orders of kinds, priorities kept, no more than `most`; the given one first."""
    found: list[tuple[int, ...]] = [()]
    for group in _by_priority(pods):
        numbers = [kind_of[id(pod)] for pod in group]
        inner = _permutations(Counter(numbers), numbers, most)
        found = [(*one, *two) for one in found for two in inner][:most]
    return found


def _by_priority(pods: Sequence[Pod]) -> list[list[Pod]]:
    found: dict[int, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.spec.priority or 0, []).append(pod)
    return [found[key] for key in sorted(found, reverse=True)]


def _permutations(left: Counter[int], first: Sequence[int], most: int) -> list[tuple[int, ...]]:
    found = [tuple(first)]

    def go_on(done: tuple[int, ...]) -> None:
        if len(done) == len(first):
            if done != found[0]:
                found.append(done)
            return
        for kind in sorted(left):
            if left[kind] and len(found) < most:
                left[kind] -= 1
                go_on((*done, kind))
                left[kind] += 1

    go_on(())
    return found


def _dealt(way: Sequence[int], kinds: Sequence[Sequence[Pod]]) -> list[Pod]:
    """The pods in an order of kinds."""
    waiting = [iter(sorted(kind, key=lambda pod: -(pod.spec.priority or 0))) for kind in kinds]
    return [next(waiting[kind]) for kind in way]


def _shuffled(pods: Sequence[Pod], random: Randomness) -> list[Pod]:
    found = []
    for group in _by_priority(pods):
        left = list(group)
        while left:
            found.append(left.pop(random.randrange(len(left))))
    return found
