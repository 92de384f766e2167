"""The pilots on a real cluster: its scheduler, controllers and kubelet, the driver of this project, one node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom

import pytest
from msgspec import structs
from tests.e2e.site import skip_unless_given, until
from tests.support import kubectl

from regauge.features import gates_from_prometheus, parse_feature_gates
from regauge.host import RealClock
from regauge.kube.config import load_connection
from regauge.kube.http import HttpClient
from regauge.rehearsal.playing import Done
from regauge.rehearsal.real import play_real
from regauge.rehearsal.scenario import Scenario, suite

# A namespace beside its own is not looked at there; what a driver says in a claim is shown by tests of the driver.
PATIENCE_S = 120.0  # a kubelet that asks for a claim too early tries again after more than a minute
LEFT_OUT = ("admin-access", "claim-device-status")
PILOTS = [one for one in suite("pilots") if one.name not in LEFT_OUT]
pytestmark = [pytest.mark.timeout(240)]


def said(arguments: list[str]) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def driver(scenario: Scenario, node: str, place: Path) -> Iterator[None]:
    """The driver with the devices of a scenario on the node of this machine."""
    (described,) = {one.devices for one in scenario.nodes}
    config = place / "devices.yaml"
    config.write_text(json.dumps(scenario.devices[described]))
    program = Path(sys.executable).with_name("regauge")
    kubelet, cdi = os.environ["REGAUGE_KUBELET_DIR"], os.environ.get("REGAUGE_CDI_DIR", "/var/run/cdi")
    command = [str(program), "driver", "--config", str(config), "--kubeconfig", os.environ["REGAUGE_KUBECONFIG"]]
    command += ["--node", node, "--kubelet-dir", kubelet, "--cdi-dir", cdi, "--listen", f"unix:{place / 'd.sock'}"]
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            probe = [str(program), "driver", "probe", f"unix:{place / 'd.sock'}"]
            until(lambda: subprocess.run(probe, capture_output=True, timeout=30, check=False).returncode == 0, "driver")
            yield
        finally:
            process.terminate()
            process.wait(30)


def gates_are_on(scenario: Scenario, client: list[str]) -> bool:
    """Whether the API server has the gates of a scenario on."""
    on = gates_from_prometheus(said([*client, "get", "--raw", "/metrics"]))
    return all(on.get(gate) is value for gate, value in parse_feature_gates(scenario.feature_gates).items())


@pytest.mark.row(232, how="real")
@pytest.mark.parametrize("scenario", PILOTS, ids=[one.name for one in PILOTS])
def test_a_pilot_holds_on_a_real_cluster(scenario: Scenario) -> None:
    skip_unless_given()
    client = [str(kubectl()), f"--kubeconfig={os.environ['REGAUGE_KUBECONFIG']}"]
    if not gates_are_on(scenario, client):
        pytest.skip(f"the API server has not on: {scenario.feature_gates}")
    node = os.environ.get("REGAUGE_NODE") or said([*client, "get", "nodes", "-o", "name"]).strip().removeprefix("node/")
    image = os.environ.get("REGAUGE_E2E_IMAGE", "busybox:1.36")
    steps = tuple(structs.replace(step, within=max(step.within, PATIENCE_S)) for step in scenario.steps)
    scenario = structs.replace(scenario, settle=0.0, steps=steps)
    told: list[str] = []

    def listen(_title: str, step: Done | None) -> None:
        told.extend(f"{step.title}: {one.what}: {one.seen}" for one in step.checks if not one.holds) if step else None

    with tempfile.TemporaryDirectory(prefix="rg-") as place, driver(scenario, node, Path(place)):
        connection = load_connection({}, kubeconfig=os.environ["REGAUGE_KUBECONFIG"], home="/")
        names = {"node-1": node, "registry.example.com/work:1": image}
        played = play_real(
            scenario, lambda: HttpClient(connection, user_agent="user"), RealClock(), SystemRandom(), listen, names
        )
        log = Path(place, "log").read_text()
    assert told == [] and played.holds, log
    assert any(step.checks for step in played.steps)
