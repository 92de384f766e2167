"""The ground: errors, the ports through which everything else touches the world, canonical JSON, state tables. Pure.

Reports for people are `regauge.base.pages` (HTML and Markdown of the same blocks) and `regauge.base.drawing` (pictures),
both imported by name.
"""

from regauge.base.canonical import canonical_json, pretty_json
from regauge.base.durations import human_duration
from regauge.base.errors import BugError, InputError, RegaugeError, TransientError, Where
from regauge.base.memory import MemoryFiles
from regauge.base.ports import Clock, Files, Randomness
from regauge.base.transitions import Machine, Table

__all__ = [
    "BugError",
    "Clock",
    "Files",
    "InputError",
    "Machine",
    "MemoryFiles",
    "Randomness",
    "RegaugeError",
    "Table",
    "TransientError",
    "Where",
    "canonical_json",
    "human_duration",
    "pretty_json",
]
