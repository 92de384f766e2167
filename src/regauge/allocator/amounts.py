"""Quantities as exact whole numbers, for fast comparing and adding."""

from __future__ import annotations

from regauge.base import InputError, Where
from regauge.model import Quantity
from regauge.model.resource import QuantityText

_NANO_PLACES = 9
_HUGE_EXPONENT = 120


def read_quantity(value: QuantityText, *, object: str, field: str) -> Quantity:
    """A quantity of a manifest. Raises `InputError` that names the object and the field."""
    try:
        return Quantity.from_document(value)
    except ValueError as error:
        place = Where(object=object, field=field)
        raise InputError(
            f"{value!r} is no quantity: {error}", where=place, fix='write a number such as "40Gi"'
        ) from None


def nano(quantity: Quantity) -> int:
    """Billionths, exact: no quantity is finer. Beyond any real size (10**120) the size no longer matters."""
    exponent = quantity.exponent + _NANO_PLACES
    if exponent >= 0:
        return int(quantity.unscaled * 10 ** min(exponent, _HUGE_EXPONENT))
    whole, rest = divmod(quantity.unscaled, 10**-exponent)
    return int(whole + (1 if rest else 0))
