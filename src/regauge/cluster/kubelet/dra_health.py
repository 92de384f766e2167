"""What DRA drivers report of their devices' health, and how long a report counts. Pure.

Source: pkg/kubelet/cm/dra/healthinfo.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regauge.pluginapi import DeviceHealth, Health

MESSAGE_LIMIT = 1024
_TOLD = {Health.HEALTHY: "Healthy", Health.UNHEALTHY: "Unhealthy", Health.UNKNOWN: "Unknown"}


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """The last report of one device. Times in seconds; `health` is as pod status has it."""

    health: str
    message: str
    reported_s: float
    stale_after_s: float

    def at(self, now_s: float) -> DeviceReport:
        """The report as it counts at `now_s`: too old means unknown, without message."""
        if now_s - self.reported_s > self.stale_after_s:
            return DeviceReport("Unknown", "", self.reported_s, self.stale_after_s)
        return self

    def same(self, other: DeviceReport) -> bool:
        return (self.health, self.message, self.stale_after_s) == (other.health, other.message, other.stale_after_s)


@dataclass(slots=True)
class HealthCache:
    """Reports by driver and device (pool, name). `stale_s` counts for reports that bring no time of their own."""

    stale_s: float
    _drivers: dict[str, dict[tuple[str, str], DeviceReport]] = field(default_factory=dict)

    def update(self, driver: str, reports: Sequence[DeviceHealth], now_s: float) -> set[tuple[str, str]]:
        """Take in a message of a driver. Returns the devices whose health changed, those grown stale included."""
        known = self._drivers.setdefault(driver, {})
        changed: set[tuple[str, str]] = set()
        told: set[tuple[str, str]] = set()
        for report in reports:
            key = (report.pool_name, report.device_name)
            told.add(key)
            new = self._report(report, now_s)
            if key not in known or not known[key].same(new):
                changed.add(key)
            known[key] = new
        for key in known.keys() - told:
            old = known[key]
            if old.health != "Unknown" and old.at(now_s) is not old:
                known[key] = DeviceReport("Unknown", "", now_s, old.stale_after_s)
                changed.add(key)
        return changed

    def find(self, driver: str, pool: str, device: str, now_s: float) -> tuple[str, str]:
        """Health and message of a device; unknown without a report."""
        report = self._drivers.get(driver, {}).get((pool, device))
        if report is None:
            return "Unknown", ""
        now = report.at(now_s)
        return now.health, now.message

    def clear(self, driver: str) -> None:
        self._drivers.pop(driver, None)

    def _report(self, report: DeviceHealth, now_s: float) -> DeviceReport:
        stale_s = float(report.check_timeout_s) if report.check_timeout_s > 0 else self.stale_s
        message = report.message
        if len(message) > MESSAGE_LIMIT:
            message = message[: MESSAGE_LIMIT - 3] + "..."
        return DeviceReport(_TOLD[report.health], message, now_s, stale_s)
