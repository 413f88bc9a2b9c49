"""``out_dtype``: the float32 sums of 16-bit products, stored as they are."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import (
    ACTIVATIONS,
    CHOICES,
    GEMMS,
    OUT_LAYOUTS,
    TENSOR_CORE_GEMMS,
    assert_accurate,
    by_sweep,
    laid_out,
    linked_by_inductor,
    normal,
    poisoned_out,
    same_bits,
    short,
    small_integers,
    torch_gemm,
)
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import chip

FLOAT = torch.float32
OPS = torch.ops.smem
NARROW = (torch.float16, torch.bfloat16)
every_narrow = pytest.mark.parametrize("dtype", NARROW, ids=short)
# For the widest products.
bfloat16_by_default = pytest.mark.parametrize("dtype", by_sweep(NARROW, torch.bfloat16), ids=short)
every_kernel = pytest.mark.parametrize("kernel", ["auto", *GEMMS, *TENSOR_CORE_GEMMS])
every_choice = pytest.mark.parametrize("choice", CHOICES)


def widened(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` of the same numbers in float32 at least."""

    def call(*inputs: Any) -> Tensor:
        return function(
            *(x.float() if isinstance(x, Tensor) and x.dtype in NARROW else x for x in inputs)
        )

    return call


@bfloat16_by_default
@every_kernel
@pytest.mark.parametrize("c_dtype", ["input", "result"])
def test_sums_are_not_rounded(kernel: str, dtype: torch.dtype, c_dtype: str, device: str) -> None:
    c_type = dtype if c_dtype == "input" else FLOAT
    for m, k, n in ((33, 65, 127), (128, 24, 136)):  # by elements, and by wide stores
        a, b, bias = (normal(*s, dtype=dtype, device=device) for s in ((m, k), (k, n), (n,)))
        c = normal(m, n, dtype=c_type, device=device)
        for activation in ACTIVATIONS:

            def torchs(
                a: Tensor, b: Tensor, bias: Tensor, c: Tensor, f: str | None = activation
            ) -> Tensor:
                return torch_gemm(a, b, bias, c, 0.5, -2.0, f)

            result = smem.gemm(
                *(a, b),
                bias=bias,
                c=c,
                alpha=0.5,
                beta=-2.0,
                activation=activation,
                out_dtype=FLOAT,
                kernel=kernel,
            )
            assert result.dtype == FLOAT
            assert_accurate(widened(torchs), (result, (a, b, bias, c)))


@bfloat16_by_default
@pytest.mark.parametrize("kernel", GEMMS)
@pytest.mark.parametrize("layout", OUT_LAYOUTS)
def test_rounded_they_are_the_usual_result(
    kernel: str, dtype: torch.dtype, layout: str, device: str
) -> None:
    """Into any ``out``, from any batch."""
    a, b = (normal(*s, dtype=dtype, device=device) for s in ((3, 40, 33), (33, 72)))
    c = normal(3, 40, 72, device=device)
    out, check_gaps = poisoned_out((3, 40, 72), FLOAT, device, layout)
    assert smem.gemm(a, b, out_dtype=FLOAT, kernel=kernel, out=out) is out
    check_gaps()
    assert same_bits(out.to(dtype), smem.gemm(a, b, kernel=kernel))
    added = smem.gemm(a, b, c=laid_out(c, layout), beta=1.0, out_dtype=FLOAT, kernel=kernel)
    assert same_bits(added, smem.gemm(a, b, c=c, beta=1.0, out_dtype=FLOAT, kernel=kernel))
    torch.testing.assert_close(added, out + c)


@every_narrow
@pytest.mark.parametrize("kernel", GEMMS)
def test_accumulates_in_place(kernel: str, dtype: torch.dtype, device: str) -> None:
    """c may be out itself: gradients gathered in float32 over many small batches."""
    a, b = (small_integers(*s, dtype=dtype, device=device) for s in ((40, 33), (33, 72)))
    total = small_integers(40, 72, device=device) / 2**15
    expected = total + a.float() @ b.float()
    smem.gemm(a, b, c=total, beta=1.0, out_dtype=FLOAT, kernel=kernel, out=total)
    assert torch.equal(total, expected)


@every_narrow
def test_c_of_another_width_in_the_memory_of_out(dtype: torch.dtype, device: str) -> None:
    """Then out is written apart first."""
    a, b = (small_integers(*s, dtype=dtype, device=device) for s in ((40, 33), (33, 72)))
    out = torch.empty(40, 72, device=device)
    c = out.view(dtype)[:, :72].copy_(small_integers(40, 72, dtype=dtype, device=device))
    expected = a.float() @ b.float() + c.float()
    smem.gemm(a, b, c=c, beta=1.0, out_dtype=FLOAT, kernel=GEMMS[-1], out=out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.float64, FLOAT, *NARROW], ids=short)
@every_kernel
def test_the_inputs_dtype_says_nothing_new(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = (normal(*s, dtype=dtype, device=device) for s in ((20, 33), (33, 30)))
    expected = smem.gemm(a, b, kernel=kernel)
    assert same_bits(smem.gemm(a, b, out_dtype=dtype, kernel=kernel), expected)


@every_narrow
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear(activation: str | None, dtype: torch.dtype, device: str) -> None:
    def torchs(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return ACTIVATIONS[activation](F.linear(x, weight, bias))

    for shape in ((65,), (33, 65), (2, 5, 65)):
        inputs = [normal(*s, dtype=dtype, device=device) for s in (shape, (127, 65), (127,))]
        result = smem.linear(*inputs, activation=activation, out_dtype=FLOAT)
        assert result.dtype == FLOAT
        # The tensor cores of 7.5 round every 8 products; torch's kernel for this GPU every 16.
        rounds_by_8 = device == "cuda" and chip(device).code_capability < 80
        assert_accurate(widened(torchs), (result, inputs), times=4 if rounds_by_8 else 2)


# ------------------------------------------------------------------------------------ gradients


@bfloat16_by_default
@every_kernel
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients(kernel: str, activation: str | None, dtype: torch.dtype, device: str) -> None:
    """In the inputs' dtypes, as accurate as through a float32 product."""
    shapes = ((2, 33, 20), (20, 37), (37,), (33, 37), (2, 33, 37))
    inputs = [normal(*shape, dtype=dtype, device=device) for shape in shapes]
    inputs[3:] = [x.float() for x in inputs[3:]]  # c and the result's gradient

    def gradient(index: int, gemm: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def function(*inputs: Tensor) -> Tensor:
            leaves = [x.detach().requires_grad_() for x in inputs[:4]]
            return torch.autograd.grad(gemm(*leaves), leaves[index], inputs[4])[0]

        return function

    def ours(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        options = {"bias": bias, "c": c, "alpha": 0.5, "beta": 2.0, "activation": activation}
        return smem.gemm(a, b, **options, out_dtype=FLOAT, kernel=kernel)

    def torchs(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        if a.dtype == dtype:  # the gradient is rounded before the products, as ours
            return torch_gemm(a, b, bias, c.to(dtype), 0.5, 2.0, activation).float()
        return torch_gemm(a, b, bias, c, 0.5, 2.0, activation)

    for index in range(4):
        result = gradient(index, ours)(*inputs)
        assert result.dtype == inputs[index].dtype
        assert_accurate(gradient(index, torchs), (result, inputs))


@every_choice
def test_functional_transforms(choice: str, device: str) -> None:
    kernel = CHOICES[choice]["gemm"]
    a, b, bias = (
        normal(*s, dtype=torch.bfloat16, device=device) for s in ((7, 3, 4), (4, 5), (7, 5))
    )

    def ours(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return smem.gemm(a, b, bias=bias, activation="silu", out_dtype=FLOAT, kernel=kernel)

    def torchs(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return F.silu(a.float() @ b.float() + bias.float())

    def loss(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *inputs: f(*inputs).square().sum()

    in_dims = (0, None, 0)
    mapped = torch.vmap(ours, in_dims)(a, b, bias)
    torch.testing.assert_close(mapped, torch.vmap(torchs, in_dims)(a, b, bias))
    grads, expected = (
        torch.vmap(torch.func.grad(loss(f), (0, 1, 2)), in_dims)(a, b, bias) for f in (ours, torchs)
    )
    torch.testing.assert_close(grads, expected, rtol=0.05, atol=0.05)
    tangents = tuple(torch.randn_like(x) for x in (a[0], b, bias[0]))
    _, tangent = torch.func.jvp(ours, (a[0], b, bias[0]), tangents)
    _, expected = torch.func.jvp(torchs, (a[0], b, bias[0]), tangents)
    assert tangent.dtype == FLOAT
    torch.testing.assert_close(tangent, expected, rtol=0.02, atol=0.02)


@linked_by_inductor
def test_compile(device: str) -> None:
    torch._dynamo.reset()
    a, b = (
        normal(*s, dtype=torch.bfloat16, device=device).requires_grad_() for s in ((6, 8), (8, 8))
    )

    def function(a: Tensor, b: Tensor) -> Tensor:
        y = smem.gemm(a, b, activation="gelu", out_dtype=FLOAT)
        return y + smem.linear(a, b, out_dtype=FLOAT)

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    result, expected = compiled(a, b), function(a, b)
    assert result.dtype == FLOAT
    torch.testing.assert_close(result, expected)
    seed = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(result, (a, b), seed),
        torch.autograd.grad(expected, (a, b), seed),
        rtol=0.02,
        atol=0.02,
    )


def test_opcheck(device: str) -> None:
    a, b = (normal(*s, dtype=torch.bfloat16, device=device) for s in ((6, 8), (8, 8)))
    code = 0 if device == "cuda" else 3
    opcheck(OPS.gemm.default, (a, b, None, None, 1.0, 0.0, 0, 0, code, FLOAT))
    opcheck(OPS.linear.default, (a, b, None, 0, 0, FLOAT))
    out = torch.empty(6, 8, device=device)
    opcheck(OPS.gemm.out, (a, b, None, None, 1.0, 0.0, 0, 0, code, FLOAT), {"out": out})


@pytest.mark.parametrize("where", ["fake", "meta"])
def test_fake_and_meta_tensors(where: str) -> None:
    with FakeTensorMode() if where == "fake" else torch.device("meta"):
        a, b = (torch.empty(s, dtype=torch.bfloat16) for s in ((2, 6, 8), (8, 5)))
        for kernel in ("auto", GEMMS[0]):
            result = smem.gemm(a, b, out_dtype=FLOAT, kernel=kernel)
            assert (result.shape, result.dtype) == ((2, 6, 5), FLOAT)
        assert smem.linear(a, b.mT, out_dtype=FLOAT).dtype == FLOAT


@every_choice
def test_autocast(choice: str, device: str) -> None:
    """Casts the factors; the sums stay, and so does what is added to them."""
    kernel = CHOICES[choice]["gemm"]
    a, b, c = (normal(*s, device=device) for s in ((6, 8), (8, 5), (6, 5)))
    with torch.autocast(device, dtype=torch.bfloat16):
        result = smem.gemm(a, b, c=c, beta=1.0, out_dtype=FLOAT, kernel=kernel)
        by_linear = smem.linear(a, b.mT, out_dtype=FLOAT)
    product = a.bfloat16().float() @ b.bfloat16().float()
    assert result.dtype == by_linear.dtype == FLOAT
    torch.testing.assert_close(result, product + c)
    torch.testing.assert_close(by_linear, product)


def test_flops_are_those_of_the_product(device: str) -> None:
    a, b = (normal(*s, dtype=torch.bfloat16, device=device) for s in ((6, 8), (8, 5)))
    with FlopCounterMode(display=False) as counter:
        OPS.gemm(a, b, out_dtype=FLOAT)
        OPS.linear(a, b.mT, out_dtype=FLOAT)
    assert counter.get_total_flops() == 2 * (2 * 6 * 8 * 5)


@pytest.mark.gpu
@every_narrow
def test_takes_what_torch_takes(dtype: torch.dtype) -> None:
    """torch.mm and torch.addmm have the argument on CUDA tensors: the same dtypes go in."""
    a, b = (normal(*s, dtype=dtype, device="cuda") for s in ((64, 72), (72, 80)))
    assert_accurate(
        lambda a, b: torch.mm(a, b, out_dtype=FLOAT) if a.dtype == dtype else a @ b,
        (smem.gemm(a, b, out_dtype=FLOAT), (a, b)),
    )
    c = normal(64, 80, device="cuda")
    torch.testing.assert_close(
        smem.gemm(a, b, c=c, beta=1.0, out_dtype=FLOAT),
        torch.addmm(c, a, b, out_dtype=FLOAT),
    )


# --------------------------------------------------------------------------------------- errors

F16, BF16, F64 = torch.float16, torch.bfloat16, torch.float64

# dtype of the factors, other arguments by their shapes and dtypes, the message
GEMM_ERRORS = [
    (FLOAT, {"out_dtype": F64}, "out_dtype is float64, expected float32 as a has"),
    (F64, {"out_dtype": FLOAT}, "out_dtype is float32, expected float64 as a has"),
    (F16, {"out_dtype": BF16}, "out_dtype is bfloat16, expected float16 as a has, or float32"),
    (
        F16,
        {"c": ((5,), F64), "out_dtype": FLOAT},
        "c has dtype float64, expected float16 as a has, or float32 as out_dtype is",
    ),
    (BF16, {"c": ((5,), FLOAT)}, "c has dtype float32, expected bfloat16 as a has"),
    (
        F16,
        {"bias": ((5,), FLOAT), "out_dtype": FLOAT},
        "bias has dtype float32, expected float16 as a has",
    ),
    (
        F16,
        {"out": ((3, 5), F16), "out_dtype": FLOAT},
        "out has dtype float16, expected float32",
    ),
    (F16, {"out": ((3, 5), FLOAT)}, "out has dtype float32, expected float16"),
]


@pytest.mark.parametrize("how", ["auto", "named", "bare"])
@pytest.mark.parametrize("fake", [False, True], ids=["", "fake"])
@pytest.mark.parametrize(("dtype", "options", "message"), GEMM_ERRORS, ids=range(len(GEMM_ERRORS)))
def test_errors(
    dtype: torch.dtype, options: dict, message: str, fake: bool, how: str, device: str
) -> None:
    with FakeTensorMode() if fake else contextlib.nullcontext():
        a, b = (torch.zeros(s, dtype=dtype, device=device) for s in ((3, 4), (4, 5)))
        given = {
            name: torch.zeros(value[0], dtype=value[1], device=device)
            if isinstance(value, tuple)
            else value
            for name, value in options.items()
        }
        if how == "bare":
            op = OPS._gemm.out if "out" in given else OPS._gemm
            call = functools.partial(op, a, b, kernel_id=1, **given)
        else:
            kernel = "auto" if how == "auto" else GEMMS[0]
            call = functools.partial(smem.gemm, a, b, kernel=kernel, **given)
        with pytest.raises(RuntimeError) as caught:
            call()
    assert str(caught.value) == f"smem.gemm: {message}"


@pytest.mark.parametrize("fake", [False, True], ids=["", "fake"])
def test_errors_of_linear(fake: bool, device: str) -> None:
    with FakeTensorMode() if fake else contextlib.nullcontext():
        x = torch.zeros(4, 4, dtype=BF16, device=device)
        for op in (smem.linear, OPS.linear, OPS._linear):
            with pytest.raises(RuntimeError) as caught:
                op(x, x, out_dtype=F16)
            assert str(caught.value) == (
                "smem.linear: out_dtype is float16, expected bfloat16 as x has, or float32"
            )
