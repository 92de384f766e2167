"""What the selectors of a class say of the devices there are, and of a device that they were not written for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from regauge.cel import CompileError, Device, Environment, EvalError, Program, compile_selector, prepare_device
from regauge.model import Rules
from regauge.model.resource import ResourceSlice

FOREIGN = prepare_device("driver.of.somebody.else", {}, {})
"""A device of a driver that no class was written for, without attributes."""


@dataclass(frozen=True, slots=True)
class Selected:
    """The devices that expressions select together, as (driver/pool/device, node), and those on which they fail, with why.

    `programs`: the compiled expressions, or why one does not compile. `foreign`: what they say of `FOREIGN`.
    """

    programs: tuple[Program | CompileError, ...]
    devices: tuple[tuple[str, str], ...]
    failing: tuple[tuple[str, str], ...]
    foreign: bool | EvalError

    @property
    def compiles(self) -> bool:
        return not any(isinstance(one, CompileError) for one in self.programs)


def environment_of(rules: Rules) -> Environment:
    """The environment of stored expressions under `rules`."""
    return Environment(
        minor=int(rules.minor.partition(".")[2]),
        list_attributes=rules.on("DRAListTypeAttributes"),
        consumable_capacity=rules.on("DRAConsumableCapacity"),
    )


def select(expressions: Sequence[str], slices: Iterable[ResourceSlice], rules: Rules) -> Selected:
    """Every device of `slices` judged by the expressions in their order: the first that does not select it decides."""
    environment = environment_of(rules)
    compiled = tuple(compile_selector(one, environment) for one in expressions)
    programs = tuple(one for one in compiled if isinstance(one, Program))
    if len(programs) < len(compiled):
        return Selected(compiled, (), (), False)
    chosen: list[tuple[str, str]] = []
    failing: list[tuple[str, str]] = []
    known: dict[Hashable, bool | EvalError] = {}
    for slice_ in slices:
        spec = slice_.spec
        for one in spec.devices:
            device = prepare_device(spec.driver, one.attributes, one.capacity, one.allow_multiple_allocations)
            key = tuple(program.key(device) for program in programs)
            if key not in known:
                known[key] = judge(programs, device)
            name = f"{spec.driver}/{spec.pool.name}/{one.name}"
            answer = known[key]
            if isinstance(answer, EvalError):
                failing.append((name, answer.text))
            elif answer:
                chosen.append((name, one.node_name or spec.node_name or ""))
    return Selected(compiled, tuple(chosen), tuple(failing), judge(programs, FOREIGN))


def judge(programs: Sequence[Program], device: Device) -> bool | EvalError:
    """True, or what the first program says that does not select the device."""
    for program in programs:
        answer = program.evaluate(device)
        if answer is not True:
            return answer
    return True
