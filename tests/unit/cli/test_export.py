"""`regauge export` as it is called: one look, a server, two attributions, and what it refuses."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cluster.access.certificates import new_authority, new_server
from regauge.observe.history import Charge, Consumer, History, from_bytes, to_bytes

RUNNER = CliRunner()
TOKEN = "a-token-of-more-than-16-characters"


def run(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["export", *arguments])
    assert "Traceback" not in result.output and "a bug of ours" not in result.output, result.output
    return result.exit_code, result.stdout, result.stderr


def test_the_sample_is_told_as_it_is_known(golden: Callable[[str, str], None]) -> None:
    """Every value has been read and held against the estate; another one is another answer."""
    code, out, _ = run("--once", "sample")
    assert code == 0
    golden("export_sample.txt", re.sub(r'(version=")[^"]*', r"\1VERSION", out))


def test_what_is_printed_is_openmetrics() -> None:
    _, out, _ = run("--once", "sample")
    assert len(list(text_string_to_metric_families(out))) > 25


def test_a_family_is_cut_where_it_is_told_to() -> None:
    _, out, _ = run("--once", "sample", "--max-series", "3")
    assert 'regauge_export_dropped_series{family="regauge_device_healthy"} 25.0' in out


def test_a_node_tells_its_own_part(tmp_path: Path) -> None:
    measured = tmp_path / "gpus.prom"
    measured.write_text(
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0001155c-0000-4000-8000-000000000000",Hostname="canary-1"} 40\n'
    )
    code, out, _ = run("--once", "sample", "--node", "canary-1", "--source", f"file={measured}")
    assert code == 0
    names = set(re.findall(r"^(regauge_\w+)\{", out, re.M))
    assert "regauge_device_utilization_ratio" in names and "regauge_resourceclaims" not in names
    rows = [line for line in out.splitlines() if line.startswith("regauge_device_utilization_ratio{")]
    assert len(rows) == 3 and all(line.endswith(" 0.4") and 'claim="shared-h100"' in line for line in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "0.0.0.0"), "without TLS all of it could be read on the way"),
        (("--listen", "0.0.0.0", "--plain-http"), "who scrapes must show a token"),
        (("--listen", "example.com"), "example.com is no IP address"),
        (("--token-file", "/nothing"), "/nothing cannot be read"),
        (("--source", "nothing"), "there is no source 'nothing'"),
        (("--source", "nvml"), "source nvml is of one node"),
        (("--tls-cert-file", "/nothing"), "a certificate and its key go together"),
        (("--state", "/nothing/there/export"), "--state: /nothing/there/export cannot be used"),
    ],
)
def test_what_cannot_be_is_refused_in_words(arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run("sample", "--port", "0", *arguments)
    assert code == 2 and said in err


def test_a_token_that_is_too_short_is_none(tmp_path: Path) -> None:
    short = tmp_path / "token"
    short.write_text("short\n")
    code, _, err = run("sample", "--token-file", str(short))
    assert code == 2 and "holds no token" in err


# -- two attributions


def state(place: Path, charges: Mapping[tuple[str, str], tuple[float, float]]) -> str:
    found = {Consumer("ns", "Job", name, stack): Charge(*charge, 0.0) for (name, stack), charge in charges.items()}
    place.write_bytes(to_bytes(History(1.0, charges=found)))
    return str(place)


@pytest.mark.row(103, how="unit")
def test_two_attributions_are_compared_and_the_exit_code_says_it(tmp_path: Path) -> None:
    counted = state(tmp_path / "counted", {("j", "device-plugin"): (100.0, 1.0), ("k", "device-plugin"): (50.0, 0.0)})
    claimed = state(tmp_path / "claimed", {("j", "dra"): (101.5, 0.5), ("k", "dra"): (50.2, 0.0)})
    code, out, err = run("--compare", counted, claimed)
    assert code == 0 and "2 workloads, 0 of them differ" in out + err
    assert re.search(r"ns +Job/j +100\.0 +101\.5 +-1\.5 +2\.5 +device-plugin\+dra", out)
    code, out, _ = run("--compare", counted, claimed, "--tolerance", "0")
    assert code == 1 and re.search(r"Job/k .* differs", out) and not re.search(r"Job/j .* differs", out)
    code, _, err = run("--compare", counted, str(tmp_path / "nothing"))
    assert code == 2 and "nothing" in err


# -- served


def test_it_is_served_with_tls_and_a_token_until_it_is_told_to_end(tmp_path: Path) -> None:
    authority = new_authority("test", time.time())
    server = new_server(authority, ["127.0.0.1"], time.time())
    (tmp_path / "tls.crt").write_bytes(server.certificate)
    (tmp_path / "tls.key").write_bytes(server.key)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    command = [
        sys.executable, "-m", "regauge", "export", "sample", "--port", "0", "--state", str(tmp_path / "state"),
        "--token-file", str(tmp_path / "token"), "--tls-cert-file", str(tmp_path / "tls.crt"),
        "--tls-private-key-file", str(tmp_path / "tls.key"),
    ]  # fmt: skip
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = ""
            while not (found := re.search(r"metrics are on (https://127\.0\.0\.1:\d+/metrics)", said)):
                said = process.stderr.readline()
                assert said, process.wait(10)
            with httpx.Client(verify=context, transport=httpx.HTTPTransport(verify=context, retries=3)) as client:
                assert client.get(found[1]).status_code == 401
                headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/openmetrics-text"}
                for _ in range(200):
                    answer = client.get(found[1], headers=headers)
                    if answer.status_code == 200:
                        break
                assert answer.text.endswith("# EOF\n")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert from_bytes((tmp_path / "state").read_bytes(), "state").moment_s is not None
