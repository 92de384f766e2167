"""The move: who asks for accelerators, what each would need to move, manifests between limits and claims, the plan. Pure.

What acts on a cluster is `regauge.migrate.rollout`, imported by name.
"""

from regauge.inventory import pool_of, pools_of
from regauge.migrate.assessment import Assessment, AssessRow, ServingPool, assess
from regauge.migrate.assessment_report import Told, assessment_blocks, needs_of
from regauge.migrate.conversion import Conversion, Converted, ConvertOptions, Fate
from regauge.migrate.converting import convert
from regauge.migrate.dependents import Dependent, find_dependents
from regauge.migrate.flavor_drift import Drift, find_drift
from regauge.migrate.flavor_render import Rendered, render
from regauge.migrate.flavors import Flavor, is_flavor, read_flavors
from regauge.migrate.ground import Ground, ground_of
from regauge.migrate.growth import Growth
from regauge.migrate.matching import device_matcher
from regauge.migrate.mixed import MixedLabel, find_mixed
from regauge.migrate.move import CLAIM_ENTRY, Moved, to_claim, to_limits
from regauge.migrate.patches import patch_files
from regauge.migrate.plan_devices import expected_devices
from regauge.migrate.plan_gates import Sight, devices_of, find_workload, plan_differences, ready_pods
from regauge.migrate.plan_ground import PlanOptions, Served, served_resources
from regauge.migrate.plan_report import gate_text, plan_blocks
from regauge.migrate.plan_sources import Source, driver_source, plugin_source
from regauge.migrate.planning import plan
from regauge.migrate.plans import (
    STACK_LABEL,
    Approve,
    Move,
    OnFailure,
    Phase,
    Plan,
    PlanStep,
    Reference,
    ServedCount,
    Switch,
    cleaned,
    digest_of,
    read_plan,
    reference_of,
    write_plan,
)
from regauge.migrate.serving import DeviceMatcher, Published, Serving, VendorDriver, find_serving, vendor_drivers
from regauge.migrate.sharing import Sharing, find_sharing
from regauge.migrate.sites import TemplatePath, parse_path
from regauge.migrate.stakes import Effort, kind_risk
from regauge.migrate.support import DriverSupport, Support, Supported, driver_support
from regauge.migrate.text import Replacement, Rewritten, dump, join, rewrite
from regauge.migrate.triggers import NEEDS, Trigger
from regauge.migrate.verdict import Judgement, Verdict, decide, trigger_rules, verdict_rules
from regauge.migrate.workloads import Ask, AskStack, Workload, find_workloads, template_of

__all__ = [
    "CLAIM_ENTRY",
    "NEEDS",
    "STACK_LABEL",
    "Approve",
    "Ask",
    "AskStack",
    "AssessRow",
    "Assessment",
    "Conversion",
    "ConvertOptions",
    "Converted",
    "Dependent",
    "DeviceMatcher",
    "Drift",
    "DriverSupport",
    "Effort",
    "Fate",
    "Flavor",
    "Ground",
    "Growth",
    "Judgement",
    "MixedLabel",
    "Move",
    "Moved",
    "OnFailure",
    "Phase",
    "Plan",
    "PlanOptions",
    "PlanStep",
    "Published",
    "Reference",
    "Rendered",
    "Replacement",
    "Rewritten",
    "Served",
    "ServedCount",
    "Serving",
    "ServingPool",
    "Sharing",
    "Sight",
    "Source",
    "Support",
    "Supported",
    "Switch",
    "TemplatePath",
    "Told",
    "Trigger",
    "VendorDriver",
    "Verdict",
    "Workload",
    "assess",
    "assessment_blocks",
    "cleaned",
    "convert",
    "decide",
    "device_matcher",
    "devices_of",
    "digest_of",
    "driver_source",
    "driver_support",
    "dump",
    "expected_devices",
    "find_dependents",
    "find_drift",
    "find_mixed",
    "find_serving",
    "find_sharing",
    "find_workload",
    "find_workloads",
    "gate_text",
    "ground_of",
    "is_flavor",
    "join",
    "kind_risk",
    "needs_of",
    "parse_path",
    "patch_files",
    "plan",
    "plan_blocks",
    "plan_differences",
    "plugin_source",
    "pool_of",
    "pools_of",
    "read_flavors",
    "read_plan",
    "ready_pods",
    "reference_of",
    "render",
    "rewrite",
    "served_resources",
    "template_of",
    "to_claim",
    "to_limits",
    "trigger_rules",
    "vendor_drivers",
    "verdict_rules",
    "write_plan",
]
