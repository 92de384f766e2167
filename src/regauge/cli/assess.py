"""`regauge assess`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import (
    Context,
    FeatureGates,
    Kubeconfig,
    KubeVersion,
    Namespace,
    ReportOutput,
    rules_of,
    tell_skipped,
)
from regauge.cli.output import ReportFormat, print_document, print_report, print_table, say, tell
from regauge.cli.reading import read_estate

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.features import Platform
    from regauge.migrate import Assessment, AssessRow, Growth, Judgement, Told
    from regauge.model import Rules

SCHEMA = "regauge.assess/v1"


def command(
    input_: Annotated[
        str | None,
        typer.Argument(metavar="INPUT", help="Directory, file or - with a dump. Default: the current kube context."),
    ] = None,
    output: ReportOutput = ReportFormat.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    need: Annotated[
        list[str] | None,
        typer.Option(
            "--need",
            metavar="[NAMESPACE/NAME=]NEED",
            help="What you need that no manifest shows: attributes, sharing, topology or network.",
        ),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform", metavar="NAME", help="A managed control plane: eks. Default: as versions and nodes show."
        ),
    ] = None,
) -> None:
    """Show every workload that asks for accelerators, and what each would need to move to DRA. Reads only.

    \b
    regauge assess                          the current kube context
    regauge assess DIR                      a dump: kubectl get ... -o yaml into files
    kubectl get nodes,pods,deployments,deviceclasses,resourceslices -A -o json | regauge assess -
    regauge assess DIR -o json              for a program
    regauge assess DIR -o html > page.html  one page with pictures, to pass on
    """
    estate = read_estate(input_, kubeconfig, context, namespace or "")
    rules = rules_of(estate, kube_version, feature_gates)
    managed = _managed(estate, rules, platform, feature_gates)
    from regauge.migrate import assess, assessment_blocks, device_matcher

    found = assess(estate.snapshot, rules, device_matcher(rules), _said(need or []))
    if output in (ReportFormat.html, ReportFormat.markdown):
        print_report("Accelerators: the assessment", assessment_blocks(found, _told(estate, rules.minor)), output)
    elif output is ReportFormat.table:
        tell_skipped(estate)
        _print(found, estate, rules.minor)
        if managed is not None:
            say(f"{managed.title}: {managed.gates} See regauge features --platform {managed.id}.")
    else:
        print_document(assess_document(found, estate, rules.minor, managed), output)


def _managed(estate: Estate, rules: Rules, name: str | None, feature_gates: str | None) -> Platform | None:
    """The managed control plane that is named, or seen. Gates that nobody can set there are refused."""
    from regauge.features import check_settable, parse_feature_gates, platform_named, platform_seen

    nodes = estate.snapshot.nodes
    versions = (estate.git_version or "", *(node.status.node_info.kubelet_version for node in nodes))
    labels = {label for node in nodes for label in node.metadata.labels or {}}
    found = platform_named(name) if name else platform_seen(versions, labels)
    if found is not None and feature_gates:
        check_settable(found, rules.minor, parse_feature_gates(feature_gates).items())
    return found


def _said(texts: list[str]) -> dict[str, tuple[str, ...]]:
    from regauge.base import InputError, Where
    from regauge.migrate import NEEDS

    said: dict[str, tuple[str, ...]] = {}
    for text in texts:
        workload, _, need = text.rpartition("=")
        if need not in NEEDS:
            raise InputError(f"there is no need {need}", where=Where(field="need"), fix=f"one of {', '.join(NEEDS)}")
        said[workload] = (*said.get(workload, ()), need)
    return said


def _told(estate: Estate, minor: str) -> Told:
    """What a report says beside the assessment: where it comes from, and its devices one by one."""
    from regauge.collect import reports_of
    from regauge.inventory import take_inventory
    from regauge.migrate import Told, pool_of

    not_read = (*(f"{item.what}: {item.why}" for item in estate.skipped), *estate.warnings)
    pools = {node.metadata.name: pool_of(node) for node in estate.snapshot.nodes}
    return Told(estate.source, minor, not_read, take_inventory(estate.snapshot, reports_of(estate)), pools)


def _print(found: Assessment, estate: Estate, minor: str) -> None:
    from regauge.migrate import needs_of

    rows = [
        (
            f"{row.title} ({row.part})" if row.part else row.title,
            row.judgement.verdict.value,
            row.stack.value,
            row.asks_for,
            str(row.count or "all"),
            ", ".join(row.pools) or "-",
            row.state,
            row.effort.value,
            str(row.risk),
            "; ".join(needs_of(row)) or "nothing",
        )
        for row in found.rows
    ]
    if not rows:
        print("No workload asks for an accelerator, by limits or by claim.")
        return
    columns = (
        "WORKLOAD", "VERDICT", "STACK", "ASKS FOR", "PER POD", "NODE POOL", "STATE", "EFFORT", "RISK", "NEEDED TO MOVE",
    )  # fmt: skip
    print_table(columns, rows)
    print()
    pools = [
        (
            pool.pool,
            pool.verdict.value,
            str(pool.nodes),
            ", ".join(f"{count} {name}" for name, count in sorted(pool.device_plugin.items())) or "-",
            ", ".join(f"{count} {name}" for name, count in sorted(pool.dra.items())) or "-",
        )
        for pool in found.pools
    ]
    print_table(("NODE POOL", "VERDICT", "NODES", "BY DEVICE PLUGIN", "BY DRA"), pools)
    _print_sharing(found)
    _print_mixed(found)
    _print_verdicts(found)
    _print_dependents(found)
    ready = sum(row.ready for row in found.rows if row.stack.value == "device-plugin")
    counted = sum(row.stack.value == "device-plugin" for row in found.rows)
    say()
    told = f"{len(found.rows)} asks, {counted} by device plugin, {ready} of them with nothing in the way"
    say(f"{estate.source}: Kubernetes {minor}, {told}. Verdict on the cluster: {found.verdict.value}.")
    say("Next: regauge rehearse INPUT moves one of them in a rehearsal of this cluster.")


def _print_sharing(found: Assessment) -> None:
    if found.sharing:
        print()
        print_table(
            ("NODE POOL", "SHARES BY", "NODES", "SEEN BY", "BY CLAIM"),
            [(item.pool, item.how, str(item.nodes), ", ".join(item.evidence), item.by_claim) for item in found.sharing],
        )


def _print_mixed(found: Assessment) -> None:
    if found.mixed:
        print()
        print_table(
            ("NODE", "LABEL", "DEVICES THAT ARE SO", "PUBLISHED", "CHOSEN BY"),
            [
                (
                    item.node,
                    f"{item.label}={item.value}",
                    f"{item.as_said} of {item.devices}",
                    ", ".join(item.seen),
                    ", ".join(item.workloads) or "-",
                )
                for item in found.mixed
            ],
        )


def _print_verdicts(found: Assessment) -> None:
    """Why, for every verdict that is not stay; those that stay share one line each."""
    from regauge.migrate import Verdict

    rows = []
    for row in found.rows:
        judgement = row.judgement
        if judgement.verdict is not Verdict.STAY:
            evidence = "; ".join(f"{item.need} ({item.id}: {item.evidence})" for item in judgement.triggers)
            driver = judgement.driver
            known = f"{driver.state} {driver.driver}".strip()
            why = f"{judgement.rule}: {judgement.why}"
            change = "; ".join(judgement.change)
            rows.append((row.title, row.asks_for, judgement.verdict.value, why, evidence, known, change))
    if rows:
        print()
        columns = ("WORKLOAD", "ASKS FOR", "VERDICT", "WHY", "WHAT IT NEEDS", "DRIVER", "WHAT WOULD CHANGE IT")
        print_table(columns, rows)
    print()
    reasons = sorted({(row.judgement.rule, row.judgement.why) for row in found.rows})
    for rule, why in reasons:
        count = sum(row.judgement.rule == rule for row in found.rows)
        tell(f"{rule}: {count} asks: {why}")


def _print_dependents(found: Assessment) -> None:
    if not found.dependents:
        return
    print()
    print_table(
        ("DEPENDS ON THE NAME", "RESOURCE", "WHAT", "WHERE", "WITH A MOVE"),
        [
            (
                f"{item.kind} {item.namespace + '/' if item.namespace else ''}{item.name}",
                item.resource_name,
                item.what,
                ", ".join(item.where),
                "; ".join((item.effect, *(f"instead: {name}" for name in item.instead))),
            )
            for item in found.dependents
        ],
    )


def assess_document(found: Assessment, estate: Estate, minor: str, managed: Platform | None = None) -> dict[str, Any]:
    """The assessment as JSON."""
    from regauge.features import fixed_gates

    return {
        "schema": SCHEMA,
        "source": estate.source,
        "kubeVersion": minor,
        "platform": managed.id if managed else "",
        "fixedGates": sorted(fixed_gates(minor)) if managed else [],
        "verdict": found.verdict.value,
        "workloads": [_workload(row) for row in found.rows],
        "nodePools": [
            {
                "name": pool.pool,
                "nodes": pool.nodes,
                "devicePlugin": dict(pool.device_plugin),
                "dra": dict(pool.dra),
                "verdict": pool.verdict.value,
            }
            for pool in found.pools
        ],
        "resources": [
            {
                "name": item.resource_name,
                "deviceClass": item.device_class,
                "how": item.how,
                "devices": len(item.devices),
                "why": item.why,
            }
            for item in found.servings
        ],
        "dependents": [
            {
                "namespace": item.namespace,
                "kind": item.kind,
                "name": item.name,
                "resource": item.resource_name,
                "what": item.what,
                "where": list(item.where),
                "effect": item.effect,
                "instead": list(item.instead),
            }
            for item in found.dependents
        ],
        **_of_nodes(found),
        "notRead": [{"what": item.what, "why": item.why} for item in estate.skipped],
        "warnings": list(estate.warnings),
    }


def _of_nodes(found: Assessment) -> dict[str, Any]:
    """What is told of nodes: how they share devices, and labels that say too little."""
    return {
        "sharing": [
            {
                "nodePool": item.pool,
                "how": item.how,
                "nodes": item.nodes,
                "evidence": list(item.evidence),
                "byClaim": item.by_claim,
                "feature": item.feature,
            }
            for item in found.sharing
        ],
        "mixedLabels": [
            {
                "node": item.node,
                "label": item.label,
                "value": item.value,
                "devices": item.devices,
                "asSaid": item.as_said,
                "seen": list(item.seen),
                "workloads": list(item.workloads),
            }
            for item in found.mixed
        ],
    }


def _workload(row: AssessRow) -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "kind": row.kind,
        "name": row.name,
        "stack": row.stack.value,
        "asksFor": row.asks_for,
        "count": row.count,
        "replicas": row.replicas,
        "nodePools": list(row.pools),
        "state": row.state,
        "ready": row.ready,
        "effort": row.effort.value,
        "risk": row.risk,
        "groups": list(row.groups),
        "needs": list(row.needs),
        "part": row.part,
        "manifest": _manifest(row.growth),
        "verdict": _verdict(row.judgement),
    }


def _verdict(judgement: Judgement) -> dict[str, Any]:
    return {
        "answer": judgement.verdict.value,
        "rule": judgement.rule,
        "why": judgement.why,
        "triggers": [{"id": item.id, "need": item.need, "evidence": item.evidence} for item in judgement.triggers],
        "driver": {
            "state": judgement.driver.state,
            "name": judgement.driver.driver,
            "evidence": judgement.driver.evidence,
            "date": judgement.driver.date,
        },
        "features": [{"name": item.feature, "stage": item.stage, "on": item.on} for item in judgement.features],
        "change": list(judgement.change),
    }


def _manifest(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {
        "lines": growth.lines,
        "linesByClaim": growth.lines_by_claim,
        "objectsMore": growth.objects_more,
        "refused": list(growth.refused),
    }
