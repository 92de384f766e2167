"""Which shapes Kueue refuses, and in which words: rules as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec


class KueueShape(msgspec.Struct, frozen=True):
    """One shape that is refused. `retried`: Kueue looks again by itself. `means`: what to do, for people.

    `source`: "recorded" from a real Kueue, or "read" in its source alone.
    """

    shape: str
    text: str
    retried: bool
    means: str
    source: str


class _Table(msgspec.Struct):
    version: str
    shapes: tuple[KueueShape, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is not admitted: the shape, Kueue's words, and what to do."""

    shape: str
    text: str
    retried: bool
    means: str


@cache
def _table() -> _Table:
    return msgspec.json.decode(files("regauge.scheduler").joinpath("data/queue_shapes.json").read_bytes(), type=_Table)


@cache
def _by_name() -> dict[str, KueueShape]:
    return {one.shape: one for one in _table().shapes}


def kueue_shapes() -> tuple[KueueShape, ...]:
    """All shapes that are refused."""
    return _table().shapes


def kueue_version() -> str:
    """The version of Kueue that the rules are of."""
    return _table().version


def refused(shape: str, **places: object) -> Refused:
    """The refusal of a shape with its places filled in."""
    found = _by_name()[shape]
    return Refused(shape, found.text.format(**places), found.retried, found.means)
