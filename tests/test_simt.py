"""simt: its tiles, cuts of K and packed operands all give the bits of the other SIMT kernels."""

import pytest
import torch
from helpers import LAYOUTS, by_sweep, laid_out, normal, poisoned, same_bits, short

import torch_smem_gemm as smem
from torch_smem_gemm.ops.plan import gemm_problem, plan_problem

TILES = next(row for row in smem.kernels("gemm") if row.name == "simt").variants
DTYPES = [torch.float32, torch.float64]
BY_WARP = ("32x4", "16x2", "8x8")
ONLY_FLOAT32 = ("64x128", "128x64", "4x128", "64x144", "128x48", *BY_WARP)
DIRECT = (*(tile for tile in TILES if tile.endswith("_ldg")), *BY_WARP)

SIZES = [
    # M, K, N
    (1, 1, 1),
    (37, 45, 66),
    (136, 64, 136),  # K of one chunk
    (130, 65, 5),
    (65, 130, 146),  # beyond the widest tile
    (5, 1024, 130),  # of one superchunk
    (9, 1100, 17),  # cut at chunks
    (3, 4500, 5),  # chunks of 128, the last of 20
]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    ("dtype", "m", "k", "n"),
    [
        # Where K is cut is no business of the dtype.
        pytest.param(
            *(dtype, m, k, n),
            marks=[pytest.mark.sweep] if dtype == torch.float64 and k > 100 else [],
        )
        for dtype in DTYPES
        for m, k, n in SIZES
    ],
    ids=short,
)
@pytest.mark.one_in(3)
def test_bits_of_every_tile(
    tile: str, dtype: torch.dtype, m: int, k: int, n: int, device: str
) -> None:
    a, b = normal(m, k, dtype=dtype, device=device), normal(k, n, dtype=dtype, device=device)
    if dtype == torch.float64 and (tile in ONLY_FLOAT32 or tile.endswith("_ldg")):
        with pytest.raises(RuntimeError, match=f"has no variant '{tile}' for float64"):
            smem.gemm(a, b, kernel=f"simt:{tile}")
        return
    out = poisoned((m, n), dtype, device)
    smem.gemm(a, b, kernel=f"simt:{tile}", out=out)
    assert same_bits(out, smem.gemm(a, b, kernel="vectorized"))


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    "shape",
    # members, M, K, N
    by_sweep(
        [(1, 140, 40, 132), (2, 33, 29, 35), (2, 140, 40, 132), (1, 33, 29, 35)],
        *[(1, 140, 40, 132), (2, 33, 29, 35)],
    ),
    ids=short,
)
def test_bits_in_every_layout(tile: str, shape: tuple, device: str) -> None:
    """Runs along M, N or K, turned by the blocks or before, and single elements."""
    members, m, k, n = shape
    a, b = normal(2, m, k, device=device), normal(2, k, n, device=device)
    expected = smem.gemm(a, b, kernel="vectorized")[:members]
    for layout_a in ("contiguous", "transposed", "unaligned", "apart", "step2"):
        for layout_b in ("contiguous", "transposed", "unaligned_transposed"):
            assert {layout_a, layout_b} <= set(LAYOUTS)
            x, y = laid_out(a[:members], layout_a), laid_out(b[:members], layout_b)
            result = smem.gemm(x, y, kernel=f"simt:{tile}")
            assert same_bits(result, expected), (layout_a, layout_b)


@pytest.mark.parametrize("tile", TILES)
def test_what_every_tile_stores(tile: str, device: str) -> None:
    """Rows that begin and end anywhere, with something added to them and without."""
    for n in (35, 48, 145):
        a, b, bias = (normal(*sizes, device=device) for sizes in ((67, 20), (20, n), (n,)))
        given = {"bias": bias, "c": normal(67, n, device=device), "beta": 0.5, "activation": "silu"}
        for options in ({}, {"alpha": -2.0}, given):
            expected = smem.gemm(a, b, kernel="vectorized", **options)
            for layout in ("contiguous", "transposed", "unaligned", "step2"):
                out = laid_out(poisoned((67, n), torch.float32, device), layout)
                smem.gemm(a, b, kernel=f"simt:{tile}", out=out, **options)
                assert same_bits(out, expected), (n, layout, list(options))


@pytest.mark.parametrize("kernel", ["simt:16x16", "simt:8x8", "simt:16x2", "simt:32x4"])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 70000, 5), pytest.param(2, 2**19, 2, marks=pytest.mark.sweep)]
)
def test_cuts_of_k(kernel: str, m: int, k: int, n: int, device: str) -> None:
    """At chunks and at superchunks, more of which than one round of the second kernel adds."""
    a, b = normal(3, m, k, device=device), normal(k, n, device=device)
    bias, c = normal(n, device=device), normal(m, n, device=device)
    given = {"bias": bias, "c": c, "beta": 0.5, "alpha": 2.0, "activation": "silu"}
    result = smem.gemm(a, b, kernel=kernel, **given)
    assert same_bits(result, smem.gemm(a, b, kernel="naive", **given))
    one = smem.gemm(a[1], b, kernel=kernel, **given)
    assert same_bits(one, result[1])


def far_apart(a: torch.Tensor, stride: int) -> torch.Tensor:
    """The matrix with that stride between its rows."""
    rows, cols = a.shape
    memory = torch.empty((rows - 1) * stride + cols, device=a.device)
    return memory.as_strided((rows, cols), (stride, 1)).copy_(a)


@pytest.mark.parametrize("tile", TILES)
def test_rows_far_apart(tile: str, device: str) -> None:
    """Kernels that compute with 32 bits refuse them, with the limit; the others give the bits."""
    a, b = normal(2, 9, device=device), normal(9, 5, device=device)
    far = far_apart(a, 2**26 + 1)
    if tile == "16x16" or tile in DIRECT:
        result = smem.gemm(far, b, kernel=f"simt:{tile}")
        assert same_bits(result, smem.gemm(a, b, kernel="vectorized"))
        return
    refusal = "takes operands that are not whole vectors with K and strides of up to 67108863, "
    found = rf"got K 9, strides \({2**26 + 1}, 1\) of a and \(5, 1\) of b"
    with pytest.raises(RuntimeError, match=f"^smem.gemm: kernel 'simt:{tile}' {refusal}{found}"):
        smem.gemm(far, b, kernel=f"simt:{tile}")


@pytest.mark.parametrize("tile", ["64x64", "32x128", "128x32", "4x128"])
def test_vectors_of_rows_far_apart(tile: str, device: str) -> None:
    a, b = normal(2, 40, device=device), normal(12, 40, device=device).mT
    result = smem.gemm(far_apart(a, 2**26), b, kernel=f"simt:{tile}")
    assert same_bits(result, smem.gemm(a, b, kernel="vectorized"))


@pytest.mark.parametrize("shared", ["none", "a", "b"])
@pytest.mark.one_in(3)
def test_members_are_packed(shared: str, device: str) -> None:
    """Each into its place; an operand that all members share once."""
    a, b = normal(2, 513, 515, device=device), normal(2, 600, 515, device=device).mT
    x, y = a[:1] if shared == "a" else a, b[0] if shared == "b" else b
    kernel = "simt:64x64"
    assert "packed first" in plan_problem(x.dtype, gemm_problem(x, y), kernel=kernel).reason
    result = smem.gemm(x, y, kernel=kernel)
    assert same_bits(result, smem.gemm(x, y, kernel="register_tiled"))


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.one_in(3)
def test_traced_without_faults(tile: str) -> None:
    """Cut along K, packed where the tile packs, ragged in all directions."""
    trace = smem.trace("gemm", normal(33, 1090), normal(1090, 21), kernel=f"simt:{tile}")
    assert trace.faults == ()
    assert trace.launches[-1].kernel == ("simt" if tile in DIRECT else "simt reduce")
