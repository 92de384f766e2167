"""Workloads in both forms, counting and claiming, scheduled one after the other on an estate as it stands, and compared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regauge.base import InputError
from regauge.kube import AlreadyExists, ApiError
from regauge.migrate import (
    AskStack,
    Converted,
    ConvertOptions,
    Workload,
    cleaned,
    convert,
    find_workloads,
    ground_of,
    reference_of,
)
from regauge.model import Document, Object, Rules, Snapshot
from regauge.model.kinds import NAMESPACE, RESOURCE_CLAIM_TEMPLATE
from regauge.rehearsal.completing import completed_document
from regauge.rehearsal.dump import DumpOutcome, set_up_dump
from regauge.rehearsal.dump_moves import RUNNING_KINDS, is_gone, placement_of, pods_now, why_waiting
from regauge.rehearsal.nodes import NodeWorld
from regauge.rehearsal.report import Comparison, OpenStep, Placement, Recorder
from regauge.rehearsal.watching import apply, remove, until

GONE_WITHIN_S = 120.0
PLACED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Pair:
    """One workload in two forms, each with what has to be there before it. `there`: the estate has it already."""

    workload: Workload
    first: tuple[Object, ...]
    second: tuple[Object, ...]
    there: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """How a form ended: where its pods are, how many of them run, with how many devices, and why others wait."""

    placement: Placement
    running: int
    devices: int
    waits: str


async def rehearse_convert(
    world: NodeWorld, snapshot: Snapshot, rules: Rules, manifests: Sequence[Document], recorder: Recorder
) -> DumpOutcome:
    """Each workload of `manifests`, or without any each of the estate that counts devices, in both forms.

    A form that places fewer pods, or with other devices in number, fails its step and says why.
    """
    pairs, unpaired = pairs_of(snapshot, rules, manifests)
    stands = await set_up_dump(world, snapshot, rules, recorder)
    comparisons = [await _compare(world, recorder, pair) for pair in pairs]
    return DumpOutcome(stands.pods, tuple(comparisons), (*stands.notes, *unpaired))


def pairs_of(
    snapshot: Snapshot, rules: Rules, manifests: Sequence[Document]
) -> tuple[tuple[Pair, ...], tuple[str, ...]]:
    """The workloads in both forms, and why others have none. Raises `InputError` where no workload is left to compare."""
    given = Snapshot.of([completed_document(document) for document in manifests])
    source = given if manifests else snapshot
    own = {reference_of(document.object) for document in snapshot.all_documents() if document.known is not None}
    ground = ground_of(rules, Snapshot.of([*snapshot.all_documents(), *given.all_documents()]))
    pairs, unpaired = [], []
    for workload in find_workloads(source):
        stacks = {ask.stack for ask in workload.asks}
        if AskStack.CLAIM in stacks and not manifests:
            continue
        to = AskStack.LIMITS if AskStack.CLAIM in stacks else AskStack.CLAIM
        (made,) = convert([workload.document], ground, ConvertOptions(to=to, advise=False)).items
        why = _why_none(workload, made)
        if why:
            unpaired.append(f"{workload.title} is not compared: {why}")
            continue
        there = reference_of(workload.document.object) in own
        first = (*_templates(workload, given), cleaned(workload.document.object))
        pairs.append(Pair(workload, first, (*made.before, made.object or {}), there, made.notes))
    if not pairs:
        fix = "give manifests of workloads that ask for devices, or an estate that has some"
        raise InputError("; ".join(unpaired[:5]) or "no workload asks for devices", fix=fix)
    return tuple(pairs), tuple(unpaired)


def _why_none(workload: Workload, made: Converted) -> str:
    if workload.kind not in RUNNING_KINDS:
        return f"a rehearsal has no controller for a {workload.kind}"
    if workload.document.object["metadata"].get("ownerReferences"):
        return "it belongs to another object"
    return "" if made.object is not None else "; ".join(made.reasons) or "it cannot be converted"


def _templates(workload: Workload, given: Snapshot) -> Iterable[Object]:
    """The claim templates that come with a workload of the manifests."""
    for document in given.documents(RESOURCE_CLAIM_TEMPLATE):
        if document.namespace == workload.namespace:
            yield cleaned(document.object)


async def _compare(world: NodeWorld, recorder: Recorder, pair: Pair) -> Comparison:
    workload = pair.workload
    step = recorder.begin(f"convert {workload.title}", f"{workload.title} is scheduled in both forms")
    if not pair.there:
        await _apply(world, step, pair.first)
    before = await _form(world, workload)
    await _away(world, step, workload, pair.first)
    await _apply(world, step, pair.second)
    after = await _form(world, workload)
    seen = f"{before.running} and {after.running} of {workload.replicas}"
    step.check(
        "as many pods run in both forms", after.running == before.running, "; ".join(filter(None, (seen, after.waits)))
    )
    told = f"{before.devices} and {after.devices}"
    step.check("with as many devices", after.devices == before.devices, told)
    step.details["nodes"] = {"before": before.placement.node, "after": after.placement.node}
    step.details["notes"] = list(pair.notes)
    await _away(world, step, workload, pair.second)
    if pair.there:
        await _apply(world, step, pair.first)
        again = await _form(world, workload)
        step.check("it runs again as before", again.running == before.running, f"{again.running} pods run")
    step.end()
    return Comparison(workload.title, before.placement, after.placement)


async def _form(world: NodeWorld, workload: Workload) -> Form:
    """How a form ends: every pod runs or has been told why it waits, or the time is over."""
    await until(world, lambda: _settled(world, workload), PLACED_WITHIN_S)
    names = frozenset(ask.name for ask in workload.asks)
    placement = await placement_of(world, workload, names)
    _, pods = await pods_now(world, workload)
    running = sum(pod.status.phase == "Running" for pod in pods)
    waits = "" if running == workload.replicas else await why_waiting(world, workload)
    return Form(placement, running, len(placement.devices), waits)


async def _settled(world: NodeWorld, workload: Workload) -> bool:
    _, pods = await pods_now(world, workload)
    return len(pods) == workload.replicas and all(
        pod.status.phase == "Running"
        or any(
            item.type == "PodScheduled" and item.status == "False" and item.message for item in pod.status.conditions
        )
        for pod in pods
    )


async def _apply(world: NodeWorld, step: OpenStep, objects: Iterable[Object]) -> None:
    for object_ in objects:
        metadata = object_["metadata"]
        try:
            await _ensure_namespace(world, metadata.get("namespace", ""))
            await apply(world.kube, object_)
        except AlreadyExists:
            continue
        except ApiError as error:
            step.check(f"{object_['kind']} {metadata['name']} is accepted", False, error.message)


async def _ensure_namespace(world: NodeWorld, name: str) -> None:
    if name:
        with contextlib.suppress(AlreadyExists):
            await world.kube.create(NAMESPACE, {"metadata": {"name": name}})


async def _away(world: NodeWorld, step: OpenStep, workload: Workload, objects: Sequence[Object]) -> None:
    """The objects and their pods are gone. What else the estate has stays: claim templates of others are kept."""
    for object_ in reversed(objects):
        await remove(world.kube, object_)
    gone = await until(world, lambda: is_gone(world, workload), GONE_WITHIN_S)
    if not gone:
        step.check("its pods go away", False, f"not within {GONE_WITHIN_S:g} s")
