"""The ops' checks, for fake tensors and for the CPU path by ATen.

csrc/bindings/ makes the same checks for the kernels, in the same order and with the same texts. The
tests compare the texts for the same bad inputs.
"""

from collections.abc import Sequence, Sized

import torch
from torch import Tensor

from torch_smem_gemm.ops._codes import ACTIVATIONS, PRECISIONS

GEMM_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool))
_COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))
SUM_DTYPES = frozenset(GEMM_DTYPES) | _INTEGERS | _COMPLEX


def shape_text(shape: Sequence[int]) -> str:
    """Return "2x3x4", or "scalar"."""
    return "x".join(str(size) for size in shape) or "scalar"


def dtype_text(dtype: torch.dtype) -> str:
    """Return "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def _fail(op: str, message: str) -> None:
    raise RuntimeError(f"smem.{op}: {message}")


def _check_gemm_dtype(op: str, name: str, tensor: Tensor) -> None:
    if tensor.dtype not in GEMM_DTYPES:
        _fail(
            op,
            f"{name} has dtype {dtype_text(tensor.dtype)}, "
            "expected float64, float32, float16 or bfloat16",
        )


def _check_like(op: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    if tensor.dtype != like.dtype:
        _fail(
            op,
            f"{name} has dtype {dtype_text(tensor.dtype)}, "
            f"expected {dtype_text(like.dtype)} as {like_name} has",
        )
    _check_device(op, name, tensor, like_name, like)


def _check_device(op: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    if tensor.device != like.device:
        _fail(op, f"{name} is on {tensor.device}, expected {like.device} where {like_name} is")


def _check_bias(op: str, bias: Tensor | None, n: int, like_name: str, like: Tensor) -> None:
    if bias is None:
        return
    _check_like(op, "bias", bias, like_name, like)
    if bias.dim() != 1 or bias.shape[0] != n:
        _fail(
            op, f"bias is {shape_text(bias.shape)}, expected {n}, an element a column of the result"
        )


def _check_out_dtype(
    op: str, out_dtype: torch.dtype | None, like_name: str, like: Tensor
) -> torch.dtype:
    """Return the result's dtype as torch.mm does: the inputs', or float32 for 16-bit inputs."""
    dtype = like.dtype
    if out_dtype is None or out_dtype == dtype:
        return dtype
    widens = dtype in (torch.float16, torch.bfloat16)
    if not (widens and out_dtype == torch.float32):
        _fail(
            op,
            f"out_dtype is {dtype_text(out_dtype)}, expected {dtype_text(dtype)} as {like_name} "
            f"has{', or float32' if widens else ''}",
        )
    return out_dtype


def _check_c_dtype(c: Tensor, a: Tensor, result: torch.dtype) -> None:
    if c.dtype not in (a.dtype, result):
        _fail(
            "gemm",
            f"c has dtype {dtype_text(c.dtype)}, expected {dtype_text(a.dtype)} as a has"
            + ("" if a.dtype == result else ", or float32 as out_dtype is"),
        )


def check_out(
    op: str, out: Tensor, shape: Sequence[int], dtype: torch.dtype, device: torch.device
) -> None:
    """Raise RuntimeError unless ``out`` has that shape, dtype and device and is not expanded."""
    if tuple(out.shape) != tuple(shape):
        _fail(op, f"out is {shape_text(out.shape)}, expected {shape_text(shape)}")
    if out.dtype != dtype:
        _fail(op, f"out has dtype {dtype_text(out.dtype)}, expected {dtype_text(dtype)}")
    if out.device != device:
        _fail(op, f"out is on {out.device}, expected {device}")
    if any(size > 1 and step == 0 for size, step in zip(out.shape, out.stride(), strict=True)):
        _fail(op, "out is expanded: several of its elements share memory")


def _broadcast_batch(a: Tensor, b: Tensor) -> list[int]:
    dims = max(a.dim(), b.dim())
    batch = []
    for d in range(dims - 2):
        size_a = a.shape[d - dims + a.dim()] if d >= dims - a.dim() else 1
        size_b = b.shape[d - dims + b.dim()] if d >= dims - b.dim() else 1
        if size_a != size_b and size_a != 1 and size_b != 1:
            _fail(
                "gemm",
                f"a is {shape_text(a.shape)} and b is {shape_text(b.shape)}: "
                f"batch sizes {size_a} and {size_b} do not broadcast",
            )
        batch.append(size_b if size_a == 1 else size_a)
    return batch


def check_codes(op: str, activation: int, precision: int) -> None:
    """Raise RuntimeError unless both are codes of an activation and of a precision."""
    _check_code(op, "activation", activation, ACTIVATIONS)
    _check_code(op, "precision", precision, PRECISIONS)


def _check_code(op: str, name: str, code: int, codes: Sized) -> None:
    if not 0 <= code < len(codes):
        _fail(op, f"{name} {code} is unknown, expected 0 to {len(codes) - 1}")


def check_gemm(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    c: Tensor | None,
    beta: float,
    out_dtype: torch.dtype | None = None,
) -> tuple[list[int], torch.dtype]:
    """Check the arguments of gemm and return the result's shape and dtype."""
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() < 2:
            _fail(
                "gemm",
                f"{name} is {shape_text(tensor.shape)}, expected a matrix or a batch of matrices",
            )
    _check_gemm_dtype("gemm", "a", a)
    _check_like("gemm", "b", b, "a", a)
    if a.shape[-1] != b.shape[-2]:
        _fail(
            "gemm",
            f"a is {shape_text(a.shape)} and b is {shape_text(b.shape)}: "
            f"inner sizes {a.shape[-1]} and {b.shape[-2]} differ",
        )
    dtype = _check_out_dtype("gemm", out_dtype, "a", a)
    shape = [*_broadcast_batch(a, b), a.shape[-2], b.shape[-1]]
    _check_bias("gemm", bias, shape[-1], "a", a)
    if beta != 0 and c is None:
        _fail("gemm", "beta is not 0, expected c")
    if c is not None:
        _check_c_dtype(c, a, dtype)
        _check_device("gemm", "c", c, "a", a)
        sizes = list(c.shape)
        tail = shape[len(shape) - len(sizes) :]
        if len(sizes) > len(shape) or any(
            have not in (1, want) for have, want in zip(sizes, tail, strict=True)
        ):
            _fail(
                "gemm",
                f"c is {shape_text(sizes)}, which does not broadcast to the result's "
                f"{shape_text(shape)}",
            )
    return shape, dtype


def check_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None = None
) -> tuple[list[int], torch.dtype]:
    """Check the arguments of linear and return the result's shape and dtype."""
    if x.dim() < 1:
        _fail("linear", "x is scalar, expected at least 1 dimension")
    if weight.dim() != 2:
        _fail(
            "linear", f"weight is {shape_text(weight.shape)}, expected out_features x in_features"
        )
    _check_gemm_dtype("linear", "x", x)
    _check_like("linear", "weight", weight, "x", x)
    if x.shape[-1] != weight.shape[1]:
        _fail(
            "linear",
            f"x is {shape_text(x.shape)} and weight is {shape_text(weight.shape)}: "
            f"in_features {x.shape[-1]} and {weight.shape[1]} differ",
        )
    dtype = _check_out_dtype("linear", out_dtype, "x", x)
    _check_bias("linear", bias, weight.shape[0], "x", x)
    return [*x.shape[:-1], weight.shape[0]], dtype


def check_activation_backward(grad: Tensor, z: Tensor, activation: int) -> None:
    """Check the arguments of _activation_backward."""
    op = "_activation_backward"
    _check_code(op, "activation", activation, ACTIVATIONS)
    if z.dim() < 1:
        _fail(op, "z is scalar, expected a dimension")
    _check_gemm_dtype(op, "z", z)
    _check_like(op, "grad", grad, "z", z)
    if grad.shape != z.shape:
        _fail(op, f"grad is {shape_text(grad.shape)}, expected {shape_text(z.shape)} as z is")


def check_split(x: Tensor, part_length: int) -> None:
    """Check the arguments of _split."""
    if x.dim() < 2:
        _fail("_split", f"x is {shape_text(x.shape)}, expected at least 2 dimensions")
    if x.dtype != torch.float32:
        _fail("_split", f"x has dtype {dtype_text(x.dtype)}, expected float32")
    if part_length < 0 or part_length % 32:
        _fail("_split", f"part_length is {part_length}, expected a multiple of 32")


def check_weight(op: str, weight: Tensor) -> None:
    """Raise RuntimeError unless ``weight`` is one that can be split."""
    if weight.dim() != 2:
        _fail(op, f"weight is {shape_text(weight.shape)}, expected out_features x in_features")
    if weight.dtype != torch.float32:
        _fail(op, f"weight has dtype {dtype_text(weight.dtype)}, expected float32")


def check_weight_split(split: Tensor, weight: Tensor, expected_bytes: int) -> None:
    """Raise RuntimeError unless ``split`` can be the split of ``weight``."""
    op = "_linear_split"
    check_weight(op, weight)
    _check_device(op, "split", split, "weight", weight)
    is_bytes = split.dtype == torch.uint8 and split.shape == (expected_bytes,)
    if not is_bytes or split.stride() != (1,):
        _fail(
            op,
            f"split is {shape_text(split.shape)} of {dtype_text(split.dtype)}, expected "
            f"{expected_bytes} of uint8, contiguous, as the weight is {shape_text(weight.shape)}",
        )


def check_transpose(x: Tensor, dim0: int, dim1: int) -> list[int]:
    """Check the arguments of transpose and return the result's shape."""
    limit = max(x.dim(), 1)
    for name, dim in (("dim0", dim0), ("dim1", dim1)):
        if not -limit <= dim < limit:
            _fail("transpose", f"{name} is {dim}, expected {-limit} to {limit - 1}")
    if x.element_size() not in (1, 2, 4, 8, 16):
        _fail(
            "transpose",
            f"x has elements of {x.element_size()} bytes, expected 1, 2, 4, 8 or 16",
        )
    shape = list(x.shape)
    if shape:
        shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    return shape


def reduction_dtype(op: str, x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Return the result's dtype: torch.sum converts integers and bool to int64 by default."""
    if dtype is not None:
        return dtype
    return torch.int64 if op == "sum" and x.dtype in _INTEGERS else x.dtype


def reduced_dims(op: str, x: Tensor, dim: Sequence[int] | None) -> list[int]:
    """Check ``dim`` and return the dimensions to reduce, from 0 on; None and () mean all."""
    limit = max(x.dim(), 1)
    wrapped: list[int] = []
    for d in dim or ():
        if not -limit <= d < limit:
            _fail(op, f"dim holds {d}, expected {-limit} to {limit - 1}")
        d %= limit
        if d in wrapped:
            _fail(op, f"dim holds dimension {d} more than once")
        wrapped.append(d)
    return [d for d in wrapped if d < x.dim()] if dim else list(range(x.dim()))


def check_reduction(
    op: str, x: Tensor, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None = None
) -> list[int]:
    """Check the arguments of sum, mean, amax or amin and return the result's shape."""
    adds = op in ("sum", "mean")
    for subject, given in (("x has dtype", x.dtype), ("dtype is", dtype)):
        if given is not None and given not in (SUM_DTYPES if adds else SUM_DTYPES - _COMPLEX):
            _fail(
                op,
                f"{subject} {dtype_text(given)}, expected a float, {'complex, ' if adds else ''}"
                f"bool, uint8 or signed integer dtype of torch.{op}",
            )
    if op == "mean" and (dtype or x.dtype) in _INTEGERS:
        if dtype:
            _fail(op, f"dtype is {dtype_text(dtype)}, expected a float or complex dtype")
        _fail(
            op,
            f"x has dtype {dtype_text(x.dtype)}, expected a float or complex dtype, "
            "or one as dtype",
        )
    reduced = reduced_dims(op, x, dim)
    for d, size in enumerate(x.shape):
        if not adds and d in reduced and size == 0:
            _fail(
                op,
                f"x is {shape_text(x.shape)}, expected elements along dimension {d}, "
                "which is reduced",
            )
    kept = [(1 if d in reduced else size) for d, size in enumerate(x.shape)]
    return kept if keepdim else [size for d, size in enumerate(x.shape) if d not in reduced]
