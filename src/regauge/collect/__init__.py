"""Estates from files, bundles and live clusters, and the files of a node. Reads only; nothing that is read is executed."""

from regauge.collect.bundle import bundle_bytes, read_bundle, read_node_record
from regauge.collect.diagnosing import Ailment, Diagnosed, Diagnosis, ailments
from regauge.collect.estate import Estate, Skipped
from regauge.collect.files import load_estate, sample_estate
from regauge.collect.live import AUDIT_KINDS, LIVE_KINDS, collect_live, list_newest, operator_kinds
from regauge.collect.node import read_node
from regauge.collect.node_tree import NodeTree
from regauge.collect.privacy import anonymised, without_secrets
from regauge.collect.reports import checkpoint_report, reports_of

__all__ = [
    "AUDIT_KINDS",
    "LIVE_KINDS",
    "Ailment",
    "Diagnosed",
    "Diagnosis",
    "Estate",
    "NodeTree",
    "Skipped",
    "ailments",
    "anonymised",
    "bundle_bytes",
    "checkpoint_report",
    "collect_live",
    "list_newest",
    "load_estate",
    "operator_kinds",
    "read_bundle",
    "read_node",
    "read_node_record",
    "reports_of",
    "sample_estate",
    "without_secrets",
]
