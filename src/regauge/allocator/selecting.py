"""Device selectors as the allocator uses them: the port to the CEL room, and what an answer can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from regauge.cel import DeviceSelectors, Environment, Program, compile_selector
from regauge.model.resource import Device, DeviceAttribute
from regauge.model.rules import Rules


class Subject(Protocol):
    """What an expression is evaluated on. `prepared` is free for the implementation to keep its own form of it."""

    prepared: object | None

    @property
    def driver(self) -> str: ...

    @property
    def view(self) -> Device: ...


class Selector(Protocol):
    """A device selector. `error` is the compile error, in upstream's words, of one that does not compile."""

    error: str | None

    def evaluate(self, subject: Subject, multiple: bool) -> bool | str:
        """Whether the device is selected, or the runtime error in upstream's words.

        `multiple`: the expression may see the device's allowMultipleAllocations.
        """


class Derived(Protocol):
    """An expression that computes an attribute. `error` as for selectors."""

    error: str | None

    def evaluate(self, subject: Subject) -> DeviceAttribute | str | None:
        """The attribute, None where the device does not have it, or the runtime error in upstream's words."""


class Selectors(Protocol):
    """Where selectors come from. Compiling the same text again is cheap."""

    def selector(self, expression: str) -> Selector: ...

    def derived(self, expression: str) -> Derived: ...


def selectors_of(rules: Rules) -> Selectors:
    """The scheduler's own selectors under `rules`. Keep and share them: they remember what they compiled."""
    return DeviceSelectors(_environment(rules))


def reads_of(rules: Rules) -> Callable[[str], frozenset[tuple[str, str, str]] | None]:
    """Tells the values an expression reads, as (part, domain, name); None if it reads more than single values."""
    environment = _environment(rules)

    def reads(expression: str) -> frozenset[tuple[str, str, str]] | None:
        compiled = compile_selector(expression, environment)
        return compiled.reads if isinstance(compiled, Program) else None

    return reads


def _environment(rules: Rules) -> Environment:
    return Environment(
        minor=int(rules.minor.partition(".")[2]),
        list_attributes=rules.on("DRAListTypeAttributes"),
        consumable_capacity=rules.on("DRAConsumableCapacity"),
    )
