"""smem.plan: which kernel ``auto`` runs, and why."""

import json
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_smem_gemm import _C
from torch_smem_gemm.ops._checks import check_gemm, check_transpose
from torch_smem_gemm.ops._codes import PRECISIONS, precision_code, resolved

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
    precision: str = "fp32",
) -> Plan:
    """Return the plan for a GEMM of that size on such a GPU (default: H200). Needs no GPU."""
    major, minor = capability
    code = precision_code("plan", precision) - 1  # C++ has none for None
    chip = 10 * major + minor, multiprocessors, shared_bytes
    text = _C.plan_gemm(_DTYPE_CODES[dtype], m, n, k, batch, *chip, code)
    return Plan(**json.loads(text))


def plan(a: Tensor, b: Tensor, *, precision: str | None = None) -> Plan:
    """Return what ``smem.gemm(a, b, precision=precision)`` runs; errors as there."""
    code = resolved(precision_code("gemm", precision), a.dtype)
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
        precision=next(name for name, value in PRECISIONS.items() if name and value == (code or 1)),
    )


@dataclass(frozen=True)
class TransposeProblem:
    """What a transpose comes to: a batch of ``rows`` x ``cols`` matrices to turn.

    ``in_strides`` and ``out_strides`` are the steps, in elements of ``element_bytes``, between rows
    and between columns; each entry of ``batch`` has a size and the steps in the input and in the
    output. Rows lie densest in the output, columns in the input, unless runs stay whole: then the
    rows are the run, and columns are runs. ``misaligned`` has both addresses modulo 16.
    """

    element_bytes: int
    rows: int
    cols: int
    in_strides: tuple[int, int]
    out_strides: tuple[int, int]
    misaligned: tuple[int, int]
    batch: tuple[tuple[int, int, int], ...]


def transpose_problem(
    x: Tensor, dim0: int = -2, dim1: int = -1, *, out: Tensor | None = None
) -> TransposeProblem:
    """Return the smallest problem that ``smem.transpose(x, dim0, dim1, out=out)`` comes to."""
    n = _transpose_numbers(x, dim0, dim1, out)
    batch = tuple((n[i], n[i + 1], n[i + 2]) for i in range(9, len(n), 3))
    return TransposeProblem(n[0], n[1], n[2], (n[3], n[4]), (n[5], n[6]), (n[7], n[8]), batch)


def plan_transpose(
    x: Tensor,
    dim0: int = -2,
    dim1: int = -1,
    *,
    out: Tensor | None = None,
    capability: tuple[int, int] = (9, 0),
    multiprocessors: int = 132,
    shared_bytes: int = 227 * 1024,
) -> Plan:
    """Return the plan for tensors laid out so on such a GPU (default: H200). Needs no GPU."""
    major, minor = capability
    numbers = _transpose_numbers(x, dim0, dim1, out)
    text = _C.plan_transpose(numbers, 10 * major + minor, multiprocessors, shared_bytes)
    return Plan(**json.loads(text))


def _transpose_numbers(x: Tensor, dim0: int, dim1: int, out: Tensor | None) -> list[int]:
    shape = check_transpose(x, dim0, dim1)
    if out is None:
        out = x.new_empty(shape)
    return torch.ops.smem._transpose_problem(x, dim0, dim1, out)
