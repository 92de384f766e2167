"""Which devices belong to a class, by the selectors that the scheduler would run."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.allocator import selectors_of
from regauge.migrate.serving import DeviceMatcher
from regauge.model import Rules
from regauge.model.resource import Device, DeviceClass


@dataclass(slots=True)
class _Subject:
    """A device that is asked about once: `readable` False says that no answer about it need be remembered."""

    driver: str
    view: Device
    prepared: object | None = None
    readable: bool = False


def device_matcher(rules: Rules) -> DeviceMatcher:
    """A matcher under `rules`. All selectors of the class must hold; one that does not compile or errs counts as no."""
    selectors = selectors_of(rules)

    def matches(device_class: DeviceClass, driver: str, device: Device) -> bool:
        subject = _Subject(driver, device)
        for selector in device_class.spec.selectors:
            if selector.cel is None:
                return False
            compiled = selectors.selector(selector.cel.expression)
            if compiled.error is not None or compiled.evaluate(subject, multiple=True) is not True:
                return False
        return True

    return matches
