"""The messages of the kubelet's plugin APIs as frozen values.

Source: k8s.io/kubelet apis deviceplugin/v1beta1, pluginregistration/v1, dra/v1 and v1beta1, dra-health/v1 and v1alpha1,
podresources/v1. The DRA messages are those of v1; v1beta1 lacks `share_id` and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
DEVICE_PLUGIN_VERSION = "v1beta1"
DRA_PLUGIN_TYPE = "DRAPlugin"
DRA_V1 = "v1.DRAPlugin"
DRA_V1BETA1 = "v1beta1.DRAPlugin"
HEALTH_V1 = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1 = "v1alpha1.DRAResourceHealth"


@dataclass(frozen=True, slots=True)
class DevicePluginOptions:
    pre_start_required: bool = False
    get_preferred_allocation_available: bool = False


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """A device plugin announces itself. `endpoint` is a socket's file name beside kubelet.sock."""

    version: str
    endpoint: str
    resource_name: str
    options: DevicePluginOptions = DevicePluginOptions()


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """One device of a device plugin. Health is the exact text `Healthy`; anything else counts as unhealthy."""

    id: str
    health: str = HEALTHY
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredAllocationRequest:
    available_ids: tuple[str, ...]
    must_include_ids: tuple[str, ...]
    allocation_size: int


@dataclass(frozen=True, slots=True)
class Mount:
    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class ContainerAllocateResponse:
    """What one container gets for the devices the kubelet chose for it."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceSpec, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """What a plugin in the registry says of itself. `endpoint` is the absolute path of its service socket.

    The kubelet takes the first entry of `supported_versions` that it knows, so the newest comes first.
    """

    type: str
    name: str
    endpoint: str
    supported_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    plugin_registered: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it to a driver."""

    namespace: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One prepared device. No request names means all requests of the claim."""

    pool_name: str
    device_name: str
    request_names: tuple[str, ...] = ()
    cdi_device_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """The answer for one claim: devices, or an error in words (never both)."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class Health(Enum):
    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    pool_name: str
    device_name: str
    health: Health
    last_updated_s: int
    check_timeout_s: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    resource_name: str
    device_ids: tuple[str, ...]
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimResource:
    driver_name: str
    pool_name: str
    device_name: str
    cdi_devices: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class DynamicResource:
    claim_name: str
    claim_namespace: str
    claim_resources: tuple[ClaimResource, ...]


@dataclass(frozen=True, slots=True)
class ContainerResources:
    name: str
    devices: tuple[ContainerDevices, ...] = ()
    dynamic_resources: tuple[DynamicResource, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    name: str
    namespace: str
    containers: tuple[ContainerResources, ...] = ()
