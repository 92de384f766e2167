"""Devices and outcomes in the form of the reference material."""

from __future__ import annotations

from typing import Any

import msgspec

from regauge.cel import (
    MAX_COST,
    CompileError,
    Device,
    Environment,
    EvalError,
    Evaluation,
    compile_selector,
    prepare_device,
)
from regauge.model.resource import DeviceAttribute, DeviceCapacity

_EXPENSIVE: dict[object, Evaluation] = {}


def device_of(document: dict[str, Any]) -> Device:
    """The device of a recorded case."""
    attributes = {
        name: msgspec.convert(value, DeviceAttribute) for name, value in (document.get("attributes") or {}).items()
    }
    capacity = {
        name: msgspec.convert(value, DeviceCapacity) for name, value in (document.get("capacity") or {}).items()
    }
    return prepare_device(document.get("driver") or "", attributes, capacity, document.get("allowMultipleAllocations"))


def outcome_of(expression: str, environment: Environment, device: Device) -> tuple[str, int, int]:
    """The outcome's class, the static and the real cost. The two ways to evaluate must agree."""
    program = compile_selector(expression, environment)
    if isinstance(program, CompileError):
        return "compile_error", 0, 0
    if program.max_cost > MAX_COST:
        # Here `evaluate` measures as well, and it takes seconds: once is enough for environments that agree.
        key = (expression, environment.minor, environment.has_lists, device.token)
        if key not in _EXPENSIVE:
            _EXPENSIVE[key] = program.measure(device)
        measured = _EXPENSIVE[key]
        plain = measured.outcome
    else:
        plain, measured = program.evaluate(device), program.measure(device)
    assert str(plain) == str(measured.outcome), expression
    name = "runtime_error" if isinstance(plain, EvalError) else str(plain).lower()
    return name, program.max_cost, measured.cost
