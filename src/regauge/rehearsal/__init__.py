"""Rehearsals: a cluster with its nodes and drivers, live or in virtual time, and the scenarios that run on it.

A cluster that stays is `regauge.rehearsal.up`, what it holds of an estate `regauge.rehearsal.up_estate`, imported by name. So
are scenarios: `regauge.rehearsal.scenario` reads them, `regauge.rehearsal.playing` plays them,
`regauge.rehearsal.exploring` plays them under random faults, `regauge.rehearsal.real` plays them on a cluster elsewhere,
`regauge.rehearsal.verifying` and `regauge.rehearsal.pages` tell what came of it, `regauge.rehearsal.catalogue` what to do
about each failure.
"""

from regauge.rehearsal.rehearsing import RehearsalOptions, rehearse, write_report
from regauge.rehearsal.report import Attribution, Check, Comparison, Mode, Ownership, Placement, PodRow, Report, Step

__all__ = [
    "Attribution",
    "Check",
    "Comparison",
    "Mode",
    "Ownership",
    "Placement",
    "PodRow",
    "RehearsalOptions",
    "Report",
    "Step",
    "rehearse",
    "write_report",
]
