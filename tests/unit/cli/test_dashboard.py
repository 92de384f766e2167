"""`regauge dashboard` as a program: it says where it is, answers there, and ends when it is told to."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from regauge.cli.app import app


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["dashboard", "sample", *arguments])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.row(222)
def test_it_shows_the_sample_with_a_token_and_ends_in_order(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-good-length\n")
    command = [sys.executable, "-m", "regauge", "dashboard", "sample", "--port", "0", "--token-file", str(token)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            line = running.stderr.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert url is not None, line + running.stderr.read()
            assert httpx.get(f"{url[0]}api/view").status_code == 401
            answer = httpx.get(f"{url[0]}api/view", headers={"Authorization": "Bearer a-token-of-good-length"})
            assert answer.json()["tables"]["about"]["page"]["source"] == "the sample estate"
        finally:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(20)
            finally:
                running.kill()
        told = running.stderr.read()
    assert running.returncode in (0, 130) and "Traceback" not in told, told


def test_what_others_reach_has_tls_or_is_refused() -> None:
    assert "without TLS" in refused("--listen", "0.0.0.0")
    assert "go together" in refused("--tls-cert-file", "tls.crt")


def test_an_address_that_is_none_is_refused() -> None:
    assert "is no IP address" in refused("--listen", "gpus.example.com")


@pytest.mark.parametrize("text", ["short", "x" * 5000, "with a \x01 in it, and long", "nicht ganz ASCII, äöü"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    assert "holds no token" in refused("--token-file", str(file))


def test_a_token_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refused("--token-file", str(tmp_path / "nothing"))


def test_without_an_http_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "regauge.observe.dashboard.serving", raising=False)
    assert "uvicorn is not installed" in refused()
