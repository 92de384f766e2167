"""The move: who asks for accelerators, what each would need to move, and one workload between limits and claim. Pure."""

from regauge.migrate.assess import Assessment, AssessRow, ServingPool, assess
from regauge.migrate.matching import device_matcher
from regauge.migrate.move import CLAIM_ENTRY, Moved, to_claim, to_limits
from regauge.migrate.pools import pool_of, pools_of
from regauge.migrate.serving import DeviceMatcher, Published, Serving, VendorDriver, find_serving, vendor_drivers
from regauge.migrate.workloads import Ask, AskStack, Workload, find_workloads, template_of

__all__ = [
    "CLAIM_ENTRY",
    "Ask",
    "AskStack",
    "AssessRow",
    "Assessment",
    "DeviceMatcher",
    "Moved",
    "Published",
    "Serving",
    "ServingPool",
    "VendorDriver",
    "Workload",
    "assess",
    "device_matcher",
    "find_serving",
    "find_workloads",
    "pool_of",
    "pools_of",
    "template_of",
    "to_claim",
    "to_limits",
    "vendor_drivers",
]
