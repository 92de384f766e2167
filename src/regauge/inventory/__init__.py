"""Every device of the estate by physical identity: who advertises it, who holds it, what is unknown. Pure."""

from regauge.inventory.counts import (
    CountedResource,
    container_ask,
    counted_resources,
    is_extended_resource,
    pod_ask,
    whole,
)
from regauge.inventory.devices import (
    Advertisement,
    EstateDevice,
    Inventory,
    Stack,
    identity_of,
    newest_slices,
    take_inventory,
)
from regauge.inventory.holding import DeviceKey, claim_names, claimed_devices
from regauge.inventory.node_pools import pool_of, pools_of
from regauge.inventory.taints import taint_rule_selects, taint_text, tainted_slice

__all__ = [
    "Advertisement",
    "CountedResource",
    "DeviceKey",
    "EstateDevice",
    "Inventory",
    "Stack",
    "claim_names",
    "claimed_devices",
    "container_ask",
    "counted_resources",
    "identity_of",
    "is_extended_resource",
    "newest_slices",
    "pod_ask",
    "pool_of",
    "pools_of",
    "taint_rule_selects",
    "taint_text",
    "tainted_slice",
    "take_inventory",
    "whole",
]
