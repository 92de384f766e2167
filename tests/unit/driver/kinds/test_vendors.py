"""Device classes of vendors' own drivers choose among the devices that these kinds publish: a claim written for one holds for
the other."""

from __future__ import annotations

import json

import pytest
from tests.unit.driver.kinds.trees import Kind, text
from tests.unit.source import PACKAGE

from regauge.cel import Environment, Program, compile_selector, prepare_device
from regauge.driver.slices import device_document
from regauge.model import view
from regauge.model.resource import Device

CLASSES = json.loads((PACKAGE / "migrate" / "data" / "drivers.json").read_text())["resources"]


def selector(driver: str, class_: str) -> Program:
    """The expression of a class that a vendor's chart installs."""
    entries = [one["selectors"] for one in CLASSES if (one["driver"], one["class"]) == (driver, class_)]
    found = next(selectors for selectors in entries if selectors)
    program = compile_selector(found[0], Environment(minor=36))
    assert isinstance(program, Program)
    return program


def chosen(kind: Kind, driver: str, class_: str) -> list[str]:
    program = selector(driver, class_)
    names = []
    for device in kind.discover().values():
        seen = view(device_document(device), Device)
        if program.evaluate(prepare_device(driver, seen.attributes, seen.capacity)) is True:
            names.append(device.name)
    return names


@pytest.mark.row(170)
def test_nvidias_classes_choose_gpus_and_mig_devices() -> None:
    kind = Kind("nvidia", text("nvidia").replace("gpu.example.com", "gpu.nvidia.com"))
    assert chosen(kind, "gpu.nvidia.com", "gpu.nvidia.com") == ["gpu-0"]
    assert chosen(kind, "gpu.nvidia.com", "mig.nvidia.com") == ["gpu-1-mig-1g-10gb-7-0", "gpu-1-mig-3g-40gb-2-0"]


@pytest.mark.row(171)
def test_amds_class_chooses_gpus_found_in_sysfs() -> None:
    described = text("pci").replace("gpu.example.com", "gpu.amd.com").replace('model: "MI300X"', "type: amdgpu")
    assert chosen(Kind("pci", described), "gpu.amd.com", "gpu.amd.com") == ["gpu-0", "gpu-1"]
