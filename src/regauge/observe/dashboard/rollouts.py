"""The tables of rollouts and of their steps, from the records that rollouts keep in the cluster. Pure: it only reads."""

from __future__ import annotations

from typing import Any

from regauge.base import InputError
from regauge.migrate.rollout import PREFIX, StepRecord, record_in
from regauge.model import Snapshot
from regauge.model.kinds import CONFIG_MAP
from regauge.observe.dashboard.tables import Row, Table

MOST_RESULTS = 12


def rollout_tables(snapshot: Snapshot) -> dict[str, Table]:
    """The tables `rollouts` and `steps`. A record that cannot be read is a rollout in trouble, and says so."""
    rollouts: dict[str, Row] = {}
    steps: dict[str, Row] = {}
    for document in snapshot.documents(CONFIG_MAP):
        if not document.name.startswith(PREFIX):
            continue
        name = f"{document.namespace}/{document.name.removeprefix(PREFIX)}"
        try:
            record = record_in(document.object, document.title)
        except InputError as error:
            rollouts[name] = {"state": "unreadable", "reason": str(error)}
            continue
        if record is None:
            continue
        rollouts[name] = {"state": record.state.value, **({"reason": record.reason} if record.reason else {})}
        for number, (step, one) in enumerate(record.steps.items()):
            steps[f"{name}/{step}"] = _step(name, step, number, one)
    return {"rollouts": rollouts, "steps": steps}


def _step(rollout: str, name: str, number: int, one: StepRecord) -> Row:
    row: dict[str, Any] = {"rollout": rollout, "name": name, "number": number, "state": one.state.value}
    if one.began_s:
        row["beganS"] = int(one.began_s)
    if one.ended_s:
        row["endedS"] = int(one.ended_s)
    results = [[result.what, result.holds, result.seen] for result in one.results[-MOST_RESULTS:]]
    return row | ({"results": results} if results else {})
