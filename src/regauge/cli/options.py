"""Options that several verbs share, and reading their input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regauge.cli.output import Format, ReportFormat, say

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.model import Rules

Output = Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")]
ReportOutput = Annotated[
    ReportFormat, typer.Option("--output", "-o", help="table, json, yaml, or a report: html, markdown.")
]
KubeVersion = Annotated[
    str | None,
    typer.Option(
        "--kube-version", help="Kubernetes version to go by, such as 1.36. Default: the input's own, else 1.36."
    ),
]
FeatureGates = Annotated[
    str | None,
    typer.Option("--feature-gates", help="Gates that differ from the defaults: A=true,B=false."),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="Kubeconfig file. Default: $KUBECONFIG, then ~/.kube/config, then in-cluster."),
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig. Default: the current one.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="One namespace only. Default: all.")]
MAX_SKIPPED_SHOWN = 20


def rules_of(estate: Estate, kube_version: str | None, feature_gates: str | None) -> Rules:
    """The rules to go by: what the user says, else what the input says of itself, else the default version."""
    from regauge.features import DEFAULT_MINOR, KNOWN_MINORS, minor_of, parse_feature_gates, rules

    told = kube_version or estate.git_version or DEFAULT_MINOR
    if not kube_version and minor_of(told) not in KNOWN_MINORS:
        say(f"note: the input is from Kubernetes {told}, which is not known here; going by {DEFAULT_MINOR}")
        told = DEFAULT_MINOR
    gates = dict(estate.gates) if not kube_version else {}
    gates.update(parse_feature_gates(feature_gates) if feature_gates else {})
    return rules(told, gates)


def tell_skipped(estate: Estate) -> None:
    """What was not read goes to stderr, so that nobody takes silence for completeness."""
    for item in estate.skipped[:MAX_SKIPPED_SHOWN]:
        say(f"not read: {item.what}: {item.why}")
    if len(estate.skipped) > MAX_SKIPPED_SHOWN:
        say(f"not read: {len(estate.skipped) - MAX_SKIPPED_SHOWN} more")
    for warning in estate.warnings[:MAX_SKIPPED_SHOWN]:
        say(f"warning: {warning}")
