"""smem.gemm on Hopper's tensor cores: every tile is right, and all of them give the same bits.

The tiles of mma are among them: its mma.sync makes the chains of products that wgmma makes.
"""

import functools
import itertools
from typing import Any

import pytest
import torch
from helpers import (
    check_rows_that_begin_anywhere,
    laid_out,
    normal,
    poisoned_out,
    same_bits,
    short,
)
from torch import Tensor

import torch_smem_gemm as smem

KERNELS = {row.name: row for row in smem.kernels("gemm")}
WGMMA_TILES = [f"wgmma:{variant}" for variant in KERNELS["wgmma"].variants]
MMA_TILES = [f"mma:{variant}" for variant in KERNELS["mma"].variants]
TILES = WGMMA_TILES + MMA_TILES
WGMMA_TILES_OF_FLOATS = [
    f"wgmma:{variant}"
    for variant in (
        *("128x256_cluster2", "128x192_cluster2", "128x128", "128x64"),
        *("64x128", "64x64", "64x32", "64x64_3cta"),
    )
]
OF_FLOATS = WGMMA_TILES_OF_FLOATS + MMA_TILES

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=short)
every_tile = pytest.mark.parametrize(
    ("dtype", "tile"),
    [(torch.bfloat16, tile) for tile in ("wgmma", "mma", *TILES)]
    + [(torch.float32, tile) for tile in ("wgmma", "mma", *OF_FLOATS)],
    ids=short,
)


# M, N, K: single elements, tiles' edges, sizes that TMA cannot read or write in place,
# K in slices, with few rows and with many.
SHAPES = (
    ((1, 1, 1), (3, 2, 1), (4, 16, 16), (7, 40, 64), (65, 72, 72), (129, 257, 100)),
    ((1, 4096, 4096), (16, 1024, 512), (130, 264, 136), (200, 8, 2048), (31, 4096, 24)),
    ((333, 511, 255), (1000, 1001, 999), (300, 4104, 300), (513, 1032, 4096)),
    ((5, 3, 9000), (64, 64, 20000), (77, 250, 8200), (100, 72, 6200), (2000, 24, 64)),
    ((5, 264, 6400), (100, 300, 7200), (2000, 512, 12352)),
    ((9000, 57, 6300), (3000, 128, 8200), (2048, 4096, 512)),
)


def gemm(a: Tensor, b: Tensor, kernel: str, **options: Any) -> Tensor:
    """On tensor cores whatever the dtype."""
    return smem.gemm(a, b, kernel=kernel, precision="tf32", **options)


def exact(*shape: int, dtype: torch.dtype) -> Tensor:
    """Normal numbers that tensor cores multiply as they are."""
    x = normal(*shape, dtype=dtype, device="cuda")
    return x if dtype != torch.float32 else (x.view(torch.int32) & ~0x1FFF).view(dtype)


def products(a: Tensor, b: Tensor, kernel: str) -> dict[str, Tensor]:
    """Every way in which sums leave the kernel."""
    m, n = a.shape[0], b.shape[1]
    like = {"dtype": a.dtype, "device": "cuda"}
    bias = torch.linspace(-2, 2, n, **like)
    c = torch.linspace(-3, 3, m * n, **like).view(m, n)
    return {
        "plain": gemm(a, b, kernel),
        "relu": gemm(a, b, kernel, bias=bias, activation="relu"),
        "gelu": gemm(a, b, kernel, bias=bias, activation="gelu"),
        "gelu_tanh": gemm(a, b, kernel, bias=bias, activation="gelu_tanh"),
        "silu": gemm(a, b, kernel, activation="silu"),
        "c": gemm(a, b, kernel, c=c, alpha=0.5, beta=2.0),
        "float32": gemm(a, b, kernel, out_dtype=torch.float32),
    }


@every_dtype
@pytest.mark.parametrize("shapes", SHAPES, ids=["small", "thin", "odd", "chunks", "wide", "rows"])
def test_every_tile_is_right_and_gives_the_same_bits(
    shapes: tuple[tuple[int, int, int], ...], dtype: torch.dtype
) -> None:
    for m, n, k in shapes:
        a, b = exact(m, k, dtype=dtype), exact(k, n, dtype=dtype)
        k_of_16_bits = -(-k * dtype.itemsize // 128) * 64  # csrc/gemm/accum_interval.cpp
        in_chunks = k_of_16_bits >= max(3072, 12 * n) if n <= 512 else k >= 24 * n
        first = products(a, b, TILES[0] if in_chunks else "tensor_core")
        magnitude = a.double().abs() @ b.double().abs()
        error = ((first["float32"] - a.double() @ b.double()).abs() / magnitude).max()
        assert error <= 2e-6, (m, n, k)
        for turn_a, turn_b in itertools.product(("contiguous", "transposed"), repeat=2):
            operands = laid_out(a, turn_a), laid_out(b, turn_b)
            for tile in OF_FLOATS if dtype == torch.float32 else TILES:
                for name, result in products(*operands, tile).items():
                    assert same_bits(result, first[name]), (m, n, k, turn_a, turn_b, tile, name)


@every_tile
@pytest.mark.parametrize("turns", [("contiguous",) * 2, ("transposed",) * 2], ids=short)
def test_rows_do_not_depend_on_m(turns: tuple[str, str], dtype: torch.dtype, tile: str) -> None:
    sizes = (1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257)
    sizes_of_b = ((4096, 4096), (1000, 1000), (64, 16384), (72, 6500), (257, 8200), (4097, 333))
    for n, k in (*sizes_of_b, (8, 64)):
        x = laid_out(normal(2048, k, dtype=dtype, device="cuda"), turns[0])
        w = laid_out(normal(k, n, dtype=dtype, device="cuda"), turns[1])
        whole = gemm(x, w, "wgmma")
        for m in (*sizes, 500, 1000, 1024, 1500, 2048):
            assert same_bits(gemm(x[:m], w, tile), whole[:m]), (n, k, m)
        assert same_bits(gemm(x[1000:1077], w, tile), whole[1000:1077]), (n, k)


@every_tile
def test_rows_of_out_that_begin_anywhere(dtype: torch.dtype, tile: str) -> None:
    for m, n in ((70, 1), (129, 63), (600, 333), (200, 130), (260, 515), (3, 1000), (3000, 57)):
        a, b = exact(m, 40, dtype=dtype), exact(40, n, dtype=dtype)
        expected = gemm(a, b, "wgmma:64x64")
        check_rows_that_begin_anywhere(functools.partial(gemm, a, b, tile), expected)


@every_dtype
def test_tiles_overlap_where_rows_begin_within_sectors(dtype: torch.dtype) -> None:
    """Each of them stores whole sectors (csrc/gemm/sm90/stored_columns.h)."""
    tiles = [f"wgmma:{name}" for name in ("128x256_cluster2", "128x192_cluster2", "128x128")]
    overlapping = set()
    for m, n in ((1000, 5001), (1000, 5004), (300, 30_007), (1000, 991)):
        a, b = exact(m, 16, dtype=dtype), exact(n, 16, dtype=dtype).t()
        expected = gemm(a, b, "mma:64x64")
        for tile in tiles:
            if "and 16 more" in smem.plan(a, b, kernel=tile, precision="tf32").reason:
                overlapping.add(tile)
            write = functools.partial(gemm, a, b, tile)
            check_rows_that_begin_anywhere(write, expected, begins=(0, 1, 8), gaps=(0, 1, 11))
    assert overlapping == set(tiles)


BATCHES = (
    ((8, 64, 128), (8, 128, 96)),
    ((5, 33, 70), (70, 50)),
    ((33, 72), (6, 72, 40)),
    ((2, 1, 40, 64), (3, 64, 72)),
    ((2, 3, 40, 64), (2, 3, 64, 72)),
    ((300, 16, 16), (300, 16, 16)),
    ((4, 100, 128), (4, 128, 8)),
)


@every_tile
@pytest.mark.parametrize("shapes", BATCHES, ids=short)
def test_batches_and_outputs_of_every_layout(shapes: tuple, dtype: torch.dtype, tile: str) -> None:
    a, b = (exact(*shape, dtype=dtype) for shape in shapes)
    first = gemm(a, b, "tensor_core")
    torch.testing.assert_close(first, a @ b, rtol=2e-2, atol=1e-1)
    for turn_a, turn_b in itertools.product(("contiguous", "transposed"), repeat=2):
        assert same_bits(gemm(laid_out(a, turn_a), laid_out(b, turn_b), tile), first)
    for layout in ("transposed", "unaligned", "step2", "apart"):
        out, check_gaps = poisoned_out(first.shape, first.dtype, "cuda", layout)
        gemm(a, b, tile, out=out)
        assert same_bits(out, first), layout
        check_gaps()


def test_an_unknown_variant_is_refused() -> None:
    a = torch.ones(2, 2, dtype=torch.float16, device="cuda")
    with pytest.raises(ValueError, match=r"^smem.gemm: kernel is 'wgmma:3x3', expected one of"):
        smem.gemm(a, a, kernel="wgmma:3x3")
    with pytest.raises(RuntimeError, match=r"^smem.gemm: kernel 'naive' has 0 variants, got numb"):
        torch.ops.smem.gemm(a, a, kernel_id=257)


def test_floats_have_some_of_the_tiles() -> None:
    a = torch.ones(2, 2, device="cuda")
    for tile in set(WGMMA_TILES) - set(WGMMA_TILES_OF_FLOATS):
        variant = tile.removeprefix("wgmma:")
        refusal = f"^smem.gemm: kernel 'wgmma' has no variant '{variant}' for float32$"
        with pytest.raises(RuntimeError, match=refusal):
            gemm(a, a, tile)
