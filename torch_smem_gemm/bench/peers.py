"""What else computes the same: torch eager, torch.compile, and the BLAS libraries behind torch."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_smem_gemm.bench.problems import Problem
from torch_smem_gemm.bench.shapes import SumShape

Call = Callable[[], object]
Function = Callable[..., object]


@dataclass(frozen=True)
class NotAvailable:
    """A peer that cannot do a problem here: "n/a"."""

    reason: str


Factory = Callable[[Problem], Call | NotAvailable]

# max-autotune without CUDA graphs: those would copy the rotating inputs in each call.
COMPILE_MODES = {"compile": "default", "compile-max": "max-autotune-no-cudagraphs"}
BLAS_LIBRARIES = ("cublas", "cublaslt")


def available(op: str, device: torch.device) -> dict[str, Factory]:
    """The peers that can be tried for ``op`` on ``device``, by name.

    A factory makes the peer's call for a problem, and has run it once. It raises nothing if that
    fails: it says why the peer is not available.
    """
    factories = {"torch": _factory(_eager)}
    if device.type != "cuda":
        return factories
    for name, mode in COMPILE_MODES.items():
        factories[name] = _factory(_compiled(mode))
    if op in ("gemm", "linear"):
        for library in BLAS_LIBRARIES:
            factories[library] = _factory(_with_library(library))
    return factories


def _factory(make: Callable[[Problem], Function]) -> Factory:
    def factory(problem: Problem) -> Call | NotAvailable:
        try:
            call = problem.bind(make(problem))
            call()
            if problem.out.is_cuda:
                torch.cuda.synchronize(problem.out.device)
        except Exception as error:  # whatever a compiler or a library raises
            lines = str(error).splitlines()
            return NotAvailable(f"{type(error).__name__}: {lines[0] if lines else ''}")
        return call

    return factory


def _eager(problem: Problem) -> Function:
    if isinstance(problem.shape, SumShape):
        dim = problem.shape.dim
        return lambda x: torch.sum(x, dim)
    if problem.op == "transpose":
        return lambda x: x.mT.contiguous()
    return _linear if problem.op == "linear" else _matmul


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias)


def _compiled(mode: str) -> Callable[[Problem], Function]:
    def make(problem: Problem) -> Function:
        eager = _eager(problem)
        assert isinstance(eager, types.FunctionType)
        # A code object of its own: torch.compile counts the compilations of each, and beyond a
        # few it silently runs the function uncompiled.
        own = types.FunctionType(
            eager.__code__.replace(), eager.__globals__, eager.__name__, None, eager.__closure__
        )
        return torch.compile(own, mode=mode, dynamic=False, fullgraph=True)

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
