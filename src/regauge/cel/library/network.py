"""IP addresses and networks (Go's net/netip, without zones and IPv4-mapped addresses)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping

from regauge.cel.errors import EvaluationError, no_such_overload
from regauge.cel.values import Cidr, Ip
from regauge.model.quoting import go_quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_V6 = re.compile(r"[0-9a-fA-F:.]+")
_LONGEST = 64


def _text(value: object) -> str:
    if type(value) is not str:
        raise no_such_overload()
    return value


def _address(text: str) -> Address | None:
    """The address, or None. Zones are no addresses here."""
    if len(text) > _LONGEST or not _V6.fullmatch(text):
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _parse_ip(text: str) -> Ip:
    if "%" in text and ":" in text and _address(text.partition("%")[0]):
        raise EvaluationError(f"IP address {go_quote(text)} with zone value is not allowed")
    address = _address(text)
    if address is None:
        shown = go_quote(text)
        raise EvaluationError(
            f"IP Address {shown} parse error during conversion from string: ParseAddr({shown}): unable to parse IP"
        )
    if address.version == 6 and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return Ip(address)


def _parse_cidr(text: str) -> Cidr:
    head, slash, bits = text.rpartition("/")
    address = _address(head) if slash else None
    valid = bits.isascii() and bits.isdigit() and len(bits) <= 3 and (bits == "0" or bits[0] != "0")
    if address is None or not valid or int(bits) > address.max_prefixlen:
        what = "network address parse error during conversion from string"
        raise EvaluationError(f"{what}: {what}: netip.ParsePrefix({go_quote(text)}): no such network")
    if address.version == 6 and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return Cidr(address, int(bits))


def _parses(parse: Callable[[str], object]) -> Callable[[object], bool]:
    def parses(text: object) -> bool:
        string = _text(text)
        try:
            parse(string)
        except EvaluationError:
            return False
        return True

    return parses


def _ip(value: object) -> Ip:
    if isinstance(value, Cidr):
        return Ip(value.address)
    return _parse_ip(_text(value))


def _is_canonical(text: object) -> bool:
    return str(_parse_ip(_text(text)).address) == text


def _flag(test: Callable[[Address], bool]) -> Callable[[object], bool]:
    def flag(value: object) -> bool:
        if not isinstance(value, Ip):
            raise no_such_overload()
        return test(value.address)

    return flag


def _family(value: object) -> int:
    if not isinstance(value, Ip):
        raise no_such_overload()
    return value.address.version


def _link_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _link_local_unicast(address: Address) -> bool:
    return address.is_link_local


def _global_unicast(address: Address) -> bool:
    if address.version == 4 and int(address) in (0, 0xFFFFFFFF):
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or _link_local_unicast(address))


def _cidr(value: object) -> Cidr:
    return _parse_cidr(_text(value))


def _network(value: object) -> Cidr:
    if not isinstance(value, Cidr):
        raise no_such_overload()
    return value


def _prefix(address: Address, bits: int) -> int:
    return int(address) >> (address.max_prefixlen - bits)


def _contains_ip(value: object, other: object) -> bool:
    network = _network(value)
    if not isinstance(other, Ip):
        other = _parse_ip(_text(other))
    if network.address.version != other.address.version:
        return False
    return _prefix(network.address, network.bits) == _prefix(other.address, network.bits)


def _contains_cidr(value: object, other: object) -> bool:
    network = _network(value)
    if not isinstance(other, Cidr):
        other = _parse_cidr(_text(other))
    if network.address.version != other.address.version or network.bits > other.bits:
        return False
    return _prefix(network.address, network.bits) == _prefix(other.address, network.bits)


def _masked(value: object) -> Cidr:
    network = _network(value)
    shift = network.address.max_prefixlen - network.bits
    return Cidr(type(network.address)(int(network.address) >> shift << shift), network.bits)


def _prefix_length(value: object) -> int:
    return _network(value).bits


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "ip": _ip,
    "isIP": _parses(_parse_ip),
    "ip.isCanonical": _is_canonical,
    "family": _family,
    "isUnspecified": _flag(lambda address: address.is_unspecified),
    "isLoopback": _flag(lambda address: address.is_loopback),
    "isLinkLocalMulticast": _flag(_link_local_multicast),
    "isLinkLocalUnicast": _flag(_link_local_unicast),
    "isGlobalUnicast": _flag(_global_unicast),
    "cidr": _cidr,
    "isCIDR": _parses(_parse_cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "masked": _masked,
    "prefixLength": _prefix_length,
}
