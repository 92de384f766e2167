"""Rules over what was collected, with stable codes. Pure: findings are values, nothing is changed.

`audit_cdi` looks at the files of one node (`regauge.model.node_files`).
"""

from regauge.audit.cdi_host import HookUse
from regauge.audit.cdi_rules import (
    CdiAudit,
    Leftover,
    ListedDevice,
    Usable,
    Verdict,
    audit_cdi,
    device_catalog,
    leftover_files,
    listed_devices,
)
from regauge.audit.findings import Evidence, Finding, Layer, Severity, Unknown, as_document, in_order, is_at_least
from regauge.audit.generators import Generator, generator_of

__all__ = [
    "CdiAudit",
    "Evidence",
    "Finding",
    "Generator",
    "HookUse",
    "Layer",
    "Leftover",
    "ListedDevice",
    "Severity",
    "Unknown",
    "Usable",
    "Verdict",
    "as_document",
    "audit_cdi",
    "device_catalog",
    "generator_of",
    "in_order",
    "is_at_least",
    "leftover_files",
    "listed_devices",
]
