"""The fp16x3 kernels on the CPU: the GPU's source, run by csrc/cpu_emulator.

Their bits are those of bench/fp16x3_model.py, at whatever moment TMA and wgmma execute.
"""

import ctypes
import itertools
import math
import mmap
import sys
from pathlib import Path

import pytest
import torch
from fp16x3_checks import (
    VARIANTS,
    assert_within_bound,
    every_variant,
    fp16x3,
    set_extremes,
    special,
)
from helpers import ACTIVATIONS, laid_out, normal, poisoned_out, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.bounds import ULP
from torch_smem_gemm.bench.numbers import DATA

sys.path.append(str(Path(__file__).parent.parent / "bench"))
from fp16x3_model import product

TIMINGS = ("early", "late", "1", "2")
# Rows for each policy of the kernels for a small M, and beyond; ends within tiles and k blocks.
SHAPES = (
    (1, 1, 1),
    (5, 33, 200),
    (16, 64, 300),
    (30, 40, 129),
    (64, 72, 520),
    (65, 200, 72),
    (130, 72, 1100),
)
# N and K that are cut into slices: csrc/gemm/fp16x3/split_k.cu.
SPLIT_K = [
    (16, 2048),
    *(pytest.param(*x, marks=pytest.mark.sweep) for x in ((33, 3100), (7, 2100))),
]
LAYOUTS = ("nn", "nt", "tn", "tt")


def in_layout(x: Tensor, way: str) -> Tensor:
    return x.mT.contiguous().mT if way == "t" else x


@every_variant
@pytest.mark.parametrize("shape", SHAPES, ids=short)
def test_bits_are_those_of_the_model(shape: tuple[int, int, int], kernel: str) -> None:
    m, n, k = shape
    a, b = normal(m, k), normal(k, n)
    expected = product(a, b)
    for layout in LAYOUTS:
        found = fp16x3(in_layout(a, layout[0]), in_layout(b, layout[1]), kernel)
        assert same_bits(found, expected), layout


@pytest.mark.one_in(6)
@every_variant
@pytest.mark.parametrize(
    ("m", "n", "tile_n"), [(4352, 128, 64), (8576, 128, 128), (8704, 120, 128)]
)
def test_every_width_of_a_tile_gives_the_same_bits(
    m: int, n: int, tile_n: int, kernel: str
) -> None:
    """So many tiles that choose_tile (gemm_tiles.h) takes this width for the H200's 132 SMs.

    An even number of rows of 128 x 128 tiles is computed by clusters of two blocks.
    """
    a, b = normal(m, 8), normal(8, n)
    (*_, launch) = smem.trace("gemm", a[:1].expand(m, -1), b, kernel=kernel).launches
    assert launch.blocks == min(132, m // 128 * -(-n // tile_n))
    assert same_bits(fp16x3(a, b, kernel), product(a, b))


@pytest.mark.parametrize("timing", TIMINGS)
def test_bits_do_not_depend_on_the_moments(timing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    for m, n, k in ((130, 72, 1100), (40, 40, 600), (9, 70, 300)):
        a, b = normal(m, k), normal(k, n)
        assert same_bits(fp16x3(a, b), product(a, b)), (m, n, k)


@pytest.mark.one_in(5)
@every_variant
@pytest.mark.parametrize(
    ("n", "k"), [(40, 700), pytest.param(72, 257, marks=pytest.mark.sweep), *SPLIT_K]
)
def test_a_row_has_the_same_bits_at_every_number_of_rows(n: int, k: int, kernel: str) -> None:
    x, w = normal(140, k), normal(k, n)
    x[3, k // 2] = math.inf
    x[135, 0], x[135, 1] = 1e-30, 1e8
    x[7, k - 1] = 1e-15
    w[4, 5], w[6, 6] = 1e-15, math.nan
    whole = fp16x3(x, w)
    assert_within_bound(whole, x, w)
    for m in (1, 9, 30, 64, 65, 140):
        assert same_bits(fp16x3(x[:m], w, kernel), whole[:m]), m
    assert same_bits(fp16x3(x[60:130], w, kernel), whole[60:130])
    for layout in ("transposed", "unaligned", "step2"):
        given = laid_out(w, layout)
        assert same_bits(fp16x3(laid_out(x[:70], layout), given, kernel), whole[:70]), layout
        assert same_bits(fp16x3(laid_out(x[:20], layout), given, kernel), whole[:20]), layout


@pytest.mark.one_in(5)
@every_variant
@pytest.mark.parametrize("data", DATA)
def test_the_error_is_within_its_bound(data: str, kernel: str) -> None:
    for m, n, k in ((70, 40, 520), (20, 40, 520), (70, 16, 2048)):
        a, b = DATA[data](m, k, "cpu"), DATA[data](n, k, "cpu").mT
        assert_within_bound(fp16x3(a, b, kernel), a, b)


@every_variant
@pytest.mark.parametrize("m", [20, 130])
@pytest.mark.parametrize("side", ["rows", "columns"])
def test_lines_that_two_halves_cannot_represent(m: int, side: str, kernel: str) -> None:
    """They have the bits of the SIMT kernels, and others have not."""
    a, b = normal(m, 600), normal(600, 50)
    lines = torch.tensor([0, 7, 19])
    (a if side == "rows" else b.mT)[lines[:, None], torch.tensor([5, 6])] = 1e-12
    fallback = torch.zeros(m, 50, dtype=torch.bool)
    fallback[(lines, slice(None)) if side == "rows" else (slice(None), lines)] = True
    result, simt = fp16x3(a, b, kernel), smem.gemm(a, b, kernel="double_buffered")
    assert torch.equal(result[fallback], simt[fallback])
    assert not torch.equal(result[~fallback], simt[~fallback])


@every_variant
@pytest.mark.parametrize(("n", "k"), [(7, 3), (40, 700), (16, 2048)])
def test_outliers_of_a_row_and_a_column_may_meet(n: int, k: int, kernel: str) -> None:
    """At the same k their product counts once. It is the only one that is not zero."""
    place = k * 5 // 8
    a, b = torch.zeros(70, k), torch.zeros(k, n)
    a[:, place - 1], b[place + 1] = 1.0, 1.0
    a[:, place], b[place] = 1e-12 * torch.rand(70), 1e-13
    exact = a.double() @ b.double()
    for m in (5, 70):
        assert ((fp16x3(a[:m], b, kernel) - exact[:m]).abs() <= ULP * exact[:m]).all()


@every_variant
@pytest.mark.parametrize("m", [20, 130])
def test_numbers_that_are_not_finite_and_the_ends_of_the_range(m: int, kernel: str) -> None:
    a, b = normal(m, 300), normal(300, 60)
    set_extremes(a, b)
    assert_within_bound(fp16x3(a, b, kernel), a, b)


def test_a_column_that_grows_is_split_again() -> None:
    """Its scale was speculative (split_producer.h): the largest elements come last."""
    a, b = normal(9, 700), normal(700, 40) * torch.logspace(-9, 6, 700)[:, None]
    whole = fp16x3(torch.cat([a, normal(60, 700)]), b)
    assert_within_bound(whole[:9], a, b)
    for layout in ("contiguous", "transposed", "unaligned_transposed"):
        assert same_bits(fp16x3(a, laid_out(b, layout)), whole[:9]), layout


@pytest.mark.parametrize(
    ("m", "n", "k"),
    # So many columns that an SM has several blocks; blocks that have an SM to themselves.
    [(3, 4233, 150), (20, 40, 300), pytest.param(20, 16, 2100, marks=pytest.mark.sweep)],
)
def test_few_rows_by_columns_of_any_layout(m: int, n: int, k: int) -> None:
    a, b = normal(m, k), normal(k, n) * torch.logspace(-9, 6, k)[:, None]
    b[:, 1::2] = normal(k, n // 2)
    expected = fp16x3(a, b)
    assert_within_bound(expected, a, b)
    for layout in ("unaligned", "unaligned_transposed", "step2"):
        assert same_bits(fp16x3(a, laid_out(b, layout)), expected), layout


@pytest.mark.parametrize("growth", [0, 6])
@pytest.mark.parametrize("gap", [0, 1])
def test_matrices_of_a_batch_begin_anywhere(gap: int, growth: int) -> None:
    """Few rows: B's rows are copied by aligned vectors, which lie elsewhere in each matrix."""
    m, n, k = 7, 37, 171
    a, b = normal(5, m, k), normal(5, k, n) * torch.logspace(-growth, growth, k)[:, None]
    storage = torch.full((b.numel() + 100,), math.nan)
    moved = storage.as_strided(b.shape, (n * k + gap, n, 1), 1).copy_(b)
    result = fp16x3(a, moved)
    for i in range(5):
        assert same_bits(result[i], fp16x3(torch.cat([a[i], normal(60, k)]), b[i])[:m]), i


def between_unreadable_pages(x: Tensor, side: str) -> Tensor:
    """A copy of ``x`` that begins behind, or ends before, a page that nothing can read."""
    pages, page = -(-x.nbytes // mmap.PAGESIZE), mmap.PAGESIZE
    memory = mmap.mmap(-1, (pages + 2) * page)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for unreadable in (begin, begin + (pages + 1) * page):
        failed = ctypes.CDLL(None).mprotect(ctypes.c_void_p(unreadable), ctypes.c_size_t(page), 0)
        assert not failed
    first = page if side == "begin" else (pages + 1) * page - x.nbytes
    view = torch.frombuffer(memory, dtype=x.dtype, offset=first, count=x.numel())
    return view.view(x.shape).copy_(x)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect")
@pytest.mark.parametrize("side", ["begin", "end"])
@pytest.mark.parametrize("shape", [(1, 3, 129), (20, 75, 130), (3, 2121, 130)], ids=short)
def test_nothing_outside_of_b_is_read(shape: tuple[int, int, int], side: str) -> None:
    m, n, k = shape
    a, b = normal(m, k), normal(k, n)
    assert same_bits(fp16x3(a, between_unreadable_pages(b, side)), fp16x3(a, b))


@pytest.mark.one_in(5)
@every_variant
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(100, 70, 72), (10, 70, 72), pytest.param(70, 16, 2048, marks=pytest.mark.sweep)],
)
def test_epilogues(m: int, n: int, k: int, kernel: str) -> None:
    a, b, bias, c = normal(m, k), normal(k, n), normal(n), normal(m, n)
    a[3, 4], b[5, 6] = math.inf, math.nan
    a[7, 0:2], b[2, 9] = 1e-15, 1e-15
    plain = fp16x3(a, b, kernel)
    z = 0.5 * plain.double() + bias.double()
    tolerance = {"rtol": 1e-5, "atol": 1e-4, "equal_nan": True}
    for name, activation in ACTIVATIONS.items():
        found = fp16x3(a, b, kernel, alpha=0.5, bias=bias, activation=name)
        torch.testing.assert_close(found.double(), activation(z), **tolerance)
        # Without alpha, bias and relu have code of their own.
        found = fp16x3(a, b, kernel, bias=bias, activation=name)
        expected = activation(plain.double() + bias.double())
        torch.testing.assert_close(found.double(), expected, **tolerance)
    given = {"alpha": 0.5, "bias": bias, "c": c, "beta": -2.0}
    found = fp16x3(a, b, kernel, **given)
    torch.testing.assert_close(found.double(), z - 2 * c.double(), **tolerance)
    assert same_bits(fp16x3(a, b, kernel, **(given | {"out": c})), found)


@every_variant
def test_out_of_any_strides(kernel: str) -> None:
    a, b = normal(70, 90), normal(90, 50)
    expected = fp16x3(a, b)
    for layout in ("transposed", "unaligned", "unaligned_transposed", "step2"):
        out, check_gaps = poisoned_out((70, 50), torch.float32, "cpu", layout)
        fp16x3(a, b, kernel, out=out)
        assert same_bits(out.contiguous(), expected), layout
        check_gaps()


@every_variant
@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 70, 90), (3, 90, 33)),
        ((5, 30, 40), (40, 50)),
        ((20, 30), (4, 30, 40)),
        ((2, 9, 2100), (2, 2100, 16)),
        ((2, 2100), (3, 2100, 16)),
    ],
    ids=short,
)
def test_batches(shapes: tuple, kernel: str) -> None:
    a, b = (normal(*shape) for shape in shapes)
    result = fp16x3(a, b, kernel)
    for i in range(result.shape[0]):
        one = fp16x3(a[i] if a.ndim == 3 else a, b[i] if b.ndim == 3 else b)
        assert same_bits(result[i], one), i


@pytest.mark.one_in(5)
@every_variant
@pytest.mark.parametrize(
    ("timing", "layout"),
    [
        pytest.param(timing, layout, marks=[] if layout in ("nn", "tt") else [pytest.mark.sweep])
        for timing, layout in zip(TIMINGS, LAYOUTS, strict=True)
    ],
)
def test_a_trace_finds_nothing(
    timing: str, layout: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    for m, n, k in ((130, 40, 520), (3, 40, 300), (30, 33, 600), (64, 16, 2048), (70, 16, 2048)):
        a, b = normal(m, k), normal(k, n)
        a[1, 4], b[5, 3] = math.inf, 1e-15
        b[6:8, 9] = 1e-15
        a, b = in_layout(a, layout[0]), in_layout(b, layout[1])
        trace = smem.trace("gemm", a, b, kernel=kernel)
        assert trace.faults == (), (m, n, k)


def test_a_trace_counts_boxes_and_products() -> None:
    """A tile of 128 x 32: two k blocks of hi and lo."""
    m, n, k = 128, 32, 64
    trace = smem.trace("gemm", normal(m, k), normal(k, n), kernel="fp16x3:wgmma")
    launch = trace.launches[-1]
    assert launch.kernel == "fp16x3"
    row_bytes = 2 * 2 * k  # hi and lo
    assert launch.count("bytes", actions=["box_to"], memory="shared") == (m + n) * row_bytes
    # hi hi, hi lo and lo hi, of 64 rows by 16 k each.
    assert launch.count("requests", actions=["wgmma"]) == 3 * m // 64 * k // 16
    assert launch.fma == 3 * m * n * k


@pytest.mark.parametrize("tiles", [1, 35, 67])
def test_mma_has_no_bank_conflict(tiles: int) -> None:
    """Neither of ldmatrix and cp.async nor of the totals, in tiles of 32, 64 and 128 columns."""
    m, n, k = tiles * 128, 128, 8
    a = normal(1, k).expand(m, -1)
    launch = smem.trace("gemm", a, normal(k, n), kernel="fp16x3:mma").launches[-1]
    assert launch.kernel == "fp16x3 mma"
    assert launch.faults == ()
    assert launch.fma == 3 * m * n * 32  # a whole k block
    shared = [line for line in launch.lines if line.memory == "shared"]
    assert {line.action for line in shared} == {"load", "store", "copy_to"}
    assert sum(line.conflicts for line in shared) == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_variants_give_the_same_bits(layout: str) -> None:
    """Beyond what the model takes: fallback, outliers, split-K, and M at both sides of 64."""
    for m, n, k in ((9, 33, 300), (65, 40, 1100), (131, 65, 290), (40, 17, 2100)):
        a = in_layout(special(normal(m, k)), layout[0])
        b = in_layout(special(normal(n, k)).mT, layout[1])
        wgmma, mma = (fp16x3(a, b, kernel) for kernel in VARIANTS)
        assert wgmma.isfinite().any()
        assert wgmma.isnan().any()
        assert same_bits(mma, wgmma), (m, n, k)


@pytest.mark.sweep
def test_mma_prefetches_over_the_ends_of_tiles() -> None:
    """Some blocks have two tiles, as 132 SMs have a block each; test_fp16x3_mutants.py has more."""
    a, b = normal(140, 65, 70), normal(140, 70, 3)
    launch = smem.trace("gemm", a, b, kernel="fp16x3:mma").launches[-1]
    assert launch.blocks == 132
    assert launch.faults == ()
    wgmma, mma = (fp16x3(a, b, kernel) for kernel in VARIANTS)
    assert same_bits(mma, wgmma)


def test_what_it_requires() -> None:
    a = torch.ones(4, 4)
    with pytest.raises(RuntimeError, match="computes float32 in fp32, got precision ieee"):
        fp16x3(a, a, precision="ieee")
    with pytest.raises(RuntimeError, match=r"kernel 'fp16x3:mma' computes float32 in fp32, got"):
        fp16x3(a, a, "fp16x3:mma", precision="ieee")
    with pytest.raises(RuntimeError, match="takes float32, got float16"):
        fp16x3(a.half(), a.half())


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@every_variant
@pytest.mark.parametrize("numbers", ["normal", "wide", "special"])
def test_the_bits_of_the_gpu(numbers: str, kernel: str) -> None:
    for (m, n, k), layout in itertools.product(
        (*SHAPES, (70, 16, 2048), (9, 33, 3100), (300, 130, 4200)), LAYOUTS
    ):
        a, b = normal(m, k), normal(k, n)
        if numbers != "normal":
            a, b = (x * torch.randint(-9, 9, x.shape).float().exp2() for x in (a, b))
        if numbers == "special":
            a[m // 2, k // 2], b[k // 3, n // 2] = math.inf, math.nan
            a[-1, 0], b[-1, -1] = 1e-15, 1e-15
        a, b = in_layout(a, layout[0]), in_layout(b, layout[1])
        found = fp16x3(a.cuda(), b.cuda(), kernel).cpu()
        expected = fp16x3(a, b)
        # The bits of a NaN are not promised.
        assert torch.equal(found.isnan(), expected.isnan()), (m, n, k, layout)
        finite = ~found.isnan()
        assert same_bits(found[finite], expected[finite]), (m, n, k, layout)
