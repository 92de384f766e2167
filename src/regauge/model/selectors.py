"""Label selectors and node selectors, matched as Kubernetes does.

Source: apimachinery labels, component-helpers nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from regauge.base import InputError
from regauge.model.core import Node
from regauge.model.meta import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement

_SET = re.compile(r"^\s*(?P<key>[^\s=!<>,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_COMPARE = re.compile(r"^\s*(?P<key>[^\s=!<>,()]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s=!<>,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<no>!?)\s*(?P<key>[^\s=!<>,()]+)\s*$")
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}


def matches_requirement(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    """One requirement against labels. An unknown operator, or a number that is none, matches nothing."""
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            return key in labels and _compares(requirement.operator, labels[key], values)
    return False


def _compares(operator: str, have: str, values: tuple[str, ...]) -> bool:
    try:
        left, right = int(have), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def matches_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """A label selector against labels. None matches nothing, an empty selector everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(matches_requirement(requirement, labels) for requirement in selector.match_expressions)


def matches_node_term(term: NodeSelectorTerm, node: Node) -> bool:
    """One term against a node: all its requirements; a term without any matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels or {}
    fields = {"metadata.name": node.metadata.name}
    return all(matches_requirement(item, labels) for item in term.match_expressions) and all(
        matches_requirement(item, fields) for item in term.match_fields
    )


def matches_node(selector: NodeSelector, node: Node) -> bool:
    """A node selector against a node: any of its terms; no terms match nothing."""
    return any(matches_node_term(term, node) for term in selector.node_selector_terms)


# -- label selectors in their text form


def parse_label_selector(text: str) -> tuple[SelectorRequirement, ...]:
    """A label selector as kubectl and the API take it: "a=b,c in (d,e),!f". Raises `InputError`, in upstream's words.

    Source: apimachinery pkg/labels.
    """
    return tuple(_label_requirement(part, text) for part in selector_parts(text))


def selector_parts(text: str) -> list[str]:
    """The requirements of a selector: split at commas outside of parentheses."""
    return re.split(r",(?![^(]*\))", text) if text.strip() else []


def _label_requirement(part: str, whole: str) -> SelectorRequirement:
    if found := _SET.match(part):
        values = tuple(item.strip() for item in found["values"].split(","))
        return SelectorRequirement(key=found["key"], operator=_OPERATORS[found["op"]], values=values)
    if found := _COMPARE.match(part):
        if found["op"] in "<>" and not found["value"].lstrip("-").isdigit():
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise InputError(f'unable to parse requirement: values[0]: Invalid value: "{found["value"]}": {text}')
        return SelectorRequirement(key=found["key"], operator=_OPERATORS[found["op"]], values=(found["value"],))
    if found := _EXISTS.match(part):
        return SelectorRequirement(key=found["key"], operator="DoesNotExist" if found["no"] else "Exists")
    raise InputError(f'unable to parse requirement: found "{part.strip()}" in the label selector "{whole}"')
