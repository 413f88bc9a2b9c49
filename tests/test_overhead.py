"""What the package costs where there is nothing to compute: host time of a call, import time."""

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torch_smem_gemm as smem

ROOT = Path(__file__).resolve().parent.parent
BLOCK, BLOCKS, TRIES = 100, 60, 8


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(BLOCK):
        call()
    return time.perf_counter() - start


def ratio(call: Callable[[], object], peer: Callable[[], object]) -> float:
    """How many times longer ``call`` takes than ``peer``: the median over short blocks in turn."""
    gc.collect()
    gc.disable()
    try:
        seconds(call), seconds(peer)
        return statistics.median(seconds(call) / seconds(peer) for _ in range(BLOCKS))
    finally:
        gc.enable()


@pytest.mark.parametrize(("grad", "limit"), [(False, 2.6), (True, 4.2)], ids=["", "grad"])
def test_host_time_of_a_call(grad: bool, limit: float) -> None:
    """Against torch.mm, 1 x 1 on the CPU; best of several tries: machines are busy."""
    a, b = (torch.randn(1, 1, requires_grad=grad) for _ in range(2))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratios = []
        while len(ratios) < TRIES and min(ratios, default=limit + 1) > limit:
            ratios.append(ratio(lambda: smem.gemm(a, b), lambda: torch.mm(a, b)))
    finally:
        torch.set_num_threads(threads)
    assert min(ratios) <= limit


def test_import_time() -> None:
    """At most 150 ms after torch's own import."""
    code = (
        "import time, torch; start = time.perf_counter(); import torch_smem_gemm; "
        "print(time.perf_counter() - start)"
    )
    times = [
        float(subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT))
        for _ in range(3)
    ]
    assert min(times) <= 0.15
