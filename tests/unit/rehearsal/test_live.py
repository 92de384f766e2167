"""The first move on this machine: real sockets, a driver process, containers as processes; killed in every way."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rehearsal.program import LIVE_STEPS, Ended, Place, place, rest, wait_for_line

from regauge.rehearsal import Mode, RehearsalOptions, rehearse

RUNC_OF_THE_REAL_CLUSTER = Path.home().joinpath(".cache", "regauge-real-cluster", "root", "usr", "sbin")


@pytest.fixture(scope="module")
def live() -> Iterator[Ended]:
    with place() as here:
        done = here.run("rehearse", "-o", "json")
        here.assert_nothing_left()
        yield done


def without_seconds(value: Any) -> Any:
    """Without what the clock and chance decide."""
    if isinstance(value, dict):
        return {
            key: without_seconds(item) for key, item in value.items() if key not in ("began_s", "ended_s", "start_s")
        }
    if isinstance(value, list):
        return [without_seconds(item) for item in value]
    if isinstance(value, str):
        text = re.sub(r"trainer-([ab])-[a-z0-9]+-[a-z0-9]{5}", r"trainer-\1-made", value)
        return re.sub(r"\d+\.\d+ s\b", "seconds", text)
    return value


@pytest.mark.row(1, how="unit")
@pytest.mark.row(10, how="unit")
@pytest.mark.row(11, how="unit")
@pytest.mark.row(14, how="unit")
@pytest.mark.row(18, how="unit")
@pytest.mark.row(43, how="unit")
@pytest.mark.row(45, how="unit")
@pytest.mark.row(49, how="unit")
@pytest.mark.row(50, how="unit")
@pytest.mark.row(51, how="unit")
@pytest.mark.row(191, how="unit")
@pytest.mark.row(194, how="unit")
@pytest.mark.row(195, how="unit")
def test_it_holds_over_real_sockets_and_leaves_nothing(live: Ended) -> None:
    assert (live.code, live.err) == (0, "")
    assert live.document["holds"] and live.document["mode"] == "live"
    assert live.document["notes"] == []
    assert [
        step["title"][: len(title)] for step, title in zip(live.document["steps"], LIVE_STEPS, strict=True)
    ] == list(LIVE_STEPS)


@pytest.mark.row(207, how="unit")
@pytest.mark.row(208, how="unit")
@pytest.mark.row(234, how="unit")
@pytest.mark.row(235, how="unit")
@pytest.mark.parametrize("part", ["steps", "states", "comparisons", "ownership"])
def test_live_and_simulated_are_one_scenario_with_the_same_states(live: Ended, part: str) -> None:
    simulated = rehearse(None, RehearsalOptions(mode=Mode.SIMULATED, seed=5), lambda title, step: None).as_document()
    ours = without_seconds(live.document[part])
    theirs = without_seconds(_as_json(simulated[part]))
    assert ours == theirs


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_it_needs_no_network(here: Place) -> None:
    apart = ("unshare", "-n")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network namespace")
    done = here.run("rehearse", "-o", "json", before=apart)
    assert (done.code, done.err) == (0, "")
    assert done.document["holds"]


@pytest.mark.parametrize("at", ["Every device is owned", "Workload A runs"])
def test_a_driver_that_is_killed_from_outside_is_started_again(here: Place, at: str) -> None:
    with here.started("rehearse") as process:
        wait_for_line(process, at)
        (driver,) = here.processes()
        os.kill(driver, signal.SIGKILL)
        done = rest(process)
    assert done.code == 0, done.err + done.out
    assert "note: the driver ended by signal 9 and was started again; it had said: " in done.out
    assert "The move holds: 7 of 7 steps" in done.out
    here.assert_nothing_left()


def test_after_kill_9_no_process_stays_and_the_next_run_clears_up(here: Place) -> None:
    with here.started("rehearse") as process:
        wait_for_line(process, "Workload B runs")
        children = here.processes()
        process.send_signal(signal.SIGKILL)
        assert rest(process).code == -signal.SIGKILL
    assert children
    assert here.processes_left() == []
    assert here.mounts() == []
    (left,) = here.run_directories()
    done = here.run("rehearse")
    assert done.code == 0, done.err
    assert f"note: an earlier run had died and left {left}; removed" in done.out
    here.assert_nothing_left()


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [(signal.SIGTERM, 143, "regauge: told to stop"), (signal.SIGINT, 130, "regauge: stopped")],
)
def test_told_to_stop_it_ends_what_it_started(here: Place, number: signal.Signals, code: int, says: str) -> None:
    with here.started("rehearse") as process:
        wait_for_line(process, "Every device is owned")
        process.send_signal(number)
        done = rest(process)
    assert done.code == code
    assert done.err.splitlines()[-1].startswith(says)
    assert "Traceback" not in done.err
    here.assert_nothing_left()


def test_a_driver_that_keeps_dying_ends_the_run_in_words(here: Place) -> None:
    with here.started("rehearse") as process:
        wait_for_line(process, "Every device is owned")
        seen: set[int] = set()
        while process.poll() is None and len(seen) < 6:
            for pid in set(here.processes()) - seen:
                seen.add(pid)
                os.kill(pid, signal.SIGKILL)
        done = rest(process)
    assert done.code == 3
    assert "regauge: the driver ended by signal 9 for the 4th time" in done.err
    here.assert_nothing_left()


@pytest.fixture
def oci(here: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    if os.geteuid() != 0:
        pytest.skip("the oci runtime needs root")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{RUNC_OF_THE_REAL_CLUSTER}")
    if shutil.which("runc") is None and shutil.which("crun") is None:
        pytest.skip("neither runc nor crun is on this machine")
    return here


@pytest.mark.row(50, how="unit")
def test_containers_of_a_real_runtime(oci: Place) -> None:
    done = oci.run("rehearse", "--runtime", "oci", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert done.document["holds"]
    oci.assert_nothing_left()


def test_containers_of_a_real_runtime_die_with_the_run(oci: Place) -> None:
    groups = set(_control_groups())
    with oci.started("rehearse", "--runtime", "oci") as process:
        wait_for_line(process, "Workload B runs")
        process.send_signal(signal.SIGKILL)
        rest(process)
    assert oci.processes() == []
    assert oci.mounts() == []
    done = oci.run("rehearse", "--runtime", "oci")
    assert done.code == 0, done.err
    assert "note: an earlier run had died" in done.out
    oci.assert_nothing_left()
    assert set(_control_groups()) <= groups


def _control_groups() -> Iterator[str]:
    """Groups of containers of ours, wherever this machine has them."""
    for base in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")):
        if (base / "regauge").is_dir():
            yield from (str(path) for path in (base / "regauge").iterdir() if path.is_dir())


def test_without_a_low_level_runtime_it_says_what_to_do(here: Place, tmp_path: Path) -> None:
    done = here.run("rehearse", "--runtime", "oci", PATH=str(tmp_path))
    assert done.code == 2
    assert "neither runc nor crun is on this machine (install one, or take --runtime process)" in done.err
    here.assert_nothing_left()
