"""`"...".format([...])`: the clauses, at run time and for the check of literals before."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final, NamedTuple, TypeGuard

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.library.conversions import to_string
from regauge.cel.types import Type
from regauge.cel.values import Duration, Map, Timestamp, bounded_text, type_name
from regauge.model.quoting import go_quote

DEFAULT_PRECISION: Final = 6
MAX_PRECISION: Final = 1000

_CLAUSE = re.compile(r"(?:\.([0-9]+))?([sdfebxXo])")
_ONLY: Final = {
    "b": "only integers and bools can be formatted as binary",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps",
}
_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})


class Clause(NamedTuple):
    """One %-clause: its letter (X is told by `upper`), and the precision if one is given."""

    letter: str
    upper: bool
    precision: int | None


def parse_template(template: str) -> list[str | Clause]:
    """Literal pieces and clauses. Raises `EvaluationError` for a clause that does not exist."""
    pieces: list[str | Clause] = []
    at = 0
    while True:
        percent = template.find("%", at)
        if percent < 0:
            return [*pieces, template[at:]]
        pieces.append(template[at:percent])
        if template[percent + 1 : percent + 2] == "%":
            pieces.append("%")
            at = percent + 2
            continue
        match = _CLAUSE.match(template, percent + 1)
        if match is None:
            letter = template[percent + 1 : percent + 2]
            reason = f'unrecognized formatting clause "{letter}"' if letter else "unexpected end of string"
            raise EvaluationError(f"could not parse formatting clause: {reason}")
        precision = int(match[1][:9]) if match[1] else None
        if precision is not None and precision > MAX_PRECISION:
            raise EvaluationError(f"unsupported: formatting with more than {MAX_PRECISION} digits")
        pieces.append(Clause(match[2].lower(), match[2] == "X", precision))
        at = match.end()


def complaint(letter: str, kind: str) -> str:
    """Why a clause does not take values of this type."""
    return f"error during formatting: {_ONLY[letter]}, was given {kind}"


def _format(template: object, args: object) -> str:
    if type(template) is not str or type(args) is not tuple:
        raise no_such_overload()
    out: list[str] = []
    used = size = 0
    for piece in parse_template(template):
        if isinstance(piece, Clause):
            if used >= len(args):
                raise EvaluationError(f"index {used} out of range")
            out.append(_clause(piece, args[used]))
            size += len(out[-1])
            bounded_text(size)
            used += 1
        else:
            out.append(piece)
    return "".join(out)


def _clause(clause: Clause, value: object) -> str:
    text = _FORMATS[clause.letter](clause, value)
    if text is None:
        raise EvaluationError(complaint(clause.letter, type_name(value)))
    return text


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _decimal(clause: Clause, value: object) -> str | None:
    return f"{value:d}" if _is_int(value) else None


def _binary(clause: Clause, value: object) -> str | None:
    return f"{value:b}" if isinstance(value, int) else None


def _octal(clause: Clause, value: object) -> str | None:
    return f"{value:o}" if _is_int(value) else None


def _hex(clause: Clause, value: object) -> str | None:
    if isinstance(value, str):
        text = value.encode().hex()
    elif isinstance(value, bytes):
        text = value.hex()
    elif _is_int(value):
        text = f"{value:x}"
    else:
        return None
    return text.upper() if clause.upper else text


def _double(value: object) -> float | None:
    if isinstance(value, str) and value in _WORDS:
        return float(value.replace("Infinity", "inf"))
    return value if isinstance(value, float) else None


def _not_finite(number: float) -> str:
    """As the en-US printer of golang.org/x/text writes them."""
    return "NaN" if math.isnan(number) else ("\u221e" if number > 0 else "-\u221e")


def _fixed(clause: Clause, value: object) -> str | None:
    number = _double(value)
    if number is None or not math.isfinite(number):
        return None if number is None else _not_finite(number)
    precision = DEFAULT_PRECISION if clause.precision is None else clause.precision
    return f"{number:,.{precision}f}"


def _scientific(clause: Clause, value: object) -> str | None:
    number = _double(value)
    if number is None or not math.isfinite(number):
        return None if number is None else _not_finite(number)
    precision = DEFAULT_PRECISION if clause.precision is None else clause.precision
    with localcontext() as context:
        context.prec = max(precision + 1, 1)
        context.rounding = ROUND_HALF_EVEN
        mantissa, _, exponent = f"{+Decimal(number):.{precision}e}".partition("e")
    power = int(exponent)
    return f"{mantissa}\u202f\u00d7\u202f10{_superscript(power)}"


def _superscript(number: int) -> str:
    marks = str.maketrans("0123456789-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b")
    return f"{number:03d}".translate(marks) if number < 0 else f"{number:02d}".translate(marks)


def _string(clause: Clause, value: object) -> str | None:
    if isinstance(value, tuple | Map):
        return _literal(value)
    if value is None:
        return "null"
    if isinstance(value, Type):
        return value.runtime_name
    if isinstance(value, bool | int | float | str | bytes | Duration | Timestamp):
        return to_string(value)
    return None


def _literal(value: object) -> str:
    """As it would be written in an expression: what lists and maps are printed with."""
    if isinstance(value, Map):
        return _map_literal(value)
    if type(value) is tuple:
        parts: list[str] = []
        size = 0
        for item in value:
            parts.append(_literal(item))
            size += len(parts[-1]) + 2
            bounded_text(size)
        return "[" + ", ".join(parts) + "]"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bytes):
        return "b" + go_quote(to_string(value))
    if isinstance(value, float):
        return f"{value:.{DEFAULT_PRECISION}f}" if math.isfinite(value) else f'"{_spelled(value)}"'
    if isinstance(value, Timestamp):
        return f"timestamp({go_quote(to_string(value))})"
    if isinstance(value, Duration):
        return f"duration({go_quote(to_string(value))})"
    text = _string(Clause("s", False, None), value)
    if text is None:
        raise EvaluationError(f"error during formatting: no formatting function for {type_name(value)}")
    return text


def _spelled(number: float) -> str:
    return "NaN" if math.isnan(number) else ("+Inf" if number > 0 else "-Inf")


def _map_literal(value: Map) -> str:
    pairs = []
    for key, content in value.items():
        if not isinstance(key, str | bool | int):
            text = f"no formatting function for map key of type {type_name(key)}"
            raise EvaluationError(f"error during formatting: {text}")
        pairs.append((_literal(key), _literal(content)))
    return "{" + ", ".join(f"{key}:{content}" for key, content in sorted(pairs)) + "}"


_FORMATS: Final[Mapping[str, Callable[[Clause, object], str | None]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "o": _octal,
}

FUNCTIONS: Mapping[str, Callable[..., object]] = {"format": _format}
