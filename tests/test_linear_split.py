"""_split_weight and _linear_split: products with a weight whose split is kept.

The bits are those of the products that split it themselves. On the CPU csrc/cpu_emulator runs the
kernels.
"""

import math
from collections.abc import Callable

import pytest
import torch
from fp16x3_checks import VARIANTS, every_variant, fp16x3
from helpers import (
    ACTIVATION_CODES,
    ACTIVATIONS,
    check_error_on_fake_tensors,
    laid_out,
    normal,
    same_bits,
    short,
)
from torch import Tensor
from torch.library import opcheck

from torch_smem_gemm import tracing
from torch_smem_gemm._C import weight_split_bytes
from torch_smem_gemm.ops._codes import kernel_code
from torch_smem_gemm.trace_report import Launch

OPS = torch.ops.smem
# Rows: both sides of the limits of the kernels' policies, and beyond.
SKINNY_M = (1, 8, 9, 16, 17, 32, 33, 64)
ROWS = (*SKINNY_M, 65, 130)
# N and K: whole tiles and stages, ends within them, split-K.
SIZES = [(64, 256), (33, 200), (1, 1), (40, 1100), (16, 2048), (7, 2100)]
TIMINGS = ("early", "late", "1", "2")
WEIGHT_LAYOUTS = ("contiguous", "transposed", "unaligned", "step2")


def special(n: int, k: int) -> Tensor:
    """Scaled rows; single outliers, several, numbers that are not finite, zeros."""
    w = normal(n, k) * torch.randint(-9, 9, (n, 1)).float().exp2()
    w[0, k // 2], w[n - 1, k - 1] = 1e-14, 1e-15
    w[n // 2, : k // 4] = 1e-15
    w[n // 3, k // 3], w[n // 4, 0] = math.inf, math.nan
    w[n // 5] = 0
    return w


def by_split(
    x: Tensor, w: Tensor, split: Tensor, kernel: str = "fp16x3", **options: object
) -> Tensor:
    """The linear by a kept split."""
    return OPS._linear_split(x, w, split, kernel_id=kernel_code("gemm", kernel), **options)


def recorded(x: Tensor, w: Tensor, kernel: str = "fp16x3", **options: object) -> list[Launch]:
    """The launches of a product with a kept split, traced."""
    split = OPS._split_weight(w)
    tracing.begin()
    try:
        by_split(x, w, split, kernel, **options)
    finally:
        launches, _ = tracing.end()
    return list(launches)


@pytest.mark.parametrize("layout", WEIGHT_LAYOUTS)
@pytest.mark.parametrize("size", SIZES, ids=short)
def test_the_split_has_its_layout(size: tuple[int, int], layout: str, device: str) -> None:
    """As csrc/gemm/fp16x3/split_problem.h says; the parts are those of _split."""
    n, k = size
    w = (special(n, k) if n > 8 else normal(n, k)).to(device)
    part_length = 1024 if n <= 16 and k >= 2048 else 0
    parts = OPS._split(w, False, part_length)
    split = OPS._split_weight(laid_out(w, layout))
    offset = 0
    for part in parts:
        octets = part.contiguous().view(-1).view(torch.uint8)
        assert torch.equal(split[offset : offset + len(octets)], octets)
        offset += -(-len(octets) // 256) * 256
    assert offset == len(split) == weight_split_bytes(n, k)


def test_it_takes_as_many_bytes_as_the_weight_and_17_per_row() -> None:
    assert weight_split_bytes(4096, 4096) == 4 * 4096**2 + 17 * 4096
    assert weight_split_bytes(0, 5) == weight_split_bytes(5, 0) == 0


@every_variant
@pytest.mark.parametrize("size", SIZES, ids=short)
@pytest.mark.one_in(3)
def test_bits_are_those_without_a_kept_split(size: tuple[int, int], kernel: str) -> None:
    n, k = size
    x, w = normal(max(ROWS), k), special(n, k) if n > 8 else normal(n, k)
    x[3, k // 2], x[1, k // 3] = math.inf, 1e-15
    split = OPS._split_weight(w)
    whole = fp16x3(x, w.mT, kernel)
    for m in ROWS:
        assert same_bits(by_split(x[:m], w, split, kernel), whole[:m]), m


@pytest.mark.parametrize("layout", WEIGHT_LAYOUTS)
def test_weights_and_inputs_of_any_strides(layout: str) -> None:
    """The float32 weight is still read, for outliers and the fallback."""
    x, w = normal(20, 300), special(40, 300)
    x[1, 5] = 1e-15
    given = laid_out(w, layout)
    expected = fp16x3(x, w.mT)
    for m in (5, 20):
        found = by_split(laid_out(x[:m], layout), given, OPS._split_weight(given))
        assert same_bits(found, expected[:m]), m


@every_variant
@pytest.mark.parametrize("m", [1, 12, 30, 64, 70])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogues(activation: str | None, m: int, kernel: str) -> None:
    x, w, bias = normal(m, 300), special(40, 300), normal(40)
    found = by_split(
        x, w, OPS._split_weight(w), kernel, bias=bias, activation=ACTIVATION_CODES[activation]
    )
    assert same_bits(found, fp16x3(x, w.mT, kernel, bias=bias, activation=activation))


def test_inputs_of_several_dimensions() -> None:
    """Also with batch strides that no matrix has: a launch over a batch that shares the weight."""
    w = special(40, 300)
    split = OPS._split_weight(w)
    for x in (normal(300), normal(2, 3, 300), normal(3, 5, 300).mT.contiguous().mT):
        assert same_bits(
            by_split(x, w, split), fp16x3(x.reshape(-1, 300), w.mT).view(*x.shape[:-1], 40)
        )
    x = normal(4, 7, 300)[:, :5]
    expected = fp16x3(x.reshape(-1, 300), w.mT).view(4, 5, 40)
    assert same_bits(by_split(x, w, split), expected)
    long = normal(16, 2048)
    x = normal(2, 7, 2048)[:, :5]
    expected = fp16x3(x.reshape(-1, 2048), long.mT).view(2, 5, 16)
    assert same_bits(by_split(x, long, OPS._split_weight(long)), expected)


def test_nothing_to_multiply() -> None:
    for n, k in ((0, 5), (5, 0), (5, 7)):
        w = normal(n, k)
        split = OPS._split_weight(w)
        assert by_split(normal(0, k), w, split).shape == (0, n)
    assert by_split(normal(3, 0), normal(5, 0), normal(0).view(torch.uint8)).eq(0).all()


@pytest.mark.parametrize("timing", TIMINGS)
def test_bits_do_not_depend_on_the_moments(timing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    for m, n, k in ((5, 72, 1100), (13, 40, 900), (40, 40, 600), (9, 16, 2048), (9, 70, 300)):
        x, w = normal(m, k), special(n, k)
        assert same_bits(by_split(x, w, OPS._split_weight(w)), fp16x3(x, w.mT)), (m, n, k)


@pytest.mark.parametrize("timing", TIMINGS)
def test_a_trace_finds_nothing(timing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    for m, n, k in ((3, 40, 900), (13, 40, 300), (30, 33, 600), (64, 40, 300), (9, 16, 2048)):
        launches = recorded(normal(m, k), special(n, k))
        assert [launch.faults for launch in launches] == [()] * len(launches), (m, n, k)
        assert launches[1].kernel == "fp16x3 skinny M"


@every_variant
def test_a_large_m_does_not_split_the_weight_again(kernel: str) -> None:
    names = [launch.kernel for launch in recorded(normal(70, 64), normal(40, 64), kernel)]
    product = "fp16x3" if kernel == "fp16x3:wgmma" else "fp16x3 mma"
    assert names == ["split_k_major", product]


@pytest.mark.parametrize(
    ("m", "n", "rows", "tile_n", "blocks"),
    [
        *((8, 100, 8, 16, 7), (16, 100, 16, 16, 7)),
        *((32, 100, 16, 16, 14), (64, 100, 16, 16, 28), (192, 600, 64, 16, 114)),  # in groups
        *((32, 1072, 32, 16, 67), (64, 1072, 64, 16, 67), (64, 2128, 64, 32, 67)),  # too many tiles
    ],
)
def test_a_trace_counts_boxes_and_products(
    m: int, n: int, rows: int, tile_n: int, blocks: int
) -> None:
    """Boxes are filled with zeros beyond N."""
    k = 1536 if n == 100 else 128
    launch = recorded(normal(m, k), normal(n, k))[-1]
    assert (launch.kernel, launch.blocks) == ("fp16x3 skinny M", blocks)
    row_bytes = 2 * 2 * k  # hi and lo
    expected = blocks * (rows + tile_n) * row_bytes
    assert launch.count("bytes", actions=["box_to"], memory="shared") == expected
    assert launch.fma == 3 * blocks * tile_n * -(-rows // 8) * 8 * k
    assert sum(line.conflicts for line in launch.lines if line.memory == "shared") == 0


@pytest.mark.sweep
def test_wide_tiles_for_16_rows() -> None:
    """More tiles of 16 columns than SMs."""
    x, w = normal(16, 72), normal(133 * 16, 72)
    launch = recorded(x, w)[-1]
    assert launch.faults == ()
    assert launch.count("bytes", actions=["box_to"], memory="shared") > 0
    assert same_bits(by_split(x, w, OPS._split_weight(w)), fp16x3(x, w.mT))


@pytest.mark.parametrize(
    "call",
    [
        lambda make: (make(3, 4, 5),),
        lambda make: (make(4, 5).double(),),
    ],
)
def test_errors_of_the_split_agree(call: Callable[..., tuple], device: str) -> None:
    check_error_on_fake_tensors("_split_weight", call, device)


@pytest.mark.parametrize(
    "call",
    [
        lambda make: (make(3, 6), make(5, 6), make(7)),
        lambda make: (make(3, 6), make(5, 6), make(7, dtype=torch.uint8)),
        lambda make: (make(3, 6), make(5, 6), make(5, 6, dtype=torch.uint8)),
        lambda make: (make(3, 6).double(), make(5, 6).double(), make(0, dtype=torch.uint8)),
    ],
)
def test_errors_of_the_product_agree(call: Callable[..., tuple], device: str) -> None:
    check_error_on_fake_tensors("_linear_split", call, device)


def test_other_errors_are_those_of_linear(device: str) -> None:
    x, w, split = (torch.zeros(s, device=device) for s in ((3, 4), (5, 6), (0,)))
    with pytest.raises(RuntimeError, match=r"smem.linear: x is 3x4 and weight is 5x6"):
        OPS._linear_split(x, w, split)
    with pytest.raises(RuntimeError, match=r"smem.linear: activation 9 is unknown"):
        OPS._linear_split(x, w, split, activation=9)


def test_opcheck(device: str) -> None:
    x, w = normal(3, 70, device=device), normal(40, 70, device=device)
    opcheck(OPS._linear_split.default, (x, w, OPS._split_weight(w)))
    # 256 rows leave no gaps, whose bytes may be any, between the parts of the result.
    opcheck(OPS._split_weight.default, (normal(256, 70, device=device),))


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize(
    "size",
    [
        *SIZES,
        (1024, 512),
        (777, 640),
        (528, 132),
        (545, 1001),
        (544, 40_004),
        (130, 5001),
        (4100, 300),
    ],
    ids=short,
)
def test_the_bits_of_the_gpu(size: tuple[int, int], major: str) -> None:
    n, k = size
    x, w = normal(1000, k).cuda(), (special(n, k) if n > 8 else normal(n, k)).cuda()
    x[3, k // 2], x[1, k // 3] = math.inf, 1e-15
    bias = normal(n, device="cuda")
    given = laid_out(w, "transposed") if major == "MN" else w
    split = OPS._split_weight(given)
    for kernel in VARIANTS:
        for m in (*range(1, 65), 65, 128, 1000):
            expected = fp16x3(x[:m], given.mT, kernel, bias=bias, activation="gelu")
            found = by_split(x[:m], given, split, kernel, bias=bias, activation=2)
            assert torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0)), (m, kernel)
