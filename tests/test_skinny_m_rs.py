"""fp16x3 with a small M and many columns: the bits of a large M."""

from collections.abc import Callable

import pytest
import torch
from fp16x3_checks import LARGE_M, check_rows, every_data, fp16x3, kernels_of
from helpers import laid_out, normal, poisoned_out, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem

MANY_COLUMNS = "fp16x3 skinny M by wgmma"
N = 132 * 64  # a tile of 64 columns for each SM of an H100 and H200, and of the emulator's GPU


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_launches_on_the_cpu(layout: str) -> None:
    b = laid_out(normal(132, N), layout)
    assert MANY_COLUMNS in kernels_of(normal(1, 132), b)
    assert MANY_COLUMNS not in kernels_of(normal(1, 132), b[:, : N // 2])


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_plans(layout: str) -> None:
    """Others compute fewer columns, more rows, unaligned layouts, and a short K."""
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count

    def is_taken(m: int, n: int, k: int, layout: str = layout) -> bool:
        a, b = normal(m, k, device="cuda"), laid_out(normal(k, n, device="cuda"), layout)
        return "many columns" in smem.plan(a, b, kernel="fp16x3").reason

    for m in (1, 16, 17, 32, 33, 64):
        assert is_taken(m, sms * 64, 132)
    assert not is_taken(8, sms * 32, 132)
    assert not is_taken(8, sms * 64, 128)
    assert not is_taken(8, sms * 64, 132, "unaligned")
    assert not is_taken(65, sms * 64, 1000)


@pytest.mark.one_in(10)
@every_data
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("m", [5, 20, 40])
def test_rows_have_the_bits_of_a_large_m_on_the_cpu(
    m: int, layout: str, data: Callable[[Tensor, Tensor], None]
) -> None:
    check_rows(N + 4, 136, data, layout, (m,), "cpu")


# N and K: whole tiles and stages, and others; two waves of tiles; K of several stages and rings.
GPU_SIZES = [(N, 512), (N + 36, 1000), (12_004, 2052), (33_000, 132), (17_004, 388), (9000, 9004)]


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@every_data
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("size", GPU_SIZES, ids=short)
def test_rows_have_the_bits_of_a_large_m(
    size: tuple[int, int], layout: str, data: Callable[[Tensor, Tensor], None]
) -> None:
    check_rows(*size, data, layout, (1, 9, 16, 17, 31, 33, 64), "cuda")


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-20, 1e30, 1e37])
def test_scales_at_the_ends_of_the_range(scale: float, layout: str) -> None:
    """Every tile is computed again: its scales are beyond those that the first pass can use."""
    a, w = normal(LARGE_M, 516, device="cuda") * 1e-3, normal(N, 516, device="cuda") * scale
    w[::7, 5] *= 1e-9
    b = laid_out(w.mT, layout)
    expected = fp16x3(a, b)
    for m in (3, 32, 64):
        assert same_bits(fp16x3(a[:m], b), expected[:m])


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("shared", [False, True])
def test_batches(shared: bool) -> None:
    """Tiles of all matrices together are many. Two of a long K may share B."""
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count
    count, rows, n, k = (2, 40, 32 * sms, 4100) if shared else (3, 24, 22 * sms, 388)
    a = normal(count, rows + 6, k, device="cuda")[:, :rows]
    b = normal(n, k, device="cuda").mT if shared else normal(5, k, n, device="cuda")[::2]
    assert "many columns" in smem.plan(a, b, kernel="fp16x3").reason
    out, check_gaps = poisoned_out((count, rows, n), torch.float32, "cuda", "step2")
    fp16x3(a, b, out=out)
    for i in range(count):
        assert same_bits(out[i], fp16x3(a[i], b if shared else b[i]))
    check_gaps()


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
def test_c_may_be_out_if_tiles_are_computed_again() -> None:
    """A warp stores its columns once, also if others of its tile had a wrong scale."""
    a, b, c = (normal(*s, device="cuda") for s in ((20, 1000), (1000, N), (20, N)))
    b[500:, ::48] *= 1e9  # wrong in some warps
    b[3, ::48] = 1e-3
    a[3, 4], b[5, 6] = torch.inf, torch.inf
    expected = fp16x3(a, b, c=c, alpha=0.5, beta=2.0)
    assert fp16x3(a, b, c=c, alpha=0.5, beta=2.0, out=c) is c
    assert same_bits(c, expected)
