"""smem.plan: which kernel ``auto`` runs, and why."""

import json
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_smem_gemm import _C
from torch_smem_gemm.ops._checks import check_gemm

_DTYPE_CODES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


@dataclass(frozen=True)
class Plan:
    """The kernel that a call runs, and the reason in words."""

    kernel: str
    reason: str


def plan_problem(
    dtype: torch.dtype,
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    capability: tuple[int, int] = (9, 0),
    multiprocessors: int = 132,
    shared_bytes: int = 227 * 1024,
) -> Plan:
    """Return the plan for a GEMM of that size on such a GPU (default: H200). Needs no GPU."""
    major, minor = capability
    text = _C.plan_gemm(
        _DTYPE_CODES[dtype], m, n, k, batch, 10 * major + minor, multiprocessors, shared_bytes
    )
    return Plan(**json.loads(text))


def plan(a: Tensor, b: Tensor) -> Plan:
    """Return what ``smem.gemm(a, b)`` runs; errors as there."""
    check_gemm(a, b, None, None, 0.0)
    if a.is_cpu:
        return Plan("aten", "CPU tensors: ATen, unless a kernel is named")
    m, n, k, batch = torch.ops.smem._gemm_problem(a, b)
    device = torch.cuda.get_device_properties(a.device)
    return plan_problem(
        a.dtype,
        m,
        n,
        k,
        batch=batch,
        capability=(device.major, device.minor),
        multiprocessors=device.multi_processor_count,
        shared_bytes=device.shared_memory_per_block_optin,  # type: ignore[attr-defined]
    )
