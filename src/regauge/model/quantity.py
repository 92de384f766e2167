"""Quantities of resources, exactly as Kubernetes keeps and compares them.

Upstream (`k8s.io/apimachinery/pkg/api/resource`) holds a quantity either as an int64 with a decimal exponent
or as a decimal of any size, and lets the difference be seen: what counts as an integer, and which text is
printed, depends on it. So the representation is kept here as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from regauge.model.decimals import (
    INT64_DIGITS,
    MAX_INT64,
    MIN_INT64,
    QuantityError,
    add_int64,
    compare_scaled,
    digits_of_int,
    fits_int64,
    int_of_digits,
    positive_scale,
    rescale_up,
    scaled_wide,
    shift,
    sign_of,
    strip_tens,
    wrap32,
    wrap64,
)

MAX_TEXT_BYTES: Final = 65_536

_NANO: Final = -9
_CACHED_TEXT: Final = 64

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*)(?P<num>[0-9]*)(?P<dot>\.(?P<denom>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_TEXT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_TEXT: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}

WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
NOT_AN_INTEGER: Final = "cannot convert value to integer"


class QuantityFormat(Enum):
    """How a quantity prints. It is taken over from the text it was read from."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """The number `unscaled * 10**exponent`. Equal, ordered and hashed by that number alone.

    `wide` tells the representation: False is upstream's int64Amount, True its inf.Dec. `kept` is the text
    that upstream remembers because it takes it for canonical already ("" when it computes the text).
    """

    unscaled: int
    exponent: int = 0
    wide: bool = False
    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    kept: str = ""

    @staticmethod
    def parse(text: str) -> Quantity:
        """What `text` stands for; short texts are remembered. Raises `QuantityError`, in upstream's words."""
        return _parse_cached(text) if len(text) <= _CACHED_TEXT else _parse(text)

    @staticmethod
    def from_document(value: str | int | float) -> Quantity:
        """The quantity of a JSON string or number; white space around it is dropped, as upstream does."""
        if isinstance(value, str):
            return Quantity.parse(value.strip(" \t\n\v\f\r\x85\xa0"))
        return Quantity.parse(repr(value))

    @staticmethod
    def of(value: int, fmt: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """The whole number `value`, as upstream's NewQuantity (beyond int64: the wide form)."""
        return Quantity(value, 0, not fits_int64(value), fmt)

    # -- comparison: by value

    def cmp(self, other: Quantity) -> int:
        """-1, 0 or 1: whether this is less than, equal to or greater than `other`."""
        if self.exponent == other.exponent:
            return sign_of(self.unscaled - other.unscaled)
        if sign_of(self.unscaled) != sign_of(other.unscaled):
            return sign_of(sign_of(self.unscaled) - sign_of(other.unscaled))
        return compare_scaled(self.unscaled, self.exponent, other.unscaled, other.exponent)

    def __eq__(self, other: object) -> bool:
        return self.cmp(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.cmp(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.cmp(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.cmp(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.cmp(other) >= 0

    def __hash__(self) -> int:
        return hash(strip_tens(self.unscaled, self.exponent))

    def same_form(self, other: Quantity) -> bool:
        """Whether upstream's structs are equal with Go's `==`: the same notation, none wide."""
        return not (self.wide or other.wide) and self.form == other.form

    @property
    def form(self) -> tuple[int, int, bool, QuantityFormat, str]:
        """All that is kept: what equality by representation compares."""
        return (self.unscaled, self.exponent, self.wide, self.format, self.kept)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return sign_of(self.unscaled)

    @property
    def is_zero(self) -> bool:
        return self.unscaled == 0

    # -- arithmetic: the representation follows upstream

    def add(self, other: Quantity) -> Quantity:
        """The sum; a zero takes over the other's format. Raises `QuantityError` on too many digits."""
        return self._plus(other, other.unscaled)

    def sub(self, other: Quantity) -> Quantity:
        """The difference; otherwise like `add`."""
        negated = -other.unscaled
        return self._plus(other, negated if other.wide else wrap64(negated))

    def neg(self) -> Quantity:
        """The number with the other sign."""
        negated = -self.unscaled
        return Quantity(negated if self.wide else wrap64(negated), self.exponent, self.wide, self.format)

    def _plus(self, other: Quantity, unscaled: int) -> Quantity:
        fmt = other.format if self.unscaled == 0 else self.format
        if not self.wide and not other.wide:
            narrow = add_int64(self.unscaled, self.exponent, unscaled, other.exponent)
            if narrow is not None:
                return Quantity(narrow[0], narrow[1], False, fmt)
        exponent = min(self.exponent, other.exponent)
        total = shift(self.unscaled, self.exponent - exponent) + shift(unscaled, other.exponent - exponent)
        return Quantity(total, exponent, True, fmt)

    def round_up(self, exponent: int) -> tuple[Quantity, bool]:
        """Upstream's RoundUp: away from zero to a multiple of 10**`exponent`, and whether that was exact."""
        if not self.wide and self.exponent >= exponent:
            return self, True
        unscaled, exact = rescale_up(self.unscaled, self.exponent, exponent)
        return Quantity(unscaled, exponent, self.wide, self.format), exact

    # -- conversions

    def as_int64(self) -> int | None:
        """Upstream's AsInt64: the whole number if the *representation* shows one; "1.0" is None."""
        if self.wide or self.exponent < 0:
            return None
        return positive_scale(self.unscaled, self.exponent)

    @property
    def is_integer(self) -> bool:
        return self.as_int64() is not None

    def as_integer(self) -> int:
        """Like `as_int64`, but raises `QuantityError` instead of returning None."""
        value = self.as_int64()
        if value is None:
            raise QuantityError(NOT_AN_INTEGER)
        return value

    def value(self) -> int:
        """Rounded up to a whole number, as an int64 (upstream's Value, with its overflows)."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Thousandths, rounded up, as an int64 (upstream's MilliValue, with its overflows)."""
        return self.scaled_value(-3)

    def scaled_value(self, exponent: int) -> int:
        """Units of 10**`exponent`, rounded up, as an int64: overflow gives 0 or wraps, as upstream does."""
        if self.wide:
            return scaled_wide(self.unscaled, self.exponent - exponent)
        if self.exponent < exponent:
            return wrap64(rescale_up(self.unscaled, self.exponent, exponent)[0])
        return positive_scale(self.unscaled, self.exponent - exponent) or 0

    def approximate_float(self) -> float:
        """The nearest float upstream computes; infinite beyond its range."""
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = float("inf") if self.unscaled > 0 else float("-inf")
        if self.exponent == 0:
            return base
        if self.exponent > 308:
            return base * float("inf")
        return base * (float(f"1e{self.exponent}") if self.exponent >= -323 else 0.0)

    def __str__(self) -> str:
        """The canonical text, or the text as read where upstream keeps it."""
        if self.kept:
            return self.kept
        return "0" if self.unscaled == 0 else _canonical(self)

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"


# -- parsing


def _parse(text: str) -> Quantity:
    if not text:
        raise QuantityError(WRONG_FORMAT)
    if text == "0":
        return Quantity(0, kept="0")
    if len(text) > MAX_TEXT_BYTES:
        raise QuantityError(f"quantities are at most {MAX_TEXT_BYTES} bytes long")
    match = _FORM.fullmatch(text)
    if match is None:
        raise QuantityError(WRONG_FORMAT)
    num, denom = match["num"] or "0", match["denom"] or ""
    base, exponent, fmt = _suffix(match["suffix"])
    quick = _quick(text, match["sign"] == "-", num, denom, base, exponent, fmt)
    if quick is not None:
        return quick
    if not (match["zeros"] or match["num"] or denom):
        raise QuantityError(WRONG_NUMBER)
    return _wide(match["sign"] == "-", num + denom, len(denom), base, exponent, fmt)


_parse_cached = lru_cache(maxsize=65_536)(_parse)


def _suffix(suffix: str) -> tuple[int, int, QuantityFormat]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], QuantityFormat.BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE" and re.fullmatch(r"[+-]?[0-9]{1,64}", suffix[1:]):
        exponent = int(suffix[1:])
        if fits_int64(exponent):
            return 10, wrap32(exponent), QuantityFormat.DECIMAL_EXPONENT
    raise QuantityError(WRONG_SUFFIX)


def _quick(
    text: str, negative: bool, num: str, denom: str, base: int, exponent: int, fmt: QuantityFormat
) -> Quantity | None:
    """The int64 form, where upstream's estimate of the digits says that it is enough."""
    if base == 10:
        room, scale, factor = INT64_DIGITS - len(num) - len(denom), exponent, 1
    elif denom:
        return None
    else:
        room, scale, factor = 15 - len(num) - exponent * 3 // 10 - 1, 0, 1 << exponent
    scale = wrap32(scale - len(denom))
    if room < 0 or scale < _NANO:
        return None
    shifted = num + denom
    value = int(shifted)
    if value * factor > MAX_INT64:
        return None
    if base == 2:
        canonical = value & 7 != 0
    else:
        canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    return Quantity(-value * factor if negative else value * factor, scale, False, fmt, text if canonical else "")


def _wide(negative: bool, digits: str, places: int, base: int, exponent: int, fmt: QuantityFormat) -> Quantity:
    """The decimal form: rounded up to nano, and binary amounts capped at the largest int64."""
    unscaled = int_of_digits(digits)
    if base == 2:
        unscaled, scale = unscaled << exponent, -places
    else:
        scale = -wrap32(places + wrap32(-exponent))
    if unscaled != 0:
        unscaled, scale = rescale_up(unscaled, scale, _NANO)[0], _NANO
    if base == 2:
        if compare_scaled(unscaled, scale, MAX_INT64, 0) > 0:
            unscaled, scale = MAX_INT64, 0
        elif unscaled != 0 and compare_scaled(unscaled, scale, 1, 0) < 0:
            fmt = QuantityFormat.DECIMAL_SI
    return Quantity(-unscaled if negative else unscaled, scale, True, fmt)


# -- printing


def _canonical(quantity: Quantity) -> str:
    fmt = quantity.format
    if fmt is QuantityFormat.BINARY_SI:
        text = _binary_text(quantity)
        if text is not None:
            return text
        fmt = QuantityFormat.DECIMAL_SI
    amount, exponent = strip_tens(quantity.unscaled, quantity.exponent)
    while exponent % 3:
        amount, exponent = amount * 10, exponent - 1
    if fmt is QuantityFormat.DECIMAL_SI:
        return digits_of_int(amount) + _DECIMAL_TEXT.get(exponent, "")
    return digits_of_int(amount) + (f"e{exponent}" if exponent else "")


def _binary_text(quantity: Quantity) -> str | None:
    """With a binary suffix, or None where upstream prefers decimal: small or fractional amounts."""
    if quantity.cmp(_LEAST_BINARY) > 0 and quantity.cmp(_MOST_SMALL) < 0:
        return None
    if quantity.exponent < 0:
        unscaled, exact = rescale_up(quantity.unscaled, quantity.exponent, 0)
        if not exact:
            return None
    else:
        unscaled = shift(quantity.unscaled, quantity.exponent)
    exponent = 0
    if unscaled != MIN_INT64 or quantity.wide:
        while unscaled and unscaled % 1024 == 0:
            unscaled, exponent = unscaled // 1024, exponent + 10
    return digits_of_int(unscaled) + _BINARY_TEXT.get(exponent, "")


_LEAST_BINARY: Final = Quantity(-1024)
_MOST_SMALL: Final = Quantity(1024)
