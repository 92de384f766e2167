"""What NVML tells of the GPUs of a machine, as values that can be kept in a file. Only functions that read are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from regauge.base import Files, InputError

try:
    import pynvml
except ImportError:  # the extra `nvidia` is not installed
    pynvml = None

_MIB = 1024 * 1024
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
}
_BRANDS = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    5: "GeForce",
    6: "Titan",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}

# Xids by which a program went wrong and not its GPU.
_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})


class Mig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A MIG device. `gi` and `ci` are its GPU and compute instance, the minors those of their capability nodes (or -1)."""

    uuid: str
    profile: str
    gi: int
    ci: int
    memory_mib: int
    multiprocessors: int = 0
    gi_minor: int = -1
    ci_minor: int = -1


class Gpu(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A GPU. `faults` says why it does not work."""

    index: int
    minor: int
    uuid: str
    pci: str
    product: str
    brand: str = ""
    architecture: str = ""
    compute: str = ""
    memory_mib: int = 0
    mig_enabled: bool = False
    mig: tuple[Mig, ...] = ()
    faults: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One look at all GPUs."""

    driver_version: str = ""
    cuda_version: str = ""
    gpus: tuple[Gpu, ...] = ()


def live(files: Files, module: Any = None) -> Nvml:
    """The machine's own NVML. Raises `InputError` on a machine without GPU, driver or nvidia-ml-py, in words."""
    module = pynvml if module is None else module
    if module is None:
        raise InputError(
            "GPUs cannot be read: the package nvidia-ml-py is not installed", fix="pip install 'regauge[nvidia]'"
        )
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        raise InputError(
            f"GPUs cannot be read: {error}",
            fix="this kind is for nodes with NVIDIA GPUs and their kernel driver; in a pod, mount libnvidia-ml.so.1",
        ) from None
    return Nvml(files, module)


class Nvml:
    """Readings of the machine itself. Calls block for some milliseconds; from one thread at a time."""

    def __init__(self, files: Files, module: Any) -> None:
        self._files = files
        self._nvml = module
        self._last: dict[int, Gpu] = {}
        self._xids: dict[str, int] = {}
        self._watched: set[str] = set()
        self._events: Any = None

    def read(self) -> Reading:
        """All GPUs. One that was seen before and is lost now belongs to them still, with that as its fault."""
        try:
            version = int(self._nvml.nvmlSystemGetCudaDriverVersion_v2())
            driver = _text(self._nvml.nvmlSystemGetDriverVersion())
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise InputError(f"GPUs cannot be read: {error}", fix="see nvidia-smi on the node") from None
        self._hear()
        known = max(self._last, default=-1) + 1
        gpus = [gpu for index in range(max(count, known)) if (gpu := self._gpu(index)) is not None]
        self._last = {gpu.index: gpu for gpu in gpus}
        return Reading(
            driver_version=driver, cuda_version=f"{version // 1000}.{version % 1000 // 10}", gpus=tuple(gpus)
        )

    def _gpu(self, index: int) -> Gpu | None:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = self._facts(index, handle)
        except self._nvml.NVMLError as error:
            last = self._last.get(index)
            return None if last is None else msgspec.structs.replace(last, faults=(f"NVML: {error}",))
        self._watch(gpu.uuid, handle)
        return msgspec.structs.replace(gpu, faults=tuple(self._faults(gpu.uuid, handle)))

    def _facts(self, index: int, handle: Any) -> Gpu:
        nvml = self._nvml
        minor = int(nvml.nvmlDeviceGetMinorNumber(handle))
        major, lesser = self._maybe(nvml.nvmlDeviceGetCudaComputeCapability, handle, default=(0, 0))
        mode = self._maybe(nvml.nvmlDeviceGetMigMode, handle, default=(0, 0))
        enabled = bool(mode[0])
        return Gpu(
            index=index,
            minor=minor,
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            pci=_text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()[-12:],
            product=_text(nvml.nvmlDeviceGetName(handle)),
            brand=_BRANDS.get(self._maybe(nvml.nvmlDeviceGetBrand, handle, default=0), ""),
            architecture=_ARCHITECTURES.get(self._maybe(nvml.nvmlDeviceGetArchitecture, handle, default=0), ""),
            compute=f"{major}.{lesser}" if major else "",
            memory_mib=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB,
            mig_enabled=enabled,
            mig=self._parts(minor, handle) if enabled else (),
        )

    def _parts(self, minor: int, handle: Any) -> tuple[Mig, ...]:
        nvml = self._nvml
        found = []
        for slot in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
            part = self._maybe(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot, default=None)
            if part is None:
                continue  # the slot is free
            gi, ci = int(nvml.nvmlDeviceGetGpuInstanceId(part)), int(nvml.nvmlDeviceGetComputeInstanceId(part))
            sizes = nvml.nvmlDeviceGetAttributes(part)
            profile = f"{sizes.gpuInstanceSliceCount}g.{(sizes.memorySizeMB + 1023) // 1024}gb"
            if sizes.computeInstanceSliceCount != sizes.gpuInstanceSliceCount:
                profile = f"{sizes.computeInstanceSliceCount}c.{profile}"
            found.append(
                Mig(
                    uuid=_text(nvml.nvmlDeviceGetUUID(part)),
                    profile=profile,
                    gi=gi,
                    ci=ci,
                    memory_mib=int(sizes.memorySizeMB),
                    multiprocessors=int(sizes.multiprocessorCount),
                    gi_minor=self._capability(minor, f"gi{gi}/access"),
                    ci_minor=self._capability(minor, f"gi{gi}/ci{ci}/access"),
                )
            )
        return tuple(found)

    def _capability(self, gpu: int, name: str) -> int:
        """The minor number of a capability's node, from the kernel driver."""
        try:
            text = self._files.read(f"/proc/driver/nvidia/capabilities/gpu{gpu}/mig/{name}").decode()
        except OSError:
            return -1
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key == "DeviceFileMinor" and value.strip().isdecimal():
                return int(value)
        return -1

    def _faults(self, uuid: str, handle: Any) -> list[str]:
        nvml = self._nvml
        found = []
        if uuid in self._xids:
            found.append(f"Xid {self._xids[uuid]} was reported; the driver's restart forgets it")
        _, _, pending, failed = self._maybe(nvml.nvmlDeviceGetRemappedRows, handle, default=(0, 0, 0, 0))
        if failed:
            found.append("a row of its memory could not be remapped: it has to be replaced")
        elif pending or self._maybe(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle, default=0):
            found.append("memory waits to be remapped: it has to be reset")
        return found

    def _watch(self, uuid: str, handle: Any) -> None:
        """Ask to be told of Xids from now on. Some GPUs cannot tell."""
        if uuid in self._watched:
            return
        self._watched.add(uuid)
        if self._events is None:
            self._events = self._maybe(self._nvml.nvmlEventSetCreate, default=None)
        if self._events is not None:
            self._maybe(
                self._nvml.nvmlDeviceRegisterEvents,
                handle,
                self._nvml.nvmlEventTypeXidCriticalError,
                self._events,
                default=None,
            )

    def _hear(self) -> None:
        """Take note of the Xids reported meanwhile."""
        while self._events is not None:
            event = self._maybe(self._nvml.nvmlEventSetWait_v2, self._events, 0, default=None)
            if event is None:
                return
            uuid = self._maybe(self._nvml.nvmlDeviceGetUUID, event.device, default=None)
            if uuid is not None and int(event.eventData) not in _OF_PROGRAMS:
                self._xids[_text(uuid)] = int(event.eventData)

    def _maybe(self, call: Callable[..., Any], *arguments: Any, default: Any) -> Any:
        """The answer, or the default where the GPU does not support the question. Lost GPUs are not that: they raise."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_GPU_IS_LOST:
                raise
            return default


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
