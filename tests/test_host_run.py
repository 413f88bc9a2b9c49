"""The CUDA kernels run on the CPU: right, fast enough for CI, safe among threads."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from helpers import EVERY_KERNEL, FLOATS, GEMMS, Call, poisoned, small_integers

import torch_smem_gemm as smem

OPS = torch.ops.smem
ROOT = Path(__file__).resolve().parent.parent
every_kernel = pytest.mark.parametrize(
    ("op", "kernel"), [(op, kernel) for op, kernel in EVERY_KERNEL if kernel != "auto"]
)


@every_kernel
def test_every_kernel_gives_the_reference(op: str, kernel: str) -> None:
    call = Call(op, kernel)
    for _ in range(3):
        call.refill()
        expected = call.expected()
        out = poisoned(expected.shape, expected.dtype)
        assert torch.equal(call.run(out), expected)
        assert torch.equal(call.run(), expected)


@every_kernel
def test_calls_from_several_threads(op: str, kernel: str) -> None:
    calls = [Call(op, kernel) for _ in range(4)]
    for call in calls:
        call.refill()

    def right(call: Call) -> bool:
        expected = call.expected()
        return all(torch.equal(call.run(), expected) for _ in range(8))

    with ThreadPoolExecutor(len(calls)) as pool:
        assert all(pool.map(right, calls))


@pytest.mark.parametrize("kernel", GEMMS)
def test_more_blocks_than_cores_and_the_reverse(kernel: str) -> None:
    for m, n in ((1, 1), (300, 300)):
        a, b = small_integers(m, 3), small_integers(3, n)
        assert torch.equal(smem.gemm(a, b, kernel=kernel), a @ b)


def test_an_error_reaches_python_and_leaves_everything_usable() -> None:
    a, b = torch.ones(2, 100_000), torch.ones(100_000, 2)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="'panel' needs shared memory in proportion to K"):
            smem.gemm(a, b, kernel="panel")
        with pytest.raises(RuntimeError, match="kernel 99 is unknown"):
            OPS._sum(a, None, False, None, 99)
        assert torch.equal(smem.gemm(a, b, kernel="tiled16"), torch.full((2, 2), 100_000.0))


def test_lack_of_memory_is_torchs_error() -> None:
    x = torch.ones(1).expand(2**30, 2**30)
    for call in (
        lambda: smem.transpose(x, kernel="padded"),
        lambda: smem.gemm(x[:, :1], x[:1], kernel="naive"),
        lambda: smem.sum(x[:, :, None].expand(-1, -1, 2), 2, kernel="tree"),
    ):
        with pytest.raises(RuntimeError, match=r"DefaultCPUAllocator|overflowed"):
            call()


def test_fast_enough_for_ci() -> None:
    """256 x 256 x 256 in float32 by tiled32 takes at most 5 seconds."""
    a, b = small_integers(256, 256), small_integers(256, 256)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = smem.gemm(a, b, kernel="tiled32")
        times.append(time.perf_counter() - start)
    assert torch.equal(result, a @ b)
    assert min(times) <= 5


LEAK = """
import resource, torch, torch_smem_gemm as smem

a, bias = torch.ones(1, 1), torch.ones(1)

def bytes_after(times):
    for _ in range(times):
        smem.gemm(a, a, bias=bias, c=a, beta=1.0, activation="silu", kernel="naive")
        smem.transpose(a, kernel="naive")
        smem.sum(a, kernel="shuffle")
        smem.gemm(a, a)
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize()

print(-bytes_after(1000) + bytes_after(10_000))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_memory_is_lost() -> None:
    """Calls that kept 64 bytes each would show in a process of its own."""
    grown = int(subprocess.check_output([sys.executable, "-c", LEAK], text=True, cwd=ROOT))
    assert grown < 4 * 10_000 * 64


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounding_is_that_of_the_gpu(dtype: torch.dtype) -> None:
    """To nearest, ties to even, once; results below the smallest normal number are kept."""
    info = torch.finfo(dtype)
    eps, tiny = info.eps, info.smallest_normal
    x = torch.tensor([[1.0, eps / 2], [1.0 + eps, eps / 2], [tiny, 0.0]], dtype=dtype)
    b = torch.tensor([[1.0, 0.5], [1.0, 0.0]], dtype=dtype)
    expected = torch.tensor(
        [[1.0, 0.5], [1 + 2 * eps, (1 + eps) / 2], [tiny, tiny / 2]], dtype=torch.float64
    ).to(dtype)
    for kernel in GEMMS:
        assert torch.equal(smem.gemm(x, b, kernel=kernel), expected)
