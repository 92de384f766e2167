"""A node's files read from a tree: links stay inside, pipes are not opened, what is missing is told from what is unknown."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.support import oracle, shared

from regauge.base import InputError
from regauge.cdi import HostDevice
from regauge.cdi.runtimes import runtimes_of
from regauge.collect import NodeTree, read_node
from regauge.collect.builds import build_notes

SPEC = """cdiVersion: 0.5.0
kind: acme.test/gpu
containerEdits:
  mounts: [{hostPath: /usr/lib/libacme.so.1.2, containerPath: /usr/lib/libacme.so.1.2, options: [bind, ro]}]
  hooks: [{hookName: createContainer, path: /usr/bin/acme-hook}]
devices:
- name: gpu0
  containerEdits: {deviceNodes: [{path: /dev/acme0}]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("etc/cdi", "run/cdi", "var/lib/kubelet", "dev", "usr/lib", "usr/bin", "proc/1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "run/cdi/acme.yaml").write_text(SPEC)
    return tmp_path


def test_specs_and_what_they_name(root: Path) -> None:
    (root / "usr/lib/libacme.so.1.3").write_text("")
    (root / "usr/lib/libother.so.1").write_text("")
    (root / "dev/null").write_text("")
    (root / "dev/acme1").write_text("")
    node = read_node(str(root))
    assert [(place.path, place.real, place.exists) for place in node.spec_directories] == [
        ("/etc/cdi", "/etc/cdi", True),
        ("/var/run/cdi", "/run/cdi", True),
    ]
    assert [file.path for file in node.spec_directories[1].files] == ["/var/run/cdi/acme.yaml"]
    assert node.spec_directories[1].files[0].data == SPEC.encode()
    assert node.has("/dev/acme0") is False
    assert node.has("/dev/acme1") is True and node.paths["/dev/acme1"].kind == ""  # no device nodes in this tree at all
    assert node.has("/usr/lib/libacme.so.1.2") is False
    assert node.has("/usr/lib/libacme.so.1.3") is True
    assert node.has("/usr/lib/libother.so.1") is None
    assert node.has("/usr/bin/acme-hook") is False
    assert node.has("/nowhere") is None
    assert {"/var/run", "/var", "/etc", "/"} <= set(node.paths)


def test_a_tree_without_devices_says_nothing_about_them(root: Path) -> None:
    node = read_node(str(root))
    assert node.has("/dev/acme0") is None
    assert node.has("/usr/bin/acme-hook") is False
    (root / "usr/bin").rmdir()
    assert read_node(str(root)).has("/usr/bin/acme-hook") is None  # an archive without that directory


def test_links_are_followed_inside_the_tree_only(root: Path) -> None:
    (root.parent / "outside").mkdir(exist_ok=True)
    (root.parent / "outside" / "secret.yaml").write_text("secret")
    (root / "etc/cdi/up.yaml").symlink_to("../../../../../../outside/secret.yaml")
    (root / "etc/cdi/absolute.yaml").symlink_to(root.parent / "outside/secret.yaml")
    (root / "etc/cdi/circle.yaml").symlink_to("circle.yaml")
    (root / "etc/cdi/good.yaml").symlink_to("/run/cdi/acme.yaml")
    files = {file.path: file for file in read_node(str(root)).spec_directories[0].files}
    assert {path.rpartition("/")[2] for path in files} == {"circle.yaml", "good.yaml", "up.yaml", "absolute.yaml"}
    assert files["/etc/cdi/up.yaml"].error == files["/etc/cdi/absolute.yaml"].error == "a link that leads nowhere"
    assert files["/etc/cdi/good.yaml"].data == SPEC.encode()
    assert files["/etc/cdi/good.yaml"].facts.link_to == "/run/cdi/acme.yaml"
    assert files["/etc/cdi/circle.yaml"].data is None and "levels" in files["/etc/cdi/circle.yaml"].error


def test_a_pipe_is_not_opened_and_a_directory_is_listed_as_what_it_is(root: Path) -> None:
    os.mkfifo(root / "etc/cdi/pipe.yaml")
    (root / "etc/cdi/sub").mkdir()
    (root / "etc/cdi/note.yml").write_text("x")
    files = {file.path: file for file in read_node(str(root)).spec_directories[0].files}
    assert "not a regular file but a fifo" in files["/etc/cdi/pipe.yaml"].error
    assert files["/etc/cdi/sub"].facts.kind == "directory"
    assert files["/etc/cdi/note.yml"].data is None and files["/etc/cdi/note.yml"].error == ""


def test_modes_and_owners(root: Path) -> None:
    (root / "run/cdi").chmod(0o777)
    (root / "run/cdi/acme.yaml").chmod(0o640)
    place = read_node(str(root)).spec_directories[1]
    assert place.facts.mode == 0o777 and place.facts.uid == os.getuid()
    assert place.files[0].facts.mode == 0o640


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_said(root: Path) -> None:
    (root / "run/cdi/acme.yaml").chmod(0)
    assert read_node(str(root)).spec_directories[1].files[0].error == "permission denied"
    (root / "etc/cdi").chmod(0)
    assert read_node(str(root)).spec_directories[0].error == "permission denied"


def test_configuration_of_runtimes_with_what_it_imports(root: Path) -> None:
    (root / "etc/containerd/conf.d").mkdir(parents=True)
    (root / "etc/containerd/config.toml").write_text('version = 2\nimports = ["conf.d/*.toml"]\n')
    plugin = '[plugins."io.containerd.grpc.v1.cri"]\n'
    (root / "etc/containerd/conf.d/1.toml").write_text(plugin + "enable_cdi = true\n")
    (root / "etc/containerd/conf.d/2.toml").write_text(plugin + 'cdi_spec_dirs = ["/opt/specs", "/var/run/cdi/"]\n')
    (root / "opt/specs").mkdir(parents=True)
    (root / "etc/cdi/a.yaml").write_text(SPEC)
    node = read_node(str(root))
    assert [file.path for file in node.configs] == [
        "/etc/containerd/config.toml",
        "/etc/containerd/conf.d/1.toml",
        "/etc/containerd/conf.d/2.toml",
    ]
    assert [place.path for place in node.spec_directories] == ["/opt/specs", "/var/run/cdi"]
    assert [place.path for place in node.other_directories] == ["/etc/cdi"]
    assert [place.path for place in read_node(str(root), ["/etc/cdi"]).spec_directories] == ["/etc/cdi"]


def test_checkpoints_mounts_boot_time_and_drivers(root: Path) -> None:
    plugin = root / "var/lib/kubelet/plugins/gpu.acme.test"
    plugin.mkdir(parents=True)
    (plugin / "checkpoint.json").write_text("{}")
    (plugin / "dra.sock").write_text("")
    (root / "var/lib/kubelet/dra_manager_state").write_text("{}")
    (root / "proc/stat").write_text("cpu 1\nbtime 1777701600\n")
    (root / "proc/1/mounts").write_text("/dev/sda1 / ext4 rw 0 0\ntmpfs /run/with\\040blank tmpfs rw 0 0\n")
    (root / "sys/module/nvidia").mkdir(parents=True)
    (root / "sys/module/nvidia/version").write_text("550.20\n")
    node = read_node(str(root))
    assert [file.path for file in node.checkpoints] == [
        "/var/lib/kubelet/dra_manager_state",
        "/var/lib/kubelet/plugins/gpu.acme.test/checkpoint.json",
    ]
    assert node.boot_time_s == 1777701600.0
    assert node.mounts == {"/": "ext4", "/run/with blank": "tmpfs"}
    assert node.driver_versions == {"nvidia": "550.20"}


def test_this_machine_is_read_without_harm() -> None:
    node = read_node()
    assert node.boot_time_s is not None and node.mounts


def test_a_place_that_is_no_directory() -> None:
    with pytest.raises(InputError, match="no such directory"):
        read_node("/no/such/place")


@pytest.mark.row(40, how="oracle")
def test_a_program_tells_which_library_it_was_built_with(root: Path) -> None:
    """The reference program stands in for a runtime: it is made of the same library, by the same linker."""
    (root / "usr/bin/containerd").symlink_to("crio")
    (root / "usr/bin/crio").write_bytes(oracle("cdi").read_bytes())
    node = read_node(str(root))
    assert [program.path for program in node.programs] == ["/usr/bin/containerd", "/usr/bin/crio"]
    (runtime, _) = runtimes_of([], [(one.path, one.build) for one in node.programs])
    assert runtime.reads == "1.1.0"


MAGIC = b"\xff Go buildinf:"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no program",
        MAGIC,
        MAGIC + b"\x08\x02" + b"\0" * 16,
        MAGIC + b"\x08\x00" + b"x" * 99,
        MAGIC + b"\x08\x02" + b"\0" * 16 + b"\xff" * 20,
    ],
)
def test_programs_that_tell_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "program").write_bytes(data)
    assert build_notes(str(tmp_path / "program")) == ""


def test_a_recorded_node() -> None:
    node = read_node(str(shared("cases/18-cdi-stale-after-driver-upgrade")))
    assert node.has("/dev/acme0") is True and node.has("/dev/acme1") is False
    assert node.driver_versions == {"driver": "550.20"}
    assert node.spec_directories[1].files[0].facts.modified_s == 1777370400.0


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [("host.json", '{"file": []}', "unknown field"), ("host.json", "x", "malformed"), ("events.yaml", "[", "not YAML")],
)
def test_a_record_that_cannot_be_understood(tmp_path: Path, name: str, text: str, what: str) -> None:
    (tmp_path / "run-cdi").mkdir()
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=what) as caught:
        read_node(str(tmp_path))
    assert caught.value.where.file == str(tmp_path / name)


def test_real_device_nodes(root: Path) -> None:
    try:
        os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(root / "dev/acme0", stat.S_IFCHR | 0o660, os.makedev(195, 7))
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    (root / "dev/acme0").chmod(0o660)
    (root / "dev/acme1").write_text("")
    node = read_node(str(root))
    assert node.paths["/dev/acme0"].is_device
    assert node.paths["/dev/acme1"].kind == "file"
    assert NodeTree(str(root)).device("/dev/acme0") == HostDevice("c", 195, 7, 0o660)


def test_a_device_of_the_tree_for_injection(root: Path) -> None:
    tree = NodeTree(str(root))
    assert "no such file" in tree.device("/dev/acme0").reason
    (root / "dev/acme0").write_text("")
    assert tree.device("/dev/acme0").reason == "not a device node"
    assert tree.own("/var/run/cdi/acme.yaml") == str(root / "run/cdi/acme.yaml")


def pci(root: Path, address: str, class_code: str, driver: str, group: str) -> None:
    """A function on the bus as sysfs has it."""
    place = root / "sys/bus/pci/devices" / address
    place.mkdir(parents=True)
    for name, value in (("vendor", "0x10de"), ("device", "0x2330"), ("class", class_code), ("numa_node", "0")):
        (place / name).write_text(f"{value}\n")
    if driver:
        (place / "driver").symlink_to(f"/sys/bus/pci/drivers/{driver}")
    (place / "iommu_group").symlink_to(f"/sys/kernel/iommu_groups/{group}")


@pytest.mark.row(153, how="unit")
def test_what_shares_an_iommu_group_with_a_device_is_recorded_with_it(root: Path) -> None:
    pci(root, "0000:01:00.0", "0x030200", "vfio-pci", "7")
    pci(root, "0000:01:00.1", "0x040300", "snd_hda_intel", "7")
    pci(root, "0000:00:01.0", "0x060400", "pcieport", "7")  # a bridge may stay with its driver
    pci(root, "0000:02:00.0", "0x010802", "nvme", "8")
    found = [(one.address, one.driver, one.iommu_group) for one in read_node(str(root)).functions]
    assert found == [("0000:01:00.0", "vfio-pci", "7"), ("0000:01:00.1", "snd_hda_intel", "7")]


@pytest.mark.row(144, how="unit")
def test_services_that_write_specs_are_read_with_their_programs(root: Path) -> None:
    units = {
        "usr/lib/systemd/system/acme-cdi-refresh.service": "[Service]\nExecStart=/usr/bin/old cdi generate\n",
        "etc/systemd/system/acme-cdi-refresh.service": "[Service]\nExecStart=-/usr/bin/acme-hook cdi generate --output=x\n",
        "etc/systemd/system/sshd.service": "[Service]\nExecStart=/usr/sbin/sshd\n",
    }
    for path, text in units.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "usr/bin/acme-hook").write_text("")
    node = read_node(str(root))
    assert [one.path for one in node.units] == ["/etc/systemd/system/acme-cdi-refresh.service"]
    assert node.units[0].facts is not None and node.units[0].facts.uid == os.getuid()
    assert node.paths["/usr/bin/acme-hook"] is not None
    assert "/usr/bin/old" not in node.paths


@pytest.mark.row(6, how="unit")
def test_device_files_are_unknown_where_there_is_no_dev(root: Path) -> None:
    (root / "dev/nvidia0").write_text("")
    assert read_node(str(root)).device_files is None
    here = read_node("/").device_files
    assert here is not None  # this machine has a /dev, whatever is in it


def test_the_version_of_kata(root: Path) -> None:
    assert read_node(str(root)).vm_runtimes == {}
    (root / "opt/kata").mkdir(parents=True)
    (root / "opt/kata/VERSION").write_text("3.19.1\n")
    assert read_node(str(root)).vm_runtimes == {"kata": "3.19.1"}
