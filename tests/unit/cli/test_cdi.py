"""`regauge cdi` as a user sees it: output, exit codes, what is changed and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.support import shared
from typer.testing import CliRunner

from regauge.cli.app import app
from regauge.cli.cdi.options import SPEC_LIMIT_BYTES

RUNNER = CliRunner()
UID = "7b0c2d1e-0000-4000-8000-00000000000a"
SPEC = """cdiVersion: 0.3.0
kind: acme.test/gpu
devices:
- name: gpu0
  containerEdits:
    env: [ACME=0]
    deviceNodes: [{path: /dev/acme0, permissions: rw}]
"""


def run(*arguments: str, given: str | None = None) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["cdi", *arguments], input=given)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "bug of ours" not in result.stderr
    return result.exit_code, result.stdout, result.stderr


def asked(*arguments: str) -> tuple[int, Any]:
    code, out, _ = run(*arguments, "-o", "json")
    return code, json.loads(out)


def case(name: str) -> str:
    return str(shared(f"cases/{name}"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("etc/cdi", "var/run/cdi", "dev", "var/lib/kubelet/plugins/gpu.acme.test"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("dev/null", "dev/acme0"):
        (tmp_path / name).write_text("")
    (tmp_path / "var/run/cdi/acme.yaml").write_text(SPEC)
    return tmp_path


def old(path: Path, text: str) -> Path:
    path.write_text(text)
    os.utime(path, (1000, 1000))
    return path


# list and show ---------------------------------------------------------------------------------------------------


@pytest.mark.row(37, how="unit")
def test_list() -> None:
    code, out, err = run("list", "--root", case("16-cdi-name-conflicts"))
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:6] == ["VENDOR", "CLASS", "DEVICE", "FILE", "PRIORITY", "WRITTEN"]
    assert rows[3] == ["acme.test", "gpu", "gpu1", "/etc/cdi/b.json", "0", "unknown", "ok"]
    assert "unusable: also in /etc/cdi/b.json" in out
    assert "replaces the one in /etc/cdi/a.yaml" in out
    _, _, err = run("list", "--root", case("17-cdi-invalid-files"))
    assert err.count("unusable: /var/run/cdi/") == 5


def test_list_as_json() -> None:
    code, document = asked("list", "--root", case("16-cdi-name-conflicts"))
    assert code == 0 and document["schema"] == "regauge.cdi.list/v1"
    assert [(one["name"], one["usable"]) for one in document["devices"]] == [
        ("acme.test/gpu=gpu0", False),
        ("acme.test/gpu=gpu0", False),
        ("acme.test/gpu=gpu1", True),
        ("acme.test/gpu=gpu2", True),
    ]
    assert document["devices"][0]["conflictsWith"] == ["/etc/cdi/b.json"]
    _, document = asked("list", "--root", case("17-cdi-invalid-files"))
    assert len(document["unusable"]) == 5 and all(one["findings"][0]["rule"] for one in document["unusable"])


def test_show_a_device(root: Path) -> None:
    code, out, _ = run("show", "acme.test/gpu=gpu0", "--root", str(root))
    assert code == 0 and "acme.test/gpu=gpu0 of /var/run/cdi/acme.yaml" in out and "path: /dev/acme0" in out
    code, out, err = run("show", "acme.test/gpu=gpu1", "--root", str(root))
    assert (code, out) == (1, "") and "there are acme.test/gpu=gpu0" in err
    _, document = asked("show", "acme.test/gpu=gpu0", "--root", str(root))
    assert document["containerEdits"] == {
        "env": ["ACME=0"],
        "deviceNodes": [{"path": "/dev/acme0", "permissions": "rw"}],
    }


def test_show_a_file(root: Path) -> None:
    code, out, _ = run("show", str(root / "var/run/cdi/acme.yaml"))
    assert code == 0 and out.startswith("---\ncdiVersion: 0.3.0\nkind: acme.test/gpu\n")
    (root / "bad.yaml").write_text("kind: x\n")
    code, _, err = run("show", str(root / "bad.yaml"))
    assert code == 1 and "cdiVersion is missing" in err
    assert run("show", "no-such-file")[0] == 2


# validate --------------------------------------------------------------------------------------------------------


@pytest.mark.row(30, how="unit")
def test_validate_says_file_line_and_rule() -> None:
    place = case("17-cdi-invalid-files") + "/run-cdi"
    code, out, _ = run("validate", place)
    assert code == 1
    lines = [line.removeprefix(place + "/") for line in out.splitlines()]
    assert any(line.startswith("empty-edits.yaml:6: error: empty-edits: devices[0].containerEdits:") for line in lines)
    assert any(line.startswith("gids-too-old.yaml:1: error: version-too-low: cdiVersion:") for line in lines)
    assert "good.yaml: valid, 1 device of acme.test/good" in lines
    code, document = asked("validate", place)
    assert code == 1
    valid = {one["file"].removeprefix(place + "/"): one["valid"] for one in document["files"]}
    assert valid == {
        "empty-edits.yaml": False,
        "gids-too-old.yaml": False,
        "good.yaml": True,
        "slash-name.yaml": False,
        "too-old-version.yaml": False,
        "unknown-field.yaml": False,
    }


def test_validate_from_a_pipe_and_bad_input(tmp_path: Path) -> None:
    assert run("validate", "-", given=SPEC)[:2] == (0, "-: valid, 1 device of acme.test/gpu\n")
    assert run("validate", str(tmp_path / "no.yaml"))[0] == 2
    assert run("validate", str(tmp_path))[0] == 2
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "escape.yaml").write_text(SPEC.replace("acme.test", '"\\e[31m"'))
    code, out, _ = run("validate", str(tmp_path))
    assert code == 1 and "\x1b" not in out


def test_validate_says_which_file_of_a_directory_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("nowhere.yaml")
    (tmp_path / "b.yaml").write_bytes(b" " * (SPEC_LIMIT_BYTES + 1))
    (tmp_path / "c.yaml").write_text(SPEC)
    os.mkfifo(tmp_path / "d.yaml")
    code, out, _ = run("validate", str(tmp_path))
    lines = [line.removeprefix(f"{tmp_path}/") for line in out.splitlines()]
    assert (code, lines) == (
        1,
        [
            "a.yaml: error: unreadable: cannot be read: No such file or directory",
            "b.yaml: error: unreadable: over 16 MiB",
            "c.yaml: valid, 1 device of acme.test/gpu",
            "d.yaml: error: unreadable: not a regular file",
        ],
    )
    _, document = asked("validate", str(tmp_path))
    assert [one["valid"] for one in document["files"]] == [False, False, True, False]


# inject ----------------------------------------------------------------------------------------------------------


@pytest.mark.row(2, how="unit")
def test_inject_with_recorded_host_facts(root: Path) -> None:
    (root / "host.json").write_text('{"devices": {"/dev/acme0": {"type": "c", "major": 195, "fileMode": 432}}}')
    (root / "config.json").write_text('{"process": {"env": ["A=1"]}}')
    arguments = ("--spec", str(root / "config.json"), "--root", str(root), "acme.test/gpu=gpu0")
    code, out, _ = run("inject", "--host-facts", str(root / "host.json"), *arguments)
    assert code == 0
    document = json.loads(out)
    assert document["process"]["env"] == ["A=1", "ACME=0"]
    assert document["linux"]["devices"] == [
        {"path": "/dev/acme0", "type": "c", "major": 195, "minor": 0, "fileMode": 432}
    ]
    assert json.loads((root / "config.json").read_text()) == {"process": {"env": ["A=1"]}}
    code, out, err = run("inject", *arguments)
    assert (code, out) == (1, "") and "not a device node" in err
    code, _, err = run("inject", *arguments[:-1], "acme.test/gpu=nope")
    assert code == 1 and "unresolvable CDI devices acme.test/gpu=nope" in err


@pytest.mark.parametrize("facts", ['{"devices": 1}', '{"devices": {"/dev/a": {"major": 1}}}', "[]", "x"])
def test_inject_with_facts_that_are_none(root: Path, facts: str) -> None:
    (root / "host.json").write_text(facts)
    arguments = ("--spec", "-", "--host-facts", str(root / "host.json"), "--root", str(root), "acme.test/gpu=gpu0")
    assert run("inject", *arguments, given="{}")[0] == 2
    assert run("inject", "--spec", "-", "a.b/c=d", given="nonsense")[0] == 2


# diff and watch --------------------------------------------------------------------------------------------------


def test_diff_by_meaning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SPEC)
    same = {
        "cdiVersion": "0.5.0",
        "kind": "acme.test/gpu",
        "containerEdits": {"env": ["ACME=0"]},
        "devices": [
            {"name": "gpu0", "containerEdits": {"deviceNodes": [{"permissions": "rw", "path": "/dev/acme0"}]}},
        ],
    }
    (tmp_path / "b.json").write_text(json.dumps(same))
    code, out, err = run("diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.json"))
    assert (code, out) == (0, "") and "1 devices mean the same" in err
    same["devices"].append({"name": "gpu1", "containerEdits": {"env": ["X=1"]}})  # type: ignore[attr-defined]  # a list
    same["containerEdits"] = {"env": ["ACME=1"]}
    (tmp_path / "b.json").write_text(json.dumps(same))
    code, document = asked("diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.json"))
    assert code == 1
    assert [(one["how"], one["name"], one["details"]) for one in document["changes"]] == [
        ("changed", "acme.test/gpu=gpu0", ["env ACME: 0 became 1"]),
        ("added", "acme.test/gpu=gpu1", []),
    ]


def test_diff_of_directories_and_of_a_bad_file(tmp_path: Path) -> None:
    place = case("16-cdi-name-conflicts")
    code, out, err = run("diff", f"{place}/etc-cdi", f"{place}/run-cdi")
    assert code == 1
    assert "- acme.test/gpu=gpu1: removed" in out and "env FROM: etc became run" in out
    assert "left out: device acme.test/gpu=gpu0" in err
    (tmp_path / "bad.yaml").write_text("x: 1")
    assert run("diff", str(tmp_path / "bad.yaml"), f"{place}/etc-cdi")[0] == 2


def test_watch_prints_changes_as_they_happen(root: Path) -> None:
    arguments = [sys.executable, "-m", "regauge", "cdi", "watch", "--root", str(root), "--every", "0.05", "-o", "json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        try:
            assert "1 devices" in child.stderr.readline()
            run_cdi = root / "var/run/cdi"
            seen = []
            for change in (
                lambda: (run_cdi / "new.yaml").write_text(SPEC.replace("gpu0", "gpu1")),
                lambda: (run_cdi / "new.yaml").write_text(SPEC.replace("gpu0", "gpu1").replace("ACME=0", "ACME=7")),
                lambda: (run_cdi / "new.yaml").unlink(),
            ):
                change()
                seen.append(json.loads(child.stdout.readline()))
        finally:
            child.terminate()
    assert [(one["how"], one["name"]) for one in seen] == [
        ("added", "acme.test/gpu=gpu1"),
        ("changed", "acme.test/gpu=gpu1"),
        ("removed", "acme.test/gpu=gpu1"),
    ]
    assert seen[1]["details"] == ["env ACME: 0 became 7"]


def test_watch_ends_in_time(root: Path) -> None:
    started_s = time.monotonic()
    code, out, err = run("watch", "--for", "0.2", "--root", str(root))
    assert (code, out) == (0, "") and "watching" in err
    assert time.monotonic() - started_s < 5


# gc --------------------------------------------------------------------------------------------------------------


def test_gc_names_first_and_removes_when_told(root: Path) -> None:
    run_cdi = root / "var/run/cdi"
    gone = old(run_cdi / "gone.yaml", SPEC.replace("acme0", "acme7").replace("gpu0", "gpu7"))
    bad = old(run_cdi / "bad.yaml", "nonsense: [")
    lost = old(
        run_cdi / f"k8s.gpu.acme.test-claim_{UID}.yaml", SPEC.replace("acme.test/gpu", "k8s.gpu.acme.test/claim")
    )
    (root / "var/lib/kubelet/plugins/gpu.acme.test/checkpoint.json").write_text('{"preparedClaims": {}}')
    state = '{"ClaimInfoStateList": null}'
    outer = {"Data": state, "Checksum": zlib.crc32(state.encode())}
    (root / "var/lib/kubelet/dra_manager_state").write_text(json.dumps(outer))
    code, document = asked("gc", "--root", str(root))
    assert code == 0 and not document["deleted"]
    assert sorted(one["file"] for one in document["files"]) == [f"/var/run/cdi/{one.name}" for one in (gone, lost)]
    assert {one["outcome"] for one in document["files"]} == {"would be removed"}
    assert gone.exists() and lost.exists()
    code, out, _ = run("gc", "--root", str(root), "--delete")
    assert code == 0 and out.count("removed") == 2
    assert not gone.exists() and not lost.exists()
    assert bad.exists() and (run_cdi / "acme.yaml").exists()
    code, _, err = run("gc", "--root", str(root))
    assert code == 0 and "no file can go" in err


def test_gc_keeps_what_a_checkpoint_that_cannot_be_read_may_need(root: Path) -> None:
    name = f"k8s.gpu.acme.test-claim_{UID}.yaml"
    lost = old(root / "var/run/cdi" / name, SPEC.replace("acme.test/gpu", "k8s.gpu.acme.test/claim"))
    (root / "var/lib/kubelet/plugins/gpu.acme.test/checkpoint.json").write_text("nonsense")
    assert asked("gc", "--root", str(root), "--delete")[1]["files"] == []
    assert lost.exists()


def test_gc_removes_a_link_and_not_what_it_leads_to(root: Path) -> None:
    (root / "opt").mkdir()
    target = old(root / "opt/spec.yaml", SPEC.replace("acme0", "acme7").replace("gpu0", "gpu7"))
    link = root / "var/run/cdi/link.yaml"
    link.symlink_to("/opt/spec.yaml")
    code, document = asked("gc", "--root", str(root), "--delete")
    assert (code, [one["outcome"] for one in document["files"]]) == (0, ["removed"])
    assert target.exists() and not link.is_symlink()


# audit -----------------------------------------------------------------------------------------------------------


@pytest.mark.row(41, 264, how="unit")
def test_audit_tells_people_why_and_what_to_do() -> None:
    code, out, _ = run("audit", "--root", case("18-cdi-stale-after-driver-upgrade"))
    assert code == 1
    assert "ERROR CDI-STALE-NODE (injection): /dev/acme1 is not on this node" in out
    assert "  fix:  have the spec written anew" in out
    assert "not known: container runtime" in out
    assert "2 errors, 1 warning, 0 notes; 2 devices." in out


def test_audit_as_json_and_from_which_severity_it_fails() -> None:
    place = case("16-cdi-name-conflicts")
    code, document = asked("audit", "--root", place)
    assert code == 1 and document["schema"] == "regauge.cdi.audit/v1"
    assert [one["code"] for one in document["findings"]] == ["CDI-CONFLICT", "CDI-SHADOWED"]
    evidence = document["findings"][0]["evidence"]
    assert [(one["file"], one["line"]) for one in evidence] == [("/etc/cdi/a.yaml", 4), ("/etc/cdi/b.json", 6)]
    assert asked("audit", "--root", place, "--fail-on", "never")[0] == 0


@pytest.mark.row(38, 152, 266, how="unit")
def test_audit_fails_for_a_directory_that_others_can_write(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink() and os.getuid() == 0:
            os.chown(path, 0, 0)
    before = {
        one["where"] for one in asked("audit", "--root", str(root))[1]["findings"] if one["code"] == "CDI-PERMISSIONS"
    }
    (root / "var/run/cdi").chmod(0o777)
    code, document = asked("audit", "--root", str(root))
    after = {one["where"] for one in document["findings"] if one["code"] == "CDI-PERMISSIONS"}
    assert code == 1 and "/var/run/cdi" in after
    if os.getuid() == 0:
        assert "/var/run/cdi" not in before


@pytest.mark.row(40, 42, how="unit")
def test_audit_with_what_the_cluster_knows(root: Path) -> None:
    (root / "etc/containerd").mkdir()
    toml = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
    (root / "etc/containerd/config.toml").write_text(toml)
    classes = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: fast}\nhandler: gone\n"
    (root / "classes.yaml").write_text(classes)
    options = ("--runtime-classes", str(root / "classes.yaml"), "--runtime-version", "containerd://1.7.22")
    code, document = asked("audit", "--root", str(root), *options)
    found = {one["code"] for one in document["findings"]}
    assert code == 1 and {"CDI-RUNTIME-OFF", "CDI-HANDLER-MISSING"} <= found
    assert [one["usable"] for one in document["devices"]] == ["no"]
    (root / "classes.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    assert run("audit", "--root", str(root), *options)[0] == 2


def test_a_root_that_is_not_there() -> None:
    for verb in ("list", "gc", "audit"):
        assert run(verb, "--root", "/no/such/place")[0] == 2
