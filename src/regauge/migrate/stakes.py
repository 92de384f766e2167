"""What a move costs and what it risks, in one word and one number that can be put in order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from regauge.migrate.growth import Growth
from regauge.migrate.workloads import AskStack

_RISK_BY_KIND = {"Deployment": 0, "ReplicaSet": 1, "Job": 2, "Pod": 3, "StatefulSet": 4, "DaemonSet": 5}
_OTHER_KIND = 9


class Effort(Enum):
    """The work of a move: none; small: the manifest, which is converted; medium: things around it, too; large: by hand, or
    something has to be there first."""

    NONE = "none"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


def effort_of(stack: AskStack, blockers: Sequence[str], adaptations: Sequence[str], growth: Growth | None) -> Effort:
    """The effort for one ask; `adaptations` are what changes with it, the claim template among them."""
    if stack is not AskStack.LIMITS:
        return Effort.NONE
    if blockers or (growth is not None and growth.refused):
        return Effort.LARGE
    return Effort.MEDIUM if len(adaptations) > 1 else Effort.SMALL


def kind_risk(kind: str) -> int:
    """The less a workload of a kind can lose, the earlier it goes; kinds of operators come last."""
    return _RISK_BY_KIND.get(kind, _OTHER_KIND)


def risk_of(kind: str, devices: int) -> int:
    """What is at stake: devices in use, and more for kinds that lose more when they are disturbed."""
    return devices + kind_risk(kind)
