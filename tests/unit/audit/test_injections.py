"""Each fault, put into a cluster through its API server or told by its node, is found by its code and by no other."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Any

import pytest
from tests.unit.audit.estates import NOW_S, estate_of
from tests.unit.audit.injections import ELSEWHERE, HEALTHY, REFUSED, SPACE, Fault, claim, faults, pod

from regauge.audit import audit_estate, audit_rules
from regauge.base import Where
from regauge.cluster.api import Api
from regauge.cluster.bootstrap import new_api_server
from regauge.collect import AUDIT_KINDS, collect_live
from regauge.features import rules
from regauge.kube import ApiError, MemoryClient
from regauge.model import Document, find_kind
from regauge.model.kinds import CORE_EVENT

Object = dict[str, Any]
FAULTS = dict(faults())


class Clock:
    """It stands still, an hour before the audit."""

    def now_s(self) -> float:
        return NOW_S - 3600

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, duration_s: float) -> None:
        raise AssertionError("nobody waits here")


def kind_of(one: Object) -> Any:
    kind = find_kind(one["apiVersion"], one["kind"])
    assert kind is not None
    return kind


def named(value: Any, uids: dict[str, str]) -> Any:
    """The value with UID:KIND/NAMESPACE/NAME replaced by the uid that the server gave."""
    if isinstance(value, dict):
        return {key: named(one, uids) for key, one in value.items()}
    if isinstance(value, list):
        return [named(one, uids) for one in value]
    return uids[value[4:]] if isinstance(value, str) and value.startswith("UID:") else value


def write(api: Api, one: Object, uids: dict[str, str]) -> None:
    """Create it, then its status as its own writer would."""
    kind, bare = kind_of(one), copy.deepcopy(one)
    status = bare.pop("status", None)
    metadata = bare["metadata"]
    made = api.create(kind, named(bare, uids), metadata.get("namespace", ""))
    uids[f"{one['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"] = made["metadata"]["uid"]
    if status:
        api.update(kind, {**made, "status": {**made.get("status", {}), **named(status, uids)}},
                   metadata.get("namespace", ""), subresource="status")  # fmt: skip


def cluster(fault: Fault) -> tuple[Api, dict[str, str]]:
    api = new_api_server(Clock(), random.Random(1), rules=rules("1.36", fault.gates))
    uids: dict[str, str] = {}
    order = {"Pod": 1, "ResourceClaim": 2, "Event": 3}
    for one in sorted((*HEALTHY, *fault.objects), key=lambda one: order.get(one["kind"], 0)):
        write(api, one, uids)
    return api, uids


def audited(api: Api, fault: Fault, uids: dict[str, str]) -> set[str]:
    estate = asyncio.run(collect_live(MemoryClient(api), more=(*AUDIT_KINDS, CORE_EVENT)))
    documents = [*estate.snapshot.all_documents(), *(Document(one, Where("beside")) for one in fault.beside)]
    return {one.code for one in audit_estate(estate_of(documents, named(dict(fault.given), uids))).findings}


def test_the_healthy_cluster_has_no_finding() -> None:
    api, uids = cluster(Fault())
    assert audited(api, Fault(), uids) == set()


@pytest.mark.row(4, how="unit")
@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_found_by_its_code(code: str) -> None:
    fault = FAULTS[code]
    api, uids = cluster(fault)
    assert audited(api, fault, uids) == {code, *fault.also}


@pytest.mark.parametrize("code", REFUSED)
def test_what_a_server_refuses_does_not_get_in(code: str) -> None:
    api, uids = cluster(Fault())
    with pytest.raises(ApiError) as caught:
        write(api, REFUSED[code], uids)
    assert caught.value.code in (400, 422)


def test_a_claim_that_is_not_let_go() -> None:
    fault = Fault((claim("kept", "g1", pods=("kept",)), pod("kept", "kept", phase="Succeeded")))
    api, uids = cluster(fault)
    api.delete(kind_of(claim("kept")), "kept", SPACE)
    assert audited(api, fault, uids) == {"CLAIM-UNRELEASED", "CLAIM-RESERVED-BY-DEAD"}


def test_every_rule_is_in_the_table() -> None:
    assert sorted((*FAULTS, *REFUSED, *ELSEWHERE)) == sorted(audit_rules())
