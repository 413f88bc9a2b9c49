"""kernel="fp16x3": float32's accuracy on Hopper's tensor cores, for every kind of number."""

import math

import pytest
import torch
from gemm_kernels import takes
from helpers import laid_out, normal, poisoned_out, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.numbers import DATA, ULP, errors

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _on_hopper() -> None:
    if not takes("fp16x3", torch.float32, "cuda"):
        pytest.skip("fp16x3 needs a GPU of compute capability 9.0")


def fp16x3(a: Tensor, b: Tensor, **options: object) -> Tensor:
    return smem.gemm(a, b, kernel="fp16x3", **options)


@pytest.mark.parametrize("k", [16, 100, 513, 1024, 4096, 16384, 65536])
@pytest.mark.parametrize("data", DATA)
def test_never_worse_than_sgemm_and_no_growth_with_k(data: str, k: int) -> None:
    a, b = DATA[data](130, k, "cuda"), DATA[data](200, k, "cuda").mT
    norm, largest = errors(fp16x3(a, b), a, b)
    torchs, _ = errors(a @ b, a, b)
    assert norm <= max(torchs, 1.2e-7) or data == "cancelling"
    assert largest <= 16


@pytest.mark.parametrize("a_layout", ["contiguous", "transposed", "unaligned", "step2"])
@pytest.mark.parametrize("b_layout", ["contiguous", "transposed", "unaligned_transposed"])
def test_layouts_give_the_same_bits(a_layout: str, b_layout: str) -> None:
    for m, n, k in ((1, 1, 1), (130, 200, 72), (129, 131, 1000), (256, 128, 513)):
        a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
        first = fp16x3(a, b)
        assert same_bits(fp16x3(laid_out(a, a_layout), laid_out(b, b_layout)), first), (m, n, k)
        out, check_gaps = poisoned_out((m, n), torch.float32, "cuda", b_layout)
        fp16x3(a, b, out=out)
        assert same_bits(out, first)
        check_gaps()


def test_rows_do_not_depend_on_m_or_on_each_other() -> None:
    for n, k in ((520, 1000), (4096, 4096), (77, 5000), (2048, 64)):
        x, w = normal(1500, k, device="cuda"), normal(k, n, device="cuda")
        x[3, k // 2] = math.inf
        x[700, 0], x[700, 1] = 1e-30, 1e8
        whole = fp16x3(x, w)
        for m in (1, 2, 7, 63, 64, 65, 127, 128, 129, 500, 1024):
            assert same_bits(fp16x3(x[:m], w), whole[:m]), (n, k, m)
        assert same_bits(fp16x3(x[690:760], w), whole[690:760])
        assert same_bits(fp16x3(x, w), whole)


@pytest.mark.parametrize("marked", [1, 3, 40, 300])
@pytest.mark.parametrize("side", ["rows", "columns", "both"])
def test_lines_that_halves_cannot_carry(side: str, marked: int) -> None:
    """Are those of the SIMT kernels, and no other is."""
    a, b = normal(300, 700, device="cuda"), normal(700, 310, device="cuda")
    rows = torch.zeros(300, dtype=torch.bool, device="cuda")
    cols = torch.zeros(310, dtype=torch.bool, device="cuda")
    if side != "columns":
        rows[torch.randperm(300, device="cuda")[:marked]] = True
        a[rows, 5], a[rows, 6] = 1e-12, 1e-13
    if side != "rows":
        cols[torch.randperm(310, device="cuda")[:marked]] = True
        b[9, cols], b[8, cols] = 1e-12, 1e-13
    either = rows[:, None] | cols
    result, simt = fp16x3(a, b), smem.gemm(a, b, kernel="double_buffered")
    assert torch.equal(result[either], simt[either])
    assert marked == 300 or not torch.equal(result[~either], simt[~either])


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "step2"])
def test_an_element_that_halves_do_not_hold(layout: str) -> None:
    """It is all there is in these products, as what stands beside it meets zeros."""
    for m, n, k in ((5, 7, 3), (200, 300, 100), (130, 40, 700)):
        tiny = normal(1, device="cuda") * 1e-15
        a, b = torch.zeros(m, k, device="cuda"), normal(k, n, device="cuda")
        a[:, 0], a[1:, k // 2] = 1.0, tiny
        b[0] = 0
        exact = a.double() @ b.double()
        for left, right, wanted in ((a, b, exact), (b.mT, a.mT, exact.mT)):
            result = fp16x3(laid_out(left, layout), laid_out(right, layout))
            assert ((result - wanted).abs() <= 16 * ULP * wanted.abs()).all(), (m, n, k)


def test_numbers_that_are_not_finite_and_the_ends_of_the_range() -> None:
    a, b = normal(200, 300, device="cuda"), normal(300, 210, device="cuda")
    a[0, 0], a[1, 1], a[2, 2], b[5, 7], b[6, 8] = math.inf, -math.inf, math.nan, math.inf, math.nan
    a[10] = 0
    a[11] *= 2.0**-140
    a[12] *= 2.0**120
    b[:, 20] *= 2.0**-120
    b[:, 21] = 0
    b[:, 22] *= 2.0**-60
    result, expected = fp16x3(a, b), a @ b
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result.isinf(), expected.isinf())
    finite = expected.isfinite()
    magnitude = a.double().abs() @ b.double().abs()
    off = (result.double() - a.double() @ b.double()).abs()[finite]
    assert (off <= 16 * ULP * magnitude[finite] + 2.0**-149).all()


EPILOGUES = {
    "bias": {"bias": True},
    "bias, relu": {"bias": True, "activation": "relu"},
    "bias, gelu": {"bias": True, "activation": "gelu_tanh"},
    "c": {"c": True, "alpha": 0.5, "beta": -2.0},
}


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(epilogue: str) -> None:
    options = dict(EPILOGUES[epilogue])
    for m, n, k in ((70, 33, 50), (300, 256, 1000)):
        a, b = normal(m, k, device="cuda"), normal(k, n, device="cuda")
        tensors = {"bias": normal(n, device="cuda"), "c": normal(m, n, device="cuda")}
        given = {key: tensors.get(key, value) for key, value in options.items()}
        expected = smem.gemm(a, b, kernel="double_buffered", **given)
        torch.testing.assert_close(fp16x3(a, b, **given), expected, rtol=1e-5, atol=1e-4)


def test_c_may_be_out_where_lines_are_computed_again() -> None:
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
    ],
    ids=short,
)
def test_batches(shapes: tuple) -> None:
    a, b = (normal(*shape, device="cuda") for shape in shapes)
    result = fp16x3(a, b)
    torch.testing.assert_close(result, a @ b, rtol=1e-5, atol=1e-4)
    first = fp16x3(a[(0,) * (a.dim() - 2)], b[(0,) * (b.dim() - 2)])
    assert same_bits(result[(0,) * (result.dim() - 2)], first)


def test_it_can_be_captured_in_a_graph() -> None:
    a, b = normal(256, 512, device="cuda"), normal(512, 256, device="cuda")
    fp16x3(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = fp16x3(a, b)
    a[3, 3] = math.inf
    graph.replay()
    assert same_bits(captured, fp16x3(a, b))
