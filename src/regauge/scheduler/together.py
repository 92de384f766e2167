"""Several claims: one after the other, as pods that come one by one, and all at once, as one pod with all of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regauge.allocator import Fit
from regauge.model.resource import ResourceClaim
from regauge.scheduler.explaining import POSSIBLE, ClaimAnswer, explain_claim, explain_unallocated
from regauge.scheduler.state import State


@dataclass(frozen=True, slots=True)
class SeveralAnswer:
    """`one_by_one`: each claim once the earlier ones have their devices; `together`: all that hold nothing yet on one node.

    `text` says where the two differ.
    """

    one_by_one: tuple[ClaimAnswer, ...]
    together: ClaimAnswer | None
    text: str

    @property
    def good(self) -> bool:
        return all(one.good for one in self.one_by_one)


def explain_claims(state: State, claims: Sequence[ResourceClaim]) -> SeveralAnswer:
    """The answers for claims in this order. The state is that of the first question again afterwards."""
    waiting = [claim for claim in claims if claim.status.allocation is None]
    together = explain_unallocated(state, waiting) if len(waiting) > 1 else None
    answers, flying = [], []
    for claim in claims:
        answer = explain_claim(state, claim)
        answers.append(answer)
        if answer.state == POSSIBLE and answer.cluster is not None:
            node = state.nodes[answer.cluster.fitting[0]].identity
            outcome = state.devices.allocator().allocate(node, [claim])
            if isinstance(outcome, Fit):
                state.devices.fly(claim, outcome.results[0])
                flying.append(claim.metadata.uid)
    for uid in flying:
        state.devices.land(uid)
    return SeveralAnswer(tuple(answers), together, _difference(answers, together))


def _difference(answers: Sequence[ClaimAnswer], together: ClaimAnswer | None) -> str:
    left = [one.claim for one in answers if not one.good]
    if together is None:
        return "each claim has its devices" if not left else f"{', '.join(left)} cannot be had"
    if not left:
        same = "and all at once on one node" if together.good else "but not all at once on one node"
        return f"all can be had one after the other, {same}"
    if together.good:
        return (
            f"they do not fit one at a time ({', '.join(left)} finds nothing left), although a placement exists: "
            f"{together.text}; name the smaller alternative first, or use one pod or one claim for all of them"
        )
    return f"they fit neither one at a time ({', '.join(left)} finds nothing) nor all at once"
