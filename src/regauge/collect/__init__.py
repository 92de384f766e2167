"""Estates from files and from live clusters. Reads only; nothing that is read is ever executed."""

from regauge.collect.estate import Estate, Skipped
from regauge.collect.files import load_estate
from regauge.collect.live import LIVE_KINDS, collect_live

__all__ = ["LIVE_KINDS", "Estate", "Skipped", "collect_live", "load_estate"]
