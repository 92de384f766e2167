"""From a container request to its OCI runtime configuration: process, plugin devices and mounts, then CDI. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from regauge.cdi import Catalog, Host, HostDevice, NoHostDevice, Refused, inject
from regauge.cluster.runtimes.port import ContainerRequest, StartFailed
from regauge.pluginapi import DeviceSpec, Mount

CREATE_ERROR = "CreateContainerError"
OCI_VERSION = "1.0.2"


def create_spec(
    request: ContainerRequest,
    id_: str,
    catalog: Callable[[], Catalog],
    host: Host,
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The OCI runtime configuration of a container. `base` holds what the runtime adds (root, namespaces, mounts);
    `catalog` is asked only when the request names CDI devices.

    Raises `StartFailed` with containerd's words when a device node is missing or a CDI name cannot be resolved.
    """
    document: dict[str, Any] = {"ociVersion": OCI_VERSION, **(base or {})}
    document["process"] = {**document.get("process", {}), **_process(request)}
    document["annotations"] = {**document.get("annotations", {}), **request.annotations}
    document["mounts"] = [*document.get("mounts", ()), *(_mount(mount) for mount in request.mounts)]
    _add_devices(document, request.devices, id_, host)
    if not request.cdi_devices:
        return document
    outcome = inject(document, request.cdi_devices, catalog(), host)
    if isinstance(outcome, Refused):
        why = outcome.reason
        if outcome.unresolved:
            why = f"unresolvable CDI devices {', '.join(outcome.unresolved)}"
        raise StartFailed(CREATE_ERROR, f"failed to create containerd container: CDI device injection failed: {why}")
    return outcome.document


def _process(request: ContainerRequest) -> dict[str, Any]:
    process: dict[str, Any] = {
        "args": [*request.command, *request.args],
        "env": [f"{name}={value}" for name, value in request.env.items()],
    }
    if request.working_directory:
        process["cwd"] = request.working_directory
    return process


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "destination": mount.container_path,
        "source": mount.host_path,
        "type": "bind",
        "options": ["rbind", "rprivate", "ro" if mount.read_only else "rw"],
    }


def _add_devices(document: dict[str, Any], devices: tuple[DeviceSpec, ...], id_: str, host: Host) -> None:
    if not devices:
        return
    linux = {**document.get("linux", {})}
    resources = {**linux.get("resources", {})}
    nodes, allowed = list(linux.get("devices", ())), list(resources.get("devices", ()))
    for device in devices:
        found = host.device(device.host_path)
        if isinstance(found, NoHostDevice):
            raise StartFailed(
                CREATE_ERROR,
                f'failed to generate container "{id_}" spec: failed to generate spec:'
                f" lstat {device.host_path}: {found.reason}",
            )
        nodes.append(_node(device, found))
        allowed.append(
            {
                "allow": True,
                "type": found.type,
                "major": found.major,
                "minor": found.minor,
                "access": device.permissions,
            }
        )
    resources["devices"] = allowed
    document["linux"] = {**linux, "devices": nodes, "resources": resources}


def _node(device: DeviceSpec, found: HostDevice) -> dict[str, Any]:
    return {
        "path": device.container_path,
        "type": found.type,
        "major": found.major,
        "minor": found.minor,
        "fileMode": found.file_mode,
    }
