"""What the tests share: inputs, layouts, poisoned outputs, and when a result is accurate."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

import torch_smem_gemm as smem
from torch_smem_gemm.cli import main
from torch_smem_gemm.ops._schema import arguments_type

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
COMPLEX = (torch.complex64, torch.complex128)


def by_sweep(values: Iterable[Any], *kept: Any) -> list:
    """Parameters for all values; those that are not to be ``kept`` run with --sweep only."""
    return [pytest.param(x, marks=[] if x in kept else [pytest.mark.sweep]) for x in values]


# For the widest products: float16 goes bfloat16's way but for the conversions of single numbers,
# and the kernels that take float64 are those of float32 with another type.
FLOATS_BUT_TWO_BY_SWEEP = by_sweep(FLOATS, torch.float32, torch.bfloat16)
ACTIVATIONS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda z: z,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "silu": F.silu,
}
ACTIVATION_CODES = {name: code for code, name in enumerate(ACTIVATIONS)}
SMOOTH_ACTIVATIONS = ("gelu", "gelu_tanh", "silu")  # their derivative needs the pre-activation

# Those of the GPU's own source that the CPU runs, too; and those that tensor cores alone can run.
GEMMS = [row.name for row in smem.kernels("gemm") if row.on_cpu]
TENSOR_CORE_GEMMS = [row.name for row in smem.kernels("gemm") if not row.on_cpu]
TRANSPOSES = [row.name for row in smem.kernels("transpose")]
SUMS = [row.name for row in smem.kernels("sum")]
EVERY_KERNEL = [
    (op, name)
    for op, names in (("gemm", GEMMS), ("transpose", TRANSPOSES), ("sum", SUMS))
    for name in ["auto", *names]
] + [("linear", "auto")]

# For tests of one kernel of each op, and of auto.
CHOICES = {
    "auto": {"gemm": "auto", "transpose": "auto", "sum": "auto"},
    "named": {"gemm": GEMMS[2], "transpose": TRANSPOSES[-1], "sum": SUMS[-1]},
}


def short(value: object) -> str:
    """Return a test's id for a dtype, a shape, or a nest of them."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, tuple):
        if all(isinstance(item, int) for item in value):
            return "x".join(map(str, value)) or "()"
        return "-".join(map(short, value))
    return str(value)


every_float = pytest.mark.parametrize("dtype", FLOATS, ids=short)
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
linked_by_inductor = pytest.mark.skipif(
    " " in torch.__file__, reason="inductor does not quote torch's folder, which has a space here"
)


def floats_of(kernel: str) -> list[torch.dtype]:
    """The dtypes that a GEMM kernel takes in the default precision; auto takes all."""
    for row in smem.kernels("gemm"):
        if row.name == kernel:
            dtypes = set(row.dtypes) - ({"float32"} if row.float32_precision == "tf32" else set())
            return [dtype for dtype in FLOATS if short(dtype) in dtypes]
    return list(FLOATS)


# ---------------------------------------------------------------------------------------- inputs


def normal(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, dtype=dtype, device=device)


def small_integers(
    *shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu", limit: int = 4
) -> Tensor:
    """Integers from -limit to limit: short sums of their products are exact in every dtype."""
    return torch.randint(-limit, limit + 1, shape, device=device).to(dtype)


def any_bits(*shape: int, dtype: torch.dtype, device: str = "cpu") -> Tensor:
    """Random bits: every value of the dtype, NaNs of all payloads too."""
    if dtype == torch.bool:
        return torch.rand(shape, device=device) < 0.5
    width = torch.empty((), dtype=dtype).element_size()
    count = math.prod(shape) * width
    octets = torch.randint(0, 256, (count,), dtype=torch.uint8, device=device)
    return octets.view(dtype).reshape(shape)


def bits(x: Tensor) -> Tensor:
    """The bytes of a tensor's elements, in the order of its dimensions."""
    flat = x.clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says to arguments that it refuses; its exit status is 2."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 2
    return capsys.readouterr().err


def check_error_on_fake_tensors(op: str, call: Callable[..., tuple], device: str) -> None:
    """The op refuses the arguments of ``call(make)`` with the same text on fake tensors."""

    def error() -> str:
        given = call(lambda *s, **k: torch.zeros(s, device=device, **k))
        with pytest.raises(RuntimeError) as caught:
            getattr(torch.ops.smem, op)(*given)
        return str(caught.value)

    with FakeTensorMode():
        of_fake = error()
    assert error() == of_fake
    assert of_fake.startswith(f"smem.{op}: ")


def captured(run: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """The call as a graph, captured after it has run once; what it returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


def same_bits(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors agree in shape, dtype and every bit."""
    return x.shape == y.shape and x.dtype == y.dtype and torch.equal(bits(x), bits(y))


# --------------------------------------------------------------------- poisoned outputs, layouts


def poisoned(shape: Sequence[int], dtype: torch.dtype, device: str = "cpu") -> Tensor:
    """A tensor full of NaN, or of 113 (True) where there is no NaN."""
    poison = math.nan if dtype.is_floating_point or dtype.is_complex else 113
    return torch.full(tuple(shape), poison, device=device, dtype=dtype)


def _contiguous(shape: Sequence[int], buffer: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    whole = buffer(shape)
    return whole, whole


def _transposed(shape: Sequence[int], buffer: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    whole = buffer((*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else shape)
    return whole, whole.mT if len(shape) > 1 else whole


def _unaligned(shape: Sequence[int], buffer: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    whole = buffer((math.prod(shape) + 1,))
    return whole, whole[1:].view(tuple(shape))


def _unaligned_transposed(
    shape: Sequence[int], buffer: Callable[..., Tensor]
) -> tuple[Tensor, Tensor]:
    whole, view = _unaligned((*shape[:-2], shape[-1], shape[-2]), buffer)
    return whole, view.mT


def _step2(shape: Sequence[int], buffer: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    whole = buffer((*shape[:-1], 2 * shape[-1]))
    return whole, whole[..., ::2]


def _apart(shape: Sequence[int], buffer: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    whole = buffer((*shape[:-1], shape[-1] + 3))
    return whole, whole[..., 1 : 1 + shape[-1]]


_LAYOUTS = {
    "contiguous": _contiguous,
    "transposed": _transposed,
    "unaligned": _unaligned,
    "unaligned_transposed": _unaligned_transposed,
    "step2": _step2,
    "apart": _apart,
}
OUT_LAYOUTS = tuple(_LAYOUTS)
LAYOUTS = (*_LAYOUTS, "same_rows", "same_columns")


def laid_out(x: Tensor, layout: str) -> Tensor:
    """``x`` in another layout, with poison around it; "same_..." repeats its first row, column."""
    if layout == "same_rows":
        return x[..., :1, :].expand(x.shape)
    if layout == "same_columns":
        return x[..., :1].expand(x.shape)
    _, view = _LAYOUTS[layout](x.shape, lambda size: poisoned(size, x.dtype, x.device))
    return view.copy_(x)


def poisoned_out(
    shape: Sequence[int], dtype: torch.dtype, device: str, layout: str
) -> tuple[Tensor, Callable[[], None]]:
    """An ``out`` of that layout, and a check that nothing around it has been written."""
    whole, view = _LAYOUTS[layout](shape, lambda size: poisoned(size, dtype, device))
    return view, lambda: check_around(view, whole)


def check_around(view: Tensor, whole: Tensor) -> None:
    """Check that of a poisoned tensor nothing but the view has been written."""
    kept = view.clone()
    view.copy_(poisoned(view.shape, view.dtype, view.device.type))
    expected = poisoned(whole.shape, whole.dtype, whole.device.type)
    assert same_bits(whole, expected), "written outside of out"
    view.copy_(kept)


def check_rows_that_begin_anywhere(
    write: Callable[..., object],
    expected: Tensor,
    begins: Sequence[int] = (0, 1, 2, 4, 7),
    gaps: Sequence[int] = (0, 1, 6),
) -> None:
    """Check what is written to matrices whose rows begin at different elements of a storage.

    Args:
        write: writes the result into its argument ``out``, a matrix full of NaN.
        expected: the result, a matrix.
        begins: the first elements of the matrices in their storages.
        gaps: elements from a row's end to the next row.
    """
    rows, cols = expected.shape
    for begin, gap in itertools.product(begins, gaps):
        pitch = cols + gap
        whole = poisoned((begin + rows * pitch + 8,), expected.dtype, expected.device.type)
        out = whole.as_strided((rows, cols), (pitch, 1), begin)
        write(out=out)
        assert same_bits(out.contiguous(), expected), (rows, cols, begin, gap)
        check_around(out, whole)


# ------------------------------------------------------------------------------------- accuracy

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def _floats_to(inputs: Sequence[Any], dtype_of: Callable[[torch.dtype], torch.dtype]) -> list:
    return [
        x.to(dtype_of(x.dtype))
        if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())
        else x
        for x in inputs
    ]


def wide(*inputs: Any) -> list:
    """The inputs with floats as float64, complex numbers as complex128."""
    return _floats_to(inputs, lambda d: _WIDE.get(d, d if d == torch.complex128 else torch.float64))


def _errors(results: Sequence[Tensor], references: Sequence[Tensor]) -> tuple[float, float]:
    """Largest error and norm of the errors where the result should be finite."""
    errors = torch.cat(
        [
            (result.to(reference.dtype) - reference)[_finite(reference.to(result.dtype))].abs()
            for result, reference in zip(results, references, strict=True)
        ]
    ).double()
    return (errors.max().item(), errors.norm().item()) if len(errors) else (0.0, 0.0)


def _finite(x: Tensor) -> Tensor:
    return torch.isfinite(torch.view_as_real(x)).all(-1) if x.is_complex() else torch.isfinite(x)


def _only_finite(x: Tensor) -> Tensor:
    return x[_finite(x)]


def _ulp(scale: float, dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    return info.eps * max(2.0 ** (math.frexp(scale)[1] - 1), info.smallest_normal)


def assert_same_specials(result: Tensor, reference: Tensor) -> None:
    """Assert that NaN and Inf stand where the reference, rounded, has them, and nowhere else."""
    assert result.shape == reference.shape
    rounded = reference.to(result.dtype)
    special = ~_finite(rounded)
    assert torch.equal(special, ~_finite(result)), "NaN or Inf in the wrong place"
    torch.testing.assert_close(result[special], rounded[special], equal_nan=True)


def _slices(x: Tensor, dim: int) -> list[Tensor]:
    """Three summands of ``x``: 18 bits each, from the largest magnitude along ``dim`` down."""
    unit = torch.exp2(torch.frexp(x.abs().amax(dim, keepdim=True))[1].to(x))
    slices = []
    for _ in range(3):
        unit = unit * 2.0**-18
        slices.append(torch.where(unit > 0, (x / unit).round() * unit, x))
        x = x - slices[-1]
    return slices


def exact_matmul(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` in float64 with an error near its last bit (Ozaki's scheme).

    Products of 18-bit slices add up to 2^16 terms without rounding, in any order.
    """
    if a.shape[-1] == 0 or not (a.isfinite().all() and b.isfinite().all()):
        return torch.matmul(a, b)
    slices_a, slices_b = _slices(a, -1), _slices(b, -2)
    total = 0.0
    for order in (4, 3, 2, 1, 0):
        for i in range(max(0, order - 2), min(order, 2) + 1):
            total = total + torch.matmul(slices_a[i], slices_b[order - i])
    return total


class _ExactMatmul(torch.autograd.Function):
    """``exact_matmul`` with exact gradients: rounding has none of its own."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return exact_matmul(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return (
            exact_matmul(grad, b.mT).sum_to_size(a.shape),
            exact_matmul(a.mT, grad).sum_to_size(b.shape),
        )


class ExactMatmul(TorchFunctionMode):
    """Within it, products of float64 matrices are exact: torch's own would be no reference."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.__matmul__):
            a, b = args
            if a.dtype == torch.float64 and min(a.dim(), b.dim()) >= 1:
                row, column = a.dim() == 1, b.dim() == 1
                y = _ExactMatmul.apply(a[None] if row else a, b[:, None] if column else b)
                y = y.squeeze(-1) if column else y
                return y.squeeze(-1 if column else -2) if row else y
        return func(*args, **(kwargs or {}))


def assert_accurate(
    function: Callable[..., Tensor], *runs: tuple[Tensor, Sequence[Any]], times: float = 2
) -> None:
    """Judge results against ``function``, torch's way to compute them.

    Each run is ``(result, inputs)``; a result of few elements needs several runs, for torch may
    have been lucky with one. ``function`` of the inputs in float64 is the reference. The largest
    error and the norm of all errors may be ``times`` what torch's own are on the same inputs, plus
    one ulp of the largest element. NaN and Inf must stand where the reference, rounded, has them.
    """
    results = [result for result, _ in runs]
    with ExactMatmul():
        references = [function(*wide(*inputs)) for _, inputs in runs]
    dtype = results[0].dtype
    for result, reference in zip(results, references, strict=True):
        assert_same_specials(result, reference)

    own = _errors([function(*inputs) for _, inputs in runs], references)
    if dtype in _NARROW:
        # What is not a product has no better reference than torch's own result: float32's error on
        # the same numbers stands for torch's.
        narrow = [_floats_to(inputs, lambda d: _NARROW.get(d, d)) for _, inputs in runs]
        narrow_references = [function(*wide(*inputs)) for inputs in narrow]
        stand_in = _errors([function(*inputs) for inputs in narrow], narrow_references)
        own = tuple(max(real, 2.0**-29 * other) for real, other in zip(own, stand_in, strict=True))

    scale = max(
        (x.abs().max().item() for x in map(_only_finite, references) if len(x)), default=0.0
    )
    allowance = _ulp(scale, dtype)
    largest, norm = _errors(results, references)
    own_largest, own_norm = own
    assert largest <= times * own_largest + allowance, (
        f"largest error {largest:.3g}, torch's {own_largest:.3g}, an ulp {allowance:.3g}"
    )
    assert norm <= times * own_norm + allowance, (
        f"norm of the errors {norm:.3g}, torch's {own_norm:.3g}, an ulp {allowance:.3g}"
    )


def runs_needed(outputs: int) -> int:
    """How many runs give ``assert_accurate`` enough elements to judge by."""
    return min(24, math.ceil(256 / outputs)) if outputs else 1


class Clock:
    """Stands in for the module ``time``: it moves on when a call says so."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


# ------------------------------------------------------------------------- torch's own way, calls


def torch_gemm(*args: Any, **options: Any) -> Tensor:
    """What ``smem.gemm`` means, in torch's operations.

    The arguments are those of ``torch.ops.smem.gemm``, with the activation by name.
    """
    given = arguments_type("gemm")(*args, **options)
    z = given.alpha * torch.matmul(given.a, given.b)
    if given.beta != 0:
        z = z + given.beta * given.c
    if given.bias is not None:
        z = z + given.bias
    return ACTIVATIONS[given.activation or None](z)


class Call:
    """A call of an op with a kernel on inputs that hold exact numbers, for tests of all kernels."""

    def __init__(self, op: str, kernel: str, device: str = "cpu") -> None:
        self.op, self.kernel = op, kernel
        if op == "gemm":
            takes_float32 = torch.float32 in floats_of(kernel)
            dtype = torch.float32 if takes_float32 else torch.bfloat16
            shapes = (40, 33), (33, 50), (50,)
            self.inputs = [small_integers(*s, dtype=dtype, device=device) for s in shapes]
        elif op == "linear":
            self.inputs = [small_integers(*s, device=device) for s in ((40, 33), (50, 33), (50,))]
        else:
            self.inputs = [small_integers(70, 45, device=device)]

    def refill(self) -> None:
        """Put other numbers into the same inputs."""
        for x in self.inputs:
            x.copy_(small_integers(*x.shape, device=str(x.device)))

    def run(self, out: Tensor | None = None) -> Tensor:
        """Call the op."""
        if self.op == "gemm":
            a, b, bias = self.inputs
            return smem.gemm(a, b, bias=bias, kernel=self.kernel, out=out)
        if self.op == "linear":
            if out is None:
                return smem.linear(*self.inputs)
            torch.ops.smem.linear.out(*self.inputs, out=out)
            return out
        if self.op == "transpose":
            return smem.transpose(*self.inputs, kernel=self.kernel, out=out)
        return smem.sum(*self.inputs, 1, kernel=self.kernel, out=out)

    def expected(self) -> Tensor:
        """The exact result, by torch on the CPU in float64, in the dtype of the inputs."""
        inputs = [x.double().cpu() for x in self.inputs]
        if self.op == "gemm":
            result = inputs[0] @ inputs[1] + inputs[2]
        elif self.op == "linear":
            result = F.linear(*inputs)
        else:
            result = inputs[0].mT if self.op == "transpose" else inputs[0].sum(1)
        return result.to(self.inputs[0])


def break_kernel(
    monkeypatch: pytest.MonkeyPatch, op: str, kernel: str, fault: Callable[[Tensor], object]
) -> None:
    """Let ``kernel`` of ``op`` return what ``fault`` makes of the right result, in place."""
    original = getattr(smem, op)

    def broken(*args: Any, kernel: str = "auto", **kwargs: Any) -> Tensor:
        result = original(*args, kernel=kernel, **kwargs)
        if kernel == faulty:
            fault(result)
        return result

    faulty = kernel
    monkeypatch.setattr(smem, op, broken)
