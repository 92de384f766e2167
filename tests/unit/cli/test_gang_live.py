"""`regauge gang` on a cluster that runs: a gang that is half placed is found, and what is recommended frees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.up.program import running
from tests.unit.scheduler.gang_objects import DRIVER, cluster, object_, pod_spec
from tests.unit.scheduler.live import Live
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.kube import NotFound
from regauge.model import kinds as k

Object = dict[str, Any]
GATES = "GenericWorkload=true,GangScheduling=true"
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    options = ("--nodes", "0", "--feature-gates", GATES, "--runtime-config", "scheduling.k8s.io/v1alpha2=true")
    with running(tmp_path_factory.mktemp("up") / "s", *options) as program:
        live = Live(str(program.state / "kubeconfig"))
        yield live
        live.close()


@pytest.fixture
def empty(live: Live) -> Live:
    """One node with four devices, and templates for one and two."""
    for one in live.list(k.POD_GROUP):
        live.drop(one)
    live.empty()
    for one in cluster(4):
        if one["kind"] == "ResourceClaimTemplate":
            one["metadata"]["namespace"] = "default"
        live.create(one)
    return live


def told(verb: str, live: Live, *more: str) -> tuple[int, Object]:
    words = ["gang", verb, "--kubeconfig", live.kubeconfig, "--feature-gates", GATES, "-o", "json", *more]
    result = RUNNER.invoke(app, words)
    assert result.exit_code in (0, 1), result.output
    document: Object = json.loads(result.stdout)
    return result.exit_code, document


def member(group: str, number: int, **more: Any) -> Object:
    """A pod of a group of two of Kueue's."""
    labels = {"kueue.x-k8s.io/pod-group-name": group}
    notes = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    metadata = {"labels": labels, "annotations": notes}
    return object_("v1", "Pod", f"{group}-{number}", "default", metadata=metadata, spec=pod_spec(**more))


def node_of(live: Live, name: str) -> str | None:
    try:
        found = live.get(k.POD, name, "default")
    except NotFound:
        return None
    node: str | None = found["spec"].get("nodeName")
    return node


def refused(live: Live, name: str) -> bool | None:
    conditions = live.get(k.POD, name, "default")["status"].get("conditions") or []
    return any(one.get("reason") == "Unschedulable" for one in conditions) or None


@pytest.mark.row(116, how="unit")
@pytest.mark.row(233, how="unit")
@pytest.mark.row(269, how="unit")
def test_a_half_placed_gang_is_found_and_the_recommendation_frees_it(empty: Live) -> None:
    """Two gangs of two pods come one pod at a time: each gets half of the devices, and neither ever runs."""
    for number in range(2):
        for group in "ab":
            empty.create(member(group, number))
            name = f"{group}-{number}"
            empty.until(lambda name=name: node_of(empty, name) if name.endswith("0") else refused(empty, name))
    code, found = told("check", empty)
    assert code == 1 and [one["partial"] for one in found["gangs"]] == [True, True]
    for one in found["gangs"]:
        assert one["since"] and one["ageSeconds"] is not None and len(one["holders"][0]["devices"]) == 2
    (stuck,) = found["deadlocks"]
    paused, other = stuck["pause"][-1], stuck["goes"][0][-1]
    assert {paused, other} == {"a", "b"} and stuck["circle"] == [one["gang"] for one in found["gangs"]]

    for number in (
        1,
        0,
    ):  # the one that waits first: else it may be picked while it is deleted, and others wait for long
        empty.drop(empty.get(k.POD, f"{paused}-{number}", "default") | {"apiVersion": "v1", "kind": "Pod"})
    assert empty.until(lambda: node_of(empty, f"{other}-1")) == "n0"
    code, found = told("check", empty)
    assert (code, [one["answer"] for one in found["gangs"]]) == (0, ["is placed"])

    for number in range(2):
        empty.finish(f"{other}-{number}")
    for number in range(2):
        empty.create(member(paused, number))
    for number in range(2):
        assert empty.until(lambda number=number: node_of(empty, f"{paused}-{number}")) == "n0"
    code, found = told("check", empty)
    assert code == 0 and found["deadlocks"] == []


@pytest.mark.row(115, how="unit")
def test_lines_of_a_resource_quota_are_counted_as_the_server_counts_them(empty: Live) -> None:
    """Two pods, one by a claim of two and one by the implicit name of the class: one device is counted by either line."""
    keys = (f"{DRIVER}.deviceclass.resource.k8s.io/devices", f"requests.deviceclass.resource.kubernetes.io/{DRIVER}")
    quota = object_("v1", "ResourceQuota", "q", "default", spec={"hard": dict.fromkeys(keys, "4")})
    try:
        empty.create(quota)
        empty.create(object_("v1", "Pod", "claims", "default", spec=pod_spec()))
        asked = {keys[1].removeprefix("requests."): "1"}
        containers = [{"name": "main", "image": "x", "resources": {"requests": asked, "limits": asked}}]
        empty.create(object_("v1", "Pod", "asks", "default", spec={"containers": containers}))
        empty.until(lambda: node_of(empty, "claims") and node_of(empty, "asks"))

        def used() -> Object | None:
            told = (empty.get(k.RESOURCE_QUOTA, "q", "default").get("status") or {}).get("used") or {}
            return told if told.get(keys[0]) == "3" else None

        assert empty.until(used) == dict.fromkeys(keys, "3")
        result = RUNNER.invoke(app, ["queue", "check", "--kubeconfig", empty.kubeconfig, "-o", "json"])
        found = json.loads(result.stdout)
        assert {
            one["key"]: (one["used"], one["counted"], one["held"]) for one in found["resourceQuotas"]
        } == dict.fromkeys(keys, ("3", "3", "3"))
        assert [one["code"] for one in found["notices"]] == ["quota-twice"]
    finally:
        empty.drop({**quota, "metadata": {**quota["metadata"]}})


@pytest.mark.row(116, how="unit")
@pytest.mark.row(120, how="unit")
def test_pod_groups_of_a_live_cluster_are_seen_and_one_is_placed_as_a_whole(empty: Live, tmp_path: Path) -> None:
    for group in ("x", "y"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        empty.create(object_("scheduling.k8s.io/v1alpha2", "PodGroup", group, "default", spec=spec))
    code, found = told("whatif", empty)
    assert code == 0 and {one["outcome"] for one in found["after"]["order"]} == {"waits"}
    for number in range(2):
        for group in ("x", "y"):
            spec = pod_spec(schedulingGroup={"podGroupName": group})
            empty.create(object_("v1", "Pod", f"{group}-{number}", "default", spec=spec))
    empty.until(
        lambda: (node_of(empty, "x-1") or node_of(empty, "y-1")) and any(map(node_of, [empty] * 2, ["x-0", "y-0"]))
    )
    _, found = told("check", empty)
    assert sorted(one["answer"] for one in found["gangs"]) == ["cannot be placed", "is placed"]
    (waits,) = [one for one in found["gangs"] if one["answer"] != "is placed"]
    assert not waits["partial"] and not waits["wouldHold"] and waits["kept"]["together"]

    bundle = str(tmp_path / "bundle.zip")
    assert RUNNER.invoke(app, ["collect", "--kubeconfig", empty.kubeconfig, "-o", bundle]).exit_code == 0
    result = RUNNER.invoke(app, ["gang", "check", bundle, "--feature-gates", GATES, "-o", "json"])
    again = json.loads(result.stdout)
    assert [(one["gang"], one["answer"]) for one in again["gangs"]] == [
        (one["gang"], one["answer"]) for one in found["gangs"]
    ]
