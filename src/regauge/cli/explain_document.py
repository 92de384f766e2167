"""What `regauge explain -o json` prints: the answers as documents, of a fixed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regauge.allocator import DeviceReason, Explanation, SlotNote
    from regauge.collect import Estate
    from regauge.scheduler import ClaimAnswer, Holding, NodeVerdict, PodAnswer, SeveralAnswer

SCHEMA = "regauge.explain/v1"
MOST_DETAILED = 100
Json = dict[str, Any]


def claim_document(answer: ClaimAnswer, estate: Estate, minor: str) -> Json:
    """A claim's answer. Nodes are detailed nearest first, a hundred of them at most."""
    return {**_head(estate, minor), "kind": "claim", **_claim(answer)}


def claims_document(answer: SeveralAnswer, estate: Estate, minor: str) -> Json:
    """The answers for several claims."""
    return {
        **_head(estate, minor),
        "kind": "claims",
        "good": answer.good,
        "text": answer.text,
        "claims": [_claim(one) for one in answer.one_by_one],
        "together": None if answer.together is None else _claim(answer.together),
    }


def pod_document(answer: PodAnswer, estate: Estate, minor: str) -> Json:
    """A pod's answer, in the same form."""
    return {
        **_head(estate, minor),
        "kind": "pod",
        "name": answer.pod,
        "answer": answer.state,
        "good": answer.good,
        "text": answer.text,
        "message": answer.message,
        "node": answer.node,
        "choice": list(answer.choice),
        "fitting": [one.node for one in answer.nodes if not one.plugin],
        "reasons": _reasons(answer.reasons),
        "nodes": [_verdict(one) for one in answer.nodes[:MOST_DETAILED]],
        "nodesLeftOut": max(len(answer.nodes) - MOST_DETAILED, 0),
        "claims": [_claim(one) for one in answer.claims],
        "notes": list(answer.notes),
    }


def _head(estate: Estate, minor: str) -> Json:
    return {
        "schema": SCHEMA,
        "source": estate.source,
        "kubeVersion": minor,
        "notRead": [{"what": one.what, "why": one.why} for one in estate.skipped],
    }


def _claim(answer: ClaimAnswer) -> Json:
    cluster = answer.cluster
    nodes = [] if cluster is None else [_explanation(cluster.nodes[one]) for one in answer.order[:MOST_DETAILED]]
    return {
        "name": answer.claim,
        "answer": answer.state,
        "good": answer.good,
        "text": answer.text,
        "holding": None if answer.holding is None else _holding(answer.holding),
        "fitting": [] if cluster is None else list(cluster.fitting),
        "reasons": [] if cluster is None else _reasons(cluster.reasons),
        "nodes": nodes,
        "nodesLeftOut": max(len(answer.order) - MOST_DETAILED, 0),
        "notes": list(answer.notes),
    }


def _reasons(reasons: tuple[tuple[str, int, str], ...]) -> list[Json]:
    return [{"reason": reason, "nodes": count, "example": example} for reason, count, example in reasons]


def _holding(found: Holding) -> Json:
    return {
        "since": found.since,
        "usableOn": list(found.nodes),
        "users": list(found.users),
        "devices": [
            {
                "request": one.request,
                "device": str(one.device),
                "adminAccess": one.admin_access,
                "share": one.share,
                "consumed": dict(one.consumed),
                "remarks": list(one.remarks),
            }
            for one in found.devices
        ],
    }


def _verdict(one: NodeVerdict) -> Json:
    return {
        "node": one.node,
        "fits": not one.plugin,
        "score": one.score,
        "plugin": one.plugin,
        "reasons": list(one.reasons),
        "details": list(one.details),
        "devices": None if one.devices is None else _explanation(one.devices),
    }


def _explanation(one: Explanation) -> Json:
    bound = one.bound
    return {
        "node": one.node,
        "outcome": one.outcome,
        "text": one.text,
        "error": one.error,
        "pools": [{"pool": pool.pool, "state": pool.state, "text": pool.text} for pool in one.pools],
        "shortage": None
        if bound is None
        else {
            "claim": bound.claim,
            "request": bound.slot,
            "of": bound.kind,
            "need": bound.need,
            "have": bound.have,
            "detail": bound.detail,
        },
        "requests": [_request(note) for note in one.requests],
        "wouldFit": [change.text for change in one.would_fit],
        "missedByThisVersion": [change.text for change in one.missed],
        "slow": one.slow,
    }


def _request(note: SlotNote) -> Json:
    return {
        "claim": note.claim,
        "request": note.request,
        "wanted": note.wanted,
        "matching": note.matching,
        "chosen": list(note.chosen),
        "text": note.text,
        "devices": [_device(one) for one in note.devices],
    }


def _device(one: DeviceReason) -> Json:
    return {
        "device": str(one.device),
        "verdict": one.kind,
        "text": one.text,
        "seen": dict(one.seen),
        "hints": list(one.hints),
    }
