"""`regauge explain` for each feature of devices, under versions and gates that have it and that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cli.explain_schema import json_schema

API = "resource.k8s.io/v1"
VALID = Draft202012Validator(json_schema())
Object = dict[str, Any]


def object_(kind: str, name: str, api: str = API, **parts: Any) -> Object:
    metadata = {"name": name, **({"namespace": "team"} if kind in ("Pod", "ResourceClaim") else {})}
    return {"apiVersion": api, "kind": kind, "metadata": {**metadata, **parts.pop("metadata", {})}, **parts}


NODE = object_(
    "Node", "n1", "v1", status={"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "10"}}, metadata={"labels": {}}
)
CLASS = object_("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": 'device.driver == "d"'}}]})


def slice_of(*devices: Object, name: str = "s", count: int = 1, generation: int = 1, **more: Any) -> Object:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": count}
    where = {} if {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & set(more) else {"nodeName": "n1"}
    return object_("ResourceSlice", name, spec={"driver": "d", "pool": pool, "devices": [*devices], **where, **more})


def claim(
    name: str = "c", *, constraints: list[Object] | None = None, status: Object | None = None, **asked: Any
) -> Object:
    requests = asked.pop("requests", None) or [{"name": "r", "exactly": {"deviceClassName": "gpu", **asked}}]
    return object_(
        "ResourceClaim",
        name,
        spec={"devices": {"requests": requests, "constraints": constraints or []}},
        status=status or {},
    )


def pod(name: str = "p", limits: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "i", "resources": {"limits": limits or {}}}
    return object_("Pod", name, "v1", spec={"containers": [container], **spec})


def held(*devices: str, **more: Any) -> Object:
    results = [{"request": "r", "driver": "d", "pool": "n1", "device": one, **more} for one in devices]
    return {"allocation": {"devices": {"results": results}}}


def told(what: str, name: str, objects: list[Object], minor: str = "1.36", **gates: bool) -> Object:
    """The answer as a program gets it, and that people get one in words, too."""
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    words = ["explain", what, name, "--from", "-", "--kube-version", minor]
    if gates:
        words += ["--feature-gates", ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items())]
    for output in ("table", "json"):
        done = CliRunner().invoke(app, [*words, "-o", output], input=given)
        assert done.exit_code in (0, 1), done.output
        if output == "table":
            text = done.stdout
    document: Object = json.loads(done.stdout)
    VALID.validate(document)
    return {**document, "words": text}


def on_n1(found: Object) -> Object:
    (one,) = [item for item in found["nodes"] if item["node"] == "n1"]
    return dict(one.get("devices") or one) if found["kind"] == "pod" else dict(one)


def verdicts(found: Object) -> dict[str, tuple[str, str]]:
    devices = [item for request in on_n1(found)["requests"] for item in request["devices"]]
    return {one["device"].rpartition("/")[2]: (one["verdict"], one["text"]) for one in devices}


def gets(found: Object) -> list[str]:
    return [one["device"].rpartition("/")[2] for one in on_n1(found)["gets"]]


# -- taints


RULE = object_(
    "DeviceTaintRule",
    "sick",
    "resource.k8s.io/v1beta2",
    spec={"deviceSelector": {"driver": "d", "device": "a"}, "taint": {"key": "ecc", "effect": "NoSchedule"}},
)


@pytest.mark.row(245, how="unit")
def test_kep_5055_a_taint_rule_is_named_and_so_is_the_gate_that_it_needs() -> None:
    objects = [NODE, CLASS, slice_of({"name": "a"}), RULE, claim()]
    off, on = told("claim", "c", objects), told("claim", "c", objects, DRADeviceTaintRules=True)
    assert gets(off) == ["a"]
    assert "DeviceTaintRule sick (ecc:NoSchedule) is not heeded: DRADeviceTaintRules is off" in off["notes"]
    assert not on["good"] and verdicts(on)["a"] == ("tainted", "taint ecc:NoSchedule is not tolerated")
    assert "DeviceTaintRule sick (ecc:NoSchedule) taints 1 devices" in on["notes"]
    asking = pod(resourceClaims=[{"name": "g", "resourceClaimName": "c"}])
    assert any(
        "taints 1 devices" in one for one in told("pod", "p", [*objects, asking], DRADeviceTaintRules=True)["notes"]
    )


@pytest.mark.row(245, how="unit")
def test_kep_5055_a_toleration_goes_into_the_result() -> None:
    tolerations = [{"key": "ecc", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}]
    tainted = {"name": "a", "taints": [{"key": "ecc", "effect": "NoExecute"}]}
    found = told("claim", "c", [NODE, CLASS, slice_of(tainted), claim(tolerations=tolerations)])
    (given,) = on_n1(found)["gets"]
    assert given["tolerations"] == ["ecc:NoExecute for 600 s"]
    assert "d/n1/a: tolerates ecc:NoExecute for 600 s" in found["words"]


# -- admin access, binding conditions


@pytest.mark.row(243, how="unit")
def test_kep_5018_admin_access_takes_what_is_in_use() -> None:
    objects = [NODE, CLASS, slice_of({"name": "a"}), claim("other", status=held("a"))]
    plain = told("claim", "c", [*objects, claim()])
    assert verdicts(plain)["a"] == ("in use", "in use by team/other")
    found = told("claim", "c", [*objects, claim(adminAccess=True)])
    assert on_n1(found)["gets"][0]["adminAccess"] and "admin access, beside whoever uses it" in found["words"]
    labelled = object_("Namespace", "team", "v1", metadata={"labels": {"resource.kubernetes.io/admin-access": "true"}})
    assert any("admin access" in note for note in found["notes"])
    assert told("claim", "c", [*objects, claim(adminAccess=True), labelled])["notes"] == []


def test_what_a_pod_waits_for_before_it_is_bound() -> None:
    remote = {"name": "a", "bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    objects = [NODE, CLASS, slice_of(remote), claim()]
    found = told("claim", "c", objects)
    (given,) = on_n1(found)["gets"]
    assert (given["bindingConditions"], given["bindingFailureConditions"]) == (["ready"], ["broken"])
    assert "a pod is bound once its driver says ready (not if broken)" in found["words"]
    off = told("claim", "c", objects, DRADeviceBindingConditions=False)
    assert verdicts(off)["a"] == ("a feature is off", "has binding conditions, and the feature for them is off")


# -- parts


POLICY = {"requestPolicy": {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi", "max": "16Gi"}}}
SHARED = {"name": "v", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "16Gi", **POLICY}}}


@pytest.mark.row(65, 231, 247, how="unit")
def test_kep_5075_a_part_of_a_device_by_version() -> None:
    part = {"capacity": {"requests": {"memory": "3Gi"}}}
    objects = [NODE, CLASS, slice_of(SHARED), claim(**part)]
    found = told("claim", "c", objects)
    assert on_n1(found)["gets"][0]["consumed"] == {"memory": "4Gi"} and "consumes memory 4Gi" in found["words"]
    used = claim("other", status=held("v", shareID="u", consumedCapacity={"memory": "14Gi"}))
    short = told("claim", "c", [*objects, used])
    assert verdicts(short)["v"] == ("too little capacity", "capacity memory: needs 4Gi, 2Gi left")
    whole = told("claim", "c", objects, "1.35")  # which knows nothing of parts
    assert on_n1(whole)["gets"][0]["consumed"] == {} and whole["allocator"] == "incubating"
    assert told("claim", "c", objects, "1.35", DRAConsumableCapacity=True)["allocator"] == "experimental"


def piece(name: str, units: int, **more: Any) -> Object:
    return {
        "name": name,
        "consumesCounters": [{"counterSet": "card", "counters": {"units": {"value": str(units)}}, **more}],
    }


COUNTERS = slice_of(name="t", count=2, sharedCounters=[{"name": "card", "counters": {"units": {"value": "4"}}}])


@pytest.mark.row(66, 231, 246, how="unit")
def test_kep_4815_a_piece_of_a_device_says_which_counter_is_short() -> None:
    pieces = slice_of(piece("half", 2), piece("whole", 4), count=2)
    objects = [NODE, CLASS, pieces, COUNTERS]
    assert gets(told("claim", "c", [*objects, claim()])) == ["half"]
    found = told("claim", "c", [*objects, claim(), claim("other", status=held("half"))])
    assert verdicts(found)["whole"] == (
        "too little left of shared counters",
        "counter units of card: needs 4, 2 left",
    )
    off = told("claim", "c", [*objects, claim()], DRAPartitionableDevices=False)
    assert not off["good"] and off["allocator"] == "incubating"


@pytest.mark.parametrize(("gate", "devices"), [(True, ["a", "c"]), (False, [])])
def test_pieces_of_different_groups_do_not_go_together(gate: bool, devices: list[str]) -> None:
    """Groups of one card: a and b are of different ones, c is of both."""
    one, two, both = ({"compatibilityGroups": groups} for groups in (["x"], ["y"], ["x", "y"]))
    pieces = slice_of(piece("a", 1, **one), piece("b", 1, **two), piece("c", 1, **both), count=2)
    found = told(
        "claim", "c", [NODE, CLASS, pieces, COUNTERS, claim(count=2)], "1.37", DRADeviceCompatibilityGroups=gate
    )
    assert gets(found) == devices if devices else not found["good"]
    assert found["allocator"] == ("experimental" if gate else "incubating")
    if not gate:
        (pool,) = on_n1(found)["pools"]
        assert pool["state"] == "incomplete" and pool["missing"] == 1 and pool["present"] == ["t"]


# -- attributes


def attributes(name: str, **values: Any) -> Object:
    return {"name": name, "attributes": values}


def test_list_attributes_by_version() -> None:
    rails = [attributes(name, rail={"ints": values}) for name, values in (("a", [1, 2]), ("b", [3]), ("c", [2, 3]))]
    objects = [NODE, CLASS, slice_of(*rails), claim(count=2, constraints=[{"matchAttribute": "d/rail"}])]
    gate = {"DRAListTypeAttributes": True}
    new = told("claim", "c", objects, "1.37", **gate)
    assert gets(new) == ["a", "c"] and new["gates"] == gate and new["allocator"] == "experimental"
    old = told("claim", "c", objects, "1.36", **gate)
    assert not old["good"] and "it compares list attributes only from 1.37 on" in old["text"]


def test_derived_attributes_by_gate() -> None:
    derived = [{"name": "d/parity", "expression": 'device.attributes["d"].index % 2'}]
    cards = [attributes(name, index={"int": index}) for name, index in (("a", 0), ("b", 1), ("c", 2))]
    asked = claim(count=2, derivedAttributes=derived, constraints=[{"matchAttribute": "d/parity"}])
    objects = [NODE, CLASS, slice_of(*cards), asked]
    found = told("claim", "c", objects, "1.37", DRADerivedAttributes=True)
    assert (gets(found), found["allocator"]) == (["a", "c"], "experimental")
    off = told("claim", "c", objects, "1.37")
    assert not off["good"] and off["allocator"] == "incubating"


def test_devices_that_need_a_node_that_can_do_without_its_driver() -> None:
    offered = slice_of({"name": "a"}, skipNodeOperations=["*"])
    gate = {"DRAOptionalNodeOperations": True}
    off = told("claim", "c", [NODE, CLASS, offered, claim()], "1.37", **gate)
    assert verdicts(off)["a"][0] == "a feature is off" and "operations by the driver" in verdicts(off)["a"][1]
    able = {**NODE, "status": {**NODE["status"], "declaredFeatures": ["DRAOptionalNodeOperations"]}}
    assert gets(told("claim", "c", [able, CLASS, offered, claim()], "1.37", **gate)) == ["a"]


@pytest.mark.row(258, how="unit")
@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ('device.attributes["d"].modle == "x"', "the device has no d/modle: d/model may be meant"),
        ('device.attributes["dd"].model == "x"', "the device has no dd/model: d/model may be meant"),
        ('device.attributes["nvida.com"].driverVersoin == "x"', "d/driverVersion may be meant"),
        ('device.capacity["d"].memry.isGreaterThan(quantity("1"))', "d/memory may be meant"),
    ],
)
def test_near_names_and_near_domains(expression: str, hint: str) -> None:
    card = attributes("a", model={"string": "x"}, driverVersion={"version": "1.1.9"})
    card["capacity"] = {"memory": {"value": "1Gi"}}
    found = told("claim", "c", [NODE, CLASS, slice_of(card), claim(selectors=[{"cel": {"expression": expression}}])])
    assert found["answer"] == "ends with an error"
    (one,) = on_n1(found)["requests"][0]["devices"]
    assert any(hint in text for text in one["hints"]) and hint in found["words"]


def test_seven_of_eight_match_and_the_eighth_comes_first() -> None:
    cards = [attributes(f"g{number}", fw={"version": "1.2.0" if number != 5 else "1.1.9"}) for number in range(8)]
    newer = 'device.attributes["d"].fw.compareTo(semver("1.2.0")) >= 0'
    found = told(
        "claim", "c", [NODE, CLASS, slice_of(*cards), claim(count=8, selectors=[{"cel": {"expression": newer}}])]
    )
    (request,) = on_n1(found)["requests"]
    assert (request["matching"], request["wanted"]) == (7, 8)
    assert request["text"] == "7 of 8 devices match and are free, 8 wanted; the others: 1 not selected"
    assert "nearest miss d/n1/g5: selector #0 of the request is false" in found["text"]
    assert f"{newer} (has d/fw=1.1.9)" in found["text"]


# -- pools and the network


def test_which_slice_is_missing_and_what_stood_in_it() -> None:
    old = [slice_of({"name": name}, name=f"old-{name}", count=2) for name in ("a", "b")]
    found = told(
        "claim", "c", [NODE, CLASS, *old, slice_of({"name": "a"}, name="new-a", count=2, generation=2), claim()]
    )
    (pool,) = on_n1(found)["pools"]
    assert (pool["missing"], pool["present"], pool["outdated"], pool["lost"]) == (
        1,
        ["new-a"],
        ["old-a", "old-b"],
        ["b"],
    )
    assert "there is new-a, and not b, which generation 1 had" in found["text"]


@pytest.mark.row(178, how="unit")
def test_a_device_on_the_network_says_where_it_may_be_used() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
    here = {**NODE, "metadata": {**NODE["metadata"], "labels": {"zone": "z1"}}}
    there = {**NODE, "metadata": {"name": "n2", "labels": {"zone": "z2"}}}
    found = told("claim", "c", [here, there, CLASS, slice_of({"name": "a"}, nodeSelector=zone), claim()])
    assert found["fitting"] == ["n1"] and on_n1(found)["usableOn"] == ["zone In z1"]
    everywhere = told("claim", "c", [here, there, CLASS, slice_of({"name": "a"}, allNodes=True), claim()])
    assert everywhere["fitting"] == ["n1", "n2"] and on_n1(everywhere)["usableOn"] == []
    each = slice_of({"name": "a", "nodeName": "n2"}, {"name": "b", "nodeName": "n1"}, perDeviceNodeSelection=True)
    per_device = told("claim", "c", [here, there, CLASS, each, claim()])
    assert gets(per_device) == ["b"] and per_device["fitting"] == ["n1", "n2"]


# -- the limit, and errors of one node


def test_the_limit_of_32() -> None:
    cards = slice_of(*({"name": f"g{number}"} for number in range(40)))
    for minor in ("1.34", "1.36", "1.37"):
        found = told("claim", "c", [NODE, CLASS, cards, claim(count=33)], minor)
        assert found["answer"] == "ends with an error" and "claim limit of 32" in found["text"]
    everything = told("claim", "c", [NODE, CLASS, cards, claim(allocationMode="All")])
    assert everything["answer"] == "ends with an error" and "claim limit of 32" in everything["text"]


def test_an_error_of_one_node_is_not_one_of_the_whole_attempt() -> None:
    broken = slice_of({"name": "a"}, {"name": "a"})
    found = told("claim", "c", [NODE, CLASS, broken, claim()])
    assert on_n1(found)["outcome"] == "error on this node" and found["answer"] == "cannot be allocated"
    (pool,) = on_n1(found)["pools"]
    assert (pool["state"], pool["text"]) == ("invalid", "is invalid: duplicate device name a")


# -- extended resources, and the node's own


def class_for(name: str, resource: str, made: str) -> Object:
    spec = {"extendedResourceName": resource, **CLASS["spec"]}
    return object_("DeviceClass", name, spec=spec, metadata={"creationTimestamp": made, "uid": name})


RESOURCE = "example.com/gpu"


@pytest.mark.row(248, how="unit")
def test_kep_5004_the_class_that_stands_for_a_resource_and_why_not_another() -> None:
    old, new = class_for("old", RESOURCE, "2026-01-01T00:00:00Z"), class_for("new", RESOURCE, "2026-02-01T00:00:00Z")
    two = slice_of({"name": "a"}, {"name": "b"})
    found = told("pod", "p", [NODE, old, new, two, pod(limits={RESOURCE: "2"})])
    assert found["answer"] == "can be scheduled" and gets(found) == ["a", "b"]
    assert any("device class new stands for it (spec.extendedResourceName)" in note for note in found["notes"])
    assert any("class old has the same name, and of several the newest counts" in note for note in found["notes"])
    assert any(
        f"container main gets its {RESOURCE} from request container-0-request-0 (2)" in n for n in found["notes"]
    )
    same = told(
        "pod", "p", [NODE, class_for("b", RESOURCE, "2026-01-01T00:00:00Z"), old, two, pod(limits={RESOURCE: "1"})]
    )
    assert any("device class b stands for it" in note for note in same["notes"])
    off = told("pod", "p", [NODE, old, two, pod(limits={RESOURCE: "1"})], DRAExtendedResource=False)
    assert off["answer"] == "cannot be scheduled"
    assert f"1 {RESOURCE}: device class old would stand for it, but DRAExtendedResource is off" in off["notes"]
    implicit = told("pod", "p", [NODE, CLASS, two, pod(limits={"deviceclass.resource.kubernetes.io/gpu": "1"})])
    assert gets(implicit) == ["a"] and any("the name behind deviceclass" in note for note in implicit["notes"])


def test_init_containers_that_end_share_with_those_that_follow() -> None:
    one = {"image": "i", "resources": {"limits": {RESOURCE: "1"}}}
    asking = pod(limits={RESOURCE: "1"}, initContainers=[{"name": "first", **one}, {"name": "second", **one}])
    classes = [class_for("gpu", RESOURCE, "2026-01-01T00:00:00Z")]
    found = told("pod", "p", [NODE, *classes, slice_of({"name": "a"}), asking])
    assert found["answer"] == "can be scheduled" and gets(found) == ["a"]
    sharing = [note for note in found["notes"] if "which other containers use at another time" in note]
    assert len(sharing) == 3
    sidecar = pod(limits={RESOURCE: "1"}, initContainers=[{"name": "side", "restartPolicy": "Always", **one}])
    assert told("pod", "p", [NODE, *classes, slice_of({"name": "a"}), sidecar])["answer"] == "cannot be scheduled"


# -- alternatives


@pytest.mark.row(61, 223, 244, how="unit")
def test_kep_4816_alternatives_and_why_the_earlier_ones_failed() -> None:
    big = {
        "name": "big",
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": 'device.attributes["d"].size > 1'}}],
    }
    two = {"name": "two", "deviceClassName": "gpu", "count": 2}
    asked = claim(requests=[{"name": "r", "firstAvailable": [big, two]}])
    small = [attributes(name, size={"int": 1}) for name in ("a", "b")]
    found = told("claim", "c", [NODE, CLASS, slice_of(*small), asked])
    first, second = on_n1(found)["requests"]
    assert first["text"].startswith("passed over: 0 of 2 devices match") and second["chosen"] == ["d/n1/a", "d/n1/b"]
    off = told("claim", "c", [NODE, CLASS, slice_of(*small), asked], "1.34", DRAPrioritizedList=False)
    assert not off["good"] and "DRAPrioritizedList" in off["text"]


# -- what a version gets wrong beside its allocator


def test_a_toleration_without_effect_does_not_keep_a_pod() -> None:
    tainted = {"name": "a", "taints": [{"key": "ecc", "effect": "NoExecute"}]}
    for effect, says in (("", "does not keep them there"), ("NoExecute", "")):
        toleration = {"key": "ecc", "operator": "Exists", **({"effect": effect} if effect else {})}
        owner = claim(status=held("a", tolerations=[toleration]))
        found = told("claim", "c", [NODE, CLASS, slice_of(tainted), owner])
        (remark,) = found["holding"]["devices"][0]["remarks"]
        assert remark.startswith("has taint ecc:NoExecute") and (says in remark if says else "," not in remark)


def test_a_pod_with_an_extended_resource_is_not_evicted_by_version() -> None:
    tainted = slice_of({"name": "a", "taints": [{"key": "ecc", "effect": "NoExecute"}]})
    made = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    special = {**claim(status=held("a"))}
    special["metadata"] = {**special["metadata"], **made}
    for minor, says in (("1.36", "is not evicted (fixed in 1.37)"), ("1.37", "")):
        found = told("claim", "c", [NODE, CLASS, tainted, special], minor)
        (remark,) = found["holding"]["devices"][0]["remarks"]
        assert says in remark and bool(says) is ("evicted" in remark)


def test_a_claim_beside_a_resource_of_a_device_plugin_is_never_bound() -> None:
    serving = {**NODE, "status": {"allocatable": {**NODE["status"]["allocatable"], RESOURCE: "2"}}}
    classes = [CLASS, class_for("also", RESOURCE, "2026-01-01T00:00:00Z")]
    claims = [{"name": "g", "resourceClaimName": "c"}]
    objects = [serving, *classes, slice_of({"name": "a"}), claim(), pod(limits={RESOURCE: "1"}, resourceClaims=claims)]
    found = told("pod", "p", objects)
    assert any("on n1 it is never bound" in note and "not fixed yet" in note for note in found["notes"])
    without = told("pod", "p", [serving, CLASS, *objects[3:]])
    assert not any("never bound" in note for note in without["notes"])


def test_after_a_failed_binding_condition_the_same_device_is_taken() -> None:
    status = held("a", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    told_by = {"driver": "d", "pool": "n1", "device": "a"}
    for kind, says in (("broken", "takes the same device again"), ("other", "")):
        conditions = [{"type": kind, "status": "True", "reason": "R", "message": "m"}]
        failing = claim(status={**status, "devices": [{**told_by, "conditions": conditions}]})
        found = told("claim", "c", [NODE, CLASS, slice_of({"name": "a"}, {"name": "b"}), failing])
        (remark,) = found["holding"]["devices"][0]["remarks"]
        assert remark.startswith(f"{kind}=True m") and bool(says) is ("again" in remark)


def test_a_selector_on_a_list_needs_the_gate_up_to_1_36() -> None:
    inside = 'device.attributes["d"].rail.includes(2)'
    rails = slice_of(attributes("a", rail={"ints": [1, 2]}))
    objects = [NODE, CLASS, rails, claim(selectors=[{"cel": {"expression": inside}}])]
    assert not told("claim", "c", objects, "1.36")["good"]
    assert gets(told("claim", "c", objects, "1.36", DRAListTypeAttributes=True)) == ["a"]


def test_without_its_time_limit_the_scheduler_is_stuck() -> None:
    objects = [NODE, CLASS, slice_of(*({"name": f"g{number}"} for number in range(31))), claim(count=32)]
    limited, stuck = told("claim", "c", objects), told("claim", "c", objects, DRASchedulerFilterTimeout=False)
    assert on_n1(limited)["filterTimeout"]["answer"] == "yes" and "will hit" in on_n1(limited)["slow"]
    assert on_n1(stuck)["filterTimeout"] == {"answer": "unlikely", "steps": 1 << 31, "complete": True}
    assert "has no filter timeout, as DRASchedulerFilterTimeout is off" in on_n1(stuck)["slow"]
