"""The plugin port over gRPC on unix sockets, as the kubelet speaks it."""

import os

# gRPC's core tells every closed connection on stderr; must be said before it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from regauge.pluginapi.wire.net import WireNet

__all__ = ["WireNet"]
