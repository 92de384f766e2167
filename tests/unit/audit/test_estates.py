"""Whole estates: a healthy one gives nothing, others what is known to be wrong with them, each with its diagnosis."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from tests.support import shared
from tests.unit.audit.estates import NOW_S, estate_of, fixture

from regauge.audit import (
    AuditInput,
    AuditReport,
    EstateAudit,
    Finding,
    Profile,
    Severity,
    audit_document,
    audit_estate,
    settle,
)
from regauge.base import pretty_json
from regauge.collect import Estate, anonymised, load_estate, reports_of, without_secrets
from regauge.features import rules
from regauge.model import Document, read_documents
from regauge.model.manifest_yaml import read_yaml


def case(name: str) -> list[Document]:
    path = shared(f"cases/{name}/cluster.yaml")
    return list(read_documents(path.read_bytes(), "cluster.yaml"))


def only(audit: EstateAudit, code: str) -> Finding:
    (found,) = [one for one in audit.findings if one.code == code]
    return found


@pytest.mark.parametrize("profile", [None, *Profile])
def test_a_healthy_estate_gives_no_finding(profile: Profile | None) -> None:
    found = audit_estate(fixture("healthy", "good"), profile).findings
    assert [(one.code, one.what) for one in found] == []


def test_a_real_estate_gives_what_is_wrong_with_it(golden: Callable[[str, str], None]) -> None:
    place = shared("estates/small")
    estate = load_estate(str(place))
    given = AuditInput(
        estate.snapshot, rules("1.36", estate.gates), "small", NOW_S + 86400, estate.nodes, reports_of(estate),
        estate.git_version or "", rules("1.37"),
    )  # fmt: skip
    audit = audit_estate(given)
    document = audit_document(AuditReport(audit, settle(audit.findings, (), NOW_S)))
    golden("audit/small.json", pretty_json(document).replace(f"{place}/", "") + "\n")


def test_one_unhealthy_device_that_is_held_blocks_a_healthy_one() -> None:
    audit = audit_estate(estate_of(case("23-unhealthy-device-held-by-running-pod"), {}))
    found = only(audit, "HEALTH-UNHEALTHY-HELD")
    assert "pod team-a/holder holds the unhealthy device GPU-bad" in found.what
    assert "pod team-a/waiting waits only because of it" in found.what
    assert found.fix.startswith("restart or evict the holder")


@pytest.mark.row(261, how="unit")
@pytest.mark.row(158, how="unit")
def test_devices_advertised_twice_are_told_by_uuid() -> None:
    checkpoint = json.loads(shared("cases/27-same-gpu-advertised-twice/kubelet_internal_checkpoint").read_text())
    (pod,) = json.loads(shared("cases/27-same-gpu-advertised-twice/pods.json").read_text())
    metadata = {"name": pod["name"], "namespace": pod["namespace"], "uid": pod["uid"]}
    objects = [
        *case("27-same-gpu-advertised-twice"),
        *read_documents(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).encode(), "pods.json"),
    ]
    given = {"nodes": {"n1": {"plugin": checkpoint["Data"]["RegisteredDevices"],
                              "holds": checkpoint["Data"]["PodDeviceEntries"]}}}  # fmt: skip
    found = only(audit_estate(estate_of(objects, given)), "OWN-TWICE")
    assert found.severity is Severity.ERROR
    assert found.what == (
        "4 devices of node n1 advertised by several sources: used twice now: GPU-01;"
        " held under one name and free under another: GPU-00, GPU-03; free under both: GPU-02"
    )
    told = [one.text for one in found.evidence if one.text.startswith("GPU-01")]
    assert "pod team-c/plugin-pod" in "".join(told)
    assert "pod team-a/dra-a-pod" in "".join(told)


def test_a_claim_that_the_driver_has_and_the_api_has_not() -> None:
    name = "31-driver-checkpoint-vs-api"
    content = json.loads(shared(f"cases/{name}/driver-checkpoint.json").read_text())
    (event,) = _events(name)
    path = "/var/lib/kubelet/plugins/accel.example.net/checkpoint.json"
    given = {"nodes": {"n1": {"checkpoints": {path: content}, "events": [event]}}}
    found = only(audit_estate(estate_of(case(name), given)), "CHECKPOINT-ORPHAN")
    assert "c3c30000-0000-4000-8000-000000000001" in found.what
    assert "new-pod cannot start because of it" in found.what
    assert found.fix.startswith("unprepare c3c30000-0000-4000-8000-000000000001 on node n1")


def _events(name: str) -> list[dict[str, str]]:
    data = shared(f"cases/{name}/events.yaml").read_bytes()
    ((rows, _, _),) = read_yaml(data, "events.yaml")
    return [{"regarding": row["pod"], "reason": row["reason"], "message": row["message"]} for row in rows]


def test_one_claim_behind_a_deployment() -> None:
    audit = audit_estate(estate_of(case("32-shared-claim-hides-behind-a-deployment"), {}))
    wide = only(audit, "CLAIM-TOO-WIDE")
    assert (wide.where, "44 pods stay pending" in wide.what) == ("Deployment team-a/wide", True)
    gone = only(audit, "CLAIM-NODE-GONE")
    assert (gone.where, "n-gone" in gone.what) == ("ResourceClaim team-a/one-accel", True)
    apart = only(audit, "CLAIM-APART")
    assert (apart.where, "3 pods stay pending" in apart.what) == ("Deployment team-a/local", True)
    assert "resourceClaimTemplateName" in apart.fix


def test_one_object_that_cannot_be_read_does_not_hide_the_others() -> None:
    data = shared("cases/26-old-dra-manifests-to-v1/input.yaml").read_bytes()
    audit = audit_estate(estate_of(list(read_documents(data, "input.yaml")), {}), Profile.MANIFESTS)
    found = only(audit, "OBJECT-UNREADABLE")
    assert found.where == "ResourceClaim team-a/classic"
    assert found.evidence[0].where.line == 46
    assert "API-OFF" in {one.code for one in audit.findings}


def test_a_pool_whose_newest_generation_is_not_whole() -> None:
    audit = audit_estate(estate_of(case("03-newest-generation-incomplete"), {}))
    told = "pool accel.example.net/n1 has 1 of 2 slices in generation 4"
    assert only(audit, "SLICE-INCOMPLETE").what == told
    assert "2 slices of older ones are still there" in only(audit, "SLICE-OLD-GENERATION").what


@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36", "1.37"])
def test_slices_that_disagree_are_told_in_every_version(minor: str) -> None:
    audit = audit_estate(estate_of(case("04-slices-disagree-on-count"), {"kubeVersion": minor}))
    assert "2 and 3 slices, in one generation" in only(audit, "SLICE-COUNTS").what


def test_an_attribute_that_some_devices_lack_and_one_that_is_misspelled() -> None:
    audit = audit_estate(estate_of(case("10-cel-attribute-missing-on-one-node"), {}))
    unguarded, typo = only(audit, "REQUEST-FAILS"), only(audit, "REQUEST-MATCHES-NOTHING")
    assert (unguarded.where, typo.where) == ("ResourceClaim team-a/unguarded", "ResourceClaim team-a/typo")
    assert "fails on 1 of 2 devices of class accel: fw is on 1 of them" in unguarded.what
    assert unguarded.fix.startswith('guard it: "fw" in device.attributes')
    assert typo.what.endswith("none of the 2 devices of class accel: modle is on 0 of them (did you mean model?)")


def test_a_pool_that_says_it_has_no_slices() -> None:
    audit = audit_estate(estate_of(case("12-zero-slice-count-template"), {}))
    assert "say that it has 0 slices, and there are 1 of its generation" in only(audit, "SLICE-COUNTS").what


def test_an_anonymised_bundle_has_the_same_findings() -> None:
    estate = load_estate(str(shared("estates/small")))
    hidden = anonymised(without_secrets(estate)[0])

    def told(one: Estate) -> Counter[str]:
        given = AuditInput(one.snapshot, rules("1.36", one.gates), "small", NOW_S, server_version=one.git_version or "")
        return Counter(finding.code for finding in audit_estate(given).findings)

    before = told(estate)
    assert before["ACCESS-CLASSES"] == 1
    assert told(hidden) == before
