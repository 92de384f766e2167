"""The alert rules and the dashboard that are shipped: every metric and label they name exists, and nothing is left unseen."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import ROOT, program

from regauge.audit import Layer
from regauge.model import Object
from regauge.observe.alerting import AlertRule, alert_rules, metric_names, prometheus_rule, rule_groups, runbook
from regauge.observe.families import Type
from regauge.observe.grafana import dashboard, dashboard_bytes, layout
from regauge.observe.registry import FAMILIES

BY_NAME = {family.full_name: family for family in FAMILIES}
LAYERS = {family.full_name: family.layer.value for family in FAMILIES}
ADDED = {"le", "instance", "job", "name"}
"""Labels that Prometheus adds, or that an expression makes."""
PAGE = ROOT / "docs" / "alerts.md"
WANTED: Mapping[int, tuple[str, ...]] = {
    122: ("resourceslices",),
    123: ("resourceslice_updated_timestamp_seconds", "resourceslice_age_seconds"),
    124: ("deviceclass_info", "deviceclass_devices"),
    125: ("resourceclaims",),
    126: ("resourceclaim_device_info", "deviceclass_devices_free", "devices"),
    127: ("resourceclaims_pending",),
    128: ("resourceclaim_failures_total",),
    129: ("resourceclaim_allocation_duration_seconds", "resourceclaim_preparation_duration_seconds"),
    130: ("driver_controller_errors_total",),
    131: ("driver_node_plugin_errors_total",),
    132: ("device_holder_info",),
    133: ("device_healthy",),
    134: ("device_capacity_consumed", "shared_counter_consumed"),
    135: ("device_utilization_ratio",),
    136: ("resourceclaims_unreleased", "resourceclaims_unreleased_age_seconds"),
    137: ("driver_reconcile_duration_seconds",),
    138: ("driver_api_request_duration_seconds", "driver_kubelet_call_duration_seconds"),
    139: ("device_holder_info",),
    140: ("device_utilization_ratio",),
}
"""By the number of what is asked for, the metrics that answer it."""


def expressions() -> Iterator[tuple[str, str]]:
    """Whose it is, and the expression."""
    for rule in alert_rules():
        yield rule.alert, rule.expr
    for panel in layout().panels():
        for query in panel.queries:
            yield panel.title, query.expr


@pytest.mark.parametrize(("whose", "expr"), list(expressions()))
def test_every_metric_and_label_that_is_named_exists(whose: str, expr: str) -> None:
    names = metric_names(expr)
    assert names, "it names no metric of the exporter"
    for name in names:
        assert name in BY_NAME, f"{whose} names {name}"
    for name, inside in re.findall(r"(regauge_\w+)\{([^}]*)\}", expr):
        (family,) = metric_names(name)
        named = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))
        assert named <= set(BY_NAME[family].labels) | ADDED, f"{whose}: {family} has no {named}"
    labels = {label for name in names for label in BY_NAME[name].labels} | ADDED
    grouped = {one.strip() for group in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expr) for one in group.split(",")}
    assert grouped - {""} <= labels, f"{whose} groups by {grouped - labels}"


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule.alert)
def test_an_alert_tells_labels_that_it_keeps(rule: AlertRule) -> None:
    told = set(re.findall(r"\$labels\.(\w+)", rule.summary + rule.description))
    groups = re.findall(r"^(?:\w+\()?[\w., ]*?\b(?:sum|count|max) by \(([^)]*)\)", rule.expr)
    kept = {one.strip() for one in groups[0].split(",")} if groups else set()
    if not groups:
        (first, *_) = metric_names(rule.expr)
        kept = set(BY_NAME[first].labels) | ADDED
    assert told <= kept


@pytest.mark.parametrize("number", WANTED)
def test_what_is_asked_for_has_a_panel_and_an_alert(number: int) -> None:
    in_alerts = {name for rule in alert_rules() for name in metric_names(rule.expr)}
    in_panels = {name for panel in layout().panels() for query in panel.queries for name in metric_names(query.expr)}
    for name in WANTED[number]:
        assert f"regauge_{name}" in in_panels
    assert any(f"regauge_{name}" in in_alerts for name in WANTED[number])


def test_every_metric_is_somewhere_on_the_dashboard() -> None:
    in_panels = {name for panel in layout().panels() for query in panel.queries for name in metric_names(query.expr)}
    assert sorted(set(BY_NAME) - in_panels) == []


def test_counters_are_not_shown_as_they_are_and_histograms_by_their_buckets() -> None:
    for whose, expr in expressions():
        for name in metric_names(expr):
            kind = BY_NAME[name].type
            if kind is Type.COUNTER:
                assert re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[", expr), f"{whose}: {name}"
            if kind is Type.HISTOGRAM:
                assert f"{name}_bucket" in expr, f"{whose}: {name}"


def test_every_alert_has_its_runbook_and_no_other_is_there() -> None:
    headings = re.findall(r"^## (Regauge\w+)$", PAGE.read_text(), re.M)
    assert headings == [rule.alert for rule in alert_rules()]
    assert len(set(headings)) == len(headings)
    assert runbook("RegaugeX", "https://example.com/alerts") == "https://example.com/alerts#regaugex"


@pytest.mark.row(4)
def test_rules_carry_layer_severity_and_runbook() -> None:
    groups = rule_groups(LAYERS)["groups"]
    assert {group["name"] for group in groups} <= {f"regauge-{layer.value}" for layer in Layer}
    rules = [(group["name"], rule) for group in groups for rule in group["rules"]]
    assert sorted(rule["alert"] for _, rule in rules) == sorted(rule.alert for rule in alert_rules())
    for group, rule in rules:
        assert group == f"regauge-{rule['labels']['layer']}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{rule['alert'].lower()}"


def test_the_operators_object_carries_the_labels_that_it_is_selected_by() -> None:
    made = prometheus_rule(LAYERS, "monitoring", {"release": "prometheus"})
    assert (made["apiVersion"], made["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert made["metadata"]["labels"] == {"app.kubernetes.io/name": "regauge", "release": "prometheus"}
    assert made["spec"] == rule_groups(LAYERS)


def promtool(tmp_path: Path, *arguments: str) -> str:
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rule_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule_groups(LAYERS)))
    assert f"{len(alert_rules())} rules found" in promtool(tmp_path, "check", "rules", "rules.yaml")


def panels(document: Object) -> list[dict[str, Any]]:
    return [one for one in document["panels"] if one["type"] != "row"]


def test_panels_do_not_overlap_and_fit() -> None:
    taken: set[tuple[int, int]] = set()
    for one in dashboard(LAYERS)["panels"]:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & mine, one["title"]
        taken |= mine
    assert len({one["id"] for one in dashboard(LAYERS)["panels"]}) == len(dashboard(LAYERS)["panels"])


def test_tables_show_labels_and_the_values_that_have_a_name() -> None:
    shown = {panel["title"]: panel for panel in panels(dashboard(LAYERS)) if panel["type"] == "table"}
    slices = shown["Last update of slices"]
    (_, organised) = slices["transformations"]
    assert organised["options"]["renameByName"] == {"Value #A": "written", "Value #B": "age", "Value #C": "generation"}
    units = {one["matcher"]["options"]: one["properties"][0]["value"] for one in slices["fieldConfig"]["overrides"]}
    assert units == {"written": "dateTimeAsIso", "age": "s"}
    (_, organised) = shown["Holders"]["transformations"]
    assert organised["options"]["excludeByName"]["Value"] is True and not organised["options"]["renameByName"]
    for panel in layout().panels():
        for query in panel.queries:
            always_one = (
                all(BY_NAME[name].type is Type.INFO for name in metric_names(query.expr)) or "== 0" in query.expr
            )
            assert panel.type != "table" or query.legend or always_one, f"{panel.title}: {query.expr}"


@pytest.mark.row(4)
def test_the_dashboard_is_bound_to_no_installation() -> None:
    document = json.loads(dashboard_bytes(LAYERS))
    assert document == dashboard(LAYERS) and dashboard_bytes(LAYERS) == dashboard_bytes(LAYERS)
    for panel in panels(document):
        assert panel["datasource"]["uid"] == "${datasource}"
        assert re.fullmatch(rf".+\. Layer: ({'|'.join(Layer)})\.", panel["description"])
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    names = {one["name"] for one in document["templating"]["list"]}
    used = set(re.findall(r"\$(\w+)", json.dumps([panel["targets"] for panel in panels(document)]))) - {
        "__rate_interval"
    }
    assert used <= names
    for one in layout().variables:
        assert one.label in BY_NAME[one.metric].labels
