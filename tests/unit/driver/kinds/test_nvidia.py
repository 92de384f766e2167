"""GPUs by NVML: from recorded values, and through a stand-in for the library that answers as NVML does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pynvml
import pytest
from tests.unit.driver.fakes import Node
from tests.unit.driver.kinds.trees import FIXTURES, Kind, played, text, tree
from tests.unit.loading import script

from regauge.base import InputError, MemoryFiles
from regauge.driver import Stack
from regauge.driver.nvml import Gpu, Reading, live
from regauge.driver.slices import device_document

RECORDING = "/recordings/two-h100.json"
GPU0 = "GPU-11111111-aaaa-bbbb-cccc-000000000000"
SMALL = "MIG-33333333-aaaa-bbbb-cccc-000000000002"


def change(kind: Kind, index: int, **parts: Any) -> None:
    """Another reading in the recording."""
    reading = msgspec.json.decode(kind.files.read(RECORDING), type=Reading)
    gpus = list(reading.gpus)
    gpus[index] = msgspec.structs.replace(gpus[index], **parts)
    kind.files.write(RECORDING, msgspec.json.encode(msgspec.structs.replace(reading, gpus=tuple(gpus))))


@pytest.mark.row(170)
def test_a_gpu_is_published_under_the_names_that_nvidias_driver_uses() -> None:
    found = Kind("nvidia").discover()
    assert list(found) == ["gpu-0", "gpu-1-mig-1g-10gb-7-0", "gpu-1-mig-3g-40gb-2-0"]
    assert device_document(found["gpu-0"]) == {
        "name": "gpu-0",
        "attributes": {
            "uuid": {"string": GPU0},
            "resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:3a"},
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "550.54.15"},
            "cudaDriverVersion": {"version": "12.4.0"},
            "index": {"int": 0},
            "minor": {"int": 0},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }
    assert [node.path for node in found["gpu-0"].edits.device_nodes] == [
        *("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    ]


def test_a_gpu_in_mig_mode_is_served_in_its_parts() -> None:
    found = Kind("nvidia").discover()
    small = found["gpu-1-mig-1g-10gb-7-0"]
    assert small.stack is Stack.DEVICE_PLUGIN
    assert small.identity.parts() == (("uuid", SMALL),)
    assert small.attributes["profile"] == {"string": "1g.10gb"}
    assert small.attributes["parentUUID"] == {"string": "GPU-22222222-aaaa-bbbb-cccc-000000000001"}
    assert small.capacity == {"memory": "9856Mi", "multiprocessors": "16"}
    assert small.numa_node == 1
    assert [node.path for node in small.edits.device_nodes][-2:] == [
        *("/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")
    ]


def test_faults_make_a_gpu_and_its_parts_unhealthy_and_pass() -> None:
    kind = Kind("nvidia")
    kind.node(
        *("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
        *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in (66, 67, 21, 22)),
    )
    assert kind.health() == {}
    change(kind, 1, faults=("Xid 79 was reported",))
    assert kind.health() == dict.fromkeys(("gpu-1-mig-1g-10gb-7-0", "gpu-1-mig-3g-40gb-2-0"), "Xid 79 was reported")
    change(kind, 1, faults=())
    assert kind.health() == {}
    devices = tuple(kind.discover().values())
    change(kind, 1, mig=())
    found = asyncio.run(kind.kind.health(devices))
    assert found["gpu-1-mig-1g-10gb-7-0"].message == f"NVML does not know {SMALL} any more"
    assert list(kind.discover()) == ["gpu-0"]


@pytest.mark.row(265)
def test_a_mig_device_whose_capabilities_are_not_known_is_not_given_out() -> None:
    """Without their nodes a container sees the GPU and cannot use its part; the specs of nvidia-ctk name them themselves."""
    kind = Kind("nvidia")
    reading = msgspec.json.decode(kind.files.read(RECORDING), type=Reading)
    small, big = reading.gpus[1].mig
    change(kind, 1, mig=(msgspec.structs.replace(small, gi_minor=-1), big))
    kind.node(
        *("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
        *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in (67, 21, 22)),
    )
    why = "its capability nodes are not known: /proc/driver/nvidia/capabilities has no minor numbers for it"
    assert kind.health() == {"gpu-1-mig-1g-10gb-7-0": why}


def test_gpus_by_the_specs_of_nvidias_own_tool() -> None:
    kind = Kind("nvidia", text("nvidia").replace("two-h100.json}", "two-h100.json, cdi: nvidia.com/gpu}"))
    found = kind.discover()["gpu-0"]
    assert found.cdi_names == (f"nvidia.com/gpu={GPU0}",)
    assert found.edits.device_nodes == ()
    assert kind.health()["gpu-0"] == f"no spec defines nvidia.com/gpu={GPU0}"
    kind.files.make_directory("/etc/cdi")
    kind.files.write("/etc/cdi/nvidia.json", tree("adopt").read("/etc/cdi/nvidia.json"))
    kind.node("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dri/renderD128")
    assert "gpu-0" not in kind.health()


def test_the_whole_driver_on_recorded_gpus() -> None:
    async def whole(node: Node) -> None:
        await node.start()
        for _ in range(100):
            if node.kubelet.lists:
                break
            await asyncio.sleep(0.01)
        assert [one.id for one in node.kubelet.lists[-1]] == ["gpu-1-mig-1g-10gb-7-0"]

    played("nvidia", whole)


def test_without_a_recording_the_file_is_named() -> None:
    kind = Kind("nvidia", text("nvidia").replace("two-h100", "none"))
    with pytest.raises(InputError, match=r"/recordings/none\.json: no recording of GPUs"):
        kind.discover()


@pytest.mark.parametrize("file", sorted((FIXTURES / "nvidia" / "recordings").iterdir()), ids=lambda file: file.stem)
def test_every_recording_becomes_devices(file: Path) -> None:
    described = text("nvidia").split("rules:")[0].replace("two-h100", file.stem) + "rules: [{stack: dra}]\n"
    kind = Kind("nvidia", described)
    reading = msgspec.json.decode(file.read_bytes(), type=Reading)
    expected = sum(len(gpu.mig) if gpu.mig_enabled else 1 for gpu in reading.gpus)
    assert len(kind.discover()) == expected
    assert kind.notices == []


def test_a_machine_without_gpus_says_so() -> None:
    """The real nvidia-ml-py, which finds no library here; and a machine without the package."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        with pytest.raises(InputError, match=r"GPUs cannot be read: .*Not Found.*in a pod, mount libnvidia-ml\.so\.1"):
            live(MemoryFiles())
    else:
        pytest.skip("this machine has NVML")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regauge.driver.nvml.pynvml", None)
    with pytest.raises(InputError, match=r"nvidia-ml-py is not installed \(pip install 'regauge\[nvidia\]'\)"):
        live(MemoryFiles())


class Library:
    """As much of pynvml as is called, with its error class and constants. `lost` are the indexes of GPUs that fell off."""

    NVMLError = pynvml.NVMLError
    NVML_ERROR_GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST
    nvmlEventTypeXidCriticalError = pynvml.nvmlEventTypeXidCriticalError  # noqa: N815  # as NVML calls it

    def __init__(self) -> None:
        self.called: list[str] = []
        self.lost: set[int] = set()
        self.events: list[tuple[Any, int]] = []
        self.remapped = (0, 0, 0, 0)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(pynvml, name):
            raise AttributeError(f"pynvml has no {name}")
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> Any:
        self.called.append(name)
        handle = arguments[0] if arguments else None
        if isinstance(handle, int) and name.startswith("nvmlDevice") and handle % 10 in self.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlSystemGetCudaDriverVersion_v2": 12040,
            "nvmlSystemGetDriverVersion": b"550.54.15",
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": handle,
            "nvmlDeviceGetMinorNumber": handle,
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetBrand": 14,
            "nvmlDeviceGetArchitecture": 9,
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMigMode": (1, 1) if handle == 1 else (0, 0),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=f"00000000:{'3B' if handle == 0 else '5E'}:00.0"),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=81559 * 1024 * 1024),
            "nvmlDeviceGetMaxMigDeviceCount": 7,
            "nvmlDeviceGetGpuInstanceId": 7,
            "nvmlDeviceGetComputeInstanceId": 0,
            "nvmlDeviceGetAttributes": SimpleNamespace(
                gpuInstanceSliceCount=1, computeInstanceSliceCount=1, memorySizeMB=9856, multiprocessorCount=16
            ),
            "nvmlDeviceGetRemappedRows": self.remapped,
            "nvmlEventSetCreate": "events",
            "nvmlDeviceRegisterEvents": None,
        }
        if name == "nvmlDeviceGetUUID":
            return SMALL if handle == 101 else f"GPU-{handle}"
        if name == "nvmlDeviceGetMigDeviceHandleByIndex" and arguments[1] == 0:
            return 101
        if name == "nvmlEventSetWait_v2" and self.events:
            device, xid = self.events.pop(0)
            return SimpleNamespace(device=device, eventData=xid)
        if name in answers:
            return answers[name]
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def test_nvml_is_read_and_nothing_is_set() -> None:
    library = Library()
    reading = live(tree("nvidia"), library).read()
    assert (reading.driver_version, reading.cuda_version) == ("550.54.15", "12.4")
    whole, cut = reading.gpus
    assert whole == Gpu(
        index=0,
        minor=0,
        uuid="GPU-0",
        pci="0000:3b:00.0",
        product="NVIDIA H100 80GB HBM3",
        brand="Nvidia",
        architecture="Hopper",
        compute="9.0",
        memory_mib=81559,
    )
    (part,) = cut.mig
    assert (part.uuid, part.profile, part.gi_minor, part.ci_minor) == (SMALL, "1g.10gb", 66, 67)
    assert all("Get" in name or "Event" in name or name == "nvmlInit" for name in library.called)


def test_a_lost_gpu_stays_known_with_its_fault() -> None:
    library = Library()
    nvml = live(MemoryFiles(), library)
    nvml.read()
    library.lost = {0}
    first, second = nvml.read().gpus
    assert first.uuid == "GPU-0"
    assert first.faults == (f"NVML: {pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)}",)
    assert second.faults == ()
    library.lost = set()
    assert nvml.read().gpus[0].faults == ()


def test_xids_of_hardware_count_and_those_of_programs_do_not() -> None:
    library = Library()
    nvml = live(MemoryFiles(), library)
    nvml.read()
    library.events = [(0, 13), (0, 79)]
    assert nvml.read().gpus[0].faults == ("Xid 79 was reported; the driver's restart forgets it",)
    assert library.called.count("nvmlDeviceRegisterEvents") == 2


@pytest.mark.parametrize(
    ("rows", "expected"),
    [((3, 0, 0, 0), ""), ((0, 1, 1, 0), "it has to be reset"), ((0, 1, 0, 1), "it has to be replaced")],
)
def test_memory_that_waits_for_a_reset_is_a_fault(rows: tuple[int, ...], expected: str) -> None:
    library = Library()
    library.remapped = rows  # type: ignore[assignment]
    faults = live(MemoryFiles(), library).read().gpus[0].faults
    assert [fault for fault in faults if expected and expected in fault] == list(faults)
    assert bool(faults) is bool(expected)


def test_the_check_on_a_machine_without_gpus_ends_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("regauge.driver.nvml.pynvml", None)
    monkeypatch.setattr("sys.argv", ["check_gpu.py"])
    assert script("check_gpu").main() == 2
    assert "nvidia-ml-py is not installed" in capsys.readouterr().err
