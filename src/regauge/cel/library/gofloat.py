"""Floats read and printed as Go does."""

from __future__ import annotations

import math
import re

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:_?[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+")
_WORDS = re.compile(r"([+-]?)(inf|infinity)|nan", re.IGNORECASE)
_LONGEST = 4000


def parse_float(text: str) -> float | None:
    """Like strconv.ParseFloat; None when the text is no number or too large."""
    if len(text) > _LONGEST:
        return None
    if _WORDS.fullmatch(text):
        return float(text)
    try:
        if _HEX.fullmatch(text):
            number = float.fromhex(text)
        elif _DECIMAL.fullmatch(text) and "_" not in text:
            number = float(text)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return None if math.isinf(number) else number


def shortest(number: float) -> str:
    """Like %g with the shortest precision that reads back the same."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent_text = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(fraction) - len(fraction.lstrip("0")) if whole == "0" else 0
    exponent = int(exponent_text or "0") + (len(whole) - 1 if whole != "0" else -leading - 1)
    digits = digits.rstrip("0") or "0"
    if exponent < -4 or exponent >= 6:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return sign + digits.ljust(exponent + 1, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
