"""Which devices a selector or a class accepts, as the scheduler would run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regauge.allocator import selectors_of
from regauge.migrate.serving import DeviceMatcher
from regauge.model import Rules
from regauge.model.resource import Device, DeviceClass

ExpressionMatcher = Callable[[str, str, Device], bool]
"""Whether an expression accepts a device of a driver. One that does not compile or errs counts as no."""


@dataclass(slots=True)
class _Subject:
    """A device that is asked about once: `readable` False says that no answer about it need be remembered."""

    driver: str
    view: Device
    prepared: object | None = None
    readable: bool = False


def expression_matcher(rules: Rules) -> ExpressionMatcher:
    """A matcher of single expressions under `rules`."""
    selectors = selectors_of(rules)

    def matches(expression: str, driver: str, device: Device) -> bool:
        compiled = selectors.selector(expression)
        return compiled.error is None and compiled.evaluate(_Subject(driver, device), multiple=True) is True

    return matches


def compile_error(rules: Rules) -> Callable[[str], str | None]:
    """Tells why an expression does not compile under `rules`; None when it does."""
    selectors = selectors_of(rules)
    return lambda expression: selectors.selector(expression).error


def device_matcher(rules: Rules) -> DeviceMatcher:
    """A matcher of classes under `rules`. All selectors of the class must hold."""
    accepts = expression_matcher(rules)

    def matches(device_class: DeviceClass, driver: str, device: Device) -> bool:
        return all(
            selector.cel is not None and accepts(selector.cel.expression, driver, device)
            for selector in device_class.spec.selectors
        )

    return matches
