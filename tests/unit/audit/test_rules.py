"""Each CDI rule: what trips it, what does not, and what it says."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from tests.unit.audit.nodes import (
    DEVICE,
    ROOTS,
    ROOTS_DIRECTORY,
    codes,
    config,
    directory,
    node,
    nodes,
    of,
    only,
    spec,
)

from regauge.audit import Layer, Severity, Usable, audit_cdi, leftover_files, listed_devices
from regauge.model.node_files import NodeDirectory, NodeFile, NodeFiles, PathFacts, RuntimeProgram

UID = "7b0c2d1e-0000-4000-8000-00000000000a"
CONTAINERD = "/etc/containerd/config.toml"
V2 = '[plugins."io.containerd.grpc.v1.cri"]\n'
V3 = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n"


def test_a_healthy_node_has_no_findings_and_says_what_it_could_not_see() -> None:
    files = node(run={"a.yaml": spec("gpu0", nodes("/dev/acme0"), version="0.5.0")}, paths={"/dev/acme0": DEVICE})
    audit = of(files)
    assert codes(audit) == []
    assert [one.usable for one in audit.verdicts] == [Usable.YES]
    assert {one.what for one in audit.unknown} == {"container runtime", "claims that the kubelet has prepared"}


# Specs and the host ----------------------------------------------------------------------------------------------


@pytest.mark.row(41, 265, how="unit")
def test_a_node_that_is_gone_is_an_error_and_one_that_runtimes_make_anyway_a_warning() -> None:
    gone = node(run={"a.yaml": spec("gpu0", nodes("/dev/acme0"))}, paths={"/dev/acme0": None})
    finding = only(of(gone), "CDI-STALE-NODE")
    assert (finding.severity, finding.layer, finding.where) == (Severity.ERROR, Layer.INJECTION, "/dev/acme0")
    assert str(finding.evidence[0].where).startswith("/var/run/cdi/a.yaml:6")
    described = spec("gpu0", "deviceNodes: [{path: /dev/acme0, type: c, major: 195}]")
    finding = only(of(node(run={"a.yaml": described}, paths={"/dev/acme0": None})), "CDI-STALE-NODE")
    assert finding.severity is Severity.WARNING
    host_path = spec("gpu0", "deviceNodes: [{path: /dev/x, hostPath: /dev/acme0}]")
    assert codes(of(node(run={"a.yaml": host_path}, paths={"/dev/acme0": DEVICE, "/dev/x": None}))) == []


def test_a_definition_that_is_replaced_breaks_nothing_when_it_is_stale() -> None:
    files = node(
        etc={"old.yaml": spec("gpu0", nodes("/dev/gone0"))},
        run={"new.yaml": spec("gpu0", nodes("/dev/acme0"))},
        paths={"/dev/acme0": DEVICE, "/dev/gone0": None},
    )
    audit = of(files)
    assert {one.code: one.severity for one in audit.findings} == {"CDI-STALE-NODE": "note", "CDI-SHADOWED": "note"}
    assert [one.usable for one in audit.verdicts] == [Usable.YES]
    assert [one.path for one in leftover_files(files)] == ["/etc/cdi/old.yaml"]


def test_what_was_not_looked_at_is_unknown_and_not_fine() -> None:
    audit = of(node(run={"a.yaml": spec("gpu0", nodes("/dev/acme0"))}))
    assert codes(audit) == []
    assert [one.usable for one in audit.verdicts] == [Usable.UNKNOWN]
    assert any("/dev/acme0" in one.what for one in audit.unknown)


@pytest.mark.parametrize("facts", [PathFacts("file", 0o644, 0, 0), replace(DEVICE, link_to="/dev/real0")])
def test_a_node_that_is_no_device_or_a_link(facts: PathFacts) -> None:
    files = node(run={"a.yaml": spec("gpu0", nodes("/dev/acme0"))}, paths={"/dev/acme0": facts})
    assert codes(of(files)) == ["CDI-NOT-A-DEVICE"]


def test_mounts_of_the_host_only() -> None:
    edits = "mounts: [{hostPath: /lib/x, containerPath: /x}, {hostPath: tmpfs, containerPath: /t, type: tmpfs}]"
    files = node(run={"a.yaml": spec("gpu0", edits)}, paths={}, all_paths=True)
    assert [one.where for one in of(files).findings] == ["/lib/x"]


@pytest.mark.row(35, how="unit")
def test_hooks_are_listed_with_their_owner_and_must_be_roots() -> None:
    hook = "hooks: [{hookName: createContainer, path: /usr/bin/nvidia-ctk}]"
    files = node(run={"a.yaml": spec("gpu0", hook)})

    def with_(facts: PathFacts | None) -> NodeFiles:
        return replace(files, paths={"/usr/bin/nvidia-ctk": facts})

    audit = of(with_(PathFacts("file", 0o755, 0, 0)))
    assert codes(audit) == []
    (one,) = audit.hooks
    assert (one.path, one.names, one.files, one.safe) == (
        "/usr/bin/nvidia-ctk", ("createContainer",), ("/var/run/cdi/a.yaml",), True)  # fmt: skip
    assert codes(of(with_(None))) == ["CDI-HOOK-MISSING"]
    assert codes(of(with_(PathFacts("file", 0o775, 0, 0)))) == ["CDI-HOOK-OPEN"]
    assert codes(of(with_(PathFacts("file", 0o755, 1000, 0)))) == ["CDI-HOOK-OPEN"]
    assert of(files).hooks[0].safe is None


@pytest.mark.row(265, how="unit")
def test_a_device_that_lacks_a_node_which_its_fellows_have() -> None:
    def device(number: int, *paths: str) -> str:
        return f"- name: gpu{number}\n  containerEdits:\n    {nodes(*paths)}\n"

    text = "cdiVersion: 0.5.0\nkind: acme.test/gpu\ndevices:\n" + "".join(
        device(number, f"/dev/acme{number}", *((f"/dev/caps/cap{number}",) if number != 2 else ()))
        for number in range(4)
    )
    found = only(of(node(run={"a.yaml": text})), "CDI-INCOMPLETE")
    assert found.devices == ("acme.test/gpu=gpu2",)
    assert "/dev/caps/cap#" in found.what


@pytest.mark.row(41, 264, how="unit")
def test_nodes_of_the_host_that_came_after_the_spec() -> None:
    paths = {"/dev/acme0": DEVICE, "/dev/acme1": DEVICE, "/dev/other1": DEVICE}
    found = only(of(node(run={"a.yaml": spec("gpu0", nodes("/dev/acme0"))}, paths=paths)), "CDI-INCOMPLETE")
    assert "/dev/acme1" in found.what and "other" not in found.what
    assert found.layer is Layer.DISCOVERY


@pytest.mark.row(39, how="unit")
def test_a_spec_must_be_younger_than_the_node_and_its_devices() -> None:
    text = spec("gpu0", nodes("/dev/acme0"))

    def written(at_s: float, made_s: float) -> list[tuple[str, Severity]]:
        file = NodeFile("/etc/cdi/a.yaml", text.encode(), replace(ROOTS, modified_s=at_s))
        paths = {"/dev/acme0": replace(DEVICE, modified_s=made_s)}
        return [(one.code, one.severity) for one in of(node(etc={"a.yaml": file}, paths=paths)).findings]

    assert written(2000.0, 1500.0) == []
    assert written(900.0, 1001.0) == [("CDI-OLDER-THAN-BOOT", Severity.NOTE)]
    assert written(2000.0, 3000.0) == [("CDI-OLDER-THAN-DEVICE", Severity.WARNING)]


# Who wrote it ----------------------------------------------------------------------------------------------------


@pytest.mark.row(37, how="unit")
@pytest.mark.parametrize(
    ("file", "text", "who"),
    [
        ("nvidia.yaml", spec(kind="nvidia.com/gpu"), "nvidia-ctk"),
        ("k8s.device-plugin.nvidia.com-gpu.json", spec(), "NVIDIA device plugin"),
        ("x.yaml", spec("gpu0", "hooks: [{hookName: createContainer, path: /usr/bin/nvidia-ctk}]"),
         "NVIDIA Container Toolkit"),
        ("x.yaml", spec(more="annotations: {acme.test/generated-by: acme-tool}\n", version="0.6.0"), "acme-tool"),
        (f"k8s.acme.test-claim_{UID}.yaml", spec(f"{UID}-a0", kind="k8s.acme.test/claim"), "acme.test"),
        ("x.yaml", spec(), "unknown"),
    ],
)  # fmt: skip
def test_who_wrote_a_spec(file: str, text: str, who: str) -> None:
    (listed,) = listed_devices(node(run={file: text}))
    assert listed.generator.name == who
    assert listed.generator.how


@pytest.mark.row(37, how="unit")
def test_two_writers_of_one_kind() -> None:
    files = node(
        etc={"nvidia.yaml": spec("0", kind="nvidia.com/gpu")},
        run={"management.nvidia.com-gpu.yaml": spec("all", kind="nvidia.com/gpu")},
    )
    found = only(of(files), "CDI-TWO-GENERATORS")
    assert found.where == "nvidia.com/gpu"
    assert "nvidia-ctk and by NVIDIA Container Toolkit" in found.what


# Places ----------------------------------------------------------------------------------------------------------


@pytest.mark.row(38, 152, 266, how="unit")
@pytest.mark.parametrize(
    "facts",
    [
        PathFacts("directory", 0o777, 0, 0),
        PathFacts("directory", 0o1777, 0, 0),
        PathFacts("directory", 0o775, 0, 0),
        PathFacts("directory", 0o755, 1000, 0),
    ],
    ids=["all", "sticky", "group", "owner"],
)
def test_a_directory_that_others_can_write_fails(facts: PathFacts) -> None:
    places = (directory("/etc/cdi", {}), directory("/var/run/cdi", {}, facts))
    found = only(of(NodeFiles("test", places)), "CDI-PERMISSIONS")
    assert (found.severity, found.where) == (Severity.ERROR, "/var/run/cdi")
    assert "chmod 755 /var/run/cdi" in found.fix


@pytest.mark.row(152, how="unit")
def test_what_is_above_a_directory_counts_too_unless_it_is_sticky() -> None:
    def above(mode: int, uid: int = 0) -> list[str]:
        return [one.where for one in of(node(paths={"/run": None, "/var/run": PathFacts("directory", mode, uid, 0),
                                                    "/var": ROOTS_DIRECTORY})).findings]  # fmt: skip

    assert above(0o777) == ["/var/run"]
    assert above(0o755, 12) == ["/var/run"]
    assert above(0o1777) == []
    assert above(0o755) == []


@pytest.mark.row(38, how="unit")
def test_each_file_is_looked_at() -> None:
    def file(name: str, facts: PathFacts) -> NodeFile:
        return NodeFile(f"/etc/cdi/{name}", spec(name.partition(".")[0]).encode(), facts)

    files = {
        "open.yaml": file("open.yaml", replace(ROOTS, mode=0o666)),
        "theirs.yaml": file("theirs.yaml", replace(ROOTS, uid=7)),
        "link.yaml": file("link.yaml", replace(ROOTS, link_to="/opt/x/link.yaml")),
        "inside.yaml": file("inside.yaml", replace(ROOTS, link_to="/etc/cdi/other.yaml")),
        "private.yaml": file("private.yaml", replace(ROOTS, mode=0o600)),
        "wrong.yml": NodeFile("/etc/cdi/wrong.yml", None, ROOTS),
        ".a.yaml.x.tmp": NodeFile("/etc/cdi/.a.yaml.x.tmp", None, ROOTS),
        "sub": NodeFile("/etc/cdi/sub", None, ROOTS_DIRECTORY),
    }
    found = {(one.code, one.where.rpartition("/")[2]) for one in of(node(etc=files)).findings}
    assert found == {
        ("CDI-PERMISSIONS", "open.yaml"),
        ("CDI-PERMISSIONS", "theirs.yaml"),
        ("CDI-LINK-OUT", "link.yaml"),
        ("CDI-UNREADABLE-BY-OTHERS", "private.yaml"),
        ("CDI-IGNORED", "wrong.yml"),
        ("CDI-IGNORED", ".a.yaml.x.tmp"),
        ("CDI-IGNORED", "sub"),
    }


def test_no_directory_at_all_and_one_that_cannot_be_listed() -> None:
    nowhere = tuple(NodeDirectory(path, path, exists=False) for path in ("/etc/cdi", "/var/run/cdi"))
    assert codes(of(NodeFiles("test", nowhere))) == ["CDI-NO-DIRECTORY"]
    shut = NodeDirectory("/etc/cdi", "/etc/cdi", True, error="permission denied")
    audit = of(NodeFiles("test", (shut, directory("/var/run/cdi", {"a.yaml": spec()}))))
    assert codes(audit) == ["CDI-UNREADABLE"]
    assert "every directory after it" in audit.findings[0].what
    assert audit.verdicts == ()


@pytest.mark.row(266, how="unit")
def test_specs_where_no_runtime_looks() -> None:
    toml = V3 + 'cdi_spec_dirs = ["/opt/specs"]\n'
    read = directory("/opt/specs", {})
    lost = (directory("/var/run/cdi", {"a.yaml": spec()}),)
    files = NodeFiles("test", (read,), lost, configs=(config(CONTAINERD, toml),))
    found = only(of(files), "CDI-ELSEWHERE")
    assert (found.severity, found.where) == (Severity.ERROR, "/var/run/cdi")
    assert found.devices == ("acme.test/gpu=gpu0",)
    usual = replace(files, spec_directories=(read,), other_directories=(directory("/var/lib/cdi", {"a.yaml": spec()}),))
    assert only(of(usual), "CDI-ELSEWHERE").severity is Severity.WARNING


# Runtimes --------------------------------------------------------------------------------------------------------


@pytest.mark.row(40, 266, how="unit")
@pytest.mark.parametrize(
    ("version", "toml", "code"),
    [
        ("containerd://1.6.20", "", "CDI-RUNTIME-TOO-OLD"),
        ("containerd://1.7.22", "", "CDI-RUNTIME-OFF"),
        ("containerd://1.7.22", V2 + "enable_cdi = true\n", None),
        ("containerd://1.7.22", V2 + "enable_cdi = false\n", "CDI-RUNTIME-OFF"),
        ("containerd://2.0.1", "", None),
        ("containerd://2.1.0", V3 + "enable_cdi = false\n", "CDI-RUNTIME-OFF"),
        ("", V3, None),
        ("cri-o://1.22.5", "", "CDI-RUNTIME-TOO-OLD"),
        ("cri-o://1.34.0", "", None),
    ],
)
def test_whether_the_runtime_does_cdi(version: str, toml: str, code: str | None) -> None:
    configs = (config(CONTAINERD, toml),) if toml else ()
    audit = of(node(run={"a.yaml": spec()}, runtime_version=version, configs=configs))
    assert codes(audit) == ([code] if code else [])
    assert [one.usable for one in audit.verdicts] == [Usable.NO if code else Usable.YES]


def test_a_runtime_of_unknown_version_is_unknown() -> None:
    audit = of(node(run={"a.yaml": spec()}, configs=(config(CONTAINERD, V2),)))
    assert codes(audit) == []
    assert any(one.what == "whether CDI is on in containerd" for one in audit.unknown)


def test_a_configuration_that_cannot_be_understood() -> None:
    audit = of(node(configs=(config(CONTAINERD, "[[["),)))
    assert codes(audit) == ["CDI-RUNTIME-CONFIG"]


@pytest.mark.row(40, how="unit")
@pytest.mark.parametrize(("library", "found"), [("v0.5.4", ["CDI-TOO-NEW"]), ("v0.8.0", []), ("v1.1.2", [])])
def test_specs_that_the_runtime_is_too_old_for(library: str, found: list[str]) -> None:
    module = "mod\tgithub.com/containerd/containerd/v2\tv2.0.0\th1:"
    build = f"{module}\ndep\ttags.cncf.io/container-device-interface\t{library}\t"
    text = spec("gpu0", "additionalGids: [44]", version="0.7.0")
    audit = of(node(run={"a.yaml": text}, programs=(RuntimeProgram("/usr/bin/containerd", build),)))
    assert codes(audit) == found
    assert not any("which spec versions" in one.what for one in audit.unknown)


@pytest.mark.row(40, how="unit")
@pytest.mark.parametrize(
    ("version", "too_new"),
    [("1.7.0", True), ("1.7.14", True), ("1.7.16", False), ("2.0.0", False), ("2.1.5", False), ("1.7", False)],
)
def test_specs_that_the_release_is_too_old_for(version: str, too_new: bool) -> None:
    text = spec("gpu0", "additionalGids: [44]", version="0.7.0")
    toml = config(CONTAINERD, V2 + "enable_cdi = true\n")
    audit = of(node(run={"a.yaml": text}, configs=(toml,), runtime_version=f"containerd://{version}"))
    assert codes(audit) == (["CDI-TOO-NEW"] if too_new else [])
    assert any("which spec versions" in one.what for one in audit.unknown) is (version == "1.7")


@pytest.mark.row(40, how="unit")
def test_an_imported_file_replaces_or_adds_as_the_release_does() -> None:
    def audited(version: str, section: str) -> list[str]:
        configs = (
            config(CONTAINERD, section + "enable_cdi = true\n"),
            config("/etc/containerd/conf.d/x.toml", section + 'sandbox_image = "x"\n'),
        )
        return codes(of(node(runtime_version=version, configs=configs)))

    assert audited("containerd://1.7.20", V2) == ["CDI-RUNTIME-OFF"]
    assert audited("containerd://2.1.0", V3) == []


@pytest.mark.row(42, 266, how="unit")
def test_a_runtime_that_reads_other_directories() -> None:
    toml = V2 + 'enable_cdi = true\ncdi_spec_dirs = ["/etc/cdi"]\n'
    audit = of(node(run={"a.yaml": spec()}, configs=(config(CONTAINERD, toml),)))
    found = only(audit, "CDI-RUNTIME-DIRECTORIES")
    assert (found.severity, found.where) == (Severity.ERROR, "/var/run/cdi")
    assert audit.verdicts[0].usable is Usable.NO
    crio = '[crio.runtime]\ncdi_spec_dirs = ["/etc/cdi", "/run/cdi"]\n'
    assert codes(of(node(run={"a.yaml": spec()}, configs=(config("/etc/crio/crio.conf.d/10.conf", crio),)))) == []


@pytest.mark.row(42, how="unit")
def test_handlers_of_runtime_classes() -> None:
    runtimes = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{}.options]\nBinaryName = "{}"\n'
    toml = V2 + "enable_cdi = true\n" + runtimes.format("runc", "runc")
    toml += runtimes.format("nvidia", "/usr/bin/nvidia-container-runtime")
    base = node(run={"a.yaml": spec()}, configs=(config(CONTAINERD, toml),))
    classes = {"nvidia": "nvidia", "gone": "kata"}
    audit = of(replace(base, runtime_classes=classes))
    assert only(audit, "CDI-HANDLER-MISSING").where == "RuntimeClass gone"
    assert "its mode is not known" in only(audit, "CDI-HANDLER-PATH").what
    vendor = (
        '[nvidia-container-runtime]\nmode = "cdi"\n[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["/etc/cdi"]\n'
    )
    vendor_config = config("/etc/nvidia-container-runtime/config.toml", vendor)
    audit = of(replace(base, configs=(*base.configs, vendor_config)))
    found = only(audit, "CDI-HANDLER-DIRECTORIES")
    assert "not from /var/run/cdi" in found.what
    same = config(vendor_config.path, vendor.replace('["/etc/cdi"]', '["/etc/cdi", "/var/run/cdi"]'))
    assert codes(of(replace(base, configs=(*base.configs, same)))) == []


# Claims ----------------------------------------------------------------------------------------------------------

KIND = "k8s.gpu.acme.test/claim"
CLAIM_FILE = f"k8s.gpu.acme.test-claim_{UID}.yaml"


def kubelet(*names: str, uid: str = UID, broken: bool = False) -> NodeFile:
    devices = [{"PoolName": "p", "DeviceName": "d", "CDIDeviceIDs": list(names)}]
    claim = {
        "ClaimUID": uid,
        "ClaimName": "c",
        "Namespace": "n",
        "DriverState": {"gpu.acme.test": {"Devices": devices}},
    }
    data = json.dumps({"ClaimInfoStateList": [claim] if names else []})
    text = json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode()) + broken})
    return NodeFile("/var/lib/kubelet/dra_manager_state", text.encode(), ROOTS)


def driver(*uids: str, data: bytes | None = None, at_s: float = 500.0) -> NodeFile:
    text = json.dumps({"v2": {"preparedClaims": {uid: {"checkpointState": "PrepareCompleted"} for uid in uids}}})
    path = "/var/lib/kubelet/plugins/gpu.acme.test/checkpoint.json"
    return NodeFile(path, text.encode() if data is None else data, replace(ROOTS, modified_s=at_s))


@pytest.mark.row(264, how="unit")
def test_a_missing_spec_of_a_prepared_claim_is_foretold_with_its_cause() -> None:
    name = f"{KIND}={UID}-a0"
    mounts = {"/": "ext4", "/run": "tmpfs"}
    files = node(checkpoints=(kubelet(name), driver(UID)), mounts=mounts)
    assert only(of(files), "CDI-LOST-AFTER-REBOOT").devices == (name,)
    assert codes(of(replace(files, mounts={"/": "ext4"}))) == ["CDI-CLAIM-WITHOUT-SPEC"]
    assert codes(of(replace(files, checkpoints=(kubelet(name), driver(UID, at_s=1500.0))))) == [
        "CDI-CLAIM-WITHOUT-SPEC"
    ]
    unprepared = of(replace(files, checkpoints=(kubelet(name), driver())))
    assert "does not write the spec again" not in unprepared.findings[0].why
    there = node(run={CLAIM_FILE: spec(f"{UID}-a0", kind=KIND)}, checkpoints=(kubelet(name), driver(UID)))
    assert codes(of(there)) == []


def test_a_claims_spec_that_is_where_no_runtime_looks() -> None:
    name = f"{KIND}={UID}-a0"
    text = spec(f"{UID}-a0", kind=KIND)
    toml = V3 + 'cdi_spec_dirs = ["/opt/specs"]\n'
    files = NodeFiles("test", (directory("/opt/specs", {}),), (directory("/var/run/cdi", {CLAIM_FILE: text}),),
                      configs=(config(CONTAINERD, toml),), checkpoints=(kubelet(name), driver(UID)))  # fmt: skip
    found = only(of(files), "CDI-CLAIM-WITHOUT-SPEC")
    assert "where no runtime looks" in found.why and "cdi_spec_dirs" in found.fix


def test_a_kubelet_state_that_is_corrupt_is_an_error_and_its_claims_are_unknown() -> None:
    audit = of(node(checkpoints=(kubelet("a.b/c=d", broken=True),)))
    assert codes(audit) == ["CDI-CHECKPOINT"]
    assert any("checksum" in one.why for one in audit.unknown)


@pytest.mark.parametrize(
    ("checkpoints", "goes"),
    [
        ((kubelet(), driver()), True),
        ((driver(),), False),
        ((kubelet(), driver(UID)), False),
        ((kubelet(f"{KIND}={UID}-a0"), driver()), False),
        ((kubelet("x.y/z=a", broken=True), driver()), False),
        ((kubelet(), driver(data=b"nonsense")), False),
        ((kubelet(),), False),
        ((), False),
    ],
    ids=[
        "both",
        "driver alone",
        "driver has it",
        "kubelet has it",
        "kubelet corrupt",
        "driver corrupt",
        "none",
        "nothing",
    ],
)
def test_specs_of_claims_go_only_when_it_is_sure(checkpoints: tuple[NodeFile, ...], goes: bool) -> None:
    files = node(run={CLAIM_FILE: spec(f"{UID}-a0", kind=KIND)}, checkpoints=checkpoints)
    assert bool(leftover_files(files)) is goes
    assert ("CDI-CLAIM-LEFTOVER" in codes(of(files))) is goes


def test_a_spec_goes_when_all_its_devices_are_gone_but_not_an_unreadable_or_fresh_one_or_a_claims() -> None:
    text = spec("gpu0", nodes("/dev/acme0"))
    unreadable = NodeFile("/var/run/cdi/b.yaml", None, ROOTS, "permission denied")
    claims = spec(f"{UID}-a0", nodes("/dev/acme0"), kind=KIND)
    files = node(
        run={"a.yaml": text, "b.yaml": unreadable, "c.yaml": "nonsense: [", CLAIM_FILE: claims},
        paths={"/dev/acme0": None},
    )
    assert [one.path for one in leftover_files(files)] == ["/var/run/cdi/a.yaml"]
    assert leftover_files(files, now_s=2010.0) == ()
    assert [one.path for one in leftover_files(files, now_s=2100.0)] == ["/var/run/cdi/a.yaml"]


def test_checkpoints_in_the_forms_that_drivers_use() -> None:
    forms = [
        {"preparedClaims": {UID: {"state": "PrepareCompleted"}}},
        {"checksum": 1, "v1": {"preparedClaims": {UID: [{"devices": []}]}}},
        {"claims": {UID: {"uid": UID}}},
    ]
    two_lines = b'{"format": "x", "sha256": "y"}\n' + json.dumps(forms[2]).encode() + b"\n"
    for data in (*(json.dumps(form).encode() for form in forms), two_lines):
        files = node(run={CLAIM_FILE: spec(f"{UID}-a0", kind=KIND)}, checkpoints=(driver(data=data),))
        audit = audit_cdi(files)
        assert codes(audit) == [] and not any("checkpoint" in one.what for one in audit.unknown)


def test_every_finding_says_what_why_and_what_to_do() -> None:
    files = node(
        etc={
            "a.yaml": spec(),
            "b.yaml": spec(),
            "bad.yaml": "x: 1",
            "odd.yml": NodeFile("/etc/cdi/odd.yml", None, ROOTS),
        },
        run={"a.yaml": spec("gpu1", nodes("/dev/acme1"))},
        paths={"/dev/acme1": None},
        runtime_version="containerd://1.7.1",
    )
    audit = of(files)
    assert len(set(codes(audit))) == 5
    for one in audit.findings:
        assert one.code.startswith("CDI-") and one.what and one.why.endswith(".") and one.fix
    assert [one.severity for one in audit.findings] == sorted(
        (one.severity for one in audit.findings), key=list(Severity).index
    )
