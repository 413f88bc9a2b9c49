"""torch_smem_gemm.bench.telemetry, with a made-up NVML."""

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torch_smem_gemm.bench.telemetry import Range, Telemetry

GPU = torch.device("cuda", 0)
UUID = "6f0c5b1e"


class NVMLError(Exception):
    pass


class FakeNvml:
    """The part of pynvml that is used; its figures change with every sample."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self) -> None:
        self.open = 0
        self.samples = 0
        self.sm = [1980, 1200, 1500]
        self.reasons = [0x1, 0x4, 0x1 | 0x4 | 0x40]

    def _at(self, values: list[int]) -> int:
        return values[min(self.samples, len(values)) - 1]

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        assert uuid == f"GPU-{UUID}"
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle: str, which: int) -> int:
        assert handle == "handle"
        if which == self.NVML_CLOCK_MEM:
            return 3201
        self.samples += 1  # the first figure of a sample
        return self._at(self.sm)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 418_240

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 40 + self.samples

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self._at(self.reasons)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=UUID)
    )
    return fake


def record(nvml: FakeNvml, samples: int) -> Telemetry:
    with Telemetry(GPU, interval=1e-3) as telemetry:
        assert nvml.open == 1
        while nvml.samples < samples:
            time.sleep(1e-3)
    assert nvml.open == 0
    return telemetry


def test_summary(nvml: FakeNvml) -> None:
    summary = record(nvml, 3).summary()
    assert summary is not None
    assert summary.samples == nvml.samples >= 3
    assert summary.sm_mhz is not None
    assert (summary.sm_mhz.min, summary.sm_mhz.max) == (1200, 1980)
    assert summary.memory_mhz == Range(3201, 3201, 3201)
    assert summary.watts == Range(418.24, 418.24, 418.24)
    assert summary.celsius is not None
    assert summary.celsius.min == 41
    assert summary.celsius.max == 40 + summary.samples
    assert summary.celsius.median == (41 + 40 + summary.samples) / 2
    assert summary.throttle_reasons == ("software power cap", "hardware thermal slowdown")


def test_an_idle_gpu_is_not_throttled(nvml: FakeNvml) -> None:
    nvml.reasons = [0x1]
    summary = record(nvml, 1).summary()
    assert summary is not None
    assert summary.throttle_reasons == ()


def test_the_newer_name_of_the_reasons(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetCurrentClocksThrottleReasons")
    nvml.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 0x80  # type: ignore[attr-defined]
    summary = record(nvml, 1).summary()
    assert summary is not None
    assert summary.throttle_reasons == ("hardware power brake",)


def test_what_the_gpu_does_not_tell_is_none(nvml: FakeNvml) -> None:
    def untold(*_: Any) -> int:
        raise NVMLError("not supported")

    nvml.nvmlDeviceGetPowerUsage = untold  # type: ignore[method-assign]
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = untold  # type: ignore[method-assign]
    summary = record(nvml, 2).summary()
    assert summary is not None
    assert summary.watts is None
    assert summary.throttle_reasons is None
    assert summary.memory_mhz is not None


def test_one_sample_at_least(nvml: FakeNvml) -> None:
    with Telemetry(GPU, interval=60) as telemetry:
        pass
    assert telemetry.summary() is not None
    assert telemetry.summary().samples == 1


def test_closes_when_the_measuring_fails(nvml: FakeNvml) -> None:
    with pytest.raises(KeyboardInterrupt), Telemetry(GPU) as telemetry:
        raise KeyboardInterrupt
    assert nvml.open == 0
    assert telemetry.summary() is not None


def nothing_recorded(device: torch.device) -> None:
    with Telemetry(device) as telemetry:
        pass
    assert telemetry.summary() is None


def test_none_on_a_cpu(nvml: FakeNvml) -> None:
    nothing_recorded(torch.device("cpu"))
    assert nvml.samples == 0


def test_none_without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nothing_recorded(GPU)


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_none_where_nvml_does_not_answer(nvml: FakeNvml, name: str) -> None:
    def fails(*_: Any) -> None:
        raise NVMLError("driver not loaded")

    setattr(nvml, name, fails)
    nothing_recorded(GPU)
    assert nvml.open == 0


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    pytest.importorskip("pynvml")
    with Telemetry(torch.device("cuda")) as telemetry:
        torch.ones(1, device="cuda")
    summary = telemetry.summary()
    assert summary is not None
    assert summary.sm_mhz is not None
    assert 0 < summary.sm_mhz.min <= summary.sm_mhz.max < 10_000
