"""What a kubelet is told: where its directories are, what its node offers, how long it waits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from regauge.model import Rules
from regauge.scheduler import Topology


@dataclass(frozen=True, slots=True)
class Timings:
    """Waits in seconds. The defaults are those of the kubelet of 1.36; where it adds chance, one value in the middle."""

    node_status_s: float = 10.0
    node_report_s: float = 300.0  # how long an unchanged status is not written
    lease_s: float = 10.0
    first_pods_s: float = 0.7  # the first list of pods comes this long after plugins can register
    pod_sync_s: float = 75.0  # 64 to 90 s were seen between two tries of a failed prepare
    pod_retry_s: float = 13.0  # after an error of a pod's sync
    pod_first_retry_s: float = 0.3
    status_retry_s: float = 10.0
    housekeeping_s: float = 2.0
    crash_backoff_s: float = 10.0
    crash_backoff_limit_s: float = 300.0
    registry_tick_s: float = 1.0
    plugin_dial_s: float = 10.0
    pre_start_s: float = 30.0
    plugin_grace_s: float = 300.0
    dra_call_s: float = 45.0
    dra_reconcile_s: float = 60.0
    slice_wipe_s: float = 30.0
    health_reopen_s: float = 5.0
    health_stale_s: float = 30.0
    default_grace_s: float = 30.0


def _nothing(_text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """`directory` is the kubelet's root (`/var/lib/kubelet` on a real node); `say` hears what a log would say."""

    rules: Rules
    directory: str = "/var/lib/kubelet"
    capacity: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet_version: str = "v1.36.3"
    boot_id: str = ""
    topology: Topology = field(default_factory=Topology)
    timings: Timings = Timings()
    say: Callable[[str], None] = _nothing

    @property
    def device_plugins(self) -> str:
        return f"{self.directory}/device-plugins"

    @property
    def plugins_registry(self) -> str:
        return f"{self.directory}/plugins_registry"

    @property
    def pod_resources(self) -> str:
        return f"{self.directory}/pod-resources"
