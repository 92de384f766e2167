"""Known mistakes of a Kubernetes minor that decide an answer: it is asked again without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regauge.features import Quirk, quirk_table
from regauge.model import Rules

PREFIX = "allocator-"
# Slices of this form mean nothing to later minors: without it they offer no devices, which hides other mistakes.
OLD_FORMS = frozenset({"allocator-counters-by-slice"})


@dataclass(frozen=True, slots=True)
class Mistake:
    """Mistakes without which the answer is another one: `names` together (mostly one), mended in `fixed_in` ("": not yet).

    `instead` is that answer in words, `fits` whether the claims have devices in it.
    """

    names: tuple[str, ...]
    fixed_in: str
    instead: str
    fits: bool

    @property
    def named(self) -> str:
        """The names, and when they were mended."""
        fixed = f"fixed in {self.fixed_in}" if self.fixed_in else "not fixed yet"
        return f"{', '.join(self.names)}, {fixed}"


def mistakes(rules: Rules, without: Callable[[frozenset[str]], tuple[str, bool] | None]) -> tuple[Mistake, ...]:
    """The mistakes under `rules` that decide. `without` asks again without some of them: the answer in words and whether
    the claims have devices in it, None where it is the same.

    Each mistake that decides alone is named, or else the fewest that do together.
    """
    here = [one for one in quirk_table() if one.id.startswith(PREFIX) and one.id in rules.quirks]
    modern = [one for one in here if one.id not in OLD_FORMS]
    for some in [here, modern] if len(modern) < len(here) else [here]:
        right = without(frozenset(one.id for one in some)) if some else None
        if right is not None:
            alone = [(one, without(frozenset({one.id}))) for one in here]
            found = [_mistake([quirk], answer) for quirk, answer in alone if answer is not None]
            return tuple(found) if found else (_mistake(_fewest(some, without), right),)
    return ()


def _fewest(here: Sequence[Quirk], without: Callable[[frozenset[str]], object | None]) -> list[Quirk]:
    kept = list(here)
    for quirk in here:
        fewer = [one for one in kept if one is not quirk]
        if without(frozenset(one.id for one in fewer)) is not None:
            kept = fewer
    return kept


def _mistake(quirks: Sequence[Quirk], answer: tuple[str, bool]) -> Mistake:
    fixed = [one.fixed_in or "" for one in quirks]
    last = "" if "" in fixed else max(fixed, key=lambda minor: tuple(map(int, minor.split("."))))
    return Mistake(tuple(one.id for one in quirks), last, *answer)
