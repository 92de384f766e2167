"""The static check: finds the type of every node and the overloads of every call, or says what is wrong."""

from __future__ import annotations

from typing import Final

from regauge.cel import types
from regauge.cel.environment import Environment, Overload
from regauge.cel.errors import Issue
from regauge.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select, StructNode
from regauge.cel.types import DYN, ERROR, Mapping, Type
from regauge.cel.values import Uint

_LITERALS: Final = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}
TYPE_NAMES: Final = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "int": types.INT,
    "list": types.list_of(DYN),
    "map": types.map_of(DYN, DYN),
    "null_type": types.NULL,
    "string": types.STRING,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "type": types.TYPE,
    "uint": types.UINT,
    "optional_type": types.optional_of(DYN),
    "net.IP": types.IP,
    "net.CIDR": types.CIDR,
}


def check(root: Node, environment: Environment) -> list[Issue]:
    """Write types and overloads into the tree; the issues found."""
    checker = _Checker(environment)
    checker.check(root)
    if not checker.issues:
        _finish(root, checker.mapping)
    return checker.issues


def _finish(root: Node, mapping: Mapping) -> None:
    """Replace the type parameters that are left by what they stand for."""
    pending, seen = [root], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.type is not None:
            node.type = types.substitute(mapping, node.type, params_to_dyn=True)
        pending.extend(node.children())


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.functions = environment.functions
        self.scopes: list[dict[str, Type]] = []
        self.issues: list[Issue] = []
        self.mapping: Mapping = {}
        self.variables = 0

    # -- small parts

    def report(self, node: Node, text: str) -> None:
        self.issues.append(Issue(text, node.offset))

    def mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self.report(node, f"expected type '{expected}' but found '{found}'")

    def undeclared(self, node: Node, name: str) -> None:
        self.report(node, f"undeclared reference to '{name}' (in container '')")
        self.set_type(node, ERROR)

    def set_type(self, node: Node, kind: Type) -> None:
        if node.type is not None and node.type != kind:
            text = f"incompatible type already exists for expression: old:{node.type}, new:{kind}"
            self.report(node, text)
            return
        node.type = kind

    def type_of(self, node: Node) -> Type:
        return node.type or ERROR

    def resolved(self, node: Node) -> Type:
        return types.substitute(self.mapping, self.type_of(node), params_to_dyn=False)

    def new_variable(self) -> Type:
        self.variables += 1
        return Type("param", f"_var{self.variables - 1}")

    def assignable(self, left: Type, right: Type) -> bool:
        return self.assignable_all((left,), (right,))

    def assignable_all(self, lefts: tuple[Type, ...], rights: tuple[Type, ...]) -> bool:
        extended = types.assignable_all(self.mapping, lefts, rights)
        if extended is None:
            return False
        self.mapping = extended
        return True

    def assert_type(self, node: Node, kind: Type) -> None:
        if not self.assignable(kind, self.type_of(node)):
            self.mismatch(node, kind, self.type_of(node))

    # -- nodes

    def check(self, node: Node) -> None:
        if isinstance(node, Literal):
            self.set_type(node, _LITERALS[type(node.value)])
        elif isinstance(node, Ident):
            self.check_ident(node)
        elif isinstance(node, Select):
            self.check_select(node)
        elif isinstance(node, Call):
            self.check_call(node)
        elif isinstance(node, ListNode):
            self.check_list(node)
        elif isinstance(node, MapNode):
            self.check_map(node)
        elif isinstance(node, Fold):
            self.check_fold(node)
        elif isinstance(node, StructNode):
            self.report(node, f"unsupported: message literal '{node.name}'")
            self.set_type(node, ERROR)

    def lookup(self, name: str) -> tuple[Type, Type | None] | None:
        """The type of a name, and the type it names if it names one."""
        plain = name.removeprefix(".")
        if plain == name:
            for scope in reversed(self.scopes):
                if name in scope:
                    return scope[name], None
        if plain == "device":
            return types.DEVICE, None
        named = TYPE_NAMES.get(plain)
        return (types.type_of(named), named) if named else None

    def check_ident(self, node: Ident) -> None:
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return
        self.set_type(node, found[0])
        node.value = found[1]

    def check_select(self, node: Select) -> None:
        name = None if node.test_only else _qualified(node)
        if name is not None and name in TYPE_NAMES:
            node.replaced = Ident(node.offset, name)
            self.check_ident(node.replaced)
            self.set_type(node, self.type_of(node.replaced))
            return
        result = self.field_type(node, node.operand, node.member, optional=False)
        if node.test_only:
            result = types.BOOL
        self.set_type(node, types.substitute(self.mapping, result, params_to_dyn=False))

    def field_type(self, node: Node, operand: Node, field: str, optional: bool) -> Type:
        self.check(operand)
        target, was_optional = types.unwrap_optional(self.resolved(operand))
        result = ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            fields = self.environment.fields if target == types.DEVICE else {}
            if field in fields:
                result = fields[field]
            elif target == types.DEVICE:
                self.report(node, f"undefined field '{field}'")
            else:
                self.report(node, f"unexpected failed resolution of '{target}'")
        else:
            if target.kind == "param":
                self.assignable(DYN, target)
            elif not (target.is_dynamic or target.kind == "error"):
                self.report(node, f"type '{target}' does not support field selection")
            result = DYN
        return types.optional_of(result) if was_optional or optional else result

    # -- calls

    def check_call(self, node: Call) -> None:
        if node.function == "_?._":
            name = node.args[1]
            assert isinstance(name, Literal)
            result = self.field_type(node, node.args[0], str(name.value), optional=True)
            self.set_type(node, types.substitute(self.mapping, result, params_to_dyn=False))
            node.overloads = ("select_optional_field",)
            return
        for arg in node.args:
            self.check(arg)
        if node.target is not None:
            prefix = _qualified(node.target)
            qualified = f"{prefix}.{node.function}".removeprefix(".") if prefix else ""
            if qualified in self.functions:
                node.function, node.target = qualified, None
            else:
                self.check(node.target)
        else:
            node.function = node.function.removeprefix(".")
        overloads = self.functions.get(node.function)
        if overloads is None:
            self.undeclared(node, node.function)
            return
        self.resolve(node, overloads)

    def resolve(self, node: Call, overloads: tuple[Overload, ...]) -> None:
        args = node.children()
        kinds = tuple(map(self.type_of, args))
        if node.function in ("_&&_", "_||_"):
            self.resolve_logic(node, overloads[0])
            return
        result: Type | None = None
        matching: list[str] = []
        for overload in overloads:
            if overload.member != (node.target is not None):
                continue
            wanted, given = overload.args, overload.result
            if overload.params:
                fresh = {param: self.new_variable() for param in overload.params}
                wanted = tuple(types.substitute(fresh, kind, params_to_dyn=False) for kind in wanted)
                given = types.substitute(fresh, given, params_to_dyn=False)
            if self.assignable_all(kinds, wanted):
                matching.append(overload.id)
                found = types.substitute(self.mapping, given, params_to_dyn=False)
                if result is None:
                    result = found
                elif not result.is_dynamic and found != result:
                    result = DYN
        if result is None:
            self.report(node, _no_match(node, [types.substitute(self.mapping, k, True) for k in kinds]))
            self.set_type(node, ERROR)
            return
        self.set_type(node, result)
        node.overloads = tuple(matching)

    def resolve_logic(self, node: Call, overload: Overload) -> None:
        fits = True
        for arg in node.args:
            if not self.assignable(self.type_of(arg), types.BOOL):
                self.mismatch(arg, types.BOOL, self.type_of(arg))
                fits = False
        self.set_type(node, types.BOOL if fits else ERROR)
        node.overloads = (overload.id,)

    # -- literals and folds

    def element(self, node: Node, optional: bool) -> Type:
        kind = self.type_of(node)
        if optional:
            kind, was_optional = types.unwrap_optional(kind)
            if not was_optional and not kind.is_dynamic:
                self.mismatch(node, types.optional_of(kind), kind)
        return kind

    def join(self, node: Node, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.assignable(previous, current):
            return types.most_general(previous, current)
        return DYN

    def check_list(self, node: ListNode) -> None:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            self.check(element)
            joined = self.join(element, joined, self.element(element, index in node.optionals))
        self.set_type(node, types.list_of(joined or self.new_variable()))

    def check_map(self, node: MapNode) -> None:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            key = self.join(entry.key, key, self.type_of(entry.key))
            self.check(entry.value)
            value = self.join(entry.value, value, self.element(entry.value, entry.optional))
        if key is None or value is None:
            key, value = self.new_variable(), self.new_variable()
        self.set_type(node, types.map_of(key, value))

    def check_fold(self, node: Fold) -> None:
        self.check(node.range)
        self.check(node.start)
        over = self.resolved(node.range)
        accumulator = self.type_of(node.start)
        first, second = self.iteration_types(node, over)
        self.scopes.append({node.accumulator: accumulator})
        names = {node.key: first}
        if node.value:
            names[node.value] = second
        self.scopes.append(names)
        self.check(node.condition)
        self.assert_type(node.condition, types.BOOL)
        self.check(node.step)
        self.assert_type(node.step, accumulator)
        self.scopes.pop()
        self.check(node.result)
        self.scopes.pop()
        self.set_type(node, self.resolved(node.result))

    def iteration_types(self, node: Fold, over: Type) -> tuple[Type, Type]:
        if over.kind == "list":
            return (types.INT, over.params[0]) if node.value else (over.params[0], ERROR)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in ("dyn", "error", "param"):
            self.assignable(DYN, over)
            return DYN, DYN
        text = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self.report(node.range, text)
        return ERROR, ERROR


def _qualified(node: Node) -> str | None:
    """The dotted name that a chain of selections spells, or None."""
    names: list[str] = []
    while isinstance(node, Select):
        if node.test_only:
            return None
        names.append(node.member)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(names)])


def _no_match(node: Call, kinds: list[Type]) -> str:
    shown = [str(kind) for kind in kinds]
    if node.target is not None:
        signature = f"{shown[0]}.({', '.join(shown[1:])})"
    else:
        signature = f"({', '.join(shown)})"
    return f"found no matching overload for '{node.function}' applied to '{signature}'"
