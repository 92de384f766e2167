"""One moment of a cluster as the metrics see it: objects, what sources read, and what was seen before. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from regauge.audit import AuditInput, Ground
from regauge.inventory import EstateDevice, Stack
from regauge.model import NodeReport
from regauge.model.core import Pod
from regauge.model.kinds import POD
from regauge.observe.correlation import Correlation, Holding, correlate
from regauge.observe.history import History
from regauge.observe.node_reports import combined
from regauge.observe.pending import Explained, Reason
from regauge.observe.pending_pods import PendingPods
from regauge.observe.ports import Readings


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How the exporter itself is doing.

    `read` are the resources it reads; `unread` those it may not read or that are not served, `lost` those whose watch is
    interrupted. `refresh_s` is how long making the last answer took, `dropped` the series left out of it by family.
    """

    version: str = ""
    read: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    held_bytes: int = 0
    refresh_s: float | None = None
    dropped: Mapping[str, int] | None = None


class Moment:
    """What the families are functions of. Everything that several of them ask is worked out once.

    `given` holds the objects, the rules, the reports of nodes (`merged_reports`) and the time.
    """

    def __init__(
        self,
        given: AuditInput,
        readings: Iterable[Readings] = (),
        history: History | None = None,
        upkeep: Upkeep = Upkeep(),
        explained: Explained | None = None,
    ) -> None:
        self.given = given
        self.readings = tuple(readings)
        self.history = History() if history is None else history
        self.upkeep = upkeep
        self._explained = Explained() if explained is None else explained
        self.ground = Ground(given)
        self.snapshot = self.ground.snapshot

    @property
    def now_s(self) -> float:
        return self.given.now_s

    @property
    def knows_pods(self) -> bool:
        """Whether a pod that is not there is gone: in a dump without pods nobody knows."""
        read = POD.resource in self.upkeep.read and POD.resource not in self.upkeep.unread
        return read or self.ground.has(POD)

    @cached_property
    def pending(self) -> Mapping[tuple[str, str], Reason]:
        """Why each claim that waits has no devices, by namespace and name."""
        return self._explained.reasons(self.ground)

    @cached_property
    def pending_pods(self) -> tuple[tuple[Pod, Stack, Reason], ...]:
        """Every pod that waits and asks for devices, once for each stack that it asks, and why."""
        return tuple(PendingPods(self.ground, self.pending, self.correlation.holdings).reasons())

    @cached_property
    def correlation(self) -> Correlation:
        return correlate(self.snapshot, self.given.reports, self.ground.inventory)

    @cached_property
    def holdings_of(self) -> Mapping[tuple[str, ...], tuple[Holding, ...]]:
        """Who holds a device, by the device's key."""
        found: dict[tuple[str, ...], list[Holding]] = defaultdict(list)
        for one in self.correlation.holdings:
            found[one.key].append(one)
        return {key: tuple(rows) for key, rows in found.items()}

    @cached_property
    def devices(self) -> tuple[EstateDevice, ...]:
        return self.ground.inventory.devices


def merged_reports(reports: Iterable[NodeReport], readings: Iterable[Readings]) -> tuple[NodeReport, ...]:
    """One report a node: what sources read just now, taken together, stands for what was read from files before."""
    found = {report.node: report for report in reports}
    found.update({report.node: report for report in combined(report for one in readings for report in one.reports)})
    return tuple(found.values())
