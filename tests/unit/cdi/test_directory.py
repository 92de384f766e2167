"""Spec directories on the file system in memory and on the real one: cache rules, changes, crashes, the host's nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from regauge.base import InputError, MemoryFiles
from regauge.cdi import ContainerEdits, Device, DeviceNode, HostDevice, Injected, NoHostDevice, Refused, Spec, inject
from regauge.cdi.directory import RealHost, SpecDirectories, StatStamp, read_file
from regauge.host import RealFiles


def spec(value: str = "1", kind: str = "acme.com/gpu", name: str = "gpu0") -> Spec:
    return Spec(kind=kind, devices=(Device(name=name, container_edits=ContainerEdits(env=(f"A={value}",))),))


@pytest.fixture(params=["memory", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SpecDirectories, str]:
    if request.param == "memory":
        return SpecDirectories(MemoryFiles(), ["/etc/cdi", "/run/cdi"]), "/run/cdi"
    paths = [f"{tmp_path}/etc", f"{tmp_path}/run"]
    return SpecDirectories(RealFiles(), paths, StatStamp(lambda: 4e9)), paths[1]


@pytest.mark.row(30, how="unit")
def test_write_read_remove(place: tuple[SpecDirectories, str]) -> None:
    directories, highest = place
    assert not directories.read().devices
    path = directories.write(spec(), "acme.com-gpu")
    assert path == f"{highest}/acme.com-gpu.yaml"
    found = directories.read()
    assert list(found.devices) == ["acme.com/gpu=gpu0"]
    assert found.files[0].spec is not None and found.files[0].spec.cdi_version == "0.3.0"
    directories.write(spec("2"), "acme.com-gpu")
    assert directories.read().devices["acme.com/gpu=gpu0"].device.container_edits.env == ("A=2",)
    directories.remove("acme.com-gpu")
    directories.remove("acme.com-gpu")
    assert not directories.read().devices


def test_unchanged_files_are_not_parsed_again(place: tuple[SpecDirectories, str]) -> None:
    directories, _ = place
    for index in range(3):
        directories.write(spec(name=f"g{index}"), f"g{index}.json")
    directories.read()
    assert directories.parsed == 3
    first = directories.read()
    assert directories.parsed == 3 and len(first.devices) == 3
    directories.write(spec("2", name="g1"), "g1.json")
    assert directories.read().devices["acme.com/gpu=g1"].device.container_edits.env == ("A=2",)
    assert directories.parsed == 4


def test_what_changed_since_the_last_reading_is_told_once(place: tuple[SpecDirectories, str]) -> None:
    directories, highest = place
    directories.write(spec(), "a.json")
    told = [(one.how, one.name) for one in directories.changes()]
    assert told == [("added", "acme.com/gpu=gpu0")]
    assert directories.changes() == ()
    directories.write(spec("2"), "a.json")
    directories.write(spec(name="gpu1"), "b.json")
    (new, other) = directories.changes()
    assert (new.how, new.details) == ("changed", ("env A: 1 became 2",))
    assert (other.how, other.name, other.file) == ("added", "acme.com/gpu=gpu1", f"{highest}/b.json")
    directories.write(spec("3"), "c.json")
    assert [(one.how, one.name) for one in directories.changes()] == [("removed", "acme.com/gpu=gpu0")]
    directories.remove("c.json")
    directories.read()
    assert directories.changes() == (), "a reading counts as the last one"


def test_a_change_in_the_same_tick_is_seen(tmp_path: Path) -> None:
    fresh = SpecDirectories(RealFiles(), [str(tmp_path)], StatStamp(lambda: os.stat(tmp_path / "a.json").st_mtime))
    fresh.write(spec("1"), "a.json")
    facts = os.stat(tmp_path / "a.json")
    fresh.read()
    (tmp_path / "a.json").write_bytes((tmp_path / "a.json").read_bytes().replace(b"A=1", b"A=2"))
    os.utime(tmp_path / "a.json", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert fresh.read().devices["acme.com/gpu=gpu0"].device.container_edits.env == ("A=2",)


def test_mode_and_no_leftovers(tmp_path: Path) -> None:
    directories = SpecDirectories(RealFiles(), [f"{tmp_path}/new/cdi"])
    mask = os.umask(0o077)
    try:
        path = directories.write(spec(), "a")
    finally:
        os.umask(mask)
    assert os.stat(path).st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path / "new/cdi") == ["a.yaml"]


def test_invalid_specs_are_not_written(tmp_path: Path) -> None:
    directories = SpecDirectories(RealFiles(), [str(tmp_path)])
    with pytest.raises(InputError, match=r"devices\[0\].name: '-' cannot be a device name"):
        directories.write(spec(name="-"), "a")
    with pytest.raises(InputError, match="name of a spec file"):
        directories.write(spec(), "../a")
    with pytest.raises(InputError, match=r"0.3.0, but .* 0.5.0"):
        directories.write(
            Spec(cdi_version="0.3.0", kind="acme.com/g", devices=spec(name="0").devices), "a", minimum=False
        )
    with pytest.raises(InputError, match="no CDI directory"):
        SpecDirectories(RealFiles(), []).write(spec(), "a")
    assert os.listdir(tmp_path) == []


def test_what_is_not_a_spec_file(tmp_path: Path) -> None:
    good = "cdiVersion: 0.3.0\nkind: acme.com/g\ndevices: [{{name: {}, containerEdits: {{env: [A=1]}}}}]\n"
    for name in ("a.yaml", ".hidden.json", "b.yml", "c.JSON", "d.json.tmp"):
        (tmp_path / name).write_text(good.format(name[:1].replace(".", "h")))
    (tmp_path / "dir.json").mkdir()
    (tmp_path / "dangling.yaml").symlink_to("nowhere")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "b.yml")
    (tmp_path / "bad.yaml").write_text("{")
    found = SpecDirectories(RealFiles(), [str(tmp_path)], StatStamp(lambda: 4e9)).read()
    assert set(found.devices) == {"acme.com/g=a", "acme.com/g=h", "acme.com/g=b"}
    assert [file.path for file in found.unusable] == [f"{tmp_path}/bad.yaml"]


class Failing(MemoryFiles):
    """Files of which some cannot be read or listed."""

    def read(self, path: str) -> bytes:
        if path.endswith("locked.json"):
            raise PermissionError(13, "Permission denied", path)
        return super().read(path)

    def names(self, directory: str) -> list[str]:
        if directory == "/locked":
            raise PermissionError(13, "Permission denied", directory)
        return super().names(directory)


def test_unreadable_files_and_directories() -> None:
    files = Failing()
    SpecDirectories(files, ["/a"]).write(spec(name="a"), "a.json")
    SpecDirectories(files, ["/a"]).write(spec(name="x"), "locked.json")
    SpecDirectories(files, ["/z"]).write(spec(name="z"), "z.json")
    found = SpecDirectories(files, ["/a", "/locked", "/z"]).read()
    assert list(found.devices) == ["acme.com/gpu=a"]
    reasons = [str(file.error) for file in found.unusable]
    assert reasons[0] == "/a/locked.json: cannot be read: Permission denied"
    assert reasons[1].startswith(
        "/locked: cannot be listed: Permission denied; runtimes skip it and every directory after"
    )
    with pytest.raises(InputError, match=r"/a/locked.json: cannot be read"):
        read_file(files, "/a/locked.json")
    assert read_file(files, "/a/a.json").kind == "acme.com/gpu"


CRASH = """
    import os, signal, sys
    from regauge.cdi import ContainerEdits, Device, Spec
    from regauge.cdi.directory import SpecDirectories
    from regauge.host import RealFiles
    step, left = int(sys.argv[2]), [int(sys.argv[2])]

    def dying(name):
        real = getattr(os, name)
        def call(*args, **kwargs):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*args, **kwargs)
        return call

    for name in ("open", "fdopen", "fchmod", "fsync", "replace", "close", "mkdir"):
        setattr(os, name, dying(name))
    new = Spec(kind="acme.com/gpu", devices=(Device(name="new", container_edits=ContainerEdits(env=("A=" + "x" * 9999,))),))
    SpecDirectories(RealFiles(), [sys.argv[1]]).write(new, "acme.json")
    print(step - left[0])
"""


@pytest.mark.row(2, how="unit")
def test_killed_at_any_step_the_file_is_old_or_new(tmp_path: Path) -> None:
    program = textwrap.dedent(CRASH)
    whole = subprocess.run(
        [sys.executable, "-c", program, f"{tmp_path}/x", "9999"], capture_output=True, text=True, check=True
    )
    steps = int(whole.stdout)
    assert steps >= 6
    seen = set()
    for step in range(steps):
        directory = tmp_path / str(step)
        directories = SpecDirectories(RealFiles(), [str(directory)])
        directories.write(spec(name="old"), "acme.json")
        done = subprocess.run([sys.executable, "-c", program, str(directory), str(step)], capture_output=True)
        assert done.returncode == -9
        found = directories.read()
        assert not found.unusable and not found.conflicts
        assert len(found.devices) == 1
        seen |= set(found.devices)
    assert seen == {"acme.com/gpu=old", "acme.com/gpu=new"}


@pytest.mark.row(2, how="real")
def test_device_nodes_of_this_machine(tmp_path: Path) -> None:
    host = RealHost()
    null = host.device("/dev/null")
    assert isinstance(null, HostDevice) and (null.type, null.major, null.minor) == ("c", 1, 3)
    os.mkfifo(tmp_path / "pipe", 0o640)
    pipe = host.device(str(tmp_path / "pipe"))
    assert isinstance(pipe, HostDevice) and pipe.type == "p"
    assert host.device("/etc/passwd") == NoHostDevice("not a device node")
    assert host.device("/dev/none") == NoHostDevice("no such file or directory")
    files = MemoryFiles()
    directories = SpecDirectories(files, ["/run/cdi"])
    nodes = (DeviceNode(path="/dev/acme0", host_path="/dev/null"),)
    directories.write(
        Spec(kind="acme.com/gpu", devices=(Device(name="a", container_edits=ContainerEdits(device_nodes=nodes)),)), "a"
    )
    before = {"linux": {"unknown": {"kept": True}, "devices": []}}
    outcome = inject(before, ["acme.com/gpu=a"], directories.read(), host)
    assert isinstance(outcome, Injected)
    assert outcome.document["linux"]["devices"][0] | {"fileMode": 0} == {
        "path": "/dev/acme0",
        "type": "c",
        "major": 1,
        "minor": 3,
        "fileMode": 0,
    }
    assert outcome.document["linux"]["unknown"] == {"kept": True}
    assert before == {"linux": {"unknown": {"kept": True}, "devices": []}}
    refused = inject(before, ["acme.com/gpu=b"], directories.read(), host)
    assert isinstance(refused, Refused) and refused.unresolved == ("acme.com/gpu=b",)
    assert "there are acme.com/gpu=a" in refused.reason
