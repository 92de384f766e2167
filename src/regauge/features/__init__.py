"""Features, gates and API versions by Kubernetes minor, from packaged data with its sources. Pure."""

from regauge.features.extensions import FeatureRow, Stage, feature_rows
from regauge.features.gates import gates_from_prometheus, minor_of, parse_feature_gates
from regauge.features.ruling import DEFAULT_MINOR, KNOWN_MINORS, rules
from regauge.features.tables import Quirk, quirk_table

__all__ = [
    "DEFAULT_MINOR",
    "KNOWN_MINORS",
    "FeatureRow",
    "Quirk",
    "Stage",
    "feature_rows",
    "gates_from_prometheus",
    "minor_of",
    "parse_feature_gates",
    "quirk_table",
    "rules",
]
