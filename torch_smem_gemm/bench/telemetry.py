"""The GPU's state while it was measured, through nvidia-ml-py (module ``pynvml``) if installed."""

from __future__ import annotations

import importlib
import statistics
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any

import torch

INTERVAL = 0.1  # seconds between two samples

# Bits of NVML's clocks event reasons. The lowest bit, left out here, says that the GPU is idle.
THROTTLE_REASONS = {
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}


@dataclass(frozen=True)
class Range:
    """The range of a figure over time."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Summary:
    """A GPU's state over some time. A figure that the GPU does not report is None."""

    samples: int
    sm_mhz: Range | None
    memory_mhz: Range | None
    watts: Range | None
    celsius: Range | None
    throttle_reasons: tuple[str, ...] | None  # all that held at any sample


class Telemetry:
    """A context manager that samples a GPU's state from a thread of its own while it is open.

    >>> with Telemetry(torch.device("cuda")) as telemetry:
    ...     measure()
    >>> telemetry.summary()  # None on a CPU, without nvidia-ml-py, or where NVML does not answer

    Args:
        device: the GPU; a CPU is allowed and has no state.
        interval: seconds between two samples.
    """

    def __init__(self, device: torch.device, interval: float = INTERVAL) -> None:
        self._device = device
        self._interval = interval
        self._nvml: ModuleType | None = None
        self._taken: list[tuple[float | None, ...]] = []
        self._closed = threading.Event()

    def __enter__(self) -> Telemetry:
        self._nvml = _loaded(self._device)
        if self._nvml is None:
            return self
        try:
            read = _reader(self._nvml, self._device)
        except self._nvml.NVMLError:
            self._nvml.nvmlShutdown()
            self._nvml = None
            return self
        self._closed.clear()
        self._thread = threading.Thread(target=self._sample, args=(read,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._nvml is None:
            return
        self._closed.set()
        self._thread.join()
        self._nvml.nvmlShutdown()

    def summary(self) -> Summary | None:
        """What the samples so far say; None if there are none."""
        taken = list(self._taken)
        if not taken:
            return None
        *figures, reasons = zip(*taken, strict=True)
        sm, memory, milliwatts, celsius = figures
        return Summary(
            samples=len(taken),
            sm_mhz=_range(sm),
            memory_mhz=_range(memory),
            watts=_range(None if value is None else value / 1e3 for value in milliwatts),
            celsius=_range(celsius),
            throttle_reasons=_names(reasons),
        )

    def _sample(self, read: Callable[[], tuple[float | None, ...]]) -> None:
        while True:
            self._taken.append(read())
            if self._closed.wait(self._interval):
                return


def _loaded(device: torch.device) -> ModuleType | None:
    """NVML, initialised; None where it is not to be had or ``device`` is no GPU."""
    if device.type != "cuda":
        return None
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def _reader(nvml: Any, device: torch.device) -> Callable[[], tuple[float | None, ...]]:
    """A function that takes one sample: MHz, MHz, milliwatts, degrees Celsius, reason bits."""
    # Not by index: CUDA_VISIBLE_DEVICES renumbers torch's devices and not NVML's.
    handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    # Its new name and, for older modules, its old one.
    reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons = reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    calls: tuple[Callable[[], float], ...] = (
        lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        lambda: nvml.nvmlDeviceGetPowerUsage(handle),
        lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        lambda: reasons(handle),
    )

    def told(call: Callable[[], float]) -> float | None:
        try:
            return call()
        except nvml.NVMLError:  # this GPU or this driver does not tell
            return None

    return lambda: tuple(told(call) for call in calls)


def _range(values: Iterable[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return Range(min(known), statistics.median(known), max(known)) if known else None


def _names(bits: Iterable[float | None]) -> tuple[str, ...] | None:
    known = [int(value) for value in bits if value is not None]
    if not known:
        return None
    return tuple(
        name for bit, name in THROTTLE_REASONS.items() if any(value & bit for value in known)
    )
