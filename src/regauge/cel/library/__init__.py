"""What the functions of device CEL do. One module per library of upstream; `FUNCTIONS` has them all by name.

Every function takes its receiver and arguments, checks their classes itself and raises `EvaluationError`.
"""

from collections.abc import Callable, Mapping

from regauge.cel.library import (
    clock,
    conversions,
    formats,
    formatting,
    lists,
    network,
    operators,
    optionals,
    regexes,
    resources,
    text,
    urls,
)

FUNCTIONS: Mapping[str, Callable[..., object]] = {
    **operators.FUNCTIONS,
    **conversions.FUNCTIONS,
    **clock.FUNCTIONS,
    **text.FUNCTIONS,
    **regexes.FUNCTIONS,
    **formatting.FUNCTIONS,
    **lists.FUNCTIONS,
    **optionals.FUNCTIONS,
    **resources.FUNCTIONS,
    **network.FUNCTIONS,
    **urls.FUNCTIONS,
    **formats.FUNCTIONS,
}

# What overloads did in older minors, by the names that the variants use.
OVERLOADS: Mapping[str, Callable[..., object]] = {**lists.OVERLOADS}

__all__ = ["FUNCTIONS", "OVERLOADS"]
