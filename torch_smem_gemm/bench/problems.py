"""One problem of an op: its inputs, its floors, how to run it, and how to check a result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.shapes import GemmShape, Shape, SumShape, TransposeShape
from torch_smem_gemm.ops._codes import activation_code, precision_code

# Multiply-adds in float64 that a check of a GEMM may take, by type of device. At least one row is
# checked, and every row if they fit.
CHECKED_PRODUCTS = {"cuda": 1 << 36, "cpu": 1 << 31}
MAX_INPUT_SETS = 256
TF32_EPS = 2.0**-10

Inputs = tuple[Tensor, ...]
Function = Callable[..., object]  # of the inputs
# inputs, result -> what was checked of the result, the reference there, the largest error allowed
Judged = tuple[Tensor, Tensor, Tensor]
Judge = Callable[[Inputs, Tensor], Judged]


@dataclass(frozen=True)
class Problem:
    """A problem that our kernels and the peers compute from the same inputs."""

    op: str
    shape: Shape
    dtype: torch.dtype
    arithmetic: str  # the dtype's name, or "tf32": of products where torch allowed that
    least_bytes: int  # read and written by one call if every number moves once
    operations: int  # multiplications and additions of one call
    inputs: list[Inputs]  # more than one set where one would stay in the L2 cache
    out: Tensor
    _ours: Callable[..., object]  # (*inputs, kernel=, out=)
    _judge: Judge

    def bind(self, function: Function) -> Callable[[], object]:
        """A call of ``function(*inputs)`` that takes the next set of inputs each time."""
        sets = itertools.cycle(self.inputs)
        return lambda: function(*next(sets))

    def ours(self, kernel: str = "auto", out: Tensor | None = None) -> Function:
        """This package's op: a function of the inputs that returns a new tensor, or ``out``."""
        return lambda *inputs: self._ours(*inputs, kernel=kernel, out=out)

    def poison(self) -> None:
        """Fill ``out`` with a value that no result has; ``check`` then finds unwritten elements."""
        self.out.fill_(math.nan if self.dtype.is_floating_point else 99)

    def check(self, result: object) -> str | None:
        """Return the error of the result for the first set of inputs; None if it is correct.

        Every element must be a finite number. A large GEMM is compared with float64 in a random
        sample of its rows, at least one out of every few neighbours.
        """
        if not isinstance(result, Tensor):
            return f"a {type(result).__name__} instead of a tensor"
        if result.shape != self.out.shape or result.dtype != self.out.dtype:
            return (
                f"{result.dtype} of shape {tuple(result.shape)}, "
                f"expected {self.out.dtype} of {tuple(self.out.shape)}"
            )
        broken = result.numel() - int(result.isfinite().sum())
        if broken:
            return f"{broken} of {result.numel()} elements are NaN or infinite"
        checked, reference, tolerance = self._judge(self.inputs[0], result)
        difference = (checked.double() - reference).abs()
        if bool((difference <= tolerance).all()):
            return None
        return f"off by up to {difference.max().item():.3g}"


def make_problem(
    op: str, shape: Shape, dtype: torch.dtype, device: torch.device, seed: int = 0
) -> Problem:
    """The problem of ``shape`` with random inputs, the same for the same seed.

    Args:
        op: "gemm", "linear" (with bias), "transpose" or "sum".
        shape: of that op; the layout of a linear problem is always nt.
        dtype: a floating-point type, whose inputs are normally distributed; for transpose and sum
            also an integer type, whose inputs are 0 to 9.
        device: the device of the inputs.
        seed: of the inputs.
    """
    generator = torch.Generator(device).manual_seed(seed)

    def random(*sizes: int) -> Tensor:
        if dtype.is_floating_point:
            return torch.randn(*sizes, dtype=dtype, device=device, generator=generator)
        return torch.randint(10, sizes, dtype=dtype, device=device, generator=generator)

    if op == "gemm" and isinstance(shape, GemmShape) and shape.activation is None:
        return _gemm(shape, random)
    if op == "linear" and isinstance(shape, GemmShape) and shape.batch == 1:
        return _linear(shape, random)
    if op == "transpose" and isinstance(shape, TransposeShape):
        return _transpose(shape, random)
    if op == "sum" and isinstance(shape, SumShape):
        return _sum(shape, random)
    raise ValueError(f"bench: {op} does not take the problem {shape!r}")


def activated(x: Tensor, activation: str | None) -> Tensor:
    """``x`` after torch's activation of that name, or ``x`` itself."""
    if activation is None:
        return x
    if activation == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    functions: dict[str, Function] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
    result = functions[activation](x)
    assert isinstance(result, Tensor)
    return result


def input_sets(bytes_each: int, l2_bytes: int) -> int:
    """Return how many sets of inputs are needed so that none is in the L2 cache when reused."""
    if bytes_each > l2_bytes:
        return 1
    return min(MAX_INPUT_SETS, 1 + math.ceil(l2_bytes / bytes_each))


def sampled_rows(rows: int, wanted: int, seed: int = 0) -> Tensor:
    """One random row out of each of at most ``wanted`` even parts of ``range(rows)``."""
    if wanted >= rows:
        return torch.arange(rows)
    part = math.ceil(rows / max(1, wanted))
    starts = torch.arange(0, rows, part)
    offsets = torch.randint(part, starts.shape, generator=torch.Generator().manual_seed(seed))
    return (starts + offsets).clamp_(max=rows - 1)


def _gemm(shape: GemmShape, random: Callable[..., Tensor]) -> Problem:
    batch = (shape.batch,) if shape.batch > 1 else ()

    def operand(rows: int, columns: int, layout: str) -> Tensor:
        if layout == "t":
            return operand(columns, rows, "n").mT
        return random(*batch, rows, columns + shape.gap)[..., :columns]

    def inputs() -> Inputs:
        a = operand(shape.m, shape.k, shape.layout[0])
        return a, operand(shape.k, shape.n, shape.layout[1])

    def judge(inputs: Inputs, result: Tensor) -> Judged:
        a, b = inputs
        return _judge_product(a, b, result)

    operations = 2 * shape.batch * shape.m * shape.n * shape.k
    out_sizes = (*batch, shape.m, shape.n)
    return _problem("gemm", shape, operations, inputs, out_sizes, smem.gemm, judge)


def _linear(shape: GemmShape, random: Callable[..., Tensor]) -> Problem:
    def inputs() -> Inputs:
        return random(shape.m, shape.k), random(shape.n, shape.k), random(shape.n)

    def ours(x: Tensor, weight: Tensor, bias: Tensor, kernel: str, out: Tensor | None) -> Tensor:
        if out is None:
            return smem.linear(x, weight, bias, activation=shape.activation)
        codes = activation_code("linear", shape.activation), precision_code("linear", None)
        torch.ops.smem.linear.out(x, weight, bias, *codes, out=out)
        return out

    def judge(inputs: Inputs, result: Tensor) -> Judged:
        x, weight, bias = inputs
        return _judge_product(x, weight.mT, result, bias, shape.activation)

    operations = 2 * shape.m * shape.n * shape.k + shape.m * shape.n
    return _problem("linear", shape, operations, inputs, (shape.m, shape.n), ours, judge)


def _transpose(shape: TransposeShape, random: Callable[..., Tensor]) -> Problem:
    dims = shape.dims or (-2, -1)

    def judge(inputs: Inputs, result: Tensor) -> Judged:
        exact = inputs[0].transpose(*dims)
        return result, exact, exact.new_zeros(())

    def ours(x: Tensor, kernel: str, out: Tensor | None) -> Tensor:
        return smem.transpose(x, *dims, kernel=kernel, out=out)

    sizes = [*shape.sizes]
    sizes[dims[0]], sizes[dims[1]] = sizes[dims[1]], sizes[dims[0]]
    return _problem("transpose", shape, 0, lambda: (_stored(shape, random),), sizes, ours, judge)


def _sum(shape: SumShape, random: Callable[..., Tensor]) -> Problem:
    dims = range(len(shape.sizes)) if shape.dims is None else shape.dims
    count = math.prod(shape.sizes[d] for d in dims)

    def judge(inputs: Inputs, result: Tensor) -> Judged:
        reference = torch.sum(inputs[0], shape.dims, dtype=torch.float64)
        if not result.dtype.is_floating_point:
            return result, reference, reference.new_zeros(())
        # The partial sums of n normal numbers reach sqrt(n), and each addition rounds one of them.
        walk = 32 * _sum_eps(result.dtype) * math.sqrt(count)
        return result, reference, walk + _rounding(reference, result.dtype)

    def ours(x: Tensor, kernel: str, out: Tensor | None) -> Tensor:
        return smem.sum(x, shape.dims, kernel=kernel, out=out)

    left = [size for d, size in enumerate(shape.sizes) if d not in dims]
    operations = math.prod(shape.sizes) - math.prod(left)
    return _problem("sum", shape, operations, lambda: (_stored(shape, random),), left, ours, judge)


def _stored(shape: TransposeShape | SumShape, random: Callable[..., Tensor]) -> Tensor:
    """Return a tensor of the shape's sizes whose dimensions are in its order in memory."""
    order = shape.order or tuple(range(len(shape.sizes)))
    stored = random(*(shape.sizes[d] for d in order))
    return stored.permute(*(order.index(d) for d in range(len(order))))


def _problem(
    op: str,
    shape: Shape,
    operations: int,
    make_inputs: Callable[[], Inputs],
    out_sizes: Sequence[int],
    ours: Callable[..., object],
    judge: Judge,
) -> Problem:
    first = make_inputs()
    device, dtype = first[0].device, first[0].dtype
    is_product = op in ("gemm", "linear")
    out_dtype = torch.int64 if op == "sum" and not dtype.is_floating_point else dtype
    out = torch.empty(out_sizes, dtype=out_dtype, device=device)
    on_gpu = device.type == "cuda"
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size if on_gpu else 0
    bytes_each = sum(tensor.nbytes for tensor in first)  # not those between rows
    more = (make_inputs() for _ in range(input_sets(bytes_each, l2_bytes) - 1))
    return Problem(
        op=op,
        shape=shape,
        dtype=dtype,
        arithmetic="tf32" if is_product and _is_tf32(first[0]) else str(dtype).split(".")[1],
        least_bytes=bytes_each + out.nbytes,
        operations=operations,
        inputs=[first, *more],
        out=out,
        _ours=ours,
        _judge=judge,
    )


def _judge_product(
    a: Tensor,
    b: Tensor,
    result: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
) -> Judged:
    """Return the checked part of ``result``, its float64 reference, and the allowed error."""
    k = a.size(-1)
    wanted = CHECKED_PRODUCTS[a.device.type] // (b.numel() or 1)
    rows = sampled_rows(a.size(-2), wanted).to(a.device)
    wide_a, wide_b = a.index_select(-2, rows).double(), b.double()
    reference = wide_a @ wide_b
    # Rounding errors along K add up like a random walk. One product left out weighs about 1/K of
    # |a| @ |b|, which is far more.
    tolerance = math.sqrt(k) * _sum_eps(a.dtype) * (wide_a.abs() @ wide_b.abs())
    tolerance += _rounding(reference, a.dtype)
    if a.element_size() == 2:
        # By default torch lets cuBLAS split K and round each partial sum to the dtype. A part is as
        # large as the sum's standard deviation; in 1e6 elements some are off by 3 eps of that.
        tolerance += 4 * _eps(a.dtype) * (wide_a.square() @ wide_b.square()).sqrt()
    if _is_tf32(a):
        # A product of two rounded factors is off by up to eps, their sum by a random walk of that.
        tolerance += 4 * TF32_EPS * (wide_a.square() @ wide_b.square()).sqrt()
    # ATen may round the product before it adds the bias, and the sum before the activation.
    if bias is not None:
        reference = reference + bias.double()
        tolerance += _rounding(reference, a.dtype)
    if activation is not None:
        reference = activated(reference, activation)
        # No activation here is steeper than 1.13. Half an ulp of 1: their own arithmetic.
        tolerance = 1.13 * tolerance + _eps(a.dtype) * (reference.abs() + 0.5)
    return result.index_select(-2, rows), reference, tolerance


def _is_tf32(a: Tensor) -> bool:
    """Whether torch's setting rounds the factors of such products, ours and its own, to tf32."""
    allowed = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return allowed and a.dtype == torch.float32 and a.is_cuda


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _rounding(reference: Tensor, dtype: torch.dtype) -> Tensor:
    """Return how far the nearest numbers of ``dtype`` are apart at most, subnormal ones too."""
    return _eps(dtype) * reference.abs().clamp_min(torch.finfo(dtype).tiny)


def _sum_eps(dtype: torch.dtype) -> float:
    """Of the type that sums of ``dtype`` are held in."""
    return _eps(torch.float64 if dtype == torch.float64 else torch.float32)
