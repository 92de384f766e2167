"""The contract and the checklist beside a real API server, scheduler, kubelet and runtime."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.drivers import Driver
from tests.e2e.pods import Pods
from tests.e2e.site import Site, until
from typer.testing import CliRunner

from regauge.cli.app import app

pytestmark = [pytest.mark.timeout(240)]
KEPT_FILES = ("device-plugins/kubelet_internal_checkpoint", "dra_manager_state")
SCENARIOS = {
    "lifecycle": ("3-deleted", "3-recreated", "7-reallocated", "5-notready", "4-driver"),
    "failures": ("F-4", "F-5", "F-19", "F-27"),
    "checklist": ("3-tainted", "6-diagnosed"),
}


def run(*words: str, code: int = 0, live: bool = True) -> str:
    more = ("--kubeconfig", os.environ["REGAUGE_KUBECONFIG"]) if live else ()
    done = CliRunner().invoke(app, [*words, *more])
    assert done.exit_code == code, f"{words}: {done.exit_code}\n{done.output}"
    return done.stdout


@pytest.fixture
def serving(site: Site, pods: Pods) -> Iterator[Driver]:
    """A driver with two devices, one of which a pod holds by a template."""
    driver = Driver(site, "pact", (), ("pact-a", "pact-b"))
    try:
        driver.describe()
        driver.device_class()
        driver.start()
        driver.claim("one", template=True)
        pods.claims("user", {"gpu": "template:one"}, main=["gpu"])
        pods.running("user")
        yield driver
        pods.delete("user")
        assert driver.stop() == 0
    finally:
        driver.clean()
        site.run("delete", "deviceclass", driver.name, "--ignore-not-found")
        site.run("delete", "resourceclaimtemplate", "one", "-n", site.tag, "--ignore-not-found")


def record(driver: Driver, place: Path) -> Path:
    """What a record of the node's own root would hold of kubelet, drivers and CDI."""
    kubelet, root = Path(driver.site.kubelet_dir), place / "root"
    kept = [*KEPT_FILES, *(str(one.relative_to(kubelet)) for one in driver.state.glob("checkpoint*"))]
    for name in kept:
        if (kubelet / name).is_file():
            (root / "var/lib/kubelet" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kubelet / name, root / "var/lib/kubelet" / name)
    (root / "var/run/cdi").mkdir(parents=True)
    for name in driver.claims:  # what its specs mount
        (root / str(driver.site.root / name).lstrip("/")).mkdir(parents=True)
    for name in driver.specs():
        shutil.copy2(Path(driver.site.cdi_dir) / name, root / "var/run/cdi" / name)
    records = place / "records"
    records.mkdir()
    out = str(records / f"{driver.site.node}.json")
    run("collect", "node", "--root", str(root), "--node", driver.site.node, "-o", out, live=False)
    return records


@pytest.fixture
def contract(serving: Driver, tmp_path: Path) -> Path:
    """The contract of the cluster, with what a person says in it."""
    rehearsal, path = tmp_path / "rehearsal.json", tmp_path / "contract.yaml"
    rehearsal.write_text(run("rehearse", "sample", "--plan", "auto", "-o", "json", live=False))
    run("contract", "init", "--name", "real", "--evidence", str(rehearsal), "--write", str(path))
    document = yaml.safe_load(path.read_text())
    assert [one["name"] for one in document["drivers"]] == [serving.name]
    (pool,), (mode,) = document["nodePools"], document["modes"]
    pool["rationale"], mode["canary"] = "the only node", f"node {serving.site.node}"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def check(contract: Path, *, code: int) -> dict[str, str]:
    """What is not kept, by field."""
    evidence = ("--evidence", str(contract.parent / "rehearsal.json"))
    told = json.loads(run("contract", "check", str(contract), *evidence, "-o", "json", code=code))
    return {one["field"]: one["seen"] for one in told["promises"] if one["answer"] != "kept"}


def failing(told: str) -> dict[int, list[str]]:
    """The items that do not pass, with their evidence."""
    items = json.loads(told)["checklist"]
    assert [one["number"] for one in items] == list(range(1, 11))
    return {one["number"]: one["evidence"] for one in items if one["answer"] != "pass"}


@pytest.mark.row(119, how="real")
@pytest.mark.row(121, 164, how="real")
def test_a_contract_is_kept_until_a_class_means_something_else(serving: Driver, contract: Path) -> None:
    assert check(contract, code=0) == {}
    name = serving.name

    def rewrite(expression: str) -> None:
        document: dict[str, Any] = serving.site.get("deviceclass", name)
        document["spec"]["selectors"] = [{"cel": {"expression": expression}}]
        assert serving.site.run("replace", "-f", "-", given=document).returncode == 0

    before = contract.parent / "before.zip"
    run("collect", "-o", str(before))
    rewrite(f"'{name}'==device.driver")
    assert check(contract, code=0) == {}
    run("collect", "-o", str(contract.parent / "after.zip"))
    run("contract", "diff", str(before), str(contract.parent / "after.zip"), str(contract), live=False)
    rewrite(f'device.driver == "{name}" && device.attributes["{name}"].uuid.endsWith("-pact-a")')
    (told,) = check(contract, code=1).values()
    assert "its selectors are others: they answer differently for 1 of 2 devices" in told
    run("collect", "-o", str(contract.parent / "after.zip"))
    run("contract", "diff", str(before), str(contract.parent / "after.zip"), code=1, live=False)


@pytest.mark.row(156, 157, 158, 159, 160, 161, 162, 163, 164, 165, how="real")
def test_all_ten_questions_are_answered(serving: Driver, contract: Path, tmp_path: Path) -> None:
    records = record(serving, tmp_path)
    evidence = ["--evidence", str(contract.parent / "rehearsal.json")]
    for name, only in SCENARIOS.items():
        chosen = [word for one in only for word in ("--only", one)]
        (tmp_path / f"{name}.json").write_text(run("verify", name, *chosen, "-o", "json", live=False))
        evidence += ["--evidence", str(tmp_path / f"{name}.json")]
    asked = ("--profile", "production", "--contract", str(contract), *evidence, "--fail-on", "never", "-o", "json")
    assert failing(run("audit", "--nodes", str(records), *asked)) == {}
    bundle = tmp_path / "estate.zip"
    run("collect", "--nodes", str(records), "-o", str(bundle))
    assert failing(run("audit", str(bundle), *asked, live=False)) == {}


@pytest.mark.row(165, how="real")
def test_an_ill_device_starts_a_diagnosis(serving: Driver, tmp_path: Path) -> None:
    into = tmp_path / "diagnoses"
    assert run("collect", "watch", str(into), "--once") == "Every device is well.\n"
    serving.break_("pact-b", "ECC error")
    until(lambda: any("taints" in one for slice_ in serving.site.slices(serving.name) for one in slice_["spec"]["devices"]),
          "the device is tainted")  # fmt: skip
    said = run("collect", "watch", str(into), "--once")
    assert f"{serving.name}/{serving.site.node}/pact-b on {serving.site.node} is tainted" in said
    assert len(list(into.iterdir())) == 1
    serving.mend("pact-b")
