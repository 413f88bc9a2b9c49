"""Matrix products of the mode: smem.gemm behind torch's operators."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.invariance.forms import Kernel, in_place, with_out
from torch_smem_gemm.ops._checks import GEMM_DTYPES, check_gemm
from torch_smem_gemm.ops._codes import ACTIVATIONS, AUTO, PRECISIONS, resolved
from torch_smem_gemm.ops._dispatch import recovery

_EXACT = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
_SERVED = frozenset(GEMM_DTYPES)
_WITHOUT_PRECISION = _SERVED - {torch.float32}  # torch's setting does not apply to these
# Of smem::_gemm's arguments after a and b.
_DEFAULTS: tuple[Any, ...] = (None, None, 1.0, 0.0, 0, 0, AUTO, None)


def _describe(a: Tensor, b: Tensor, *options: Any) -> tuple[list[int], torch.dtype]:
    bias, c, _, beta, _, _, _, out_dtype = options + _DEFAULTS[len(options) :]
    return check_gemm(a, b, bias, c, beta, out_dtype)


# The form below Autograd: torch differentiates these operators by its own formulas. Its kernel is
# called without another look at the dispatcher, which takes 0.5 us less.
_gemm = functools.partial(
    torch.library.get_kernel("smem::_gemm", "CUDA").call_boxed,
    torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA),
)
_recover = recovery(_gemm, _describe)


def gemm(
    op: str,
    a: Tensor,
    b: Tensor,
    *,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Return activation(alpha * a @ b + beta * c) without a gradient; ``op`` is for errors."""
    if a.dtype not in _SERVED:
        raise NotImplementedError(
            f"smem.batch_invariant: {op} has no batch-invariant kernel for {a.dtype}, expected one "
            f"of {', '.join(str(dtype) for dtype in GEMM_DTYPES)}"
        )
    bias = None
    if c is not None and _is_bias(c, b, beta):
        bias, c, beta = c, None, 0.0
    # Each argument takes time, so trailing defaults are left out.
    args: tuple[Any, ...] = (a, b) if bias is None else (a, b, bias)
    if (
        a.dtype == torch.float32
        or c is not None
        or alpha != 1
        or activation is not None
        or out_dtype is not None
    ):
        precision = resolved(PRECISIONS[None], a.dtype)
        options = (c, alpha, beta, ACTIVATIONS[activation], precision, AUTO, out_dtype)
        args = (a, b, bias, *options)
    return _call(args)


def _is_bias(c: Tensor, b: Tensor, beta: float) -> bool:
    return beta == c.dim() == 1 and c.shape[0] == b.shape[-1]


def _call(args: tuple[Any, ...]) -> Tensor:
    try:
        return _gemm(*args)
    except RuntimeError as error:
        return _recover(error, *args)


def _is_usual(dimensions: int, a: Tensor, b: Tensor, out_dtype: torch.dtype | None) -> bool:
    """Whether a and b go to gemm as they are. Such products take 1 us less."""
    is_one_batch = dimensions < 3 or a.shape[0] == b.shape[0]
    is_wanted = a.dim() == b.dim() == dimensions and is_one_batch
    return is_wanted and out_dtype is None and a.dtype in _WITHOUT_PRECISION


def _without_addend(op: str, dimensions: int) -> Kernel:
    def kernel(
        torchs: Kernel, a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None
    ) -> Tensor:
        if _is_usual(dimensions, a, b, out_dtype):
            return _call((a, b))
        if a.dtype in _EXACT:
            return torchs(a, b)
        _expect_dimensions(op, dimensions, a, b)
        return gemm(f"aten::{op}", a, b, out_dtype=_wider(a, out_dtype))

    return kernel


def _with_addend(op: str, dimensions: int, activation: bool = False) -> Kernel:
    def kernel(
        torchs: Kernel,
        c: Tensor,
        a: Tensor,
        b: Tensor,
        out_dtype: torch.dtype | None = None,
        *,
        beta: float = 1,
        alpha: float = 1,
        use_gelu: bool = False,
    ) -> Tensor:
        is_usual = alpha == 1 and not activation and _is_usual(dimensions, a, b, out_dtype)
        if is_usual and _is_bias(c, b, beta):
            return _call((a, b, c))
        if a.dtype in _EXACT:
            return torchs(c, a, b, beta=beta, alpha=alpha)
        _expect_dimensions(op, dimensions, a, b)
        return gemm(
            f"aten::{op}",
            a,
            b,
            c=c,
            alpha=alpha,
            beta=beta,
            activation=None if not activation else "gelu_tanh" if use_gelu else "relu",
            out_dtype=_wider(a, out_dtype),
        )

    return kernel


def _mv(torchs: Kernel, a: Tensor, x: Tensor) -> Tensor:
    if a.dtype in _EXACT:
        return torchs(a, x)
    _expect_dimensions("mv", 2, a)
    _expect_dimensions("mv", 1, x)
    return gemm("aten::mv", a, x.unsqueeze(1)).squeeze(1)


def _addmv(
    torchs: Kernel, c: Tensor, a: Tensor, x: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    if a.dtype in _EXACT:
        return torchs(c, a, x, beta=beta, alpha=alpha)
    _expect_dimensions("addmv", 2, a)
    _expect_dimensions("addmv", 1, x)
    column = c.reshape(-1, 1)
    return gemm("aten::addmv", a, x.unsqueeze(1), c=column, alpha=alpha, beta=beta).squeeze(1)


def _dot(torchs: Kernel, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype in _EXACT:
        return torchs(x, y)
    _expect_dimensions("dot", 1, x, y)
    return gemm("aten::dot", x.unsqueeze(0), y.unsqueeze(1)).reshape(())


def _no_kernel(op: str) -> Kernel:
    def kernel(torchs: Kernel, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"smem.batch_invariant: aten::{op} has no batch-invariant kernel")

    return kernel


def _wider(a: Tensor, out_dtype: torch.dtype | None) -> torch.dtype | None:
    return None if out_dtype == a.dtype else out_dtype


def _expect_dimensions(op: str, dimensions: int, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dim() != dimensions:
            raise RuntimeError(
                f"{op}: expected tensors of {dimensions} dimensions, got one of shape "
                f"{tuple(tensor.shape)}"
            )
    if dimensions == 3 and len({tensor.shape[0] for tensor in tensors}) > 1:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise RuntimeError(f"{op}: expected batches of one size, got tensors of shapes {shapes}")


_mm, _bmm = _without_addend("mm", 2), _without_addend("bmm", 3)
_addmm, _baddbmm = _with_addend("addmm", 2), _with_addend("baddbmm", 3)
_addmm_activation = _with_addend("_addmm_activation", 2, activation=True)

KERNELS: dict[str, Kernel] = {
    "mm": _mm,
    "mm.out": with_out(_mm),
    "mm.dtype": _mm,
    "mm.dtype_out": with_out(_mm),
    "bmm": _bmm,
    "bmm.out": with_out(_bmm),
    "bmm.dtype": _bmm,
    "bmm.dtype_out": with_out(_bmm),
    "addmm": _addmm,
    "addmm.out": with_out(_addmm),
    "addmm.dtype": _addmm,
    "addmm.dtype_out": with_out(_addmm),
    "addmm_": in_place(_addmm),
    "_addmm_activation": _addmm_activation,
    "_addmm_activation.out": with_out(_addmm_activation),
    "baddbmm": _baddbmm,
    "baddbmm.out": with_out(_baddbmm),
    "baddbmm.dtype": _baddbmm,
    "baddbmm.dtype_out": with_out(_baddbmm),
    "baddbmm_": in_place(_baddbmm),
    "mv": _mv,
    "mv.out": with_out(_mv),
    "addmv": _addmv,
    "addmv.out": with_out(_addmv),
    "addmv_": in_place(_addmv),
    "dot": _dot,
    "dot.out": with_out(_dot),
    "vdot": _dot,
    "vdot.out": with_out(_dot),
    **{op: _no_kernel(op) for op in ("_scaled_mm", "_scaled_mm.out", "_scaled_grouped_mm")},
}
