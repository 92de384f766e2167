"""What goes wrong on a net, in the same words on every net. Pure."""

from __future__ import annotations

from regauge.base import InputError, Where
from regauge.pluginapi.port import RpcError


def as_rpc_error(error: Exception) -> RpcError:
    """The error that a caller sees when whoever answers raised `error`."""
    if isinstance(error, RpcError):
        return error
    return RpcError("Unknown", str(error) or type(error).__name__)


def unavailable(details: str) -> RpcError:
    return RpcError("Unavailable", details)


def not_dialed(address: str, why: str) -> RpcError:
    """Nobody could be reached; `why` is the system's text, such as "connection refused"."""
    return unavailable(
        f'connection error: desc = "transport: Error while dialing: dial unix {address}: connect: {why}"'
    )


def lost(why: str = "EOF") -> RpcError:
    """The connection broke while the call was open."""
    return unavailable(f"error reading from server: {why}")


def not_served(service: str) -> RpcError:
    return RpcError("Unimplemented", f"unknown service {service}")


def too_large(size_bytes: int, limit_bytes: int) -> RpcError:
    return RpcError("ResourceExhausted", f"grpc: received message larger than max ({size_bytes} vs. {limit_bytes})")


def in_use(address: str, owner: str) -> InputError:
    """Somebody living serves at `address`; `owner` says who, or is empty when that cannot be seen."""
    who = f" by {owner}" if owner else ""
    return InputError(
        f"the socket is in use{who}",
        where=Where(file=address),
        fix="stop that process, or give this one another directory or name",
    )
