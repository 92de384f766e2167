"""URLs, read as Go's net/url reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.values import Map, Url

_PARSE_ERROR: Final = "URL parse error during conversion from string: parse"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HEX = frozenset("0123456789abcdefABCDEF")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_PATH = _UNRESERVED | frozenset("$&+,/:;=@")
_RAW_PATH = _PATH | frozenset("!$&'()*+,;=:@[]%")
_HOST = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_USER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:~!$&'()*+,;=%@")


class _Bad(Exception):
    """The text is no URL; says why."""


def _unescape(text: str, host: bool = False, plus: bool = False) -> str:
    if "%" not in text and not plus:
        return _checked_host(text) if host else text
    out = bytearray()
    at = 0
    while at < len(text):
        character = text[at]
        if character == "%":
            code = text[at + 1 : at + 3]
            if len(code) < 2 or not _HEX.issuperset(code):
                raise _Bad(f'invalid URL escape "{text[at : at + 3]}"')
            if host and int(code, 16) < 0x80 and code != "25":
                raise _Bad(f'invalid URL escape "{text[at : at + 3]}"')
            out.append(int(code, 16))
            at += 3
            continue
        if host:
            _checked_host(character)
        out += b" " if plus and character == "+" else character.encode("utf-8", "surrogatepass")
        at += 1
    return out.decode("utf-8", "replace")


def _checked_host(text: str) -> str:
    for character in text:
        if ord(character) < 0x80 and character not in _HOST:
            raise _Bad(f'invalid character "{character}" in host name')
    return text


def _escape_path(path: str) -> str:
    return "".join(
        chr(byte) if chr(byte) in _PATH else f"%{byte:02X}" for byte in path.encode("utf-8", "surrogatepass")
    )


def _host(text: str) -> str:
    bracket = text.rfind("]") if text.startswith("[") else -1
    if text.startswith("[") and bracket < 0:
        raise _Bad("missing ']' in host")
    port = text[bracket + 1 :] if bracket >= 0 else (text[text.rfind(":") :] if ":" in text else "")
    if port and not re.fullmatch(r":[0-9]*", port):
        raise _Bad(f'invalid port "{port}" after host')
    if bracket >= 0 and "%25" in text[:bracket]:
        address, _, zone = text[:bracket].partition("%25")
        return _unescape(address, host=True) + "%" + _unescape(zone) + _unescape(text[bracket:], host=True)
    return _unescape(text, host=True)


def _authority(text: str) -> tuple[str, str]:
    user, at, host = text.rpartition("@")
    found = _host(host)
    if at and not _USER.issuperset(user):
        raise _Bad("net/url: invalid userinfo")
    _unescape(user)
    return user + at, found


def _parse(text: str, request: bool) -> Url:
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise _Bad("net/url: invalid control character in URL")
    if not text and request:
        raise _Bad("empty url")
    if text.startswith(":"):
        raise _Bad("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", "", query, f"{scheme}:{rest}?{query}")
        if request and text != "*":
            raise _Bad("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _Bad("first path segment in URL cannot contain colon")
    user = host = ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        user, host = _authority(authority)
    path = _unescape(rest)
    escaped = rest if _RAW_PATH.issuperset(rest) else _escape_path(path)
    return Url(scheme, host, path, escaped, query, f"{scheme}://{user}{host}{escaped}?{query}")


def check_request_uri(text: str) -> str:
    """What Go's url.ParseRequestURI complains about, or an empty text."""
    try:
        _parse(text, request=True)
    except _Bad as error:
        return str(error)
    return ""


def _url(value: object) -> Url:
    if type(value) is not str:
        raise no_such_overload()
    try:
        _parse(value, request=True)
        before, hash_mark, fragment = value.partition("#")
        found = _parse(before, request=False)
        _unescape(fragment)
    except _Bad as error:
        raise EvaluationError(f'{_PARSE_ERROR} "{value}": {error}') from None
    text = found.text + hash_mark + fragment
    return Url(found.scheme, found.host, found.path, found.escaped_path, found.query, text)


def _is_url(value: object) -> bool:
    if type(value) is not str:
        raise no_such_overload()
    return not check_request_uri(value)


def _of(value: object) -> Url:
    if not isinstance(value, Url):
        raise no_such_overload()
    return value


def _hostname(value: object) -> str:
    host = _of(value).host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host.rpartition(":")[0] if ":" in host else host


def _port(value: object) -> str:
    host = _of(value).host
    tail = host[host.rfind("]") + 1 :]
    return tail.rpartition(":")[2] if ":" in tail else ""


def _query(value: object) -> Map:
    found: dict[str, tuple[str, ...]] = {}
    for part in _of(value).query.split("&"):
        if not part or ";" in part:
            continue
        key, _, content = part.partition("=")
        try:
            name, text = _unescape(key, plus=True), _unescape(content, plus=True)
        except _Bad:
            continue
        found[name] = (*found.get(name, ()), text)
    return Map.of_text(found)


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "url": _url,
    "isURL": _is_url,
    "getScheme": lambda value: _of(value).scheme,
    "getHost": lambda value: _of(value).host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda value: _of(value).escaped_path,
    "getQuery": _query,
}
