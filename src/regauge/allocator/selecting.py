"""Device selectors as the allocator uses them: the port to the CEL room, and what an answer can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from regauge.cel import DeviceSelectors, Environment, EvalError, Program, compile_selector, prepare_device
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
            found = self._inner.selector(expression)
            compiled = compile_selector(expression, self._environment)
            if isinstance(compiled, Program) and compiled.reads is not None:
                found = _Remembering(found, (compiled,), compiled.reads)
            self._selectors[expression] = found
        return found

    def derived(self, expression: str) -> Derived:
        """The derived attribute; the same object for the same text."""
        return self._inner.derived(expression)


class _Remembering:
    """Programs run one after the other, with a memory of the answer by the values they read, as the slice has them.

    What they do not read does not matter to them, so they are shown no more than that. `inner` answers for devices
    with values that cannot be read, or are there under two names: those matter whether they are read or not.
    """

    def __init__(self, inner: Selector, programs: tuple[Program, ...], reads: frozenset[Read]) -> None:
        self.error = inner.error
        self.inner = inner
        self.programs = programs
        self.reads = reads
        self.joined: dict[tuple[Selector, ...], Selector] = {}
        self._names: dict[str, tuple[list[str], list[str]]] = {}
        self._known: dict[object, bool | str] = {}

    def evaluate(self, subject: Subject, multiple: bool) -> bool | str:
        """Whether the device is selected, or the run-time error."""
        if not subject.readable:
            return self.inner.evaluate(subject, multiple)
        view, names = subject.view, self._names.get(subject.driver)
        if names is None:
            names = self._names[subject.driver] = self._names_for(subject.driver)
        attributes, capacity = names
        shared = multiple and bool(view.allow_multiple_allocations)
        key: tuple[object, ...] = (subject.driver, shared, *map(view.attributes.get, attributes))
        if capacity:
            key += tuple([None if one is None else str(one.value) for one in map(view.capacity.get, capacity)])
        known = self._known.get(key)
        if known is None:
            if self._ambiguous(subject):
                return self.inner.evaluate(subject, multiple)
            known = self._run(subject, names, shared)
            if len(self._known) < _MOST_REMEMBERED:
                self._known[key] = known
        return known

    def _run(self, subject: Subject, names: tuple[list[str], list[str]], shared: bool) -> bool | str:
        view = subject.view
        attributes = {name: view.attributes[name] for name in names[0] if name in view.attributes}
        capacity = {name: view.capacity[name] for name in names[1] if name in view.capacity}
        device = prepare_device(subject.driver, attributes, capacity, shared)
        for program in self.programs:
            outcome = program.evaluate(device)
            if outcome is not True:
                return outcome.text if isinstance(outcome, EvalError) else False
        return True

    def _names_for(self, driver: str) -> tuple[list[str], list[str]]:
        """The names under which a driver's devices may have the attributes and the capacities that are read."""
        found: dict[str, list[str]] = {"attributes": [], "capacity": [], "driver": [], "allowMultipleAllocations": []}
        for part, domain, name in sorted(self.reads):
            found[part] += [f"{domain}/{name}", name] if domain == driver else [f"{domain}/{name}"]
        return found["attributes"], found["capacity"]

    def _ambiguous(self, subject: Subject) -> bool:
        """Whether something is there under two names, so that their order may count."""
        driver, view = subject.driver, subject.view
        for part, domain, name in self.reads:
            if domain == driver:
                values = view.attributes if part == "attributes" else view.capacity
                if name in values and f"{domain}/{name}" in values:
                    return True
        return False


class _InTurn:
    """Selectors asked one after the other: the first answer that is not True is the answer."""

    def __init__(self, selectors: Sequence[Selector]) -> None:
        self.error: str | None = None
        self._selectors = selectors

    def evaluate(self, subject: Subject, multiple: bool) -> bool | str:
        """True, or what the first selector says that does not select the device."""
        for selector in self._selectors:
            answer = selector.evaluate(subject, multiple) if selector.error is None else selector.error
            if answer is not True:
                return answer
        return True


def in_turn(selectors: Sequence[Selector]) -> Selector:
    """The selectors as one: a device is selected if each selects it, and what comes after a refusal is not asked."""
    known = [one for one in selectors if isinstance(one, _Remembering)]
    if not known or len(known) < len(selectors):
        return _InTurn(selectors)
    others, last = tuple(known[:-1]), known[-1]
    if others not in last.joined:
        programs = tuple(program for one in known for program in one.programs)
        reads = frozenset[Read]().union(*(one.reads for one in known))
        last.joined[others] = _Remembering(_InTurn([one.inner for one in known]), programs, reads)
    return last.joined[others]


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
