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
    """

    snapshot: Snapshot
    source: str
    git_version: str | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    nodes: Mapping[str, NodeFiles] = field(default_factory=dict)
