"""A new draft with what people said in an older contract: their words outlive what can be read anew. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from regauge.audit.contract import AutoscalerPin, Contract, FeaturePin, ModePin, PoolPin
from regauge.audit.contract_drafting import known_minor, watched
from regauge.features import KNOWN_MINORS


def with_answers(draft: Contract, old: Contract) -> Contract:
    """The draft completed from `old`: the policy; reasons, canaries, ways back and statements whose subject is the same."""
    policy = old.policy
    return replace(
        draft,
        cluster=old.cluster or draft.cluster,
        policy=policy,
        features=tuple(_feature(one, old) for one in draft.features),
        watch=watched(draft.features, known_minor(draft.kubernetes.version) or KNOWN_MINORS[-1], policy),
        node_pools=tuple(_pool(one, old) for one in draft.node_pools),
        modes=tuple(_mode(one, old) for one in draft.modes),
        autoscaler=_autoscaler(draft.autoscaler, old.autoscaler),
    )


def _feature(one: FeaturePin, old: Contract) -> FeaturePin:
    said = next((pin for pin in old.features if pin.gate == one.gate and pin.stage == one.stage), None)
    return replace(one, accepted=said.accepted) if said else one


def _pool(one: PoolPin, old: Contract) -> PoolPin:
    said = next(
        (pin for pin in old.node_pools if pin.name == one.name and pin.mode == one.mode and pin.rationale), None
    )
    return replace(one, rationale=said.rationale) if said else one


def _mode(one: ModePin, old: Contract) -> ModePin:
    said = next((pin for pin in old.modes if pin.mode == one.mode), None)
    if said is None:
        return one
    return replace(
        one,
        canary=said.canary or one.canary,
        rollback=said.rollback or one.rollback,
        rehearsal=one.rehearsal if one.rehearsal.digest else said.rehearsal,
    )


def _autoscaler(one: AutoscalerPin, old: AutoscalerPin) -> AutoscalerPin:
    if one.name and one.name != old.name:
        return one
    return replace(one, name=old.name, statement=old.statement)
