"""The wgmma kernel on the CPU: the GPU's source, run by csrc/cpu_emulator/sm90.

Its bits are those of the model of Hopper's tensor cores in bench/tensor_core_model.py, at whatever
moment TMA and wgmma execute.
"""

import functools
import itertools
import sys
from pathlib import Path

import pytest
import torch
from compile_kernels import results
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
from torch_smem_gemm.analysis import device
from torch_smem_gemm.cli._explain_kernel import judge

sys.path.append(str(Path(__file__).parent.parent / "bench"))
from tensor_core_model import product, rounded_to_tf32

BF16_TILES = tuple(
    f"wgmma:{tile}" for tile in ("64x64", "64x32", "128x64", "64x64_3cta", "64x128_cluster2")
)
TILES = [(torch.bfloat16, tile) for tile in BF16_TILES]
TILES += [(dtype, "wgmma:64x64") for dtype in (torch.float16, torch.float32)]
every_tile = pytest.mark.parametrize(("dtype", "tile"), TILES, ids=short)
TIMINGS = ("early", "late", "1")

# Less than a tile; ends within tiles, boxes and swizzle atoms; several tiles and stages.
SHAPES = ((1, 1, 1), (8, 16, 40), (65, 72, 72), (130, 200, 136))


def wgmma(a: Tensor, b: Tensor, kernel: str = "wgmma", **options: object) -> Tensor:
    """On tensor cores whatever the dtype."""
    return smem.gemm(a, b, kernel=kernel, precision="tf32", **options)


def operand(rows: int, cols: int, dtype: torch.dtype) -> Tensor:
    """Numbers of very different magnitudes, so that alignment cuts off many of their bits."""
    x = torch.randn(rows, cols, dtype=torch.float64)
    return (x * torch.randint(-9, 9, (rows, cols)).double().exp2()).to(dtype)


def in_layout(x: Tensor, transposed: bool) -> Tensor:
    return x.t().contiguous().t() if transposed else x


@every_tile
def test_bits_are_those_of_the_model(dtype: torch.dtype, tile: str) -> None:
    for (m, n, k), *transposed in itertools.product(SHAPES, (False, True), (False, True)):
        a, b = operand(m, k, dtype), operand(k, n, dtype)
        expected = product(a, b)
        a, b = in_layout(a, transposed[0]), in_layout(b, transposed[1])
        assert same_bits(wgmma(a, b, tile, out_dtype=torch.float32), expected), (m, n, k)
        assert same_bits(wgmma(a, b, tile), expected.to(dtype)), (m, n, k)


@pytest.mark.parametrize(
    ("dtype", "tile", "timing"),
    [
        # Each tile at one moment, and one tile at all.
        pytest.param(
            *(dtype, tile, timing),
            marks=[] if i == 0 or timing == TIMINGS[i % 3] else [pytest.mark.sweep],
        )
        for i, (dtype, tile) in enumerate(TILES)
        for timing in TIMINGS
    ],
    ids=short,
)
def test_bits_do_not_depend_on_the_moments(
    dtype: torch.dtype, tile: str, timing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMEM_ASYNC_TIMING", timing)
    for m, n, k in ((130, 200, 700), (260, 64, 64)):
        a, b = operand(m, k, dtype), operand(k, n, dtype)
        expected = product(a, b).to(dtype)
        for transposed in (False, True):
            found = wgmma(in_layout(a, transposed), in_layout(b, not transposed), tile)
            assert same_bits(found, expected), (m, n, k)


@every_tile
def test_epilogues(dtype: torch.dtype, tile: str) -> None:
    m, n, k = 100, 136, 72
    a, b = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    bias, c = torch.randn(n, dtype=dtype), torch.randn(m, n, dtype=dtype)
    z = 0.5 * product(a, b).double() + bias.double()
    tolerance = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-4}
    for name, activation in ACTIVATIONS.items():
        found = wgmma(a, b, tile, alpha=0.5, bias=bias, activation=name)
        torch.testing.assert_close(found.double(), activation(z), **tolerance)
    found = wgmma(a, b, tile, alpha=0.5, bias=bias, c=c, beta=-2.0)
    torch.testing.assert_close(found.double(), z - 2 * c.double(), **tolerance)


def test_gradients_keep_the_preactivation() -> None:
    a, b = (operand(64, 64, torch.bfloat16).requires_grad_() for _ in range(2))
    wgmma(a, b, activation="gelu").sum().backward()
    assert a.grad.isfinite().all()
    assert b.grad.isfinite().all()


@every_tile
def test_batches(dtype: torch.dtype, tile: str) -> None:
    a, b = (operand(3 * 70, 72, dtype).view(3, 70, 72) for _ in range(2))
    one = operand(72, 40, dtype)
    for x, y in ((a, b.mT), (a, one), (a[0], b.mT)):
        matrices = [
            product(x[i] if x.ndim == 3 else x, y[i] if y.ndim == 3 else y) for i in range(3)
        ]
        assert same_bits(wgmma(x, y, tile), torch.stack(matrices).to(dtype))


@every_tile
def test_layouts(dtype: torch.dtype, tile: str) -> None:
    """Operands that TMA reads in place, and such that are packed first; out of any strides."""
    m, n, k = 70, 50, 90
    a, b = operand(m, k, dtype), operand(k, n, dtype)
    expected = product(a, b).to(dtype)
    for layout in OUT_LAYOUTS:
        assert same_bits(wgmma(laid_out(a, layout), b, tile), expected), layout
        assert same_bits(wgmma(a, laid_out(b, layout), tile), expected), layout
        out, check_gaps = poisoned_out((m, n), dtype, "cpu", layout)
        wgmma(a, b, tile, out=out)
        assert same_bits(out.contiguous(), expected), layout
        check_gaps()


@every_tile
def test_rows_of_out_that_begin_anywhere(dtype: torch.dtype, tile: str) -> None:
    """Whole vectors, the ends of rows, and what a subtile leaves to the next (shifted_rows.h)."""
    a = operand(40, 16, dtype)
    for n in (1, 5, 8, 63, 64, 65, 71, 130, 201):
        b = operand(16, n, dtype)
        expected = product(a, b).to(dtype)
        check_rows_that_begin_anywhere(functools.partial(wgmma, a, b, tile), expected)
    (launch,) = smem.trace(
        "gemm", a, operand(16, 201, dtype).t().contiguous().t(), kernel=tile, precision="tf32"
    ).launches
    assert launch.faults == ()


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)), ids=str)
def test_large_float32_outputs_with_rows_that_begin_anywhere(transposed: tuple) -> None:
    """They are stored by vectors; smaller ones are not (epilogue_tf32.h)."""
    m, n, k = 370, 363, 12
    a, b, bias = operand(m, k, torch.float32), operand(k, n, torch.float32), torch.randn(n)
    expected = (wgmma(a, torch.nn.functional.pad(b, (0, 5)))[:, :n] + bias).relu()
    a, b = in_layout(a, transposed[0]), in_layout(b, transposed[1])
    write = functools.partial(wgmma, a, b, bias=bias, activation="relu")
    check_rows_that_begin_anywhere(write, expected, begins=(0, 1, 2), gaps=(0, 1, 3))
    report = smem.trace("gemm", a, b, kernel="wgmma", precision="tf32")
    assert not any(launch.faults for launch in report.launches)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=short)
def test_intervals_of_a_long_k(dtype: torch.dtype) -> None:
    """Split-K slices or one accumulator after the other: each interval is a chain of its own."""
    m, n, k = 70, 24, 6300
    a, b = operand(m, k, dtype), operand(k, n, dtype)
    split = wgmma(a, b, "wgmma:64x64")
    torch.testing.assert_close(split.double(), product(a, b).double(), rtol=1e-2, atol=1.0)
    assert not same_bits(split, product(a, b).to(dtype))
    if dtype == torch.bfloat16:
        for tile in BF16_TILES[1:]:
            assert same_bits(wgmma(a, b, tile), split), tile


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=short)
def test_special_values(dtype: torch.dtype) -> None:
    """Inf and NaN, factors that are subnormal, and sums that cancel."""
    inf, nan, tiny = float("inf"), float("nan"), torch.finfo(dtype).smallest_normal
    # float32's largest number would become Inf when it is rounded to tf32.
    largest = torch.finfo(torch.bfloat16 if dtype == torch.float32 else dtype).max
    a = torch.ones(8, 32, dtype=dtype)
    for row, value in enumerate((inf, -inf, nan, 0.0, tiny / 4, -tiny / 2, largest)):
        a[row, 3] = value
    b = torch.ones(32, 8, dtype=dtype)
    b[3, 1], b[3, 2], b[3, 3] = 0.0, -1.0, inf
    found = wgmma(a, b, out_dtype=torch.float32)
    expected = a.double() @ b.double()
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.isinf(), expected.isinf())
    assert torch.equal(found[found.isinf()].sign().double(), expected[expected.isinf()].sign())
    finite = a[3:6], b[:, [0, 1, 2]]
    assert same_bits(found[3:6][:, [0, 1, 2]].contiguous(), product(*finite))
    one, tiny = torch.ones(1, 16, dtype=dtype), torch.full((16, 1), tiny, dtype=dtype)
    small = torch.full((1, 16), 2.0**-9, dtype=dtype)
    assert same_bits(wgmma(one, tiny, out_dtype=torch.float32), product(one, tiny))
    assert same_bits(wgmma(small, one.mT, out_dtype=torch.float32), product(small, one.mT))


def test_tf32_is_rounded_to_even_when_it_is_loaded() -> None:
    a = torch.tensor([[1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11]])
    assert same_bits(wgmma(a.mT.contiguous(), torch.ones(1, 1)), rounded_to_tf32(a).mT)


def test_heuristics_choose_among_the_tiles_of_the_cpu() -> None:
    for m, n, k in ((8, 8, 8), (200, 64, 100), (100, 300, 50)):
        a, b = operand(m, k, torch.bfloat16), operand(k, n, torch.bfloat16)
        assert same_bits(wgmma(a, b), product(a, b).to(torch.bfloat16))


def test_blocks_compute_several_tiles() -> None:
    """More tiles than the 132 SMs of an H200: the stores of a tile overlap the next mainloop."""
    a, b = operand(64 * 140, 40, torch.bfloat16), operand(40, 64, torch.bfloat16)
    assert same_bits(wgmma(a, b, "wgmma:64x64"), product(a, b).to(torch.bfloat16))


def test_every_layout_that_tma_writes_and_wgmma_reads() -> None:
    """With each swizzle and without one (16 bytes); A and B K-major and MN-major."""
    wrong = results("descriptors")
    assert [wrong[width] for width in ("16", "32", "64", "128")] == [[0, 0, 0, 0]] * 4


def test_16_bit_operands_in_registers_and_all_widths() -> None:
    assert results("descriptors")["from registers"] == [0, 0]


def test_an_empty_k_gives_the_epilogue_of_zeros() -> None:
    a, b, bias = (torch.ones(*s, dtype=torch.bfloat16) for s in ((4, 0), (0, 8), (8,)))
    assert (wgmma(a, b, bias=bias) == 1).all()


def test_what_the_cpu_does_not_have() -> None:
    half, single = (torch.ones(8, 8, dtype=dtype) for dtype in (torch.float16, torch.float32))
    for x, kernel, why in (
        (half, "wgmma:128x256", "has no variant '128x256' for float16 on the CPU"),
        (half, "wgmma:128x64", "has no variant '128x64' for float16 on the CPU"),
        (single, "wgmma:128x64", "has no variant '128x64' for float32 on the CPU"),
        (single.double(), "wgmma", "takes float32, float16 and bfloat16, got float64"),
    ):
        with pytest.raises(RuntimeError, match=f"smem.gemm: kernel 'wgmma' {why}"):
            wgmma(x, x, kernel)
    with pytest.raises(RuntimeError, match="computes float32 in tf32, got precision fp32"):
        smem.gemm(single, single, kernel="wgmma")


@every_tile
def test_a_trace_finds_nothing(dtype: torch.dtype, tile: str) -> None:
    a, b = operand(130, 72, dtype), in_layout(operand(72, 136, dtype), transposed=True)
    report = smem.trace("gemm", a, b, kernel=tile, precision="tf32")
    (launch,) = report.launches
    assert not launch.faults
    assert launch.count("requests", actions=["store"], memory="shared") > 0


@pytest.mark.parametrize(("rows", "kernel"), [(64, "wgmma:64x64"), (128, "wgmma:128x64")])
def test_a_trace_counts_boxes_and_products(rows: int, kernel: str) -> None:
    """Two tiles of rows x 64, two k-tiles of 64 each."""
    m, n, k = 2 * rows, 64, 128
    a, b = operand(m, k, torch.bfloat16), operand(k, n, torch.bfloat16)
    (launch,) = smem.trace("gemm", a, b, kernel=kernel).launches
    loads = {"actions": ["box_from"], "memory": "a"}
    assert launch.count("requests", **loads) == 2 * 2
    assert launch.count("bytes", **loads) == 2 * m * k
    assert launch.count("sectors", **loads) == 2 * m * k // 32
    assert launch.count("bytes", actions=["box_from"], memory="b") == 2 * (2 * k * n)
    assert launch.count("bytes", actions=["box_to"], memory="out") == 2 * m * n
    into_shared = launch.count("bytes", actions=["box_to"], memory="shared")
    assert into_shared == 2 * m * k + 2 * (2 * k * n)
    # An instruction has 64 rows, 64 columns and 16 k.
    assert launch.count("requests", actions=["wgmma"]) == m // 64 * k // 16
    assert launch.count("bytes", actions=["wgmma"]) == m // 64 * k // 16 * (64 + 64) * 32
    assert launch.fma == m * n * k
    # 32 cycles, n / 2, of each of the four tensor cores, while 32 passes read A and B.
    instructions = m // 64 * k // 16
    assert launch.count("tensor_flop") == 2 * m * n * k
    assert launch.tensor_cycles == instructions * 64 // 2 == launch.count("tensor_cycles") / 4
    assert launch.count("wavefronts", actions=["wgmma"]) == instructions * (64 + 64) * 32 // 128
    boxes = {"actions": ["box_to"], "memory": "shared"}
    assert launch.count("wavefronts", **boxes) == into_shared // 128
    assert launch.count("wavefronts", actions=["box_from"], memory="shared") == 2 * m * n // 128
    assert launch.count("conflicts") == 0


def test_a_trace_counts_what_is_multicast() -> None:
    """A cluster of two blocks loads each box of B once, and both blocks receive it."""
    a, b = operand(128, 128, torch.bfloat16), operand(128, 64, torch.bfloat16)
    (launch,) = smem.trace("gemm", a, b, kernel="wgmma:64x128_cluster2").launches
    assert launch.count("bytes", actions=["box_from"], memory="a") == 2 * a.numel()
    assert launch.count("bytes", actions=["box_from"], memory="b") == 2 * b.numel()
    boxes = [line for line in launch.lines if line.action == "box_to" and line.memory == "shared"]
    assert sum(line.lanes for line in boxes) > sum(line.requests for line in boxes)
    assert sum(line.bytes for line in boxes) == 2 * (a.numel() + 2 * b.numel())
    assert sum(line.wavefronts for line in boxes) == sum(line.bytes for line in boxes) // 128


def test_tf32_has_the_first_operand_in_registers() -> None:
    a, b = operand(64, 64, torch.float32), operand(64, 64, torch.float32)
    (launch,) = smem.trace("gemm", a, b, kernel="wgmma:64x64", precision="tf32").launches
    assert launch.count("requests", actions=["wgmma"]) == 64 // 8
    assert launch.count("bytes", actions=["wgmma"]) == 64 // 8 * 64 * 32
    # A cycle has half as many FLOP as in bfloat16, and an instruction half as many products.
    assert launch.count("tensor_flop") == 2 * 64**3
    assert launch.tensor_cycles == 64 // 8 * 64 // 2
    assert launch.count("wavefronts", actions=["wgmma"]) == 64 // 8 * 64 * 32 // 128


def test_what_mma_sync_takes_is_counted() -> None:
    """16 x 8 x 16 products, 4096 FLOP, are one cycle of an SM."""
    a, b = operand(64, 64, torch.bfloat16), operand(64, 64, torch.bfloat16)
    (launch,) = smem.trace("gemm", a, b, kernel="tensor_core").launches
    instructions = launch.count("requests", actions=["mma"])
    assert launch.count("lanes", actions=["mma"]) == 32 * instructions
    assert launch.count("tensor_flop") == 4096 * instructions == 2 * 64**3
    assert launch.tensor_cycles == instructions


def test_explain_says_what_bounds_a_kernel_on_tensor_cores() -> None:
    """With two consumers and a narrow tile, wgmma and TMA keep shared memory busy for longer."""
    a, b = operand(128, 256, torch.bfloat16), operand(256, 64, torch.bfloat16)
    explained = judge(smem.trace("gemm", a, b, kernel="wgmma:128x64"), device("H200"))
    steps, sms, hertz = 256 // 16, 132, 1.98e9
    assert explained.peak_tflops == pytest.approx(sms * 4096 * hertz / 1e12)
    found = explained.least_seconds
    assert found["tensor cores"] == pytest.approx(steps * 64 / hertz)
    # Of each step: A and B twice by wgmma, and once by TMA; then the tile by threads and TMA.
    passes = steps * (2 * (64 + 64) + 128 + 64) * 32 // 128 + 2 * 128 * 64 * 2 // 128
    assert found["shared memory"] == pytest.approx(passes / hertz)
    assert explained.bottleneck == "shared memory"
    assert found["arithmetic"] == 0


@pytest.mark.parametrize(
    ("kernel", "gpu", "tflops"),
    [
        ("tensor_core", "A100", 108 * 2048 * 1.41e-3),
        ("wgmma:64x64", "A100", None),
        ("wgmma:64x64", "B200", None),
        ("tensor_core", "P100", None),
    ],
)
def test_ceilings_are_those_of_a_device_that_runs_the_kernel(
    kernel: str, gpu: str, tflops: float | None
) -> None:
    a = operand(64, 64, torch.float16)
    explained = judge(smem.trace("gemm", a, a, kernel=kernel), device(gpu))
    assert explained.peak_tflops == (None if tflops is None else pytest.approx(tflops))
    assert ("tensor cores" in explained.least_seconds) == (tflops is not None)
    assert bool(explained.rooflines) == (tflops is not None)


def test_a_box_beyond_the_edge_reads_what_there_is() -> None:
    a, b = operand(5, 40, torch.bfloat16), operand(40, 24, torch.bfloat16)
    trace = smem.trace("gemm", a, b, kernel="wgmma:64x64")
    assert trace.count("bytes", actions=["box_from"], memory="a") == 2 * a.numel()
    assert trace.count("bytes", actions=["box_from"], memory="b") == 2 * b.numel()
    assert trace.count("bytes", actions=["box_to"], memory="out") == 2 * 5 * 24
    assert "box_from" in str(trace)
    assert "box_from" in trace.to_html()
