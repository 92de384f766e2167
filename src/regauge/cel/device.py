"""A device as expressions see it: prepared once, read many times."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from regauge.cel.values import DomainMap, Map
from regauge.model import Quantity, QuantityError, Semver, SemverError
from regauge.model.resource import DeviceAttribute, DeviceCapacity

Key = tuple[str, str]
MISSING: Final = object()


class Device:
    """What `device` stands for. `attributes` and `capacity` hold values by (domain, name).

    `error` is why no expression can be evaluated on this device at all, `list_error` the same where attributes
    must not be lists.
    """

    __slots__ = (
        "_attribute_map",
        "_capacity_map",
        "_root",
        "attributes",
        "capacity",
        "driver",
        "error",
        "list_error",
        "multiple",
        "tokens",
    )

    def __init__(self, driver: str, multiple: bool) -> None:
        self.driver = driver
        self.multiple = multiple
        self.attributes: dict[Key, object] = {}
        self.capacity: dict[Key, object] = {}
        self.tokens: dict[tuple[str, str, str], Hashable] = {
            ("driver", "", ""): driver,
            ("allowMultipleAllocations", "", ""): multiple,
        }
        self.error = ""
        self.list_error = ""
        self._attribute_map: DomainMap | None = None
        self._capacity_map: DomainMap | None = None
        self._root: Map | None = None

    @property
    def attribute_map(self) -> DomainMap:
        """device.attributes"""
        if self._attribute_map is None:
            self._attribute_map = _by_domain(self.attributes)
        return self._attribute_map

    @property
    def capacity_map(self) -> DomainMap:
        """device.capacity"""
        if self._capacity_map is None:
            self._capacity_map = _by_domain(self.capacity)
        return self._capacity_map

    @property
    def root(self) -> Map:
        """`device` itself as a map."""
        if self._root is None:
            self._root = Map.of_text(
                {
                    "driver": self.driver,
                    "allowMultipleAllocations": self.multiple,
                    "attributes": self.attribute_map,
                    "capacity": self.capacity_map,
                }
            )
        return self._root

    @property
    def token(self) -> Hashable:
        """Stands for everything an expression can see: devices with equal tokens answer alike."""
        return frozenset(self.tokens.items()), self.error, self.list_error


def _by_domain(values: Mapping[Key, object]) -> DomainMap:
    domains: dict[str, dict[str, object]] = {}
    for (domain, name), value in values.items():
        domains.setdefault(domain, {})[name] = value
    return DomainMap({domain: (domain, Map.of_text(inner)) for domain, inner in domains.items()})


def prepare_device(
    driver: str,
    attributes: Mapping[str, DeviceAttribute],
    capacity: Mapping[str, DeviceCapacity],
    allow_multiple: bool | None = None,
) -> Device:
    """The device for expressions. What cannot be read (a bad version) does not raise: it is the device's `error`."""
    device = Device(driver, bool(allow_multiple))
    for name in sorted(attributes):
        key = _key(name, driver)
        device.tokens["attributes", *key] = _token(attributes[name])
        value = _attribute(attributes[name])
        if isinstance(value, _Unreadable):
            device.error = device.error or f"attribute {name}: {value.why}"
            continue
        if type(value) is tuple:
            device.list_error = device.list_error or f"attribute {name}: unsupported attribute value"
        device.attributes[key] = value
    for name in sorted(capacity):
        key = _key(name, driver)
        try:
            quantity = Quantity.from_document(capacity[name].value)
        except QuantityError as error:
            device.error = device.error or f"capacity {name}: {error}"
            continue
        device.capacity[key] = quantity
        device.tokens["capacity", *key] = quantity.form
    return device


def _key(name: str, driver: str) -> Key:
    domain, slash, inner = name.partition("/")
    return (domain, inner) if slash else (driver, name)


class _Unreadable:
    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def _attribute(attribute: DeviceAttribute) -> object:
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return tuple(values)
    if attribute.version_values is not None:
        versions = tuple(map(_version, attribute.version_values))
        return next((one for one in versions if isinstance(one, _Unreadable)), versions)
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is not None:
        return _version(attribute.version_value)
    return _Unreadable("unsupported attribute value")


def _version(text: str) -> Semver | _Unreadable:
    try:
        return Semver.parse(text)
    except SemverError as error:
        return _Unreadable(f"parse semantic version: {error}")


def _token(attribute: DeviceAttribute) -> Hashable:
    """Stands for the value; True and 1 must not look alike."""
    return (
        attribute.int_value,
        str(attribute.bool_value),
        attribute.string_value,
        attribute.version_value,
        attribute.int_values,
        str(attribute.bool_values),
        attribute.string_values,
        attribute.version_values,
    )
