"""What NVML measures of the GPUs of this machine. Only functions that read are called. Needs the extra `nvidia`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from regauge.base import InputError
from regauge.observe.ports import DeviceReading, Measure, Readings, Trouble
from regauge.observe.sources.translating import pci_address

try:
    import pynvml
except ImportError:  # the extra `nvidia` is not installed
    pynvml = None

PLACE = "libnvidia-ml"


def nvml_source(name: str, node: str, module: Any = None) -> NvmlSource:
    """The machine's own. Raises `InputError` where there is no GPU, driver or nvidia-ml-py, in words."""
    module = pynvml if module is None else module
    if module is None:
        raise InputError(
            "GPUs cannot be measured: the package nvidia-ml-py is not installed", fix="pip install 'regauge[nvidia]'"
        )
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        raise InputError(
            f"GPUs cannot be measured: {error}",
            fix="this source is for nodes with NVIDIA GPUs and their kernel driver; in a pod, mount libnvidia-ml.so.1",
        ) from None
    return NvmlSource(name, node, module)


@dataclass(slots=True)
class NvmlSource:
    """`Source` from NVML. Of a MIG device NVML tells the memory and not the utilization."""

    name: str
    node: str
    _nvml: Any
    _reading: asyncio.Future[Readings] | None = None

    async def read(self, now_s: float) -> Readings:
        """One call at a time: where an earlier one was given up and is still in its thread, this waits for its answer."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read))
        reading = self._reading
        try:
            return await asyncio.shield(reading)
        finally:
            if reading.done():
                self._reading = None

    async def close(self) -> None:
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        await asyncio.to_thread(self._quietly, self._nvml.nvmlShutdown)

    def _read(self) -> Readings:
        nvml = self._nvml
        devices: list[DeviceReading] = []
        troubles: list[Trouble] = []
        try:
            count = int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            return Readings(self.name, troubles=(self._trouble(PLACE, error),))
        for index in range(count):
            try:
                devices += self._of(nvml.nvmlDeviceGetHandleByIndex(index))
            except nvml.NVMLError as error:
                troubles.append(self._trouble(f"{PLACE} GPU {index}", error))
        return Readings(self.name, devices=tuple(devices), troubles=tuple(troubles))

    def _of(self, handle: Any) -> Iterator[DeviceReading]:
        nvml = self._nvml
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        pci = pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId))
        rates = self._quietly(nvml.nvmlDeviceGetUtilizationRates, handle)
        power_mw = self._quietly(nvml.nvmlDeviceGetPowerUsage, handle)
        celsius = self._quietly(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        told = {
            Measure.UTILIZATION: None if rates is None else float(rates.gpu) / 100,
            Measure.POWER: None if power_mw is None else float(power_mw) / 1000,
            Measure.TEMPERATURE: None if celsius is None else float(celsius),
            **self._memory(handle),
        }
        yield from self._readings(told, uuid, pci)
        mode = self._quietly(nvml.nvmlDeviceGetMigMode, handle)
        if mode is not None and mode[0]:
            yield from self._parts(handle)

    def _parts(self, handle: Any) -> Iterator[DeviceReading]:
        nvml = self._nvml
        for slot in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
            part = self._quietly(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
            if part is not None:
                yield from self._readings(self._memory(part), _text(nvml.nvmlDeviceGetUUID(part)), "")

    def _memory(self, handle: Any) -> dict[Measure, float | None]:
        memory = self._quietly(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        if memory is None:
            return {}
        return {Measure.MEMORY_USED: float(memory.used), Measure.MEMORY_TOTAL: float(memory.total)}

    def _readings(self, told: dict[Measure, float | None], uuid: str, pci: str) -> Iterator[DeviceReading]:
        for measure, value in told.items():
            if value is not None:
                yield DeviceReading(self.node, measure, value, self.name, uuid=uuid, pci=pci)

    def _quietly(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where the GPU does not support the question. Lost GPUs are not that: they raise."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_GPU_IS_LOST:
                raise
            return None

    def _trouble(self, place: str, error: Exception) -> Trouble:
        return Trouble(self.name, place, "refused", str(error))


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
