"""fp16x3 with a short K and a small M, by one launch: the bits of a large M."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fp16x3_checks import check_rows, every_data, fp16x3, kernels_of
from helpers import laid_out, normal, poisoned_out, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem

sys.path.append(str(Path(__file__).parent.parent / "bench"))
from fp16x3_model import product

BY_SHORT_K = "fp16x3 short K"

# N and K: whole tiles and chunks, and others. A K above 64 takes the kernel with a large B only.
SIZES = [(72, 64), (77, 50), (64, 16), (80, 33), (131, 1)]
GPU_SIZES = [*SIZES, (1024, 64), (2049, 48), (4096, 128), (5001, 107), (9000, 61)]


def test_launches() -> None:
    """Others compute more rows, and a longer K if B is small."""
    assert kernels_of(normal(64, 64), normal(64, 72)) == [BY_SHORT_K]
    assert BY_SHORT_K not in kernels_of(normal(65, 64), normal(64, 72))
    assert BY_SHORT_K not in kernels_of(normal(8, 65), normal(65, 72))
    assert kernels_of(normal(1, 128), normal(128, 4096)) == [BY_SHORT_K]
    assert BY_SHORT_K not in kernels_of(normal(1, 129), normal(129, 4096))


@pytest.mark.one_in(3)
@every_data
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "unaligned"])
@pytest.mark.parametrize("size", SIZES, ids=short)
def test_rows_have_the_bits_of_a_large_m_on_the_cpu(
    size: tuple[int, int], layout: str, data: Callable[[Tensor, Tensor], None]
) -> None:
    check_rows(*size, data, layout, (1, 17), "cpu")


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@every_data
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "unaligned"])
@pytest.mark.parametrize("size", GPU_SIZES, ids=short)
def test_rows_have_the_bits_of_a_large_m(
    size: tuple[int, int], layout: str, data: Callable[[Tensor, Tensor], None]
) -> None:
    check_rows(*size, data, layout, (1, 7, 8, 9, 16, 17, 33, 48, 64), "cuda")


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_bits_are_those_of_the_model(layout: str) -> None:
    """With a K above 64."""
    a, b = normal(3, 100), normal(100, 5300)
    assert same_bits(fp16x3(a, laid_out(b, layout)), product(a, b))


def test_every_layout_gives_the_same_bits(device: str) -> None:
    for m, n, k in ((5, 75, 60), (40, 100, 24)):
        a, b = normal(m, k, device=device), normal(k, n, device=device)
        first = fp16x3(a, b)
        for layout in ("contiguous", "transposed", "unaligned", "step2"):
            assert same_bits(fp16x3(laid_out(a, layout), laid_out(b, layout)), first), layout
            out, check_gaps = poisoned_out((m, n), torch.float32, device, layout)
            fp16x3(a, b, out=out)
            assert same_bits(out, first), layout
            check_gaps()


def test_c_may_be_out_with_the_fallback(device: str) -> None:
    a, b, c = (normal(*s, device=device) for s in ((20, 40), (40, 90), (20, 90)))
    a[3, 4], b[5, 6] = torch.inf, torch.inf
    a[7, 0:2], b[0:2, 9] = 1e-15, 1e-15
    a[8, 3], b[7, 11] = 1e-15, 1e-15
    expected = fp16x3(a, b, c=c, alpha=0.5, beta=2.0)
    assert fp16x3(a, b, c=c, alpha=0.5, beta=2.0, out=c) is c
    assert same_bits(c, expected)
    exact = 0.5 * a.double() @ b.double()
    finite = exact.isfinite()
    assert torch.equal(expected.isnan(), exact.isnan())
    product_alone = fp16x3(a, b, alpha=0.5).double()
    torch.testing.assert_close(product_alone[finite], exact[finite], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shapes",
    [((4, 9, 50), (4, 50, 72)), ((9, 50), (4, 50, 72)), ((4, 9, 50), (50, 72))],
    ids=short,
)
def test_a_batch_has_the_bits_of_its_matrices(shapes: tuple, device: str) -> None:
    a, b = (normal(*shape, device=device) for shape in shapes)
    b[..., 5, 7] = 1e-12
    b[..., 5, 8] = torch.inf
    result = fp16x3(a, b)
    a, b = a.expand(4, 9, 50), b.expand(4, 50, 72)
    for i in range(4):
        assert same_bits(result[i], fp16x3(a[i], b[i])), i


def test_a_kept_split_changes_no_bits(device: str) -> None:
    """The kernel splits B itself, whether a split is kept or not."""
    kept = smem.Linear(60, 200, device=device, cache_split=True)
    plain = smem.Linear(60, 200, device=device)
    plain.load_state_dict(kept.state_dict())
    x = normal(7, 60, device=device)
    with torch.no_grad():
        assert same_bits(kept.eval()(x), plain.eval()(x))
