"""tensor_core and mma on the CPU: the GPU's source, its ldmatrix and mma.sync by the emulator.

Their bits are those of the model of Hopper's tensor cores in bench/tensor_core_model.py, and those
of wgmma, which makes the same chain of instructions.
"""

import functools
import itertools
import sys
from pathlib import Path

import pytest
import torch
from helpers import (
    ACTIVATIONS,
    OUT_LAYOUTS,
    check_rows_that_begin_anywhere,
    laid_out,
    poisoned_out,
    same_bits,
    short,
)
from torch import Tensor

import torch_smem_gemm as smem

sys.path.append(str(Path(__file__).parent.parent / "bench"))
from tensor_core_model import product

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=short)
UNALIGNED = ("mma:64x64_unaligned", "mma:16x32_unaligned", "mma:32x32_ldg")
KERNELS = ("tensor_core", "mma:64x64", "mma:16x32", *UNALIGNED)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
# Up to 16 rows a tile for few rows; ends within tiles, fragments and vectors; several stages.
SHAPES = ((1, 1, 1), (9, 33, 70), (16, 32, 129), (65, 72, 40), (70, 130, 200))


def mma(a: Tensor, b: Tensor, kernel: str, **options: object) -> Tensor:
    """On tensor cores whatever the dtype."""
    return smem.gemm(a, b, kernel=kernel, precision="tf32", **options)


def operand(rows: int, cols: int, dtype: torch.dtype) -> Tensor:
    """Numbers of very different magnitudes, so that alignment cuts off many of their bits."""
    x = torch.randn(rows, cols, dtype=torch.float64)
    return (x * torch.randint(-9, 9, (rows, cols)).double().exp2()).to(dtype)


def turned(x: Tensor, way: str) -> Tensor:
    """The same numbers; "t": in columns."""
    return laid_out(x, "transposed") if way == "t" else x


@every_kernel
@every_dtype
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.one_in(5)
def test_bits_are_those_of_the_model(dtype: torch.dtype, layout: str, kernel: str) -> None:
    for m, n, k in SHAPES:
        a, b = operand(m, k, dtype), operand(k, n, dtype)
        expected = product(a, b)
        a, b = (turned(x, way) for x, way in zip((a, b), layout, strict=True))
        assert same_bits(mma(a, b, kernel, out_dtype=torch.float32), expected), (m, n, k)
        assert same_bits(mma(a, b, kernel), expected.to(dtype)), (m, n, k)


@every_kernel
@every_dtype
def test_the_same_bits_as_wgmma(dtype: torch.dtype, kernel: str) -> None:
    """Where K is one chain for both."""
    a, b = operand(130, 200, dtype), operand(200, 72, dtype)
    assert same_bits(mma(a, b, kernel), mma(a, b, "wgmma"))


@pytest.mark.parametrize(
    ("kernel", "sizes"), [("mma", (1, 1024, 1024, 8)), ("wgmma", (256, 32, 32, 32))]
)
def test_a_dtype_has_plans_of_its_own(kernel: str, sizes: tuple[int, int, int, int]) -> None:
    """The CPU has more tiles of bfloat16, and each thread keeps its latest plans."""
    batch, m, n, k = sizes
    a = torch.randint(-4, 5, (batch, m, k)).float()
    b = torch.randint(-4, 5, (batch, k, n)).float()
    for dtype in (torch.bfloat16, torch.float16):
        out = torch.full((batch, m, n), float("nan"), dtype=dtype)
        smem.gemm(a.to(dtype), b.to(dtype), kernel=kernel, out=out)
        assert torch.equal(out.float(), (a @ b).to(dtype).float())


@pytest.mark.one_in(3)
@every_dtype
@pytest.mark.parametrize("tile", ["64x64", "16x32"])
def test_a_long_k_in_slices_has_the_bits_of_wgmma(dtype: torch.dtype, tile: str) -> None:
    wide = [(20, 260, 6400)] if (dtype, tile) == (torch.bfloat16, "64x64") else []
    for m, n, k in ((5, 3, 9000), (5, 72, 6200), *wide):
        a, b = operand(m, k, dtype), operand(k, n, dtype)
        options = {"bias": torch.randn(n).to(dtype), "activation": "silu", "alpha": 0.5}
        for given in ({}, options):
            found = mma(a, b, f"mma:{tile}", **given)
            assert same_bits(found, mma(a, b, "wgmma:64x64", **given)), (m, n, k)
        if k == 9000:
            whole = mma(a, b, f"mma:{tile}")
            assert same_bits(mma(a[2:3], b, f"mma:{tile}"), whole[2:3])


def test_a_tile_that_stages_its_accumulators_in_two_parts() -> None:
    """128x128_k32 has room for half of them."""
    a, b = operand(200, 70, torch.bfloat16), operand(70, 136, torch.bfloat16)
    expected = product(a, b)
    assert same_bits(mma(a, b, "mma:128x128_k32", out_dtype=torch.float32), expected)
    launches = smem.trace("gemm", a, b, kernel="mma:128x128_k32").launches
    assert [launch.kernel for launch in launches] == ["pack", "mma"]  # rows of 70 elements
    assert not any(launch.faults for launch in launches)
    with pytest.raises(RuntimeError, match=r"no variant '128x128_k32' for float16 on the CPU"):
        mma(a.half(), b.half(), "mma:128x128_k32")


@pytest.mark.parametrize("kernel", ["mma:256x16_ldg", "mma:16x256_ldg"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_tiles_for_few_columns_and_for_few_rows(kernel: str, layout: str) -> None:
    for m, n, k in ((1, 1, 1), (300, 5, 37), (5, 300, 18), (257, 17, 16), (18, 260, 130)):
        a, b = operand(m, k, torch.bfloat16), operand(k, n, torch.bfloat16)
        expected = product(a, b).to(torch.bfloat16)
        a, b = (turned(x, way) for x, way in zip((a, b), layout, strict=True))
        (launch,) = smem.trace("gemm", a, b, kernel=kernel).launches
        assert launch.faults == ()
        for col_stride in (1, 2):
            out = torch.zeros(m, n, col_stride, dtype=torch.bfloat16)
            mma(a, b, kernel, out=out[..., 0])
            assert same_bits(out[..., 0].contiguous(), expected), (m, n, k)
            assert not out[..., 1:].any()


@every_kernel
@every_dtype
def test_epilogue_batches_and_layouts(dtype: torch.dtype, kernel: str) -> None:
    m, n, k = 70, 50, 90
    a, b, bias = torch.randn(3, m, k).to(dtype), torch.randn(k, n).to(dtype), torch.randn(n)
    z = 0.5 * torch.stack([product(x, b) for x in a]).double() + bias.to(dtype).double()
    tolerance = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-4}
    for name, activation in ACTIVATIONS.items():
        found = mma(a, b, kernel, alpha=0.5, bias=bias.to(dtype), activation=name)
        torch.testing.assert_close(found.double(), activation(z), **tolerance)
    expected = product(a[0], b).to(dtype)
    for layout in OUT_LAYOUTS:
        assert same_bits(mma(laid_out(a[0], layout), b, kernel), expected), layout
        assert same_bits(mma(a[0], laid_out(b, layout), kernel), expected), layout
        out, check_gaps = poisoned_out((m, n), dtype, "cpu", layout)
        mma(a[0], b, kernel, out=out)
        assert same_bits(out.contiguous(), expected), layout
        check_gaps()


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [
        *((torch.bfloat16, f"mma:{tile}") for tile in ("128x128_k32", "16x256_ldg", "64x64")),
        *((torch.float32, f"mma:{tile}") for tile in ("64x64", "64x64_unaligned")),
    ],
    ids=short,
)
def test_rows_of_out_that_begin_anywhere(dtype: torch.dtype, kernel: str) -> None:
    """They are stored by elements, and nothing beside them."""
    a = operand(40, 16, dtype)
    for n in (1, 5, 32, 63, 65, 71, 130):
        b = operand(16, n, dtype)
        expected = product(a, b).to(dtype)
        check_rows_that_begin_anywhere(functools.partial(mma, a, b, kernel), expected)
    launches = smem.trace("gemm", a, operand(16, 135, dtype), kernel=kernel, precision="tf32")
    assert not any(launch.faults for launch in launches.launches)


@pytest.mark.parametrize(
    "kernel", ["tensor_core", "mma", "mma:64x64", "mma:16x32", "mma:128x128_k32", *UNALIGNED]
)
def test_a_row_has_the_same_bits_at_every_number_of_rows(kernel: str) -> None:
    a, b = operand(200, 136, torch.bfloat16), operand(136, 40, torch.bfloat16)
    whole = mma(a, b, kernel)
    for m in (1, 3, 16, 17, 64, 130):
        assert same_bits(mma(a[:m], b, kernel), whole[:m]), m


# Raw rows of 16 elements, along M, have conflicts.
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "mma:16x32_unaligned"])
@every_dtype
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_the_swizzle_leaves_no_conflict(dtype: torch.dtype, layout: str, kernel: str) -> None:
    """Neither where cp.async writes a stage nor where fragments are read from it."""
    # Whole k-tiles of all kernels. A shorter K leaves a stage of tensor_core empty, which is read
    # and not multiplied.
    m, n, k = 64, 64, 192
    a, b = (
        torch.randn(*sizes).to(dtype) if way == "n" else torch.randn(*sizes[::-1]).to(dtype).mT
        for sizes, way in zip(((m, k), (k, n)), layout, strict=True)
    )
    (launch,) = smem.trace("gemm", a, b, kernel=kernel, precision="tf32").launches
    assert launch.faults == ()
    assert launch.fma == m * n * k
    loads = [line for line in launch.lines if line.action == "load" and line.memory == "shared"]
    assert loads
    assert sum(line.conflicts for line in loads) == 0


@pytest.mark.gpu
@every_dtype
@pytest.mark.parametrize("kernel", [*KERNELS, "wgmma"])
def test_the_bits_of_the_gpu(dtype: torch.dtype, kernel: str, hopper: None) -> None:
    """The model is of compute capability 9.0."""
    for (m, n, k), transposed in itertools.product(SHAPES, (False, True)):
        a, b = operand(m, k, dtype), operand(k, n, dtype)
        if transposed:
            a, b = (x.mT.contiguous().mT for x in (a, b))
        found = mma(a.cuda(), b.cuda(), kernel, out_dtype=torch.float32).cpu()
        assert same_bits(mma(a, b, kernel, out_dtype=torch.float32), found), (m, n, k)


def _among_nan(
    rows: int, cols: int, dtype: torch.dtype, layout: str, begin: int, gap: int
) -> Tensor:
    """A matrix that begins ``begin`` elements into its storage; NaN lies around its rows."""
    if layout == "t":
        rows, cols = cols, rows
    storage = torch.full((begin + rows * (cols + gap),), torch.nan, dtype=dtype)
    x = storage[begin:].view(rows, cols + gap)[:, :cols]
    x.copy_(operand(rows, cols, dtype))
    return x if layout == "n" else x.mT


@every_dtype
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.one_in(5)
def test_rows_that_begin_anywhere(dtype: torch.dtype, layout: str) -> None:
    """The same bits as with packed operands; nothing beside a row reaches the product."""
    for (m, n, k), (begin, gap) in itertools.product(
        [*SHAPES, (3, 2, 300), (130, 5, 2), (40, 1, 33)], [(0, 0), (0, 1), (3, 5)]
    ):
        a = _among_nan(m, k, dtype, layout[0], begin, gap)
        b = _among_nan(k, n, dtype, layout[1], begin, gap)
        expected = mma(a.contiguous(), b.contiguous(), "mma:64x64")
        for kernel in UNALIGNED:
            assert same_bits(mma(a, b, kernel), expected), (m, n, k, begin, gap, kernel)


def test_rows_that_begin_anywhere_are_not_packed() -> None:
    """By tiles that load them: one launch, which reads nothing beside the operands."""
    a, b = operand(70, 131, torch.bfloat16)[1:, 1:], operand(131, 35, torch.bfloat16)[1:]
    for kernel in UNALIGNED:
        (launch,) = smem.trace("gemm", a, b, kernel=kernel).launches
        assert launch.kernel == "mma"
        assert launch.faults == ()


@pytest.mark.gpu
@every_dtype
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_tiles_for_unaligned_rows_have_the_bits_of_wgmma(
    dtype: torch.dtype, layout: str, hopper: None
) -> None:
    """With every epilogue: auto chooses between them by M, too."""
    names = next(row for row in smem.kernels("gemm") if row.name == "mma").variants
    tiles = [f"mma:{name}" for name in names if name.endswith(("_unaligned", "_ldg"))]
    for m, n, k in ((1, 1, 1), (70, 131, 203), (200, 3, 1000), (5, 77, 9000), (300, 515, 2)):
        a = _among_nan(m, k, dtype, layout[0], 1, 1).cuda()
        b = _among_nan(k, n, dtype, layout[1], 1, 1).cuda()
        bias, c = torch.randn(n).to(dtype).cuda(), torch.randn(m, n).to(dtype).cuda()
        epilogues = [
            {},
            {"alpha": 0.5, "bias": bias},
            {"c": c, "beta": 0.5},
            *({"bias": bias, "activation": name} for name in ACTIVATIONS),
        ]
        if dtype != torch.float32:
            epilogues += [{"out_dtype": torch.float32}]
        for options in epilogues:
            expected = mma(a, b, "wgmma", **options)
            for tile in ("auto", *tiles):
                assert same_bits(mma(a, b, tile, **options), expected), (m, n, k, tile, options)
