"""smem.gemm of float32 on tensor cores, where precision="tf32" allows it."""

import pytest
import torch
from helpers import (
    ACTIVATIONS,
    assert_accurate,
    laid_out,
    normal,
    poisoned,
    same_bits,
    short,
    small_integers,
    torch_gemm,
)

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import chip

pytestmark = pytest.mark.gpu
every_kernel = pytest.mark.parametrize("kernel", ["auto", "tensor_core", "mma", "wgmma"])
LAYOUTS = ["contiguous", "transposed", "unaligned", "unaligned_transposed", "step2", "apart"]
SHAPES = [
    *((1, 1, 1), (1, 127, 1), (17, 31, 13), (33, 65, 127), (16, 64, 32), (129, 20, 257)),
    *((136, 24, 136), (300, 512, 1030), (1100, 701, 3), (2049, 260, 1030), (15, 4096, 33)),
]


@pytest.fixture(autouse=True)
def _torch_uses_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own error is that of its tf32 products; the setting is None's meaning, too."""
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)


@every_kernel
@pytest.mark.parametrize("layout_b", LAYOUTS)
@pytest.mark.parametrize("layout_a", LAYOUTS)
def test_shapes_and_layouts(kernel: str, layout_a: str, layout_b: str) -> None:
    for m, k, n in SHAPES:
        a = laid_out(normal(m, k, device="cuda"), layout_a)
        b = laid_out(normal(k, n, device="cuda"), layout_b)
        runs = [poisoned((m, n), torch.float32, "cuda") for _ in range(2)]
        for out, precision in zip(runs, ("tf32", None), strict=True):
            smem.gemm(a, b, precision=precision, kernel=kernel, out=out)
        assert same_bits(*runs)
        if m * n >= 256:
            assert_accurate(torch.matmul, (runs[0], (a, b)))
        a, b = laid_out(a.round(), layout_a), laid_out(b.round(), layout_b)
        assert torch.equal(
            smem.gemm(a, b, precision="tf32", kernel=kernel), (a.double() @ b.double()).float()
        )


@every_kernel
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogue(kernel: str, activation: str | None) -> None:
    a, b, bias, c = (
        small_integers(*s, device="cuda") for s in ((2, 33, 20), (20, 37), (37,), (2, 33, 37))
    )
    options = {"alpha": 0.5, "beta": -2.0, "activation": activation}
    result = smem.gemm(a, b, bias=bias, c=c, **options, precision="tf32", kernel=kernel)
    assert_accurate(torch_gemm, (result, (a, b, bias, c, *options.values())))


@every_kernel
def test_factors_are_rounded_to_nearest(kernel: str) -> None:
    """Of 1 + 3 * 2^-12 a cut leaves 1, rounding 1 + 2^-10; a GPU without tf32 keeps it."""
    a = torch.full((16, 8), 1 + 3 * 2.0**-12, device="cuda")
    b = torch.eye(8, device="cuda")
    for x, y in ((a, b), (b, a.mT)):
        result = smem.gemm(x, y, precision="tf32", kernel=kernel)
        has_tf32 = chip("cuda").code_capability >= 80
        assert (result == (1 + 2.0**-10 if has_tf32 else a[0, 0])).all()


@every_kernel
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "unaligned"])
@pytest.mark.parametrize(("k", "n"), [(1024, 4096), (1001, 515)], ids=short)
def test_a_row_has_the_same_bits_at_every_m(kernel: str, k: int, n: int, layout: str) -> None:
    a = laid_out(normal(4096, k, device="cuda"), layout)
    b = laid_out(normal(k, n, device="cuda"), layout)
    whole = smem.gemm(a, b, precision="tf32", kernel=kernel)
    for m in (1, 2, 16, 17, 64, 65, 127, 128, 300, 2049):
        for start in (0, 1, 4096 - m):
            part = smem.gemm(a[start : start + m], b, precision="tf32", kernel=kernel)
            assert same_bits(part, whole[start : start + m]), (m, start)


def test_ieee_and_fp32_stay_so() -> None:
    a, b = normal(512, 300, device="cuda"), normal(300, 512, device="cuda")
    fp32 = smem.plan(a, b, precision="fp32").kernel
    for precision, kernel in (("fp32", fp32), ("ieee", "naive")):
        expected = smem.gemm(a, b, kernel=kernel, precision=precision)
        assert same_bits(smem.gemm(a, b, precision=precision), expected)
    assert fp32 not in ("tensor_core", "mma", "wgmma")
