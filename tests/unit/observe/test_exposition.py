"""The metrics as text: read back by Prometheus' own parsers, cut where they are too many, named as the field names things."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import cast

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as _parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_old
from tests.unit.observe.test_families import NOW_S, made, slice_

from regauge.audit import AuditInput
from regauge.collect import load_estate, reports_of
from regauge.features import rules
from regauge.observe import DeviceReading, ErrorReading, LatencyReading, Measure, Part, Readings
from regauge.observe.advancing import advance
from regauge.observe.exposition import OLD, OPENMETRICS, Exposition, fill
from regauge.observe.families import MOST_SERIES, Scope, Type
from regauge.observe.history import History
from regauge.observe.metric_moment import Moment, Upkeep
from regauge.observe.registry import FAMILIES

parse_openmetrics = cast("Callable[[str], Iterable[Metric]]", _parse_openmetrics)


def everything() -> Moment:
    """The sample, with something of each family that it does not have."""
    estate = load_estate("sample")
    readings = Readings(
        'so"urce\\',
        devices=tuple(DeviceReading("n", measure, 0.5, 'so"urce\\', uuid="GPU\n1") for measure in Measure),
        errors=tuple(ErrorReading("d", "n", part, "call", "code", 1) for part in Part),
        latencies=tuple(LatencyReading("d", "n", part, "call", ((1.0, 1), (float("inf"), 2)), 3.0) for part in Part),
    )
    given = AuditInput(estate.snapshot, rules("1.36", {}), "sample", NOW_S, reports=reports_of(estate))
    found = Moment(given, [readings], upkeep=Upkeep("1", ("pods",), refresh_s=0.5, held_bytes=3, dropped={"x": 1}))
    found.history = advance(History(), found, whole=True)
    return found


def test_the_text_is_read_by_prometheus_own_parser_and_says_the_same() -> None:
    filled = fill(FAMILIES, everything())
    text = Exposition().text(filled, OPENMETRICS).decode()
    read = {one.name: one for one in parse_openmetrics(text)}
    for one in filled:
        if not one.series:
            continue
        back = read[f"regauge_{one.family.name}"]
        expected = "gauge" if one.family.type is Type.INFO else one.family.type.value
        assert (back.type, back.unit, back.documentation) == (expected, one.family.unit, one.family.text)
        if one.family.type is not Type.HISTOGRAM:
            told = {tuple(sample.labels[name] for name in one.family.labels): sample.value for sample in back.samples}
            assert told == dict(one.series)
            assert {sample.name for sample in back.samples} == {one.family.full_name}
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1


def test_the_older_format_has_the_same_series() -> None:
    filled = fill(FAMILIES, everything())
    exposition = Exposition()
    new = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for one in parse_openmetrics(exposition.text(filled, OPENMETRICS).decode())
        for sample in one.samples
    }
    old = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for one in parse_old(exposition.text(filled, OLD).decode())
        for sample in one.samples
    }
    assert new == old and len(new) > 100


def test_what_did_not_change_is_not_put_into_words_again_and_what_did_is() -> None:
    exposition, found = Exposition(), everything()
    before = exposition.text(fill(FAMILIES, found))
    assert exposition.text(fill(FAMILIES, found)) == before
    later = Moment(found.given, history=found.history)
    assert exposition.text(fill(FAMILIES, later)) != before


def test_a_family_with_too_many_series_is_cut_and_says_so() -> None:
    devices = [{"name": f"g{number}"} for number in range(10)]
    found = made(slice_(*devices))
    cut = {one.family.name: (len(one.series), one.dropped) for one in fill(FAMILIES, found, most_series=4)}
    assert cut["device_healthy"] == (4, 6)
    assert cut["resourceslices"] == (1, 0)
    assert MOST_SERIES >= 100_000


def test_names_and_labels_are_in_the_field_s_form() -> None:
    assert len({family.full_name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name), family.name
        assert len(set(family.labels)) == len(family.labels)
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        assert (family.type is Type.INFO) == family.name.endswith("_info")
        assert not family.name.endswith("_total") and family.text.endswith(".")
        assert family.scope is not Scope.STACK or "stack" in family.labels
