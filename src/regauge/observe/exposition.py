"""From samples to text, in OpenMetrics or in Prometheus' older format, by Prometheus' own library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from prometheus_client.exposition import generate_latest as old_text
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as _generate_openmetrics
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

from regauge.observe.families import MOST_SERIES, PREFIX, Buckets, Family, Series, Type
from regauge.observe.metric_moment import Moment

openmetrics_text = cast("Callable[[CollectorRegistry], bytes]", _generate_openmetrics)
OPENMETRICS: str = CONTENT_TYPE_LATEST
OLD = "text/plain; version=0.0.4; charset=utf-8"
_END = b"# EOF\n"


@dataclass(frozen=True, slots=True)
class Filled:
    """A family with its series, and how many were left out."""

    family: Family
    series: tuple[Series, ...]
    dropped: int = 0


def fill(families: Iterable[Family], moment: Moment, most_series: int = MOST_SERIES) -> tuple[Filled, ...]:
    """The families with their series at a moment, at most `most_series` of each."""
    return tuple(_filled(family, moment, most_series) for family in families)


def _filled(family: Family, moment: Moment, most_series: int) -> Filled:
    series = iter(family.samples(moment))
    shown = tuple(islice(series, most_series))
    return Filled(family, shown, sum(1 for _ in series))


class Exposition:
    """Families as text. A family whose series are those of the last time is not put into words again."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[tuple[Series, ...], bytes]] = {}

    def text(self, filled: Sequence[Filled], content_type: str = OPENMETRICS) -> bytes:
        """The whole answer in one of the two formats."""
        end = _END if content_type == OPENMETRICS else b""
        return b"".join([self._family(one, content_type) for one in filled]) + end

    def _family(self, one: Filled, content_type: str) -> bytes:
        key = (content_type, one.family.name)
        known = self._texts.get(key)
        if known is None or known[0] != one.series:
            known = self._texts[key] = (one.series, _text(one, content_type))
        return known[1]


def _text(one: Filled, content_type: str) -> bytes:
    if not one.series:
        return b""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_One(_metric(one)))
    if content_type == OPENMETRICS:
        return openmetrics_text(registry).removesuffix(_END)
    return old_text(registry)


class _One(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _metric(one: Filled) -> Metric:
    family = one.family
    kind = Type.GAUGE if family.type is Type.INFO else family.type
    metric = Metric(f"{PREFIX}{family.name}", family.text, kind.value, family.unit)
    for values, value in one.series:
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(value, Buckets):
            metric.samples += _histogram(metric.name, labels, value)
        else:
            metric.samples.append(Sample(family.full_name, labels, value))
    return metric


def _histogram(name: str, labels: dict[str, str], value: Buckets) -> Iterator[Sample]:
    for bound, count in value.counts:
        yield Sample(f"{name}_bucket", {**labels, "le": "+Inf" if math.isinf(bound) else repr(float(bound))}, count)
    yield Sample(f"{name}_count", labels, value.counts[-1][1])
    yield Sample(f"{name}_sum", labels, value.total)
