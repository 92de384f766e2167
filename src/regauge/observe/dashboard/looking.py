"""One look at an estate: its objects, what its nodes tell, and what follows from both, worked out once. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from regauge.inventory import Inventory, take_inventory
from regauge.model import NodeReport, Rules, Snapshot
from regauge.model.core import ENDED_PHASES, Pod
from regauge.model.kinds import POD
from regauge.model.resource import ResourceClaim
from regauge.observe.correlation import Correlation, Holding, correlate, seconds

Name = tuple[str, str]


class Look:
    """The estate at `now_s` (seconds since 1970). What several tables ask for is worked out at the first question."""

    def __init__(self, snapshot: Snapshot, rules: Rules, now_s: float, reports: Iterable[NodeReport] = ()) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.now_s = now_s
        self.reports = tuple(reports)

    @cached_property
    def inventory(self) -> Inventory:
        return take_inventory(self.snapshot, self.reports)

    @cached_property
    def correlation(self) -> Correlation:
        return correlate(self.snapshot, self.reports, self.inventory)

    @cached_property
    def held(self) -> Mapping[tuple[str, ...], tuple[Holding, ...]]:
        """What is held of each device by the device's key, access for administrators included."""
        found: dict[tuple[str, ...], list[Holding]] = defaultdict(list)
        for one in self.correlation.holdings:
            found[one.key].append(one)
        return {key: tuple(rows) for key, rows in found.items()}

    @cached_property
    def pods(self) -> Mapping[Name, Pod]:
        return {(pod.metadata.namespace, pod.metadata.name): pod for pod in self.snapshot.pods}

    @cached_property
    def claims(self) -> Mapping[Name, ResourceClaim]:
        return {(claim.metadata.namespace, claim.metadata.name): claim for claim in self.snapshot.claims}

    @cached_property
    def knows_pods(self) -> bool:
        """Whether pods were read at all: where they were not, nobody can be said to be gone."""
        return bool(self.snapshot.documents(POD))

    def user(self, one: Holding) -> Pod | None:
        """The pod that holds a device and has not ended; None where there is none any more."""
        pod = self.pods.get((one.namespace, one.pod)) if one.pod else None
        if pod is None or pod.status.phase in ENDED_PHASES:
            return None
        same = not one.pod_uid or pod.metadata.uid in ("", one.pod_uid)
        return pod if same else None

    def age_s(self, stamps: Iterable[str | None]) -> float | None:
        """How long ago the last of these moments was; None where none is told."""
        known = [moment for moment in map(seconds, stamps) if moment is not None]
        return self.now_s - max(known) if known else None
