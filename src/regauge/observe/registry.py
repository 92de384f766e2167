"""All metric families, in the order in which they are shown."""

from __future__ import annotations

from regauge.observe import (
    families_allocations,
    families_attribution,
    families_claims,
    families_classes,
    families_drivers,
    families_health,
    families_leaks,
    families_ownership,
    families_sharing,
    families_slices,
    families_upkeep,
    families_utilization,
)
from regauge.observe.families import Family

GROUPS: tuple[tuple[str, tuple[Family, ...]], ...] = (
    ("Slices", families_slices.FAMILIES),
    ("Classes", families_classes.FAMILIES),
    ("Claims", families_claims.FAMILIES),
    ("Who holds what", families_allocations.FAMILIES),
    ("Health", families_health.FAMILIES),
    ("Sharing", families_sharing.FAMILIES),
    ("What is not let go", families_leaks.FAMILIES),
    ("Ownership", families_ownership.FAMILIES),
    ("Billing", families_attribution.FAMILIES),
    ("What devices do", families_utilization.FAMILIES),
    ("Drivers", families_drivers.FAMILIES),
    ("The exporter itself", families_upkeep.FAMILIES),
)
"""The heading of each group, and its families."""

FAMILIES: tuple[Family, ...] = tuple(family for _, group in GROUPS for family in group)
