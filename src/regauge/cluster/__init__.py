"""A Kubernetes cluster in one process: API server, controllers, scheduler, nodes; live or in virtual time.

`regauge.cluster.kubelet` and `regauge.cluster.runtimes` (with `regauge.cluster.runtimes.virtual`,
`regauge.cluster.runtimes.process` and `regauge.cluster.runtimes.oci`) are the node half, `regauge.cluster.server` serves the
API on a socket; they are imported by name.

Whoever rehearses on it also names `regauge.cluster.api`, `regauge.cluster.control_plane` (its processes),
`regauge.cluster.deletion` (times) and `regauge.cluster.story` (who wrote what).

A cluster that stays is put together from `regauge.cluster.persistence` (the store on disk), `regauge.cluster.store`,
`regauge.cluster.access.certificates`, `regauge.cluster.access.identity`, `regauge.cluster.access.guard`,
`regauge.cluster.access.bootstrap`, `regauge.cluster.access.tokens`, `regauge.cluster.serving` (which versions are served),
`regauge.cluster.controllers.accounts` and `regauge.cluster.queue`.
"""

from regauge.cluster.clock import NothingLeft, TimeOver, VirtualClock, VirtualLoop, run_virtual
from regauge.cluster.control_plane import ControlPlane
from regauge.cluster.port import ClusterApi, Controller, Killed
from regauge.cluster.server_state import ApiCall

__all__ = [
    "ApiCall",
    "ClusterApi",
    "ControlPlane",
    "Controller",
    "Killed",
    "NothingLeft",
    "TimeOver",
    "VirtualClock",
    "VirtualLoop",
    "run_virtual",
]
