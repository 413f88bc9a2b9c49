"""mean, amax and amin as torch has them; and of all reductions: one order, whatever the layout."""

import itertools
import math
from collections.abc import Callable

import numpy
import pytest
import torch
from helpers import (
    COMPLEX,
    FLOATS,
    FLOATS_BUT_TWO_BY_SWEEP,
    INTEGERS,
    LAYOUTS,
    any_bits,
    assert_accurate,
    assert_same_specials,
    by_sweep,
    laid_out,
    normal,
    poisoned,
    same_bits,
    short,
    small_integers,
)
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import torch_smem_gemm as smem

OPS = torch.ops.smem
# Those that any reduction can be done with. The bare ops choose on CPU tensors as on CUDA's.
KERNELS = [row.name for row in smem.kernels("sum") if row.any_operator]
NAMES = ("mean", "amax", "amin")
every_name = pytest.mark.parametrize("name", NAMES)
every_kernel = pytest.mark.parametrize("kernel", ["auto", *KERNELS])
every_float = pytest.mark.parametrize("dtype", FLOATS, ids=short)
some_floats = pytest.mark.parametrize("dtype", FLOATS_BUT_TWO_BY_SWEEP, ids=short)


@every_name
def test_kernels_are_listed(name: str) -> None:
    assert [row.name for row in smem.kernels(name)] == KERNELS


def ours(name: str, kernel: str) -> Callable[..., Tensor]:
    return lambda x, *args, **kw: getattr(smem, name)(x, *args, kernel=kernel, **kw)


def torchs(name: str, x: Tensor, dim: object, keepdim: bool = False) -> Tensor:
    if name == "mean":
        return torch.mean(x, dim, keepdim)
    return getattr(torch, name)(x, () if dim is None else dim, keepdim)


def test_tables() -> None:
    assert KERNELS == ["rows", "columns"]
    for name in NAMES:
        valid = ", ".join(map(repr, ["auto", *KERNELS]))
        with pytest.raises(ValueError, match=rf"^smem.{name}: kernel is 'tree', expected one of "):
            getattr(smem, name)(torch.ones(3), kernel="tree")
        with pytest.raises(TypeError, match=valid):
            getattr(smem, name)(torch.ones(3), kernel=3)


# -------------------------------------------------------------------------------------- semantics

CASES = [
    *[((5, 7), None), ((5, 7), ()), ((5, 7), 0), ((5, 7), (1,)), ((5, 7), (-1, 0))],
    *[((3, 20, 35), d) for d in (0, 1, -1, (0, 1), (0, 2), (2, 1))],
    *[((), None), ((), 0), ((), ()), ((1,), 0), ((0, 3), 1), ((2, 0, 3), 2)],
    *[((3000,), None), ((33, 300), 1), ((300, 33), 0), ((2, 129, 3), 1)],
    ((2,) * 12, tuple(range(0, 12, 2))),
]


@every_name
@every_kernel
@pytest.mark.parametrize(
    "dtype",
    by_sweep(
        [*FLOATS, *INTEGERS, *COMPLEX],
        *(torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64),
    ),
    ids=short,
)
def test_shapes_and_dims(name: str, kernel: str, dtype: torch.dtype, device: str) -> None:
    if (name == "mean" and dtype in INTEGERS) or (name != "mean" and dtype in COMPLEX):
        pytest.skip("torch has none")
    for shape, dim in CASES:
        x = small_integers(*shape, device=device, limit=1).to(dtype)
        for keepdim in (False, True):
            expected = torchs(name, x, dim, keepdim)
            result = ours(name, kernel)(x, dim, keepdim)
            assert result.dtype == dtype
            assert result.shape == expected.shape
            torch.testing.assert_close(result, expected, equal_nan=True)
            out = poisoned(expected.shape, dtype, device)
            assert ours(name, kernel)(x, dim, keepdim, out=out) is out
            assert same_bits(out, result)


@pytest.mark.parametrize("name", [*NAMES, "sum"])
def test_a_dimension_by_any_kind_of_integer(name: str, device: str) -> None:
    x, reduce = torch.randn(2, 3, device=device), getattr(smem, name)
    for dim in (numpy.int64(1), torch.tensor(1), [numpy.int64(1)], numpy.array([1])):
        assert torch.equal(reduce(x, dim), reduce(x, 1))
    counted = smem.trace(name, x, numpy.int64(1)).wavefronts
    assert counted == smem.trace(name, x, 1).wavefronts


@every_kernel
@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_extrema_of_every_layout_and_dtype(
    name: str, kernel: str, layout: str, device: str
) -> None:
    for dtype in (*INTEGERS, *FLOATS):
        x = laid_out((40 * normal(2, 19, 40, device=device)).to(dtype), layout)
        if dtype in INTEGERS:
            x = laid_out(any_bits(2, 19, 40, dtype=dtype, device=device), layout)
        for dim in (None, 0, 1, 2, (0, 1), (1, 2), (0, 2)):
            assert torch.equal(ours(name, kernel)(x, dim), torchs(name, x, dim))


@every_kernel
def test_mean_to_another_dtype(kernel: str, device: str) -> None:
    x = small_integers(9, 40, device=device)
    for dtype_in, dtype in itertools.product(
        (torch.int32, torch.bool, *FLOATS), (*FLOATS, *COMPLEX)
    ):
        y = x.to(dtype_in)
        result = smem.mean(y, 1, dtype=dtype, kernel=kernel)
        torch.testing.assert_close(result, torch.mean(y, 1, dtype=dtype))


@every_name
@every_float
@every_kernel
def test_non_finite(name: str, kernel: str, dtype: torch.dtype, device: str) -> None:
    x = normal(8, 300, dtype=dtype, device=device)
    x[1, 7] = x[2, 0] = x[2, 299] = math.inf
    x[3, 7], x[3, 200] = math.inf, -math.inf
    x[4] = -math.inf
    x[5, 0] = x[6, 150] = x[7, 299] = math.nan
    for y, dim in ((x, 1), (x.mT.contiguous(), 0)):
        assert_same_specials(ours(name, kernel)(y, dim), torchs(name, y.double(), dim))


@every_float
@every_kernel
def test_mean_is_divided_before_it_is_rounded(kernel: str, dtype: torch.dtype, device: str) -> None:
    """float16 could not hold the sum."""
    x = torch.full((3, 9000), 100.0, dtype=dtype, device=device)
    assert (smem.mean(x, 1, kernel=kernel) == 100).all()


def test_errors(device: str) -> None:
    x, empty = torch.ones(3, 4, device=device), torch.ones(2, 0, device=device)
    expected = "expected a float or complex dtype"
    real = "expected a float, bool, uint8 or signed integer dtype of torch.amax"
    messages = [
        (
            lambda k: smem.mean(x.int(), **k),
            f"mean: x has dtype int32, {expected}, or one as dtype",
        ),
        (lambda k: smem.mean(x, dtype=torch.int8, **k), f"mean: dtype is int8, {expected}"),
        (lambda k: smem.amax(x.cfloat(), **k), f"amax: x has dtype complex64, {real}"),
        (
            lambda k: smem.amin(empty, 1, **k),
            "amin: x is 2x0, expected elements along dimension 1, which is reduced",
        ),
        (
            lambda k: smem.amax(empty, **k),
            "amax: x is 2x0, expected elements along dimension 1, which is reduced",
        ),
        (lambda k: smem.amax(x, 2, **k), "amax: dim holds 2, expected -2 to 1"),
        (lambda k: smem.mean(x, (0, -2), **k), "mean: dim holds dimension 0 more than once"),
        (lambda k: smem.amin(x, 0, out=x[0, 1:], **k), "amin: out is 3, expected 4"),
    ]
    for (call, text), kernel in itertools.product(messages, ("auto", *KERNELS)):
        with pytest.raises(RuntimeError) as caught:
            call({"kernel": kernel})
        assert str(caught.value) == "smem." + text
    for name in NAMES:
        with pytest.raises(RuntimeError, match=rf"^smem.{name}: kernel 'tree' only sums$"):
            getattr(OPS, name)(x, kernel_id=1)


# -------------------------------------------------------------------------------------- gradients


@every_name
@every_kernel
@pytest.mark.parametrize("dim", [None, 1, (0, -1), ()], ids=str)
def test_gradients(name: str, kernel: str, dim: object, device: str) -> None:
    x = torch.randn(2, 3, 2, dtype=torch.float64, device=device, requires_grad=True)
    for keepdim in (False, True):

        def function(x: Tensor, k: bool = keepdim) -> Tensor:
            return ours(name, kernel)(x, dim, k) ** 2

        assert gradcheck(function, x)
        assert gradgradcheck(function, x)


@every_kernel
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_ties_share_the_gradient(name: str, kernel: str, device: str) -> None:
    x = small_integers(6, 50, device=device, limit=2)
    x[3, 3] = math.nan
    for dim in (None, 0, 1, (0, 1)):
        leaf, torchs_leaf = (x.clone().requires_grad_() for _ in "ab")
        ours(name, kernel)(leaf, dim).sum().backward()
        torchs(name, torchs_leaf, dim).sum().backward()
        torch.testing.assert_close(leaf.grad, torchs_leaf.grad, equal_nan=True)


@every_name
@every_kernel
def test_transforms(name: str, kernel: str, device: str) -> None:
    x = torch.randn(3, 4, 5, device=device)
    torch._dynamo.reset()
    mine = ours(name, kernel)
    for dim, in_dim in itertools.product((None, 0, -1, (0, 1)), (0, 1, 2)):
        torch.testing.assert_close(
            torch.vmap(lambda x, d=dim: mine(x, d), in_dim)(x),
            torch.vmap(lambda x, d=dim: torchs(name, x, d), in_dim)(x),
        )
    grad = torch.func.grad(lambda x: mine(x, 1).square().sum())
    expected = torch.func.grad(lambda x: torchs(name, x, 1).square().sum())
    torch.testing.assert_close(grad(x), expected(x))
    compiled = torch.compile(lambda x: mine(x, 1) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), torchs(name, x, 1) + 1)
    scalars = torch.randn(6, device=device)
    assert torch.equal(torch.vmap(mine)(scalars), scalars)


# ------------------------------------------------------------------------------------------- bits

COUNTS = (1, 7, 64, 65, 100, 256, 257, 2048, 2049, 5000, 16_384, 40_000)


def by_any(name: str, x: Tensor, dim: int) -> dict[str, Tensor]:
    """One reduction by each kernel and by what ``auto`` chooses, on the CPU by cpu_emulator."""
    rest = (None, 0) if name in ("sum", "mean") else (0,)
    results = {kernel: getattr(smem, name)(x, dim, kernel=kernel) for kernel in KERNELS}
    return {**results, "auto": getattr(OPS, f"_{name}")(x, [dim], False, *rest)}


def layouts(x: Tensor) -> dict[str, tuple[Tensor, int]]:
    """A matrix in other places, and the dimension to reduce: its rows are the outputs."""
    m, n = x.shape
    apart = torch.zeros(m, n + 3, dtype=x.dtype, device=x.device)[:, 1 : n + 1].copy_(x)
    steps = torch.zeros(m, 2 * n, dtype=x.dtype, device=x.device)[:, ::2].copy_(x)
    batch = torch.zeros(2, n, m, dtype=x.dtype, device=x.device).copy_(x.mT)
    return {
        "contiguous": (x, 1),
        "transposed": (x.mT.contiguous(), 0),
        "unaligned": (apart, 1),
        "unaligned_transposed": (apart.mT, 0),
        "step2": (steps, 1),
        "batch": (batch, 1),
    }


@some_floats
@pytest.mark.parametrize("name", ["sum", "mean", "amax"])
def test_same_bits_for_every_layout_and_kernel(name: str, dtype: torch.dtype, device: str) -> None:
    for n in COUNTS:
        x = normal(3, n, dtype=dtype, device=device)
        if name == "amax":
            x = torch.where(x > 0, 0.0, -0.0).to(dtype)  # the sign of 0 tells the order
        whole = smem.sum(x, 1, kernel="rows") if name == "sum" else None
        for layout, (y, dim) in layouts(x).items():
            for kernel, result in by_any(name, y, dim).items():
                if whole is None:
                    whole = result
                expected = whole.expand(2, 3) if layout == "batch" else whole
                assert same_bits(result, expected), (n, layout, kernel)
        for i in range(3):
            for kernel, result in by_any(name, x[i], 0).items():
                assert same_bits(result, whole[i]), (n, "alone", kernel)


@some_floats
@pytest.mark.parametrize("n", [60, 300, 4100])
def test_same_bits_for_every_number_of_outputs(n: int, dtype: torch.dtype, device: str) -> None:
    """How rows and columns are divided over threads depends on how many there are."""
    x = normal(1000, n, dtype=dtype, device=device)
    whole = smem.sum(x, 1, kernel="rows")
    for m in (1, 2, 4, 7, 30, 129, 1000):
        for kernel, result in by_any("sum", x[:m], 1).items():
            assert same_bits(result, whole[:m]), (m, kernel)
        for kernel, result in by_any("sum", x[:m].mT.contiguous(), 0).items():
            assert same_bits(result, whole[:m]), (m, kernel, "columns")


def test_several_dimensions_are_one_in_the_order_of_addresses(device: str) -> None:
    x = normal(4, 6, 20, 35, device=device)
    flat = smem.sum(x.permute(1, 0, 2, 3).reshape(6, -1), 1, kernel="rows")
    for kernel in KERNELS:
        assert same_bits(smem.sum(x, (0, 2, 3), kernel=kernel), flat)
        for order in itertools.permutations(range(4)):
            view, outputs = x.permute(order), order.index(1)
            reduced = [d for d in range(4) if d != outputs]
            assert same_bits(smem.sum(view, reduced, kernel=kernel), flat), order


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_broadcast_dimension_is_outside_the_others(kernel: str, device: str) -> None:
    x = normal(3, 1, 700, device=device).expand(3, 40, 700)
    inside = x.mT.unsqueeze(-1).expand(3, 700, 40, 5)[..., 0]  # strides 700, 1, 0
    repeated = x.contiguous()
    expected = smem.sum(repeated, (1, 2), kernel=kernel)
    assert same_bits(smem.sum(x, (1, 2), kernel=kernel), expected)
    assert same_bits(smem.sum(inside, (1, 2), kernel=kernel), expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_order_does_not_depend_on_the_outputs_between(kernel: str, device: str) -> None:
    """The outputs' dimension lies between the reduced ones in memory, so it changes a stride."""
    x = normal(20, 9, 35, device=device)
    whole = smem.sum(x.transpose(0, 2), (0, 2), kernel=kernel)
    for i in range(9):
        alone = x[:, i : i + 1].contiguous().transpose(0, 2)
        assert same_bits(smem.sum(alone, (0, 2), kernel=kernel), whole[i : i + 1])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("inner", [2, 3, 8, 34, 95, 786])
def test_two_loops_keep_the_order(inner: int, kernel: str, device: str) -> None:
    outer = 2500 // inner
    x = normal(outer, 3, inner, device=device)
    flat = x.transpose(0, 1).reshape(3, -1)
    for dtype in (torch.float32, torch.bfloat16):
        expected = smem.sum(flat.to(dtype), 1, kernel="rows")
        assert same_bits(smem.sum(x.to(dtype), (0, 2), kernel=kernel), expected)
    expected = smem.sum(flat.mT.contiguous(), 0, kernel="columns")
    assert same_bits(smem.sum(x.transpose(1, 2).contiguous(), (0, 1), kernel=kernel), expected)
    between = normal(outer, 4, inner, 3, device=device)  # the outputs are innermost, and between
    flat = between.permute(1, 3, 0, 2).reshape(12, -1)
    expected = smem.sum(flat, 1, kernel="rows").view(4, 3)
    assert same_bits(smem.sum(between, (0, 2), kernel=kernel), expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_few_rows_along_several_loops_keep_the_order(kernel: str, device: str) -> None:
    for columns in (72, 35):  # whole vectors, and single elements
        x = normal(2, 3, 4, 5, 3, columns, device=device)
        flat = x.permute(1, 3, 5, 0, 2, 4).reshape(15 * columns, 24)
        expected = smem.sum(flat, 1, kernel="rows").view(3, 5, columns)
        assert same_bits(smem.sum(x, (0, 2, 4), kernel=kernel), expected)


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_blocks_without_elements_do_not_change_extrema(name: str, device: str) -> None:
    """17 splits become 20, and the last three store identities."""
    for dtype in (*INTEGERS, torch.float32):
        x = torch.randint(3, 100, (17 * 64 * 1024 - 5,), device=device).to(dtype)
        assert torch.equal(ours(name, "rows")(x, 0), torchs(name, x, 0)), dtype


@pytest.mark.gpu
def test_some_hundred_partials_of_two_rows_are_combined_in_order() -> None:
    """The second row of partials begins inside a vector. The sign of 0 tells the order."""
    x = torch.full((2, 40_000_000), -0.0, device="cuda")
    x[:, -1] = 0.0
    assert not smem.amax(x, 1).signbit().any()
    assert not smem.amax(x[0], 0).signbit()


@pytest.mark.gpu
def test_two_loops_of_more_elements_than_31_bits_number() -> None:
    row = normal(2, 40_000, device="cuda")
    x = row.expand(60_000, 2, 40_000)  # the same memory 60,000 times
    result = smem.sum(x, (0, 2))
    torch.testing.assert_close(result.double(), row.double().sum(1) * 60_000, rtol=1e-5, atol=1)


def test_more_dimensions_than_loops_keep_the_order(device: str) -> None:
    """10 reduced dimensions that do not merge are copied into one first."""
    x = normal(*[2, 3] * 10, device=device)[(slice(None), slice(2)) * 10]
    backwards = x.permute(*range(19, -1, -1))
    result = smem.sum(backwards, tuple(range(1, 20, 2)), kernel="rows")
    expected = smem.sum(x, tuple(range(0, 20, 2)), kernel="rows")
    assert same_bits(result.permute(*range(9, -1, -1)), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["auto", *KERNELS])
def test_sums_that_follow_on_what_came_before(kernel: str) -> None:
    """A second launch begins early: it must not overtake the first, nor what stands before it."""
    for shape, dim in (((2**20,), 0), ((3, 300_001), 1), ((20_000, 70), 0)):
        given = [normal(*shape, device="cuda") for _ in range(5)]
        alone = []
        for x in given:
            alone.append(smem.sum(x, dim, kernel=kernel))
            torch.cuda.synchronize()
        x, out = torch.empty_like(given[0]), torch.empty_like(alone[0])
        results = []
        for _ in range(5):
            for new in given:
                x.copy_(new)
                smem.sum(x, dim, kernel=kernel, out=out)
                results.append(out.clone())
        for i, result in enumerate(results):
            assert same_bits(result, alone[i % len(given)]), (shape, i)


def test_the_order_is_the_one_that_is_written_down(device: str) -> None:
    """csrc/reduce/reduction_tree.h, step by step in float32, then float64."""
    for n in (5, 300, 2048, 7000):
        x = normal(n, device=device)
        padded = torch.zeros(-(-n // 2048) * 2048, device=device)
        padded[:n] = x
        elements = padded.view(-1, 8, 256)
        partials = torch.zeros_like(elements[:, 0])
        for k in range(8):
            partials = partials + elements[:, k]
        partials = partials.flatten()
        level = 0
        while len(partials) > 1:
            partials = partials.double() if level == 5 else partials
            partials = torch.nn.functional.pad(partials, (0, len(partials) % 2))
            partials = partials[::2] + partials[1::2]
            level += 1
        for result in by_any("sum", x, 0).values():
            assert same_bits(result, partials[0].float())


# --------------------------------------------------------------------------------------- accuracy


def _ill_conditioned(*shape: int, dtype: torch.dtype, device: str) -> Tensor:
    """Pairs that cancel but for a thousandth."""
    x = normal(*shape, dtype=dtype, device=device)
    half = shape[-1] // 2
    x[..., half : 2 * half] = -x[..., :half] * (1 + 1e-3)
    return x[..., torch.randperm(shape[-1], device=device)]


DATA = {
    "normal": normal,
    "positive": lambda *shape, **kind: torch.rand(shape, **kind),
    "ill-conditioned": _ill_conditioned,
}


@pytest.mark.parametrize(
    ("n", "data"),
    [
        # The longest of the data that are hardest to add.
        pytest.param(
            n, data, marks=[pytest.mark.sweep] if n > 10_000 and data != "ill-conditioned" else []
        )
        for n in (100, 1000, 10_000, 100_000)
        for data in DATA
    ],
)
def test_error_is_at_most_torchs(n: int, data: str, device: str) -> None:
    x = DATA[data](200, n, dtype=torch.float32, device=device)
    exact = x.double().sum(1)
    # ATen's order on a CPU depends on how wide the CPU's vectors are.
    slack = 1.25 if device == "cpu" else 1.02
    for dim, y in ((1, x), (0, x.mT.contiguous())):
        error = (smem.sum(y, dim, kernel="rows") - exact).norm()
        assert error <= slack * (torch.sum(y, dim) - exact).norm()


@every_float
@every_kernel
def test_accuracy_of_the_mean(kernel: str, dtype: torch.dtype, device: str) -> None:
    x = torch.rand(100, 9000, dtype=dtype, device=device)
    assert_accurate(torch.mean, (smem.mean(x, 1, kernel=kernel), (x, 1)))
    assert_accurate(torch.mean, (smem.mean(x.mT, 0, kernel=kernel), (x.mT, 0)))


# ------------------------------------------------------------------------------------------ trace

PROBLEMS = [
    # shape, dim: rows and columns, whole vectors and odd sizes, one split and several
    *[((40, 64), 1), ((5, 2048), 1), ((3, 4095), 1), ((2, 70_000), 1)],
    *[((64, 320), 0), ((3000, 80), 0), ((513, 64), 0), ((4, 300, 16), 1), ((4000, 3), 0)],
    # less than a tile, few rows, few columns
    *[((9, 504), 1), ((5, 7, 64), 1), ((3, 9, 40), 1), ((3, 30, 33), 1)],
    *[((17_000, 4), 0), ((17_000, 3), 0)],
]
# Few columns, of a number that is no power of two: some of their partials are in the same bank.
MEETING = ((17_000, 3), 0)


@pytest.mark.parametrize(("shape", "dim"), PROBLEMS, ids=short)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.uint8])
def test_trace_has_no_conflicts_and_no_faults(dtype: torch.dtype, shape: tuple, dim: int) -> None:
    x = normal(*shape).to(dtype)
    for kernel in ("auto", *KERNELS):
        report = smem.trace("sum", x, dim, kernel=kernel)
        assert report.faults == ()
        assert report.conflicts <= (report.wavefronts // 2 if (shape, dim) == MEETING else 0)
        # A vector that a row ends in and the next one begins in may be read for both.
        row = x.shape[-1] * x.element_size()
        assert 1 <= report.times_read("x") <= (1 + 16 / row if dim == 1 and row % 16 else 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.uint8])
def test_trace_of_columns_whose_rows_begin_anywhere(dtype: torch.dtype) -> None:
    """Few sectors are read twice, and no read of a row is outside of its shared memory.

    A panel of 128 bytes that begins inside a sector reads five.
    """
    for rows, first, columns, pitch in (
        *[(70, 0, 131, 131), (300, 0, 67, 67), (513, 0, 33, 33), (9, 3, 1031, 1040)],
        *[(256, 3, 512, 521), (256, 8, 512, 521)],  # of bytes, some begin 31 past a sector
    ):
        x = (40 * torch.rand(rows, pitch)).to(dtype)[:, first : first + columns]
        report = smem.trace("sum", x, 0, kernel="columns")
        assert report.faults == (), (rows, first, columns)
        row_bytes = columns * dtype.itemsize
        most = 1.15 if row_bytes >= 2048 else 1.2 if row_bytes >= 512 else 2
        assert report.times_read("x") <= most, (rows, first, columns)


def test_trace_of_every_operator() -> None:
    for name in NAMES:
        report = smem.trace(name, normal(7, 500), 1)
        assert report.kernel == "rows"
        assert report.faults == ()
        assert report.op == name


def test_rows_and_columns_read_whole_sectors() -> None:
    """16 bytes a lane along rows and across columns: 16 sectors a request."""
    for x, dim, kernel in ((normal(4, 4096), 1, "rows"), (normal(2048, 256), 0, "columns")):
        report = smem.trace("sum", x, dim)
        assert report.launches[0].kernel == kernel
        (load,) = (
            line for line in report.launches[0].lines if line.memory == "x" and line.requests
        )
        assert load.bytes_a_lane == 16
        assert load.sectors_a_request == 16
