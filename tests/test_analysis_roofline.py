"""The roofline and the traffic of a GEMM: the texts' figures, the two bounds, the errors."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_smem_gemm.analysis import DEVICES, Device, device, gemm_intensity, gemm_reads, roofline


def test_intensity_of_the_ladder() -> None:
    """Naive: 2 FLOP for 8 bytes."""
    assert gemm_intensity() == 2 / 8 == 0.25
    assert gemm_intensity(16) == 4
    assert gemm_intensity(32) == 8
    assert gemm_intensity(128) == 32  # register_tiled
    assert gemm_intensity(32, element_bytes=2) == 16
    assert gemm_intensity(64, 128) == 2 * 64 * 128 / (64 + 128) / 4


@pytest.mark.parametrize(("tile", "gflops", "percent"), [(1, 389, 2), (16, 6220, 32)])
def test_a100_of_the_texts(tile: int, gflops: int, percent: int) -> None:
    """1555 GB/s, 19.5 TFLOP/s: 389 GFLOP/s are 2%, then 6220 are 32%."""
    for ceilings in ({"device": "A100"}, {"bandwidth_gbs": 1555, "tflops": 19.5}):
        found = roofline(gemm_intensity(tile), 1, **ceilings)
        assert round(found.gflops) == gflops
        assert round(100 * found.fraction) == percent
        assert found.bound == "memory"
        assert (found.peak_gflops, found.bandwidth_gbs) == (19_500, 1555)
        assert found.ridge == pytest.approx(12.54, abs=0.01)


def test_right_of_the_ridge() -> None:
    found = roofline(gemm_intensity(128), 1, "A100")
    assert (found.bound, found.gflops, found.fraction) == ("compute", 19_500, 1)
    at_the_ridge = roofline(10, 1, bandwidth_gbs=100, tflops=1)
    assert (at_the_ridge.bound, at_the_ridge.intensity) == ("compute", at_the_ridge.ridge)


def test_least_time() -> None:
    """4096 x 4096 x 4096 on H200: 2.05 ms of float32 FMA; a copy of 1 GB: 2 GB at 4.8 TB/s."""
    product = roofline(2 * 4096**3, 3 * 4096**2 * 4, "H200")
    assert product.bound == "compute"
    assert product.seconds == pytest.approx(2.054e-3, rel=1e-3)
    copy = roofline(0, 2e9, "H200")
    assert (copy.bound, copy.gflops, copy.fraction) == ("memory", 0, 0)
    assert copy.seconds == pytest.approx(2e9 / 4.8e12)
    arithmetic = roofline(1e9, 0, "H200")
    assert (arithmetic.bound, arithmetic.intensity) == ("compute", math.inf)


def test_dtype_and_measured_ceilings() -> None:
    h200 = device("H200")
    assert roofline(1, 0, h200, dtype="float64").gflops == 33_500
    assert roofline(1, 0, h200, dtype="bfloat16").gflops == 66_900
    measured = roofline(1, 1, h200, bandwidth_gbs=4171)
    assert (measured.gflops, measured.peak_gflops) == (4171, 66_900)
    assert roofline(1, 0, h200, tflops=60).gflops == 60_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flop": -1}, "flop is -1, expected 0 or more"),
        ({"bytes": math.nan}, "bytes is nan, expected 0 or more"),
        ({"flop": math.inf}, "flop is inf"),
        ({"flop": 0, "bytes": 0}, "flop and bytes are both 0"),
        ({"device": "H900"}, "name is 'H900', expected one of P100"),
        ({"device": None}, "expected a device, or bandwidth_gbs"),
        ({"device": None, "bandwidth_gbs": 100}, "expected a device, or tflops"),
        ({"bandwidth_gbs": 0}, "bandwidth_gbs is 0, expected more than 0"),
        ({"tflops": math.inf}, "tflops is inf, expected more than 0"),
        ({"dtype": "int8"}, "dtype is 'int8', expected one of float64, float32"),
    ],
)
def test_errors(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^smem\.analysis\.\w+: .*{message}"):
        roofline(**({"flop": 1, "bytes": 1, "device": "A100"} | arguments))


@given(st.floats(1, 1e15), st.floats(1, 1e15), st.sampled_from(DEVICES))
def test_no_ceiling_is_passed(flop: float, moved: float, gpu: Device) -> None:
    found = roofline(flop, moved, gpu)
    assert found.gflops <= found.peak_gflops
    assert found.gflops <= found.intensity * found.bandwidth_gbs
    assert found.bound == ("compute" if found.fraction == 1 else "memory")
    assert found.seconds == pytest.approx(flop / found.gflops / 1e9)


def test_traffic_of_the_texts() -> None:
    """4096³: 137e9 reads by the naive kernel, 4.3e9 with tiles of 32."""
    naive, tiled = gemm_reads(4096, 4096, 4096), gemm_reads(4096, 4096, 4096, 32)
    assert naive == 2 * 4096**3
    assert round(naive / 1e9) == 137
    assert tiled == naive // 32
    assert round(tiled / 1e9, 1) == 4.3


def test_traffic_at_the_edges() -> None:
    """m k ⌈n / tile_n⌉ + k n ⌈m / tile_m⌉, also where the panel of K is in shared memory."""
    assert gemm_reads(100, 50, 7, 32) == 100 * 7 * 2 + 7 * 50 * 4
    assert gemm_reads(100, 50, 7, 64, 32) == 100 * 7 * 2 + 7 * 50 * 2
    assert gemm_reads(100, 50, 7, 128) == 100 * 7 + 7 * 50  # one tile: each element once
    assert gemm_reads(0, 50, 7, 32) == gemm_reads(100, 50, 0, 32) == 0


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 8), st.integers(1, 8))
def test_intensity_is_flop_over_traffic(rows: int, cols: int, tile_m: int, tile_n: int) -> None:
    m, n, k = rows * tile_m, cols * tile_n, 3
    whole = 2 * m * n * k / (4 * gemm_reads(m, n, k, tile_m, tile_n))
    assert whole == pytest.approx(gemm_intensity(tile_m, tile_n))


def test_traffic_errors() -> None:
    with pytest.raises(ValueError, match=r"^smem\.analysis\.gemm_reads: k is -1, expected 0 or"):
        gemm_reads(1, 1, -1)
    with pytest.raises(ValueError, match=r"^smem\.analysis\.gemm_reads: tile_n is 0, expected 1"):
        gemm_reads(1, 1, 1, 32, 0)
    with pytest.raises(ValueError, match=r"^smem\.analysis\.gemm_intensity: tile_m is 0"):
        gemm_intensity(0)
    with pytest.raises(ValueError, match=r"element_bytes is 0, expected 1 or more"):
        gemm_intensity(32, element_bytes=0)
