"""What runs the containers of a node: nothing (`virtual`), child processes (`process`), or runc and crun (`oci`).

The port is here; each runtime is a module imported by name, because two of them touch the machine.
"""

from regauge.cluster.runtimes.creating import create_spec
from regauge.cluster.runtimes.port import ContainerRequest, ContainerState, Runtime, StartFailed, container_id

__all__ = ["ContainerRequest", "ContainerState", "Runtime", "StartFailed", "container_id", "create_spec"]
