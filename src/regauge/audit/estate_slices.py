"""Rules about ResourceSlices: whether the pools that drivers publish are whole, and of nodes that are there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from regauge.audit.findings import Evidence
from regauge.audit.ground import Ground, Spot, seen, some
from regauge.model import Document
from regauge.model.resource import (
    MAX_DEVICES_PER_SLICE,
    MAX_DEVICES_PER_SLICE_ADVANCED,
    ResourceSlice,
    ResourceSliceSpec,
)

Pool = list[tuple[Document, ResourceSlice]]


def incomplete(ground: Ground) -> Iterator[Spot]:
    """SLICE-INCOMPLETE: the newest generation of a pool lacks slices; nothing of the pool is allocated then."""
    for title, pool in _newest(ground):
        wanted = {one.spec.pool.resource_slice_count for _, one in pool}
        if len(wanted) == 1 and len(pool) < max(wanted) and _settled(ground, pool):
            what = (
                f"pool {title} has {len(pool)} of {max(wanted)} slices in generation {pool[0][1].spec.pool.generation}"
            )
            yield Spot(f"pool {title}", what, _evidence(pool))


def counts_disagree(ground: Ground) -> Iterator[Spot]:
    """SLICE-COUNTS: slices of one generation tell different numbers of slices, or fewer than there are."""
    for title, pool in _newest(ground):
        counts = sorted({one.spec.pool.resource_slice_count for _, one in pool})
        if len(counts) > 1:
            what = f"slices of pool {title} say that it has {' and '.join(map(str, counts))} slices, in one generation"
            yield Spot(f"pool {title}", what, _evidence(pool))
        elif counts[0] < len(pool):
            what = f"slices of pool {title} say that it has {counts[0]} slices, and there are {len(pool)} of its generation"
            yield Spot(f"pool {title}", what, _evidence(pool))


def mixed_generations(ground: Ground) -> Iterator[Spot]:
    """SLICE-OLD-GENERATION: slices of an older generation are still there."""
    for title, pool in _pools(ground):
        newest = max(one.spec.pool.generation for _, one in pool)
        old = [entry for entry in pool if entry[1].spec.pool.generation < newest]
        latest = [entry for entry in pool if entry[1].spec.pool.generation == newest]
        if old and _settled(ground, latest):
            what = f"pool {title} is at generation {newest}, and {len(old)} slices of older ones are still there"
            yield Spot(f"pool {title}", what, _evidence(old))


def orphaned(ground: Ground) -> Iterator[Spot]:
    """SLICE-ORPHANED: a slice belongs to a node that is not there."""
    if not ground.node_names:
        return
    for document, one in ground.slices:
        node = one.spec.node_name
        if node and node not in ground.node_names and ground.settled(one.metadata.creation_timestamp):
            what = f"{len(one.spec.devices)} devices of {one.spec.driver} are published for node {node}, which is not there"
            yield Spot(document.title, what, (seen(document, f"nodeName {node}", "spec.nodeName"),))


def empty(ground: Ground) -> Iterator[Spot]:
    """SLICE-EMPTY: a pool holds no device."""
    for title, pool in _newest(ground):
        if not any(one.spec.devices for _, one in pool) and _settled(ground, pool):
            yield Spot(f"pool {title}", f"pool {title} holds no device", _evidence(pool))


def over_limits(ground: Ground) -> Iterator[Spot]:
    """SLICE-OVER-LIMITS: more devices than a slice may hold; the API server refuses it."""
    for document, one in ground.slices:
        limit = MAX_DEVICES_PER_SLICE_ADVANCED if _advanced(one.spec) else MAX_DEVICES_PER_SLICE
        if len(one.spec.devices) > limit:
            what = f"{document.title} holds {len(one.spec.devices)} devices; such a slice may hold {limit}"
            yield Spot(document.title, what, (seen(document, f"{len(one.spec.devices)} devices", "spec.devices"),))


def twice_in_pool(ground: Ground) -> Iterator[Spot]:
    """SLICE-DUPLICATE: a device name stands twice in a pool; the scheduler then takes the pool for invalid."""
    for title, pool in _newest(ground):
        names = Counter(device.name for _, one in pool for device in one.spec.devices)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            what = f"pool {title} names {len(twice)} devices more than once: {some(twice)}"
            yield Spot(f"pool {title}", what, _evidence(pool), tuple(f"{title}/{name}" for name in twice))


def _pools(ground: Ground) -> list[tuple[str, Pool]]:
    found: dict[tuple[str, str], Pool] = defaultdict(list)
    for document, one in ground.slices:
        found[one.spec.driver, one.spec.pool.name].append((document, one))
    return [("/".join(key), pool) for key, pool in sorted(found.items())]


def _newest(ground: Ground) -> Iterator[tuple[str, Pool]]:
    for title, pool in _pools(ground):
        newest = max(one.spec.pool.generation for _, one in pool)
        yield title, [entry for entry in pool if entry[1].spec.pool.generation == newest]


def _settled(ground: Ground, pool: Pool) -> bool:
    """Whether the youngest slice is old enough: a driver publishes a pool slice by slice."""
    return all(ground.settled(one.metadata.creation_timestamp) for _, one in pool)


def _advanced(spec: ResourceSliceSpec) -> bool:
    return any(device.taints or device.consumes_counters for device in spec.devices)


def _evidence(pool: Pool) -> tuple[Evidence, ...]:
    return tuple(
        seen(
            document,
            f"generation {one.spec.pool.generation}, resourceSliceCount {one.spec.pool.resource_slice_count},"
            f" {len(one.spec.devices)} devices",
            "spec.pool",
        )
        for document, one in pool[:10]
    )
