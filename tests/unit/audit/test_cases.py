"""Troubles that people reported, as recorded nodes: each gets the diagnosis that was found to be right."""

from __future__ import annotations

import pytest
from tests.support import shared

from regauge.audit import CdiAudit, Severity, Usable, audit_cdi, leftover_files, listed_devices
from regauge.collect import read_node


def audited(name: str) -> CdiAudit:
    return audit_cdi(read_node(str(shared(f"cases/{name}"))))


def usable(audit: CdiAudit) -> dict[str, Usable]:
    return {one.device: one.usable for one in audit.verdicts}


def errors(audit: CdiAudit) -> list[tuple[str, str]]:
    return [(one.code, one.where) for one in audit.findings if one.severity is Severity.ERROR]


@pytest.mark.row(37, how="unit")
def test_two_files_of_a_directory_define_a_name_and_a_later_directory_replaces_another() -> None:
    audit = audited("16-cdi-name-conflicts")
    assert errors(audit) == [("CDI-CONFLICT", "acme.test/gpu=gpu0")]
    conflict = audit.findings[0]
    assert [str(one.where).split(":")[0] for one in conflict.evidence] == ["/etc/cdi/a.yaml", "/etc/cdi/b.json"]
    assert "/etc/cdi/a.yaml and by /etc/cdi/b.json" in conflict.what
    assert usable(audit) == {"acme.test/gpu=gpu0": "no", "acme.test/gpu=gpu1": "yes", "acme.test/gpu=gpu2": "yes"}
    (shadow,) = [one for one in audit.findings if one.code == "CDI-SHADOWED"]
    assert (shadow.severity, shadow.devices) == (Severity.NOTE, ("acme.test/gpu=gpu2",))
    listed = {(str(one.name), one.file): (one.conflicts, one.shadows) for one in
              listed_devices(read_node(str(shared("cases/16-cdi-name-conflicts"))))}  # fmt: skip
    assert listed["acme.test/gpu=gpu2", "/var/run/cdi/c.yaml"] == ((), ("/etc/cdi/a.yaml",))
    assert listed["acme.test/gpu=gpu0", "/etc/cdi/a.yaml"] == (("/etc/cdi/b.json",), ())


def test_bad_files_do_not_hide_a_good_one() -> None:
    audit = audited("17-cdi-invalid-files")
    assert usable(audit) == {"acme.test/good=g0": "yes"}
    rules = {
        one.where.rpartition("/")[2]: one.evidence[0].text.split(":")[0]
        for one in audit.findings
        if one.code == "CDI-INVALID"
    }
    assert rules == {
        "empty-edits.yaml": "empty-edits",
        "slash-name.yaml": "device-name",
        "too-old-version.yaml": "version-too-low",
        "gids-too-old.yaml": "version-too-low",
        "unknown-field.yaml": "unknown-field",
    }
    fixes = {one.where.rpartition("/")[2]: one.fix for one in audit.findings}
    assert "write 0.5.0" in fixes["too-old-version.yaml"]
    assert "write 0.7.0" in fixes["gids-too-old.yaml"]
    assert "env" in fixes["unknown-field.yaml"]
    assert all(one.evidence[0].where.line for one in audit.findings if one.code == "CDI-INVALID")


@pytest.mark.row(41, 264, how="unit")
def test_a_driver_was_upgraded_after_the_spec_was_written() -> None:
    audit = audited("18-cdi-stale-after-driver-upgrade")
    assert errors(audit) == [
        ("CDI-STALE-MOUNT", "/usr/lib/x86_64-linux-gnu/libacmert.so.535.10"),
        ("CDI-STALE-NODE", "/dev/acme1"),
    ]
    library, device = audit.findings[0], audit.findings[1]
    assert library.devices == ("acme.test/gpu=gpu0", "acme.test/gpu=gpu1")
    assert "libacmert.so.550.20" in library.what
    assert any("550.20" in str(one) for one in library.evidence)
    assert device.devices == ("acme.test/gpu=gpu1",)
    assert [one.code for one in audit.findings if one.severity is Severity.WARNING] == ["CDI-OLDER-THAN-BOOT"]
    assert usable(audit) == {"acme.test/gpu=gpu0": "no", "acme.test/gpu=gpu1": "no"}
    assert not any("acme-smi" in one.what for one in audit.findings)
    assert "written anew" in library.fix
    # One of its devices has its node, so the file is not for the garbage.
    assert leftover_files(read_node(str(shared("cases/18-cdi-stale-after-driver-upgrade")))) == ()


@pytest.mark.row(39, how="unit")
def test_a_claims_spec_was_lost_by_a_reboot() -> None:
    audit = audited("19-cdi-spec-lost-after-reboot")
    (lost,) = audit.findings
    assert (lost.code, lost.severity) == ("CDI-LOST-AFTER-REBOOT", Severity.ERROR)
    assert "team-a/train-0" in lost.where
    assert "/var/run/cdi is on tmpfs" in lost.why
    assert "2026-05-01T09:00:00Z, before the node was started at 2026-05-02T06:00:00Z" in lost.why
    assert "does not write the spec again" in lost.why
    assert "delete the pod" in lost.fix and "Restarting the kubelet does not help" in lost.fix
    seen = [str(one) for one in lost.evidence]
    assert any("PrepareCompleted" in one for one in seen)
    assert any(one.startswith("pod/team-a/train-0: Failed") for one in seen)
    assert not any("train-1" in one.where for one in audit.findings)
    second = "k8s.accel.example.net/claim=7b0c2d1e-0000-4000-8000-00000000000b-a1"
    assert usable(audit)[second] == "yes"
    assert leftover_files(read_node(str(shared("cases/19-cdi-spec-lost-after-reboot")))) == ()
