"""NVIDIA GPUs and MIG devices as NVML tells them, read only: attributes, memory, health. Nothing is set on a GPU.

NVML comes from nvidia-ml-py (the extra `nvidia`) and the driver's own library. `discover.recording` replaces both by a file
that `scripts/check_gpu.py` wrote on a machine with GPUs. What a container needs besides nodes (libraries, hooks) is in the
specs of nvidia-ctk: with `discover.cdi: nvidia.com/gpu` devices are given by their UUIDs there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from regauge.base import Files, InputError, Where
from regauge.cdi import Catalog, ContainerEdits, DeviceNode
from regauge.cdi.directory import SpecDirectories
from regauge.driver.description import Description, Device, Identity
from regauge.driver.fields import Fields
from regauge.driver.kinds.adopt import fault
from regauge.driver.kinds.found import FoundKind
from regauge.driver.kinds.interface import Condition, Fact, Surroundings
from regauge.driver.nvml import Gpu, Mig, Reading, live
from regauge.driver.parts import check_absolute
from regauge.driver.rules import Found, label
from regauge.driver.sysfs import UNKNOWN, Sysfs

_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_CAPABILITY = "/dev/nvidia-caps/nvidia-cap"


@dataclass(frozen=True, slots=True)
class _Settings:
    recording: str = ""
    cdi: str = ""


class Source(Protocol):
    """Where readings come from."""

    def read(self) -> Reading:
        """All GPUs now. Raises `InputError` when there is nothing to read from."""


class Recording:
    """A reading in a file, as `scripts/check_gpu.py` writes it."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def read(self) -> Reading:
        try:
            return msgspec.json.decode(self._files.read(self._path), type=Reading)
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"no recording of GPUs: {error}", where=Where(file=self._path)) from None


class NvidiaKind(FoundKind):
    """`DeviceKind` of NVIDIA GPUs. A GPU in MIG mode is served by its MIG devices."""

    FACTS: ClassVar[Mapping[str, Fact]] = {
        "index": 0,
        "minor": 0,
        "uuid": "GPU-3e4a6a70-0000-1111-2222-8b7a7a7a7a7a",
        "pci": "0000:3b:00.0",
        "product": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "type": "gpu",
        "profile": "1g.10gb",
        "parent": "GPU-3e4a6a70-0000-1111-2222-8b7a7a7a7a7a",
        "numaNode": 0,
        "memoryMiB": 81559,
    }

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._source: Source | None = None
        self._settings = _Settings()
        self._reading = Reading()
        self._specs = SpecDirectories(surroundings.files)

    @staticmethod
    def settings(discover: Fields) -> object:
        discover.only("recording", "cdi")
        recording = discover.text("recording", "")
        if recording:
            check_absolute(discover, "recording", recording)
        return _Settings(recording, discover.text("cdi", ""))

    async def discover(self, description: Description) -> tuple[Device, ...]:
        assert isinstance(description.settings, _Settings)
        if self._source is None or description.settings != self._settings:
            self._settings = description.settings
            files, path = self.around.files, self._settings.recording
            self._source = Recording(files, path) if path else live(files)
        self._reading = await asyncio.to_thread(self._source.read)
        return await super().discover(description)

    def find(self, description: Description) -> Iterable[Found]:
        sysfs = Sysfs(self.around.files)
        roots = (
            {one.address: one for one in sysfs.functions()} if self.around.files.exists("/sys/bus/pci/devices") else {}
        )
        for gpu in self._reading.gpus:
            function = roots.get(gpu.pci)
            numa_node = function.numa_node if function else UNKNOWN
            extra = function.attributes() if function else {}
            for part in gpu.mig if gpu.mig_enabled else (None,):
                yield self._found(gpu, part, numa_node, extra)

    async def health(self, devices: Sequence[Device]) -> Mapping[str, Condition]:
        if self._source is not None:
            self._reading = await asyncio.to_thread(self._source.read)
        faults = {gpu.uuid: gpu.faults for gpu in self._reading.gpus}
        faults |= {part.uuid: (*gpu.faults, *self._lacks(part)) for gpu in self._reading.gpus for part in gpu.mig}
        catalog = self._specs.read() if self._settings.cdi else None
        return {device.name: self._how(device, faults, catalog) for device in devices}

    def _lacks(self, part: Mig) -> Iterator[str]:
        """What keeps a container from using a MIG device, though it works."""
        if not self._settings.cdi and min(part.gi_minor, part.ci_minor) < 0:
            yield "its capability nodes are not known: /proc/driver/nvidia/capabilities has no minor numbers for it"

    def _how(self, device: Device, faults: Mapping[str, tuple[str, ...]], catalog: Catalog | None) -> Condition:
        found = faults.get(device.identity.uuid)
        if device.identity.uuid and found is None:
            return Condition(False, f"NVML does not know {device.identity.uuid} any more")
        if found:
            return Condition(False, "; ".join(found))
        adopted = fault(device, catalog, self.around.host) if catalog else None
        return adopted or self.condition(device)

    def _found(self, gpu: Gpu, part: Mig | None, numa_node: int, extra: Mapping[str, Mapping[str, Any]]) -> Found:
        uuid = part.uuid if part else gpu.uuid
        named = label("gpu", str(gpu.minor))
        edits = ContainerEdits(
            env=(f"NVIDIA_{label(uuid).replace('-', '_').upper()}={uuid}",),
            device_nodes=() if self._settings.cdi else tuple(_nodes(gpu, part)),
        )
        return Found(
            name=label(named, "mig", part.profile, str(part.gi), str(part.ci)) if part else named,
            facts={
                "index": gpu.index,
                "minor": gpu.minor,
                "uuid": uuid,
                "pci": gpu.pci,
                "product": gpu.product,
                "architecture": gpu.architecture,
                "type": "mig" if part else "gpu",
                "profile": part.profile if part else "",
                "parent": gpu.uuid if part else "",
                "numaNode": numa_node,
                "memoryMiB": part.memory_mib if part else gpu.memory_mib,
            },
            identity=Identity(uuid=uuid, pci="" if part else gpu.pci),
            attributes={**_inherited(extra), **self._attributes(gpu, part)},
            capacity=_capacity(gpu, part),
            numa_node=None if numa_node == UNKNOWN else numa_node,
            edits=edits,
            cdi_names=(f"{self._settings.cdi}={uuid}",) if self._settings.cdi else (),
        )

    def _attributes(self, gpu: Gpu, part: Mig | None) -> dict[str, dict[str, Any]]:
        """Named as NVIDIA's own driver names them, so that selectors hold for both."""
        texts = {
            "type": "mig" if part else "gpu",
            "productName": gpu.product,
            "brand": gpu.brand,
            "architecture": gpu.architecture,
            "parentUUID": gpu.uuid if part else "",
            "profile": part.profile if part else "",
        }
        versions = {
            "cudaComputeCapability": gpu.compute,
            "driverVersion": self._reading.driver_version,
            "cudaDriverVersion": self._reading.cuda_version,
        }
        named: dict[str, dict[str, Any]] = {name: {"string": text} for name, text in texts.items() if text}
        named |= {name: {"version": _version(text)} for name, text in versions.items() if text}
        return named | {"index": {"int": gpu.index}, "minor": {"int": gpu.minor}}


def _inherited(extra: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: value for name, value in extra.items() if "/" in name}


def _capacity(gpu: Gpu, part: Mig | None) -> dict[str, str]:
    found = {"memory": f"{part.memory_mib if part else gpu.memory_mib}Mi"}
    if part and part.multiprocessors:
        found["multiprocessors"] = str(part.multiprocessors)
    return found


def _nodes(gpu: Gpu, part: Mig | None) -> Iterator[DeviceNode]:
    capabilities = [f"{_CAPABILITY}{minor}" for minor in (part.gi_minor, part.ci_minor) if minor >= 0] if part else []
    for path in (f"/dev/nvidia{gpu.minor}", *_COMMON, *capabilities):
        yield DeviceNode(path=path, permissions="rw")


def _version(text: str) -> str:
    """As a semantic version: three numbers without leading zeros."""
    numbers = [str(int(part)) for part in text.split(".")[:3] if part.isdecimal()]
    return ".".join([*numbers, "0", "0", "0"][:3])
