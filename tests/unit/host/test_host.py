"""Real files, locks and sockets."""

import os
import socket
from pathlib import Path

import pytest

from regauge.base import Files, MemoryFiles
from regauge.host import RealFiles, check_socket_path, file_lock, is_listening, private_socket


def test_both_file_systems_keep_the_same_contract(tmp_path: Path) -> None:
    memory = MemoryFiles()
    memory.make_directory(str(tmp_path))
    for files in (RealFiles(), memory):
        assert isinstance(files, Files)
        place = f"{tmp_path}/x"
        files.make_directory(f"{place}/y")
        files.write(f"{place}/y/a", b"1")
        files.write(f"{place}/y/a", b"2", mode=0o600)
        assert files.read(f"{place}/y/a") == b"2"
        assert files.names(f"{place}/y") == ["a"]
        with pytest.raises(FileNotFoundError):
            files.read(f"{place}/none")
        with pytest.raises(FileNotFoundError):
            files.write(f"{place}/none/a", b"")
    assert (tmp_path / "x/y/a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
def test_a_failing_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "f"
    RealFiles().write(str(path), b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        RealFiles().write(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with (
        file_lock(path),
        pytest.raises(TimeoutError, match="another process has held"),
        file_lock(path, timeout_s=0.05),
    ):
        pass
    with file_lock(path, timeout_s=0.05):
        pass


def test_a_leftover_socket_is_not_listening(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert not is_listening(path)
        server.listen()
        assert is_listening(path)
    assert not is_listening(path)


def test_a_long_socket_path_is_refused_in_words() -> None:
    check_socket_path("/" + "x" * 106)
    with pytest.raises(ValueError, match="Linux allows 107"):
        check_socket_path("/" + "x" * 107)


def test_a_private_socket_is_for_its_owner_from_the_first_moment_and_the_mask_is_as_before(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_socket(str(tmp_path / "s")) as bound:
            assert bound.getsockname() == str(tmp_path / "s")
            assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        with pytest.raises(OSError, match="in use"):
            private_socket(str(tmp_path / "s"))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
