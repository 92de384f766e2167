"""The worst cost of an expression, known before it runs. Follows the estimators of cel-go and Kubernetes.

Only upper bounds are kept for costs; sizes have both bounds because some upper bounds follow from lower ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regauge.cel.environment import Environment
from regauge.cel.estimate_rules import estimate
from regauge.cel.sizes import LIST_COST, MAP_COST, MAX, UNKNOWN, Argument, Path, Site, Size, capped
from regauge.cel.syntax import Call, Fold, Ident, ListNode, Literal, MapNode, Node, Select
from regauge.cel.types import ERROR, Type


def worst_cost(root: Node, environment: Environment) -> int:
    """The most that evaluating the checked tree can cost, in upstream's units."""
    return _Estimator(environment).cost(root)


@dataclass(frozen=True, slots=True)
class Entries:
    """Bounds of the sizes of the keys and the values inside of a list or a map."""

    is_list: bool
    key: Size
    value: Size


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Size | None
    entries: Entries | None


class _Estimator:
    """One estimate; what it learned about nodes is kept by their identity."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> int:
        if isinstance(node, Literal):
            return 0
        if isinstance(node, Ident):
            return self.ident_cost(node)
        if isinstance(node, Select):
            return self.select_cost(node)
        if isinstance(node, Call):
            return self.call_cost(node)
        if isinstance(node, ListNode):
            return self.list_cost(node)
        if isinstance(node, MapNode):
            return self.map_cost(node)
        if isinstance(node, Fold):
            return self.bind_cost(node) if node.is_bind else self.fold_cost(node)
        return 0

    # -- what is known about nodes

    def local(self, name: str) -> _Local | None:
        found = self.locals.get(name)
        return found[-1] if found else None

    def path(self, node: Node) -> Path:
        if isinstance(node, Ident):
            found = self.local(node.name)
            if found is not None:
                return found.path
        return self.paths.get(id(node), ())

    def limit(self, path: Path) -> Size | None:
        """What the environment says about the size of the value at `path`."""
        if not path or path[0].startswith("@result"):
            return None
        found = self.environment.size_limit(path)
        return None if found is None else Size(0, found)

    def size(self, node: Node) -> Size | None:
        found = self.sizes.get(id(node)) or _written_size(node)
        if found is not None:
            return found
        found = self.limit(self.path(node))
        if found is not None:
            self.sizes[id(node)] = found
            return found
        if _is_scalar(node.type or ERROR):
            return Size(1, 1)
        if isinstance(node, Ident):
            local = self.local(node.name)
            return local.size if local else None
        return None

    def size_or_unknown(self, node: Node) -> Size:
        return self.size(node) or UNKNOWN

    def entries_of(self, node: Node) -> Entries | None:
        found = self.entries.get(id(node))
        if found is None and isinstance(node, Ident):
            local = self.local(node.name)
            return local.entries if local else None
        return found

    def argument(self, node: Node) -> Argument:
        path = self.path(node)
        if path and path[0] == "@result":
            path = ()
        return Argument(node, path, node.type or ERROR, self.size(node))

    def copy_sizes(self, target: Node, source: Node) -> None:
        size, entries = self.size(source), self.entries_of(source)
        if size is not None:
            self.sizes[id(target)] = size
        if entries is not None:
            self.entries[id(target)] = entries

    # -- nodes

    def ident_cost(self, node: Ident) -> int:
        found = self.local(node.name)
        self.paths[id(node)] = found.path if found else (node.name,)
        return 1

    def select_cost(self, node: Select) -> int:
        if node.replaced:
            return self.ident_cost(node.replaced)
        total = self.cost(node.operand)
        if node.test_only:
            return total
        if (node.operand.type or ERROR).kind in ("map", "struct", "param"):
            total += 1
        self.paths[id(node)] = (*self.path(node.operand), node.member)
        return capped(total)

    def list_cost(self, node: ListNode) -> int:
        total, item = LIST_COST, Size(0, 0) if not node.elements else Size(MAX, 0)
        for element in node.elements:
            total += self.cost(element)
            item = item.union(self.size_or_unknown(element))
        self.entries[id(node)] = Entries(True, Size(1, 1), item)
        return capped(total)

    def map_cost(self, node: MapNode) -> int:
        empty = Size(0, 0) if not node.entries else Size(MAX, 0)
        total, key, value = MAP_COST, empty, empty
        for entry in node.entries:
            total += self.cost(entry.key) + self.cost(entry.value)
            key = key.union(self.size_or_unknown(entry.key))
            value = value.union(self.size_or_unknown(entry.value))
        self.entries[id(node)] = Entries(False, key, value)
        return capped(total)

    def bind_cost(self, node: Fold) -> int:
        total = self.cost(node.range) + self.cost(node.start)
        self.push(node.accumulator, self.bound(node.start))
        total += self.cost(node.result)
        self.locals[node.accumulator].pop()
        self.copy_sizes(node, node.result)
        return capped(total)

    def fold_cost(self, node: Fold) -> int:
        total = self.cost(node.range) + self.cost(node.start)
        self.push(node.accumulator, self.bound(node.start))
        self.push_iteration(node)
        each = self.cost(node.condition) + self.cost(node.step)
        self.locals[node.key].pop()
        if node.value:
            self.locals[node.value].pop()
        total += self.cost(node.result)
        self.locals[node.accumulator].pop()
        count = self.size_or_unknown(node.range)
        total += capped(count.most * capped(each))
        if isinstance(node.start, Literal):
            size = self.size(node.start)
            if size is not None:
                self.sizes[id(node)] = size
        elif isinstance(node.start, ListNode | MapNode):
            self.sizes[id(node)] = count
            entries = self.entries_of(node.step)
            if entries is not None:
                self.entries[id(node)] = entries
        return capped(total)

    def bound(self, node: Node) -> _Local:
        entries = self.entries_of(node)
        return _Local(self.path(node), self.size(node), entries)

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def push_iteration(self, node: Fold) -> None:
        entries, path = self.entries_of(node.range), self.path(node.range)
        is_list = entries.is_list if entries else (node.range.type or ERROR).kind == "list"
        key_size = entries.key if entries else None
        value_size = entries.value if entries else None
        if node.value:
            self.push(node.key, _Local((*path, "@indices" if is_list else "@keys"), key_size, None))
            self.push(node.value, _Local((*path, "@items" if is_list else "@values"), value_size, None))
        elif is_list:
            self.push(node.key, _Local((*path, "@items"), value_size, None))
        else:
            self.push(node.key, _Local((*path, "@keys"), key_size, None))

    def call_cost(self, node: Call) -> int:
        if node.function == "dyn":
            cost = 1 + self.cost(node.args[0])
            self.copy_sizes(node, node.args[0])
            return capped(cost)
        costs = [self.cost(arg) for arg in node.args]
        args = tuple(self.argument(arg) for arg in node.args)
        total = self.cost(node.target) if node.target is not None else 0
        target = self.argument(node.target) if node.target is not None else None
        worst = 0
        result: Size | None = None
        for overload in node.overloads:
            fixed = self.environment.variant.fixed_costs.get(overload)
            if fixed is None:
                cost, size = estimate(Site(node.function, overload, target, args, self.limit))
            else:
                cost, size = fixed, None
            worst = max(worst, capped(cost))
            if size is not None:
                result = size if result is None else result.union(size)
            self.note_entries(node, overload)
            if overload in ("index_list", "index_map"):
                entries = self.entries_of(node.args[0])
                result = entries.value if entries else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[id(node)] = (*self.path(node.args[0]), step)
            if result is None:
                result = self.size(node)
        if result is not None:
            self.sizes[id(node)] = result
        return capped(total + worst + _argument_costs(node, costs))

    def note_entries(self, node: Call, overload: str) -> None:
        """What is inside of a choice or a concatenation is inside of one of its parts."""
        if overload not in ("conditional", "add_list", "add_string", "add_bytes"):
            return
        left, right = self.entries_of(node.args[-2]), self.entries_of(node.args[-1])
        if left is not None and right is not None:
            joined = Entries(left.is_list, left.key.union(right.key), left.value.union(right.value))
            self.entries[id(node)] = joined


def _argument_costs(node: Call, costs: Sequence[int]) -> int:
    if node.function == "_?_:_":
        return capped(costs[0] + max(costs[1], costs[2]))
    return capped(sum(costs))


def _written_size(node: Node) -> Size | None:
    """The size of what is written out in the expression itself."""
    if isinstance(node, Literal):
        value = node.value
        if isinstance(value, str | bytes):
            return Size(len(value), len(value))
        return Size(1, 1)
    if isinstance(node, ListNode):
        return Size(len(node.elements), len(node.elements))
    if isinstance(node, MapNode):
        return Size(len(node.entries), len(node.entries))
    return None


def _is_scalar(kind: Type) -> bool:
    if kind.kind == "opaque" and kind.name == "optional_type":
        return _is_scalar(kind.params[0])
    return kind.kind in ("bool", "double", "duration", "int", "timestamp", "uint")
