"""Two attributions of device-seconds side by side: do they agree within the error that both state? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from regauge.observe.history import Charge, Consumer


@dataclass(frozen=True, slots=True)
class Difference:
    """One workload of a namespace in two attributions, over both stacks.

    `left_s` and `right_s` are device-seconds, `allowed_s` how far they may be apart: what either side states that it does
    not know, and the part of the larger one that is tolerated. `stacks` are those that served it on either side.
    """

    namespace: str
    kind: str
    workload: str
    left_s: float
    right_s: float
    allowed_s: float
    stacks: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def agrees(self) -> bool:
        return abs(self.left_s - self.right_s) <= self.allowed_s


def compare(
    left: Mapping[Consumer, Charge], right: Mapping[Consumer, Charge], tolerated: float = 0.0
) -> tuple[Difference, ...]:
    """Every workload of either side, by namespace and name. `tolerated` is a share of the larger number, such as 0.01.

    The stacks are added up: a workload that moved from one to the other is charged for both.
    """
    sides = (_together(left), _together(right))
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        (left_s, left_error_s, left_stacks), (right_s, right_error_s, right_stacks) = (
            side.get(key, (0.0, 0.0, ())) for side in sides
        )
        allowed_s = left_error_s + right_error_s + tolerated * max(left_s, right_s)
        found.append(Difference(*key, left_s, right_s, allowed_s, (left_stacks, right_stacks)))
    return tuple(found)


def _together(
    charges: Mapping[Consumer, Charge],
) -> Mapping[tuple[str, str, str], tuple[float, float, tuple[str, ...]]]:
    found: dict[tuple[str, str, str], list[tuple[str, Charge]]] = defaultdict(list)
    for consumer, charge in charges.items():
        found[consumer.namespace, consumer.kind, consumer.workload].append((consumer.stack, charge))
    return {
        key: (
            sum(one.device_s for _, one in parts),
            sum(one.uncertain_s for _, one in parts),
            tuple(sorted({stack for stack, _ in parts})),
        )
        for key, parts in found.items()
    }
