"""Metrics of what drivers publish: slices, pools, their age and completeness."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from regauge.audit import Layer
from regauge.model import Document
from regauge.model.kinds import RESOURCE_SLICE
from regauge.model.resource import ResourceSlice
from regauge.observe.correlation import seconds
from regauge.observe.families import Family, Series, Type
from regauge.observe.metric_moment import Moment

_POOL = ("driver", "pool", "node")
Place = tuple[str, str, str]


def _place(one: ResourceSlice) -> Place:
    """Driver, pool and node; the node is "" where devices of a pool are not of one node."""
    return one.spec.driver, one.spec.pool.name, one.spec.node_name or ""


def slices(moment: Moment) -> Iterator[Series]:
    yield from sorted(Counter(_place(one) for one in moment.ground.newest).items())


def devices(moment: Moment) -> Iterator[Series]:
    found: Counter[Place] = Counter()
    for one in moment.ground.newest:
        found[_place(one)] += len(one.spec.devices)
    yield from sorted(found.items())


def outdated(moment: Moment) -> Iterator[Series]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    newest = {id(one) for one in moment.ground.newest}
    for _, one in moment.ground.slices:
        found[one.spec.driver, one.spec.pool.name] += id(one) not in newest
    yield from sorted(found.items())


def complete(moment: Moment) -> Iterator[Series]:
    """As the scheduler has it: as many slices of the newest generation as the first of them says."""
    seen: Counter[tuple[str, str]] = Counter()
    said: dict[tuple[str, str], int] = {}
    for one in moment.ground.newest:
        pool = (one.spec.driver, one.spec.pool.name)
        seen[pool] += 1
        said.setdefault(pool, one.spec.pool.resource_slice_count)
    yield from ((pool, float(seen[pool] == said[pool])) for pool in sorted(seen))


def generation(moment: Moment) -> Iterator[Series]:
    found = {(one.spec.driver, one.spec.pool.name): one.spec.pool.generation for one in moment.ground.newest}
    yield from sorted(found.items())


def updated(moment: Moment) -> Iterator[Series]:
    yield from sorted(_updated(moment).items())


def age(moment: Moment) -> Iterator[Series]:
    for place, when_s in sorted(_updated(moment).items()):
        yield place, max(0.0, moment.now_s - when_s)


def _updated(moment: Moment) -> dict[Place, float]:
    """When the newest slice of each pool and node was written last."""
    found: dict[Place, float] = {}
    newest = {id(one) for one in moment.ground.newest}
    for document, one in moment.ground.pairs(RESOURCE_SLICE, ResourceSlice):
        when_s = written_s(document)
        if when_s is not None and id(one) in newest:
            place = _place(one)
            found[place] = max(found.get(place, 0.0), when_s)
    return found


def written_s(document: Document) -> float | None:
    """The latest moment that the object's metadata tells of. Its managed fields say when each writer wrote last."""
    metadata = document.metadata
    managed = metadata.get("managedFields")
    stamps = [entry.get("time") for entry in managed if isinstance(entry, dict)] if isinstance(managed, list) else []
    known = (seconds(stamp) for stamp in (metadata.get("creationTimestamp"), *stamps) if isinstance(stamp, str))
    return max((one for one in known if one is not None), default=None)


FAMILIES = (
    Family("resourceslices", Type.GAUGE, "ResourceSlices of the newest generation of each pool.", _POOL, Layer.DISCOVERY,
           slices),
    Family(
        "resourceslice_devices", Type.GAUGE, "Devices in these ResourceSlices.", _POOL, Layer.DISCOVERY, devices
    ),
    Family(
        "resourceslice_outdated", Type.GAUGE, "ResourceSlices of older generations that are still there.",
        ("driver", "pool"), Layer.DISCOVERY, outdated,
    ),
    Family(
        "resourceslice_pool_complete", Type.GAUGE,
        "1 when a pool has as many slices as they say it has; devices of an incomplete pool are not allocated.",
        ("driver", "pool"), Layer.DISCOVERY, complete,
    ),
    Family("resourceslice_pool_generation", Type.GAUGE, "Generation of each pool.", ("driver", "pool"), Layer.DISCOVERY,
           generation),
    Family(
        "resourceslice_updated_timestamp_seconds", Type.GAUGE,
        "When the ResourceSlices of a pool were last written, as far as their metadata tell, in seconds since 1970.",
        _POOL, Layer.DISCOVERY, updated, "seconds",
    ),
    Family(
        "resourceslice_age_seconds", Type.GAUGE, "Time since the ResourceSlices of a pool were last written.",
        _POOL, Layer.DISCOVERY, age, "seconds",
    ),
)  # fmt: skip
