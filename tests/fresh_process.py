"""One call of an op, made by a process or a thread that has not used the GPU before.

python tests/fresh_process.py CALL SITUATION runs it and compares the result with torch's in
float64. test_fresh_process.py starts an interpreter for each pair, because a process that has run
other tests hides what only a first call finds: no current CUDA context, attributes that nobody has
set, kernels that nobody has loaded.
"""

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_smem_gemm as smem

Shapes = tuple[tuple[int, ...], ...]

M, N, K = 192, 256, 512  # N * K is just enough for `fp16x3`
MATRICES: Shapes = ((M, K), (K, N))
# 120 us and more on an H100, in the gradients, too: work tiles are from a counter, which the first
# launch finds by calls of the runtime that others do not make (csrc/gemm/tile_counter.cu).
LONG: Shapes = ((3584, 3584), (3584, 3584))
LONG_FLOAT32: Shapes = ((2560, 2560), (2560, 2560))
SMALL: Shapes = ((14, 3), (3, 4))  # by tiles whose loads go straight to registers
SHORT_K: Shapes = ((64, 64), (64, 8192))  # by a kernel of its own, the gradient of B, too
MANY_COLUMNS: Shapes = ((16, 512), (512, 9000))  # by a kernel of its own
LONG_K: Shapes = ((3, 3000), (3000, 5))  # by warps that divide K
OPS = torch.ops.smem
_LAYER = smem.Linear(K, N, bias=False, activation="gelu", device="meta", dtype=torch.bfloat16)


@dataclass(frozen=True)
class Call:
    """A function of tensors, what it should return, and the error of the norm that is allowed."""

    run: Callable[..., Tensor]
    reference: Callable[..., Tensor]
    shapes: Shapes
    dtype: torch.dtype = torch.float32
    tolerance: float = 1e-6
    out: Callable[..., Any] | None = None  # run, but writes its last argument


def _gemm(
    run: Callable[..., Tensor],
    dtype: torch.dtype,
    tolerance: float,
    shapes: Shapes = MATRICES,
    **choices: Any,
) -> Call:
    return Call(
        lambda a, b: run(a, b, **choices),
        torch.matmul,
        shapes,
        dtype,
        tolerance,
        lambda a, b, out: smem.gemm(a, b, **choices, out=out),
    )


def _linear(run: Callable[..., Tensor]) -> Call:
    return Call(
        run,
        lambda x, weight: F.gelu(F.linear(x, weight)),
        ((M, K), (N, K)),
        torch.bfloat16,
        2e-2,
        lambda x, weight, out: OPS.linear.out(x, weight, activation=2, out=out),
    )


def _by_module(x: Tensor, weight: Tensor) -> Tensor:
    return torch.func.functional_call(_LAYER, {"weight": weight}, (x,))


CALLS = {
    "gemm-float64": _gemm(smem.gemm, torch.float64, 1e-14),
    "gemm-float32": _gemm(smem.gemm, torch.float32, 1e-6),
    "gemm-tf32": _gemm(smem.gemm, torch.float32, 4e-3, precision="tf32"),
    "gemm-float16": _gemm(smem.gemm, torch.float16, 4e-3),
    "gemm-bfloat16": _gemm(smem.gemm, torch.bfloat16, 2e-2),
    "gemm-mma": _gemm(smem.gemm, torch.bfloat16, 2e-2, kernel="mma"),
    "gemm-fp16x3:mma": _gemm(smem.gemm, torch.float32, 1e-6, kernel="fp16x3:mma"),
    "gemm-long-bfloat16": _gemm(smem.gemm, torch.bfloat16, 2e-2, LONG),
    "gemm-long-tf32": _gemm(smem.gemm, torch.float32, 4e-3, LONG, precision="tf32"),
    "gemm-long-float32": _gemm(smem.gemm, torch.float32, 1e-6, LONG_FLOAT32),
    "gemm-small-bfloat16": _gemm(smem.gemm, torch.bfloat16, 2e-2, SMALL),
    "gemm-small-tf32": _gemm(smem.gemm, torch.float32, 4e-3, SMALL, precision="tf32"),
    "gemm-small-float32": _gemm(smem.gemm, torch.float32, 1e-6, SMALL),
    "gemm-short-k-float32": _gemm(smem.gemm, torch.float32, 1e-6, SHORT_K),
    "gemm-many-columns-float32": _gemm(smem.gemm, torch.float32, 1e-6, MANY_COLUMNS),
    "gemm-long-k-float32": _gemm(smem.gemm, torch.float32, 1e-6, LONG_K, kernel="simt:8x8"),
    "ops.gemm": _gemm(OPS.gemm, torch.bfloat16, 2e-2),
    "linear": _linear(lambda x, weight: smem.linear(x, weight, activation="gelu")),
    "ops.linear": _linear(lambda x, weight: OPS.linear(x, weight, activation=2)),
    "Linear": _linear(_by_module),
    "transpose": Call(
        smem.transpose,
        lambda x: x.mT,
        ((M, N),),
        out=lambda x, out: smem.transpose(x, out=out),
    ),
    "sum": Call(
        lambda x: smem.sum(x, 0),
        lambda x: x.sum(0),
        ((M, N),),
        out=lambda x, out: smem.sum(x, 0, out=out),
    ),
    "amax": Call(
        lambda x: smem.amax(x, 1),
        lambda x: x.amax(1),
        ((M, N),),
        out=lambda x, out: smem.amax(x, 1, out=out),
    ),
}

Work = Callable[[Call, list[Tensor]], list[Tensor]]


def forward(call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The result alone."""
    return [call.run(*inputs)]


def into(call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The result in a tensor that is given."""
    shape = call.reference(*(torch.empty_like(x, device="meta") for x in inputs)).shape
    out = torch.full(shape, torch.nan, dtype=call.dtype, device=inputs[0].device)
    assert call.out is not None
    call.out(*inputs, out)
    return [out]


def backward(call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The gradients, which autograd computes in a thread of its own."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(call.run(*inputs).square().sum(), inputs))


def double_backward(call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The gradients of the gradients' length."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    grads = torch.autograd.grad(call.run(*inputs).square().mean(), inputs, create_graph=True)
    return list(torch.autograd.grad(sum(g.square().sum() for g in grads), inputs))


def compiled(call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The result of the compiled call."""
    return [torch.compile(call.run, backend="aot_eager", fullgraph=True)(*inputs)]


def captured(call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The result of a graph that is captured before the call has run outside of one."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(inputs[0].device), torch.cuda.graph(graph):
        result = call.run(*inputs)
    result.fill_(torch.nan)
    graph.replay()
    return [result]


def in_main(work: Work, call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """By the thread that made the inputs."""
    return work(call, inputs)


def in_thread(work: Work, call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """By a thread for which this is the first work on a GPU."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, call, inputs).result()


def in_pool(work: Work, call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """By four such threads at the same time."""
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: work(call, inputs), range(4))
    for other in others:
        for x, y in zip(first, other, strict=True):
            assert torch.equal(x, y), "threads disagree"
    return first


Place = Callable[[Work, Call, list[Tensor]], list[Tensor]]
SITUATIONS: dict[str, tuple[Place, Work]] = {
    "main": (in_main, forward),
    "backward": (in_main, backward),
    "thread": (in_thread, forward),
    "pool": (in_pool, forward),
    "thread_out": (in_thread, into),
    "thread_backward": (in_thread, backward),
    "thread_double_backward": (in_thread, double_backward),
    "thread_compiled": (in_thread, compiled),
    "thread_graph": (in_thread, captured),
}
DEVICES = {"": "cuda:0", "second_device_": "cuda:1"}


def check(call_name: str, situation: str, device: str) -> None:
    """Run a call in a situation; raise AssertionError where the result is wrong."""
    call = CALLS[call_name]
    place, work = SITUATIONS[situation]
    torch.manual_seed(7)
    inputs = [torch.randn(shape, dtype=call.dtype) for shape in call.shapes]
    results = place(work, call, [x.to(device) for x in inputs])
    exact = Call(call.reference, call.reference, call.shapes, torch.float64)
    like_forward = work in (into, compiled, captured)
    # On the GPU as well, after the call: a CPU takes seconds for the long products.
    references = (forward if like_forward else work)(exact, [x.to(device).double() for x in inputs])
    for result, reference in zip(results, references, strict=True):
        assert str(result.device) == device
        error = (result.double() - reference).norm() / reference.norm()
        assert error <= call.tolerance, f"{call_name}, {situation}: error {error:.3g}"


def main(call_name: str, situation: str) -> None:
    """Run ``situation``, which may begin with a device's prefix or with "spawned_"."""
    if situation.startswith("spawned_"):
        torch.ones(1, device="cuda").sum().item()  # the parent has a context, the child has none
        process = multiprocessing.get_context("spawn").Process(
            target=main, args=(call_name, situation.removeprefix("spawned_"))
        )
        process.start()
        process.join()
        sys.exit(process.exitcode)
    prefix = next(p for p in sorted(DEVICES, reverse=True) if situation.startswith(p))
    check(call_name, situation.removeprefix(prefix), DEVICES[prefix])


if __name__ == "__main__":
    main(*sys.argv[1:])
