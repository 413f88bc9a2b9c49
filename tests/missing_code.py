"""What a build that lacks code for this GPU does: it falls back, says so once, and refuses by name.

PYTHONPATH=BUILD python tests/missing_code.py KERNEL... runs the checks with the build found there;
KERNEL are those that it should lack: "wgmma", "mma/bfloat16" of one dtype, or the variant
"fp16x3:wgmma". test_missing_code.py runs it for each of `make other-builds`, in a process of its
own: where a kernel without code ran, the CUDA context was lost.
"""

import sys
import warnings

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SHAPES = ((1, 1, 1), (3, 65, 17), (64, 64, 64), (257, 512, 384), (512, 513, 1000), (1, 4096, 512))


def check_close(result: Tensor, *operands: Tensor, tolerance: float | None = None) -> None:
    """Compare a product with float64's by the error of the norm."""
    a, b = (x.double() for x in operands)
    error = (result.double() - a @ b).norm() / (a @ b).norm().clamp(min=1e-30)
    allowed = tolerance or {2: 2e-2, 4: 2e-6, 8: 1e-13}[result.element_size()]
    assert error <= allowed, f"{operands[0].shape}, {result.dtype}: error {error:.3g}"


def is_missing(kernel: str, dtype: torch.dtype, missing: set[str]) -> bool:
    """Whether a kernel should have no code for a dtype."""
    return not missing.isdisjoint({kernel, f"{kernel}/{str(dtype).removeprefix('torch.')}"})


def check_auto(missing: set[str]) -> None:
    """Every dtype and precision is right, and the first call warns where kernels are missing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for dtype in FLOATS:
            for m, n, k in SHAPES:
                a = torch.randn(m, k, dtype=dtype, device="cuda").requires_grad_()
                b = torch.randn(k, n, dtype=dtype, device="cuda").requires_grad_()
                c = smem.gemm(a, b)
                check_close(c, a, b)
                grad = torch.randn_like(c)
                grad_a, grad_b = torch.autograd.grad(c, (a, b), grad)
                check_close(grad_a, grad, b.mT)
                check_close(grad_b, a.mT, grad)
                assert not is_missing(smem.plan(a, b).kernel, dtype, missing)
                if dtype == torch.float32:
                    check_close(smem.gemm(a, b, precision="tf32"), a, b, tolerance=4e-3)
    found = [str(w.message) for w in caught if "holds no code" in str(w.message)]
    assert len(found) == bool(missing), found
    for name in missing:
        assert name.partition("/")[0] in found[0], found
    assert not missing or "TORCH_CUDA_ARCH_LIST=9.0a" in found[0], found


def check_named(missing: set[str]) -> None:
    """A missing kernel is refused with the reason; all others are right."""
    for row in smem.kernels("gemm"):
        precision = "tf32" if row.float32_precision == "tf32" else "fp32"
        for dtype in (dtype for dtype in FLOATS if str(dtype).removeprefix("torch.") in row.dtypes):
            lacks = is_missing(row.name, dtype, missing)
            assert row.takes(dtype, "cuda", precision) != lacks
            for m, n, k in SHAPES:
                a = torch.randn(m, k, dtype=dtype, device="cuda")
                b = torch.randn(k, n, dtype=dtype, device="cuda")
                if lacks:
                    with pytest.raises(RuntimeError, match="this build does not hold"):
                        smem.gemm(a, b, kernel=row.name, precision=precision)
                elif row.any_k or k < 900:
                    c = smem.gemm(a, b, kernel=row.name, precision=precision)
                    is_tf32 = dtype == torch.float32 and precision == "tf32"
                    check_close(c, a, b, tolerance=4e-3 if is_tf32 else None)


def check_other_ops() -> None:
    """Transposes and sums need no code of a certain GPU."""
    x = torch.randn(1000, 777, device="cuda")
    for row in smem.kernels("transpose"):
        assert torch.equal(smem.transpose(x, kernel=row.name), x.mT)
    for row in smem.kernels("sum"):
        for dim in (0, 1):
            total = smem.sum(x, dim, kernel=row.name).double()
            assert torch.allclose(total, x.double().sum(dim), atol=1e-3)


if __name__ == "__main__":
    torch.manual_seed(7)
    check_auto(set(sys.argv[1:]))
    check_named(set(sys.argv[1:]))
    check_other_ops()
    torch.cuda.synchronize()
