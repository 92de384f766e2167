"""Node selectors as the allocator reads them: any mistake in one is an error, also where another term would match.

Source: component-helpers nodeaffinity.NewNodeSelector, apimachinery labels.NewRequirement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from regauge.model import NodeSelector, NodeSelectorTerm, SelectorRequirement
from regauge.model.core import Node

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

Test = Callable[[Mapping[str, str]], bool]


class SelectorError(Exception):
    """A node selector that upstream cannot parse, in its words. It never leaves the room."""


def node_matches(node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """Whether devices offered this way are there for `node`: by name, else to all, else by selector.

    Raises `SelectorError`.
    """
    if name:
        return node.metadata.name == name
    if all_nodes:
        return True
    if selector is None:
        return False
    terms = parsed(selector)
    if isinstance(terms, str):
        raise SelectorError(f"failed to parse node selector {go_text(selector)}: {terms}")
    labels, fields = node.metadata.labels or {}, {"metadata.name": node.metadata.name}
    return any(
        all(test(labels) for test in on_labels) and all(test(fields) for test in on_fields)
        for on_labels, on_fields in terms
    )


@lru_cache(maxsize=16_384)
def parsed(selector: NodeSelector) -> tuple[tuple[tuple[Test, ...], tuple[Test, ...]], ...] | str:
    """The terms as tests, or what upstream finds wrong. Terms without requirements select nothing and are left out."""
    terms, wrong = [], []
    for index, term in enumerate(selector.node_selector_terms):
        if not term.match_expressions and not term.match_fields:
            continue
        path = f"nodeSelectorTerms[{index}]"
        found = _expression_errors(term, path) + _field_errors(term, path)
        wrong += found
        if not found:
            terms.append((tuple(map(_label_test, term.match_expressions)), tuple(map(_field_test, term.match_fields))))
    return _together(wrong) if wrong else tuple(terms)


def _together(errors: list[str]) -> str:
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _expression_errors(term: NodeSelectorTerm, path: str) -> list[str]:
    errors = []
    for index, item in enumerate(term.match_expressions):
        here = f"{path}.matchExpressions[{index}]"
        if item.operator not in _OPERATORS:
            errors.append(_unsupported(f"{here}.operator", item.operator, _OPERATORS))
            continue
        errors += _key_errors(item.key, f"{here}.key") + _values_errors(item, here)
    return errors


def _field_errors(term: NodeSelectorTerm, path: str) -> list[str]:
    errors = []
    for index, item in enumerate(term.match_fields):
        here = f"{path}.matchFields[{index}]"
        if item.operator not in _FIELD_OPERATORS:
            errors.append(_unsupported(f"{here}.operator", item.operator, _FIELD_OPERATORS))
        elif len(item.values) != 1:
            errors.append(f"{here}.values: Invalid value: {_json(item.values)}: must have one element")
    return errors


def _unsupported(path: str, value: str, known: tuple[str, ...]) -> str:
    return f'{path}: Unsupported value: "{value}": supported values: ' + ", ".join(f'"{one}"' for one in known)


def _json(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]" if values else "null"


def _key_errors(key: str, path: str) -> list[str]:
    prefix, slash, name = key.rpartition("/")
    wrong = []
    if "/" in prefix:
        return [
            f"{path}: Invalid value: \"{key}\": a valid label key must consist of alphanumeric characters, '-', '_' "
            "or '.', and must start and end with an alphanumeric character with an optional DNS subdomain prefix"
        ]
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        wrong.append(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name) > 63:
        wrong.append("name part must be no more than 63 characters")
    if not _NAME.fullmatch(name):
        wrong.append(_NAME_RULE)
    return [f'{path}: Invalid value: "{key}": {"; ".join(wrong)}'] if wrong else []


def _values_errors(item: SelectorRequirement, path: str) -> list[str]:
    values, errors = item.values, []
    here = f"{path}.values"
    if item.operator in ("In", "NotIn") and not values:
        errors.append(f"{here}: Invalid value: {_json(values)}: for 'in', 'notin' operators, values set can't be empty")
    elif item.operator in ("Exists", "DoesNotExist") and values:
        errors.append(f"{here}: Invalid value: {_json(values)}: values set must be empty for exists and does not exist")
    elif item.operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(
                f"{here}: Invalid value: {_json(values)}: for 'Gt', 'Lt' operators, exactly one value is required"
            )
        errors += [
            f"{here}[{index}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            for index, value in enumerate(values)
            if _integer(value) is None
        ]
    for index, value in enumerate(values):
        if len(value) > 63:
            errors.append(f'{here}[{index}]: Invalid value: "{value}": must be no more than 63 characters')
        elif value and not _NAME.fullmatch(value):
            errors.append(f'{here}[{index}]: Invalid value: "{value}": {_VALUE_RULE}')
    return errors


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 40:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _label_test(item: SelectorRequirement) -> Test:
    key, values = item.key, frozenset(item.values)
    match item.operator:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
    limit, above = _integer(item.values[0]) or 0, item.operator == "Gt"

    def compares(labels: Mapping[str, str]) -> bool:
        have = _integer(labels.get(key, ""))
        return have is not None and (have > limit if above else have < limit)

    return compares


def _field_test(item: SelectorRequirement) -> Test:
    key, value, equal = item.key, item.values[0], item.operator == "In"
    return lambda fields: (fields.get(key, "") == value) is equal


def go_text(selector: NodeSelector) -> str:
    """The selector as upstream's String() writes it into errors."""

    def requirements(items: tuple[SelectorRequirement, ...]) -> str:
        inner = "".join(
            f"NodeSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values)}],}},"
            for one in items
        )
        return f"[]NodeSelectorRequirement{{{inner}}}"

    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{requirements(one.match_expressions)},"
        f"MatchFields:{requirements(one.match_fields)},}},"
        for one in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"
