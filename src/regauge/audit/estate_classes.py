"""Rules about DeviceClasses: what their selectors cost, and what they select."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.findings import Evidence, Severity
from regauge.audit.ground import Ground, Spot, at, seen, some
from regauge.cel import MAX_COST, CompileError, EvalError, Program
from regauge.model import Document
from regauge.model.resource import DeviceClass


def does_not_compile(ground: Ground) -> Iterator[Spot]:
    """CLASS-INVALID: a selector is no expression of this version."""
    for document, one in ground.classes:
        for index, program in enumerate(ground.matched(one).programs):
            if isinstance(program, CompileError):
                what = f"selector {index + 1} of DeviceClass {document.name} does not compile: {program.text.splitlines()[0]}"
                yield Spot(document.title, what, (seen(document, program.text, _field(index)),))


def costly(ground: Ground) -> Iterator[Spot]:
    """CLASS-COST: the worst case of a selector is over the limit of one evaluation."""
    for document, one in ground.classes:
        for index, program in enumerate(ground.matched(one).programs):
            if isinstance(program, Program) and program.max_cost > MAX_COST:
                yield Spot(
                    document.title,
                    f"selector {index + 1} of {document.title} can cost {program.max_cost}, the limit is {MAX_COST}",
                    (seen(document, program.expression, _field(index)),),
                )


def fails(ground: Ground) -> Iterator[Spot]:
    """CLASS-FAILS: a selector fails on a device that is there; on its nodes every claim for the class then fails."""
    for document, one in ground.classes:
        failing = ground.matched(one).failing
        if failing:
            name, why = failing[0]
            yield Spot(
                document.title,
                f"the selectors of DeviceClass {document.name} fail on {len(failing)} devices, such as {name}: {why}",
                _selectors(document, one, Evidence(at(document), f"fails on {some([name for name, _ in failing])}")),
                tuple(name for name, _ in failing),
            )


def unguarded(ground: Ground) -> Iterator[Spot]:
    """CLASS-UNGUARDED: a selector would fail on a device of another driver; none such is there yet."""
    for document, one in ground.classes:
        found = ground.matched(one)
        if found.compiles and isinstance(found.foreign, EvalError) and not found.failing:
            yield Spot(
                document.title,
                f"the selectors of DeviceClass {document.name} would fail on a device without their attributes:"
                f" {found.foreign.text}",
                _selectors(document, one),
            )


def selects_nothing(ground: Ground) -> Iterator[Spot]:
    """CLASS-MATCHES-NOTHING: no device of the estate is selected."""
    if not ground.devices:
        return
    for document, one in ground.classes:
        found = ground.matched(one)
        if found.compiles and not found.devices and not found.failing and not _constant(found.programs):
            what = f"DeviceClass {document.name} selects none of the {len(ground.devices)} devices"
            yield Spot(document.title, what, _selectors(document, one))


def always_false(ground: Ground) -> Iterator[Spot]:
    """CLASS-ALWAYS-FALSE: a selector that reads nothing of the device says no to all."""
    for document, one in ground.classes:
        found = ground.matched(one)
        if _constant(found.programs) and found.foreign is not True:
            yield Spot(
                document.title,
                f"a selector of DeviceClass {document.name} is false whatever the device",
                _selectors(document, one),
            )


def over_broad(ground: Ground) -> Iterator[Spot]:
    """CLASS-OVER-BROAD: the class selects devices of any driver, as one without selectors does."""
    for document, one in ground.classes:
        found = ground.matched(one)
        if not found.compiles or found.foreign is not True:
            continue
        drivers = {name.partition("/")[0] for name, _ in found.devices}
        told = f": now {len(found.devices)} of {some(sorted(drivers))}" if drivers else ""
        no_selector = "has no selector and so " if not one.spec.selectors else ""
        yield Spot(
            document.title,
            f"DeviceClass {document.name} {no_selector}selects devices of every driver{told}",
            _selectors(document, one),
            severity=Severity.ERROR if len(drivers) > 1 else None,
        )


def _constant(programs: tuple[Program | CompileError, ...]) -> bool:
    return any(
        isinstance(one, Program) and one.reads == frozenset() and "device" not in one.expression for one in programs
    )


def _selectors(document: Document, one: DeviceClass, *more: Evidence) -> tuple[Evidence, ...]:
    expressions = (selector.cel.expression for selector in one.spec.selectors if selector.cel)
    told = (seen(document, text, _field(index)) for index, text in enumerate(expressions))
    return (*told, *more) or (seen(document, "no selectors", "spec.selectors"),)


def _field(index: int) -> str:
    return f"spec.selectors[{index}].cel.expression"
