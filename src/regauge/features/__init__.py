"""Features, gates and API versions by Kubernetes minor, from packaged data with its sources. Pure."""

from regauge.features.comparison import Comparison, comparison_blocks, comparison_rows
from regauge.features.duties import NO_PART, DutyTable, duty_blocks, duty_table
from regauge.features.extensions import FeatureRow, Stage, feature_rows
from regauge.features.gates import gates_from_prometheus, minor_of, parse_feature_gates
from regauge.features.graduation import PILOTS, Policy, Watched, safe_minors, watch_list
from regauge.features.platforms import (
    Platform,
    check_settable,
    facts_for,
    fixed_gates,
    platform_named,
    platform_seen,
)
from regauge.features.ruling import DEFAULT_MINOR, KNOWN_MINORS, rules
from regauge.features.tables import Quirk, quirk_table

__all__ = [
    "DEFAULT_MINOR",
    "KNOWN_MINORS",
    "NO_PART",
    "PILOTS",
    "Comparison",
    "DutyTable",
    "FeatureRow",
    "Platform",
    "Policy",
    "Quirk",
    "Stage",
    "Watched",
    "check_settable",
    "comparison_blocks",
    "comparison_rows",
    "duty_blocks",
    "duty_table",
    "facts_for",
    "feature_rows",
    "fixed_gates",
    "gates_from_prometheus",
    "minor_of",
    "parse_feature_gates",
    "platform_named",
    "platform_seen",
    "quirk_table",
    "rules",
    "safe_minors",
    "watch_list",
]
