"""The rights of a rollout: deploy/rollout gives what rollouts call, and nothing else."""

from __future__ import annotations

from typing import Any

import yaml
from tests.support import ROOT
from tests.unit.rehearsal.plans import Stage, estate, staged

from regauge.collect import sample_estate
from regauge.kube import MemoryClient, ObjectList
from regauge.migrate.rollout import RolloutState
from regauge.model import Kind, Object, Snapshot
from regauge.model.kinds import (
    CRON_JOB,
    DEVICE_CLASS,
    NAMESPACE,
    POD,
    REPLICA_SET,
)
from regauge.rehearsal.completing import completed
from regauge.rehearsal.plan_run import MortalClient

Call = tuple[str, str, str]
OTHER_KINDS_OF_WORKLOADS = {
    *((verb, CRON_JOB) for verb in ("create", "get", "update")),
    *((verb, REPLICA_SET) for verb in ("create", "get", "update")),
    *((verb, POD) for verb in ("create", "delete", "get")),
}
"""Moved as Deployments (the first two) and Jobs (the last) are, which the estates here have."""
CLASSES_THAT_ARE_MISSING = {(verb, DEVICE_CLASS) for verb in ("create", "delete", "get")}
"""Made and removed as claim templates are."""


class Recording(MortalClient):
    """Notes which verb is used on which resource."""

    def __init__(self, api: Any) -> None:
        super().__init__(api)
        self.calls: set[Call] = set()

    def _note(self, verb: str, kind: Kind, subresource: str = "") -> None:
        self.calls.add((verb, kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural))

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._note("get", kind)
        return await super().get(kind, name, namespace)

    async def list(self, kind: Kind, namespace: str = "", **options: Any) -> ObjectList:
        self._note("list", kind)
        return await super().list(kind, namespace, **options)

    async def create(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        self._note("create", kind, subresource)
        return await super().create(kind, object_, namespace, subresource=subresource)

    async def try_create(self, kind: Kind, object_: Object, namespace: str = "") -> Object:
        self._note("create", kind)
        return await super().try_create(kind, object_, namespace)

    async def update(self, kind: Kind, object_: Object, namespace: str = "", *, subresource: str = "") -> Object:
        self._note("update", kind, subresource)
        return await super().update(kind, object_, namespace, subresource=subresource)

    async def patch(self, kind: Kind, name: str, body: Any, namespace: str = "", **options: Any) -> Object:
        self._note("patch", kind, options.get("subresource", ""))
        return await super().patch(kind, name, body, namespace, **options)

    async def delete(self, kind: Kind, name: str, namespace: str = "", **options: Any) -> None:
        self._note("delete", kind)
        await super().delete(kind, name, namespace, **options)


def calls_of(snapshot: Snapshot) -> set[Call]:
    """What a rollout there and back calls on an estate."""

    async def body(stage: Stage) -> set[Call]:
        user = MemoryClient(stage.world.control.api.as_actor("user"))
        await user.create(NAMESPACE, {"metadata": {"name": "regauge"}})  # the manifest makes it
        client = Recording(stage.world.control.api.as_actor("rollout"))
        assert (await stage.rollout(client).run()).state is RolloutState.DONE
        assert (await stage.rollout(client).roll_back()).state is RolloutState.ROLLED_BACK
        return client.calls

    return staged(body, snapshot)


def granted() -> set[Call]:
    documents = [item for item in yaml.safe_load_all((ROOT / "deploy/rollout/rbac.yaml").read_text()) if item]
    rules = [rule for item in documents for rule in item.get("rules", ())]
    return {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_rollout_has_the_rights_it_uses_and_no_others() -> None:
    used = calls_of(estate()) | calls_of(completed(sample_estate().snapshot))
    more = {(verb, kind.group, kind.plural) for verb, kind in OTHER_KINDS_OF_WORKLOADS | CLASSES_THAT_ARE_MISSING}
    assert not more & used  # what is used here needs no word
    assert granted() == used | more
    assert not {verb for verb, _, _ in granted()} & {"*", "escalate", "bind", "impersonate"}
