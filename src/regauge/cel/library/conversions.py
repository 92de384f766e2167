"""Conversions between the basic types, and `type` and `dyn`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.library.clock import (
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp,
    timestamp_text,
)
from regauge.cel.library.gofloat import parse_float, shortest
from regauge.cel.values import TYPES, Cidr, Duration, Ip, Map, Timestamp, Uint

_SECOND = 1_000_000_000
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _no_conversion(value: object, to: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{TYPES[type(value)].runtime_name}' to '{to}'")


def to_int(value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, Uint):
        if value >= 2**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, float):
        if not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, str):
        if re.fullmatch(r"[+-]?[0-9]{1,4000}", value) and -(2**63) <= int(value) < 2**63:
            return int(value)
        raise _no_conversion(value, "int")
    if isinstance(value, Timestamp):
        return value.nanoseconds // _SECOND
    if isinstance(value, Duration):
        return value.nanoseconds
    raise no_such_overload()


def to_uint(value: object) -> Uint:
    if isinstance(value, Uint):
        return value
    if type(value) is int:
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if isinstance(value, float):
        if not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(int(value))
    if isinstance(value, str):
        if re.fullmatch(r"[0-9]{1,4000}", value) and int(value) < 2**64:
            return Uint(int(value))
        raise _no_conversion(value, "uint")
    raise no_such_overload()


def to_double(value: object) -> float:
    if isinstance(value, float):
        return value
    if type(value) is int or isinstance(value, Uint):
        return float(value)
    if isinstance(value, str):
        number = parse_float(value)
        if number is None:
            raise _no_conversion(value, "double")
        return number
    raise no_such_overload()


def to_string(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Ip):
        return str(value.address)
    if isinstance(value, Cidr):
        return f"{value.address}/{value.bits}"
    raise no_such_overload()


def to_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise no_such_overload()


def to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise _no_conversion(value, "bool")
    raise no_such_overload()


def to_duration(value: object) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        found = parse_duration(value)
        if found is None:
            raise _no_conversion(value, "google.protobuf.Duration")
        return found
    if type(value) is int:
        raise _no_conversion(value, "google.protobuf.Duration")
    raise no_such_overload()


def to_timestamp(value: object) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        found = parse_timestamp(value)
        if found is None:
            raise _no_conversion(value, "google.protobuf.Timestamp")
        return found
    if type(value) is int:
        return timestamp(value * _SECOND)
    raise no_such_overload()


def _type_of(value: object) -> object:
    return TYPES[type(value)]


def _dyn(value: object) -> object:
    return value


def is_zero(value: object) -> bool:
    """Whether `optional.ofNonZeroValue` takes the value for none."""
    if value is None:
        return True
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == -62_135_596_800 * _SECOND
    if isinstance(value, float):
        return value == 0 and not math.isnan(value)
    if isinstance(value, bool | int | str | bytes | tuple | Map):
        return not value
    return False


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bytes": to_bytes,
    "bool": to_bool,
    "duration": to_duration,
    "timestamp": to_timestamp,
    "type": _type_of,
    "dyn": _dyn,
}
