"""fp16x3 with a small M, where B is split inside the product: the bits of a large M."""

import functools
import math
from collections.abc import Callable

import pytest
import torch
from fp16x3_checks import LARGE_M, VARIANTS, assert_rows_have_the_bits_of_a_large_m, every_data
from helpers import laid_out, normal, poisoned_out, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]


Product = Callable[..., Tensor]


@pytest.fixture(params=VARIANTS)
def fp16x3(request: pytest.FixtureRequest) -> Product:
    """A is loaded by TMA or by cp.async."""
    return functools.partial(smem.gemm, kernel=request.param)


SKINNY_M = (1, 7, 8, 9, 16, 17, 32, 33, 64)  # the limits of its policies, and one beyond

# N and K: whole tiles and stages, and others; columns that cannot be loaded by vectors; the last
# five have more than 2^15 elements per column, or split-K.
SIZES = [
    (1024, 512),
    (520, 1000),
    (640, 772),
    (777, 640),
    (528, 132),
    (2048, 96),
    (545, 1001),
    (2056, 33_000),
    (64, 8192),
    (130, 5001),
    (520, 9300),
    (1030, 17_001),
]


@pytest.mark.parametrize("major", ["K", "MN"])
@every_data
@pytest.mark.parametrize("size", SIZES, ids=short)
def test_rows_have_the_bits_of_a_large_m(
    size: tuple[int, int], data: Callable[[Tensor, Tensor], None], major: str, fp16x3: Product
) -> None:
    n, k = size
    x, w, bias = normal(LARGE_M, k, device="cuda"), normal(n, k, device="cuda"), normal(n)
    data(x, w)
    b = w.mT.contiguous() if major == "MN" else w.mT
    assert_rows_have_the_bits_of_a_large_m(fp16x3, x, b, bias.cuda(), SKINNY_M)


@pytest.mark.parametrize("b_layout", ["contiguous", "transposed", "unaligned", "step2"])
def test_every_layout_gives_the_same_bits(b_layout: str, fp16x3: Product) -> None:
    for m, n, k in ((5, 600, 700), (40, 1000, 520)):
        a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
        first = fp16x3(a, b)
        for a_layout in ("contiguous", "transposed", "unaligned", "step2"):
            assert same_bits(fp16x3(laid_out(a, a_layout), laid_out(b, b_layout)), first), a_layout
        out, check_gaps = poisoned_out((m, n), torch.float32, "cuda", b_layout)
        fp16x3(a, b, out=out)
        assert same_bits(out, first)
        check_gaps()


def test_c_may_be_out_with_the_fallback(fp16x3: Product) -> None:
    a, b, c = (normal(*s, device="cuda") for s in ((20, 192), (192, 600), (20, 600)))
    a[3, 4], b[5, 6] = math.inf, math.inf
    a[7, 0:2], b[0:2, 9] = 1e-15, 1e-15
    expected = fp16x3(a, b, c=c, alpha=0.5, beta=2.0)
    assert fp16x3(a, b, c=c, alpha=0.5, beta=2.0, out=c) is c
    assert same_bits(c, expected)


@pytest.mark.parametrize(
    "shapes",
    [
        *(((4, 9, 256), (4, 256, 520)), ((9, 256), (4, 256, 520))),
        *(((2, 3, 60, 130), (2, 1, 130, 516)), ((150, 9, 129), (150, 129, 515))),
        *(((3, 9, 171), (3, 171, 375)), ((3, 40, 171), (3, 171, 375))),
    ],
    ids=short,
)
def test_a_batch_has_the_bits_of_its_matrices(shapes: tuple, fp16x3: Product) -> None:
    a, b = (normal(*shape, device="cuda") for shape in shapes)
    b[1, ..., 5, 7] = 1e-12
    b[1, ..., 5, 8] = math.inf
    result = fp16x3(a, b)
    a, b = a.expand(*result.shape[:-2], *a.shape[-2:]), b.expand(*result.shape[:-2], *b.shape[-2:])
    for i in range(result[..., 0, 0].numel()):
        matrix, rows, columns = (x.flatten(0, -3)[i] for x in (result, a, b))
        assert same_bits(matrix, fp16x3(rows, columns)), i


def test_b_is_not_copied(fp16x3: Product) -> None:
    """Its hi and lo would take as much memory as B itself."""
    a, b = normal(8, 2048, device="cuda"), normal(2048, 4096, device="cuda")
    fp16x3(a, b)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    fp16x3(a, b)
    assert torch.cuda.max_memory_allocated() - before < b.nbytes / 10
