"""Which workload of a dump moves first for each resource, and its move in the rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from regauge.migrate import (
    AskStack,
    Converted,
    ConvertOptions,
    Ground,
    Serving,
    Workload,
    assess,
    convert,
    device_matcher,
    find_workloads,
    ground_of,
    kind_risk,
)
from regauge.model import Rules, Snapshot
from regauge.model.core import Pod
from regauge.model.kinds import TEMPLATE_PATHS
from regauge.rehearsal.dump_plan import claimed_devices
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.ownership import snapshot_of
from regauge.rehearsal.report import Comparison, OpenStep, Placement, Recorder
from regauge.rehearsal.watching import apply, remove, until

GONE_WITHIN_S = 120.0
RUNNING_WITHIN_S = 120.0
RUNNING_KINDS = frozenset(kind.kind for kind in TEMPLATE_PATHS)
"""Kinds of other operators have no controller in a rehearsal."""


@dataclass(frozen=True, slots=True)
class Move:
    """One workload to move: from counting `resource_name` to a claim of `device_class`, in the form `converted`."""

    workload: Workload
    resource_name: str
    device_class: str
    how: str
    converted: Converted


def choose_moves(snapshot: Snapshot, rules: Rules) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """For each extended resource name the workload with least at stake that could move, and why others have none."""
    found = assess(snapshot, rules, device_matcher(rules))
    servings = {item.resource_name: item for item in found.servings}
    workloads = {item.title: item for item in find_workloads(snapshot)}
    ground = ground_of(rules, snapshot)
    moves, unmoved = [], []
    for name in sorted({row.asks_for for row in found.rows if row.stack is not AskStack.CLAIM}):
        rows = [row for row in found.rows if row.asks_for == name and row.stack is not AskStack.CLAIM]
        ready = [row for row in rows if row.ready and row.kind in RUNNING_KINDS]
        serving = servings[name]
        if not ready or serving.device_class is None or not serving.devices:
            unmoved.append(f"{name}: no workload can move: {serving.why or rows[0].needs[0]}")
            continue
        ready.sort(key=lambda row: (row.count * row.replicas, kind_risk(row.kind), row.title))
        made = [_move(workloads[row.title], serving, ground) for row in ready]
        first = next((move for move in made if move.converted.object is not None), None)
        if first is None:
            unmoved.append(f"{name}: no workload can move: {'; '.join(made[0].converted.reasons)}")
        else:
            moves.append(first)
    return tuple(moves), tuple(unmoved)


def _move(workload: Workload, serving: Serving, ground: Ground) -> Move:
    options = ConvertOptions(to=AskStack.CLAIM, resources=frozenset((serving.resource_name,)), advise=False)
    (converted,) = convert([workload.document], ground, options).items
    return Move(workload, serving.resource_name, serving.device_class or "", serving.how, converted)


async def move_workload(world: NodeWorld, recorder: Recorder, move: Move) -> Comparison | None:
    """Move one workload in the running world; the comparison, or None where it did not come up again."""
    title = move.workload.title
    step = recorder.begin(
        f"move {move.resource_name}", f"{title} moves from {move.resource_name} to {move.device_class}"
    )
    names = frozenset((move.resource_name,))
    before = await placement_of(world, move.workload, names)
    moved = move.converted
    await remove(world.kube, move.workload.document.object)
    gone = await until(world, lambda: is_gone(world, move.workload), GONE_WITHIN_S)
    step.check("its old pods are gone", bool(gone), "yes" if gone else f"not within {GONE_WITHIN_S:g} s")
    began_s = world.clock.monotonic_s()
    for object_ in (*moved.before, *([moved.object] if moved.object is not None else [])):
        await apply(world.kube, object_)
    running = await until(world, lambda: _running(world, move), RUNNING_WITHIN_S)
    took_s = world.clock.monotonic_s() - began_s
    seen = f"{took_s:.1f} s" if running else await why_waiting(world, move.workload)
    step.check(f"its {move.workload.replicas} pods run again within {RUNNING_WITHIN_S:g} s", bool(running), seen)
    after = await placement_of(world, move.workload, names, round(took_s, 2)) if running else None
    if after is not None:
        _check_devices(step, move, after)
        step.details["how"] = move.how
        step.details["notes"] = list(moved.notes)
    step.end()
    return Comparison(title, before, after) if after is not None else None


def _check_devices(step: OpenStep, move: Move, after: Placement) -> None:
    asked = sum(ask.count for ask in move.workload.asks if ask.name == move.resource_name) * move.workload.replicas
    step.check(f"it holds {asked} devices by claim", len(after.devices) == asked, ", ".join(after.devices))


async def pods_now(world: NodeWorld, workload: Workload) -> tuple[Snapshot, list[Pod]]:
    """The live pods of the workload, by kind and name."""
    now = await snapshot_of(world.kube, workloads=True)
    found = [item for item in find_workloads(now) if item.title == workload.title]
    return now, list(found[0].pods) if found else []


async def is_gone(world: NodeWorld, workload: Workload) -> bool:
    now, pods = await pods_now(world, workload)
    old = {pod.metadata.uid for pod in workload.pods}
    return not pods and not any(pod.metadata.uid in old for pod in now.pods)


async def _running(world: NodeWorld, move: Move) -> bool:
    _, pods = await pods_now(world, move.workload)
    return len(pods) == move.workload.replicas and all(pod.status.phase == "Running" for pod in pods)


async def why_waiting(world: NodeWorld, workload: Workload) -> str:
    _, pods = await pods_now(world, workload)
    words = [
        condition.message
        for pod in pods
        for condition in pod.status.conditions
        if condition.status == "False" and condition.message
    ]
    return "; ".join(dict.fromkeys(words)) or f"{len(pods)} pods were made"


async def placement_of(
    world: NodeWorld, workload: Workload, names: frozenset[str], start_s: float | None = None
) -> Placement:
    """Where the pods of a workload are now and what they hold: by claims, else of `names` by their kubelets' word."""
    now, pods = await pods_now(world, workload)
    claims = {(item.metadata.namespace, item.metadata.name): item for item in now.claims}
    claimed = sorted({device for pod in pods for device in claimed_devices(pod, claims)})
    running = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    counted = [
        f"{report.node}/{device_id}"
        for report in await world.node_reports()
        for holder in report.holders
        if (holder.namespace, holder.pod) in running and holder.resource_name in names
        for device_id in holder.device_ids
    ]
    return Placement(
        pod=", ".join(sorted(pod.metadata.name for pod in pods)),
        stack="dra" if claimed else "device-plugin" if counted else "-",
        node=", ".join(sorted({pod.spec.node_name for pod in pods})),
        devices=tuple(device.partition("/")[2] for device in claimed) or tuple(sorted(counted)),
        start_s=start_s,
    )
