"""Workloads that are wrong in one way each, against what a real API server (1.36.3) answered to them.

`workload_answers.jsonl` was recorded with the HTTP client of this project: the body (and the patch, for updates), the
code, and the message or the spec that came back.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.vectors import FixedClock, without_empty, without_service_account

from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.kube import ApiError
from regauge.model import find_kind

CASES = [json.loads(line) for line in (Path(__file__).parent / "workload_answers.jsonl").read_text().splitlines()]
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Go prints the whole template with its own field names; ours is the document.
PRINTED_DIFFERENTLY = {"update/Job/template"}
# A field that the kind does not have stays in ours: these kinds are not read through views of all their fields.
STAYS = {"create/ReplicaSet/history": "revisionHistoryLimit"}


def answer(api: Api, case: dict[str, Any]) -> dict[str, Any]:
    kind = find_kind(case["body"]["apiVersion"], case["body"]["kind"])
    assert kind is not None
    try:
        made = api.create(kind, case["body"], "default")
        if "patch" in case:
            made = api.patch(kind, "w", case["patch"], "default")
    except ApiError as error:
        return {"code": error.code, "message": error.message}
    return {"code": 200 if "patch" in case else 201, "spec": made["spec"]}


def plain(found: dict[str, Any]) -> Any:
    spec = found.get("spec") or {}
    if "template" in spec:
        spec = {**spec, "template": {**spec["template"], "spec": without_service_account(spec["template"]["spec"])}}
    told = {"code": found["code"], "message": found.get("message"), "spec": without_empty(spec)}
    return json.loads(_UID.sub("<uid>", json.dumps(told)))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_workload_is_taken_or_refused_in_the_same_words(case: dict[str, Any]) -> None:
    api = new_api_server(FixedClock(), random.Random(1)).as_actor("test")
    ours, theirs = plain(answer(api, case)), plain(case)
    if case["name"] in PRINTED_DIFFERENTLY:
        ours, theirs = ({**item, "message": item["message"][:50]} for item in (ours, theirs))
    if case["name"] in STAYS:
        assert ours["spec"].pop(STAYS[case["name"]]) == -1
    assert ours == theirs
