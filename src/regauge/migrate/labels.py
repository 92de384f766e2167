"""Node labels that describe devices, and the CEL selectors that say the same of a device. Both ways. Pure.

A selector never errs on a device that lacks the attribute: it is false there, since an error ends the allocation of the
whole claim. What a label says and no selector can say is told apart by kind, and never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")
_PLAIN = re.compile(r"[A-Za-z0-9._+-]*")
_MIG_PRODUCT = re.compile(r"(?P<product>.+)-MIG-(?P<profile>[0-9]+g\.[0-9]+gb(?:\.me)?)")
_SHARED_SUFFIX = "-SHARED"


class LabelRule(msgspec.Struct, frozen=True):
    """What one label says. `form` is how its value and the attribute's (or capacity's) correspond."""

    label: str
    kind: str
    source: str
    driver: str = ""
    attribute: str = ""
    capacity: str = ""
    form: str = ""
    confidence: str = ""


class _Table(msgspec.Struct):
    device_domains: tuple[str, ...]
    labels: tuple[LabelRule, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """A label requirement as a selector on devices of `driver`."""

    driver: str
    expression: str
    confidence: str
    rule: LabelRule


@dataclass(frozen=True, slots=True)
class NotSelected:
    """Why a requirement is no selector. `implied`: any claim for such a device says it; `node`: it is about nodes."""

    why: str
    implied: bool = False
    node: bool = False


@cache
def _table() -> _Table:
    return msgspec.json.decode(files("regauge.migrate").joinpath("data/labels.json").read_bytes(), type=_Table)


def label_rules() -> tuple[LabelRule, ...]:
    """The packaged table of labels."""
    return _table().labels


def rule_of(label: str) -> LabelRule | None:
    """What is known of a label; None for a label that is not in the table."""
    return next((rule for rule in label_rules() if rule.label == label), None)


def describes_devices(label: str) -> bool:
    """Whether a label says something of devices: it is in the table, or in the domain of a vendor of devices."""
    rule = rule_of(label)
    domain = label.partition("/")[0]
    return (rule is not None and rule.kind != "node") or domain in _table().device_domains


def to_selector(label: str, operator: str, values: tuple[str, ...]) -> Selected | NotSelected:
    """One requirement of a node selector or node affinity as a selector on devices."""
    rule = rule_of(label)
    if rule is None and not describes_devices(label):
        return NotSelected("it is about nodes", node=True)
    if rule is None:
        return NotSelected(
            f"nothing is known of the label {label}: what a driver publishes of the same is not in the table"
        )
    if rule.kind == "node":
        return NotSelected(f"it describes the hardware of nodes ({rule.source})", node=True)
    if rule.kind == "sharing":
        return NotSelected(f"the label {label} says how devices are shared, which no selector on a device can say")
    if rule.kind == "implied":
        sure = (operator == "Exists") or (operator == "In" and "true" in values)
        return (
            NotSelected("any claim for such a device says it", implied=True)
            if sure
            else NotSelected(f"{label} {operator} {', '.join(values)} wants a node without such devices")
        )
    if operator not in ("In", "NotIn", "Gt", "Lt", "Exists"):
        return NotSelected(f"{label} {operator} wants a node without what a device would have to show")
    if any(value.endswith(_SHARED_SUFFIX) for value in values):
        return NotSelected(f"{label} {', '.join(values)} names a product that is counted several times (shared)")
    expression = _expression(rule, operator, values)
    if expression is None:
        return NotSelected(f"{label} {operator} {', '.join(values)} has no equivalent for the published {_field(rule)}")
    return Selected(rule.driver, expression, rule.confidence, rule)


def from_selector(expression: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The label requirements that make exactly this selector, best known first: (label, operator, values)."""
    for rule in label_rules():
        if rule.kind != "device":
            continue
        for operator, values in _candidates(rule, expression):
            made = _expression(rule, operator, values)
            if made == expression:
                yield rule.label, operator, values


def attribute_is(driver: str, attribute: str, value: str) -> str:
    """A selector for devices whose attribute has one text value."""
    return f"{_has(driver, 'attributes', attribute)} && {_ref(driver, 'attributes', attribute)} == {_quoted(value)}"


def _field(rule: LabelRule) -> str:
    return rule.attribute or rule.capacity


def _ref(driver: str, part: str, name: str) -> str:
    return f'device.{part}["{driver}"].{name}'


def _has(driver: str, part: str, name: str) -> str:
    return f"has({_ref(driver, part, name)})"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _expression(rule: LabelRule, operator: str, values: tuple[str, ...]) -> str | None:
    part = "attributes" if rule.attribute else "capacity"
    has = _has(rule.driver, part, _field(rule))
    if operator == "Exists":
        return has
    ref = _ref(rule.driver, part, _field(rule))
    if not values or not all(_PLAIN.fullmatch(value) for value in values):
        return None
    if operator in ("Gt", "Lt"):
        bound = _bound(rule, ref, operator, values[0])
        return f"{has} && {bound}" if bound else None
    terms = [_equal(rule, ref, value) for value in values]
    if any(term is None for term in terms):
        return None
    either = " || ".join(f"({term})" if len(terms) > 1 else str(term) for term in terms)
    if operator == "NotIn":
        return f"!({has} && ({either}))"
    return f"{has} && ({either})" if len(terms) > 1 else f"{has} && {either}"


def _equal(rule: LabelRule, ref: str, value: str) -> str | None:
    """That the attribute has the value which the label's value was made from."""
    number = int(value) if _NUMBER.fullmatch(value) else None
    match rule.form:
        case "dashed":
            mig = _MIG_PRODUCT.fullmatch(value)
            if mig:
                profile = mig["profile"].replace(".me", "+me")
                same = f'{ref}.replace(" ", "-") == {_quoted(mig["product"])}'
                own = attribute_is(rule.driver, "profile", profile)
                return f"{same} && {own}"
            return f'{ref}.replace(" ", "-") == {_quoted(value)}'
        case "underscored":
            return f'{ref}.replace(" ", "_") == {_quoted(value)}'
        case "lower":
            return f'{ref}.lowerAscii().replace(" ", "-") == {_quoted(value)}'
        case "hex":
            return f"{ref} == {_quoted('0x' + value)}"
        case "major" | "minor" if number is not None:
            return f"{ref}.{rule.form}() == {number}"
        case "count" if number is not None:
            return f'{ref}.compareTo(quantity("{number}")) == 0'
        case "mebibytes" if number is not None:
            return f'{ref}.compareTo(quantity("{number}Mi")) >= 0 && {ref}.compareTo(quantity("{number + 1}Mi")) < 0'
    return None


def _bound(rule: LabelRule, ref: str, operator: str, value: str) -> str | None:
    """More or less than a number; the label's number is rounded down, so more than N begins at N + 1."""
    if not _NUMBER.fullmatch(value):
        return None
    number = int(value)
    match rule.form:
        case "major" | "minor":
            return f"{ref}.{rule.form}() {'>' if operator == 'Gt' else '<'} {number}"
        case "count":
            return f'{ref}.compareTo(quantity("{number}")) {">" if operator == "Gt" else "<"} 0'
        case "mebibytes" if operator == "Gt":
            return f'{ref}.compareTo(quantity("{number + 1}Mi")) >= 0'
        case "mebibytes":
            return f'{ref}.compareTo(quantity("{number}Mi")) < 0'
    return None


def _candidates(rule: LabelRule, expression: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Requirements that may have made an expression; the caller makes them again and compares."""
    if _field(rule) not in expression:
        return
    texts = re.findall(r'== "([^"\\]*)"', expression)
    if rule.form == "hex":
        texts = [text.removeprefix("0x") for text in texts]
    quantities = re.findall(r'quantity\("([0-9]{1,15})', expression)
    numbers = re.findall(r"(?:==|<|>) ([0-9]{1,15})", expression)
    yield "Exists", ()
    for number in dict.fromkeys((*quantities, *numbers)):
        yield from (("Gt", (number,)), ("Lt", (number,)), ("Gt", (str(max(int(number) - 1, 0)),)))
    paired = [f"{product}-MIG-{profile.replace('+me', '.me')}" for product, profile in zip(texts[::2], texts[1::2])]
    every = [tuple(texts), tuple(paired), tuple(numbers), tuple(quantities), tuple(quantities[::2])]
    for values in every:
        if values:
            yield from (("In", values), ("NotIn", values))
