"""A description and its kind: what the kind reads of it, and what it finds by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from regauge.base import InputError, Where
from regauge.driver.checks import check_devices
from regauge.driver.description import Description, Device
from regauge.driver.kinds import Binds, DeviceKind
from regauge.driver.notices import Notice, Tell
from regauge.driver.rules import read_rules

_SHOWN = 5


def understood(description: Description, file: str, kinds: Mapping[str, type[DeviceKind]]) -> Description:
    """The description with what its kind reads in it. Raises `InputError`."""
    kind = kinds.get(description.device_kind)
    if kind is None:
        raise InputError(
            f"there is no kind of device {description.device_kind!r}",
            where=Where(file=file, field="deviceKind"),
            fix=f"one of {', '.join(kinds)}",
        )
    if description.rules and not kind.FACTS:
        raise InputError(
            f"devices of kind {description.device_kind} are not found by rules",
            where=Where(file=file, field="rules"),
            fix="list them under devices",
        )
    check_binding(description.devices, kind, description.device_kind, file)
    settings = kind.settings(description.discover)
    chosen = read_rules(description.rules, kind.FACTS, description.resource)
    if not description.devices and not chosen:
        fix = "add rules: which of what is found is served" if kind.FACTS else "list at least one under devices"
        raise InputError("nothing would be served", where=Where(file=file, field="rules"), fix=fix)
    return replace(description, settings=settings, chosen=chosen)


def check_binding(devices: Sequence[Device], kind: type[DeviceKind], name: str, file: str) -> None:
    """Raises `InputError` for binding conditions that nobody would ever fulfil."""
    waiting = next((device for device in devices if device.binding_conditions), None)
    if waiting is not None and not issubclass(kind, Binds):
        raise InputError(
            f"devices of kind {name} are not got ready before a Pod is bound: it would wait in vain",
            where=Where(file=file, line=waiting.line, object=f"device {waiting.name}", field="bindingConditions"),
            fix="leave them out",
        )


async def found_by(
    kind: DeviceKind, description: Description, file: str, known: tuple[Device, ...] = ()
) -> tuple[Device, ...]:
    """What the kind finds, held to the same rules as what is described; `known` was found before and is not checked again.

    Raises `InputError`, and whatever the kind raises.
    """
    found = await kind.discover(description)
    if found is not description.devices and found != known:
        check_devices(replace(description, devices=found), file)
    check_binding(found, type(kind), description.device_kind, file)
    return found


def tell_difference(before: Sequence[Device], now: Sequence[Device], tell: Tell) -> None:
    """Tell what appeared and what went."""
    old, new = {device.name for device in before}, {device.name for device in now}
    if new - old:
        tell(Notice("appeared", f"found: {_list(new - old)}"))
    if old - new:
        tell(Notice("vanished", f"not found any more: {_list(old - new)}", "warning"))


def _list(names: Set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
