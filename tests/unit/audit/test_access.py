"""Who may do what: the same answers as a real API server gave, and as the cluster in this process gives."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import pytest
from tests.support import ROOT

from regauge.base import Where
from regauge.cluster.access.identity import User
from regauge.cluster.access.reviews import reviewed
from regauge.cluster.bootstrap import new_api_server
from regauge.host import RealClock
from regauge.model import Document, Snapshot, find_kind
from regauge.model.kinds import NAMESPACE
from regauge.model.rbac import AUTHENTICATED, Action, Rights, Who

Object = dict[str, Any]
ANSWERS = ROOT / "tests" / "fixtures" / "access" / "answers.json"


@cache
def answers() -> Object:
    found: Object = json.loads(ANSWERS.read_text())
    return found


def rights(objects: list[Object]) -> Rights:
    return Rights.of(Snapshot.of(Document(one, Where("answers.json")) for one in objects))


def who(spec: Object) -> Who:
    return Who(spec.get("user", ""), tuple(spec.get("groups", ())))


def action(spec: Object) -> Action:
    path = spec.get("nonResourceAttributes")
    return Action(path["verb"], path=path["path"]) if path else Action(**spec["resourceAttributes"])


def differences(known: Rights, told: list[Object], callers: Any = who) -> list[Object]:
    return [one for one in told if known.allows(callers(one), action(one)) is not one["allowed"]]


@pytest.mark.row(149, how="vectors")
@pytest.mark.row(147, how="vectors")
def test_the_real_servers_answers() -> None:
    told = answers()["answers"]
    assert 0.1 < sum(one["allowed"] for one in told) / len(told) < 0.9
    assert len(told) >= 1000
    assert differences(rights(answers()["objects"]), told) == []


@pytest.mark.row(149, how="vectors")
def test_what_kubectl_auth_can_i_said() -> None:
    """It asks as the caller, to whom the server adds the groups that every caller has."""

    def impersonated(spec: Object) -> Who:
        user, groups = spec["user"], tuple(spec["groups"])
        if user.startswith("system:serviceaccount:"):
            groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
        return Who(user, (*groups, AUTHENTICATED))

    told = answers()["canI"]
    assert len({one["allowed"] for one in told}) == 2
    assert differences(rights(answers()["objects"]), told, impersonated) == []


def test_roles_that_nobody_has_summed_up_yet_are_summed_up() -> None:
    """Manifests of aggregated roles have no rules: the controller writes them when they are there."""
    bare = [{**one, "rules": []} if one.get("aggregationRule") else one for one in answers()["objects"]]
    assert any(one.get("aggregationRule") for one in bare)
    assert differences(rights(bare), answers()["answers"]) == []


@pytest.mark.row(149, how="vectors")
def test_the_cluster_in_this_process_answers_as_the_real_server() -> None:
    api = new_api_server(RealClock(), random.Random(1))
    for space in ("access-a", "access-b"):
        api.create(NAMESPACE, {"metadata": {"name": space}})
    for one in answers()["objects"]:
        kind = find_kind(one["apiVersion"], one["kind"])
        assert kind is not None
        api.create(kind, one, one["metadata"].get("namespace", ""))
    asker = User("admin", ("system:masters",))
    for told in answers()["answers"]:
        spec = {key: value for key, value in told.items() if key != "allowed"}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = reviewed(api.state.store, asker, "authorization.k8s.io", "subjectaccessreviews", body)["status"]
        assert status["allowed"] is told["allowed"], told
