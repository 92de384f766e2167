"""The running state of matchAttribute and distinctAttribute during a search.

`add` returns None where the device is refused, else what `remove` needs to restore the state.
Source: structured/internal/*/constraint.go and the constraints in allocator_*.go.
"""

from __future__ import annotations

from typing import Protocol

from regauge.allocator.problem import MATCH, Constraint
from regauge.allocator.settings import Settings
from regauge.allocator.values import UNKNOWN, Value


class State(Protocol):
    """A constraint's memory of the devices chosen so far."""

    def add(self, value: Value, request: str) -> bool:
        """Take a device with `value` for the request, unless that breaks the constraint."""

    def remove(self, request: str) -> None:
        """Take back the last device."""

    def key(self) -> object:
        """What the constraint's later decisions depend on."""


class Match:
    """All devices have the same value. A value of unknown type is taken only as the first."""

    def __init__(self) -> None:
        self.stack: list[Value] = []

    def add(self, value: Value, request: str) -> bool:
        if self.stack and (value is UNKNOWN or value != self.stack[0]):
            return False
        self.stack.append(value)
        return True

    def remove(self, request: str) -> None:
        self.stack.pop()

    def key(self) -> object:
        return self.stack[0] if self.stack else None


class MatchSets:
    """All devices have a member in common."""

    def __init__(self) -> None:
        self.stack: list[Value] = []

    def add(self, value: Value, request: str) -> bool:
        if value is UNKNOWN:
            return False
        common = value.meets(self.stack[-1]) if self.stack else value
        if common is None:
            return False
        self.stack.append(common)
        return True

    def remove(self, request: str) -> None:
        self.stack.pop()

    def key(self) -> object:
        return self.stack[-1] if self.stack else None


class MatchSetsForgetful:
    """As `MatchSets`, but what was narrowed down stays so when a device is taken back."""

    def __init__(self) -> None:
        self.common: Value | None = None
        self.count = 0

    def add(self, value: Value, request: str) -> bool:
        if value is UNKNOWN:
            if self.count == 0:
                self.common = None
            return False
        common = value if self.count == 0 or self.common is None else value.meets(self.common)
        if common is None:
            return False
        self.common = common
        self.count += 1
        return True

    def remove(self, request: str) -> None:
        self.count -= 1

    def key(self) -> object:
        return None


class Distinct:
    """No two devices have a member in common. A value of unknown type is refused unless it is the first."""

    def __init__(self, lists: bool) -> None:
        self.lists = lists
        self.values: list[Value] = []

    def add(self, value: Value, request: str) -> bool:
        if value is UNKNOWN and (self.values or self.lists):
            return False
        kind, apart = value.kind, value.members.isdisjoint
        for one in self.values:
            if one.kind == kind and not apart(one.members):
                return False
        self.values.append(value)
        return True

    def remove(self, request: str) -> None:
        self.values.pop()

    def key(self) -> object:
        return frozenset(self.values)


class DistinctForgetful:
    """Only the last device of each request is remembered, and taking one back forgets its request."""

    def __init__(self, lists: bool) -> None:
        self.lists = lists
        self.values: dict[str, Value] = {}
        self.count = 0

    def add(self, value: Value, request: str) -> bool:
        if self.count > 0:
            if value is UNKNOWN and (self.values or self.lists):
                return False
            if any(value.meets(one) is not None for one in self.values.values()):
                return False
        self.values[request] = value
        self.count += 1
        return True

    def remove(self, request: str) -> None:
        self.values.pop(request, None)
        self.count -= 1

    def key(self) -> object:
        return None


def state_of(constraint: Constraint, settings: Settings) -> State:
    """A fresh state for a constraint, as the implementation at hand keeps it."""
    lists = settings.list_attributes
    if constraint.kind == MATCH:
        if not lists:
            return Match()
        return MatchSetsForgetful() if settings.quirk("match-keeps-intersection") else MatchSets()
    return DistinctForgetful(lists) if settings.quirk("distinct-remembers-last") else Distinct(lists)


def forgetful(constraint: Constraint, settings: Settings) -> bool:
    """Whether the state depends on devices that were tried and taken back."""
    return isinstance(state_of(constraint, settings), MatchSetsForgetful | DistinctForgetful)
