"""Overhead of the package: the host time of a call, and the import time.

Both are ratios to torch's in the same run. The seconds depend on the machine and its load, so no
test asserts them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.measure import Call, Samples, Spread, spread

SIZE = 16  # of the square operands: a kernel of nothing, in a layout that every kernel takes
ROUNDS = 40
BLOCK = 50  # calls timed together on the CPU
# On a GPU, whose queue must stay short: a full one would hold the host up.
QUEUED_BLOCK = 8
IMPORTS = 5  # processes

_IMPORT = """
import json, time
start = time.perf_counter()
import torch
torchs = time.perf_counter()
import torch_smem_gemm
print(json.dumps([torchs - start, time.perf_counter() - torchs]))
"""

# op -> our function and torch's, of two matrices
_OPS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "gemm": (lambda a, b: smem.gemm(a, b), lambda a, b: torch.mm(a, b)),
    "linear": (lambda a, b: smem.linear(a, b), lambda a, b: F.linear(a, b)),
    "transpose": (lambda a, b: smem.transpose(a), lambda a, b: a.mT.contiguous()),
    "sum": (lambda a, b: smem.sum(a, 1), lambda a, b: torch.sum(a, 1)),
    "mean": (lambda a, b: smem.mean(a, 1), lambda a, b: torch.mean(a, 1)),
    "amax": (lambda a, b: smem.amax(a, 1), lambda a, b: torch.amax(a, 1)),
    "amin": (lambda a, b: smem.amin(a, 1), lambda a, b: torch.amin(a, 1)),
}
OPS = tuple(_OPS)
# The context of a call: inference, the forward pass of a training step, or autocast.
MODES = ("no_grad", "grad", "autocast")


@dataclass(frozen=True)
class HostTime:
    """The host's time for one call of an op, without waiting for the GPU."""

    op: str
    mode: str  # one of MODES
    us: float  # median microseconds of our call
    torch_us: float
    ratio: Spread  # ours over torch's, round by round: below 1 is less than torch's


@dataclass(frozen=True)
class ImportTime:
    """What ``import torch_smem_gemm`` adds to ``import torch``, each process importing both."""

    ms: float  # median milliseconds of ours, after torch's
    torch_ms: float
    ratio: Spread  # ours over torch's, process by process


def host_times(device: torch.device, *, rounds: int = ROUNDS) -> Iterator[HostTime]:
    """Measure every op in every mode that it has, beside torch's.

    Args:
        device: the device of the operands. On the CPU the time includes the computation, which is
            negligible for operands this small.
        rounds: of one block of calls of each of the two.
    """
    for mode in MODES:
        for op, pair in _OPS.items():
            if mode == "autocast" and op not in ("gemm", "linear"):
                continue  # torch's autocast casts for products only
            a, b = (
                torch.randn(SIZE, SIZE, device=device, requires_grad=mode != "no_grad")
                for _ in range(2)
            )
            calls = {
                name: functools.partial(function, a, b)
                for name, function in zip(("smem", "torch"), pair, strict=True)
            }
            autocast = torch.autocast(device.type, torch.bfloat16, enabled=mode == "autocast")
            with autocast, torch.set_grad_enabled(mode != "no_grad"):
                samples = blocks_in_turn(calls, device, rounds=rounds)
            ratio = samples["torch"].ratio(samples["smem"])
            assert ratio is not None  # both take part in every round
            us, torch_us = (samples[name].median * 1e6 for name in ("smem", "torch"))
            yield HostTime(op, mode, us, torch_us, ratio)


def blocks_in_turn(
    calls: Mapping[str, Call], device: torch.device, *, rounds: int = ROUNDS, seed: int = 0
) -> dict[str, Samples]:
    """Time the host's part of ``calls``: seconds of one call, by round.

    Each round times a block of each call, in an order shuffled anew. The garbage collector is off
    meanwhile, and a GPU is waited for between the blocks, untimed.
    """
    on_gpu = device.type == "cuda"
    block = QUEUED_BLOCK if on_gpu else BLOCK
    shuffled = random.Random(seed)
    seconds: dict[str, dict[int, float]] = {name: {} for name in calls}
    with (
        _no_garbage_collection(),
        torch.cuda.device(device) if on_gpu else contextlib.nullcontext(),
    ):
        for index in range(-1, rounds):  # round -1 loads code and fills caches
            names = list(calls)
            shuffled.shuffle(names)
            for name in names:
                call = calls[name]
                if on_gpu:
                    torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(block):
                    call()
                seconds[name][index] = (time.perf_counter() - start) / block
    return {
        name: Samples({index: took for index, took in timed.items() if index >= 0})
        for name, timed in seconds.items()
    }


def import_time(*, processes: int = IMPORTS) -> ImportTime:
    """Import torch, then this package, in fresh processes; one more, untimed, warms the disk."""
    root = str(Path(smem.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path}
    took = [
        json.loads(
            subprocess.check_output([sys.executable, "-c", _IMPORT], text=True, env=environment)
        )
        for _ in range(processes + 1)
    ][1:]
    torchs, ours = (spread(times).median * 1e3 for times in zip(*took, strict=True))
    return ImportTime(ours, torchs, spread(ours / torchs for torchs, ours in took))


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
