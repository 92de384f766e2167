"""Expressions as the allocator asks for them: by the objects of the API, answers as plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from msgspec import structs

from regauge.cel.device import Device, prepare_device
from regauge.cel.environment import MAX_COST, Environment
from regauge.cel.program import CompileError, EvalError, Program, compile_selector
from regauge.cel.types import Type
from regauge.cel.values import TYPES
from regauge.model import Semver
from regauge.model.resource import Device as DeviceView
from regauge.model.resource import DeviceAttribute


class Subject(Protocol):
    """A device with a place to keep its prepared form."""

    prepared: object | None

    @property
    def driver(self) -> str: ...

    @property
    def view(self) -> DeviceView: ...


class _Prepared:
    """The two forms of one device: with and without its allowMultipleAllocations."""

    __slots__ = ("hidden", "multiple")

    def __init__(self, subject: Subject) -> None:
        view = subject.view
        self.multiple = _prepare(subject.driver, view, view.allow_multiple_allocations)
        self.hidden = self.multiple if not self.multiple.multiple else _prepare(subject.driver, view, False)


def _prepare(driver: str, view: DeviceView, multiple: bool | None) -> Device:
    return prepare_device(driver, view.attributes, view.capacity, multiple)


def _prepared(subject: Subject, multiple: bool = True) -> Device:
    kept = subject.prepared
    if type(kept) is not _Prepared:
        kept = _Prepared(subject)
        subject.prepared = kept
    return kept.multiple if multiple else kept.hidden


class DeviceSelectors:
    """Selectors and derived attributes of one environment."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._selectors: dict[str, Selector] = {}
        self._derived: dict[str, DerivedAttribute] = {}

    def selector(self, expression: str) -> Selector:
        """The selector; the same object for the same text."""
        found = self._selectors.get(expression)
        if found is None:
            found = self._selectors[expression] = Selector(compile_selector(expression, self.environment))
        return found

    def derived(self, expression: str) -> DerivedAttribute:
        """The derived attribute; the same object for the same text."""
        found = self._derived.get(expression)
        if found is None:
            environment = replace(self.environment, derived=True)
            found = DerivedAttribute(compile_selector(expression, environment))
            self._derived[expression] = found
        return found


class Selector:
    """A device selector. `error` is the compile error, None if it compiles. Outcomes are remembered by values read."""

    __slots__ = ("_known", "_program", "error")

    _LIMIT = 100_000

    def __init__(self, compiled: Program | CompileError) -> None:
        self.error = compiled.text if isinstance(compiled, CompileError) else None
        self._program = None if isinstance(compiled, CompileError) else compiled
        self._known: dict[object, bool | str] = {}

    def evaluate(self, subject: Subject, multiple: bool) -> bool | str:
        """Whether the device is selected, or the run-time error."""
        if self._program is None:
            return self.error or ""
        device = _prepared(subject, multiple)
        if self._program.reads is None:
            return _plain(self._program.evaluate(device))
        key = self._program.key(device)
        known = self._known.get(key)
        if known is None:
            known = _plain(self._program.evaluate(device))
            if len(self._known) < self._LIMIT:
                self._known[key] = known
        return known


def _plain(outcome: bool | EvalError) -> bool | str:
    return outcome.text if isinstance(outcome, EvalError) else outcome


class DerivedAttribute:
    """An expression that computes an attribute. `error` is the compile error, None if it compiles."""

    __slots__ = ("_program", "error")

    def __init__(self, compiled: Program | CompileError) -> None:
        self.error = compiled.text if isinstance(compiled, CompileError) else None
        self._program = None if isinstance(compiled, CompileError) else compiled

    def evaluate(self, subject: Subject) -> DeviceAttribute | str:
        """The attribute, or the run-time error."""
        if self._program is None:
            return self.error or ""
        value = self._program.value(_prepared(subject), MAX_COST)
        return value.text if isinstance(value, EvalError) else attribute_of(value)


_GO_NAMES = {"double": "float64", "uint": "uint64", "bytes": "[]uint8"}
_SCALARS = (
    (bool, "bool_value", "bool_values", "bool"),
    (int, "int_value", "int_values", "int"),
    (str, "string_value", "string_values", "string"),
    (Semver, "version_value", "version_values", "semver"),
)


def attribute_of(value: object) -> DeviceAttribute | str:
    """The attribute for a value; a text says why there is none."""
    for kind, scalar, plural, name in _SCALARS:
        if type(value) is kind:
            return structs.replace(DeviceAttribute(), **{scalar: _written(value)})
        if type(value) is tuple and value and type(value[0]) is kind:
            for index, item in enumerate(value):
                if type(item) is not kind:
                    return f"expected list element at index {index} to be {name}, got {_go_name(item)}"
            return structs.replace(DeviceAttribute(), **{plural: tuple(map(_written, value))})
    if type(value) is tuple:
        if not value:
            return DeviceAttribute(string_values=())
        return f"unsupported list element type: {_go_name(value[0])}"
    return f"unsupported CEL return type: {_go_name(value)}"


def _written(value: object) -> object:
    return str(value) if type(value) is Semver else value


def _go_name(value: object) -> str:
    kind: Type = TYPES[type(value)]
    return _GO_NAMES.get(kind.kind, kind.runtime_name)
