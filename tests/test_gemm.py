"""smem.gemm: every kernel, dtype, shape, layout and epilogue; smem.linear."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from gemm_kernels import takes
from helpers import (
    ACTIVATIONS,
    FLOATS,
    FLOATS_BUT_TWO_BY_SWEEP,
    GEMMS,
    LAYOUTS,
    OUT_LAYOUTS,
    TENSOR_CORE_GEMMS,
    assert_accurate,
    floats_of,
    laid_out,
    normal,
    poisoned,
    poisoned_out,
    runs_needed,
    same_bits,
    short,
    small_integers,
    torch_gemm,
    wide,
)
from torch import Tensor

import torch_smem_gemm as smem

KERNELS = ["auto", *GEMMS, *TENSOR_CORE_GEMMS]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=short)
some_dtypes = pytest.mark.parametrize("dtype", FLOATS_BUT_TWO_BY_SWEEP, ids=short)

SHAPES = [
    # (a, b)
    ((1, 1), (1, 1)),
    ((1, 2), (2, 1)),
    ((1, 127), (127, 1)),
    ((1, 33), (33, 130)),
    ((130, 33), (33, 1)),
    ((17, 31), (31, 13)),
    ((33, 65), (65, 127)),
    ((64, 16), (16, 64)),
    ((128, 128), (128, 128)),
    ((129, 16), (16, 257)),
    ((67, 1), (1, 71)),
    # nothing to write, or nothing to add
    ((0, 5), (5, 7)),
    ((5, 7), (7, 0)),
    ((5, 0), (0, 7)),
    ((0, 0), (0, 0)),
    ((0, 5, 3), (0, 3, 4)),
    ((3, 0, 5), (5, 4)),
    # batches
    ((3, 19, 23), (3, 23, 29)),
    ((3, 19, 23), (23, 29)),
    ((19, 23), (3, 23, 29)),
    ((3, 1, 19, 23), (4, 23, 29)),
    ((2, 1, 3, 1, 5), (4, 1, 5, 7)),
    ((5, 1, 8), (1, 8, 9)),
    ((1, 1, 7, 6), (2, 3, 6, 5)),
]
FIRST_EMPTY = SHAPES.index(((0, 5), (5, 7)))


@every_kernel
@pytest.mark.parametrize(
    ("dtype", "shape_a", "shape_b"),
    [
        # How batches are divided, and what is empty, is no business of the dtype.
        pytest.param(
            *(dtype, *shapes),
            marks=[]
            if dtype == torch.float32 or (dtype != torch.float16 and i < FIRST_EMPTY)
            else [pytest.mark.sweep],
        )
        for dtype in FLOATS
        for i, shapes in enumerate(SHAPES)
    ],
    ids=short,
)
@pytest.mark.one_in(3)
def test_shapes(
    kernel: str, dtype: torch.dtype, shape_a: tuple, shape_b: tuple, device: str
) -> None:
    if kernel == "fp16x3" and shape_a[-1] == 1:
        pytest.skip("not as exact as a single product; auto takes it for longer sums only")
    batch = torch.broadcast_shapes(shape_a[:-2], shape_b[:-2])
    shape = (*batch, shape_a[-2], shape_b[-1])
    runs = []
    for _ in range(runs_needed(math.prod(shape))):
        a, b = (normal(*s, dtype=dtype, device=device) for s in (shape_a, shape_b))
        out = poisoned(shape, dtype, device)
        assert smem.gemm(a, b, kernel=kernel, out=out) is out
        result = smem.gemm(a, b, kernel=kernel)
        assert result.is_contiguous()
        assert same_bits(result, out)
        runs.append((out, (a, b)))
    assert_accurate(torch.matmul, *runs)


LAYOUT_PAIRS = [
    ("contiguous", "contiguous"),
    ("contiguous", "transposed"),
    ("transposed", "contiguous"),
    ("transposed", "transposed"),
    ("unaligned", "unaligned_transposed"),
    ("unaligned_transposed", "unaligned"),
    ("step2", "apart"),
    ("apart", "step2"),
    ("same_rows", "same_columns"),
    ("same_columns", "same_rows"),
]
# Sizes that 16-byte runs divide, larger than a tile of 128; and sizes that nothing divides.
LAYOUT_SIZES = [(136, 24, 136), (37, 45, 66)]


@some_dtypes
@every_kernel
@pytest.mark.parametrize(("layout_a", "layout_b"), LAYOUT_PAIRS)
@pytest.mark.one_in(2)
def test_layouts(
    kernel: str, dtype: torch.dtype, layout_a: str, layout_b: str, device: str
) -> None:
    for m, k, n in LAYOUT_SIZES:
        a = laid_out(small_integers(2, m, k, dtype=dtype, device=device), layout_a)
        b = laid_out(small_integers(2, k, n, dtype=dtype, device=device), layout_b)
        expected = (a.double() @ b.double()).to(dtype)
        assert torch.equal(smem.gemm(a, b, kernel=kernel), expected)


def test_layout_pairs_hold_every_layout() -> None:
    assert {layout for pair in LAYOUT_PAIRS for layout in pair} == set(LAYOUTS)


@every_dtype
@every_kernel
def test_expanded_and_permuted_batch(kernel: str, dtype: torch.dtype, device: str) -> None:
    a = small_integers(19, 23, dtype=dtype, device=device).expand(2, 3, 19, 23)
    b = small_integers(3, 23, 2, 17, dtype=dtype, device=device).permute(2, 0, 1, 3)
    expected = (a.double() @ b.double()).to(dtype)
    assert torch.equal(smem.gemm(a, b, kernel=kernel), expected)


@every_kernel
def test_more_batch_dimensions_than_a_kernel_has_loops(kernel: str, device: str) -> None:
    a, b = (
        small_integers(*batch, *matrix, dtype=floats_of(kernel)[-1], device=device)
        for batch, matrix in (((2, 1) * 4 + (2,), (3, 4)), ((1, 2) * 4 + (1,), (4, 2)))
    )
    c = small_integers(*(2, 2, 1) * 3, 1, 2, dtype=a.dtype, device=device)
    result = smem.gemm(a, b, c=c, beta=1.0, kernel=kernel)
    assert torch.equal(result, torch_gemm(a, b, None, c, 1.0, 1.0))


@every_dtype
@every_kernel
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogue(kernel: str, dtype: torch.dtype, activation: str | None, device: str) -> None:
    a, b, bias, c = (
        normal(*shape, dtype=dtype, device=device)
        for shape in ((2, 33, 20), (20, 37), (37,), (2, 33, 37))
    )
    out = poisoned(c.shape, dtype, device)
    smem.gemm(
        a, b, bias=bias, activation=activation, c=c, alpha=0.5, beta=-2.0, kernel=kernel, out=out
    )
    assert_accurate(torch_gemm, (out, (a, b, bias, c, 0.5, -2.0, activation)))


@every_kernel
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation_over_its_range(kernel: str, activation: str | None, device: str) -> None:
    """1 x 1 times z: the activation alone, where its formula could lose or overflow."""
    z = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 0.1, -0.1, 3, -3, 6, -6, 20, -20, 100, -100])
    for dtype in floats_of(kernel):
        row = z.to(device, dtype)[None]
        one = torch.ones(1, 1, dtype=dtype, device=device)
        run = smem.gemm(one, row, activation=activation, kernel=kernel), (one, row)
        assert_accurate(lambda a, b: ACTIVATIONS[activation](a @ b), run)


@every_kernel
def test_a_bias_is_added_before_rounding(kernel: str, device: str) -> None:
    """257 is no bfloat16, 258 is: the product must not be rounded to 256 first."""
    a, b, bias = (
        torch.ones(*shape, dtype=floats_of(kernel)[-1], device=device)
        for shape in ((2, 3, 257), (257, 5), (5,))
    )
    assert (smem.gemm(a, b, bias=bias, kernel=kernel) == 258).all()


ADDENDS = [(), (1,), (37,), (33, 1), (1, 37), (33, 37), (2, 1, 1), (2, 33, 37), (2, 1, 37)]


@every_dtype
@every_kernel
def test_c_broadcasts_and_bias_has_any_stride(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = (small_integers(*s, dtype=dtype, device=device) for s in ((2, 33, 5), (5, 37)))
    biases = itertools.cycle(
        [
            None,
            laid_out(small_integers(37, dtype=dtype, device=device), "step2"),
            small_integers(1, dtype=dtype, device=device).expand(37),
        ]
    )
    for shape in ADDENDS:
        for layout in ("contiguous", "transposed", "step2") if len(shape) > 1 else ("contiguous",):
            c = laid_out(small_integers(*shape, dtype=dtype, device=device), layout)
            bias = next(biases)
            result = smem.gemm(a, b, bias=bias, c=c, alpha=2.0, beta=3.0, kernel=kernel)
            expected = torch_gemm(*wide(a, b, bias, c), 2.0, 3.0)
            assert torch.equal(result, expected.to(dtype)), (shape, layout, bias)


@every_dtype
@every_kernel
def test_k_of_zero_leaves_the_addends(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = (torch.empty(shape, dtype=dtype, device=device) for shape in ((33, 0), (0, 17)))
    c, bias = (small_integers(*s, dtype=dtype, device=device) for s in ((33, 17), (17,)))
    out = poisoned((33, 17), dtype, device)
    smem.gemm(a, b, bias=bias, c=c, beta=2.0, activation="relu", kernel=kernel, out=out)
    assert torch.equal(out, torch.relu(2 * c + bias))


@every_dtype
@every_kernel
def test_c_is_not_read_where_beta_is_zero(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = (normal(*s, dtype=dtype, device=device) for s in ((17, 9), (9, 21)))
    c = poisoned((17, 21), dtype, device)
    assert same_bits(smem.gemm(a, b, c=c, beta=0.0, kernel=kernel), smem.gemm(a, b, kernel=kernel))
    assert smem.gemm(a, b, c=c, beta=1.0, kernel=kernel).isnan().all()


@every_kernel
def test_beta_is_one_unless_said(kernel: str, device: str) -> None:
    dtype = torch.float32 if torch.float32 in floats_of(kernel) else torch.bfloat16
    shapes = (17, 9), (9, 21), (17, 21)
    a, b, c = (normal(*s, dtype=dtype, device=device) for s in shapes)
    expected = smem.gemm(a, b, c=c, beta=1.0, kernel=kernel)
    assert same_bits(smem.gemm(a, b, c=c, kernel=kernel), expected)
    assert same_bits(
        smem.gemm(a, b, c=c, kernel=kernel, out=poisoned((17, 21), a.dtype, device)), expected
    )
    assert same_bits(torch.ops.smem.gemm(a, b, None, c), torch.ops.smem.gemm(a, b)), "the schema's"


@every_dtype
@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_rounds_once(kernel: str, dtype: torch.dtype, device: str) -> None:
    """Sums, too long for half precision, and all addends are exact until the end."""
    a, b, bias, c = (
        small_integers(*s, dtype=dtype, device=device, limit=limit)
        for s, limit in (((33, 300), 15), ((300, 37), 15), ((37,), 100), ((33, 37), 100))
    )
    result = smem.gemm(a, b, bias=bias, c=c, alpha=3.0, beta=-5.0, kernel=kernel)
    expected = torch_gemm(*wide(a, b, bias, c), 3.0, -5.0).to(dtype)
    assert torch.equal(result, expected)


@pytest.mark.parametrize("kernel", ["auto", *GEMMS])
@pytest.mark.parametrize("precision", [None, "fp32", "ieee", "tf32"])
def test_precision_is_kept(kernel: str, precision: str | None, device: str) -> None:
    """No kernel computes in less than IEEE float32, but those on tensor cores when allowed to."""
    if (kernel, precision) == ("auto", "tf32") and takes(
        "tensor_core", torch.float32, device, "tf32"
    ):
        pytest.skip("auto computes in tf32: test_tf32.py")
    a, b = normal(64, 40, device=device), normal(40, 64, device=device)
    run = smem.gemm(a, b, precision=precision, kernel=kernel), (a, b)
    assert_accurate(torch.matmul, run)


# ------------------------------------------------------------------------------------------- out


@some_dtypes
@every_kernel
@pytest.mark.parametrize("layout", OUT_LAYOUTS)
def test_out_of_any_layout(kernel: str, dtype: torch.dtype, layout: str, device: str) -> None:
    for m, n in ((33, 37), (136, 136)):
        a, b, bias = (
            small_integers(*s, dtype=dtype, device=device) for s in ((2, m, 5), (5, n), (n,))
        )
        out, check_gaps = poisoned_out((2, m, n), dtype, device, layout)
        smem.gemm(a, b, bias=bias, out=out, kernel=kernel)
        assert torch.equal(out, torch_gemm(a, b, bias))
        check_gaps()


OVERLAPS = {  # what out and an operand are, of one buffer of 40 x 40
    "a is out": lambda x: {"a": x[:20, :20], "out": x[:20, :20]},
    "b is out": lambda x: {"b": x[:20, :20], "out": x[:20, :20]},
    "a is out turned": lambda x: {"a": x[:20, :20].mT, "out": x[:20, :20]},
    "a overlaps out": lambda x: {"a": x[:20, :20], "out": x[7:27, 3:23]},
    "b overlaps out": lambda x: {"b": x[:20, :20], "out": x[7:27, 3:23]},
    "bias is a row of out": lambda x: {"bias": x[19, :20], "out": x[:20, :20]},
    "bias is a column of out": lambda x: {"bias": x[:20, 0], "out": x[:20, :20]},
    "c is out": lambda x: {"c": x[:20, :20], "out": x[:20, :20]},
    "c is out turned": lambda x: {"c": x[:20, :20].mT, "out": x[:20, :20]},
    "c overlaps out": lambda x: {"c": x[:20, :20], "out": x[1:21, :20]},
    "c is a row of out": lambda x: {"c": x[3, :20], "out": x[:20, :20]},
    "a and c are out": lambda x: {"a": x[:20, :20], "c": x[:20, :20], "out": x[:20, :20]},
}


@every_kernel
@pytest.mark.parametrize("overlap", OVERLAPS)
def test_out_may_overlap_the_inputs(kernel: str, overlap: str, device: str) -> None:
    for dtype in floats_of(kernel):
        args = {
            name: small_integers(*shape, dtype=dtype, device=device)
            for name, shape in {"a": (20, 20), "b": (20, 20), "bias": (20,), "c": (20, 20)}.items()
        }
        args |= OVERLAPS[overlap](small_integers(40, 40, dtype=dtype, device=device))
        out = args.pop("out")
        inputs = dict(zip(args, wide(*args.values()), strict=True))
        expected = torch_gemm(**inputs, beta=2.0)
        smem.gemm(**args, beta=2.0, kernel=kernel, out=out)
        assert torch.equal(out, expected.to(dtype))


# -------------------------------------------------------------------------------------- non-finite


@every_dtype
@every_kernel
def test_non_finite_values_spread_as_in_matmul(
    kernel: str, dtype: torch.dtype, device: str
) -> None:
    """What pads a tile must not turn an Inf into a NaN; a NaN must not stop anywhere."""
    inf, nan = math.inf, math.nan
    for m, k, n in ((19, 21, 23), (33, 130, 35), (1, 1, 1)):
        a, b = (normal(*s, dtype=dtype, device=device) for s in ((m, k), (k, n)))
        for row, col, value in ((0, 0, inf), (m // 2, k - 1, -inf), (m - 1, k // 2, nan)):
            a[row, col] = value
        b[k - 1, n - 1], b[0, n // 2] = inf, 0.0
        b[k // 2, n // 3] = nan
        run = smem.gemm(a, b, kernel=kernel), (a, b)
        assert_accurate(torch.matmul, run)


@every_kernel
def test_overflow_is_infinite(kernel: str, device: str) -> None:
    for dtype in floats_of(kernel):
        a = torch.full((3, 2), torch.finfo(dtype).max, dtype=dtype, device=device)
        b = torch.tensor([[1, -1, 1], [1, -1, -1]], dtype=dtype, device=device)
        expected = torch.tensor([[math.inf, -math.inf, 0.0]] * 3, dtype=dtype, device=device)
        assert torch.equal(smem.gemm(a, b, kernel=kernel), expected)


@every_kernel
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation_of_non_finite_values(kernel: str, activation: str | None, device: str) -> None:
    for dtype in floats_of(kernel):
        row = torch.tensor([[math.inf, -math.inf, math.nan, 1.0]], dtype=dtype, device=device)
        one = torch.ones(1, 1, dtype=dtype, device=device)
        result = smem.gemm(one, row, activation=activation, kernel=kernel)
        if kernel != "auto" or device != "cpu":
            row = row.double()  # by the formula: torch's own gelu(inf) is NaN on some CPUs
        torch.testing.assert_close(result, ACTIVATIONS[activation](row).to(dtype), equal_nan=True)


# ------------------------------------------------------------------------------------------ linear


@every_dtype
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(40,), (1, 40), (7, 40), (2, 3, 40), (0, 40)], ids=short)
def test_linear(dtype: torch.dtype, activation: str | None, shape: tuple, device: str) -> None:
    def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return ACTIVATIONS[activation](F.linear(x, weight, bias))

    for layout in ("contiguous", "transposed", "step2"):
        for with_bias in (True, False):
            runs = []
            for _ in range(runs_needed(math.prod(shape[:-1]) * 50)):
                x = normal(*shape, dtype=dtype, device=device)
                weight = laid_out(normal(50, 40, dtype=dtype, device=device), layout)
                bias = normal(50, dtype=dtype, device=device) if with_bias else None
                result = smem.linear(x, weight, bias, activation=activation)
                out = poisoned(result.shape, dtype, device)
                code = list(ACTIVATIONS).index(activation)
                torch.ops.smem.linear.out(x, weight, bias, code, out=out)
                assert same_bits(out, result)
                runs.append((result, (x, weight, bias)))
            assert_accurate(linear, *runs)


def test_linear_without_features(device: str) -> None:
    x, weight = torch.empty(3, 0, device=device), torch.empty(5, 0, device=device)
    bias = normal(5, device=device)
    assert torch.equal(smem.linear(x, weight, bias), bias.expand(3, 5))
    assert smem.linear(normal(3, 4, device=device), normal(0, 4, device=device)).shape == (3, 0)
