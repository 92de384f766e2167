"""A Kubernetes cluster in one process: API server, controllers, scheduler, nodes; live or in virtual time.

`cluster.kubelet` and `cluster.runtimes` are the node half and are imported by name, as is `cluster.server`, which serves the
API on a socket.
"""

from regauge.cluster.clock import NothingLeft, TimeOver, VirtualClock, VirtualLoop, run_virtual
from regauge.cluster.control_plane import ControlPlane
from regauge.cluster.port import ClusterApi, Controller

__all__ = [
    "ClusterApi",
    "ControlPlane",
    "Controller",
    "NothingLeft",
    "TimeOver",
    "VirtualClock",
    "VirtualLoop",
    "run_virtual",
]
