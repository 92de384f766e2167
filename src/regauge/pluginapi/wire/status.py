"""gRPC's status codes under the names that Go, and so every message of the kubelet, gives them."""

from __future__ import annotations

import grpc

from regauge.pluginapi.port import RpcError

GO_NAMES: dict[grpc.StatusCode, str] = {
    code: "".join(part.capitalize() for part in code.name.split("_")) for code in grpc.StatusCode
} | {grpc.StatusCode.CANCELLED: "Canceled", grpc.StatusCode.OK: "OK"}

_CODES = {name: code for code, name in GO_NAMES.items()}


def status_code(name: str) -> grpc.StatusCode:
    """The code of this name; `Unknown` for a name that gRPC does not have."""
    return _CODES.get(name, grpc.StatusCode.UNKNOWN)


def from_grpc(error: grpc.aio.AioRpcError) -> RpcError:
    """The error of a call as the port raises it."""
    return RpcError(GO_NAMES[error.code()], error.details() or "")
