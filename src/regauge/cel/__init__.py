"""Device CEL: parse, check, cost, evaluate. Pure.

`compile_selector(expression, environment)` gives a `Program` or a `CompileError`; `program.evaluate(device)` gives True,
False or an `EvalError`, for a device from `prepare_device`. Compiling the same expression again is cheap. The reference
programs' own cases are answered by `regauge.cel.conformance`, imported by name.
"""

from regauge.cel.canonical import canonical_form
from regauge.cel.device import Device, prepare_device
from regauge.cel.environment import MAX_COST, MAX_EXPRESSION_BYTES, Environment
from regauge.cel.program import CompileError, EvalError, Evaluation, Program, compile_selector
from regauge.cel.selectors import DeviceSelectors

__all__ = [
    "MAX_COST",
    "MAX_EXPRESSION_BYTES",
    "CompileError",
    "Device",
    "DeviceSelectors",
    "Environment",
    "EvalError",
    "Evaluation",
    "Program",
    "canonical_form",
    "compile_selector",
    "prepare_device",
]
