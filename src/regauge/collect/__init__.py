"""Estates from files and from live clusters, and the files of a node. Reads only; nothing that is read is ever executed."""

from regauge.collect.estate import Estate, Skipped
from regauge.collect.files import load_estate
from regauge.collect.live import LIVE_KINDS, collect_live
from regauge.collect.node import read_node
from regauge.collect.node_tree import NodeTree

__all__ = ["LIVE_KINDS", "Estate", "NodeTree", "Skipped", "collect_live", "load_estate", "read_node"]
