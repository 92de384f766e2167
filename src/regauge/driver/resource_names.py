"""One extended resource name through both stacks on one node (KEP-5004): a device plugin and a DeviceClass serve it. Pure.

The scheduler then counts pods that got their devices by claims against the plugin's number, and does not touch the claims'
devices while the plugin has any. So of the two the device plugin stays, and what the class selects is not advertised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regauge.cel import DeviceSelectors, Environment
from regauge.driver.description import Device, Stack
from regauge.driver.slices import device_document
from regauge.model import Object, view
from regauge.model.resource import Device as DeviceView
from regauge.model.resource import DeviceClass

_SELECTORS = DeviceSelectors(Environment(list_attributes=True))


@dataclass(slots=True)
class _Subject:
    driver: str
    view: DeviceView
    prepared: object | None = None


@dataclass(slots=True)
class NameSearch:
    """Looks for classes that serve a resource name with a device. `unclear` are those that cannot be evaluated on one."""

    classes: tuple[DeviceClass, ...]
    unclear: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def among(classes: Iterable[Object]) -> NameSearch:
        seen = (view(one, DeviceClass) for one in classes)
        return NameSearch(tuple(one for one in seen if one.spec.extended_resource_name))

    def serving(self, resource: str) -> tuple[str, ...]:
        """The classes that serve a resource name, whatever they select."""
        return tuple(one.metadata.name for one in self.classes if one.spec.extended_resource_name == resource)

    def by_claims(self, resource: str, driver: str, document: Object) -> str | None:
        """The class by which pods that ask for this resource get this device of this driver; None without any."""
        subject = _Subject(driver, view(document, DeviceView))
        for one in self.classes:
            if one.spec.extended_resource_name == resource and self._selects(one, subject):
                return one.metadata.name
        return None

    def _selects(self, class_: DeviceClass, subject: _Subject) -> bool:
        for selector in class_.spec.selectors:
            expression = selector.cel.expression if selector.cel is not None else "false"
            outcome = _SELECTORS.selector(expression).evaluate(subject, True)
            if isinstance(outcome, str):
                self.unclear[class_.metadata.name] = f"on device {subject.view.name}: {outcome}"
            if outcome is not True:
                return False
        return True


def held_back(
    devices: Iterable[Device],
    mine: tuple[str, str],
    described: Iterable[Device],
    search: NameSearch,
    others: Mapping[str, Iterable[Object]],
    offered: Iterable[str],
) -> dict[str, str]:
    """By device, why it is not advertised. `mine` are this driver and its resource, `described` all its devices, `others`
    what other drivers publish on this node, `offered` the resources of other device plugins here."""
    driver, resource = mine
    names = {*offered, *({resource} if any(one.stack is Stack.DEVICE_PLUGIN for one in described) else ())}
    theirs = _first(search, resource, others) if resource else None
    found: dict[str, str] = {}
    for device in devices:
        if device.stack is Stack.DEVICE_PLUGIN:
            if theirs is not None:
                found[device.name] = theirs
            continue
        for name in sorted(names):
            class_ = search.by_claims(name, driver, device_document(device))
            if class_ is not None:
                found[device.name] = (
                    f"DeviceClass {class_} gives it to pods that ask for {name}, which a device plugin serves on this node"
                )
    return found


def _first(search: NameSearch, resource: str, others: Mapping[str, Iterable[Object]]) -> str | None:
    for driver, documents in others.items():
        for document in documents:
            class_ = search.by_claims(resource, driver, document)
            if class_ is not None:
                return f"DeviceClass {class_} serves {resource} on this node by {document.get('name')} of {driver}"
    return None
