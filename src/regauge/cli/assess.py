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
    Output,
    rules_of,
    tell_skipped,
)
from regauge.cli.output import Format, print_document, print_table, say

if TYPE_CHECKING:
    from regauge.collect import Estate
    from regauge.migrate import Assessment

SCHEMA = "regauge.assess/v1"


def command(
    input_: Annotated[
        str | None,
        typer.Argument(metavar="INPUT", help="Directory, file or - with a dump. Default: the current kube context."),
    ] = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Show every workload that asks for accelerators, and what each would need to move to DRA. Reads only.

    \b
    regauge assess                          the current kube context
    regauge assess DIR                      a dump: kubectl get ... -o yaml into files
    kubectl get nodes,pods,deployments,deviceclasses,resourceslices -A -o json | regauge assess -
    regauge assess DIR -o json              for a program
    """
    estate = _read(input_, kubeconfig, context, namespace or "")
    rules = rules_of(estate, kube_version, feature_gates)
    from regauge.migrate import assess, device_matcher

    found = assess(estate.snapshot, rules, device_matcher(rules))
    if output is Format.table:
        tell_skipped(estate)
        _print(found, estate, rules.minor)
    else:
        print_document(_document(found, estate, rules.minor), output)


def _read(input_: str | None, kubeconfig: str | None, context: str | None, namespace: str) -> Estate:
    if input_ is not None:
        from regauge.collect import load_estate

        return load_estate(input_)
    import asyncio
    import os

    from regauge.collect import collect_live
    from regauge.kube.config import load_connection
    from regauge.kube.http import HttpClient

    async def collect() -> Estate:
        client = HttpClient(load_connection(os.environ, kubeconfig=kubeconfig or "", context=context or ""))
        try:
            return await collect_live(client, namespace)
        finally:
            await client.close()

    return asyncio.run(collect())


def _print(found: Assessment, estate: Estate, minor: str) -> None:
    rows = [
        (
            row.title,
            row.stack.value,
            row.asks_for,
            str(row.count or "all"),
            ", ".join(row.pools) or "-",
            row.state,
            "; ".join(row.needs) or "nothing",
        )
        for row in found.rows
    ]
    if not rows:
        print("No workload asks for an accelerator, by limits or by claim.")
        return
    print_table(("WORKLOAD", "STACK", "ASKS FOR", "PER POD", "NODE POOL", "STATE", "NEEDED TO MOVE"), rows)
    print()
    pools = [
        (
            pool.pool,
            str(pool.nodes),
            ", ".join(f"{count} {name}" for name, count in sorted(pool.device_plugin.items())) or "-",
            ", ".join(f"{count} {name}" for name, count in sorted(pool.dra.items())) or "-",
        )
        for pool in found.pools
    ]
    print_table(("NODE POOL", "NODES", "BY DEVICE PLUGIN", "BY DRA"), pools)
    ready = sum(row.ready for row in found.rows if row.stack.value == "device-plugin")
    counted = sum(row.stack.value == "device-plugin" for row in found.rows)
    say()
    told = f"{len(found.rows)} asks, {counted} by device plugin, {ready} of them could move now"
    say(f"{estate.source}: Kubernetes {minor}, {told}.")
    say("Next: regauge rehearse INPUT moves one of them in a rehearsal of this cluster.")


def _document(found: Assessment, estate: Estate, minor: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": estate.source,
        "kubeVersion": minor,
        "workloads": [
            {
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
                "needs": list(row.needs),
            }
            for row in found.rows
        ],
        "nodePools": [
            {"name": pool.pool, "nodes": pool.nodes, "devicePlugin": dict(pool.device_plugin), "dra": dict(pool.dra)}
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
        "notRead": [{"what": item.what, "why": item.why} for item in estate.skipped],
        "warnings": list(estate.warnings),
    }
