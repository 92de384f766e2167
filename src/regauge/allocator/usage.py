"""What allocated claims hold, by device pool. Persistent: adding or removing a claim makes a new value that shares
all untouched pools with the old one, so that many futures can be tried from one present.

Source: pkg/scheduler/framework/plugins/dynamicresources allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from regauge.allocator.amounts import nano, read_quantity
from regauge.model.resource import AllocationResult, DeviceRequestAllocationResult, ResourceClaim


class PoolId(NamedTuple):
    """A device pool: names are unique within a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device: names are unique within a pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Holder(NamedTuple):
    """Who holds a device: a claim by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Share(NamedTuple):
    """One share of a device that several claims may use, with what it consumes in billionths of each capacity."""

    id: str
    holder: Holder
    consumed: tuple[tuple[str, int], ...] = ()
    counted: bool = True


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """What is held of one pool: whole devices, and shares of devices."""

    whole: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    shares: Mapping[str, tuple[Share, ...]] = field(default_factory=dict)

    def consumed(self, device: str) -> dict[str, int] | None:
        """What all shares of a device consume, in billionths. None: no share has recorded any consumption."""
        found: dict[str, int] | None = None
        for share in self.shares.get(device, ()):
            if not share.counted:
                continue
            found = {} if found is None else found
            for name, amount in share.consumed:
                found[name] = found.get(name, 0) + amount
        return found

    def shared(self, device: str) -> bool:
        """Whether a share is known by its ID."""
        return any(share.id for share in self.shares.get(device, ()))


UNUSED = PoolUsage()

_Change = Callable[[PoolUsage, str, Holder, Share | None], PoolUsage]


@dataclass(frozen=True, slots=True)
class Usage:
    """Everything that is held, by pool. Make it with `Usage.of`, go on with `add` and `remove`."""

    pools: Mapping[PoolId, PoolUsage] = field(default_factory=dict)
    shared_devices: bool = True

    @staticmethod
    def of(claims: Iterable[ResourceClaim], *, shared_devices: bool = True) -> Usage:
        """What the allocations in the status of `claims` hold. Admin access holds nothing.

        `shared_devices`: whether shares are told from whole devices (consumable capacity is on); if not, a share
        holds its whole device, as in upstream.
        """
        usage: dict[PoolId, PoolUsage] = {}
        for claim in claims:
            if claim.status.allocation is not None:
                _change(usage, claim, claim.status.allocation, _added, shared_devices)
        return Usage(usage, shared_devices)

    def of_pool(self, pool: PoolId) -> PoolUsage:
        """What is held of one pool."""
        return self.pools.get(pool, UNUSED)

    def add(self, claim: ResourceClaim, allocation: AllocationResult | None = None) -> Usage:
        """With what `allocation` (or else the claim's status) holds on top."""
        return self._changed(claim, allocation, _added)

    def remove(self, claim: ResourceClaim, allocation: AllocationResult | None = None) -> Usage:
        """Without what the claim holds by `allocation` (or else its status)."""
        return self._changed(claim, allocation, _removed)

    def _changed(self, claim: ResourceClaim, allocation: AllocationResult | None, how: _Change) -> Usage:
        allocation = allocation or claim.status.allocation
        if allocation is None:
            return self
        pools = dict(self.pools)
        _change(pools, claim, allocation, how, self.shared_devices)
        return Usage(pools, self.shared_devices)


def _change(
    pools: dict[PoolId, PoolUsage],
    claim: ResourceClaim,
    allocation: AllocationResult,
    how: _Change,
    shared_devices: bool,
) -> None:
    holder = Holder(claim.metadata.namespace, claim.metadata.name)
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        pool = PoolId(result.driver, result.pool)
        share = _share(result, holder) if shared_devices and result.share_id is not None else None
        pools[pool] = how(pools.get(pool, UNUSED), result.device, holder, share)


def _share(result: DeviceRequestAllocationResult, holder: Holder) -> Share:
    consumed = tuple(
        (name, nano(read_quantity(value, object=f"ResourceClaim {holder}", field="status.allocation.devices.results")))
        for name, value in result.consumed_capacity.items()
    )
    return Share(result.share_id or "", holder, consumed, bool(result.consumed_capacity))


def _added(usage: PoolUsage, device: str, holder: Holder, share: Share | None) -> PoolUsage:
    if share is not None:
        return PoolUsage(usage.whole, {**usage.shares, device: (*usage.shares.get(device, ()), share)})
    return PoolUsage({**usage.whole, device: (*usage.whole.get(device, ()), holder)}, usage.shares)


def _removed(usage: PoolUsage, device: str, holder: Holder, share: Share | None) -> PoolUsage:
    if share is not None:
        left = tuple(one for one in usage.shares.get(device, ()) if one.id != share.id)
        return PoolUsage(usage.whole, _with(usage.shares, device, left))
    holders = list(usage.whole.get(device, ()))
    if holder in holders:
        holders.remove(holder)
    return PoolUsage(_with(usage.whole, device, tuple(holders)), usage.shares)


T = TypeVar("T")


def _with(held: Mapping[str, tuple[T, ...]], device: str, left: tuple[T, ...]) -> dict[str, tuple[T, ...]]:
    changed = {name: value for name, value in held.items() if name != device}
    if left:
        changed[device] = left
    return changed
