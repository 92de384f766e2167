"""Bad descriptions are refused with file, line, device, field, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.driver.fakes import FOUR, FakeHost, description, device

from regauge.base import InputError
from regauge.driver import Identity, Stack, read_description
from regauge.driver.checks import check_devices, check_host, env_conflicts


def refused(text: str) -> str:
    """The error of a description, whichever step finds it."""
    with pytest.raises(InputError) as caught:
        found = read_description(text.encode(), "devices.yaml")
        check_devices(found, "devices.yaml")
        check_host(found, FakeHost(), "devices.yaml")
    return str(caught.value)


def test_a_good_description_is_read_whole() -> None:
    found = read_description(FOUR.encode(), "devices.yaml")
    assert (found.driver, found.resource, found.cdi_kind) == ("gpu.example.com", "example.com/gpu", "example.com/gpu")
    assert [(one.name, one.stack) for one in found.devices] == [
        ("gpu-0", Stack.DEVICE_PLUGIN),
        ("gpu-1", Stack.DEVICE_PLUGIN),
        ("gpu-2", Stack.DRA),
        ("gpu-3", Stack.DRA),
    ]
    assert found.devices[0].attributes == {"model": {"string": "A100"}, "memoryGiB": {"int": 80}}
    check_devices(found, "devices.yaml")
    check_host(found, FakeHost(), "devices.yaml")


def test_yaml_traps_of_identities_are_none() -> None:
    text = description(
        "- name: a\n  stack: dra\n  identity: {pci: 0000:3B:00.0, device: 12:30, uuid: '007'}\n"
        "  attributes: {on: {bool: yes}, version: {version: 1.10.0}}\n  env: {A: '1'}\n"
    )
    (found,) = read_description(text.encode(), "f").devices
    assert found.identity.parts() == (("uuid", "007"), ("pci", "0000:3b:00.0"), ("device", "12:30"))
    assert found.attributes["version"] == {"version": "1.10.0"}


@pytest.mark.row(84)
def test_one_device_in_both_stacks_by_name() -> None:
    text = description(device("gpu-0", "device-plugin"), device("gpu-1", "dra"), device("gpu-0", "dra"))
    assert refused(text) == (
        "devices.yaml:23: device gpu-0: the name gpu-0 stands twice: one device in both stacks (device-plugin and dra)"
        " (give every device to exactly one stack)"
    )


@pytest.mark.row(84)
@pytest.mark.parametrize("part", ["uuid: GPU-7", 'pci: "0000:3b:00.0"', 'device: "195:0"'])
def test_one_device_in_both_stacks_by_what_it_is(part: str) -> None:
    one = f"- name: a\n  stack: dra\n  identity: {{{part}}}\n  env: {{A: x}}\n"
    other = one.replace("name: a", "name: b").replace("dra", "device-plugin")
    text = refused(description(one, other))
    assert "devices.yaml:11: device b: " in text
    assert "is also a: one device in both stacks (dra and device-plugin)" in text
    same = refused(description(one, one.replace("name: a", "name: b")))
    assert "is also a (remove or rename one of the two)" in same


def test_a_device_node_that_the_host_does_not_have() -> None:
    text = refused(FOUR.replace("/dev/null", "/dev/nonesuch", 1))
    assert text.startswith(
        "devices.yaml:7: device gpu-0: deviceNodes: the device node /dev/nonesuch is not on this host"
    )
    assert "load the kernel driver" in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("stack: dra", "stack: drs", "device gpu-2: stack: 'drs' is not known (did you mean dra?)"),
        ("stack: dra", "stak: dra", "device gpu-2: stak: there is no such field (did you mean stack?)"),
        ("name: gpu-2", "name: GPU_2", "device GPU_2: name: 'GPU_2' cannot be used: a device name has"),
        (
            "name: gpu-2",
            "name: 007",
            "devices[2].name: it is a whole number (7) where text is expected (put it in quotes)",
        ),
        ("driver: gpu", "driver: GPU", "driver: 'GPU.example.com' cannot be used: a driver name is a DNS name"),
        (
            "resource: example.com/gpu",
            "resource: gpu",
            "resource: 'gpu' cannot be used: a resource name is domain/name",
        ),
        ("resource: example.com/gpu", "resource: a.kubernetes.io/gpu", "the domain kubernetes.io is not for"),
        ("resource: example.com/gpu\n", "\n", "resource: it is missing, and a device has stack: device-plugin"),
        ("resource: example.com/gpu", "resource: example.com/gpu\ncdiKind: a/b", "crash on a vendor or class of one"),
        ("resource: example.com/gpu", "resource: example.com/gpu\ncdiKind: x.y/7b", "cannot be a class"),
        ("80Gi", "80Gb", "capacity.memory: '80Gb' is not a quantity"),
        ("model: A100", "model: [A100]", "attributes.model: an attribute cannot be a list"),
        ("model: A100", "mo-del: A100", "'mo-del' is not a name of at most 32 letters"),
        ("model: A100", "model: {version: A100}", "attributes.model: 'A100' is not a version"),
        ("model: A100", "model: {int: A100}", "attributes.model: 'A100' is text and not int"),
        ("model: A100", f"model: {'x' * 65}", "the value is longer than 64 bytes"),
        ("path: /dev/null", "path: dev/null", "deviceNodes[0].path: 'dev/null' is not an absolute path"),
        ("path: /dev/null", "path: /dev/null, permissions: rx", "'rx' are not permissions (letters of rwm)"),
        ("path: /dev/null", "pth: /dev/null", "pth: there is no such field (did you mean path?)"),
        ('"gpu-2"', "2", "env.GPU_GPU_2: it is a whole number where text is expected"),
        ("numaNode: 0", "numaNode: -1", "-1 is not a NUMA node"),
        ("uuid: GPU-gpu-2", "pci: 3b:00.0", "'3b:00.0' is not a PCI address"),
        ("uuid: GPU-gpu-2", "device: sda", "'sda' is not major:minor"),
        ("kind: Devices", "kind: Device", "it is a Device of regauge.dev/v1alpha1"),
        ("driver: gpu", "driver: x.y\ndriver: gpu", "stands twice"),
        ("devices:\n", "device:\n", "device: there is no such field (did you mean devices?)"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(old: str, new: str, expected: str) -> None:
    assert FOUR.count(old)
    text = refused(FOUR.replace(old, new, 1))
    assert text.startswith("devices.yaml")
    assert expected in text


def test_a_device_that_gives_nothing_is_refused() -> None:
    assert "the device gives a container nothing" in refused(description("- name: a\n  stack: dra\n"))


def test_no_devices_no_description() -> None:
    assert "there are no devices" in refused(description(" []"))
    assert "not valid YAML" in refused("a: [")
    assert "0 descriptions" in refused("# nothing\n")


def test_a_list_over_the_kubelets_limit_is_refused_before_it_is_sent() -> None:
    found = read_description(FOUR.encode(), "f")
    many = tuple(replace(found.devices[0], name=f"{'g' * 50}-{i:06d}", identity=Identity()) for i in range(62_000))
    with pytest.raises(InputError, match=r"the kubelet accepts 4194304: it would drop the plugin.*split the devices"):
        check_devices(replace(found, devices=many), "devices.yaml")
    check_devices(replace(found, devices=many[:50_000]), "devices.yaml")


@pytest.mark.row(34)
def test_variables_that_hide_each_other_are_told() -> None:
    text = description(
        *(f"- {{name: {name}, stack: dra, env: {{VISIBLE: {name}, SAME: x}}}}\n" for name in ("a", "b", "c"))
    )
    (told,) = env_conflicts(read_description(text.encode(), "f"))
    assert told.startswith("a and b set VISIBLE to different values")
