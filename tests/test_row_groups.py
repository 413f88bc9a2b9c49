"""fp16x3 in groups of rows: where out has few tiles, each group splits B itself. The bits stay."""

import itertools

import pytest
import torch
from fp16x3_checks import fp16x3, special
from helpers import laid_out, normal, poisoned_out, same_bits, short

import torch_smem_gemm as smem

PRODUCT = "fp16x3:wgmma"  # a variant that is named takes no groups

# M, N and K, and the rows of a group: even groups, and groups that end with the same row as others
# begin with; K in slices; columns that are not whole vectors. The limits are those of 132 SMs.
SIZES = [((17, 40, 300), 9), ((65, 200, 72), 13), ((50, 33, 2100), 14)]
LONG = [
    *(((67, 72, 520), 15), ((100, 516, 72), 25), ((131, 258, 129), 27), ((128, 1040, 128), 64)),
    *(((97, 2048, 128), 49), ((100, 96, 2500), 16)),
]
on_the_cpu = pytest.mark.parametrize(
    ("size", "rows"),
    [*SIZES, *(pytest.param(*x, marks=pytest.mark.sweep) for x in LONG)],
    ids=short,
)
LARGE = [
    *((128, 1024, 4096), (100, 2048, 1000), (65, 8192, 16_384), (127, 4096, 4096)),
    *((196, 384, 4608), (256, 256, 1216), (333, 100, 5000), (64, 512, 1792), (48, 885, 3535)),
    *((42, 94, 12_088), (31, 130, 9300), (250, 500, 768), (1000, 72, 2000)),
]


def assert_same_bits(size: tuple[int, int, int], device: str) -> None:
    m, n, k = size
    a, b = special(normal(m, k, device=device)), special(normal(n, k, device=device)).mT
    bias, c = normal(n, device=device), normal(m, n, device=device)
    for a_layout, b_layout in itertools.product(("contiguous", "transposed"), repeat=2):
        x, y = laid_out(a, a_layout), laid_out(b, b_layout)
        expected = fp16x3(x, y, PRODUCT)
        assert expected.isfinite().any()
        out, check_gaps = poisoned_out((m, n), torch.float32, device, b_layout)
        fp16x3(x, y, out=out)
        check_gaps()
        assert same_bits(out, expected), (a_layout, b_layout)
    for options in ({"bias": bias, "activation": "gelu"}, {"c": c, "beta": 0.5}):
        assert same_bits(fp16x3(a, b, **options), fp16x3(a, b, PRODUCT, **options)), options


@on_the_cpu
def test_bits_are_those_of_the_product(size: tuple[int, int, int], rows: int) -> None:
    assert_same_bits(size, "cpu")


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("size", [*(size for size, _ in SIZES + LONG), *LARGE], ids=short)
def test_bits_are_those_of_the_product_on_the_gpu(size: tuple[int, int, int]) -> None:
    assert_same_bits(size, "cuda")


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
def test_a_row_has_the_same_bits_at_every_m() -> None:
    """In no group, alone in one, in groups of every size, and stored twice."""
    for n, k in ((1024, 4096), (384, 4608), (500, 2000), (2048, 1000), (130, 9300)):
        a, b = special(normal(700, k, device="cuda")), special(normal(n, k, device="cuda")).mT
        whole = smem.gemm(a, b)
        for m in (1, 2, 15, 16, 17, 31, 33, 47, 64, 65, 67, 99, 128, 129, 131, 200, 257, 512):
            assert same_bits(smem.gemm(a[5 : 5 + m], b), whole[5 : 5 + m]), (n, k, m)


@pytest.mark.parametrize("timing", ["early", "late"])
@on_the_cpu
def test_a_trace_shows_the_groups(
    size: tuple[int, int, int], rows: int, timing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    m, n, k = size
    a, b = normal(m, k), normal(n, k).mT
    launches = smem.trace("gemm", a, b, kernel="fp16x3").launches
    assert [launch.faults for launch in launches] == [()] * len(launches)
    assert launches[1].kernel == "fp16x3 skinny M"
    plan = smem.plan(torch.empty(m, k), torch.empty(n, k).mT, kernel="fp16x3", device="H200")
    assert plan.reason == f"named; by the kernel for a small M, {rows} rows at a time"
    named = [launch.kernel for launch in smem.trace("gemm", a, b, kernel=PRODUCT).launches]
    assert ("fp16x3" in named) == (m > 64)


@pytest.mark.parametrize("m", [65, 67])
def test_c_may_be_out(m: int) -> None:
    """Also if the groups would share rows."""
    a, b, c = normal(m, 300), normal(300, 72), normal(m, 72)
    expected = fp16x3(a, b, PRODUCT, c=c, beta=-2.0)
    fp16x3(a, b, c=c, beta=-2.0, out=c)
    assert same_bits(c, expected)


@pytest.mark.parametrize(
    ("size", "device"),
    [((128, 4240, 4096), "H200"), ((129, 2048, 512), "H200"), ((100, 512, 512), "A100")],
)
def test_no_groups(size: tuple[int, int, int], device: str) -> None:
    """More blocks than run at once; and a GPU without TMA, on which groups are not measured."""
    m, n, k = size
    plan = smem.plan(torch.empty(m, k), torch.empty(k, n), kernel="fp16x3", device=device)
    assert "rows at a time" not in plan.reason
