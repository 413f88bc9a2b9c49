"""A kernel asked for by name says what it cannot take; auto takes everything."""

import pytest
import torch
from gemm_kernels import largest_k, shared_bytes_on

import torch_smem_gemm as smem


def test_what_a_named_kernel_requires(device: str) -> None:
    for dtype in (torch.float64, torch.bfloat16):
        most = largest_k("panel", dtype, device)
        a, b = (torch.empty(s, dtype=dtype, device=device) for s in ((2, most + 1), (most + 1, 2)))
        with pytest.raises(RuntimeError) as caught:
            smem.gemm(a, b, kernel="panel")
        assert str(caught.value) == (
            "smem.gemm: kernel 'panel' needs shared memory in proportion to K; with "
            f"{shared_bytes_on(device)} bytes a block the largest K is {most} for "
            f"{str(dtype)[6:]}, got {most + 1}"
        )


def test_what_tensor_cores_require(device: str) -> None:
    half, single = (torch.ones(2, 2, dtype=d, device=device) for d in (torch.half, torch.float32))
    assert (smem.gemm(half, half, kernel="tensor_core") == 2).all()
    with pytest.raises(RuntimeError) as caught:
        smem.gemm(single, single, kernel="tensor_core")
    assert str(caught.value) == (
        "smem.gemm: kernel 'tensor_core' computes float32 in tf32, got precision fp32"
    )


@pytest.mark.gpu
def test_tensor_cores_take_no_float64() -> None:
    a = torch.ones(2, 2, dtype=torch.float64, device="cuda")
    with pytest.raises(RuntimeError, match="takes float32, float16 and bfloat16, got float64"):
        smem.gemm(a, a, kernel="tensor_core")


def test_auto_takes_every_problem(device: str) -> None:
    a, b = torch.ones(2, 9000, device=device), torch.ones(9000, 2, device=device)
    assert (smem.gemm(a, b) == 9000).all()
