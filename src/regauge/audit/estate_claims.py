"""Rules about claims: those that wait, those that are not let go, and those that cannot serve who uses them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from regauge.audit.estate_events import scheduling_events
from regauge.audit.findings import Evidence
from regauge.audit.ground import GRACE_S, Ground, Spot, at, seen, some
from regauge.base import Where
from regauge.model import Document, NodeSelector, matches_node
from regauge.model.core import Pod
from regauge.model.kinds import NODE, POD
from regauge.model.resource import FINALIZER, MAX_RESERVED_FOR, ResourceClaim
from regauge.scheduler import ClaimAnswer, explain_claim, is_terminal


def stuck(ground: Ground) -> Iterator[Spot]:
    """CLAIM-STUCK: pods wait for a claim that cannot be allocated; why is what the scheduler would say."""
    if not ground.has(NODE):
        return
    answers: dict[bytes, ClaimAnswer] = {}
    for document, claim in ground.claims:
        if claim.status.allocation is not None or not ground.settled(claim.metadata.creation_timestamp):
            continue
        waiting = [pod for pod in ground.users(claim) if not pod.spec.node_name and not is_terminal(pod)]
        if not waiting:
            continue
        key = msgspec.json.encode((claim.metadata.namespace, claim.spec))
        answer = answers[key] if key in answers else answers.setdefault(key, explain_claim(ground.state, claim))
        if not answer.good:
            text = answer.text.replace(answer.claim, f"{document.namespace}/{document.name}")
            evidence = (
                seen(document, text),
                *(_pod(ground, pod, "waits for it") for pod in waiting[:5]),
                *scheduling_events(ground, waiting),
                *(Evidence(Where(), note) for note in answer.notes[:3]),
            )
            what = f"{document.title} {answer.state}, {len(waiting)} pods wait: {text}"
            yield Spot(document.title, what, evidence)


def unreleased(ground: Ground) -> Iterator[Spot]:
    """CLAIM-UNRELEASED: a deleted claim still holds devices, or is kept by finalizers."""
    for document, claim in ground.claims:
        deleted = claim.metadata.deletion_timestamp
        age = ground.seconds_since(deleted)
        if not deleted or not ground.settled(deleted) or _live_users(ground, claim):
            continue
        held = _devices(claim)
        told = (
            f"still holds {some(held)}" if held else f"is kept by {some(claim.metadata.finalizers) or 'nothing told'}"
        )
        since = f", {age:.0f} s after its deletion" if age is not None else ""
        users = [f"{one.resource} {one.name}" for one in claim.status.reserved_for]
        evidence = [seen(document, f"deleted at {deleted}", "metadata.deletionTimestamp")]
        if claim.metadata.finalizers:
            evidence.append(seen(document, f"finalizers {some(claim.metadata.finalizers)}", "metadata.finalizers"))
        if users:
            evidence.append(seen(document, f"reserved for {some(users)}", "status.reservedFor"))
        yield Spot(document.title, f"{document.title} {told}{since}", tuple(evidence), held)


def reserved_by_dead(ground: Ground) -> Iterator[Spot]:
    """CLAIM-RESERVED-BY-DEAD: a claim is reserved for pods that are gone, or that have ended."""
    if not ground.has(POD):
        return
    for document, claim in ground.claims:
        dead = []
        for user in claim.status.reserved_for:
            if user.resource != "pods" or user.api_group:
                continue
            pod = ground.pods.get((claim.metadata.namespace, user.name))
            if pod is None or (user.uid and pod.metadata.uid and pod.metadata.uid != user.uid):
                dead.append(f"{user.name} ({user.uid}): there is no such pod")
            elif is_terminal(pod) and _ended_long_ago(ground, pod):
                dead.append(f"{user.name}: {pod.status.phase}")
        if dead:
            what = f"{document.title} is reserved for pods that do not run any more: {some(dead)}"
            evidence = tuple(seen(document, text, "status.reservedFor") for text in dead[:10])
            yield Spot(document.title, what, evidence, _devices(claim))


def reserved_by_nobody(ground: Ground) -> Iterator[Spot]:
    """CLAIM-IDLE: a claim holds devices and is reserved for nobody; the claim controller would let them go."""
    for document, claim in ground.claims:
        allocation = claim.status.allocation
        if allocation is None or claim.status.reserved_for or claim.metadata.deletion_timestamp:
            continue
        if ground.settled(allocation.allocation_timestamp or claim.metadata.creation_timestamp):
            held = _devices(claim)
            what = f"{document.title} holds {some(held)} and is reserved for nobody"
            yield Spot(document.title, what, (seen(document, "empty", "status.reservedFor"),), held)


def bypassed(ground: Ground) -> Iterator[Spot]:
    """CLAIM-BYPASSED: a pod is bound to a node while its claim is not allocated, or not reserved for it."""
    for document, claim in ground.claims:
        reserved = {(one.name, one.uid) for one in claim.status.reserved_for}
        groups = any(one.resource != "pods" for one in claim.status.reserved_for)
        for pod in ground.users(claim):
            if not pod.spec.node_name or is_terminal(pod) or pod.metadata.deletion_timestamp or groups:
                continue
            mine = (pod.metadata.name, pod.metadata.uid) in reserved
            if (claim.status.allocation is None or not mine) and ground.settled(pod.metadata.creation_timestamp):
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                lack = "not allocated" if claim.status.allocation is None else "not reserved for it"
                what = (
                    f"pod {name} is bound to node {pod.spec.node_name}, and its claim {claim.metadata.name} is {lack}"
                )
                evidence = (_pod(ground, pod, f"nodeName {pod.spec.node_name}"), seen(document, lack, "status"))
                yield Spot(f"Pod {name}", what, evidence)


def without_finalizer(ground: Ground) -> Iterator[Spot]:
    """CLAIM-UNPROTECTED: an allocated claim lacks the finalizer that keeps it while devices are in use."""
    for document, claim in ground.claims:
        if claim.status.allocation is not None and FINALIZER not in claim.metadata.finalizers:
            what = f"{document.title} holds {some(_devices(claim))} without the finalizer {FINALIZER}"
            yield Spot(document.title, what, (seen(document, some(claim.metadata.finalizers) or "none",
                                                   "metadata.finalizers"),), _devices(claim))  # fmt: skip


def full(ground: Ground) -> Iterator[Spot]:
    """CLAIM-FULL: a claim is reserved as often as can be; whoever comes next waits."""
    for document, claim in ground.claims:
        count = len(claim.status.reserved_for)
        if count >= MAX_RESERVED_FOR:
            what = f"{document.title} is reserved {count} times, the most that is possible"
            yield Spot(document.title, what, (seen(document, f"{count} entries", "status.reservedFor"),))


def nowhere(ground: Ground) -> Iterator[Spot]:
    """CLAIM-NODE-GONE: the nodes on which a claim's devices can be used are not there."""
    nodes = ground.snapshot.nodes
    if not nodes:
        return
    for document, claim in ground.claims:
        allocation = claim.status.allocation
        selector = allocation.node_selector if allocation else None
        if selector is None or _named_node(selector) in ground.node_names:
            continue
        if any(matches_node(selector, node) for node in nodes):
            continue
        wanted = [
            value
            for term in selector.node_selector_terms
            for one in (*term.match_fields, *term.match_expressions)
            for value in one.values
        ]
        what = f"{document.title} holds {some(_devices(claim))} of nodes that are not there: {some(wanted)}"
        evidence = (seen(document, some(wanted), "status.allocation.nodeSelector"),)
        yield Spot(document.title, what, evidence, _devices(claim))


def device_gone(ground: Ground) -> Iterator[Spot]:
    """CLAIM-DEVICE-GONE: a claim holds a device that its pool does not have any more."""
    pools = {(one.spec.driver, one.spec.pool.name) for one in ground.newest}
    for document, claim in ground.claims:
        results = claim.status.allocation.devices.results if claim.status.allocation else ()
        lost = tuple(
            f"{one.driver}/{one.pool}/{one.device}"
            for one in results
            if (one.driver, one.pool) in pools and (one.driver, one.pool, one.device) not in ground.devices
        )
        if lost:
            what = f"{document.title} holds {some(lost)}, which the pool does not have any more"
            yield Spot(document.title, what, (seen(document, some(lost), "status.allocation.devices"),), lost)


def _named_node(selector: NodeSelector) -> str:
    """The one node that a selector names and asks nothing more of, as allocations of one node's devices do; else ""."""
    terms = selector.node_selector_terms
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    one = terms[0].match_fields[0]
    return one.values[0] if (one.key, one.operator, len(one.values)) == ("metadata.name", "In", 1) else ""


def _live_users(ground: Ground, claim: ResourceClaim) -> bool:
    """Whether pods that run keep the claim: a deleted claim stays until they end, as it should."""
    return any(pod.spec.node_name and not is_terminal(pod) for pod in ground.users(claim))


def _ended_long_ago(ground: Ground, pod: Pod) -> bool:
    ends = [
        ground.seconds_since(status.state.get("terminated", {}).get("finishedAt"))
        for status in pod.status.container_statuses
    ]
    known = [age for age in ends if age is not None]
    return not known or min(known) > GRACE_S


def _devices(claim: ResourceClaim) -> tuple[str, ...]:
    results = claim.status.allocation.devices.results if claim.status.allocation else ()
    return tuple(f"{one.driver}/{one.pool}/{one.device}" for one in results)


def _pod(ground: Ground, pod: Pod, text: str) -> Evidence:
    document: Document | None = ground.pod_document(pod)
    return Evidence(at(document) if document else Where(object=f"Pod {pod.metadata.name}"), text)
