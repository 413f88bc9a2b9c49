"""Comparable timing: interleaved rounds of all candidates in one process."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from torch_smem_gemm._kernels import build_info, chip

Call = Callable[[], object]

# Wanted seconds of measuring for one candidate, and the bounds of its number of rounds.
SECONDS = 0.5
MIN_ROUNDS = 5
MAX_ROUNDS = 80

# Of host_seconds: calls that wait on the GPU at most, calls timed at most, seconds spent on them.
QUEUED_CALLS = 8
HOST_CALLS = 200
HOST_SECONDS = 0.05

# Of the ceilings: each of _ffma's threads makes 64 multiply-adds a round, each of _mma_sync's warps
# 32 mma of 16 x 8 x 16 (tf32: 16 x 8 x 8); 2 ms on an H200.
FFMA_ROUNDS = MMA_SYNC_ROUNDS = 4096
BF16_SIZE = 8192
# For which the GPU waits before each timed call: 50 to 70 us, in which the host prepares the call;
# where it does not manage to, twice as long, up to a millisecond.
HEAD_START_CYCLES = 100_000
LONGEST_HEAD_START = 16 * HEAD_START_CYCLES

METHOD = (
    "Each round runs every candidate once, in a newly shuffled order; slow candidates take part in"
    f" fewer rounds (at least {MIN_ROUNDS} of {MAX_ROUNDS}). ms is the median, with the 20th and"
    " 80th percentiles. Ratios are medians of the ratios within rounds. Warm-up runs are not timed."
    " On a GPU, CUDA events surround each call. Before it the L2 cache is flushed by reading a"
    " buffer of twice its size, so that nothing is written back during the call. A wait of about 50"
    " us before that lets the host get ahead of the GPU; if the host does not, the call is repeated"
    " with a longer wait. On a CPU the times are wall-clock times with warm caches. graph_ms, for"
    " short calls, is the time of a CUDA graph with one call for each set of inputs, too many for"
    " the L2 cache, divided by their number. host_us is the host's time for one call, without"
    " waiting for the GPU. Inputs are random, and every result is checked against float64 before it"
    " is timed. TF32 is off unless the dtype is tf32. torch.compile runs without CUDA graphs, which"
    " would copy the inputs."
)


@dataclass(frozen=True)
class Spread:
    """The median of some values and their 20th and 80th percentile."""

    median: float
    p20: float
    p80: float
    rounds: int  # the number of values


@dataclass(frozen=True)
class Samples:
    """Seconds of one candidate's calls."""

    seconds: Mapping[int, float]  # round -> seconds of the call in it; never empty

    @property
    def spread(self) -> Spread:
        """Seconds of one call."""
        return spread(self.seconds.values())

    @property
    def median(self) -> float:
        """Seconds."""
        return self.spread.median

    @property
    def p20(self) -> float:
        """Seconds: a fifth of the calls took less."""
        return self.spread.p20

    @property
    def p80(self) -> float:
        """Seconds: a fifth of the calls took more."""
        return self.spread.p80

    @property
    def rounds(self) -> int:
        """The number of calls timed."""
        return len(self.seconds)

    def ratio(self, other: Samples) -> Spread | None:
        """Return the speed-up over ``other``: other's seconds divided by this candidate's.

        The ratio is taken in each round in which both took part, so a disturbance of a round
        affects both. ``interleaved`` gives all its candidates common rounds. None without any.
        """
        common = self.seconds.keys() & other.seconds.keys()
        if not common:
            return None
        return spread(other.seconds[index] / self.seconds[index] for index in common)


@dataclass(frozen=True)
class Ceilings:
    """The device's ceilings. GB are 1e9 bytes; a copy counts read and written bytes."""

    ffma_gflops: float | None  # nominal, from cores and clock; None where they are not known
    copy_gbs: float
    read_gbs: float
    measured_ffma_gflops: float | None = None  # by a kernel of nothing else; None on a CPU
    cublas_bf16_gflops: float | None = None  # the peak, in a short burst; None without such cores
    mma_sync_bf16_gflops: float | None = None  # by a kernel of nothing but mma.sync, from registers
    mma_sync_tf32_gflops: float | None = None

    @property
    def fma_gflops(self) -> float | None:
        """The float32 FMA rate to hold kernels against: measured, else nominal, else None."""
        return self.measured_ffma_gflops or self.ffma_gflops

    def of_products(self, arithmetic: str) -> tuple[str, float | None]:
        """Return the ceiling of products in ``arithmetic``, with its GFLOP/s if known.

        Args:
            arithmetic: the name of a dtype, or "tf32".
        """
        bf16 = self.cublas_bf16_gflops
        return {
            "float32": ("FMA", self.fma_gflops),
            "tf32": ("tensor cores", None if bf16 is None else bf16 / 2),
            "float16": ("tensor cores", bf16),
            "bfloat16": ("tensor cores", bf16),
        }.get(arithmetic, ("", None))


def spread(values: Iterable[float]) -> Spread:
    """Median and percentiles of one value or more."""
    ordered = sorted(values)
    if len(ordered) == 1:
        return Spread(ordered[0], ordered[0], ordered[0], 1)
    p20, _, _, p80 = statistics.quantiles(ordered, n=5, method="inclusive")
    return Spread(statistics.median(ordered), p20, p80, len(ordered))


def interleaved(
    calls: Mapping[str, Call],
    device: torch.device,
    *,
    budget: float | None = None,
    seed: int = 0,
) -> dict[str, Samples]:
    """Time ``calls`` against one another.

    Args:
        calls: name -> function of no arguments that launches the work on ``device``.
        device: a CUDA device or the CPU.
        budget: seconds that a candidate's timed calls may take together, if ``MIN_ROUNDS`` of them
            do not take longer; None is ``SECONDS``.
        seed: of the orders within the rounds.

    Returns:
        name -> Samples, in the order of ``calls``.
    """
    samples: dict[str, dict[int, float]] = {name: {} for name in calls}
    timed_round = _cuda_round(device) if device.type == "cuda" else _cpu_round
    shuffled = random.Random(seed)
    timed_round(list(calls.values()))  # loads code, fills caches, raises the clock
    estimates = timed_round(list(calls.values()))
    wanted = SECONDS if budget is None else budget
    strides = {
        name: _stride(seconds, wanted) for name, seconds in zip(calls, estimates, strict=True)
    }
    for index in range(MAX_ROUNDS):
        names = [name for name in calls if index % strides[name] == 0]
        shuffled.shuffle(names)
        timings = timed_round([calls[name] for name in names])
        for name, seconds in zip(names, timings, strict=True):
            samples[name][index] = seconds
    return {name: Samples(timed) for name, timed in samples.items()}


def host_seconds(call: Call, device: torch.device) -> float | None:
    """Return the seconds that the host needs for one ``call``, without the GPU's work.

    The result is the median of many calls. Untimed synchronisations keep the GPU's queue short,
    because a full queue blocks the host.

    Args:
        call: launches work on ``device``.
        device: where the work runs. On the CPU the host does the work itself: None.
    """
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        one = time.perf_counter() - start
        # Synchronise after each call of long work, or a few calls would use up the time.
        queued = max(1, min(QUEUED_CALLS, int(HOST_SECONDS / MIN_ROUNDS / max(one, 1e-9))))
        timed: list[float] = []
        end = time.perf_counter() + HOST_SECONDS
        while len(timed) < MIN_ROUNDS or (len(timed) < HOST_CALLS and time.perf_counter() < end):
            for _ in range(queued):
                start = time.perf_counter()
                call()
                timed.append(time.perf_counter() - start)
            torch.cuda.synchronize()
    return statistics.median(timed)


def graphed(call: Call, calls: int, device: torch.device) -> Call | None:
    """A CUDA graph of ``calls`` times ``call``: replays them with next to no work for the host.

    Args:
        call: launches work on ``device`` and does not synchronise. It runs ``calls`` times first,
            so that what it allocates and chooses once is done.
        calls: one or more; where ``call`` takes its inputs in turn, as many as there are.
        device: where the work runs. On the CPU there are no graphs: None.

    Raises:
        RuntimeError: torch's, where the call does what cannot be captured.
    """
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(calls):
                call()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
    return _Replay(graph, call)


@dataclass(frozen=True)
class _Replay:
    graph: torch.cuda.CUDAGraph
    call: Call  # holds the tensors whose addresses the graph has

    def __call__(self) -> None:
        self.graph.replay()


@contextlib.contextmanager
def float32_products(precision: Literal["ieee", "tf32"]) -> Iterator[None]:
    """Set that precision of float32 products, independent of the process's setting."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = precision
    try:
        yield
    finally:
        matmul.fp32_precision = before


def measure_ceilings(device: torch.device, *, budget: float | None = None) -> Ceilings:
    """Bandwidths as torch reaches them, the float32 FMA rate, and cuBLAS's bfloat16 peak.

    Args:
        device: a CUDA device (256 MiB copied, up to 4 GiB read, 384 MiB multiplied) or the CPU
            (16 MiB copied and read).
        budget: seconds for each of them, as of ``interleaved``.
    """
    on_gpu = device.type == "cuda"
    copied = torch.randn(1 << (26 if on_gpu else 22), device=device)
    target = torch.empty_like(copied)
    read = copied
    if on_gpu:
        free, _ = torch.cuda.mem_get_info(device)
        read = torch.randn(min(1 << 30, free // 16), device=device)
    # name -> the call and its work, in bytes or operations
    jobs: dict[str, tuple[Call, int]] = {
        "copy": (lambda: target.copy_(copied), 2 * _bytes(copied)),
        "read": (read.sum, _bytes(read)),
    }
    if on_gpu:
        jobs |= _arithmetic(device)
    samples = interleaved({name: call for name, (call, _) in jobs.items()}, device, budget=budget)
    rates = {name: jobs[name][1] / timed.median / 1e9 for name, timed in samples.items()}
    return Ceilings(
        ffma_gflops=_nominal_ffma_gflops(device) if on_gpu else None,
        copy_gbs=rates["copy"],
        read_gbs=rates["read"],
        measured_ffma_gflops=rates.get("ffma"),
        cublas_bf16_gflops=rates.get("bf16"),
        mma_sync_bf16_gflops=rates.get("mma_sync bf16"),
        mma_sync_tf32_gflops=rates.get("mma_sync tf32"),
    )


def _arithmetic(device: torch.device) -> dict[str, tuple[Call, int]]:
    """Return compute-bound work for a GPU: name -> call and operations."""
    jobs: dict[str, tuple[Call, int]] = {}
    properties = torch.cuda.get_device_properties(device)
    if build_info()["cuda"]:
        # 256 threads per block, 16 blocks per SM: two full waves.
        out = torch.empty(properties.multi_processor_count * 16 * 256, device=device)
        flop = 2 * 64 * FFMA_ROUNDS * out.numel()
        jobs["ffma"] = (lambda: torch.ops.smem._ffma(out, FFMA_ROUNDS), flop)
    if build_info()["cuda"] and chip(device).code_capability >= 80:
        # 256 threads per block, one block per SM at once: two full waves.
        few = torch.empty(properties.multi_processor_count * 2 * 256, device=device)
        flop = 32 * 2 * 16 * 8 * 16 * MMA_SYNC_ROUNDS * few.numel() // 32
        for name, is_tf32 in (("mma_sync bf16", False), ("mma_sync tf32", True)):
            call = functools.partial(torch.ops.smem._mma_sync, few, MMA_SYNC_ROUNDS, is_tf32)
            jobs[name] = (call, flop // 2 if is_tf32 else flop)
    if properties.major >= 8:
        a, b, c = (
            torch.randn(BF16_SIZE, BF16_SIZE, dtype=torch.bfloat16, device=device) for _ in range(3)
        )
        jobs["bf16"] = (lambda: torch.matmul(a, b, out=c), 2 * BF16_SIZE**3)
    return jobs


def _stride(seconds: float, budget: float) -> int:
    """Return the interval of rounds in which a candidate whose call takes ``seconds`` takes part.

    A power of two, so that the rounds of the rarer of two candidates are rounds of the other too.
    """
    wanted = max(MIN_ROUNDS, min(MAX_ROUNDS, int(budget / max(seconds, 1e-9))))
    stride = 1
    while math.ceil(MAX_ROUNDS / stride) > wanted and MAX_ROUNDS // (2 * stride) >= MIN_ROUNDS:
        stride *= 2
    return stride


def _cuda_round(device: torch.device) -> Callable[[Sequence[Call]], list[float]]:
    """Return a function that runs calls one after the other and returns their seconds."""
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    flush = torch.ones(2 * l2_bytes // 4, device=device)

    head_start = HEAD_START_CYCLES

    def enqueue(call: Call) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """The events before and after the call, which the GPU may not have come to yet."""
        nonlocal head_start
        while True:
            torch.cuda._sleep(head_start)
            flush.sum()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            # The GPU must be busy until the host has enqueued all of this. Otherwise the events
            # include the host's time: on a loaded host a call of 3 us appeared to take 20.
            if not start.query() or head_start >= LONGEST_HEAD_START:
                return start, end
            head_start *= 2

    def timed_round(calls: Sequence[Call]) -> list[float]:
        with torch.cuda.device(device):
            pairs = [enqueue(call) for call in calls]
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


def _nominal_ffma_gflops(device: torch.device) -> float | None:
    """Cores x 2 operations x highest clock: a float32 FMA on every core in every cycle."""
    properties = torch.cuda.get_device_properties(device)
    few_cores = (properties.major, properties.minor) in {(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)}
    cores = properties.multi_processor_count * (64 if few_cores else 128)
    kilohertz = getattr(properties, "clock_rate", None)  # not in every torch
    return kilohertz and cores * 2 * kilohertz * 1e3 / 1e9


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
