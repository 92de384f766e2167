"""`regauge examples`."""

from __future__ import annotations

from typing import Annotated

import typer

from regauge.cli.output import Format, print_document, print_table

EXAMPLES: tuple[tuple[str, str], ...] = (
    ("regauge rehearse", "a first move on this machine: one node, eight accelerators, both stacks, real gRPC"),
    ("regauge rehearse --simulated --seed 7", "the same in virtual time, without sockets or processes; repeatable"),
    ("regauge rehearse DIR", "a dump of your cluster in the rehearsal: placed as it is, then one workload moved"),
    ("kubectl get nodes,pods,deployments -A -o yaml | regauge rehearse -", "the same from a pipe"),
    (
        "regauge collect -o estate.zip --anonymise",
        "your cluster in one file, names replaced: for a colleague or a report",
    ),
    ("regauge assess", "the current kube context, read-only: every workload that asks for accelerators"),
    ("regauge assess DIR -o json", "the same from a dump, for a program"),
    ("regauge audit", "what is wrong with devices in the current kube context: on which layer, why, what to do"),
    ("regauge audit estate.zip --profile production", "the ten questions before production, each with its evidence"),
    ("regauge contract init estate.zip -w contract.yaml", "what the platform promises, with what is still to be said"),
    (
        "regauge contract diff context:east context:west",
        "whether clusters have the same classes, templates and flavors",
    ),
    ("regauge dashboard", "the current kube context on a live page: devices, holders, what waits and why; reads only"),
    ("regauge devices --state trouble -o wide", "devices of both stacks that are tainted, ill, blocked or gone"),
    ("kubectl regauge claims -A -w", "claims with pods, node, devices and why they wait, as they change"),
    ("regauge who-has 0000:65:00.0", "who has a device, by PCI address, UUID or name"),
    ("regauge timeline CLAIM --write life.svg", "the life of one claim as a picture: what is noted, what is inferred"),
    ("regauge explain pod NAME", "why a pod waits, per plugin, node and device; or where it may go, and what it holds"),
    ("regauge explain claim NAME --from DIR --kube-version 1.37", "the devices of a claim, or why there are none"),
    ("regauge whatif --from DIR --drain NODE", "which pods would find no place, and what stays free, before you do it"),
    ("regauge whatif --from DIR --fits deployment/NAMESPACE/NAME", "how many more copies of a workload fit"),
    (
        "regauge export --once",
        "devices, claims and who holds what as metrics; without --once, for Prometheus to scrape",
    ),
    ("regauge queue check", "what Kueue charges beside what its pods hold, and why the two differ"),
    ("regauge gang check", "gangs that can be placed as a whole, and those that hold devices and cannot run"),
    ("regauge gang whatif --first team/train", "who gets what if this gang goes first; who takes what others need"),
    ("regauge plan DIR --write plan.yaml", "the move of whole node pools: steps, gates, rollback; reads only"),
    ("regauge rehearse sample --plan auto", "the plan of the sample estate carried out with faults, and rolled back"),
    ("regauge rollout run plan.yaml", "a plan on a cluster, as far as nobody has to be asked"),
    ("regauge explain layers", "who does what between a device and a container, with the tests that show it"),
    ("regauge explain failures F-2", "what is seen when it happens, and what to do"),
    ("regauge features compare", "device plugins and DRA, need by need"),
    (
        "regauge features support estate.zip",
        "which features are there with your drivers: version, gate, what they show",
    ),
    ("regauge features watch --kube-version 1.36", "what is not safe to depend on yet, with a pilot for each"),
    ("regauge verify pilots", "a small trial of each young feature"),
    ("regauge features --kube-version 1.36", "what of DRA is ready on 1.36, gate by gate"),
    ("regauge features --feature DRAExtendedResource", "one feature over all versions"),
    ("regauge driver --config devices.yaml --kubelet-dir /var/lib/kubelet", "serve devices under both stacks"),
    ("regauge cdi list", "the CDI devices of this node: which file defines each, who wrote it, what is in conflict"),
    ("regauge cdi audit --root /host", "what is wrong with a node's CDI, why, and what to do"),
    ("regauge conformance allocator cases.jsonl", "the reference allocator's own cases, answered in its own format"),
    ("regauge verify lifecycle", "eight questions about the life of a device, answered by who wrote what when"),
    (
        "regauge verify crowd --explore 50 --seed 7",
        "twenty pods under random faults; a failure tells its smallest schedule",
    ),
    ("regauge --install-completion", "completion for your shell"),
)


def command(
    output: Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")] = Format.table,
) -> None:
    """List commands worth trying, with a line on each.

    \b
    regauge examples
    """
    if output is Format.table:
        print_table(("COMMAND", "WHAT IT SHOWS"), EXAMPLES)
    else:
        print_document([{"command": command_, "shows": shows} for command_, shows in EXAMPLES], output)
