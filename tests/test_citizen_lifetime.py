"""What calls leave behind: memory, tensors, graphs; and calls from many threads at once."""

import gc
import resource
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from helpers import CHOICES, GEMMS, SUMS, TRANSPOSES
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

import torch_smem_gemm as smem

OPS = torch.ops.smem
NAMED = CHOICES["named"] | {"gemm": GEMMS[0]}  # the one that takes least time on the CPU

CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "gemm": lambda x: smem.gemm(
        x, x, bias=x[0], c=x, beta=0.5, activation="silu", kernel=NAMED["gemm"]
    ),
    "gemm auto": lambda x: smem.gemm(x, x, bias=x[0], activation="silu"),
    "gemm direct": lambda x: OPS.gemm(x, x, x[0], x, 1.0, 0.5, 4, 0, 1),
    "linear": lambda x: smem.linear(x, x, x[0], activation="gelu"),
    "linear direct": lambda x: OPS.linear(x, x, x[0], 1),
    "transpose": lambda x: smem.transpose(x, kernel=NAMED["transpose"]),
    **{
        op: lambda x, op=op: getattr(smem, op)(x, 1, kernel=NAMED["sum"])
        for op in ("sum", "mean", "amax", "amin")
    },
}
OUT_CALLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gemm": lambda x, out: smem.gemm(x, x, kernel=NAMED["gemm"], out=out),
    "transpose": lambda x, out: smem.transpose(x, kernel=NAMED["transpose"], out=out),
    "sum": lambda x, out: smem.sum(x, 1, kernel=NAMED["sum"], out=out[0]),
}
TRIES = 4
every_call = pytest.mark.parametrize("call", CALLS)


def matrix(device: str = "cpu", grad: bool = False) -> Tensor:
    return torch.randn(4, 4, device=device, requires_grad=grad)


def backward(call: str, device: str = "cpu") -> None:
    x = matrix(device, grad=True)
    torch.autograd.grad(CALLS[call](x).square().sum(), x)


# --------------------------------------------------------------------------------------- leaks


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch's own threads cost more than such small calls, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def growth(run: Callable[[], object], calls: int) -> tuple[int, int]:
    """How many blocks Python, and how many bytes the process, has more after that many calls.

    tracemalloc would count what lies in free lists as held, too.
    """
    gc.collect()
    blocks, resident = sys.getallocatedblocks(), resident_bytes()
    for _ in range(calls):
        run()
    resident = resident_bytes() - resident
    gc.collect()
    return sys.getallocatedblocks() - blocks, resident


def assert_flat(run: Callable[[], object], calls: int) -> None:
    """Nothing is left behind by a call; by the best of some tries, since caches fill at first.

    A leak of 112 bytes a call, as by a str argument in a schema, shows in what the process holds.
    """
    for _ in range(100):
        run()
    for _ in range(TRIES):
        blocks, resident = growth(run, calls)
        if blocks < calls // 2 and resident < max(64 * calls, 2**17):
            return
    pytest.fail(f"{calls} calls left {blocks} blocks behind, and {resident} bytes")


@pytest.mark.usefixtures("one_thread")
@every_call
@pytest.mark.one_in(4)
def test_calls_leave_no_memory_behind(call: str) -> None:
    x = matrix()
    assert_flat(lambda: CALLS[call](x), 3000)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("call", OUT_CALLS)
def test_calls_with_out_leave_no_memory_behind(call: str) -> None:
    x, out = matrix(), matrix()
    assert_flat(lambda: OUT_CALLS[call](x, out), 3000)


@pytest.mark.usefixtures("one_thread")
@every_call
@pytest.mark.one_in(2)
def test_gradients_leave_no_memory_behind(call: str) -> None:
    assert_flat(lambda: backward(call), 200)


def test_errors_leave_no_memory_behind() -> None:
    x, other = matrix(), torch.randn(3, 3)

    def fail() -> None:
        for bad in (lambda: OPS._gemm(x, other), lambda: smem.sum(x, 7, kernel=SUMS[0])):
            with pytest.raises(RuntimeError, match="smem"):
                bad()

    assert_flat(fail, 500)


@pytest.mark.gpu
@every_call
def test_many_calls_on_the_gpu(call: str) -> None:
    x = matrix("cuda")
    for _ in range(100):
        CALLS[call](x)
        backward(call, "cuda")
    gc.collect()  # what other tests left behind would go some time
    torch.cuda.synchronize()
    before, resident = torch.cuda.memory_allocated(), resident_bytes()
    for _ in range(100_000):
        CALLS[call](x)
    for _ in range(1000):
        backward(call, "cuda")
    gc.collect()
    torch.cuda.synchronize()
    # Autograd's thread may still hold the last gradients. A leak would be 512 bytes a call or more.
    assert torch.cuda.memory_allocated() - before < 2**16
    assert resident_bytes() - resident < 2**21


# ------------------------------------------------------------------------------------- lifetimes


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Only reference counts free anything."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@every_call
@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
def test_result_and_inputs_die_with_their_last_use(call: str, grad: bool, device: str) -> None:
    with no_garbage_collection():
        x = matrix(device, grad)
        middle = x * 2
        y = CALLS[call](middle)
        alive = [weakref.ref(tensor) for tensor in (x, middle, y)]
        del x, middle, y
        assert [ref() for ref in alive] == [None] * 3


def is_freed(ref: weakref.ref) -> bool:
    """Whether a tensor is gone, or soon: the thread that ran a GPU's backward lets its graph go a
    moment after the caller has the gradients. What never goes is given up in half a minute."""
    deadline = time.monotonic() + 30
    while ref() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    return ref() is None


@every_call
@pytest.mark.parametrize("retain", [False, True])
def test_graph_and_what_it_saved_die_without_the_collector(
    call: str, retain: bool, device: str
) -> None:
    with no_garbage_collection():
        leaf = matrix(device, grad=True)
        middle = leaf * 2
        saved = weakref.ref(middle)
        y = CALLS[call](middle)
        del middle
        (grad,) = torch.autograd.grad(y.square().sum(), leaf, create_graph=retain)
        if not retain:
            assert is_freed(saved), "what the gradient needed is alive after it"
        del y, grad
        assert is_freed(saved)


@every_call
def test_forward_mode_keeps_nothing(call: str, device: str) -> None:
    with no_garbage_collection():
        x, tangent = matrix(device, grad=True), matrix(device)
        alive = [weakref.ref(x), weakref.ref(tangent)]
        with forward_ad.dual_level():
            y = CALLS[call](forward_ad.make_dual(x, tangent))
            alive.append(weakref.ref(y))
            del x, tangent, y
            assert [ref() for ref in alive] == [None] * 3


@every_call
def test_hessian_keeps_nothing(call: str, device: str) -> None:
    def hessian(x: Tensor) -> None:
        torch.func.hessian(lambda x: CALLS[call](x).square().sum())(x)

    hessian(matrix(device))  # torch's imports at the first call leave their callers' frames behind
    with no_garbage_collection():
        x = matrix(device)
        hessian(x)
        alive = weakref.ref(x)
        del x
        assert alive() is None


def test_checkpoint_frees_what_lies_within(device: str) -> None:
    """Only the input of a checkpointed stretch lives until its gradient."""
    inner: list[weakref.ref] = []

    def stretch(x: Tensor) -> Tensor:
        y = smem.gemm(x, x, activation="gelu", kernel=NAMED["gemm"])
        inner.append(weakref.ref(y))
        return smem.transpose(smem.gemm(y, y, kernel=NAMED["gemm"]))

    with no_garbage_collection():
        x = matrix(device, grad=True)
        result = checkpoint(stretch, x, use_reentrant=False)
        assert inner[0]() is None
        result.square().sum().backward()
        assert [ref() for ref in inner] == [None, None]


# --------------------------------------------------------------------------------------- threads


def everything(x: Tensor, kernel: int) -> list[Tensor]:
    """All ops, a gradient and a vmap, by kernels that differ from thread to thread.

    No forward mode: its levels are of the process, and torch's own ops fail in two threads.
    """
    names = [names[kernel % len(names)] for names in (GEMMS, TRANSPOSES, SUMS)]
    x = x.detach().requires_grad_()
    y = smem.gemm(x, x, bias=x[0], activation="relu", kernel=names[0])
    z = smem.transpose(smem.linear(y, x), kernel=names[1])
    total = smem.sum(z, 0, kernel=names[2]) + smem.amax(z, 0) + smem.amin(z, 0) + smem.mean(z, 0)
    (grad,) = torch.autograd.grad(total.sum(), x)
    mapped = torch.func.vmap(lambda row: smem.gemm(x.detach(), row[:, None], kernel=names[0]))(z)
    return [y, z, total, grad, mapped]


def rounds_by_thread(device: str, threads: int, rounds: int) -> None:
    """Hammer all ops from many threads, on CUDA each on its stream; compare with one thread."""
    inputs = [torch.randn(5, 5, dtype=torch.float64, device=device) for _ in range(threads)]
    expected = [everything(x, i) for i, x in enumerate(inputs)]
    if device == "cuda":
        torch.cuda.synchronize()
    start = threading.Barrier(threads)

    def work(i: int) -> None:
        start.wait()
        for _ in range(rounds):
            for result, wanted in zip(everything(inputs[i], i), expected[i], strict=True):
                torch.testing.assert_close(result, wanted)

    def on_its_stream(i: int) -> None:
        if device == "cpu":
            return work(i)
        with torch.cuda.stream(torch.cuda.Stream()):
            return work(i)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(on_its_stream, range(threads)))


def test_threads(device: str) -> None:
    rounds_by_thread(device, threads=8, rounds=2 if device == "cpu" else 100)


def test_a_graph_may_be_differentiated_in_another_thread(device: str) -> None:
    x = matrix(device, grad=True)
    results = [CALLS[call](x).square().sum() for call in CALLS]
    expected = [torch.autograd.grad(r, x, retain_graph=True)[0] for r in results]
    with ThreadPoolExecutor(4) as pool:
        grads = list(pool.map(lambda r: torch.autograd.grad(r, x)[0], results))
    for grad, wanted in zip(grads, expected, strict=True):
        torch.testing.assert_close(grad, wanted)
