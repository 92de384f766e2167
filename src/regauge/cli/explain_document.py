"""What `regauge explain -o json` prints: the answers as documents, of the form that `explain_schema` has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from regauge.cli import explain_schema as form
from regauge.features import rules as rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.allocator import DeviceReason, Explanation, SlotNote, Timeout
    from regauge.collect import Estate
    from regauge.model import Rules
    from regauge.scheduler import ClaimAnswer, HeldDevice, Holding, NodeVerdict, PodAnswer, SeveralAnswer

MOST_DETAILED = 100
MOST_DETAILED_IN_LISTS = 10
MOST_STEPS = 1 << 53  # what any reader of JSON takes for an exact number
Json = dict[str, Any]


def claim_document(answer: ClaimAnswer, estate: Estate, rules: Rules) -> Json:
    """A claim's answer. Nodes are detailed nearest first, a hundred of them at most."""
    return _document("claim", estate, rules, _claim(answer))


def claims_document(answer: SeveralAnswer, estate: Estate, rules: Rules) -> Json:
    """The answers for several claims."""
    together = None if answer.together is None else _claim(answer.together)
    part = form.ClaimsPart(answer.good, answer.text, [_claim(one) for one in answer.one_by_one], together)
    return _document("claims", estate, rules, part)


def pod_document(answer: PodAnswer, estate: Estate, rules: Rules) -> Json:
    """A pod's answer, in the same form."""
    return _document("pod", estate, rules, _pod(answer))


def list_document(
    claims: Sequence[ClaimAnswer], pods: Sequence[PodAnswer], left_out: int, text: str, estate: Estate, rules: Rules
) -> Json:
    """The answers for all claims or all pods of a kind. Of each, ten nodes at most are detailed."""
    part = form.ListPart(
        good=all(one.good for one in claims) and all(one.good for one in pods),
        text=text,
        claims=[_claim(one, MOST_DETAILED_IN_LISTS) for one in claims],
        pods=[_pod(one, MOST_DETAILED_IN_LISTS) for one in pods],
        left_out=left_out,
    )
    return _document("list", estate, rules, part)


def _document(kind: str, estate: Estate, rules: Rules, part: form.Part) -> Json:
    defaults = rules_of(rules.minor).gates
    head = form.Head(
        schema=form.SCHEMA,
        source=estate.source,
        kube_version=rules.minor,
        gates={name: value for name, value in sorted(rules.gates.items()) if value != defaults[name]},
        allocator=rules.allocator_variant or "",
        not_read=[form.NotRead(one.what, one.why) for one in estate.skipped],
    )
    return {**msgspec.to_builtins(head), "kind": kind, **msgspec.to_builtins(part)}


def _claim(answer: ClaimAnswer, most: int = MOST_DETAILED) -> form.ClaimPart:
    cluster = answer.cluster
    return form.ClaimPart(
        name=answer.claim,
        answer=answer.state,
        good=answer.good,
        text=answer.text,
        holding=None if answer.holding is None else _holding(answer.claim, answer.holding),
        fitting=[] if cluster is None else list(cluster.fitting),
        reasons=[] if cluster is None else _reasons(cluster.reasons),
        nodes=[] if cluster is None else [_explanation(cluster.nodes[one]) for one in answer.order[:most]],
        nodes_left_out=max(len(answer.order) - most, 0),
        notes=list(answer.notes),
    )


def _pod(answer: PodAnswer, most: int = MOST_DETAILED) -> form.PodPart:
    return form.PodPart(
        name=answer.pod,
        answer=answer.state,
        good=answer.good,
        text=answer.text,
        message=answer.message,
        node=answer.node,
        choice=list(answer.choice),
        fitting=[one.node for one in answer.nodes if not one.plugin],
        reasons=_reasons(answer.reasons),
        nodes=[_verdict(one) for one in answer.nodes[:most]],
        nodes_left_out=max(len(answer.nodes) - most, 0),
        claims=[_claim(one) for one in answer.claims],
        notes=list(answer.notes),
    )


def _reasons(reasons: tuple[tuple[str, int, str], ...]) -> list[form.Reason]:
    return [form.Reason(*one) for one in reasons]


def _holding(claim: str, found: Holding) -> form.HoldingPart:
    devices = [_given(claim, one) for one in found.devices]
    return form.HoldingPart(found.since, list(found.nodes), list(found.users), devices)


def _given(claim: str, one: HeldDevice) -> form.GivenDevice:
    return form.GivenDevice(
        claim=claim,
        request=one.request,
        device=str(one.device),
        admin_access=one.admin_access,
        share=one.share,
        consumed=dict(one.consumed),
        tolerations=list(one.tolerations),
        binding_conditions=list(one.binding_conditions),
        binding_failure_conditions=list(one.binding_failure_conditions),
        remarks=list(one.remarks),
    )


def _verdict(one: NodeVerdict) -> form.Verdict:
    return form.Verdict(
        node=one.node,
        fits=not one.plugin,
        score=one.score,
        plugin=one.plugin,
        reasons=list(one.reasons),
        details=list(one.details),
        devices=None if one.devices is None else _explanation(one.devices),
    )


def _explanation(one: Explanation) -> form.NodePart:
    from regauge.scheduler import given, node_requirements

    bound, timeout = one.bound, one.timeout
    return form.NodePart(
        node=one.node,
        outcome=one.outcome,
        text=one.text,
        error=one.error,
        gets=[
            _given(claim, device)
            for claim, result in zip(one.claims, one.results)
            for device in given(result, shares=False)
        ],
        usable_on=list(dict.fromkeys(text for result in one.results for text in node_requirements(result))),
        pools=[
            form.Pool(
                pool.pool, pool.state, pool.text, pool.missing, list(pool.present), list(pool.outdated), list(pool.lost)
            )
            for pool in one.pools
        ],
        shortage=None
        if bound is None
        else form.Shortage(bound.claim, bound.slot, bound.kind, bound.need, bound.have, bound.detail),
        requests=[_request(note) for note in one.requests],
        would_fit=[change.text for change in one.would_fit],
        missed_by_this_version=[change.text for change in one.missed],
        filter_timeout=None if timeout is None else _timeout(timeout),
        slow=one.slow,
    )


def _timeout(timeout: Timeout) -> form.FilterTimeout:
    answer = timeout.answer if timeout.limited else "unlikely"
    return form.FilterTimeout(answer, min(timeout.steps, MOST_STEPS), timeout.complete)


def _request(note: SlotNote) -> form.RequestPart:
    devices = [_device(one) for one in note.devices]
    return form.RequestPart(note.claim, note.request, note.wanted, note.matching, list(note.chosen), note.text, devices)


def _device(one: DeviceReason) -> form.DevicePart:
    return form.DevicePart(str(one.device), one.kind, one.text, dict(one.seen), list(one.hints))
