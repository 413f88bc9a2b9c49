"""smem.plan: which kernel runs, and how."""

import json
import mmap
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_smem_gemm import _C
from torch_smem_gemm._kernels import Chip, chip
from torch_smem_gemm.ops._arguments import check_tensors
from torch_smem_gemm.ops._checks import check_gemm, check_transpose
from torch_smem_gemm.ops._codes import AUTO, PRECISIONS, kernel_code, precision_code, resolved

if TYPE_CHECKING:
    from torch_smem_gemm.analysis import Device

OLDEST_CAPABILITY = 7, 5
# MAP_NORESERVE has no name before Python 3.13: addresses alone, for which there need be no memory.
_UNRESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
_DTYPE_CODES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


@dataclass(frozen=True)
class Plan:
    """The kernel that a call runs, and the reason in words."""

    kernel: str
    reason: str

    def _repr_html_(self) -> str:
        """Return the plan as HTML, which notebooks show."""
        return f"<p>Kernel <code>{escape(self.kernel)}</code>: {escape(self.reason)}</p>"


@dataclass(frozen=True)
class GemmProblem:
    """The problem of a GEMM: M x K by K x N, once for each iteration of ``batch``.

    The entries of ``strides`` are for a, b and out: the strides, in elements, between rows and
    between columns. Each entry of ``batch`` has a size and the strides of the three. ``misaligned``
    has the addresses of a and b modulo 16.
    """

    m: int
    n: int
    k: int
    strides: tuple[tuple[int, int], ...]
    misaligned: tuple[int, int] = (0, 0)
    batch: tuple[tuple[int, int, int, int], ...] = ()

    @classmethod
    def contiguous(cls, m: int, n: int, k: int, batch: int = 1) -> "GemmProblem":
        """Return the problem of row-major matrices."""
        loops = ((batch, m * k, k * n, m * n),) if batch > 1 else ()
        return cls(m, n, k, ((k, 1), (n, 1), (n, 1)), batch=loops)


def gemm_problem(a: Tensor, b: Tensor) -> GemmProblem:
    """Return the problem of ``smem.gemm(a, b)`` with a contiguous out."""
    n = torch.ops.smem._gemm_problem(_allocated(a), _allocated(b))
    batch = tuple((n[i], n[i + 1], n[i + 2], n[i + 3]) for i in range(11, len(n), 4))
    return GemmProblem(
        n[0], n[1], n[2], ((n[3], n[4]), (n[5], n[6]), (n[7], n[8])), (n[9], n[10]), batch
    )


def _allocated(x: Tensor) -> Tensor:
    """The tensor, or for one on ``meta`` one like it, whose memory is never touched."""
    if not x.is_meta:
        return x
    offset = x.storage_offset() % 32  # its alignment, up to a sector
    elements = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    count = int(offset + max(elements, 1))
    memory = mmap.mmap(-1, count * x.dtype.itemsize, flags=_UNRESERVED)
    return torch.frombuffer(memory, dtype=x.dtype, count=count).as_strided(
        x.shape, x.stride(), offset
    )


def plan_problem(
    dtype: torch.dtype,
    problem: GemmProblem,
    *,
    capability: tuple[int, int] = (9, 0),
    sms: int = 132,
    shared_bytes: int = 227 * 1024,
    code: tuple[int, int] | None = None,
    precision: str = "fp32",
    kernel: str = "auto",
) -> Plan:
    """Return the plan for a GEMM on such a GPU (default: H200). Needs no GPU.

    ``code`` is the capability for which the build has code; None for the GPU's own.
    """
    p = problem
    nested = (p.m, p.n, p.k), *p.strides, p.misaligned, *p.batch
    numbers = list(chain.from_iterable(nested))
    gpu = _chip(capability, sms, shared_bytes, code)
    kept = precision_code("plan", precision) - 1  # C++ has no code for None
    named = kernel_code("gemm", kernel)
    return Plan(**json.loads(_C.plan_gemm(numbers, gpu, _DTYPE_CODES[dtype], kept, named)))


def plan_for(
    device: "Device",
    dtype: torch.dtype,
    problem: GemmProblem,
    *,
    precision: str = "fp32",
    kernel: str = "auto",
) -> Plan:
    """Return the plan for a GEMM on a GPU of :data:`torch_smem_gemm.analysis.DEVICES`.

    Raises ValueError for a device that is too old.
    """
    from torch_smem_gemm import analysis  # not imported with the package

    limits = analysis.capability(device)
    if limits.version < OLDEST_CAPABILITY:
        raise ValueError(
            f"smem.plan: device is {device.name}, of compute capability {limits.name}, "
            "expected 7.5 or newer"
        )
    return plan_problem(
        dtype,
        problem,
        capability=device.capability,
        sms=device.sms,
        shared_bytes=limits.shared_per_block,
        precision=precision,
        kernel=kernel,
    )


def _chip(
    capability: tuple[int, int],
    sms: int,
    shared_bytes: int,
    code: tuple[int, int] | None = None,
) -> Chip:
    of_gpu, of_code = (10 * major + minor for major, minor in (capability, code or capability))
    return Chip(of_gpu, sms, shared_bytes, of_code)


def plan(
    a: Tensor,
    b: Tensor,
    *,
    precision: str | None = None,
    kernel: str = "auto",
    device: "Device | str | None" = None,
) -> Plan:
    """Return what ``smem.gemm(a, b, precision=precision, kernel=kernel)`` runs.

    Args:
        a, b, precision, kernel: as in :func:`torch_smem_gemm.gemm`; the tensors are not read, and
            have the dtype that the plan is for, also under autocast. With ``device`` they may be on
            torch's device ``meta``, where they take no memory.
        device: a GPU such as ``"A100"`` (:data:`torch_smem_gemm.analysis.DEVICES`): return what
            would run there, with a build for it, wherever the tensors are. Needs no GPU. Times in
            the reason are by the rates of that GPU's family for ``mma``, and for the other kernels
            by an H200's, with that GPU's number of SMs.

    Raises what gemm raises, and ValueError for a device that is not known, or too old.
    """
    check_tensors("gemm", required={"a": a, "b": b}, optional={})
    code = resolved(precision_code("gemm", precision), a.dtype)
    check_gemm(a, b, None, None, 0.0)
    kept = next(name for name, value in PRECISIONS.items() if name and value == (code or 1))
    if device is not None:
        from torch_smem_gemm import analysis  # not imported with the package

        found = analysis.device(device) if isinstance(device, str) else device
        return plan_for(found, a.dtype, gemm_problem(a, b), precision=kept, kernel=kernel)
    if a.is_meta:
        raise ValueError(
            "smem.plan: a is on meta, expected a tensor on a CPU or CUDA device, or `device`"
        )
    if a.is_cpu:
        if kernel_code("gemm", kernel) != AUTO:
            return Plan(kernel, "CPU tensors: the emulator runs the kernel that is named")
        return Plan("aten", "CPU tensors: ATen, unless a kernel is named")
    gpu = chip(a.device)
    return plan_problem(
        a.dtype,
        gemm_problem(a, b),
        capability=divmod(gpu.capability, 10),
        sms=gpu.sms,
        shared_bytes=gpu.shared_bytes,
        code=divmod(gpu.code_capability, 10),
        precision=kept,
        kernel=kernel,
    )


@dataclass(frozen=True)
class TransposeProblem:
    """The problem of a transpose: a batch of ``rows`` x ``cols`` matrices.

    ``in_strides`` and ``out_strides`` are the strides, in elements of ``element_bytes``, between
    rows and between columns; each entry of ``batch`` has a size and the strides in the input and in
    the output. Consecutive rows are densest in the output, consecutive columns in the input. The
    exception is a transpose that keeps the innermost dimension: then the rows are its elements, and
    each column is copied whole. ``misaligned`` has both addresses modulo 32, a sector.
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
    """Return the smallest problem equivalent to ``smem.transpose(x, dim0, dim1, out=out)``."""
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
    sms: int = 132,
    shared_bytes: int = 227 * 1024,
) -> Plan:
    """Return the plan for such tensors on such a GPU (default: H200). Needs no GPU."""
    numbers = _transpose_numbers(x, dim0, dim1, out)
    text = _C.plan_transpose(numbers, _chip(capability, sms, shared_bytes))
    return Plan(**json.loads(text))


def _transpose_numbers(x: Tensor, dim0: int, dim1: int, out: Tensor | None) -> list[int]:
    shape = check_transpose(x, dim0, dim1)
    if out is None:
        out = x.new_empty(shape) if x.is_cuda else _allocated(x.new_empty(shape, device="meta"))
    return torch.ops.smem._transpose_problem(x, dim0, dim1, out)
