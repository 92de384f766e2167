"""`regauge export rules`, `grafana` and `manifests`: what goes with the metrics, as those who use it take it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.model import Object

Plain = Annotated[bool, typer.Option("--plain", help="A rule file of Prometheus, not an object of its operator.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NS", help="Namespace of what is made.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", metavar="NAME=VALUE", help="What the operator selects rules by; may be repeated."),
]
Runbook = Annotated[str, typer.Option("--runbook", metavar="URL", help="Where the page docs/alerts.md is to be found.")]
Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="An image that has regauge.")]
Monitoring = Annotated[
    str, typer.Option("--monitoring", metavar="NS", help="Namespace of the Prometheus that scrapes.")
]
NodeSources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="KIND[=PLACE]", help="Sources of the exporter on each node; may be repeated."),
]
NoOperator = Annotated[bool, typer.Option("--no-operator", help="Without ServiceMonitor and PodMonitor.")]


def rules_command(
    plain: Plain = False, namespace: Namespace = "monitoring", label: Labels = None, runbook: Runbook = ""
) -> None:
    """Alert rules over these metrics: a PrometheusRule, or with --plain a rule file.

    \b
    regauge export rules -l release=prometheus | kubectl apply -f -
    regauge export rules --plain > regauge.rules.yaml
    """
    from regauge.observe.alerting import RUNBOOK, prometheus_rule, rule_groups

    layers = _layers()
    base = runbook or RUNBOOK
    made = rule_groups(layers, base) if plain else prometheus_rule(layers, namespace, _pairs(label or ()), base)
    sys.stdout.write(_yaml([made]))


def grafana_command() -> None:
    """A dashboard over these metrics, as Grafana imports it; the data source is chosen there.

    \b
    regauge export grafana > regauge.json
    """
    from regauge.observe.grafana import dashboard_bytes

    sys.stdout.write(dashboard_bytes(_layers()).decode())


def manifests_command(
    image: Image = "regauge:latest",
    namespace: Namespace = "regauge-system",
    monitoring: Monitoring = "monitoring",
    source: NodeSources = None,
    no_operator: NoOperator = False,
) -> None:
    """What a cluster needs to run the exporter: one for the cluster, one on each node, their rights, who may scrape.

    \b
    regauge export manifests --image registry.example.com/regauge:0.1.0 | kubectl apply -f -

    The Secret regauge-export (token, tls.crt, tls.key, ca.crt) is yours to make: see docs/export.md.
    """
    from regauge.base import MemoryFiles
    from regauge.observe.manifests import Deployed, manifests
    from regauge.observe.sources import Surroundings, check_source
    from regauge.pluginapi.memory import MemoryNet

    sources = tuple(dict.fromkeys(source or ("pod-resources",)))
    around = Surroundings(MemoryNet("node"), MemoryFiles(), "node")
    for one in sources:
        check_source(one, around)
    sys.stdout.write(_yaml(manifests(Deployed(image, namespace, monitoring, sources, operator=not no_operator))))


def _layers() -> dict[str, str]:
    from regauge.observe.registry import FAMILIES

    return {family.full_name: family.layer.value for family in FAMILIES}


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    from regauge.base import InputError, Where

    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError(f"{text} is not NAME=VALUE", where=Where(field="label"), fix="write release=prometheus")
        found[name] = value
    return found


def _yaml(documents: Iterable[Object]) -> str:
    import yaml

    return yaml.safe_dump_all(documents, sort_keys=False, width=200, allow_unicode=True)
