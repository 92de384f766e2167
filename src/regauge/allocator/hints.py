"""What an expression looked at on a device, which part of it was false, and names it may have meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache

from regauge.allocator.inventory import DeviceEntry
from regauge.allocator.problem import Check
from regauge.allocator.selecting import Selectors
from regauge.allocator.table import Table
from regauge.model.resource import DeviceAttribute

# The values an expression reads, as (part, domain, name); None if that cannot be told.
Reads = Callable[[str], frozenset[tuple[str, str, str]] | None]
_ATTRIBUTES = "attributes"
_CAPACITY = "capacity"
_MOST_SHOWN = 6
_WORD = re.compile(r"""\"([\w.\-]+)\"|'([\w.\-]+)'|\.([A-Za-z_]\w*)""")


def values_seen(entry: DeviceEntry, expression: str, reads: Reads) -> tuple[tuple[str, str], ...]:
    """The names and values the expression looked at; what the device does not have is shown as missing."""
    wanted = reads(expression)
    if wanted is None:
        names = _names(entry)
        found = [(name, value) for name, value in names.items() if name.rpartition("/")[2] in expression]
        return tuple(sorted(found)[:_MOST_SHOWN])
    found_values = []
    for part, domain, name in sorted(wanted):
        if part == "driver":
            found_values.append(("driver", entry.driver))
        elif part in (_ATTRIBUTES, _CAPACITY):
            found_values.append((f"{domain}/{name}", _value(entry, domain, name) or "missing"))
    return tuple(found_values[:_MOST_SHOWN])


def hints(entry: DeviceEntry, expression: str, reads: Reads) -> tuple[str, ...]:
    """For every name that the device does not have: one that it has and that may have been meant, or how to guard it."""
    wanted = reads(expression)
    if wanted is None:
        return _hints_from_words(expression, _names(entry), entry.driver)
    found = []
    for part, domain, name in sorted(wanted):
        full = f"{domain}/{name}"
        if part not in (_ATTRIBUTES, _CAPACITY) or _value(entry, domain, name) is not None:
            continue
        names = _names(entry)
        close = [one for one in names if one.rpartition("/")[2] == name] or _close(name, names)
        if close:
            found.append(f"the device has no {full}: {close[0]} may be meant")
        elif part == _ATTRIBUTES:
            found.append(f'the device has no {full}: guard it with "{name}" in device.attributes["{domain}"] && ...')
    return tuple(found)


def _close(name: str, names: Iterable[str]) -> list[str]:
    """Qualified names whose last part looks like `name`."""
    short = {one.rpartition("/")[2]: one for one in names}
    return [short[one] for one in get_close_matches(name, short, n=1, cutoff=0.7)]


def _hints_from_words(expression: str, names: Mapping[str, str], driver: str) -> tuple[str, ...]:
    """Where it cannot be told what is read: words of the expression that are almost a name of the device."""
    domains = {one.rpartition("/")[0] for one in names} | {driver}
    short = {one.rpartition("/")[2] for one in names}
    found = []
    for match in _WORD.finditer(expression):
        word = match[1] or match[2] or match[3]
        close = _close(word, names) if len(word) > 3 and word not in short | domains else []
        if close:
            found.append(f"the device has no {word}: {close[0]} may be meant")
    return tuple(dict.fromkeys(found))


def false_parts(check: Check, entry: DeviceEntry, table: Table) -> tuple[str, ...]:
    """Those parts of `a && b && c` that are false on the device; none if the expression has no such parts."""
    parts = split(check.expression)
    if len(parts) < 2:
        return ()
    selectors: Selectors = table.problem.selectors
    found = []
    for part in parts:
        selector = selectors.selector(part)
        if selector.error is None and selector.evaluate(entry, not table.settings.basic) is False:
            found.append(part)
    return tuple(found)


def split(expression: str) -> list[str]:
    """The operands of the outermost &&; the whole expression if there is an outer || or ?: as well."""
    return list(_parts(expression))


@lru_cache(maxsize=1024)
def _parts(expression: str) -> tuple[str, ...]:
    parts, depth, start, place = [], 0, 0, 0
    while place < len(expression):
        char = expression[place]
        if char in "\"'":
            place = _string_end(expression, place)
            continue
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and expression.startswith("&&", place):
            parts.append(expression[start:place].strip())
            place += 2
            start = place
            continue
        elif depth == 0 and (char == "?" or expression.startswith("||", place)):
            return (expression,)
        place += 1
    parts.append(expression[start:].strip())
    return tuple(parts)


def _string_end(expression: str, start: int) -> int:
    """The place behind the string literal that begins at `start`."""
    quote = expression[start]
    fence = quote * 3 if expression.startswith(quote * 3, start) else quote
    raw = start > 0 and expression[start - 1] in "rR"
    place = start + len(fence)
    while place < len(expression):
        if expression.startswith(fence, place):
            return place + len(fence)
        place += 2 if expression[place] == "\\" and not raw else 1
    return place


def _names(entry: DeviceEntry) -> Mapping[str, str]:
    """All attributes and capacities by qualified name, as text."""
    found = {_full(name, entry): shown(value) for name, value in entry.view.attributes.items()}
    found |= {_full(name, entry): str(value.value) for name, value in entry.view.capacity.items()}
    return found


def _value(entry: DeviceEntry, domain: str, name: str) -> str | None:
    """An attribute or a capacity as text, None where the device has neither of that name."""
    for key in (f"{domain}/{name}", name) if domain == entry.driver else (f"{domain}/{name}",):
        if key in entry.view.capacity:
            return str(entry.view.capacity[key].value)
        if key in entry.view.attributes:
            return shown(entry.view.attributes[key])
    return None


def _full(name: str, entry: DeviceEntry) -> str:
    return name if "/" in name else f"{entry.driver}/{name}"


def shown(attribute: DeviceAttribute) -> str:
    """An attribute's value for people."""
    values = (
        attribute.int_value,
        attribute.bool_value,
        attribute.string_value,
        attribute.version_value,
        attribute.int_values,
        attribute.bool_values,
        attribute.string_values,
        attribute.version_values,
    )
    value = next((one for one in values if one is not None), None)
    if value is None:
        return "no value"
    if isinstance(value, tuple):
        return "[" + ", ".join(_plain(one) for one in value) + "]"
    return _plain(value)


def _plain(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
