"""The types of the checker: kinds with parameters, substitution of type parameters, and assignability.

The rules are those of cel-go's checker, including that any error type fits everywhere so that one mistake is told once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """One type. `kind` decides the rules; `name` tells opaque, struct and parameter types apart."""

    kind: str
    name: str = ""
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """As cel-go prints it in messages of the checker."""
        if self.kind in ("list", "map"):
            return f"{self.kind}({', '.join(map(str, self.params))})"
        if self.kind == "type":
            return f"type({self.params[0]})" if self.params else "type"
        if self.kind in ("opaque", "function") and self.params:
            return f"{self.name}({', '.join(map(str, self.params))})"
        if self.kind == "error":
            return "!error!"
        return self.name or self.kind

    @property
    def runtime_name(self) -> str:
        """The name that `type(value)` and the output type have."""
        return _RUNTIME_NAMES.get(self.kind) or self.name or self.kind

    @property
    def is_dynamic(self) -> bool:
        return self.kind in ("dyn", "any")


_RUNTIME_NAMES: Final = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "any": "google.protobuf.Any",
}

BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")
DYN: Final = Type("dyn")
ANY: Final = Type("any")
ERROR: Final = Type("error")
TYPE: Final = Type("type")
QUANTITY: Final = Type("struct", "kubernetes.Quantity")
SEMVER: Final = Type("struct", "kubernetes.Semver")
URL: Final = Type("struct", "kubernetes.URL")
FORMAT: Final = Type("struct", "kubernetes.NamedFormat")
DEVICE: Final = Type("struct", "kubernetes.DRADevice")
IP: Final = Type("opaque", "net.IP")
CIDR: Final = Type("opaque", "net.CIDR")

_SIMPLE: Final = {
    kind.kind: kind for kind in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DURATION, TIMESTAMP, DYN, ANY, TYPE)
}
_OPAQUE: Final = {"net.IP": IP, "net.CIDR": CIDR}


def list_of(element: Type) -> Type:
    return Type("list", "", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "", (value,))


def parse_type(text: str) -> Type:
    """The type that a declaration writes as `text`: `map(string, list(A))`. A single capital letter is a parameter."""
    head, paren, inside = text.strip().partition("(")
    params = tuple(map(parse_type, _split(inside[:-1]))) if paren else ()
    if head in ("list", "map"):
        return Type(head, "", params)
    if head == "type":
        return Type("type", "", params)
    if head == "optional_type":
        return Type("opaque", head, params)
    if len(head) == 1 and head.isupper():
        return Type("param", head)
    return _SIMPLE.get(head) or _OPAQUE.get(head) or Type("struct", head)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


Mapping = dict[Type, Type]


def unwrap_optional(kind: Type) -> tuple[Type, bool]:
    """What is inside of an optional type, and whether it was one."""
    if kind.kind == "opaque" and kind.name == "optional_type":
        return kind.params[0], True
    return kind, False


def substitute(mapping: Mapping, kind: Type, params_to_dyn: bool) -> Type:
    """`kind` with the bound type parameters replaced, and the unbound ones by dyn if asked for."""
    bound = mapping.get(kind)
    if bound is not None:
        return substitute(mapping, bound, params_to_dyn)
    if kind.kind == "param":
        return DYN if params_to_dyn else kind
    if not kind.params:
        return kind
    return Type(kind.kind, kind.name, tuple(substitute(mapping, p, params_to_dyn) for p in kind.params))


def assignable(mapping: Mapping, left: Type, right: Type) -> Mapping | None:
    """The mapping extended so that `right` can be used as `left`, or None."""
    return assignable_all(mapping, (left,), (right,))


def assignable_all(mapping: Mapping, lefts: tuple[Type, ...], rights: tuple[Type, ...]) -> Mapping | None:
    """Like `assignable`, for two lists of the same length pair by pair."""
    extended = dict(mapping)
    return extended if _all_assignable(extended, lefts, rights) else None


def _all_assignable(mapping: Mapping, lefts: tuple[Type, ...], rights: tuple[Type, ...]) -> bool:
    return len(lefts) == len(rights) and all(_assignable(mapping, a, b) for a, b in zip(lefts, rights))


def _assignable(mapping: Mapping, left: Type, right: Type) -> bool:
    if right.kind == "param":
        valid, bound = _valid_substitution(mapping, left, right)
        if valid or bound:
            return valid
    if left.kind == "param":
        return _valid_substitution(mapping, right, left)[0]
    if left.is_dynamic or right.is_dynamic or "error" in (left.kind, right.kind):
        return True
    if left.kind == "null":
        return _nullable(right)
    if right.kind == "null":
        return _nullable(left)
    if left.kind == "type":
        return right.kind == "type"
    if left.kind in ("opaque", "list", "map", "function"):
        same = left.kind == right.kind and left.name == right.name
        return same and _all_assignable(mapping, left.params, right.params)
    return left == right


def _nullable(kind: Type) -> bool:
    return kind.kind in ("null", "opaque", "struct", "any", "duration", "timestamp")


def _valid_substitution(mapping: Mapping, kind: Type, param: Type) -> tuple[bool, bool]:
    """Whether `kind` can stand for `param`, and whether `param` was bound already."""
    if kind == param:
        return True, True
    bound = mapping.get(param)
    if bound is not None:
        if kind == bound:
            return True, True
        if not _assignable(mapping, kind, bound):
            return False, True
        general = most_general(kind, bound)
        if _not_inside(mapping, param, general):
            mapping[param] = general
        return True, True
    if _not_inside(mapping, param, kind):
        mapping[param] = kind
        return True, False
    return False, False


def _not_inside(mapping: Mapping, param: Type, kind: Type) -> bool:
    if param == kind:
        return False
    if kind.kind == "param":
        bound = mapping.get(kind)
        return bound is None or _not_inside(mapping, param, bound)
    return all(_not_inside(mapping, param, inner) for inner in kind.params)


def most_general(left: Type, right: Type) -> Type:
    """The more general of two types that are known to fit together."""
    return left if _less_specific(left, right) else right


def _less_specific(left: Type, right: Type) -> bool:
    if left.is_dynamic or left.kind == "param":
        return True
    if right.is_dynamic or right.kind == "param":
        return False
    if left.kind != right.kind:
        return False
    if left.kind == "type":
        return True
    if left.kind in ("opaque", "list", "map"):
        same = left.name == right.name and len(left.params) == len(right.params)
        return same and all(map(_less_specific, left.params, right.params))
    return left == right
