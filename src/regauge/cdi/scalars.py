"""Scalars of a CDI file, typed by the field they stand in and not by how they look.

`name: 0000:00:01.0` is that text, `major: 0x10` is sixteen, `fileMode: 0666` is octal. Same answers as the YAML library of
the reference implementation, measured; PyYAML's own typing is never asked.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Literal, NamedTuple

TAG = "tag:yaml.org,2002:"

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_OLD_BOOLS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_INFINITE = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")

Kind = Literal["str", "null", "bool", "int", "float"]
Value = str | bool | int | float | None


class Scalar(NamedTuple):
    """What a scalar is when nothing is asked of it: a kind and a value."""

    kind: Kind
    value: Value


class WrongScalar(ValueError):
    """A scalar that cannot be what its field or its own tag asks for. The text says why."""


def plain(text: str) -> Scalar:
    """What an unquoted scalar without a tag is."""
    if text in NULLS:
        return Scalar("null", None)
    if text in _BOOLS:
        return Scalar("bool", _BOOLS[text])
    if text in _INFINITE:
        return Scalar("float", _INFINITE[text])
    if text[0] not in "+-.0123456789":
        return Scalar("str", text)
    bare = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(bare) and -(2**63) <= (number := _integer(bare)) < 2**64:
        return Scalar("int", number)
    if _FLOAT.fullmatch(bare) and math.isfinite(real := float(bare)):
        return Scalar("float", real)
    return Scalar("str", text)


def tagged(tag: str, text: str) -> Scalar:
    """What a scalar with an explicit tag is. Raises `WrongScalar` when the text does not fit the tag."""
    name = tag.removeprefix(TAG) if tag.startswith(TAG) else ""
    if name == "binary":
        try:
            return Scalar("str", base64.b64decode(text, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            raise WrongScalar("!!binary is not base64 of UTF-8 text") from None
    if name not in ("int", "float", "bool", "null"):
        return Scalar("str", text)
    found = plain(text)
    if name == "float" and isinstance(found.value, int) and found.kind == "int":
        return Scalar("float", float(found.value))
    if found.kind != name:
        raise WrongScalar(f"{text!r} is not of its tag !!{name}")
    return found


def integer(scalar: Scalar, low: int, high: int) -> int:
    """A whole number from `low` to `high`; a fraction is cut off. Raises `WrongScalar`."""
    number: int | None = None
    if scalar.kind == "int":
        number = int(scalar.value or 0)
    elif scalar.kind == "float" and isinstance(scalar.value, float):
        number = _cut(scalar.value, low)
    if number is None:
        quoted = isinstance(scalar.value, str) and plain(scalar.value).kind == "int"
        hint = ": take the quotes away" if quoted else ""
        raise WrongScalar(f"{scalar.value!r} is not a whole number{hint}")
    if not low <= number <= high:
        raise WrongScalar(f"{number} is out of range: {low} to {high}")
    return number


def boolean(scalar: Scalar) -> bool:
    """true or false; also yes, no, on, off, quoted or not. Raises `WrongScalar`."""
    if isinstance(scalar.value, bool):
        return scalar.value
    if scalar.kind == "str" and scalar.value in _OLD_BOOLS:
        return _OLD_BOOLS[str(scalar.value)]
    raise WrongScalar(f"{scalar.value!r} is neither true nor false")


def must_be_quoted(text: str) -> bool:
    """Whether YAML 1.1 or 1.2 readers would take the unquoted text for something else than a string."""
    return (
        plain(text).kind != "str"
        or text in _OLD_BOOLS
        or text in ("<<", "=")  # the merge key and the default value of YAML 1.1
        or _BASE_60.fullmatch(text) is not None
        or _TIMESTAMP.fullmatch(text) is not None
    )


def _integer(text: str) -> int:
    sign, digits = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return int(sign + digits, 8)
    return int(sign + digits, 0)


def _cut(number: float, low: int) -> int | None:
    """A float as the reference makes it an integer: towards zero; below the least of 64 bits it becomes that least."""
    if math.isnan(number) or number > 2.0**63:
        return None
    if number >= 2.0**63 or number < -(2.0**63):
        return -(2**63) if low < 0 else None
    return int(number)
