"""The views through kubectl on a real node: holders are who sees the devices, times are those when it happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Doc, Site, until
from tests.support import ROOT, kubectl

from regauge.model.node_files import NodeFile, NodeFiles, PathFacts

pytestmark = [pytest.mark.timeout(240)]
AWAY_S = 8.0


@pytest.fixture(scope="module")
def driver(site: Site) -> Iterator[Driver]:
    made = Driver(site, "view", ("plug-a", "plug-b"), ("claim-a", "claim-b"))
    try:
        made.describe()
        made.device_class()
        made.start()
        until(lambda: site.allocatable(made.resource) == 2, "the node has two")
        yield made
        assert made.stop() == 0
    finally:
        made.clean()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The plugin on the PATH, and the cluster."""
    directory = tmp_path_factory.mktemp("bin")
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name in ("kubectl-regauge", "kubectl_complete-regauge"):
        module, _, function = entries[name].partition(":")
        program = directory / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        program.chmod(0o755)
    path = os.pathsep.join((str(directory), "/usr/bin", "/bin"))
    return {**os.environ, "PATH": path, "KUBECONFIG": os.environ["REGAUGE_KUBECONFIG"]}


def view(environment: dict[str, str], *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [str(kubectl()), *words], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def document(environment: dict[str, str], *words: str) -> Doc:
    found: Doc = json.loads(view(environment, "regauge", *words, "-o", "json"))
    assert found["notRead"] == []
    return found


def seen(pods: Pods, pod: str, part: str) -> set[str]:
    """The devices that a container has, by the variables that only they bring."""
    rows = pods.seen(pod, part).env
    return {one.partition("=")[2].partition(" ")[0] for one in rows if one.startswith("E2E_")}


def record(site: Site, driver: Driver, directory: Path) -> str:
    """What the node keeps, as a record of it."""

    def file(place: Path, path: str) -> NodeFile:
        return NodeFile(path, place.read_bytes(), PathFacts("file", modified_s=place.stat().st_mtime))

    kubelet, base = Path(site.kubelet_dir), "/var/lib/kubelet"
    counted = "device-plugins/kubelet_internal_checkpoint"
    files = NodeFiles(
        "node",
        kubelet=(file(kubelet / counted, f"{base}/{counted}"),),
        checkpoints=(
            file(kubelet / "dra_manager_state", f"{base}/dra_manager_state"),
            file(driver.state / "checkpoint.json", f"{base}/plugins/{driver.name}/checkpoint.json"),
        ),
    )
    directory.mkdir()
    (directory / f"{site.node}.json").write_bytes(msgspec.json.encode(files))
    return str(directory)


@pytest.mark.row(132, how="real")
@pytest.mark.row(139, how="real")
@pytest.mark.row(174, how="real")
def test_holders_are_those_who_see_the_devices(
    site: Site, driver: Driver, pods: Pods, environment: dict[str, str], tmp_path: Path
) -> None:
    for name in driver.claims:
        driver.claim(f"v-{name}", name)
    pods.limits("counts", driver.resource, main=1)
    pods.claims("claims", {name: f"v-{name}" for name in driver.claims}, one=["claim-a"], other=["claim-b"])
    for name in ("counts", "claims"):
        pods.running(name)
    found = document(environment, "devices", "-n", site.tag)
    held = {(h["pod"], h["container"]): {one["device"]} for one in found["devices"] for h in one["holders"]}
    assert held == {("claims", part): seen(pods, "claims", part) for part in ("one", "other")}
    (counted,) = found["counted"]
    assert counted["resource"] == driver.resource and [one["pod"] for one in counted["askers"]] == ["counts"]
    assert "not visible from the API" in view(environment, "regauge", "devices", "-n", site.tag)
    nodes = record(site, driver, tmp_path / "records")
    known = document(environment, "devices", "-n", site.tag, "--nodes", nodes)
    assert known["counted"] == []
    plugged = {
        h["pod"]: one["device"] for one in known["devices"] if one["stack"] == "device-plugin" for h in one["holders"]
    }
    assert {plugged["counts"]} == seen(pods, "counts", "main")
    uuid = f"{site.tag}-{driver.word}-claim-a"
    (asked,) = document(environment, "who-has", uuid)["found"]
    assert [(one["pod"], one["container"]) for one in asked["device"]["holders"]] == [("claims", "one")]
    offered = view(environment, "__complete", "regauge", "timeline", "-n", site.tag, "v-")
    assert [line.partition("\t")[0] for line in offered.splitlines()[:-1]] == ["v-claim-a", "v-claim-b"]


@pytest.mark.row(132, how="real")
@pytest.mark.row(175, how="real")
def test_a_life_is_told_with_the_times_it_really_had(
    site: Site, driver: Driver, pods: Pods, environment: dict[str, str], tmp_path: Path
) -> None:
    """The driver is away while the claim is allocated and its pod placed: prepared comes much later."""
    really = {"created": time.time()}
    driver.claim("life", "claim-b")
    driver.stop()
    time.sleep(2.0)
    really["pod created"] = time.time()
    pods.claims("lives", {"gpu": "life"}, user=["gpu"])
    until(
        lambda: site.get("resourceclaim", "life", "-n", site.tag).get("status", {}).get("allocation"),
        "allocated",
        40,
        0.1,
    )
    really["allocated"] = time.time()
    time.sleep(AWAY_S)
    driver.start()
    pods.poke("lives")
    until(lambda: driver.prepared().get(driver.uid_of("life")) == "PrepareCompleted", "prepared", 90.0, 0.1)
    really["prepared"] = time.time()
    pods.running("lives")
    nodes = record(site, driver, tmp_path / "records")
    told = document(environment, "timeline", "life", "-n", site.tag, "--nodes", nodes)
    assert told["claim"]["state"] == "allocated,reserved" and told["claim"]["node"] == site.node
    assert told["notKnown"] == []
    steps = {(one["step"], one["of"]): one for one in told["moments"]}
    for step, of in (("created", "claim"), ("pod created", "pod lives"), ("allocated", "claim")):
        assert abs(at(steps[step, of]["time"]) - really[step]) < 3.0, steps[step, of]
    reserved = steps["reserved", "claim"]
    assert reserved["certainty"] == "between" and at(reserved["notBefore"]) - 1.0 <= really["allocated"]
    prepared = steps["prepared", "pod lives"]
    assert prepared["certainty"] == "between"
    assert at(prepared["notBefore"]) - 1.0 <= really["prepared"] <= at(prepared["time"]) + 3.0
    assert at(prepared["time"]) - really["allocated"] > AWAY_S - 2.0
    notes = {one["text"] for one in told["moments"] if one["of"] == f"node {site.node}"}
    assert notes == {"noted by the kubelet as prepared", "noted by the driver (PrepareCompleted)"}
    _goes(site, pods, environment)


def _goes(site: Site, pods: Pods, environment: dict[str, str]) -> None:
    """The end is seen while following it."""
    words = [str(kubectl()), "regauge", "timeline", "life", "-n", site.tag, "-f", "-o", "json"]
    following = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        pods.delete("lives")
        site.run("delete", "resourceclaim", "life", "-n", site.tag, "--wait=false")
        lines, _ = following.communicate(timeout=60)
    finally:
        following.kill()
    steps = [json.loads(line)["step"] for line in lines.splitlines()]
    assert following.returncode == 0 and steps[-1] == "gone"
    assert "pod deleted" in steps or "unreserved" in steps


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
