"""The platform contract: written from an estate, completed by people, and held against estates promise by promise."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import msgspec
import pytest
from tests.unit.audit.contracts import (
    ESTATE,
    FACTS,
    OURS,
    POD,
    QUEUE,
    REHEARSED,
    SOURCES,
    device_class,
    flavor,
    ground,
    node,
    template,
    without,
)
from tests.unit.audit.estates import NOW_S, fixture

from regauge.audit import (
    AuditInput,
    Contract,
    ContractCheck,
    ContractFacts,
    ContractPolicy,
    Ground,
    Kept,
    ReadContract,
    blanks,
    check_contract,
    draft,
    read_contract,
    read_proofs,
    with_answers,
    write_contract,
)
from regauge.audit.autoscalers import autoscaling
from regauge.base import InputError, Where
from regauge.features import rules
from regauge.model import Document, Snapshot


def completed(facts: ContractFacts = FACTS, *objects: dict[str, Any]) -> Contract:
    """The contract of the estate with a person's words in it."""
    made = draft(ground(*(objects or ESTATE)), facts, "east")
    modes = [msgspec.structs.replace(one, canary=one.canary or "pool slow") for one in made.modes]
    return msgspec.structs.replace(made, modes=tuple(modes))


def read(contract: Contract) -> ReadContract:
    return read_contract(write_contract(contract).encode(), "contract.yaml")


def checked(contract: Contract, *objects: dict[str, Any], facts: ContractFacts = FACTS) -> ContractCheck:
    return check_contract(read(contract), ground(*(objects or ESTATE)), facts)


def broken(check: ContractCheck) -> list[str]:
    return [f"{one.path}: {one.seen}" for one in check.of(Kept.BROKEN)]


@pytest.mark.row(121, how="unit")
@pytest.mark.row(164, how="unit")
def test_a_contract_is_what_the_estate_is() -> None:
    made = completed()
    assert made.kubernetes.version == "v1.36.3"
    assert [(one.gate, one.stage, one.enabled) for one in made.features] == [
        ("DRAExtendedResource", "beta", True),
        ("DynamicResourceAllocation", "stable", True),
    ]
    assert [(one.name, one.mode, one.serves, one.rationale) for one in made.node_pools] == [
        ("fast", "dra", ("gpu.example.com",), "V7: it needs attributes [1 ask]"),
        ("slow", "device-plugin", ("example.com/gpu",), "V2: a count is enough [1 ask]"),
    ]
    assert [(one.mode, one.canary) for one in made.modes] == [("device-plugin", "pool slow"), ("dra", "node n1")]
    assert made.drivers[1].images == ("registry/driver:1",)
    assert made.drivers[1].versions == ("1.2.3",)
    assert made.queues[0].resources == ("cpu", "example.com/gpu")
    assert made.autoscaler.name == "none"


def test_what_is_written_is_read_again() -> None:
    made = completed()
    assert read(made).contract == made


@pytest.mark.row(164, how="unit")
def test_a_contract_is_kept_by_its_own_estate() -> None:
    check = checked(completed())
    assert check.holds
    assert {one.answer for one in check.promises} == {Kept.KEPT}
    sections = {one.section for one in check.promises}
    assert sections == {"kubernetes", "features", "watch", "deviceClasses", "templates", "flavors", "drivers", "nodePools",
                        "modes", "autoscaler", "queues"}  # fmt: skip


@pytest.mark.row(157, 163, how="unit")
def test_nothing_is_invented_and_blanks_are_named_by_line() -> None:
    made = draft(ground(*ESTATE), ContractFacts(), "east")
    open_ = dict(blanks(made))
    assert set(open_) == {
        "nodePools[0].rationale", "nodePools[1].rationale", "modes[0].canary", "modes[0].rollback",
        "modes[0].rehearsal.digest", "modes[1].canary", "modes[1].rollback", "modes[1].rehearsal.digest",
    }  # fmt: skip
    text = write_contract(made)
    check = checked(made, facts=ContractFacts())
    assert not check.holds
    for one in check.of(Kept.BLANK):
        line = text.splitlines()[one.where.line - 1 if one.where.line else 0]
        assert "to be said: " in line or line.strip().startswith("rehearsal"), (one.path, line)
        assert one.where.file == "contract.yaml"


BREAKING: tuple[tuple[str, tuple[dict[str, Any], ...], str], ...] = (
    ("a class is gone", without("DeviceClass"), "deviceClasses[0]: there is none"),
    ("a class selects others",
     (*without("DeviceClass"), device_class("gpu", f'{OURS} && device.attributes["gpu.example.com"].model == "A"',
                                            extendedResourceName="example.com/any")),
     "deviceClasses[0]: its selectors are others: they answer differently for 1 of 2 devices: here: gpu.example.com/n1/gpu"),
    ("a class has another resource name", (*without("DeviceClass"), device_class("gpu", OURS)),
     "deviceClasses[0]: its extendedResourceName is none, not example.com/any"),
    ("a class too many", (*ESTATE, device_class("more", OURS)), "deviceClasses: it is there, and the contract does not"),
    ("a template asks for more",
     (*without("ResourceClaimTemplate"), template("t", 'device.attributes["gpu.example.com"].model == "A"', count=2)),
     "templates[0]: it differs in devices.requests[0].exactly.count"),
    ("a template selects others",
     (*without("ResourceClaimTemplate"), template("t", 'device.attributes["gpu.example.com"].model == "B"')),
     "templates[0]: its selectors: they answer differently for 2 of 2 devices"),
    ("a flavor selects others", (*without("AcceleratorFlavor"), flavor('device.attributes["gpu.example.com"].model == "B"')),
     "flavors[0]: its selectors: they answer differently"),
    ("a flavor asks for more",
     (*without("AcceleratorFlavor"), flavor('device.attributes["gpu.example.com"].model == "A"', count=2)),
     "flavors[0]: it differs in dra.requests[0].count"),
    ("a driver is gone", without("ResourceSlice"), "drivers[1]: no node has its devices"),
    ("a pool is served by both", (node("n1", "fast", {"example.com/gpu": "1"}), *ESTATE[1:]),
     "nodePools[0]: it is served by both; it serves example.com/gpu, too"),
    ("a pool too many", (*ESTATE, node("n3", "new", {"example.com/gpu": "1"})),
     "nodePools: its nodes are served by device-plugin, and the contract does not name it"),
    ("a kubelet of another version",
     (*ESTATE, {**node("n4", "cpu"), "status": {"nodeInfo": {"kubeletVersion": "v1.35.0"}}}),
     "kubernetes.kubelets: v1.35.0 runs"),
    ("a queue covers less",
     (*without("ClusterQueue"), {**QUEUE, "spec": {"resourceGroups": [{"coveredResources": ["cpu"]}]}}),
     "queues[0]: it does not cover example.com/gpu"),
    ("an autoscaler comes", (*ESTATE, {**POD, "metadata": {"name": "cluster-autoscaler-7d9"}}),
     "autoscaler.name: cluster-autoscaler is seen"),
    ("a feature that nobody promised",
     (*without("ResourceClaimTemplate"), template("t", 'device.attributes["gpu.example.com"].model == "A"',
                                                  tolerations=[{"operator": "Exists"}])),
     "features: it is used by ResourceClaimTemplate team/t, and the contract does not name it"),
)  # fmt: skip


@pytest.mark.row(164, how="unit")
@pytest.mark.parametrize(("objects", "told"), [one[1:] for one in BREAKING], ids=[one[0] for one in BREAKING])
def test_each_promise_can_be_broken(objects: tuple[dict[str, Any], ...], told: str) -> None:
    found = broken(checked(completed(), *objects))
    assert any(one.startswith(told) for one in found), found


def test_a_class_that_is_written_differently_is_kept() -> None:
    other = device_class("gpu", "'gpu.example.com'==device.driver", extendedResourceName="example.com/any")
    check = checked(completed(), *without("DeviceClass"), other)
    assert check.holds
    (one,) = check.within("deviceClasses")
    assert one.seen == "its selectors are written differently and mean the same"
    larger = device_class("gpu", 'device.driver.startsWith("gpu.example")', extendedResourceName="example.com/any")
    (one,) = checked(completed(), *without("DeviceClass"), larger).within("deviceClasses")
    assert (one.answer, one.seen) == (
        Kept.KEPT,
        "its selectors: written differently, and the same on all 2 devices seen",
    )


def test_what_was_not_looked_at_is_not_known() -> None:
    made = read(completed())
    unread = frozenset({"deviceclasses.resource.k8s.io"})
    for objects in (ground(*without("DeviceClass"), unread=None), ground(*without("DeviceClass"), unread=unread)):
        assert [one.path for one in check_contract(made, objects, FACTS).of(Kept.UNKNOWN)] == ["deviceClasses[0]"]
    assert [one.path for one in checked(completed(), facts=changed(FACTS, rehearsed=())).of(Kept.UNKNOWN)] == [
        "modes[0].rehearsal.digest", "modes[1].rehearsal.digest",
    ]  # fmt: skip


def test_an_edited_hash_or_selector_is_told() -> None:
    made = completed()
    (one,) = made.device_classes
    edited = msgspec.structs.replace(made, device_classes=(msgspec.structs.replace(one, selectors=("true",)),))
    assert broken(checked(edited)) == [
        "deviceClasses[0].hash: the hash is not that of what stands below it: one of the two was edited; write it with"
        " regauge contract init"
    ]


@pytest.mark.row(162, how="unit")
def test_an_autoscaler_needs_a_statement_with_its_date_and_version() -> None:
    scaled = (*ESTATE, {**POD, "metadata": {"name": "karpenter-0"}})
    made = completed(FACTS, *scaled)
    assert made.autoscaler.name == "karpenter"
    assert {path for path, _ in blanks(made)} == {
        f"autoscaler.statement.{name}" for name in ("says", "by", "date", "link", "kubernetes")
    }
    said = msgspec.convert(
        {"says": "scales DRA", "by": "Vendor", "date": "2026-06-01", "link": "https://x", "kubernetes": "1.36"},
        type(made.autoscaler.statement),
    )

    def with_statement(**fields: str) -> list[str]:
        statement = msgspec.structs.replace(said, **fields)
        pin = msgspec.structs.replace(made.autoscaler, statement=statement)
        return broken(checked(msgspec.structs.replace(made, autoscaler=pin), *scaled))

    assert with_statement() == []
    assert with_statement(date="2025-06-01") == [
        "autoscaler.statement: the statement is 546 days old, the policy allows 365"
    ]
    assert with_statement(date="2027-01-01") == [
        "autoscaler.statement: the statement is of 2027-01-01, which is to come"
    ]
    assert with_statement(kubernetes="1.35") == ["autoscaler.statement: it was said for Kubernetes 1.35, this is 1.36"]


NODE_POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}}
IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler@sha256:0"
SIGNS: tuple[tuple[dict[str, Any], str], ...] = (
    ({**POD, "metadata": {"name": "other"}, "spec": {"containers": [{"image": IMAGE}]}}, "cluster-autoscaler"),
    (NODE_POOL, "karpenter"),
    ({**node("n9", "x"), "metadata": {"name": "n9", "labels": {"karpenter.sh/nodepool": "x"}}}, "karpenter"),
    ({**node("n9", "x"), "metadata": {"name": "n9", "labels": {"eks.amazonaws.com/compute-type": "auto"}}}, "eks-auto-mode"),
)  # fmt: skip


@pytest.mark.row(162, how="unit")
@pytest.mark.parametrize(("sign", "name"), SIGNS)
def test_what_shows_an_autoscaler(sign: dict[str, Any], name: str) -> None:
    found = autoscaling(ground(*ESTATE, sign))
    assert (found.names, found.surely_none, len(found.evidence)) == ((name,), False, 1)


@pytest.mark.parametrize(("provider", "sure"), [("kind://docker/kind/n", True), ("aws:///eu/i-0", False), ("", True)])
def test_where_no_autoscaler_can_be_out_of_sight(provider: str, sure: bool) -> None:
    assert autoscaling(ground(POD, node("n", "x", providerID=provider))).surely_none is sure
    assert not autoscaling(ground(node("n", "x"), unread=None)).surely_none  # no pods: nobody looked


def test_flavors_that_are_kept_elsewhere_are_given() -> None:
    check = checked(completed(), *without("AcceleratorFlavor"))
    assert "--flavors FILE" in broken(check)[0]
    (document,) = ground(*ESTATE).snapshot.documents(("regauge.dev", "AcceleratorFlavor"))
    assert checked(completed(), *without("AcceleratorFlavor"), facts=changed(FACTS, flavors=(document,))).holds


def test_a_clouds_own_autoscaler_is_not_ruled_out_by_silence() -> None:
    cloud = (*ESTATE, node("n5", "cpu", providerID="gce://project/zone/n5"))
    made = completed(FACTS, *cloud)
    assert made.autoscaler.name == ""
    none = msgspec.structs.replace(made, autoscaler=msgspec.structs.replace(made.autoscaler, name="none"))
    assert [one.path for one in checked(none, *cloud).of(Kept.UNKNOWN)] == ["autoscaler.name"]
    statement = msgspec.structs.replace(made.autoscaler.statement, by="platform team", date="2026-11-01")
    said = msgspec.structs.replace(none, autoscaler=msgspec.structs.replace(none.autoscaler, statement=statement))
    assert checked(said, *cloud).holds


@pytest.mark.row(215, 225, 232, how="unit")
def test_features_below_the_policy_need_a_reason_and_are_watched() -> None:
    made = draft(ground(*ESTATE), FACTS, "east", ContractPolicy(graduation="stable"))
    assert [(one.gate, one.stage, one.safe_from) for one in made.watch] == [("DRAExtendedResource", "beta", "1.37")]
    assert "features[0].accepted" in dict(blanks(made))
    by_beta = draft(ground(*ESTATE), FACTS, "east")
    assert by_beta.watch[0].safe_from == "1.36"
    assert "features[0].accepted" not in dict(blanks(by_beta))
    unwatched = msgspec.structs.replace(completed(), watch=())
    assert broken(checked(unwatched)) == ["watch: DRAExtendedResource is beta and not on the list"]


def test_what_the_cluster_notes_is_use_of_a_feature_too() -> None:
    health = {"resourceID": "x", "health": "Healthy", "message": "fine"}
    containers = [{"allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [health]}]}]
    pod = {
        **POD,
        "status": {"containerStatuses": containers, "extendedResourceClaimStatus": {"resourceClaimName": "c"}},
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {},
        "status": {"devices": [{"driver": "d", "pool": "p", "device": "x"}],
                   "reservedFor": [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}]},
    }  # fmt: skip
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    assert [one.gate for one in draft(ground(pod, claim, group), ContractFacts(), "e").features] == [
        "DRAExtendedResource", "DRAResourceClaimDeviceStatus", "DRAWorkloadResourceClaims", "DynamicResourceAllocation",
        "GangScheduling", "GenericWorkload", "ResourceHealthStatus", "ResourceHealthStatusMessage",
    ]  # fmt: skip


def test_another_version_breaks_the_pin() -> None:
    check = check_contract(read(completed()), ground(*ESTATE, version="v1.37.2"), FACTS)
    assert "kubernetes.version: it is v1.37.2" in broken(check)


def test_a_gate_that_is_off_breaks_its_promise() -> None:
    documents = [Document(one, Where("estate.yaml", at)) for at, one in enumerate(ESTATE, 1)]
    given = AuditInput(Snapshot.of(documents), rules("v1.36.3", {"DRAExtendedResource": False}), "e", NOW_S,
                       server_version="v1.36.3")  # fmt: skip
    assert "features[0]: the gate is off in this cluster" in broken(
        check_contract(read(completed()), Ground(given), FACTS)
    )


def test_a_canary_has_to_be_there_and_of_its_mode() -> None:
    made = completed()

    def with_canary(canary: str) -> list[str]:
        modes = (msgspec.structs.replace(made.modes[0], canary=canary), made.modes[1])
        return broken(checked(msgspec.structs.replace(made, modes=modes)))

    assert with_canary("node n2") == []
    assert with_canary("node n9") == ["modes[0].canary: there is no node n9 with devices"]
    assert with_canary("pool fast") == ["modes[0].canary: pool fast is served by dra"]
    assert with_canary("somewhere") == ["modes[0].canary: 'somewhere' is neither `node NAME` nor `pool NAME`"]


def test_a_rehearsal_that_does_not_hold_proves_nothing() -> None:
    failing = changed(FACTS, rehearsed=(changed(REHEARSED, holds=False),))
    assert [one.partition(":")[0] for one in broken(checked(completed(), facts=failing))] == [
        "modes[0].rehearsal.digest", "modes[1].rehearsal.digest",
    ]  # fmt: skip


def test_what_people_said_outlives_a_new_draft() -> None:
    old = completed()
    again = with_answers(draft(ground(*ESTATE), ContractFacts(SOURCES), "other"), old)
    assert again == old


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n", r"c\.yaml:1: schema: its schema is None"),
        ("- 1\n", "no single mapping"),
        ("", "no single mapping"),
        ("schema: regauge.contract/v1\nx: " + "[" * 300 + "]" * 300, r"c\.yaml:2: nested deeper than 200 levels"),
        ("a: &a [1, 2]\nb: [*a, *c]\n", "not valid YAML|alias"),
        ("schema: regauge.contract/v2\n", r"c\.yaml:1: schema: its schema is 'regauge.contract/v2'"),
        (
            "schema: regauge.contract/v1\ncluster: a\nkubernetes:\n  version: v1.36.3\n  kubelet: [x]\n",
            r"c\.yaml:3: kubernetes: .*unknown field `kubelet`",
        ),
        (
            "schema: regauge.contract/v1\ncluster: a\nkubernetes: {version: v1.36.3}\nnodePools:\n- name: p\n  mode: gpu\n",
            r"c\.yaml:6: nodePools\[0\]\.mode: Invalid enum value 'gpu'",
        ),
        (
            "schema: regauge.contract/v1\ncluster: a\nkubernetes: {version: v1}\nautoscaler:\n  statement:\n    date: soon\n",
            r"c\.yaml:6: autoscaler\.statement\.date: 'soon' is no day",
        ),
        (
            "schema: regauge.contract/v1\ncluster: a\nkubernetes: {version: v1}\nqueues:\n- {name: q}\n- {name: q}\n",
            r"c\.yaml:6: queues\[1\]: q stands twice",
        ),
    ],
)
def test_a_wrong_contract_is_told_with_file_line_and_field(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_contract(text.encode(), "c.yaml")


def test_a_canary_comes_from_the_rehearsal_itself() -> None:
    report = {
        "schema": "regauge.rehearsal/v1",
        "source": "dump",
        "holds": True,
        "steps": [
            {"name": "node-n1", "holds": True, "details": {"phase": "canary"}},
            {"name": "gate", "holds": True},
            {"name": "plan", "holds": True},
            {"name": "rollback", "holds": True},
        ],
    }
    (found,) = read_proofs([("r.json", report)]).rehearsed
    assert (found.canary, found.proves_way_back) == ("n1", True)
    assert found.digest != read_proofs([("r.json", {**report, "source": "other"})]).rehearsed[0].digest


def test_the_fixtures_of_the_rules_can_all_be_promised() -> None:
    for name in ("healthy", "OWN-TWICE", "CLASS-INVALID", "FEATURE-ALPHA"):
        given = fixture(name, "good" if name == "healthy" else "bad")
        made = draft(Ground(given), ContractFacts(), name)
        check = check_contract(read(made), Ground(given), ContractFacts())
        assert check.of(Kept.BROKEN) == ()
