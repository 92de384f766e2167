"""What is going on: who holds which device, over both stacks.

Imported by name: `regauge.observe.watching`, which follows a cluster; `regauge.observe.dashboard`, and its
`regauge.observe.dashboard.server` and `regauge.observe.dashboard.serving`, which load an HTTP server. Of the metrics:
`regauge.observe.exporter`, `regauge.observe.scraping`, `regauge.observe.registry`, `regauge.observe.metric_moment`,
`regauge.observe.history`, `regauge.observe.comparing` and `regauge.observe.dump_time`; who measures,
`regauge.observe.sources`; what goes with them, `regauge.observe.alerting`,
`regauge.observe.grafana` and `regauge.observe.manifests`. The views, which load what they need:
`regauge.observe.devices_view`, `regauge.observe.claims_view`, `regauge.observe.who_has`, `regauge.observe.timeline` with
`regauge.observe.timeline_parts`, `regauge.observe.timeline_following` and `regauge.observe.timeline_picture`.
"""

from regauge.observe.correlation import Correlation, Holding, containers_with, correlate, seconds
from regauge.observe.owners import NOBODY, Owner, Owners
from regauge.observe.ports import (
    DeviceReading,
    ErrorReading,
    LatencyReading,
    Measure,
    Part,
    Readings,
    Source,
    Trouble,
)

__all__ = [
    "NOBODY",
    "Correlation",
    "DeviceReading",
    "ErrorReading",
    "Holding",
    "LatencyReading",
    "Measure",
    "Owner",
    "Owners",
    "Part",
    "Readings",
    "Source",
    "Trouble",
    "containers_with",
    "correlate",
    "seconds",
]
