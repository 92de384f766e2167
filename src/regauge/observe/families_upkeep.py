"""Metrics of the exporter itself: what it may not read, what it left out, how old its answer is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from regauge.audit import Layer
from regauge.observe.families import Family, Scope, Series, Type
from regauge.observe.metric_moment import Moment


def info(moment: Moment) -> Iterator[Series]:
    yield (moment.upkeep.version, moment.given.rules.minor), 1


def looked(moment: Moment) -> Iterator[Series]:
    yield (), moment.now_s


def refresh(moment: Moment) -> Iterator[Series]:
    if moment.upkeep.refresh_s is not None:
        yield (), moment.upkeep.refresh_s


def unread(moment: Moment) -> Iterator[Series]:
    """0 while its watch is interrupted and 0 when it may not be read: in both cases what is told of it is not the present."""
    away = {*moment.upkeep.unread, *moment.upkeep.lost}
    yield from (((resource,), float(resource not in away)) for resource in sorted({*moment.upkeep.read, *away}))


def unreadable(moment: Moment) -> Iterator[Series]:
    yield (), len(moment.ground.unreadable)


def held_bytes(moment: Moment) -> Iterator[Series]:
    if moment.upkeep.held_bytes:
        yield (), moment.upkeep.held_bytes


def dropped(moment: Moment) -> Iterator[Series]:
    yield from (((name,), count) for name, count in sorted((moment.upkeep.dropped or {}).items()))


def _own(name: str, text: str, samples: Callable[[Moment], Iterator[Series]], labels: tuple[str, ...] = (),
         unit: str = "", type_: Type = Type.GAUGE) -> Family:  # fmt: skip
    return Family(name, type_, text, labels, Layer.INSTALLATION, samples, unit, Scope.OWN)


FAMILIES = (
    _own("export_info", "The exporter, and the Kubernetes minor whose rules it goes by.", info,
         ("version", "kubernetes_minor"), type_=Type.INFO),
    _own("export_timestamp_seconds", "The moment that all of this is of, in seconds since 1970.", looked, unit="seconds"),
    _own("export_refresh_seconds", "How long it took to work out the answer before this one.", refresh, unit="seconds"),
    _own(
        "export_resource_read",
        "1 for a resource of the API that is read; 0 for one that may not be read, is not served, or whose watch is"
        " interrupted.",
        unread, ("resource",),
    ),
    _own("export_unreadable_objects", "Objects that are not what their kind says; nothing is told of them.", unreadable),
    _own("export_held_bytes", "Size of the objects that the exporter keeps.", held_bytes, unit="bytes"),
    _own(
        "export_dropped_series",
        "Series of a family that were left out of the answer before this one because they were too many.",
        dropped, ("family",),
    ),
)  # fmt: skip
