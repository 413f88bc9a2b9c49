"""Timing that can be compared: interleaved rounds of all candidates, in one process."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Call = Callable[[], object]

# Wanted seconds of measuring for one candidate, and the bounds of its number of rounds.
SECONDS = 0.5
MIN_ROUNDS = 5
MAX_ROUNDS = 60

METHOD = (
    "Median, 20th and 80th percentile of rounds that run every candidate once, in an order shuffled"
    " anew each round; candidates that take long take part in fewer rounds (at least"
    f" {MIN_ROUNDS} of {MAX_ROUNDS}). Untimed warm-up first. On a GPU: CUDA events around each"
    " call, the L2 cache flushed before it by writing a buffer of twice its size; on a CPU:"
    " wall-clock time, caches warm. Random inputs, results checked against float64 before timing,"
    " TF32 off."
)


@dataclass(frozen=True)
class Timing:
    """Seconds of one call."""

    median: float
    p20: float
    p80: float
    rounds: int


@dataclass(frozen=True)
class Ceilings:
    """What the device can do at most. GB are 1e9 bytes; a copy counts read and written bytes."""

    ffma_gflops: float | None  # nominal, from cores and clock; None where they are not known
    copy_gbs: float
    read_gbs: float


def interleaved(calls: Mapping[str, Call], device: torch.device) -> dict[str, Timing]:
    """Time ``calls`` against one another.

    Args:
        calls: name -> function of no arguments that launches the work on ``device``.
        device: a CUDA device or the CPU.

    Returns:
        name -> Timing, in the order of ``calls``.
    """
    timed_round = _cuda_round(device) if device.type == "cuda" else _cpu_round
    timed_round(list(calls.values()))  # loads code, fills caches, raises the clock
    estimates = timed_round(list(calls.values()))
    stride = {
        name: max(1, MAX_ROUNDS // max(MIN_ROUNDS, int(SECONDS / max(seconds, 1e-9))))
        for name, seconds in zip(calls, estimates, strict=True)
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    shuffled = random.Random(0)
    for index in range(MAX_ROUNDS):
        names = [name for name in calls if index % stride[name] == 0]
        shuffled.shuffle(names)
        timings = timed_round([calls[name] for name in names])
        for name, seconds in zip(names, timings, strict=True):
            samples[name].append(seconds)
    return {name: _timing(seconds) for name, seconds in samples.items()}


def measure_ceilings(device: torch.device) -> Ceilings:
    """Copy and read bandwidth as torch reaches them, and the nominal float32 FMA rate.

    Args:
        device: a CUDA device (256 MiB copied, up to 4 GiB read) or the CPU (16 MiB each).
    """
    on_gpu = device.type == "cuda"
    copied = torch.randn(1 << (26 if on_gpu else 22), device=device)
    target = torch.empty_like(copied)
    read = copied
    if on_gpu:
        free, _ = torch.cuda.mem_get_info(device)
        read = torch.randn(min(1 << 30, free // 16), device=device)
    timings = interleaved({"copy": lambda: target.copy_(copied), "read": read.sum}, device)
    return Ceilings(
        ffma_gflops=_nominal_ffma_gflops(device) if on_gpu else None,
        copy_gbs=2 * _bytes(copied) / timings["copy"].median / 1e9,
        read_gbs=_bytes(read) / timings["read"].median / 1e9,
    )


def _cuda_round(device: torch.device) -> Callable[[Sequence[Call]], list[float]]:
    """A function that runs calls one after the other and returns the seconds of each."""
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    flush = torch.empty(2 * l2_bytes, dtype=torch.uint8, device=device)

    def timed_round(calls: Sequence[Call]) -> list[float]:
        pairs = []
        with torch.cuda.device(device):
            for call in calls:
                # Also keeps the GPU busy while the host prepares the call, so that the events see
                # the call's work and not the host's.
                flush.zero_()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                end.record()
                pairs.append((start, end))
            torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]

    return timed_round


def _cpu_round(calls: Sequence[Call]) -> list[float]:
    seconds = []
    for call in calls:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def _timing(seconds: Sequence[float]) -> Timing:
    p20, _, _, p80 = statistics.quantiles(seconds, n=5, method="inclusive")
    return Timing(statistics.median(seconds), p20, p80, len(seconds))


def _nominal_ffma_gflops(device: torch.device) -> float | None:
    """Cores x 2 operations x highest clock: a float32 FMA on every core in every cycle."""
    properties = torch.cuda.get_device_properties(device)
    few_cores = (properties.major, properties.minor) in {(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)}
    cores = properties.multi_processor_count * (64 if few_cores else 128)
    kilohertz = getattr(properties, "clock_rate", None)  # not in every torch
    return kilohertz and cores * 2 * kilohertz * 1e3 / 1e9


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
