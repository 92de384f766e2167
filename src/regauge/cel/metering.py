"""Counting costs while running, as upstream does, and stopping at the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regauge.cel.actual import Cost
from regauge.cel.errors import BudgetExceeded, EvaluationError
from regauge.cel.frames import Frame, Step
from regauge.cel.values import equal


class Meter:
    """The cost so far and the limit."""

    __slots__ = ("cost", "limit")

    def __init__(self, limit: int) -> None:
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises `BudgetExceeded` over the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise BudgetExceeded("operation cancelled: actual cost limit exceeded")


def _values(frame: Frame, steps: Sequence[Step], patient: bool) -> tuple[list[object], EvaluationError | None]:
    """The arguments and the first error. The patient evaluate all arguments, also behind an error."""
    values: list[object] = []
    failed: EvaluationError | None = None
    for step in steps:
        try:
            values.append(step(frame))
        except EvaluationError as error:
            values.append(error)
            failed = failed or error
            if not patient:
                break
    return values, failed


def metered_call(
    cost: Cost, implementation: Callable[..., object], steps: Sequence[Step], patient: bool, early: bool = True
) -> Step:
    """A call that is charged, also when it or an argument fails, but not when arguments were left out.

    `early`: the charge does not depend on the result, so that what costs too much is not even begun.
    """

    def run(frame: Frame) -> object:
        values, failed = _values(frame, steps, patient)
        result: object = failed
        complete = len(values) == len(steps)
        if complete and early:
            frame[1].charge(cost(tuple(values), result))
        if failed is None:
            try:
                result = implementation(*values)
            except EvaluationError as error:
                failed = result = error
        if complete and not early:
            frame[1].charge(cost(tuple(values), result))
        if failed is not None:
            raise failed
        return result

    return run


def _same(left: object, right: object) -> bool:
    return equal(left, right)


def _different(left: object, right: object) -> bool:
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


def metered_equal(negated: bool, cost: Cost, left: Step, right: Step) -> Step:
    """`==` or `!=` with its cost."""
    return metered_call(cost, _different if negated else _same, (left, right), patient=True)


def metered_literal(step: Step, cost: int) -> Step:
    """A list or map literal with the cost of making it."""

    def run(frame: Frame) -> object:
        try:
            return step(frame)
        finally:
            frame[1].charge(cost)

    return run
