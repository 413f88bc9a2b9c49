"""The CUDA kernels run on the CPU: right, fast enough for CI, safe among threads."""

import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from compile_kernels import results
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


# Each call would run for hours. A signal that comes before the kernel has begun proves nothing: the
# call is then made again.
INTERRUPTED = """
import os, signal, threading, torch, torch_smem_gemm as smem
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
x = torch.ones(6000, 6000)
leaf = x.clone().requires_grad_()
leaf.register_hook(lambda grad: smem.gemm(grad, grad, kernel="naive"))
for call in (
    lambda: smem.gemm(x, x, kernel="naive"),
    lambda: smem.gemm(x, x, kernel="naive", out=torch.empty_like(x)),
    lambda: torch.ops.smem.gemm(x, x, kernel_id=1),
    lambda: leaf.sum().backward(),
    lambda: smem.trace("gemm", x, x, kernel="naive", max_accesses=None),
    lambda: smem.trace("gemm", x, x, max_accesses=None),
):
    out_of_the_kernel = False
    while not out_of_the_kernel:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            call()
        except KeyboardInterrupt as error:
            out_of_the_kernel = error.__suppress_context__  # of the RuntimeError that C++ threw
    print("interrupted")
y = torch.ones(40, 40)
assert torch.equal(smem.gemm(y, y, kernel="naive"), y @ y)
assert smem.trace("gemm", y, y, kernel="naive").faults == ()
print("usable")
"""

# The bare op cannot say it, and a later RuntimeError is not mistaken for it.
OTHER_EXCEPTION = """
import signal, torch, torch_smem_gemm as smem
class Enough(Exception): pass
def handler(*_): raise Enough("of it")
signal.signal(signal.SIGALRM, handler)
x = torch.ones(6000, 6000)
op = torch.ops.smem._gemm.default
began = False
while not began:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        op(x, x, None, None, 1.0, 0.0, 0, 0, 1)
    except Enough:
        pass
    except RuntimeError as error:
        began = True
        print(error)
try:
    smem.gemm(x, x[:5], kernel="naive")
except RuntimeError as error:
    print(error)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    smem.gemm(x, x, kernel="naive")
except Enough as error:
    print(error)
"""


def lines_of(program: str) -> list[str]:
    """What the program prints; its errors, if it has any."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    return (done.stdout + done.stderr).splitlines()


def test_ctrl_c_ends_a_kernel() -> None:
    assert lines_of(INTERRUPTED) == ["interrupted"] * 6 + ["usable"]


def test_what_another_handler_raises_comes_out() -> None:
    assert lines_of(OTHER_EXCEPTION) == [
        "cpu_emulator: interrupted by a signal",
        "smem.gemm: a is 6000x6000 and b is 5x6000: inner sizes 6000 and 5 differ",
        "of it",
    ]


def test_lack_of_memory_is_torchs_error() -> None:
    x = torch.ones(1).expand(2**30, 2**30)
    for call in (
        lambda: smem.transpose(x, kernel="padded"),
        lambda: smem.gemm(x[:, :1], x[:1], kernel="naive"),
        lambda: smem.sum(x[:, :, None].expand(-1, -1, 2), 2, kernel="tree"),
    ):
        with pytest.raises(RuntimeError, match=r"DefaultCPUAllocator|overflowed"):
            call()


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


# ---------------------------------------------- the runtime itself: tests/cpu_emulator/untraced.cpp


def untraced(name: str) -> Any:
    """A result of the program that calls the runtime without the ops."""
    return results("untraced")[name]


def shuffle_source(kind: str, lane: int, by: int, width: int) -> int:
    """Whose value a lane takes (CUDA C++ Programming Guide, "Warp Shuffle Functions").

    Lanes form segments of ``width``. A source outside of the lane's own gives the lane itself; for
    xor only one in a later segment does.
    """
    first = lane - lane % width
    if kind == "idx":
        return first + by % width
    source = {"up": lane - by, "down": lane + by, "xor": lane ^ by}[kind]
    inside = source >= first if kind == "up" else source < first + width
    return source if inside else lane


@pytest.mark.parametrize("width", [32, 16, 8])
@pytest.mark.parametrize("kind", ["idx", "up", "down", "xor"])
def test_shuffles_are_cudas(kind: str, width: int) -> None:
    """Lane l gives 100 + l, in the mask or in its complement; from another group comes nothing."""
    shuffles = [s for s in untraced("shuffles") if (s["kind"], s["width"]) == (kind, width)]
    assert len(shuffles) == 4 * 6  # masks, distances
    for shuffle in shuffles:
        sources = [shuffle_source(kind, lane, shuffle["by"], width) for lane in range(32)]
        in_mask = [shuffle["mask"] >> lane & 1 for lane in range(32)]
        defined = [lane for lane in range(32) if in_mask[lane] == in_mask[sources[lane]]]
        taken = {lane: shuffle["taken"][lane] - 100 for lane in defined}
        assert taken == {lane: sources[lane] for lane in defined}


def test_shuffles_move_every_size_whole() -> None:
    assert untraced("sizes") == [1, 1, 1, 1, 1]


def test_groups_of_lanes_shuffle_apart_and_meet() -> None:
    """Group g of three adds its (g + 1) first lanes' sums; then lane l takes those of 31 - l."""
    sums = list(range(32))
    for group in range(3):
        for round_ in range(group + 1):
            first = sums[group + 3 * round_]
            for lane in range(group, 32, 3):
                sums[lane] += first
    assert untraced("groups") == sums[::-1]


def test_copies_land_at_their_wait() -> None:
    """Three groups of 4 numbers; then 2 of 4 in no group. Old (-1) before, 0 where left out."""
    old, rows = [-1] * 4, [[4 * row + i for i in (1, 2, 3, 4)] for row in range(3)]
    assert untraced("copies") == [
        old + old + old + old,  # all are issued, three groups committed
        old + old + old + old,  # three groups left
        rows[0] + old + old + old,  # two left
        rows[0] + rows[1] + old + old,  # one left
        rows[0] + rows[1] + rows[2] + old,  # none left: the last was never committed
        rows[0] + rows[1] + rows[2] + [13, 14, 0, 0],  # cp_async_wait_all
    ]


@pytest.mark.parametrize("index", range(4))
def test_grids_run_every_thread_once(index: int) -> None:
    """Grids and blocks of one to three dimensions; blockIdx, threadIdx, gridDim and blockDim."""
    grid = untraced("grids")[index]
    threads = [5 * 3 * 8 * 4, 3 * 2 * 4 * 4 * 2 * 5, 7 * 33, 70_000][index]
    assert grid == {"runs": [1] * threads, "sizes_right": 1}


def test_a_deadlock_says_who_waits_where() -> None:
    """Numbers of threads, instead of a hang; a trace has the lines, too."""
    assert untraced("deadlock") == (
        "cpu_emulator: deadlock: of 64 threads of block 0 wait "
        "12 at __syncthreads, 20 at a shuffle; 32 have ended"
    )
    assert re.fullmatch(
        r"cpu_emulator: deadlock: of 32 threads of block \d wait "
        r"1 at __syncthreads, 31 at __syncwarp; 0 have ended",
        untraced("warp_deadlock"),
    )


def test_what_a_fiber_throws_reaches_the_caller() -> None:
    assert untraced("exception") == "thrown in a fiber"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="traps are caught on x86-64 only")
def test_what_the_processor_refuses_ends_the_launch() -> None:
    """Without a trace, too, which would record it: what is not computed is no result."""
    assert untraced("trap") == (
        "cpu_emulator: out of bounds: beyond a local array, or by a pointer that was never set; "
        "found in thread 40 of block 2"
    )


def test_launches_after_errors_are_right() -> None:
    assert untraced("after_errors") == 1
