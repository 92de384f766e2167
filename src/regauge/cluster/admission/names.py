"""The rules for names, labels and qualified names, with upstream's words (apimachinery pkg/util/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from regauge.cluster.refusals import FieldError, invalid, required, too_long

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_PART_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL_VALUE}')"
)


MOST_REMEMBERED = 4096
"""Names come again and again: with every write of the same object, and as the labels of many."""


def _bytes(value: str) -> int:
    return len(value.encode())


@lru_cache(MOST_REMEMBERED)
def label_faults(value: str) -> tuple[str, ...]:
    """What is wrong with a DNS label (63 bytes)."""
    faults = ("must be no more than 63 characters",) if _bytes(value) > 63 else ()
    if re.fullmatch(_LABEL, value):
        return faults
    return (*faults, "must not contain dots" if re.fullmatch(_SUBDOMAIN, value) else _LABEL_TEXT)


@lru_cache(MOST_REMEMBERED)
def subdomain_faults(value: str) -> tuple[str, ...]:
    """What is wrong with a DNS subdomain (253 bytes)."""
    faults = ("must be no more than 253 characters",) if _bytes(value) > 253 else ()
    return faults if re.fullmatch(_SUBDOMAIN, value) else (*faults, _SUBDOMAIN_TEXT)


@lru_cache(MOST_REMEMBERED)
def qualified_name_faults(value: str) -> tuple[str, ...]:
    """What is wrong with a label key: an optional subdomain, a slash and a name of at most 63 bytes."""
    prefix, slash, name = value.rpartition("/")
    if value.count("/") > 1:
        example = "a valid label key " + _NAME_PART_TEXT.removesuffix(")")
        return (f"{example}) with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    faults: list[str] = []
    if slash:
        faults = ["prefix part must be non-empty"] if not prefix else _prefixed(subdomain_faults(prefix))
    if not name:
        faults.append("name part must be non-empty")
    elif _bytes(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME_PART, name):
        faults.append(f"name part {_NAME_PART_TEXT}")
    return tuple(faults)


def _prefixed(faults: Iterable[str]) -> list[str]:
    return [f"prefix part {fault}" for fault in faults]


@lru_cache(MOST_REMEMBERED)
def label_value_faults(value: str) -> tuple[str, ...]:
    faults = ("must be no more than 63 bytes",) if _bytes(value) > 63 else ()
    return faults if re.fullmatch(_LABEL_VALUE, value) else (*faults, _VALUE_TEXT)


def label_errors(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, fault) for fault in label_faults(value)]


def subdomain_errors(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, fault) for fault in subdomain_faults(value)]


def required_subdomain(path: str, value: str) -> list[FieldError]:
    return subdomain_errors(path, value) if value else [required(path)]


_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters"
    f" or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)
IDENTIFIER_LIMIT = 32


def identifier_errors(path: str, value: str) -> list[FieldError]:
    """A C identifier of at most 32 bytes, as names of attributes and capacities are."""
    errors = [too_long(path, IDENTIFIER_LIMIT)] if _bytes(value) > IDENTIFIER_LIMIT else []
    return errors if re.fullmatch(_IDENTIFIER, value) else [*errors, invalid(path, value, _IDENTIFIER_TEXT)]


def label_name_errors(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, fault) for fault in qualified_name_faults(value)]


def label_value_errors(path: str, value: str) -> list[FieldError]:
    return [invalid(path, value, fault) for fault in label_value_faults(value)]
