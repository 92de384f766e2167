"""The plugin port over gRPC on unix sockets, as the kubelet speaks it."""

from regauge.pluginapi.wire.net import WireNet

__all__ = ["WireNet"]
