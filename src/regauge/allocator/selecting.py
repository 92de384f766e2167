"""Device selectors as the allocator uses them: the port to the CEL room, and what an answer can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from regauge.cel import DeviceSelectors, Environment, Program, compile_selector
from regauge.model import Rules
from regauge.model.resource import Device, DeviceAttribute


class Subject(Protocol):
    """What an expression is evaluated on. `prepared` is free for the implementation to keep its own form of it."""

    prepared: object | None

    @property
    def driver(self) -> str: ...

    @property
    def view(self) -> Device: ...

    @property
    def readable(self) -> bool:
        """Whether every attribute and capacity can be read, so that none of them is an error by itself."""


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


Read = tuple[str, str, str]
_MOST_REMEMBERED = 100_000


class SchedulerSelectors:
    """The selectors of one environment, each with a memory of its answers by the values that it reads.

    So an expression is evaluated once for each combination of values and not for each device: ten thousand devices
    with their own UUIDs are one device for an expression that looks at the model.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._inner = DeviceSelectors(environment)
        self._selectors: dict[str, Selector] = {}

    def selector(self, expression: str) -> Selector:
        """The selector; the same object for the same text."""
        found = self._selectors.get(expression)
        if found is None:
            compiled = compile_selector(expression, self._environment)
            inner = self._inner.selector(expression)
            reads = compiled.reads if isinstance(compiled, Program) else None
            found = inner if reads is None else _Remembering(inner, reads)
            self._selectors[expression] = found
        return found

    def derived(self, expression: str) -> Derived:
        """The derived attribute; the same object for the same text."""
        return self._inner.derived(expression)


class _Remembering:
    """A selector that looks its answer up by the values it reads, as they stand in the slice."""

    def __init__(self, inner: Selector, reads: frozenset[Read]) -> None:
        self.error = inner.error
        self._inner = inner
        self._attributes = [(domain, name, f"{domain}/{name}") for part, domain, name in reads if part == "attributes"]
        self._capacity = [(domain, name, f"{domain}/{name}") for part, domain, name in reads if part == "capacity"]
        self._known: dict[object, bool | str] = {}

    def evaluate(self, subject: Subject, multiple: bool) -> bool | str:
        """Whether the device is selected, or the run-time error."""
        key = self._key(subject, multiple) if subject.readable else None
        if key is None:
            return self._inner.evaluate(subject, multiple)
        known = self._known.get(key)
        if known is None:
            known = self._inner.evaluate(subject, multiple)
            if len(self._known) < _MOST_REMEMBERED:
                self._known[key] = known
        return known

    def _key(self, subject: Subject, multiple: bool) -> object:
        """Stands for all that the expression sees; None if a name is there twice."""
        driver, view = subject.driver, subject.view
        attributes, capacity = view.attributes, view.capacity
        values: list[object] = [driver, multiple and bool(view.allow_multiple_allocations)]
        for domain, name, full in self._attributes:
            found = attributes.get(full)
            if domain == driver:
                short = attributes.get(name)
                if short is not None:
                    if found is not None:
                        return None
                    found = short
            values.append(found)
        for domain, name, full in self._capacity:
            item = capacity.get(full)
            if domain == driver:
                short_item = capacity.get(name)
                if short_item is not None:
                    if item is not None:
                        return None
                    item = short_item
            values.append(None if item is None else str(item.value))
        return tuple(values)


def selectors_of(rules: Rules) -> Selectors:
    """The scheduler's own selectors under `rules`. Keep and share them: they remember what they worked out."""
    return SchedulerSelectors(_environment(rules))


def reads_of(rules: Rules) -> Callable[[str], frozenset[Read] | None]:
    """Tells the values an expression reads, as (part, domain, name); None if it reads more than single values."""
    environment = _environment(rules)

    def reads(expression: str) -> frozenset[Read] | None:
        compiled = compile_selector(expression, environment)
        return compiled.reads if isinstance(compiled, Program) else None

    return reads


def _environment(rules: Rules) -> Environment:
    return Environment(
        minor=int(rules.minor.partition(".")[2]),
        list_attributes=rules.on("DRAListTypeAttributes"),
        consumable_capacity=rules.on("DRAConsumableCapacity"),
    )
