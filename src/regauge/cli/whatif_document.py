"""What `regauge whatif -o json` prints, and its form: the JSON Schema is made of these classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from regauge.cli.explain_schema import NotRead, Part

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.scheduler import Place, PodChange, Situation, WhatIf

SCHEMA = "regauge.whatif/v1"
_HOW = Meta(extra_json_schema={"enum": ["runs on", "goes to", "stuck", "not there"]})


class PlacePart(Part, frozen=True):
    """Where a pod is or would be."""

    how: Annotated[str, _HOW]
    node: Annotated[str, Meta(description="of a pod that is stuck: where others would be taken away for it, or empty")]
    why: Annotated[str, Meta(description="the scheduler's words")]
    evicts: Annotated[list[str], Meta(description="pods that would be taken away for one that is stuck")]


class PodPart(Part, frozen=True):
    """A pod for which it makes a difference, or that is stuck either way."""

    pod: str
    before: PlacePart
    after: PlacePart


class PoolPart(Part, frozen=True):
    """A device pool."""

    driver: str
    pool: str
    node: Annotated[str, Meta(description="empty for several")]
    devices: int
    used: Annotated[int, Meta(description="also in part")]
    free: int
    tainted: int


class CountedPart(Part, frozen=True):
    """What device plugins count."""

    resource: str
    nodes: Annotated[int, Meta(description="that offer it")]
    devices: int
    used: Annotated[int, Meta(description="by pods that are placed")]
    free: int


class FittingPart(Part, frozen=True):
    """How many more copies of a workload fit."""

    workload: str
    count: int
    more: Annotated[bool, Meta(description="counting was ended, more may fit")]
    nodes: Annotated[dict[str, int], Meta(description="copies by node")]
    why: Annotated[str, Meta(description="why not one more")]


class SituationPart(Part, frozen=True):
    """The cluster once its waiting pods were tried."""

    pools: list[PoolPart]
    counted: list[CountedPart]
    fitting: list[FittingPart]


class Versions(Part, frozen=True):
    """The minors gone by."""

    before: str
    after: str


class WhatIfDocument(Part, frozen=True):
    """A forecast."""

    schema: Annotated[str, Meta(extra_json_schema={"enum": [SCHEMA]})]
    source: str
    kube_version: Versions
    pods: list[PodPart]
    schedulable: Annotated[list[str], Meta(description="pods that find a place")]
    stuck: Annotated[list[str], Meta(description="pods that had one, or are new, and find none")]
    unchanged: Annotated[int, Meta(description="all others that have one")]
    before: SituationPart
    after: SituationPart
    notes: list[str]
    not_read: list[NotRead]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `regauge whatif` prints."""
    found = msgspec.json.schema(WhatIfDocument)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA, **found}


def whatif_document(found: WhatIf, estate: Estate, before: str, after: str) -> Any:
    """The forecast as JSON."""
    document = WhatIfDocument(
        schema=SCHEMA,
        source=estate.source,
        kube_version=Versions(before, after),
        pods=[_pod(one) for one in found.pods],
        schedulable=[one.pod for one in found.schedulable],
        stuck=[one.pod for one in found.stuck],
        unchanged=found.unchanged,
        before=_situation(found.before),
        after=_situation(found.after),
        notes=list(found.notes),
        not_read=[NotRead(item.what, item.why) for item in estate.skipped],
    )
    return msgspec.to_builtins(document)


def _pod(one: PodChange) -> PodPart:
    return PodPart(one.pod, _place(one.before), _place(one.after))


def _place(one: Place) -> PlacePart:
    return PlacePart(one.how, one.node, one.why, list(one.evicts))


def _situation(one: Situation) -> SituationPart:
    return SituationPart(
        pools=[
            PoolPart(pool.driver, pool.pool, pool.node, pool.devices, pool.used, pool.free, pool.tainted)
            for pool in one.pools
        ],
        counted=[CountedPart(item.resource, item.nodes, item.devices, item.used, item.free) for item in one.counted],
        fitting=[FittingPart(item.workload, item.count, item.more, dict(item.nodes), item.why) for item in one.fitting],
    )
