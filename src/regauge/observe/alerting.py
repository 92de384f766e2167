"""Alert rules over the exporter's own metrics: data (`observe/data/alerts.json`), and the forms that Prometheus reads. Pure.

A rule names metrics; which layer it is about is told by the first of them. Each has a section in docs/alerts.md, which is
its runbook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from regauge.model import Object
from regauge.observe.families import PREFIX

RUNBOOK = "docs/alerts.md"
NAME = "regauge"
_NAMES = re.compile(rf"\b{PREFIX}[a-z0-9_]+")
_SUFFIXES = ("_bucket", "_count", "_sum")
Severity = Literal["critical", "warning", "info"]


class AlertRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One alert. `for_` is how long `expr` must hold, as Prometheus writes it.

    Texts may use Prometheus' templates. `severity`: critical breaks workloads now, warning will, info is worth a look.
    """

    alert: str
    expr: str
    for_: str = msgspec.field(name="for")
    severity: Severity
    summary: str
    description: str


@cache
def alert_rules() -> tuple[AlertRule, ...]:
    """All alerts, in their order."""
    data = files("regauge.observe").joinpath("data/alerts.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[AlertRule, ...])


def metric_names(expr: str) -> tuple[str, ...]:
    """The exporter's metrics that an expression of PromQL names, in their order; histograms by their own name."""
    found = (_base(name) for name in _NAMES.findall(expr))
    return tuple(dict.fromkeys(found))


def _base(name: str) -> str:
    return next((name.removesuffix(one) for one in _SUFFIXES if name.endswith(one)), name)


def runbook(alert: str, base: str = RUNBOOK) -> str:
    """Where to read about an alert. `base` is the page, as a path or as a URL."""
    return f"{base}#{alert.lower()}"


def rule_groups(layers: Mapping[str, str], base: str = RUNBOOK, rules: Iterable[AlertRule] | None = None) -> Object:
    """A rule file: one group for each layer. `layers` are those of the metrics, by the name that is asked for."""
    groups: dict[str, list[Object]] = {}
    for rule in alert_rules() if rules is None else rules:
        layer = layers[metric_names(rule.expr)[0]]
        groups.setdefault(layer, []).append(_rule(rule, layer, base))
    return {"groups": [{"name": f"{NAME}-{layer}", "rules": found} for layer, found in groups.items()]}


def _rule(rule: AlertRule, layer: str, base: str) -> Object:
    return {
        "alert": rule.alert,
        "expr": rule.expr,
        "for": rule.for_,
        "labels": {"severity": rule.severity, "layer": layer},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": runbook(rule.alert, base),
        },
    }


def prometheus_rule(
    layers: Mapping[str, str], namespace: str, labels: Mapping[str, str], base: str = RUNBOOK
) -> Object:
    """The same as an object of the Prometheus operator (monitoring.coreos.com/v1), with the labels that it selects by."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": NAME, "namespace": namespace, "labels": {"app.kubernetes.io/name": NAME, **labels}},
        "spec": rule_groups(layers, base),
    }
