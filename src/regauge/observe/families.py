"""What a metric family is: a name, what is told of it, and a pure function from a moment of a cluster to samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from regauge.audit import Layer
from regauge.observe.metric_moment import Moment

PREFIX = "regauge_"
MOST_SERIES = 100_000
"""How many series of one family are shown; what is above it is counted by `regauge_export_dropped_series`."""


class Type(StrEnum):
    """OpenMetrics' types, as far as they are used. An INFO is a gauge that is always 1, as kube-state-metrics has them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Buckets:
    """The value of one histogram: (upper bound, how many up to it), cumulative, rising, the last bound infinite."""

    counts: tuple[tuple[float, float], ...]
    total: float


class Scope(StrEnum):
    """Who can tell. CLUSTER: whoever reads the API. STACK: of DRA, whoever reads the API; of device plugins, who asks the
    node's kubelet (its first label that is named `stack` says which). NODE: who reads sources. OWN: every exporter of itself.
    """

    CLUSTER = "cluster"
    STACK = "stack"
    NODE = "node"
    OWN = "own"


Value = float | Buckets
Series = tuple[tuple[str, ...], Value]
"""The values of the labels in their order, and the value."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `name` is without PREFIX, and without the `_total` that counters are shown with; `unit` is its last word.

    `layer` is the part of the way from a device to a container that it is about, `scope` says which exporter tells it.
    `samples` are its series, each once.
    """

    name: str
    type: Type
    text: str
    labels: tuple[str, ...]
    layer: Layer
    samples: Callable[[Moment], Iterable[Series]]
    unit: str = ""
    scope: Scope = Scope.CLUSTER

    @property
    def full_name(self) -> str:
        """The name as it is asked for: `regauge_device_seconds_total`."""
        return f"{PREFIX}{self.name}{'_total' if self.type is Type.COUNTER else ''}"
