"""What people are told: the file, the line, the field, what is wrong and what to do."""

from __future__ import annotations

import time

import pytest
from tests.support import shared

from regauge.base import InputError
from regauge.cdi import catalog_of, parse, read_spec, validate

BROKEN = """\
cdiVersion: 0.3.0
kind: acme.com/gpu
devices:
- name: gpu0
  containerEdits:
    env: [VISIBLE]
    deviceNodes:
    - path: /dev/acme0
      hostPath: /dev/acme0
      permissions: rwx
- name: gpu0
  containerEdits: {}
"""


def test_every_error_with_its_line() -> None:
    found = validate(BROKEN, "acme.yaml")
    places = [(finding.code, finding.line, str(finding.where)) for finding in found]
    assert places == [
        ("env", 6, "acme.yaml:6: devices[0].containerEdits.env[0]"),
        ("node-permissions", 10, "acme.yaml:10: devices[0].containerEdits.deviceNodes[0].permissions"),
        ("empty-edits", 12, "acme.yaml:12: devices[1].containerEdits"),
        ("device-duplicate", 11, "acme.yaml:11: devices[1].name"),
    ]
    assert all(finding.severity == "error" for finding in found)
    with pytest.raises(InputError, match=r"acme.yaml:6: .*'VISIBLE' is not NAME=VALUE"):
        read_spec(BROKEN, "acme.yaml")


def test_a_slip_of_runtimes_is_a_warning() -> None:
    device = "{name: %s, containerEdits: {deviceNodes: [{path: /dev/x%s}]}}"
    low = "cdiVersion: 0.3.0\nkind: acme.com/gpu\ndevices: [%s, %s]\n"
    first = low % (device % ("a", ", hostPath: /dev/y"), device % ("b", ""))
    last = low % (device % ("a", ""), device % ("b", ", hostPath: /dev/y"))
    assert [(finding.code, finding.severity) for finding in validate(first)] == [("version-too-low", "warning")]
    assert [(finding.code, finding.severity) for finding in validate(last)] == [("version-too-low", "error")]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("cdiVersion: 1.1.0\nkind: acme.com/g\ndevises: []\n", "unknown-field", 3),
        ("cdiVersion: 1.1.0\nkind: acme.com/g\nkind: b\n", "duplicate-key", 3),
        ("cdiVersion: 1.1.0\nkind: acme.com/g\ndevices:\n- name: [a]\n", "type", 4),
        ("cdiVersion: 1.1.0\nkind: [\n", "syntax", 3),
        ("kind: acme.com/g\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n", "version-unknown", 1),
        ("", "empty", None),
        (b"\xff\xfe", "syntax", None),
        ("a: " + "[" * 5000, "syntax", None),
        ("cdiVersion: '\ud800'", "syntax", None),
    ],
)
def test_unreadable(text: str | bytes, code: str, line: int | None) -> None:
    finding = validate(text, "f.yaml")[0]
    assert (finding.code, finding.severity) == (code, "error")
    assert finding.line == line or line is None
    assert str(finding).startswith("f.yaml")


def test_advice() -> None:
    text = """\
cdiVersion: 1.1.0
kind: v/c
annotations: {a b: c}
devices:
- name: a
  containerEdits:
    deviceNodes: [{path: dev/x, type: c, major: 10.5}]
    hooks: [{hookName: prestart, path: /h, timeout: -1}]
---
kind: ignored
"""
    found = validate(text, "f.yaml")
    assert [(finding.severity, finding.code, finding.line) for finding in found] == [
        ("warning", "second-document", None),
        ("warning", "number-cut", 7),
        ("warning", "one-letter-name", 2),
        ("warning", "one-letter-name", 2),
        ("warning", "annotation-key", 3),
        ("warning", "relative-path", 7),
        ("warning", "hook-timeout", 8),
        ("note", "version-higher-than-needed", 1),
    ]
    assert read_spec(text).devices[0].container_edits.device_nodes[0].major == 10


def test_alias_bombs_end_early() -> None:
    nodes = ", ".join(["&n {path: /x}"] + ["*n"] * 999)
    text = (
        f"""\
cdiVersion: 1.1.0
kind: acme.com/g
devices: &d
- &a {{name: a, containerEdits: &e {{deviceNodes: [{nodes}]}}}}
- <<: *a
"""
        + "- *a\n" * 5000
    )
    start = time.process_time()
    reading = parse(text, "bomb.yaml")
    assert reading.spec is None and reading.findings[0].code == "alias"
    assert time.process_time() - start < 10
    laughs = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(30))
    assert validate(laughs)[0].code == "unknown-field"
    assert validate("cdiVersion: &v [*v]\nkind: a\n")[0].code == "type"
    merged = "cdiVersion: 1.1.0\nkind: a/b\ndevices: [{name: a, containerEdits: &x {<<: *x}}]\n"
    assert validate(merged)[0].code == "alias"


def test_too_large() -> None:
    assert validate("#" * (17 * 2**20), "f.yaml")[0].code == "size"


def load(case: str) -> dict[str, dict[str, str]]:
    root = shared(f"cases/{case}")
    return {
        name: {path.name: path.read_text() for path in sorted((root / name).glob("*"))}
        for name in ("etc-cdi", "run-cdi")
    }


@pytest.mark.row(2, how="vectors")
def test_reported_name_conflicts() -> None:
    found = catalog_of(load("16-cdi-name-conflicts"))
    names = {name.rpartition("=")[2]: entry for name, entry in found.devices.items()}
    assert set(names) == {"gpu1", "gpu2"}
    assert names["gpu2"].file.path.startswith("run-cdi/") and "FROM=run" in names["gpu2"].device.container_edits.env
    (conflict,) = found.conflicts
    assert conflict.name.endswith("=gpu0")
    assert conflict.file in str(conflict) and conflict.other in str(conflict) and conflict.file != conflict.other
    assert found.why_not(conflict.name) == str(conflict)


@pytest.mark.row(2, how="vectors")
def test_reported_invalid_files() -> None:
    found = catalog_of(load("17-cdi-invalid-files"))
    assert list(found.devices) == ["acme.test/good=g0"]
    codes = {file.path.rpartition("/")[2].partition(".")[0]: file.error.code for file in found.unusable if file.error}
    assert codes == {
        "empty-edits": "empty-edits",
        "slash-name": "device-name",
        "too-old-version": "version-too-low",
        "gids-too-old": "version-too-low",
        "unknown-field": "unknown-field",
    }


def test_a_low_conflict_hides_the_high_definition() -> None:
    spec = "cdiVersion: 0.3.0\nkind: acme.com/g\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n"
    found = catalog_of({"/etc/cdi": {"1.yaml": spec, "2.yaml": spec}, "/run/cdi": {"3.yaml": spec}})
    assert not found.devices
    assert found.conflicts[0].hidden == "/run/cdi/3.yaml"
    assert "nor the one in /run/cdi/3.yaml" in str(found.why_not("acme.com/g=a"))
