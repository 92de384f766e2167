"""Whole numbers with a decimal exponent: the arithmetic below quantities, with Go's int64 and its overflows.

No function builds a number with more than `MAX_SHIFT_DIGITS` digits that its operands do not have.
"""

from __future__ import annotations

from typing import Final

MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
INT64_DIGITS: Final = 18
MAX_SHIFT_DIGITS: Final = 100_000

_CHUNK_DIGITS: Final = 4000
_CHUNK: Final = 10**_CHUNK_DIGITS


class QuantityError(ValueError):
    """The text is no quantity, or the result cannot be represented. Parse errors are in upstream's words."""


def sign_of(number: int) -> int:
    return (number > 0) - (number < 0)


def fits_int64(number: int) -> bool:
    return MIN_INT64 <= number <= MAX_INT64


def wrap64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def wrap32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def int_of_digits(digits: str) -> int:
    number = 0
    for start in range(0, len(digits), _CHUNK_DIGITS):
        chunk = digits[start : start + _CHUNK_DIGITS]
        number = number * 10 ** len(chunk) + int(chunk)
    return number


def digits_of_int(number: int) -> str:
    if number < 0:
        return "-" + digits_of_int(-number)
    chunks: list[str] = []
    while number >= _CHUNK:
        number, chunk = divmod(number, _CHUNK)
        chunks.append(str(chunk).zfill(_CHUNK_DIGITS))
    return str(number) + "".join(reversed(chunks))


def shift(unscaled: int, places: int) -> int:
    """`unscaled * 10**places` for places >= 0, within bounds."""
    if unscaled == 0:
        return 0
    if places > MAX_SHIFT_DIGITS:
        raise QuantityError("the quantity has too many digits")
    return int(unscaled * 10**places)


def strip_tens(unscaled: int, exponent: int) -> tuple[int, int]:
    if unscaled == 0:
        return 0, 0
    for step in (512, 64, 8, 1):
        factor = 10**step
        while unscaled % factor == 0:
            unscaled, exponent = unscaled // factor, exponent + step
    return unscaled, exponent


def _magnitude_bounds(unscaled: int, exponent: int) -> tuple[int, int]:
    """Bounds of the decimal magnitude of a number that is not zero, without building it."""
    bits = abs(unscaled).bit_length()
    return (bits - 1) * 30102 // 100_000 + exponent, bits * 30103 // 100_000 + 1 + exponent


def compare_scaled(left: int, left_exponent: int, right: int, right_exponent: int) -> int:
    if left == 0 or right == 0 or (left < 0) != (right < 0):
        return sign_of(sign_of(left) - sign_of(right))
    left_low, left_high = _magnitude_bounds(left, left_exponent)
    right_low, right_high = _magnitude_bounds(right, right_exponent)
    if left_low > right_high:
        return sign_of(left)
    if right_low > left_high:
        return -sign_of(left)
    exponent = min(left_exponent, right_exponent)
    # Here the two magnitudes are close, so the shift is no longer than the longer number.
    difference: int = left * 10 ** (left_exponent - exponent) - right * 10 ** (right_exponent - exponent)
    return sign_of(difference)


def rescale_up(unscaled: int, exponent: int, wanted: int) -> tuple[int, bool]:
    """`unscaled` in units of 10**wanted, rounded away from zero, and whether that was exact."""
    if exponent >= wanted:
        return shift(unscaled, exponent - wanted), True
    if unscaled == 0:
        return 0, True
    if _magnitude_bounds(unscaled, exponent)[1] < wanted:
        return sign_of(unscaled), False
    quotient, rest = divmod(abs(unscaled), 10 ** (wanted - exponent))
    return sign_of(unscaled) * (quotient + (rest != 0)), rest == 0


def positive_scale(value: int, places: int) -> int | None:
    """`value * 10**places` if it is an int64."""
    if value == 0 or places == 0:
        return value
    if places > INT64_DIGITS or value == MIN_INT64:
        return None
    scaled: int = value * 10**places
    return scaled if fits_int64(scaled) else None


def add_int64(left: int, left_exponent: int, right: int, right_exponent: int) -> tuple[int, int] | None:
    if right == 0:
        return left, left_exponent
    if left == 0:
        return right, right_exponent
    exponent = min(left_exponent, right_exponent)
    left_scaled = positive_scale(left, left_exponent - exponent)
    right_scaled = positive_scale(right, right_exponent - exponent)
    if left_scaled is None or right_scaled is None or not fits_int64(left_scaled + right_scaled):
        return None
    return left_scaled + right_scaled, exponent


def scaled_wide(unscaled: int, up: int) -> int:
    """Upstream's scaledValue: `unscaled * 10**up` as an int64; its roundings and overflows are its own."""
    if up >= 0:
        power: int = 10**up if up <= INT64_DIGITS else MIN_INT64
        return wrap64(wrap64(unscaled) * power)
    down = -up
    if unscaled < MAX_INT64 and down <= INT64_DIGITS:
        whole = wrap64(unscaled)
        quotient, rest = divmod(abs(whole), 10**down)
        return int(sign_of(whole) * quotient + (rest != 0))
    if unscaled == 0 or _magnitude_bounds(unscaled, up)[1] < 0:
        return int(unscaled > 0)
    quotient, rest = divmod(unscaled, 10**down)
    return wrap64(wrap64(quotient) + (rest != 0))
