"""Which values of a device an expression looks at, so that answers can be shared between devices."""

from __future__ import annotations

from regauge.cel.syntax import Call, Ident, Literal, Node, Select

Read = tuple[str, str, str]


def reads_of(root: Node) -> frozenset[Read] | None:
    """The values as (part, domain, name); None when the expression looks at more than single values."""
    found: set[Read] = set()
    pending: list[Node] = [root]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Ident) and node.name.removeprefix(".") == "device":
            return None
        read, rest = _read(node)
        if read is not None:
            found.add(read)
        pending.extend(node.children() if rest is None else rest)
    return frozenset(found)


def _read(node: Node) -> tuple[Read | None, tuple[Node, ...] | None]:
    """The value that a chain reads and the nodes below it still to be looked at; (None, None) for other nodes."""
    keys: list[object] = []
    while True:
        if isinstance(node, Select) and node.replaced is None:
            keys.append(node.member)
            node = node.operand
        elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
            index = node.args[1]
            if not isinstance(index, Literal):
                return None, None
            keys.append(index.value)
            node = node.args[0]
        else:
            break
    if not (isinstance(node, Ident) and node.name.removeprefix(".") == "device") or not keys:
        return None, None
    keys.reverse()
    if keys[0] in ("driver", "allowMultipleAllocations"):
        return (str(keys[0]), "", ""), ()
    if len(keys) >= 3 and isinstance(keys[1], str) and isinstance(keys[2], str):
        return (str(keys[0]), keys[1], keys[2]), ()
    return None, None
