"""State machines as data: a table of (state, event) -> state, looked up in one place.

An event that the table does not list for a state is a bug of the caller, and the error tells the whole story so far.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from regauge.base.errors import BugError

S = TypeVar("S", bound=Hashable)
E = TypeVar("E", bound=Hashable)

Table = Mapping[S, Mapping[E, S]]


@dataclass(slots=True)
class Machine(Generic[S, E]):
    """One thing with a named state. `step` follows the table; `story` is every step it took."""

    name: str
    table: Table[S, E]
    state: S
    story: list[tuple[S, E, S]] = field(default_factory=list)

    def may(self, event: E) -> bool:
        """Whether the table lists `event` for the present state."""
        return event in self.table.get(self.state, {})

    def step(self, event: E) -> S:
        """Take the step and return the new state. Raises `BugError` with the story when the table has no such step."""
        try:
            new = self.table[self.state][event]
        except KeyError:
            told = "; ".join(f"{old} --{by}--> {to}" for old, by, to in self.story) or "nothing happened yet"
            raise BugError(f"{self.name}: {event} in state {self.state} is not in the table ({told})") from None
        self.story.append((self.state, event, new))
        self.state = new
        return new
