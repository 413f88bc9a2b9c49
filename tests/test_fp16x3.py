"""kernel="fp16x3": float32's accuracy on tensor cores, for every kind of number and variant."""

import functools
import math
from collections.abc import Callable

import pytest
import torch
from fp16x3_checks import VARIANTS, assert_within_bound, set_extremes
from helpers import laid_out, normal, poisoned_out, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import chip
from torch_smem_gemm.bench.bounds import ULP
from torch_smem_gemm.bench.numbers import DATA, errors

pytestmark = pytest.mark.gpu

Product = Callable[..., Tensor]


@pytest.fixture(params=VARIANTS)
def fp16x3(request: pytest.FixtureRequest) -> Product:
    """The product by a variant that the GPU has code for."""
    gpu = chip("cuda")
    is_hopper = gpu.capability == gpu.code_capability == 90
    if gpu.code_capability < 80 or (request.param == "fp16x3:wgmma" and not is_hopper):
        pytest.skip(f"{request.param} has no code for this GPU")
    return functools.partial(smem.gemm, kernel=request.param)


@pytest.mark.parametrize("k", [16, 100, 513, 1024, 4096, 16384, 65536])
@pytest.mark.parametrize("data", DATA)
def test_random_data_never_worse_than_sgemm_and_no_growth_with_k(
    data: str, k: int, fp16x3: Product
) -> None:
    """What docs/accuracy.md measures; what it promises on any data, test_worst_case.py tests."""
    a, b = DATA[data](130, k, "cuda"), DATA[data](200, k, "cuda").mT
    norm, largest = errors(fp16x3(a, b), a, b)
    torchs, _ = errors(a @ b, a, b)
    assert norm <= max(torchs, 1.2e-7) or data == "cancelling"
    assert largest <= 16


# N and K with split-K, from two slices to many: csrc/gemm/fp16x3/split_k.cu.
SPLIT_K = [(16, 2048), (64, 262_144), (255, 9001), (256, 65_536), (511, 8200), (7, 40_000)]


@pytest.mark.parametrize("data", ["normal", "uniform", "half zeros", "wide", "cancelling"])
@pytest.mark.parametrize(("n", "k"), SPLIT_K)
def test_split_k_is_as_exact(n: int, k: int, data: str, fp16x3: Product) -> None:
    a, b = DATA[data](70, k, "cuda"), DATA[data](n, k, "cuda").mT
    norm, largest = errors(fp16x3(a, b), a, b)
    torchs, _ = errors(a @ b, a, b)
    # A few products make the norm of wide data: 2e-8 to 9e-8 in six draws.
    assert norm <= max(torchs, 1.2e-7) or data in ("cancelling", "wide")
    assert largest <= 16


@pytest.mark.parametrize(("n", "k"), SPLIT_K)
def test_split_k_does_not_depend_on_m_or_layout(n: int, k: int, fp16x3: Product) -> None:
    x, w = normal(301, k, device="cuda"), normal(k, n, device="cuda")
    x[3, k // 2] = math.inf
    x[200, 0], x[200, 1] = 1e-30, 1e8
    x[150, k - 1] = 1e-15
    whole = fp16x3(x, w)
    for m in (1, 16, 129):
        assert same_bits(fp16x3(x[:m], w), whole[:m]), m
    assert same_bits(fp16x3(x[140:210], w), whole[140:210])
    for layout in ("transposed", "unaligned", "step2"):
        assert same_bits(fp16x3(laid_out(x, layout), laid_out(w, layout)), whole), layout


@pytest.mark.parametrize("side", ["rows", "columns"])
def test_fallback_with_split_k(side: str, fp16x3: Product) -> None:
    """In one chunk, in several, at their ends, and one element too small in each of two."""
    m, n, k = 140, 60, 20_000
    a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
    lines = a if side == "rows" else b.mT
    for line, places in {
        3: [(0, 1e-12), (1, 1e-13)],
        5: [(1023, 1e-12), (1024, 1e-12)],
        9: [(k - 2, 1e-12), (k - 1, 1e-13), (7000, 1e-12), (7001, 1e-12)],
        40: [(5000, math.inf)],
        41: [(5000, math.inf), (15_000, -math.inf)],
        42: [(19_999, math.nan)],
    }.items():
        for at, number in places:
            lines[line, at] = number
    c, bias = normal(m, n, device="cuda"), normal(n, device="cuda")
    options = {"c": c, "alpha": 0.5, "beta": 2.0, "bias": bias}
    plain, result = fp16x3(a, b), fp16x3(a, b, **options)
    assert_within_bound(plain, a, b)
    finite = (a @ b).isfinite()
    wanted = (0.5 * plain + 2.0 * c + bias)[finite]
    torch.testing.assert_close(result[finite], wanted, rtol=1e-5, atol=1e-4)
    assert same_bits(fp16x3(a, b, **(options | {"out": c})), result)


@pytest.mark.parametrize("a_layout", ["contiguous", "transposed", "unaligned", "step2"])
@pytest.mark.parametrize("b_layout", ["contiguous", "transposed", "unaligned_transposed"])
def test_layouts_give_the_same_bits(a_layout: str, b_layout: str, fp16x3: Product) -> None:
    for m, n, k in ((1, 1, 1), (130, 200, 72), (129, 131, 1000), (256, 128, 513)):
        a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
        first = fp16x3(a, b)
        assert same_bits(fp16x3(laid_out(a, a_layout), laid_out(b, b_layout)), first), (m, n, k)
        out, check_gaps = poisoned_out((m, n), torch.float32, "cuda", b_layout)
        fp16x3(a, b, out=out)
        assert same_bits(out, first)
        check_gaps()


def test_rows_do_not_depend_on_m_or_on_each_other(fp16x3: Product) -> None:
    # Of 4299 columns in rows that are no whole vectors single elements are loaded.
    for n, k in ((520, 1000), (4096, 4096), (77, 5000), (80, 5000), (2048, 64), (4299, 300)):
        x, w = normal(1500, k, device="cuda"), normal(k, n, device="cuda")
        x[3, k // 2] = math.inf
        x[700, 0], x[700, 1] = 1e-30, 1e8
        whole = fp16x3(x, w)
        for m in (1, 2, 7, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129, 500, 1024):
            assert same_bits(fp16x3(x[:m], w), whole[:m]), (n, k, m)
        assert same_bits(fp16x3(x[690:760], w), whole[690:760])
        assert same_bits(fp16x3(x, w), whole)


@pytest.mark.parametrize("m", [1030, 2048, 2300, 4096])
def test_pairs_of_blocks_give_the_same_bits(m: int, fp16x3: Product) -> None:
    """So many tiles of so long a K are computed by clusters, if their rows are an even number."""
    x, w = normal(m, 5000, device="cuda"), normal(5000, 700, device="cuda")
    x[m - 1, 0], x[m - 1, 1] = 1e-30, 1e8
    x[m - 2, 7] = 1e-15
    w[9, 699], w[8, 699] = 1e-12, 1e-13
    whole = fp16x3(x, w)
    for first in range(0, m, 128):  # one row of tiles
        assert same_bits(fp16x3(x[first : first + 128], w), whole[first : first + 128]), first


@pytest.mark.parametrize("fallbacks", [1, 3, 40, 300])
@pytest.mark.parametrize("side", ["rows", "columns", "both"])
def test_fallback_rows_and_columns(side: str, fallbacks: int, fp16x3: Product) -> None:
    """They have the bits of the SIMT kernels, and no other element has."""
    a, b = normal(300, 700, device="cuda"), normal(700, 310, device="cuda")
    rows = torch.zeros(300, dtype=torch.bool, device="cuda")
    cols = torch.zeros(310, dtype=torch.bool, device="cuda")
    if side != "columns":
        rows[torch.randperm(300, device="cuda")[:fallbacks]] = True
        a[rows, 5], a[rows, 6] = 1e-12, 1e-13
    if side != "rows":
        cols[torch.randperm(310, device="cuda")[:fallbacks]] = True
        b[9, cols], b[8, cols] = 1e-12, 1e-13
    either = rows[:, None] | cols
    result, simt = fp16x3(a, b), smem.gemm(a, b, kernel="double_buffered")
    assert torch.equal(result[either], simt[either])
    assert fallbacks == 300 or not torch.equal(result[~either], simt[~either])


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "step2"])
def test_an_outlier(layout: str, fp16x3: Product) -> None:
    """Its product is the only one that is not zero."""
    for m, n, k in ((5, 7, 3), (200, 300, 100), (130, 40, 700)):
        tiny = normal(1, device="cuda") * 1e-15
        a, b = torch.zeros(m, k, device="cuda"), normal(k, n, device="cuda")
        a[:, 0], a[1:, k // 2] = 1.0, tiny
        b[0] = 0
        exact = a.double() @ b.double()
        for left, right, wanted in ((a, b, exact), (b.mT, a.mT, exact.mT)):
            result = fp16x3(laid_out(left, layout), laid_out(right, layout))
            # One fma: all other products are of zeros.
            assert ((result - wanted).abs() <= ULP * wanted.abs()).all(), (m, n, k)


@pytest.mark.parametrize(("n", "k"), [(7, 3), (300, 100), (40, 700), (16, 4096)])
def test_outliers_of_a_row_and_a_column_may_meet(n: int, k: int, fp16x3: Product) -> None:
    """At the same k their product counts once. It is the only one that is not zero."""
    place = k * 5 // 8
    a, b = torch.zeros(200, k, device="cuda"), torch.zeros(k, n, device="cuda")
    a[:, place - 1], b[place + 1] = 1.0, 1.0
    a[:, place], b[place] = 1e-12 * torch.rand(200, device="cuda"), 1e-13
    exact = a.double() @ b.double()
    for m in (5, 200):
        result = fp16x3(a[:m], b)
        assert ((result - exact[:m]).abs() <= ULP * exact[:m]).all()


def test_numbers_that_are_not_finite_and_the_ends_of_the_range(fp16x3: Product) -> None:
    a, b = normal(200, 300, device="cuda"), normal(300, 210, device="cuda")
    set_extremes(a, b)
    assert_within_bound(fp16x3(a, b), a, b)


EPILOGUES = {
    "bias": {"bias": True},
    "bias, relu": {"bias": True, "activation": "relu"},
    "bias, gelu": {"bias": True, "activation": "gelu_tanh"},
    "c": {"c": True, "alpha": 0.5, "beta": -2.0},
}


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(epilogue: str, fp16x3: Product) -> None:
    options = dict(EPILOGUES[epilogue])
    for m, n, k in ((70, 33, 50), (300, 256, 1000)):
        a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
        tensors = {"bias": normal(n, device="cuda"), "c": normal(m, n, device="cuda")}
        given = {key: tensors.get(key, value) for key, value in options.items()}
        expected = smem.gemm(a, b, kernel="double_buffered", **given)
        torch.testing.assert_close(fp16x3(a, b, **given), expected, rtol=1e-5, atol=1e-4)


def test_c_may_be_out_where_lines_are_computed_again(fp16x3: Product) -> None:
    a, b, c = (normal(*s, device="cuda") for s in ((200, 90), (90, 131), (200, 131)))
    a[3, 4], b[5, 6] = math.inf, math.inf
    a[7, 0:2], b[0:2, 9] = 1e-15, 1e-15
    expected = fp16x3(a, b, c=c, alpha=0.5, beta=2.0)
    result = fp16x3(a, b, c=c, alpha=0.5, beta=2.0, out=c)
    assert result is c
    assert same_bits(c, expected)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 70, 90), (3, 90, 33)),
        ((5, 130, 40), (40, 50)),
        ((20, 30), (4, 30, 40)),
        ((2, 1, 9, 8), (3, 8, 7)),
        ((3, 40, 9000), (3, 9000, 48)),
        ((2, 3, 5, 5000), (3, 5000, 33)),
        ((2, 5000), (4, 5000, 64)),
    ],
    ids=short,
)
def test_batches(shapes: tuple, fp16x3: Product) -> None:
    a, b = (normal(*shape, device="cuda") for shape in shapes)
    result = fp16x3(a, b)
    exact = (a.double() @ b.double()).float()
    torch.testing.assert_close(result, exact, rtol=1e-5, atol=1e-4)
    first = fp16x3(a[(0,) * (a.dim() - 2)], b[(0,) * (b.dim() - 2)])
    assert same_bits(result[(0,) * (result.dim() - 2)], first)


@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 512), (70, 64, 20_000)])
def test_it_can_be_captured_in_a_graph(m: int, n: int, k: int, fp16x3: Product) -> None:
    a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
    fp16x3(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):  # each begins when the one before has ended, whose memory it takes
            captured = fp16x3(a, b)
    a[3, 3] = math.inf
    graph.replay()
    assert same_bits(captured, fp16x3(a, b))


def test_products_that_follow_on_what_came_before(fp16x3: Product) -> None:
    """Kernels of a product begin early, those of others in the stream must not be overtaken."""
    for m, n, k in ((256, 256, 256), (300, 64, 16_384), (40, 1000, 1001)):
        given = [(normal(m, k, device="cuda"), normal(k, n, device="cuda")) for _ in range(5)]
        alone = []
        for a, b in given:
            alone.append(fp16x3(a, b))
            torch.cuda.synchronize()
        a, b = torch.empty_like(given[0][0]), torch.empty_like(given[0][1])
        out = torch.empty_like(alone[0])
        results = []
        for _ in range(5):
            for new_a, new_b in given:
                a.copy_(new_a)
                b.copy_(new_b)
                fp16x3(a, b, out=out)
                results.append(out.clone())
        for i, result in enumerate(results):
            assert same_bits(result, alone[i % len(given)]), (m, n, k, i)
