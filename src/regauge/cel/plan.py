"""From a checked tree to nested Python functions. Nothing of the text is ever executed as code.

Every function takes the frame: a list with the device, the meter and the local variables. There are two plans of one
tree: a plain one, and one that counts costs as upstream does and stops at the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from regauge.cel.access import KEY_CLASSES
from regauge.cel.actual import cost_rule
from regauge.cel.chains import Link, chain, metered_chain, native, plain_path
from regauge.cel.device import Device
from regauge.cel.environment import Environment
from regauge.cel.errors import EvaluationError
from regauge.cel.folds import FoldParts, append_to, bind, fold, insert_into, not_strictly_false, read_local
from regauge.cel.frames import Frame, Step
from regauge.cel.guards import guarded
from regauge.cel.library import FUNCTIONS, OVERLOADS
from regauge.cel.library.operators import contains
from regauge.cel.library.regexes import compile_pattern
from regauge.cel.metering import Meter, metered_call, metered_equal, metered_literal
from regauge.cel.operations import (
    apply,
    conditional,
    conjunction,
    constant_call,
    disjunction,
    equality,
    inequality,
    list_literal,
    map_literal,
    or_else,
    order,
    raising,
)
from regauge.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select
from regauge.cel.types import Type
from regauge.cel.values import Uint

FIRST_LOCAL: Final = 2
_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
_OPERATORS: Final = ("_+_", "_-_", "_*_", "_/_", "_%_", "-_", "_<_", "_<=_", "_>_", "_>=_", "@in")
_COMPARISONS: Final = ("isGreaterThan", "isLessThan", "compareTo", "add", "sub")
# Functions that dispatch by themselves: one implementation for all overloads, as upstream has it.
_SELF_CHECKED: Final = frozenset({*_OPERATORS, "size", "sort", "@sortByAssociatedKeys", "flatten", *_COMPARISONS})
_BY_RESULT: Final = frozenset({"join", "slice", "reverse", "lists.range"})
_ORDERS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_SET_ELEMENTS: Final = frozenset({bool, int, Uint, float, str})
_REGEX_CALLS: Final = frozenset({"matches", "find", "findAll"})


class PlanError(Exception):
    """Upstream cannot make a program of the tree; `text` says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Planned(NamedTuple):
    """A function, and its value where that is known without a device: `constant` tells whether it is."""

    step: Step
    constant: bool = False
    value: object = None


class Plan(NamedTuple):
    """What to run, and the empty local variables it needs."""

    step: Step
    locals: tuple[None, ...]

    def run(self, device: Device, meter: Meter | None) -> object:
        """The value. Raises `EvaluationError` and `BudgetExceeded`."""
        return self.step([device, meter, *self.locals])


def make_plan(root: Node, environment: Environment, metered: bool) -> Plan:
    """The plan for a checked tree, counting costs if `metered`. Raises `PlanError`."""
    planner = _Planner(environment, metered)
    planned = planner.plan(root)
    return Plan(planned.step, (None,) * planner.slots)


def known(value: object) -> Planned:
    return Planned(lambda frame: value, True, value)


class _Planner:
    def __init__(self, environment: Environment, metered: bool) -> None:
        self.environment = environment
        self.variant = environment.variant
        self.metered = metered
        self.slots = 0
        self.names: dict[str, list[int]] = {}

    def plan(self, node: Node) -> Planned:
        if isinstance(node, Literal):
            return known(node.value)
        if isinstance(node, Ident | Select):
            return self.plan_chain(node)
        if isinstance(node, Call):
            return self.plan_call(node)
        if isinstance(node, ListNode):
            return self.plan_list(node)
        if isinstance(node, MapNode):
            return self.plan_map(node)
        assert isinstance(node, Fold)
        return self.plan_fold(node)

    # -- names, selection, index

    def plan_chain(self, node: Node) -> Planned:
        base, links = self.links(node)
        named = base.value if isinstance(base, Ident) else None
        if isinstance(named, Type) and not links:
            return known(named)
        start, free = self.chain_start(base)
        if self.metered:
            return Planned(metered_chain(start, links, cost=0 if free else 1))
        if isinstance(base, Ident) and self.slot(base.name) is None and named is None:
            direct = plain_path(links)
            if direct is not None:
                return Planned(direct)
        return Planned(chain(start, links))

    def start(self, step: Step) -> Step:
        return native(step) if self.variant.native_optionals else step

    def chain_start(self, base: Node) -> tuple[Step, bool]:
        """What the chain begins with, and whether the chain itself costs nothing (a conditional)."""
        if isinstance(base, Ident):
            if isinstance(base.value, Type):
                return known(base.value).step, False
            slot = self.slot(base.name)
            return (self.start(read_local(slot)) if slot is not None else _read_device), False
        if isinstance(base, Call) and base.function == "_?_:_":
            return self.conditional_parts(base), True
        return self.start(self.plan(base).step), False

    def conditional_parts(self, node: Call) -> Step:
        test, if_true, if_false = node.args
        return conditional(self.plan(test).step, self.start(self.branch(if_true)), self.start(self.branch(if_false)))

    def branch(self, node: Node) -> Step:
        """One side of a conditional: a chain costs nothing there beyond its links."""
        if not (self.metered and _is_chain(node)):
            return self.plan(node).step
        base, links = self.links(node)
        return metered_chain(self.chain_start(base)[0], links, cost=0)

    def links(self, node: Node) -> tuple[Node, list[Link]]:
        """The node a chain starts from, and its links from there on."""
        links: list[Link] = []
        while True:
            if isinstance(node, Select):
                if node.replaced:
                    node = node.replaced
                    break
                links.append(Link(node.member, None, False, node.test_only))
                node = node.operand
            elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
                optional = node.function != "_[_]"
                links.append(self.index_link(node.args[1], optional))
                node = node.args[0]
            else:
                break
        return node, links[::-1]

    def index_link(self, index: Node, optional: bool) -> Link:
        if self.metered and _is_chain(index):
            base, links = self.links(index)
            start, _ = self.chain_start(base)
            return Link(None, metered_chain(start, links, cost=0), optional, False)
        planned = self.plan(index)
        if not planned.constant:
            return Link(None, planned.step, optional, False)
        if type(planned.value) not in KEY_CLASSES:
            raise PlanError("invalid qualifier type")
        return Link(planned.value, None, optional, False)

    def slot(self, name: str) -> int | None:
        if name.startswith("."):
            return None
        found = self.names.get(name)
        return found[-1] if found else None

    # -- calls

    def plan_call(self, node: Call) -> Planned:
        function = node.function
        if function in ("_[_]", "_[?_]", "_?._"):
            return self.plan_chain(node)
        if function == "_?_:_":
            return Planned(self.conditional_parts(node))
        args = [self.plan(arg) for arg in node.children()]
        steps = [arg.step for arg in args]
        if function == "_&&_":
            return Planned(conjunction(*steps))
        if function == "_||_":
            return Planned(disjunction(*steps))
        if function in ("or", "orValue"):
            return Planned(
                or_else(steps[0], steps[1], optional=function == "or", lenient=self.variant.lenient_optionals)
            )
        if function in ("_==_", "_!=_"):
            return self.plan_equality(function, args)
        if function == "@not_strictly_false":
            return Planned(not_strictly_false(steps[0], 1 if self.metered else 0))
        return self.plan_function(node, args)

    def plan_equality(self, function: str, args: list[Planned]) -> Planned:
        left, right = args
        if self.metered:
            overload = "equals" if function == "_==_" else "not_equals"
            cost = cost_rule(function, overload, self.variant)
            return Planned(metered_equal(function == "_!=_", cost, left.step, right.step))
        make = equality if function == "_==_" else inequality
        fixed = right if right.constant else left
        text = fixed.value if fixed.constant and type(fixed.value) is str else None
        return Planned(make(left.step, right.step, text, right.constant))

    def plan_function(self, node: Call, args: list[Planned]) -> Planned:
        function, overload = node.function, node.overloads[0] if len(node.overloads) == 1 else ""
        implementation = self.implementation(node, overload)
        constant = all(arg.constant for arg in args)
        if overload == "in_list" and args[1].constant:
            return self.plan_membership(args)
        optimized = function in _REGEX_CALLS and args[1].constant and isinstance(args[1].value, str)
        if optimized:
            try:
                compile_pattern(str(args[1].value))
            except EvaluationError as error:
                raise PlanError(error.text) from None
        values = [arg.value for arg in args]
        if constant and function in _CONVERSIONS and len(args) == 1:
            try:
                return known(implementation(*values))
            except EvaluationError as error:
                raise PlanError(error.text) from None
        steps = [arg.step for arg in args]
        if self.metered:
            cost = cost_rule(function, overload, self.variant)
            return Planned(
                metered_call(
                    cost,
                    implementation,
                    steps,
                    patient=len(steps) < 3 and not optimized,
                    early=function not in _BY_RESULT,
                )
            )
        if constant:
            return Planned(constant_call(implementation, values))
        if function in _ORDERS:
            return Planned(order(function, steps[0], steps[1]))
        return Planned(apply(implementation, steps))

    def implementation(self, node: Call, overload: str) -> Callable[..., object]:
        """What to call. Where the check settled on one of several overloads, only that one may run."""
        replaced = self.variant.replaced.get(overload)
        if replaced is not None:
            return OVERLOADS[replaced]
        found = FUNCTIONS.get(node.function, raising("no such overload"))
        if not overload or node.function in _SELF_CHECKED:
            return found
        overloads = self.environment.functions[node.function]
        if len(overloads) > 1:
            return guarded(found, next(one.args for one in overloads if one.id == overload))
        return found

    def plan_membership(self, args: list[Planned]) -> Planned:
        """`in` a constant list: upstream looks the value up in a set, which costs nothing."""
        items = args[1].value
        if not isinstance(items, tuple) or not items:
            return known(False)
        primitive = all(type(item) in _SET_ELEMENTS for item in items)
        if not primitive:
            steps = [args[0].step, args[1].step]
            if self.metered:
                cost = cost_rule("@in", "in_list", self.variant)
                return Planned(metered_call(cost, contains, steps, patient=True))
            return Planned(apply(contains, steps))
        element = args[0].step
        texts = frozenset(items) if all(type(item) is str for item in items) else None

        def member(frame: Frame) -> bool:
            value = element(frame)
            if type(value) is str:
                return value in texts if texts is not None else value in items
            return contains(value, items)

        return Planned(member)

    # -- literals and folds

    def plan_list(self, node: ListNode) -> Planned:
        elements = [self.plan(element) for element in node.elements]
        if all(element.constant for element in elements) and not node.optionals:
            return known(tuple(element.value for element in elements))
        step = list_literal([element.step for element in elements], node.optionals)
        return Planned(metered_literal(step, 10) if self.metered else step)

    def plan_map(self, node: MapNode) -> Planned:
        keys = [self.plan(entry.key) for entry in node.entries]
        values = [self.plan(entry.value) for entry in node.entries]
        optionals = [entry.optional for entry in node.entries]
        step = map_literal([key.step for key in keys], [value.step for value in values], optionals)
        if all(one.constant for one in (*keys, *values)):
            try:
                return known(step([]))
            except EvaluationError as error:
                return Planned(raising(error.text))
        return Planned(metered_literal(step, 30) if self.metered else step)

    def declare(self, name: str) -> int:
        slot = FIRST_LOCAL + self.slots
        self.slots += 1
        self.names.setdefault(name, []).append(slot)
        return slot

    def plan_fold(self, node: Fold) -> Planned:
        start = self.plan(node.start)
        if node.is_bind:
            slot = self.declare(node.accumulator)
            result = self.plan(node.result).step
            self.names[node.accumulator].pop()
            return Planned(bind(slot, start.step, result))
        over = self.plan(node.range).step
        accumulator = self.declare(node.accumulator)
        key = self.declare(node.key)
        value = self.declare(node.value) if node.value else -1
        condition = None
        if not (isinstance(node.condition, Literal) and node.condition.value is True):
            condition = self.plan(node.condition).step
        step = self.plan_step(node, accumulator)
        self.names[node.key].pop()
        if node.value:
            self.names[node.value].pop()
        result = self.plan(node.result).step
        self.names[node.accumulator].pop()
        parts = FoldParts(over, start.step, condition, step, result, (accumulator, key, value))
        return Planned(fold(parts))

    def plan_step(self, node: Fold, accumulator: int) -> Step:
        """The step; what only grows a fresh list or map does so in place."""
        step = node.step
        if isinstance(step, Call) and step.function == "_?_:_":
            grown = self.growing(step.args[1], node.accumulator, accumulator)
            if grown is not None:
                return conditional(self.plan(step.args[0]).step, grown, self.branch(step.args[2]))
        return self.growing(step, node.accumulator, accumulator) or self.plan(step).step

    def growing(self, step: Node, name: str, slot: int) -> Step | None:
        if not isinstance(step, Call) or not step.args:
            return None
        first = step.args[0]
        if not (isinstance(first, Ident) and first.name == name and name.startswith("@")):
            return None
        meter_cost = 1 if self.metered else 0
        if step.function == "_+_" and isinstance(step.args[1], ListNode) and len(step.args[1].elements) == 1:
            item = self.plan(step.args[1].elements[0])
            fresh = 0 if item.constant else 10 * meter_cost
            return append_to(slot, item.step, meter_cost, meter_cost + fresh)
        if step.function == "cel.@mapInsert":
            parts = [self.plan(arg).step for arg in step.args[1:]]
            return insert_into(slot, parts, meter_cost, meter_cost)
        return None


def _is_chain(node: Node) -> bool:
    """Whether a node is what upstream calls an attribute: it reads from a variable or from another value."""
    if isinstance(node, Ident):
        return not isinstance(node.value, Type)
    if isinstance(node, Select):
        return node.replaced is None
    return isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._", "_?_:_")


def _read_device(frame: Frame) -> object:
    return frame[0].root
