"""The client protocol to an API server, over HTTP (TCP with a kubeconfig, or a unix socket) and in memory."""

from regauge.kube.port import (
    AlreadyExists,
    ApiError,
    Conflict,
    EventType,
    Forbidden,
    Gone,
    Invalid,
    KubeClient,
    NotFound,
    ObjectList,
    PatchType,
    ServerUnavailable,
    Version,
    WatchEvent,
)

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "EventType",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeClient",
    "NotFound",
    "ObjectList",
    "PatchType",
    "ServerUnavailable",
    "Version",
    "WatchEvent",
]
