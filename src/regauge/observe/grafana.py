"""A dashboard for Grafana over the exporter's own metrics, made of data (`observe/data/panels.json`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from regauge.base import canonical_json
from regauge.model import Object
from regauge.observe.alerting import metric_names

UID = "regauge-devices"
TITLE = "Devices and claims"
SCHEMA = 39
WIDTH = 24
_HEIGHTS = {"stat": 4, "timeseries": 8, "table": 9, "bargauge": 8}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE_INTERVAL = "$__rate_interval"


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One expression of a panel, and what its series are called there; in a table, the column with its values, whose unit
    may be another than the panel's."""

    expr: str
    legend: str = ""
    unit: str = ""


class Panel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One panel. `width` in columns of 24. `good` is the value at which a stat is green; from there on it is red."""

    title: str
    type: Literal["stat", "timeseries", "table", "bargauge"]
    text: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 12
    good: float | None = None


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of panels under one title."""

    title: str
    panels: tuple[Panel, ...]


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something to choose above the panels: the values of a label of a metric. All are chosen at first."""

    name: str
    metric: str
    label: str


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole dashboard."""

    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]

    def panels(self) -> Iterator[Panel]:
        """All panels in their order."""
        yield from (panel for section in self.sections for panel in section.panels)


@cache
def layout() -> Layout:
    """What the dashboard consists of."""
    data = files("regauge.observe").joinpath("data/panels.json").read_bytes()
    return msgspec.json.decode(data, type=Layout)


def dashboard(layers: Mapping[str, str]) -> Object:
    """The dashboard as Grafana imports it. The data source is chosen in it, so it fits any installation.

    `layers` are those of the metrics, by the name that is asked for: each panel tells the one that it is about.
    """
    panels: list[Object] = []
    top = 0
    for section in layout().sections:
        panels.append(_row(section.title, len(panels) + 1, top))
        top += 1
        left = height = 0
        for panel in section.panels:
            if left + panel.width > WIDTH:
                left, top, height = 0, top + height, 0
            panels.append(_panel(panel, layers, len(panels) + 1, (left, top)))
            left, height = left + panel.width, max(height, _HEIGHTS[panel.type])
        top += height
    return {
        "uid": UID,
        "title": TITLE,
        "tags": ["kubernetes", "accelerators", "dra", "device-plugin"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": SCHEMA,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(one) for one in layout().variables)]},
        "annotations": {"list": []},
        "panels": panels,
    }


def dashboard_bytes(layers: Mapping[str, str]) -> bytes:
    """The same as text, each time with the same bytes."""
    return msgspec.json.format(canonical_json(dashboard(layers)), indent=2) + b"\n"


def _datasource() -> Object:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}


def _variable(one: Variable) -> Object:
    query = f"label_values({one.metric}, {one.label})"
    return {
        "name": one.name,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _row(title: str, number: int, top: int) -> Object:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, layers: Mapping[str, str], number: int, corner: tuple[int, int]) -> Object:
    left, top = corner
    layer = layers[metric_names(panel.queries[0].expr)[0]]
    made: Object = {
        "id": number,
        "type": panel.type,
        "title": panel.title,
        "description": f"{panel.text} Layer: {layer}.",
        "datasource": _DATASOURCE,
        "gridPos": {"h": _HEIGHTS[panel.type], "w": panel.width, "x": left, "y": top},
        "targets": [_target(query, place, panel.type) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": {"unit": panel.unit, "thresholds": _thresholds(panel)}, "overrides": []},
    }
    if panel.type == "table":
        made["transformations"] = [{"id": "merge", "options": {}}, {"id": "organize", "options": _columns(panel)}]
        made["fieldConfig"]["overrides"] = [
            {"matcher": {"id": "byName", "options": query.legend}, "properties": [{"id": "unit", "value": query.unit}]}
            for query in panel.queries
            if query.unit
        ]
    if panel.type == "stat":
        made["options"] = {"colorMode": "value" if panel.good is None else "background", "graphMode": "area"}
    return made


def _columns(panel: Panel) -> Object:
    """Labels are columns, and the values of each query that has a name; the others are always 1."""
    shown = {_value(panel, place): query.legend for place, query in enumerate(panel.queries) if query.legend}
    hidden = {_value(panel, place): True for place, query in enumerate(panel.queries) if not query.legend}
    return {
        "excludeByName": {"Time": True, "__name__": True, "instance": True, "job": True, **hidden},
        "renameByName": shown,
    }


def _value(panel: Panel, place: int) -> str:
    """What Grafana calls the values of a query in a table."""
    return "Value" if len(panel.queries) == 1 else f"Value #{_ref(place)}"


def _ref(place: int) -> str:
    return chr(ord("A") + place)


def _target(query: Query, place: int, kind: str) -> Object:
    now = kind in ("table", "bargauge", "stat")
    return {
        "refId": _ref(place),
        "datasource": _DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": now,
        "range": not now,
        "format": "table" if kind == "table" else "time_series",
    }


def _thresholds(panel: Panel) -> Object:
    steps: list[Object] = [{"color": "green", "value": None}]
    if panel.good is not None:
        steps.append({"color": "red", "value": panel.good})
    return {"mode": "absolute", "steps": steps}
