"""Kinds of devices, one file each, and what is needed to write one."""

from collections.abc import Mapping

from regauge.driver.description import Description, Device, Identity
from regauge.driver.fields import Fields
from regauge.driver.kinds.adopt import AdoptKind
from regauge.driver.kinds.found import FoundKind
from regauge.driver.kinds.interface import (
    Binds,
    Bound,
    ClaimUse,
    Condition,
    Configs,
    DeviceKind,
    Fact,
    Reports,
    Surroundings,
)
from regauge.driver.kinds.mock import MockKind
from regauge.driver.kinds.net import NetKind
from regauge.driver.kinds.nvidia import NvidiaKind
from regauge.driver.kinds.partition import PartitionKind
from regauge.driver.kinds.pci import PciKind
from regauge.driver.kinds.shared import SharedKind
from regauge.driver.kinds.static import StaticKind
from regauge.driver.reports import Network, Report
from regauge.driver.rules import Found, label

KINDS: Mapping[str, type[DeviceKind]] = {
    "adopt": AdoptKind,
    "mock": MockKind,
    "net": NetKind,
    "nvidia": NvidiaKind,
    "partition": PartitionKind,
    "pci": PciKind,
    "shared": SharedKind,
    "static": StaticKind,
}

__all__ = [
    "KINDS",
    "Binds",
    "Bound",
    "ClaimUse",
    "Condition",
    "Configs",
    "Description",
    "Device",
    "DeviceKind",
    "Fact",
    "Fields",
    "Found",
    "FoundKind",
    "Identity",
    "Network",
    "Report",
    "Reports",
    "StaticKind",
    "Surroundings",
    "label",
]
