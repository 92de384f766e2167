"""What makes pods a gang: a gang of them, its kinds as data, and the topology that it asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from regauge.model import Document, Rules
from regauge.scheduler.nodes import Key

POD_GROUP_KIND = "pod-group"
WORKLOAD_GROUP = "workload-group"
JOB_SET_KIND = "job-set"
LEADER_WORKER_KIND = "leader-worker-set"
KUEUE_PODS = "kueue-pods"
KUEUE_WORKLOAD = "kueue-workload"
COSCHEDULING = "coscheduling"
VOLCANO = "volcano"


class GangKind(msgspec.Struct, frozen=True):
    """A kind of a gang. `together`: who keeps it together places all of it or nothing, while `gate` is on ("" for none).

    `hold`: how a part of it comes to hold devices, "" where it does not. `pause`: how it gives them back. `versions` and
    `stage`: of the API; `source`: where that is from.
    """

    kind: str
    says: str
    together: bool
    gate: str
    hold: str
    versions: str
    stage: str
    pause: str
    source: str

    def is_kept_together(self, rules: Rules) -> bool:
        """Whether no pod of it is placed before enough of them have places."""
        return self.together and (not self.gate or rules.on(self.gate))


class _Table(msgspec.Struct):
    kinds: tuple[GangKind, ...]


@cache
def known_gang_kinds() -> Mapping[str, GangKind]:
    """All kinds of gangs that are known, by name."""
    data = files("regauge.scheduler").joinpath("data/gang_kinds.json").read_bytes()
    return {one.kind: one for one in msgspec.json.decode(data, type=_Table).kinds}


@dataclass(frozen=True, slots=True)
class TopologyWish:
    """All pods of a gang in one domain: nodes with the same values of `labels`. `asks`: where that is written.

    `required` False: as close as can be, and elsewhere if that does not go.
    """

    labels: tuple[str, ...]
    required: bool
    asks: str

    def __str__(self) -> str:
        return ", ".join(self.labels)


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang: `least` of its pods run together or none should. `made`: pods that are not there yet.

    `done`: how many have ended well and are not needed again. `priority` is None where nothing says one.
    `unsupported`: in words, what of it is not looked at, so that it is not determined.
    """

    name: str
    kind: str
    namespace: str
    own: str
    least: int
    pods: tuple[Key, ...]
    made: tuple[Document, ...] = ()
    done: int = 0
    priority: int | None = None
    created: str = ""
    topology: TopologyWish | None = None
    unsupported: str = ""

    @property
    def about(self) -> GangKind:
        """What is known of its kind."""
        return known_gang_kinds()[self.kind]

    @property
    def keys(self) -> tuple[Key, ...]:
        """All its pods: (namespace, name), those that are not there yet last."""
        return (*self.pods, *((one.namespace, one.name) for one in self.made))

    @property
    def pause(self) -> str:
        """What to do so that it gives back what it holds."""
        return self.about.pause.format(namespace=self.namespace, name=self.own)


__all__ = ["Gang", "GangKind", "TopologyWish", "known_gang_kinds"]
