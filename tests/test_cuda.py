"""What only a GPU can show: streams, devices, graphs, syncs, memory, what the compiler made."""

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from gemm_kernels import largest_k
from helpers import EVERY_KERNEL, FLOATS, SUMS, TENSOR_CORE_GEMMS, Call, captured, poisoned, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import kernel_resources

pytestmark = pytest.mark.gpu
every_kernel = pytest.mark.parametrize(
    ("op", "kernel"), [*EVERY_KERNEL, *(("gemm", name) for name in TENSOR_CORE_GEMMS)]
)
OPS = torch.ops.smem
LONG = 200_000_000  # clock cycles, about a tenth of a second


# --------------------------------------------------------------------------------------- streams


@every_kernel
def test_side_stream(op: str, kernel: str) -> None:
    """The inputs come late on a stream of their own: work on any other stream would see NaN."""
    call = Call(op, kernel, "cuda")
    expected = call.expected()
    numbers = [x.clone() for x in call.inputs]
    call.run()  # loads the kernel
    for x in call.inputs:
        x.fill_(math.nan)
    out = poisoned(expected.shape, expected.dtype, "cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        for x, values in zip(call.inputs, numbers, strict=True):
            x.copy_(values)
        results = [call.run(), call.run(out)]
        right = torch.stack([(result == expected).all() for result in results])
        for result in results:
            result.fill_(math.nan)
    stream.synchronize()
    assert right.all()


@every_kernel
def test_gradients_on_a_side_stream(op: str, kernel: str) -> None:
    call = Call(op, kernel, "cuda")
    call.inputs = [x.requires_grad_() for x in call.inputs]
    expected = torch.autograd.grad(call.run().sum(), call.inputs)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        grads = torch.autograd.grad(call.run().sum(), call.inputs)
    stream.synchronize()
    for grad, wanted in zip(grads, expected, strict=True):
        assert torch.equal(grad, wanted)


# --------------------------------------------------------------------------------- shared memory


def test_threads_launch_one_kernel_with_different_shared_memory() -> None:
    """Panels of 16 and of 32 lanes, more than 48 KiB each, by one kernel of ``columns``."""
    inputs = [torch.randn(9000, columns, device="cuda") for columns in (35, 37, 1001, 1003)]
    expected = [smem.sum(x, 0) for x in inputs]
    torch.cuda.synchronize()
    start = threading.Barrier(len(inputs))

    def work(i: int) -> bool:
        start.wait()
        with torch.cuda.stream(torch.cuda.Stream()):
            return all(torch.equal(smem.sum(inputs[i], 0), expected[i]) for _ in range(500))

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert all(pool.map(work, range(len(inputs))))


NARROW_COLUMNS = """
import torch, torch_smem_gemm as smem
for columns in range(28, 33):
    x = torch.randint(-9, 9, (40_000, columns), dtype=torch.int32, device="cuda")
    assert torch.equal(smem.sum(x, 0), x.sum(0)), columns
"""


def test_narrow_columns_fit_in_64_kib() -> None:
    """The thread partials of 30 columns of int32 take more than a block of a T4 can have."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"SMEM_CAPABILITY": "7.5", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", NARROW_COLUMNS], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# --------------------------------------------------------------------------------------- devices


@pytest.mark.gpu2
@every_kernel
def test_second_device(op: str, kernel: str) -> None:
    """Tensors decide where a call runs, not the current device, which stays."""
    call = Call(op, kernel, "cuda:1")
    expected = call.expected()
    with torch.cuda.device(0):
        torch.cuda.synchronize(1)
        stream = torch.cuda.Stream(device=1)
        with torch.cuda.stream(stream), torch.cuda.device(0):
            # The current stream of device 1 is the new one, while device 0 is current.
            results = [call.run(), call.run(poisoned(expected.shape, expected.dtype, "cuda:1"))]
            assert torch.cuda.current_device() == 0
        stream.synchronize()
    for result in results:
        assert result.device == torch.device("cuda:1")
        assert torch.equal(result, expected)


@pytest.mark.gpu2
def test_operands_on_two_gpus() -> None:
    a, b = torch.empty(3, 4, device="cuda:0"), torch.empty(4, 5, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"^smem.gemm: b is on cuda:1, expected cuda:0 where a"):
        smem.gemm(a, b)


# ---------------------------------------------------------------------------------------- graphs


@every_kernel
@pytest.mark.parametrize("with_out", [False, True], ids=["", "out"])
def test_graph(op: str, kernel: str, with_out: bool) -> None:
    call = Call(op, kernel, "cuda")
    expected = call.expected()
    out = poisoned(expected.shape, expected.dtype, "cuda") if with_out else None
    graph, result = captured(lambda: call.run(out))
    for _ in range(3):
        call.refill()
        result.fill_(math.nan)
        graph.replay()
        assert torch.equal(result, call.expected())


@every_kernel
def test_graph_of_a_training_step(op: str, kernel: str) -> None:
    call = Call(op, kernel, "cuda")
    call.inputs = [x.requires_grad_() for x in call.inputs]

    def step() -> Tensor:
        grads = torch.autograd.grad(call.run().square().sum(), call.inputs)
        return torch.cat([grad.flatten() for grad in grads])

    graph, result = captured(step)
    with torch.no_grad():
        call.refill()
    result.fill_(math.nan)
    graph.replay()
    assert torch.equal(result, step())


@pytest.mark.parametrize("kernel", ["auto", *SUMS])
def test_graph_of_a_sum_in_several_passes(kernel: str) -> None:
    """The sums of the chunks live in memory that belongs to the graph."""
    x = torch.randint(-4, 5, (3, 100_000), device="cuda").float()
    graph, result = captured(lambda: smem.sum(x, 1, kernel=kernel))
    for _ in range(3):
        x.copy_(torch.randint(-4, 5, x.shape, device="cuda"))
        rest = [torch.full((50,), math.nan, device="cuda") for _ in range(100)]
        graph.replay()
        assert torch.equal(result, x.double().sum(1).float())
        del rest


def test_graph_of_the_largest_panel() -> None:
    """More shared memory than a block gets without asking."""
    k = largest_k("panel", torch.float32, "cuda")
    a, b = (torch.randint(-4, 5, s, device="cuda").float() for s in ((20, k), (k, 20)))
    graph, result = captured(lambda: smem.gemm(a, b, kernel="panel"))
    result.fill_(math.nan)
    graph.replay()
    assert torch.equal(result, (a.double() @ b.double()).float())


# ----------------------------------------------------------------------------------------- syncs


@every_kernel
def test_no_host_sync(op: str, kernel: str) -> None:
    call = Call(op, kernel, "cuda")
    expected = call.expected()
    out = torch.empty_like(expected)
    call.run()
    call.run(out)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        # A busy host may be late once; a call that waits is late however long the GPU sleeps.
        for times_as_long in (1, 10, 100):
            torch.cuda._sleep(times_as_long * LONG)
            asleep = torch.cuda.Event()
            asleep.record()
            results = [call.run(), call.run(out)]
            if returned_early := not asleep.query():
                break
        leaves = [x.requires_grad_() for x in call.inputs]
        torch.autograd.grad(call.run().sum(), leaves)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert returned_early, "the call waited for the GPU"
    assert all(torch.equal(result, expected) for result in results)


# ---------------------------------------------------------------------------------------- memory

HUGE = 2**21  # its square is more bytes than any GPU has


def huge(*shape: int, grad: bool = False) -> Tensor:
    """A tensor of one element, expanded."""
    return torch.ones(1, device="cuda").expand(shape).requires_grad_(grad)


TOO_LARGE = {
    "gemm": lambda: smem.gemm(huge(HUGE, 1), huge(1, HUGE)),
    "gemm naive": lambda: smem.gemm(huge(HUGE, 1), huge(1, HUGE), kernel="naive"),
    "gemm with gradients": lambda: smem.gemm(huge(HUGE, 1, grad=True), huge(1, HUGE)),
    "gemm direct": lambda: OPS.gemm(huge(HUGE, 1), huge(1, HUGE)),
    "linear": lambda: smem.linear(huge(HUGE, 1), huge(HUGE, 1)),
    "transpose": lambda: smem.transpose(huge(HUGE, HUGE)),
    "sum": lambda: smem.sum(huge(HUGE, HUGE, 2), 2),
}


@pytest.mark.parametrize("call", TOO_LARGE)
def test_lack_of_memory_is_an_out_of_memory_error(call: str) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        TOO_LARGE[call]()
    a = torch.ones(2, 2, device="cuda")
    assert torch.equal(smem.gemm(a, a), a + a)


@every_kernel
def test_no_memory_is_lost(op: str, kernel: str) -> None:
    call = Call(op, kernel, "cuda")
    if op == "sum":
        call.inputs = [torch.ones(3, 20_000, device="cuda")]  # several passes
    for _ in range(10):
        call.run()
    torch.cuda.synchronize()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for _ in range(2000):
        call.run()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= allocated  # less where Python's collector ran
    assert torch.cuda.memory_reserved() <= reserved


# ------------------------------------------------------------------------------ kernels and plan


def test_resources_cover_every_kernel(record_property: Callable[[str, object], None]) -> None:
    """SMEM_CAPABILITY hides kernels from dispatch, not from the driver, which is asked here."""
    rows = kernel_resources()
    every = {(row.op, row.name, dtype) for row in smem.kernels() for dtype in row.dtypes}
    hidden = {
        ("gemm", row.name, short(dtype))
        for row in smem.kernels("gemm")
        for dtype in FLOATS
        if not row.takes(dtype, "cuda", row.float32_precision)
    }
    found = {(row["op"], row["name"], row["dtype"]) for row in rows}
    assert every - hidden <= found <= every
    assert len(rows) == len(found)
    for row in rows:
        assert 0 < row["registers"] <= 255
        assert 0 <= row["shared_bytes"] <= 48 * 1024
        assert row["max_threads"] >= 32
        if row["local_bytes"]:
            name = "{op} {name} {dtype}".format(**row)
            record_property(name, row["local_bytes"])
            print(f"{name}: {row['local_bytes']} bytes of local memory a thread")


def launched(run: Callable[[], Tensor]) -> list[str]:
    """The names of the CUDA kernels that ``run`` launches."""
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    names = [
        event.name
        for event in profile.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and "smem" in event.name
    ]
    if not names:
        pytest.skip("the profiler sees no kernels here")
    return names


PLANNED = [
    ((64, 64), (64, 64)),
    ((4096, 512), (512, 4096)),
    ((1, 512), (512, 4096)),
    ((4096, 512), (512, 4)),
    ((8, 512, 64), (64, 512)),
    ((16, 256, 64), (16, 64, 512)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shapes", PLANNED, ids=str)
def test_plan_says_what_runs(shapes: tuple, dtype: torch.dtype) -> None:
    a, b = (torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)
    kernel = smem.plan(a, b).kernel
    by_auto = launched(lambda: smem.gemm(a, b))
    assert by_auto == launched(lambda: smem.gemm(a, b, kernel=kernel))
    other = next(name for name in ("naive", "tiled16") if name != kernel)
    assert by_auto != launched(lambda: smem.gemm(a, b, kernel=other))
