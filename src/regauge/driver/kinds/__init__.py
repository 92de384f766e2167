"""Kinds of devices, one file each."""

from collections.abc import Callable, Mapping

from regauge.driver.kinds.interface import ClaimUse, Condition, DeviceKind, Surroundings
from regauge.driver.kinds.static import StaticKind

KINDS: Mapping[str, Callable[[Surroundings], DeviceKind]] = {
    "static": StaticKind,
}

__all__ = ["KINDS", "ClaimUse", "Condition", "DeviceKind", "StaticKind", "Surroundings"]
