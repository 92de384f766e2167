"""The client protocol to an API server, over HTTP (TCP with a kubeconfig, or a unix socket) and in memory.

`regauge.kube.http` (`HttpClient`) and `regauge.kube.config` (`load_connection`, `Connection`) are imported by name: they
load an HTTP library, which not every program needs.
"""

from regauge.kube.memory import ApiPort, MemoryClient
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
from regauge.kube.reading import listed_documents, read_snapshot

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ApiPort",
    "Conflict",
    "EventType",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeClient",
    "MemoryClient",
    "NotFound",
    "ObjectList",
    "PatchType",
    "ServerUnavailable",
    "Version",
    "WatchEvent",
    "listed_documents",
    "read_snapshot",
]
