"""YAML and JSON text as a tree with line numbers, through PyYAML's C parser and nothing of its typing.

Bounded: the size of the text here, the nesting by the parser (1,000), the growth by aliases where the tree is walked.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from regauge.cdi.findings import Finding, Path

SPEC_LIMIT_BYTES = 16 * 2**20

_ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")

PLAIN = "plain"
QUOTED = "quoted"

__all__ = ["PLAIN", "QUOTED", "MappingNode", "Node", "ScalarNode", "SequenceNode", "compose", "line_of"]


class _Composer(yaml.CBaseLoader):
    """The C parser with a resolver that only says whether a scalar was quoted."""

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        return PLAIN if implicit is True or implicit is False or implicit[0] else QUOTED

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Tags do not depend on the place in the tree."""

    def ascend_resolver(self) -> None:
        """Tags do not depend on the place in the tree."""


def compose(text: str | bytes, file: str | None = None) -> tuple[Node | None, list[Finding]]:
    """(the first document as a tree, findings). A tree is given unless a finding is an error.

    A scalar's `tag` is PLAIN, QUOTED or the explicit tag. Aliases are the same node again, so a tree may hold itself.
    """
    if len(text) > SPEC_LIMIT_BYTES:
        return None, [Finding("size", f"the file is over {SPEC_LIMIT_BYTES // 2**20} MiB", file=file)]
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        decoded.encode("utf-8")
        parser = _Composer(decoded)
        root = parser.get_node() if parser.check_node() else None
    except yaml.MarkedYAMLError as error:
        return None, [_syntax(error, file)]
    except yaml.YAMLError as error:
        return None, [Finding("syntax", f"not valid YAML: {error}", file=file)]
    except UnicodeError:
        return None, [Finding("syntax", "the file is not UTF-8 text", file=file)]
    except RecursionError:
        return None, [Finding("syntax", "the file is nested too deeply", file=file)]
    if root is not None and "\\/" in decoded and (node := _escaped_slash(root, decoded)):
        what = "'\\/' is not an escape in YAML: runtimes refuse the file"
        fix = "write '/'"
        return None, [Finding("syntax", what, fix=fix, file=file, line=node.start_mark.line + 1)]
    if root is None:
        return None, [Finding("empty", "the file is empty", fix="write a spec or remove the file", file=file)]
    return root, _after(parser, file)


def _escaped_slash(root: Node, text: str) -> Node | None:
    """The first text with a slash escaped as JSON allows and the YAML library of runtimes does not."""
    todo, seen = [root], {id(root)}
    while todo:
        node = todo.pop()
        if isinstance(node, ScalarNode):
            if node.style == '"' and _ESCAPED_SLASH.search(text, node.start_mark.index, node.end_mark.index):
                return node
            continue
        children = node.value if isinstance(node, SequenceNode) else [part for pair in node.value for part in pair]
        for child in reversed(children):
            if id(child) not in seen:
                seen.add(id(child))
                todo.append(child)
    return None


def _after(parser: _Composer, file: str | None) -> list[Finding]:
    """What follows the first document is ignored by every runtime, even when it is not YAML: say so."""
    try:
        if not parser.check_node():
            return []
    except (yaml.YAMLError, RecursionError):
        pass
    what = "what follows the first YAML document is ignored"
    return [Finding("second-document", what, severity="warning", fix="put each spec into its own file", file=file)]


def _syntax(error: yaml.MarkedYAMLError, file: str | None) -> Finding:
    mark = error.problem_mark or error.context_mark
    what = ", ".join(part for part in (error.context, error.problem) if part)
    return Finding("syntax", f"not valid YAML: {what}", file=file, line=mark.line + 1 if mark else None)


def line_of(root: Node | None, path: Path) -> int | None:
    """The line, from 1, of what `path` leads to; of the nearest thing above it when the file does not have it."""
    node, line = root, None
    for step in (None, *path):
        if isinstance(step, str):
            node, line = _member(node, step, line)
        elif isinstance(step, int):
            node = node.value[step] if isinstance(node, SequenceNode) and step < len(node.value) else None
        if node is None:
            break
        if not isinstance(step, str):
            line = node.start_mark.line + 1
    return line


def _member(node: Node | None, name: str, line: int | None) -> tuple[Node | None, int | None]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value, key.start_mark.line + 1
    return None, line
