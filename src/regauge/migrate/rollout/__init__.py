"""The rollout of a plan: the one half of `migrate` that acts on a cluster, by `kube` only. Imported by name."""

from regauge.migrate.rollout.ledger import PAUSE, PREFIX, Holder, Ledger, record_in
from regauge.migrate.rollout.looking import Reports, no_reports
from regauge.migrate.rollout.record import (
    ROLLOUT_STATES,
    STEP_STATES,
    Record,
    Result,
    RolloutEvent,
    RolloutState,
    StepEvent,
    StepRecord,
    StepState,
)
from regauge.migrate.rollout.running import Options, Rollout

__all__ = [
    "PAUSE",
    "PREFIX",
    "ROLLOUT_STATES",
    "STEP_STATES",
    "Holder",
    "Ledger",
    "Options",
    "Record",
    "Reports",
    "Result",
    "Rollout",
    "RolloutEvent",
    "RolloutState",
    "StepEvent",
    "StepRecord",
    "StepState",
    "no_reports",
    "record_in",
]
