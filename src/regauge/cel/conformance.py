"""The reference programs' questions about expressions, answered by this room: one JSON case in, one JSON result out.

Two formats are known by their keys. `{"id", "expr", "device", "list", "newenv"}` gives the case back with `outcome`
(compile_error, runtime_error, true, false), `error`, `type`, `max_cost`, `actual_cost`. `{"name", "cel", "device",
"features", "newExpr", "derived"}` gives `compileError`, `outputType`, `maxCost`, `result`, `runtimeError`, `actualCost`.
A case may add `kubeVersion`, the minor that answers; without it the newest does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from regauge.base import InputError
from regauge.cel.device import Device, prepare_device
from regauge.cel.environment import MINORS, Environment
from regauge.cel.program import CompileError, EvalError, Program, compile_selector
from regauge.model import Semver
from regauge.model.resource import DeviceAttribute, DeviceCapacity

Answer = dict[str, object]
T = TypeVar("T")
# In the order in which the reference program writes them.
_KEYS = ("name", "compileError", "outputType", "maxCost", "result", "runtimeError", "actualCost")

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
_NO_HINT_UNTIL = 36


class _Device(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    driver: str | None = None
    allow_multiple_allocations: bool | None = None
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None


class _Question(msgspec.Struct, rename="camel"):
    """The second format. Fields of allocation cases beside these are ignored, as the reference program does."""

    cel: str
    name: str = ""
    device: _Device | None = None
    features: dict[str, bool] | None = None
    new_expr: bool = False
    derived: bool = False
    kube_version: str | None = None


class _Line(msgspec.Struct):
    """The first format."""

    expr: str
    device: _Device = msgspec.field(default_factory=_Device)
    list: bool = False
    newenv: bool = False
    consumable: bool = True
    kube_version: str | None = msgspec.field(default=None, name="kubeVersion")


def conformance(case: Mapping[str, object]) -> Answer:
    """The answer to a case of either format. Raises `InputError` for a case that is not of its format."""
    if "cel" in case:
        found = _answer(_read(case, _Question))
        return {key: found[key] for key in _KEYS if key in found}
    return _sorted({**case, **_outcome(_read(case, _Line))})


def _sorted(found: Mapping[str, object]) -> Answer:
    """With the keys in order, as the reference program writes what it has read."""
    return {key: _sorted(one) if isinstance(one, dict) else one for key, one in sorted(found.items())}


def _read(case: Mapping[str, object], kind: type[T]) -> T:
    try:
        return msgspec.convert(case, kind)
    except msgspec.ValidationError as error:
        raise InputError(str(error), fix="give a case with expr or cel, and a device") from None


def _minor(version: str | None) -> int:
    """The minor of a text such as 1.36 or v1.36.3; the newest that is known when there is none."""
    if not version:
        return MINORS[-1]
    parts = version.removeprefix("v").split(".")
    minor = int(parts[1]) if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal() else -1
    if minor not in MINORS:
        raise InputError(f"kubeVersion {version!r} is not known", fix=f"one of 1.{MINORS[0]} to 1.{MINORS[-1]}")
    return minor


def _prepared(device: _Device) -> Device:
    return prepare_device(
        device.driver or "", device.attributes or {}, device.capacity or {}, device.allow_multiple_allocations
    )


def _outcome(line: _Line) -> Answer:
    environment = Environment(_minor(line.kube_version), not line.newenv, line.list, line.consumable)
    program = compile_selector(line.expr, environment)
    if isinstance(program, CompileError):
        return {"outcome": "compile_error", "error": program.text}
    found = program.measure(_prepared(line.device))
    answer: Answer = {"type": program.output, "max_cost": program.max_cost}
    if isinstance(found.outcome, EvalError):
        # Nothing was evaluated on a device that cannot be read.
        answer |= {"actual_cost": found.cost} if found.cost else {}
        return answer | {"outcome": "runtime_error", "error": found.outcome.text}
    return answer | {"actual_cost": found.cost, "outcome": "true" if found.outcome else "false"}


def _answer(question: _Question) -> Answer:
    features = question.features or {}
    everything = features.get("ALL", False)
    environment = Environment(
        _minor(question.kube_version),
        not question.new_expr,
        features.get("ListTypeAttributes", everything),
        features.get("ConsumableCapacity", everything),
        question.derived,
    )
    answer: Answer = {"name": question.name, "compileError": "", "result": None, "runtimeError": ""}
    program = compile_selector(question.cel, environment)
    if isinstance(program, CompileError):
        return answer | {"compileError": program.text}
    answer |= {"outputType": program.output}
    if program.max_cost:
        answer["maxCost"] = program.max_cost
    if question.device is None:
        return answer
    device = _prepared(question.device)
    return answer | (_derived(program, device) if question.derived else _selected(program, device))


def _selected(program: Program, device: Device) -> Answer:
    found = program.measure(device)
    cost: Answer = {"actualCost": found.cost} if found.cost else {}
    if isinstance(found.outcome, EvalError):
        text = found.outcome.text
        hinted = program.environment.minor > _NO_HINT_UNTIL and "no such key:" in text
        return cost | {"runtimeError": text + _HINT if hinted else text}
    return cost | {"result": found.outcome}


def _derived(program: Program, device: Device) -> Answer:
    value = program.value(device)
    return {"runtimeError": value.text} if isinstance(value, EvalError) else {"result": _attribute(value)}


def _attribute(value: object) -> Answer:
    """A value of an expression as the attribute of a device that it becomes."""
    items = value if isinstance(value, tuple) else (value,)
    named = [next((name, plain(item)) for kind, name, plain in _ATTRIBUTES if isinstance(item, kind)) for item in items]
    if isinstance(value, tuple):
        return {f"{named[0][0]}s": [item for _, item in named]} if named else {}
    return dict(named)


_ATTRIBUTES: tuple[tuple[type, str, Callable[..., object]], ...] = (
    (bool, "bool", bool),
    (int, "int", int),
    (str, "string", str),
    (Semver, "version", str),
    (object, "string", str),
)
