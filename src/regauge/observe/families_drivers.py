"""Metrics of drivers: their errors and latencies, as sources read them from the drivers themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from regauge.audit import Layer
from regauge.observe.families import Buckets, Family, Scope, Series, Type
from regauge.observe.metric_moment import Moment
from regauge.observe.ports import LatencyReading, Part

_CALL = ("driver", "node", "call")


def errors_of(part: Part) -> Callable[[Moment], Iterator[Series]]:
    """The errors of one part of the drivers."""

    def samples(moment: Moment) -> Iterator[Series]:
        found: dict[tuple[str, ...], float] = defaultdict(float)
        for source in moment.readings:
            for one in source.errors:
                if one.part is part:
                    found[one.driver, one.node, one.call, one.code] += one.count
        yield from sorted(found.items())

    return samples


def latencies_of(part: Part) -> Callable[[Moment], Iterator[Series]]:
    """The durations of one part of the drivers."""

    def samples(moment: Moment) -> Iterator[Series]:
        found: dict[tuple[str, ...], list[LatencyReading]] = defaultdict(list)
        for source in moment.readings:
            for one in source.latencies:
                if one.part is part:
                    found[one.driver, one.node, one.call].append(one)
        yield from ((labels, _together(readings)) for labels, readings in sorted(found.items()))

    return samples


def _together(readings: Iterable[LatencyReading]) -> Buckets:
    """Readings of one call with the same bounds, added up; with other bounds than the first they cannot be."""
    first, *others = readings
    same = [first, *(one for one in others if _bounds(one) == _bounds(first))]
    counts = tuple(sum(one.buckets[place][1] for one in same) for place in range(len(first.buckets)))
    return Buckets(tuple(zip(_bounds(first), counts, strict=True)), sum(one.sum_s for one in same))


def _bounds(one: LatencyReading) -> tuple[float, ...]:
    return tuple(bound for bound, _ in one.buckets)


_WORDS = {
    Part.CONTROLLER: ("controller", "the part of a driver that keeps its slices"),
    Part.NODE_PLUGIN: ("node_plugin", "the part of a driver that answers the kubelet"),
    Part.API: ("api", "requests of a driver to the API server"),
    Part.KUBELET: ("kubelet", "the kubelet's calls of a driver, as the kubelet counts them"),
}
_LATENCIES = {
    Part.CONTROLLER: ("driver_reconcile_duration_seconds", "How long a driver takes to reconcile its slices."),
    Part.NODE_PLUGIN: (
        "driver_kubelet_call_duration_seconds",
        "How long a driver takes to answer the kubelet's calls.",
    ),
    Part.API: ("driver_api_request_duration_seconds", "How long a driver's requests to the API server take."),
    Part.KUBELET: ("kubelet_driver_call_duration_seconds", "How long the kubelet waits for a driver's answer."),
}

FAMILIES = (
    *(
        Family(
            f"driver_{_WORDS[part][0]}_errors",
            Type.COUNTER,
            f"Errors of {_WORDS[part][1]}, by call and code.",
            (*_CALL, "code"),
            Layer.INSTALLATION,
            errors_of(part),
            scope=Scope.NODE,
        )
        for part in Part
    ),
    *(
        Family(
            _LATENCIES[part][0],
            Type.HISTOGRAM,
            _LATENCIES[part][1],
            _CALL,
            Layer.INSTALLATION,
            latencies_of(part),
            "seconds",
            Scope.NODE,
        )
        for part in Part
    ),
)
