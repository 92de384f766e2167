"""What an allocation attempt on one node can come to. None of these is an exception: "does not fit" is a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regauge.model.resource import AllocationResult


@dataclass(frozen=True, slots=True)
class Bound:
    """Why nothing can fit, found without searching: `slot` (a request's name) needs `need` of `kind`, there are `have`."""

    claim: str
    slot: str
    kind: str
    need: int
    have: int
    detail: str = ""


class Fit:
    """One allocation result for each claim, in the order of the claims. `steps`: how far the search went.

    The results are written when they are first asked for: of thousands of nodes only one is chosen.
    """

    __slots__ = ("_make", "_results", "steps")

    def __init__(self, make: Callable[[], tuple[AllocationResult, ...]], steps: int = 0) -> None:
        self._make = make
        self._results: tuple[AllocationResult, ...] | None = None
        self.steps = steps

    @property
    def results(self) -> tuple[AllocationResult, ...]:
        if self._results is None:
            self._results = self._make()
        return self._results

    def __repr__(self) -> str:
        return f"Fit({self.results!r}, steps={self.steps})"


@dataclass(frozen=True, slots=True)
class NoFit:
    """The claims do not fit on this node. `bound` where the reason was found without a full search."""

    bound: Bound | None = None
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Abort:
    """Upstream reports an error, in these words. `on_node`: only this node is lost, other nodes are still tried.
    `node` is named where the node could not even be looked at."""

    text: str
    on_node: bool = False
    steps: int = 0
    node: str = ""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The budget or the time ended before the answer was known."""

    steps: int


@dataclass(frozen=True, slots=True)
class Unsupported:
    """This cannot be answered. `feature` says what is missing, `text` upstream's own words where it refuses, too."""

    feature: str
    text: str = ""


Outcome = Fit | NoFit | Abort | Exhausted | Unsupported
