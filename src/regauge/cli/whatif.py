"""`regauge whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regauge.cli.options import Context, FeatureGates, Kubeconfig, KubeVersion, Output, rules_of, tell_skipped
from regauge.cli.output import Format, print_document, print_table, say, tell
from regauge.cli.reading import From, read_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.collect import Estate
    from regauge.scheduler import Change, Fitting, Place, PoolUse, Situation, WhatIf

SCHEMA = "regauge.whatif/v1"
BAR = 24
MOST_PODS = 40
MOST_POOLS = 30


def _many(flag: str, metavar: str, help_: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help_ + " May be given more than once.")


Likes = Annotated[list[str] | None, _many("--add-node-like", "NODE[=COUNT]", "More nodes like this one.")]
Drains = Annotated[list[str] | None, _many("--drain", "NODE", "The node takes no pods, and those it has go elsewhere.")]
Taints = Annotated[
    list[str] | None, _many("--taint-device", "DRIVER/POOL/DEVICE[:EFFECT]", "A taint, NoSchedule or NoExecute.")
]
Applies = Annotated[list[str] | None, _many("--apply", "FILE", "Objects to add, or to put in place of others.")]
Deletes = Annotated[list[str] | None, _many("--delete", "KIND/[NAMESPACE/]NAME", "An object that goes.")]
Scales = Annotated[list[str] | None, _many("--replicas", "KIND/NAMESPACE/NAME=N", "How many pods a workload has.")]
Fits = Annotated[list[str] | None, _many("--fits", "KIND/NAMESPACE/NAME", "Count how many more copies fit.")]


def command(
    from_: From = None,
    add_node_like: Likes = None,
    drain: Drains = None,
    taint_device: Taints = None,
    apply: Applies = None,
    delete: Deletes = None,
    replicas: Scales = None,
    fits: Fits = None,
    output: Output = Format.table,
    kube_version: KubeVersion = None,
    feature_gates: FeatureGates = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell what a change would do before it is made: which pods find a place, which are stuck, what is free. Reads only.

    \b
    regauge whatif --drain gpu-node-3                  the current kube context
    regauge whatif --from DIR --add-node-like gpu-node-3=2
    regauge whatif --from DIR --taint-device gpu.nvidia.com/node-1/gpu-0:NoExecute
    regauge whatif --from DIR --apply job.yaml --delete deployment/team/old
    regauge whatif --from DIR --replicas deployment/team/serve=12 --fits deployment/team/serve
    regauge whatif --from DIR --kube-version 1.37      the same cluster after an upgrade

    Changes are made in the order of these options. Ends with 1 when a pod becomes stuck, else with 0.
    """
    changes = _changes(add_node_like, drain, taint_device, apply, delete, replicas)
    estate, gap = read_whole(from_, kubeconfig, context, "")
    if gap:
        say(f"warning: {gap}")
    before, after = rules_of(estate, None, None), rules_of(estate, kube_version, feature_gates)
    import random

    from regauge.scheduler import object_name, what_if

    copies = [object_name(text) for text in fits or ()]
    found = what_if(estate.snapshot, before, after, changes, random.Random(0), copies)
    if output is Format.table:
        tell_skipped(estate)
        _print(found)
        say(f"{estate.source}: Kubernetes {before.minor} before, {after.minor} after.")
    else:
        print_document(_document(found, estate, before.minor, after.minor), output)
    if found.stuck:
        raise typer.Exit(1)


def _changes(
    likes: list[str] | None,
    drains: list[str] | None,
    taints: list[str] | None,
    applies: list[str] | None,
    deletes: list[str] | None,
    scales: list[str] | None,
) -> list[Change]:
    from regauge.collect import load_estate
    from regauge.scheduler import AddNodes, Apply, Delete, Drain, Replicas, TaintDevice, object_name

    changes: list[Change] = []
    for text in likes or ():
        name, equals, count = text.partition("=")
        changes.append(AddNodes(name, _number(text, count) if equals else 1))
    changes += [Drain(name) for name in drains or ()]
    for text in taints or ():
        device, _, effect = text.partition(":")
        changes.append(TaintDevice(_device(device), effect or "NoSchedule"))
    changes += [Apply(tuple(load_estate(place).snapshot.all_documents())) for place in applies or ()]
    changes += [Delete(object_name(text)) for text in deletes or ()]
    for text in scales or ():
        name, _, count = text.partition("=")
        changes.append(Replicas(object_name(name), _number(text, count)))
    return changes


def _number(text: str, count: str) -> int:
    if not count.isascii() or not count.isdigit() or len(count) > 6:
        raise typer.BadParameter(f"{text}: a number has to stand after the =")
    return int(count)


def _device(text: str) -> Any:
    from regauge.allocator import DeviceId

    parts = text.split("/")
    if len(parts) < 3 or not all(parts):
        raise typer.BadParameter(f"{text}: write DRIVER/POOL/DEVICE")
    return DeviceId(parts[0], "/".join(parts[1:-1]), parts[-1])


# -- for people


def _print(found: WhatIf) -> None:
    gained, lost = found.schedulable, found.stuck
    rows = [
        (one.pod, str(one.before), str(one.after), one.after.why or "-")
        for one in (*lost, *gained, *(item for item in found.pods if item not in (*lost, *gained)))
    ]
    if rows:
        print_table(("POD", "BEFORE", "AFTER", "WHY"), rows[:MOST_PODS])
        if len(rows) > MOST_PODS:
            tell(f"and {len(rows) - MOST_PODS} more")
        tell()
    tell(f"{len(gained)} pods find a place, {len(lost)} become stuck, {found.unchanged} stay as they are.")
    for text in found.notes:
        tell(f"note: {text}")
    _print_fitting(found.before.fitting, found.after.fitting)
    _print_use(found)


def _print_fitting(before: tuple[Fitting, ...], after: tuple[Fitting, ...]) -> None:
    earlier = {one.workload: one for one in before}
    for one in after:
        old = earlier.get(one.workload)
        was = "" if old is None else f" (before: {_count(old)})"
        where = ", ".join(
            f"{count} on {node}" for node, count in sorted(one.nodes.items(), key=lambda item: -item[1])[:8]
        )
        tell(f"{one.workload}: {_count(one)} more copies fit{was}" + (f": {where}" if where else ""))
        if one.why:
            tell(f"  then: {one.why}")


def _count(one: Fitting) -> str:
    return f"at least {one.count}" if one.more else str(one.count)


def _print_use(found: WhatIf) -> None:
    changed: list[tuple[str, str, str, str, str]] = []
    same: list[tuple[str, str, str, str, str]] = []
    earlier = {(one.driver, one.pool): one for one in found.before.pools}
    totals: dict[str, list[PoolUse]] = {}
    for pool in found.after.pools:
        totals.setdefault(pool.driver, []).append(pool)
        old = earlier.get((pool.driver, pool.pool))
        was = "new" if old is None else "same" if old == pool else f"{old.free} free"
        (same if old == pool else changed).append(_use_row(f"{pool.driver}/{pool.pool}", (pool,), was))
    counted = {one.resource: one for one in found.before.counted}
    for item in found.after.counted:
        past = counted.get(item.resource)
        was = "new" if past is None else "same" if past == item else f"{past.free} free"
        chart = bar(item.used, item.devices)
        same.append((f"{item.resource} (counted)", chart, str(item.free), "-", was))
    summed = [
        _use_row(f"{driver}: {len(pools)} pools", pools, "") for driver, pools in totals.items() if len(pools) > 1
    ]
    rows = [*changed[:MOST_POOLS], *summed, *(same if len(same) <= MOST_POOLS else ())]
    if rows:
        tell()
        print_table(("POOL", "USED", "FREE", "TAINTED", "BEFORE"), rows)
    left = max(len(changed) - MOST_POOLS, 0) + (len(same) if len(same) > MOST_POOLS else 0)
    if left:
        tell(f"and {left} more; -o json has them all")


def _use_row(name: str, pools: Sequence[PoolUse], was: str) -> tuple[str, str, str, str, str]:
    used, devices = sum(one.used for one in pools), sum(one.devices for one in pools)
    return name, bar(used, devices), str(devices - used), str(sum(one.tainted for one in pools)), was


def bar(used: int, total: int) -> str:
    """A bar of fixed width, and the numbers: what is used of a total."""
    filled = min(BAR, -(-BAR * used // total)) if total > 0 and used > 0 else 0
    return f"{'█' * filled}{'░' * (BAR - filled)} {used}/{total}"


# -- for programs


def _document(found: WhatIf, estate: Estate, before: str, after: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": estate.source,
        "kubeVersion": {"before": before, "after": after},
        "pods": [{"pod": one.pod, "before": _place(one.before), "after": _place(one.after)} for one in found.pods],
        "schedulable": [one.pod for one in found.schedulable],
        "stuck": [one.pod for one in found.stuck],
        "unchanged": found.unchanged,
        "before": _situation(found.before),
        "after": _situation(found.after),
        "notes": list(found.notes),
        "notRead": [{"what": item.what, "why": item.why} for item in estate.skipped],
    }


def _place(one: Place) -> dict[str, str]:
    return {"how": one.how, "node": one.node, "why": one.why}


def _situation(one: Situation) -> dict[str, Any]:
    return {
        "pools": [
            {
                "driver": pool.driver,
                "pool": pool.pool,
                "node": pool.node,
                "devices": pool.devices,
                "used": pool.used,
                "free": pool.free,
                "tainted": pool.tainted,
            }
            for pool in one.pools
        ],
        "counted": [
            {
                "resource": item.resource,
                "nodes": item.nodes,
                "devices": item.devices,
                "used": item.used,
                "free": item.free,
            }
            for item in one.counted
        ],
        "fitting": [
            {
                "workload": item.workload,
                "count": item.count,
                "more": item.more,
                "nodes": dict(item.nodes),
                "why": item.why,
            }
            for item in one.fitting
        ],
    }
