"""The named formats: `format.dns1123Label().validate(text)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Final

from regauge.cel.errors import no_such_overload
from regauge.cel.library.urls import check_request_uri
from regauge.cel.values import NONE, Format, Optional

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_LABEL_SIZE: Final = 63
_SUBDOMAIN_SIZE: Final = 253


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _name(text: str, pattern: re.Pattern[str], limit: int, prefix: bool, what: str) -> list[str]:
    """Complaints about a name; a prefix of a name may end with a dash."""
    if prefix and len(text) > 1 and text.endswith("-"):
        text = text[:-2] + "a"
    found = _too_long(text, limit)
    if not pattern.fullmatch(text):
        found.append(f"a valid {what} must match '{pattern.pattern}'")
    return found


def _label_value(text: str) -> list[str]:
    found = _too_long(text, _LABEL_SIZE)
    if text and not _QUALIFIED.fullmatch(text):
        found.append("a valid label must be an empty string or match '" + _QUALIFIED.pattern + "'")
    return found


def _qualified(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return ["a qualified name must have at most one '/'"]
    found = []
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        elif complaints := _name(parts[0], _SUBDOMAIN, _SUBDOMAIN_SIZE, False, "subdomain"):
            found += [f"prefix part {complaint}" for complaint in complaints]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif _too_long(name, _LABEL_SIZE):
        found.append(f"name part must be no more than {_LABEL_SIZE} bytes")
    if not _QUALIFIED.fullmatch(name):
        found.append(f"name part must match '{_QUALIFIED.pattern}'")
    return found


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        date(year or 4, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    if len(text) < 4:
        return False
    day, separator, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    if not separator or not _is_date(day) or match is None:
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _passes(test: Callable[[str], object], complaint: str) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        return [] if test(text) else [complaint]

    return check


def _uri(text: str) -> list[str]:
    complaint = check_request_uri(text)
    return [f'parse "{text}": {complaint}'] if complaint else []


def _names(pattern: re.Pattern[str], limit: int, what: str) -> Callable[[bool], Callable[[str], list[str]]]:
    return lambda prefix: partial(_name, pattern=pattern, limit=limit, prefix=prefix, what=what)


_label = _names(_LABEL, _LABEL_SIZE, "lowercase RFC 1123 label")
_label_1035 = _names(_LABEL_1035, _LABEL_SIZE, "DNS-1035 label")
_subdomain = _names(_SUBDOMAIN, _SUBDOMAIN_SIZE, "lowercase RFC 1123 subdomain")

FORMATS: Final[Mapping[str, Format]] = {
    "dns1123Label": Format("DNS1123Label", _label(False), 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain(False), 60),
    "dns1035Label": Format("DNS1035Label", _label_1035(False), 30),
    "qualifiedName": Format("QualifiedName", _qualified, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _label(True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _subdomain(True), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _label_1035(True), 30),
    "labelValue": Format("LabelValue", _label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _passes(_UUID.fullmatch, "does not match the UUID format"), 70),
    "byte": Format("byte", _passes(_BASE64.fullmatch, "invalid base64"), 84),
    "date": Format("date", _passes(_is_date, "invalid date"), 71),
    "datetime": Format("datetime", _passes(_is_datetime, "invalid datetime"), 71),
}


def _constant(found: Format) -> Callable[[], Format]:
    return lambda: found


def _named(name: object) -> Optional:
    if type(name) is not str:
        raise no_such_overload()
    found = FORMATS.get(name)
    return Optional(True, found) if found else NONE


def _validate(value: object, text: object) -> Optional:
    if not isinstance(value, Format) or type(text) is not str:
        raise no_such_overload()
    complaints = value.check(text)
    return Optional(True, tuple(complaints)) if complaints else NONE


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "format.named": _named,
    "validate": _validate,
    **{f"format.{name}": _constant(found) for name, found in FORMATS.items()},
}
