"""Timestamps and durations: reading, printing, arithmetic, and their parts."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.values import Duration, Timestamp

MIN_UNIX_S: Final = -62_135_596_800
MAX_UNIX_S: Final = 253_402_300_799

_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,
    "\u03bcs": 1000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_TEXT: Final = 256
_TIMESTAMP_OVERFLOW: Final = "timestamp overflow"
_DURATION_OVERFLOW: Final = "integer overflow"


def duration(nanoseconds: int) -> Duration:
    """A duration, which must be an int64."""
    if -(2**63) <= nanoseconds < 2**63:
        return Duration(nanoseconds)
    raise EvaluationError(_DURATION_OVERFLOW)


def timestamp(nanoseconds: int, offset_s: int = 0) -> Timestamp:
    """A timestamp, which must be in the years 1 to 9999."""
    if MIN_UNIX_S <= nanoseconds // _SECOND <= MAX_UNIX_S:
        return Timestamp(nanoseconds, offset_s)
    raise EvaluationError(_TIMESTAMP_OVERFLOW)


def parse_duration(text: str) -> Duration | None:
    """Like Go's time.ParseDuration; None when the text is no duration."""
    negative, rest = text[:1] == "-", text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > _LONGEST_TEXT:
        return None
    total, at = 0, 0
    while at < len(rest):
        match = _DURATION_PART.match(rest, at)
        if match is None or not (match[1] or match[2]):
            return None
        unit, fraction = _UNITS[match[3]], match[2] or ""
        total += int(match[1] or "0") * unit
        if fraction:
            total += int(fraction[:30]) * unit // 10 ** len(fraction[:30])
        at = match.end()
    if total > 2**63 - (not negative):
        return None
    return Duration(-total if negative else total)


def parse_timestamp(text: str) -> Timestamp | None:
    """Like Go's time.Parse with RFC 3339; None when the text is no time. Raises for years out of range."""
    match = _RFC3339.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    offset_s = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes > 60:
            return None
        offset_s = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    if year == 0:
        raise EvaluationError(_TIMESTAMP_OVERFLOW)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds - offset_s
    return timestamp(seconds * _SECOND + int((match[7] or "0")[:9].ljust(9, "0")), offset_s)


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many digits as needed, in the zone the value was written with."""
    moment = _moment(value, timezone(timedelta(seconds=value.offset_s)))
    if moment is None:
        raise EvaluationError(_TIMESTAMP_OVERFLOW)
    fraction = value.nanoseconds % _SECOND
    text = moment.strftime("%m-%dT%H:%M:%S")
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    offset = value.offset_s
    zone = "Z" if offset == 0 else f"{'-' if offset < 0 else '+'}{_hours_minutes(abs(offset))}"
    return f"{moment.year:04d}-{text}{digits}{zone}"


def _hours_minutes(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"


def duration_text(value: Duration) -> str:
    """Seconds as the shortest decimal, with an "s"."""
    whole, rest = divmod(abs(value.nanoseconds), _SECOND)
    seconds = float(whole) + rest / 1e9
    text = format(seconds, "f") if seconds < 1e16 and seconds == int(seconds) else _plain(seconds)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("-" if value.nanoseconds < 0 else "") + text + "s"


def _plain(number: float) -> str:
    text = repr(number)
    if "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    digits = mantissa.replace(".", "")
    return "0." + "0" * (-int(exponent) - 1) + digits if int(exponent) < 0 else str(int(number))


def _moment(value: Timestamp, zone: tzinfo) -> datetime | None:
    seconds = value.nanoseconds // _SECOND
    try:
        return (_EPOCH + timedelta(days=seconds // 86_400, seconds=seconds % 86_400)).astimezone(zone)
    except (OverflowError, ValueError):
        return None


def add_times(left: Duration | Timestamp, right: object) -> object:
    if isinstance(left, Duration) and isinstance(right, Duration):
        return duration(left.nanoseconds + right.nanoseconds)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return timestamp(left.nanoseconds + right.nanoseconds, left.offset_s)
    if isinstance(left, Duration) and isinstance(right, Timestamp):
        return timestamp(left.nanoseconds + right.nanoseconds, right.offset_s)
    raise no_such_overload()


def subtract_times(left: Duration | Timestamp, right: object) -> object:
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        return duration(left.nanoseconds - right.nanoseconds)
    if isinstance(right, Duration):
        if isinstance(left, Duration):
            return duration(left.nanoseconds - right.nanoseconds)
        return timestamp(left.nanoseconds - right.nanoseconds, left.offset_s)
    raise no_such_overload()


def negate_duration(value: Duration) -> Duration:
    return duration(-value.nanoseconds)


def _zone(name: object) -> tzinfo:
    if type(name) is not str:
        raise no_such_overload()
    hours, colon, minutes = name.partition(":")
    if not colon:
        if name in ("", "UTC"):
            return UTC
        try:
            return zoneinfo.ZoneInfo(name)
        except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
            raise EvaluationError(f"unknown time zone {name}") from None
    if not (re.fullmatch(r"[+-]?[0-9]{1,4}", hours) and re.fullmatch(r"\+?[0-9]{1,4}", minutes)):
        raise EvaluationError(f"unknown time zone {name}")
    if int(minutes) > 59:
        raise EvaluationError(f"timezone offset minutes out of range [0, 59]: {name}")
    offset = int(hours) * 60 + (-int(minutes) if name[0] == "-" else int(minutes))
    try:
        return timezone(timedelta(minutes=offset))
    except ValueError:
        raise EvaluationError(f"unsupported: time zone offset {name}") from None


def _part(read: Callable[[datetime], int], per_ns: int = 0) -> Callable[..., int]:
    """A getter for timestamps, in UTC or the zone that is given; with `per_ns` also for durations."""

    def getter(value: object, *zone: object) -> int:
        if isinstance(value, Duration) and per_ns and not zone:
            whole = abs(value.nanoseconds) // per_ns
            return whole if value.nanoseconds >= 0 else -whole
        if not isinstance(value, Timestamp):
            raise no_such_overload()
        at = _zone(zone[0]) if zone else UTC
        moment = _moment(value, at)
        if moment is None:
            raise EvaluationError(_TIMESTAMP_OVERFLOW)
        return read(moment)

    return getter


def _milliseconds(value: object, *zone: object) -> int:
    if isinstance(value, Timestamp):
        if zone:
            _zone(zone[0])
        return value.nanoseconds % _SECOND // 1_000_000
    return _part(lambda moment: 0, 1_000_000)(value, *zone)


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getHours": _part(lambda moment: moment.hour, 3600 * _SECOND),
    "getMinutes": _part(lambda moment: moment.minute, 60 * _SECOND),
    "getSeconds": _part(lambda moment: moment.second, _SECOND),
    "getMilliseconds": _milliseconds,
}
