"""The move: who asks for accelerators, what each would need to move, and one workload between limits and claim. Pure."""

from regauge.migrate.assess import Assessment, AssessRow, ServingPool, assess
from regauge.migrate.convert import Conversion, Converted, ConvertOptions, Fate
from regauge.migrate.converting import convert
from regauge.migrate.ground import Ground, ground_of
from regauge.migrate.matching import device_matcher
from regauge.migrate.move import CLAIM_ENTRY, Moved, to_claim, to_limits
from regauge.migrate.pools import pool_of, pools_of
from regauge.migrate.serving import DeviceMatcher, Published, Serving, VendorDriver, find_serving, vendor_drivers
from regauge.migrate.sites import TemplatePath, parse_path
from regauge.migrate.text import Replacement, Rewritten, dump, join, rewrite
from regauge.migrate.workloads import TEMPLATE_PATHS, Ask, AskStack, Workload, find_workloads, template_of

__all__ = [
    "CLAIM_ENTRY",
    "TEMPLATE_PATHS",
    "Ask",
    "AskStack",
    "AssessRow",
    "Assessment",
    "Conversion",
    "ConvertOptions",
    "Converted",
    "DeviceMatcher",
    "Fate",
    "Ground",
    "Moved",
    "Published",
    "Replacement",
    "Rewritten",
    "Serving",
    "ServingPool",
    "TemplatePath",
    "VendorDriver",
    "Workload",
    "assess",
    "convert",
    "device_matcher",
    "dump",
    "find_serving",
    "find_workloads",
    "ground_of",
    "join",
    "parse_path",
    "pool_of",
    "pools_of",
    "rewrite",
    "template_of",
    "to_claim",
    "to_limits",
    "vendor_drivers",
]
