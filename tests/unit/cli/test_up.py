"""`regauge up` as it is called: what it refuses, backup and restore."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cluster.up.program import running


def call(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regauge", "up", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)


def test_it_listens_on_loopback_unless_told(tmp_path: Path) -> None:
    done = call("--state", str(tmp_path / "s"), "--listen", "0.0.0.0:0")
    assert done.returncode == 2 and "is reached from other machines" in done.stderr and "--expose" in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "example.com:0"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    done = call("--state", str(tmp_path / "s"), "--listen", address)
    assert done.returncode == 2 and "--listen" in done.stderr and "Traceback" not in done.stderr


def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = call("--state", str(tmp_path))
    assert done.returncode == 2 and "open to other users" in done.stderr


def test_a_store_that_cannot_be_read_is_told_in_words_and_left_as_it_is(tmp_path: Path) -> None:
    state = tmp_path / "s"
    state.mkdir(mode=0o700)
    (state / "store.db").write_bytes(b"no database at all" * 100)
    done = call("--state", str(state))
    assert done.returncode == 2 and "cannot be read as a store" in done.stderr
    assert (state / "store.db").read_bytes() == b"no database at all" * 100


def test_a_kubeconfig_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("clusters: [{name: production}]\n")
    done = call("--state", str(tmp_path / "s"), "--kubeconfig", str(mine), "--nodes", "0")
    assert done.returncode == 2 and "kubeconfig of something else" in done.stderr
    assert mine.read_text() == "clusters: [{name: production}]\n"


def test_backup_and_restore(tmp_path: Path) -> None:
    state, copy = tmp_path / "s", tmp_path / "copy.db"
    with running(state, "--nodes", "0") as program:
        program.kubectl("create", "configmap", "before")
        assert call("backup", str(copy), "--state", str(state)).returncode == 0
        again = call("backup", str(copy), "--state", str(state))
        assert again.returncode == 2 and "exists already" in again.stderr
        program.kubectl("create", "configmap", "after")
        refused = call("restore", str(copy), "--state", str(state))
        assert refused.returncode == 2 and "a cluster runs on" in refused.stderr
        second = call("--state", str(state))
        assert second.returncode == 2 and "a cluster runs on" in second.stderr
        program.end(signal.SIGTERM)
    assert call("restore", str(copy), "--state", str(state)).returncode == 0
    with running(state, "--nodes", "0") as program:
        assert "before" in program.kubectl("get", "cm")
        program.kubectl("get", "cm", "after", code=1)
