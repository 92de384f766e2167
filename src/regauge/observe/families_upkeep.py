"""Metrics of the exporter itself: what it may not read, what it left out, how old its answer is."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit import Layer
from regauge.observe.families import Family, Series, Type
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


FAMILIES = (
    Family("export_info", Type.INFO, "The exporter, and the Kubernetes minor whose rules it goes by.",
           ("version", "kubernetes_minor"), Layer.INSTALLATION, info),
    Family("export_timestamp_seconds", Type.GAUGE, "The moment that all of this is of, in seconds since 1970.", (),
           Layer.INSTALLATION, looked, "seconds"),
    Family("export_refresh_seconds", Type.GAUGE, "How long it took to work out the answer before this one.", (),
           Layer.INSTALLATION, refresh, "seconds"),
    Family(
        "export_resource_read", Type.GAUGE,
        "1 for a resource of the API that is read; 0 for one that may not be read, is not served, or whose watch is"
        " interrupted.",
        ("resource",), Layer.INSTALLATION, unread,
    ),
    Family("export_unreadable_objects", Type.GAUGE, "Objects that are not what their kind says; nothing is told of them.",
           (), Layer.INSTALLATION, unreadable),
    Family("export_held_bytes", Type.GAUGE, "Size of the objects that the exporter keeps.", (), Layer.INSTALLATION,
           held_bytes, "bytes"),
    Family(
        "export_dropped_series", Type.GAUGE,
        "Series of a family that were left out of the answer before this one because they were too many.",
        ("family",), Layer.INSTALLATION, dropped,
    ),
)  # fmt: skip
