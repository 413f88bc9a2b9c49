"""Other implementations of the ops: torch eager, torch.compile, and torch's BLAS libraries."""

from __future__ import annotations

import contextlib
import io
import logging
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_smem_gemm.bench.problems import Function, Problem, activated
from torch_smem_gemm.bench.shapes import GemmShape, SumShape, TransposeShape


@dataclass(frozen=True)
class NotAvailable:
    """Raised by a peer that cannot compute a problem; shown as "n/a"."""

    reason: str


# Makes the function of a problem's inputs, run once.
Factory = Callable[[Problem], Function | NotAvailable]


@dataclass(frozen=True)
class Peer:
    """Another implementation of an op."""

    name: str
    summary: str
    make: Factory  # raises nothing if the peer fails: says why it is not available
    same: bool = True  # computes the same; False only bounds what is possible


EAGER = {
    "gemm": "torch.matmul",
    "linear": "torch.nn.functional.linear, and the activation after it",
    "transpose": "x.transpose(...).contiguous()",
    "sum": "torch.sum",
}
# name -> what it is, and torch.compile's options. Without CUDA graphs: those would copy the
# rotating inputs in each call.
COMPILED: dict[str, tuple[str, dict[str, str | int | bool | Callable]]] = {
    "compile": ("torch.compile", {}),
    "compile-max": (
        "torch.compile, max-autotune without CUDA graphs",
        {"max_autotune": True, "coordinate_descent_tuning": True},
    ),
    "triton": (
        "torch.compile's Triton kernels alone, the persistent TMA one among them",
        {
            "max_autotune": True,
            "max_autotune_gemm_backends": "TRITON",
            "triton.enable_persistent_tma_matmul": True,
        },
    ),
}
BLAS_LIBRARIES = ("cublas", "cublaslt")


def available(op: str, device: torch.device) -> dict[str, Peer]:
    """The peers that can be tried for ``op`` on ``device``, by name."""
    peers = [Peer("torch", EAGER[op], _factory(_eager))]
    if device.type == "cuda":
        products = op in ("gemm", "linear")
        peers += [
            Peer(name, summary, _factory(_compiled(options)))
            for name, (summary, options) in COMPILED.items()
            if products or name != "triton"  # elsewhere all of torch.compile's kernels are Triton's
        ]
        if products:
            peers += [
                Peer(library, f"torch with {library} preferred", _factory(_with_library(library)))
                for library in BLAS_LIBRARIES
            ]
    if op == "transpose":
        peers.append(Peer("copy", "y.copy_(x), no transpose", _factory(_copy), same=False))
    return {peer.name: peer for peer in peers}


def _factory(make: Callable[[Problem], Function]) -> Factory:
    def factory(problem: Problem) -> Function | NotAvailable:
        try:
            function = make(problem)
            with _quiet():
                function(*problem.inputs[0])
                if problem.out.is_cuda:
                    torch.cuda.synchronize(problem.out.device)
        except Exception as error:  # whatever a compiler or a library raises
            lines = str(error).splitlines()
            return NotAvailable(f"{type(error).__name__}: {lines[0] if lines else ''}")
        return function

    return factory


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch.compile's autotuning report, a screenful per tuned GEMM."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def _eager(problem: Problem) -> Function:
    if isinstance(problem.shape, SumShape):
        dims = problem.shape.dims
        return lambda x: torch.sum(x, dims)
    if isinstance(problem.shape, TransposeShape):
        first, second = problem.shape.dims or (-2, -1)
        return lambda x: x.transpose(first, second).clone(memory_format=torch.contiguous_format)
    if problem.op == "gemm":
        return lambda a, b: torch.matmul(a, b)
    assert isinstance(problem.shape, GemmShape)
    activation = problem.shape.activation
    return lambda x, weight, bias: activated(F.linear(x, weight, bias), activation)


def _copy(problem: Problem) -> Function:
    target = torch.empty_like(problem.inputs[0][0])
    return lambda x: target.copy_(x)


def _compiled(options: dict[str, str | int | bool | Callable]) -> Callable[[Problem], Function]:
    def make(problem: Problem) -> Function:
        eager = _eager(problem)
        assert isinstance(eager, types.FunctionType)
        # A code object of its own: torch.compile counts the compilations of each, and beyond a
        # few it silently runs the function uncompiled.
        own = types.FunctionType(
            eager.__code__.replace(), eager.__globals__, eager.__name__, None, eager.__closure__
        )
        return torch.compile(own, options=options, dynamic=False, fullgraph=True)

    return make


def _with_library(library: str) -> Callable[[Problem], Function]:
    def make(problem: Problem) -> Function:
        eager = _eager(problem)
        prefer = torch.backends.cuda.preferred_blas_library

        def call(*inputs: Tensor) -> object:
            before = prefer()
            prefer(library)
            try:
                return eager(*inputs)
            finally:
                prefer(before)

        return call

    return make
