"""What can be wrong with an expression, and what can go wrong when it runs."""

from __future__ import annotations

from dataclasses import dataclass


class EvaluationError(Exception):
    """One operation failed; `||`, `&&` and `!=` may absorb it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class BudgetExceeded(Exception):
    """The evaluation cost more than allowed; nothing absorbs that."""


class TooMuch(BudgetExceeded):
    """One operation is larger than this program does it."""


def no_such_overload(function: str = "") -> EvaluationError:
    return EvaluationError(f"no such overload: {function}" if function else "no such overload")


class SyntaxFault(Exception):
    """The text is no expression. `offset` counts code points from 0."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong, and where: `offset` counts code points from 0."""

    text: str
    offset: int


_LONGEST_SNIPPET = 16_384


def position(source: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1; 0 and 0 for the place that is none."""
    if offset < 0:
        return 0, 0
    before = source[:offset]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def display(source: str, issue: Issue) -> str:
    """The issue as cel-go shows it: place, text, the line and a caret below the place."""
    if issue.offset < 0:
        return f"ERROR: <input>:-1:0: {issue.text}"
    if not source:
        return f"ERROR: <input>:1:0: {issue.text}"
    line, column = position(source, issue.offset)
    head = f"ERROR: <input>:{line}:{column}: {issue.text}"
    snippet = source.split("\n")[line - 1].replace("\t", " ")
    if len(snippet) > _LONGEST_SNIPPET:
        return head
    dots = "".join("\uff0e" if ord(character) > 0x7F else "." for character in snippet[: column - 1])
    mark = "\uff3e" if column <= len(snippet) and ord(snippet[column - 1]) > 0x7F else "^"
    return f"{head}\n | {snippet}\n | {dots}{mark}"
