"""A quick test of every op and every kernel on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import kernels

# No multiple of any tile, and more than one tile of most kernels.
M, N, K = 37, 29, 41


@dataclass(frozen=True)
class Check:
    """The result of one kernel on one small problem."""

    device: str
    op: str
    kernel: str
    status: str  # "ok", "n/a" or "broken"
    detail: str = ""


def smoke_test(device: torch.device) -> list[Check]:
    """Run every op on ``device``, with the automatic choice and with each kernel by name.

    On the CPU a named kernel is the GPU's source, run thread by thread.
    """
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((M, K), (N, K), (N,))
    )
    x32, weight32, bias32 = (tensor.to(device, torch.float32) for tensor in (x, weight, bias))
    halves = {row.name for row in kernels("gemm") if row.float32_precision == "tf32"}

    def gemm(kernel: str) -> Tensor:
        a, b, c = x32, weight32, bias32
        if kernel in halves:
            a, b, c = a.half(), b.half(), c.half()
        return smem.gemm(a, b.t(), bias=c, activation="relu", kernel=kernel)

    jobs: dict[str, tuple[Callable[[str], Tensor], Tensor]] = {
        "gemm": (gemm, F.linear(x, weight, bias).relu()),
        "transpose": (lambda kernel: smem.transpose(x32, kernel=kernel), x.t()),
        "sum": (lambda kernel: smem.sum(x32, 1, kernel=kernel), x.sum(1)),
    }
    checks = [
        _check(device, op, kernel, call, reference)
        for op, (call, reference) in jobs.items()
        for kernel in ["auto", *(info.name for info in kernels(op))]
    ]
    linear_gradient = _weight_gradient(F.linear, x, weight, bias)
    return [
        *checks,
        _check(
            device,
            "linear and its gradient",
            "auto",
            lambda kernel: _weight_gradient(smem.linear, x32, weight32, bias32),
            linear_gradient,
        ),
    ]


def _weight_gradient(
    linear: Callable[[Tensor, Tensor, Tensor], Tensor], x: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Of the squared results, so that the forward pass has a part in it: ``(N, K)``."""
    leaf = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(linear(x, leaf, bias).square().sum(), leaf)
    return gradient


def _check(
    device: torch.device, op: str, kernel: str, call: Callable[[str], Tensor], reference: Tensor
) -> Check:
    try:
        answer = call(kernel)
        result = answer.double().cpu()
    except Exception as error:  # any error is shown to the user
        refused = str(error).startswith(f"smem.{op}: kernel ")
        status = "n/a" if refused and kernel != "auto" else "broken"
        text = str(error).splitlines() or [type(error).__name__]
        return Check(str(device), op, kernel, status, text[0])
    difference = (result - reference).abs().max().item()
    tolerance = 1e-2 if answer.dtype == torch.float16 else 1e-4
    if not difference <= tolerance * reference.abs().max().item():  # true for NaN too
        return Check(str(device), op, kernel, "broken", f"off by up to {difference:.3g}")
    return Check(str(device), op, kernel, "ok")
