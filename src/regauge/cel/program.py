"""Expressions compiled: the face of the room."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache

from regauge.cel.checker import check
from regauge.cel.device import MISSING, Device
from regauge.cel.environment import MAX_COST, Environment
from regauge.cel.errors import BudgetExceeded, EvaluationError, Issue, SyntaxFault, display, position
from regauge.cel.estimate import worst_cost
from regauge.cel.metering import Meter
from regauge.cel.parser import parse
from regauge.cel.plan import Plan, PlanError, make_plan
from regauge.cel.reads import Read, reads_of
from regauge.cel.types import BOOL, DYN, INT, SEMVER, STRING, Type, list_of
from regauge.cel.validation import validate
from regauge.cel.values import TYPES

_CACHED = 4096


@dataclass(frozen=True, slots=True)
class CompileError:
    """Why an expression does not compile. `text` is what upstream says; line and column count from 1, 0 if unknown."""

    text: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class EvalError:
    """Why an evaluation failed, as upstream says it. `over_budget`: it cost more than it may."""

    text: str
    over_budget: bool = False

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of one evaluation, and what it cost in upstream's units."""

    outcome: bool | EvalError
    cost: int


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled expression.

    `output` is the type it gives, `max_cost` the most one evaluation can cost. `reads` are the parts of a device
    that it looks at as (part, domain, name), or None when it looks at more than single values: evaluations on devices
    with equal `key` have equal outcomes.
    """

    expression: str
    environment: Environment
    output: str
    max_cost: int
    reads: frozenset[Read] | None
    _plain: Plan = field(repr=False)
    _metered: Plan = field(repr=False)
    _reads_lists: bool = field(repr=False)

    def evaluate(self, device: Device, budget: int = MAX_COST) -> bool | EvalError:
        """Whether the device is selected. Costs are only counted where the worst case is over the budget."""
        if self.max_cost > budget:
            return self.measure(device, budget).outcome
        if device.error or (device.list_error and not self._reads_lists):
            return EvalError(self._unusable(device))
        plan = self._plain
        try:
            value = plan.step([device, None, *plan.locals])
        except EvaluationError as error:
            return EvalError(error.text)
        except BudgetExceeded as error:
            return EvalError(str(error), over_budget=True)
        return value if value is True or value is False else _not_bool(value)

    def measure(self, device: Device, budget: int = MAX_COST) -> Evaluation:
        """Like `evaluate`, with the real cost."""
        wrong = self._unusable(device)
        if wrong:
            return Evaluation(EvalError(wrong), 0)
        meter = Meter(budget)
        try:
            value = self._metered.run(device, meter)
        except EvaluationError as error:
            return Evaluation(EvalError(error.text), meter.cost)
        except BudgetExceeded as error:
            return Evaluation(EvalError(str(error), over_budget=True), meter.cost)
        outcome = value if value is True or value is False else _not_bool(value)
        return Evaluation(outcome, meter.cost)

    def value(self, device: Device, budget: int = MAX_COST) -> object:
        """The value of an expression that need not be a bool, or an `EvalError`."""
        wrong = self._unusable(device)
        if wrong:
            return EvalError(wrong)
        try:
            return self._metered.run(device, Meter(budget))
        except EvaluationError as error:
            return EvalError(error.text)
        except BudgetExceeded as error:
            return EvalError(str(error), over_budget=True)

    def key(self, device: Device) -> Hashable:
        """Stands for all that the program can see of the device."""
        if self.reads is None:
            return device.token
        token = device.tokens.get
        return self._unusable(device), tuple([token(read, MISSING) for read in self.reads])

    def _unusable(self, device: Device) -> str:
        return device.error or ("" if self._reads_lists else device.list_error)


def _not_bool(value: object) -> EvalError:
    name = TYPES[type(value)].runtime_name
    if type(value) is str:
        reason = "unsupported native conversion from string to 'bool'"
    elif type(value) is tuple:
        reason = "type conversion error from list to 'bool'"
    else:
        reason = f"unsupported type conversion from '{name}' to bool"
    return EvalError(f"CEL result of type {name} could not be converted to bool: {reason}")


def compile_selector(expression: str, environment: Environment) -> Program | CompileError:
    """The program for a device selector (or a derived attribute, if the environment says so). Never raises."""
    return _compile(expression, environment)


def _compile_now(expression: str, environment: Environment) -> Program | CompileError:
    try:
        root = parse(expression, environment.variant.quoted_names)
    except SyntaxFault as fault:
        return _failed(expression, [Issue(fault.text, fault.offset)])
    issues = check(root, environment) or validate(root)
    if issues:
        return _failed(expression, issues)
    output = root.type or DYN
    wrong = _wrong_output(output, environment)
    if wrong:
        return CompileError(wrong)
    try:
        plain = make_plan(root, environment, metered=False)
        metered = make_plan(root, environment, metered=True)
    except PlanError as error:
        return CompileError(f"program instantiation failed: {error.text}")
    cost = worst_cost(root, environment)
    reads, name = reads_of(root), output.runtime_name
    return Program(expression, environment, name, cost, reads, plain, metered, environment.reads_lists)


_compile = lru_cache(maxsize=_CACHED)(_compile_now)


def _failed(expression: str, issues: list[Issue]) -> CompileError:
    ordered = sorted(issues, key=lambda issue: issue.offset)
    shown = "\n".join(display(expression, issue) for issue in ordered)
    line, column = position(expression, ordered[0].offset)
    return CompileError("compilation failed: " + shown, line, column)


def _wrong_output(output: Type, environment: Environment) -> str:
    """Why this type is no result, or an empty text."""
    if not environment.derived:
        if output in (BOOL, environment.attribute_type):
            return ""
        return f"must evaluate to bool or the unknown type, not {_shown(output)}"
    scalars = (BOOL, INT, STRING, environment.attribute_type, DYN, SEMVER)
    lists = environment.list_attributes or environment.stored
    if output in scalars or output.kind == "any" or (lists and output in map(list_of, scalars)):
        return ""
    what = "a primitive scalar (string, integer, boolean, semver)"
    if lists:
        what += " or a list of these scalars"
    return f"must evaluate to {what}, not {_shown(output)}"


def _shown(kind: Type) -> str:
    if kind.params and kind.kind in ("list", "map", "opaque"):
        return f"{kind.runtime_name}({', '.join(map(_shown, kind.params))})"
    return kind.runtime_name if kind.kind != "type" else str(kind)
