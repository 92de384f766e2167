"""What was collected: the objects, the version and gates of the cluster they came from, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from regauge.model import Snapshot
from regauge.model.node_files import NodeFiles


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not read, and why, in words."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Estate:
    """A cluster at one moment, from files or live.

    `git_version` is the server's own word (`v1.36.3`) or None where the source does not tell; `gates` holds the feature
    gates the source tells of (empty where it does not). `nodes` are files of nodes by name, where somebody read them.

    `whole`: everything that a live cluster has of the kinds that are looked at, but for what is in `skipped`. Of files nobody
    knows what they leave out.
    """

    snapshot: Snapshot
    source: str
    git_version: str | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    nodes: Mapping[str, NodeFiles] = field(default_factory=dict)
    whole: bool = False

    @property
    def unread(self) -> frozenset[str] | None:
        """The resources that could not be read of a whole cluster; None where nobody knows what is missing."""
        return frozenset(item.what for item in self.skipped) if self.whole else None
