"""The ladder of each op, checked and timed on one problem beside what torch offers for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.bench.measure import Call, Ceilings, interleaved


@dataclass(frozen=True)
class Problem:
    """One job that every kernel of an op can do, and how its result is judged."""

    op: str
    title: str
    work: float  # operations or bytes of one call
    unit: str  # what work / 1e9 / seconds is called
    floors: dict[str, float]  # ceiling -> seconds that the job takes there
    out: Tensor
    run_kernel: Callable[[str], object]  # runs the kernel of that name into `out`
    peers: dict[str, Call]  # what torch has for the same job
    reference: Tensor  # float64, of the shape of `out`
    tolerance: Tensor  # float64, largest error allowed at each element


@dataclass
class Row:
    """One line of a ladder. Times and rates are None unless ``status`` is ``"ok"``."""

    op: str
    problem: str
    name: str
    kind: str  # "kernel" of this package, or "torch"
    summary: str
    status: str = "ok"  # or "wrong", or "n/a"
    detail: str = ""  # what is wrong, or why the kernel cannot take the problem
    ms: float | None = None
    ms_p20: float | None = None
    ms_p80: float | None = None
    rounds: int | None = None
    rate: float | None = None
    unit: str = ""
    shares: dict[str, float] = field(default_factory=dict)  # ceiling -> part of it reached
    speedup: float | None = None  # over the first kernel of the ladder, round by round
    speedup_p20: float | None = None
    speedup_p80: float | None = None


def gemm_problem(
    m: int, n: int, k: int, dtype: torch.dtype, device: torch.device, ceilings: Ceilings
) -> Problem:
    """``(m, k) @ (k, n)`` of normally distributed numbers, all row-major."""
    a = torch.randn(m, k, dtype=dtype, device=device)
    b = torch.randn(k, n, dtype=dtype, device=device)
    out = torch.empty(m, n, dtype=dtype, device=device)
    work = 2 * m * n * k
    least_bytes = (a.numel() + b.numel() + out.numel()) * out.element_size()
    floors = {}
    if ceilings.fma_gflops is not None and dtype != torch.float64:
        floors["FMA"] = work / ceilings.fma_gflops / 1e9
    floors["copy"] = least_bytes / ceilings.copy_gbs / 1e9
    reference = a.double() @ b.double()
    # Rounding errors along K add up like a random walk. One product left out weighs about 1/K of
    # |a| @ |b|, which is far more.
    magnitude = a.double().abs() @ b.double().abs()
    return Problem(
        op="gemm",
        title=f"gemm {m} x {n} x {k} {_name(dtype)}",
        work=work,
        unit="GFLOP/s",
        floors=floors,
        out=out,
        run_kernel=lambda kernel: smem.gemm(a, b, kernel=kernel, out=out),
        peers={"torch.matmul": lambda: torch.matmul(a, b, out=out)},
        reference=reference,
        tolerance=math.sqrt(k) * _sum_eps(dtype) * magnitude + _eps(dtype) * reference.abs(),
    )


def transpose_problem(
    rows: int, columns: int, dtype: torch.dtype, device: torch.device, ceilings: Ceilings
) -> Problem:
    """A contiguous copy of the transpose of a ``(rows, columns)`` matrix."""
    x = torch.randn(rows, columns, dtype=dtype, device=device)
    out = torch.empty(columns, rows, dtype=dtype, device=device)
    straight = torch.empty_like(x)
    work = 2 * x.numel() * x.element_size()
    return Problem(
        op="transpose",
        title=f"transpose {rows} x {columns} {_name(dtype)}",
        work=work,
        unit="GB/s",
        floors={"copy": work / ceilings.copy_gbs / 1e9},
        out=out,
        run_kernel=lambda kernel: smem.transpose(x, kernel=kernel, out=out),
        peers={
            "x.t().contiguous()": lambda: x.t().contiguous(),
            "copy, no transpose": lambda: straight.copy_(x),
        },
        reference=x.t().double(),
        tolerance=torch.zeros(columns, rows, dtype=torch.float64, device=device),
    )


def sum_problem(
    shape: tuple[int, ...],
    dim: int | None,
    dtype: torch.dtype,
    device: torch.device,
    ceilings: Ceilings,
) -> Problem:
    """The sum of a tensor of ``shape`` over ``dim``, or of all of it if ``dim`` is None."""
    x = torch.randn(shape, dtype=dtype, device=device)
    reference = torch.sum(x, dim, dtype=torch.float64)
    work = x.numel() * x.element_size()
    # The partial sums of n normal numbers reach sqrt(n), and each addition rounds one of them.
    walk = 32 * _sum_eps(dtype) * math.sqrt(x.numel() if dim is None else x.size(dim))
    over = "all" if dim is None else f"dim {dim}"
    out = torch.empty(reference.shape, dtype=dtype, device=device)
    return Problem(
        op="sum",
        title=f"sum {' x '.join(map(str, shape))} over {over} {_name(dtype)}",
        work=work,
        unit="GB/s",
        floors={"read": work / ceilings.read_gbs / 1e9},
        out=out,
        run_kernel=lambda kernel: smem.sum(x, dim, kernel=kernel, out=out),
        peers={"torch.sum": lambda: torch.sum(x, dim)},
        reference=reference,
        tolerance=walk + _eps(dtype) * reference.abs(),
    )


def run_ladder(problem: Problem, only: Collection[str] | None = None) -> list[Row]:
    """Check every kernel of the problem's op, then time those that are right, and torch's.

    Args:
        problem: what to compute.
        only: names of the kernels to run; None runs all.

    Returns:
        The kernels in the order of their table, then torch's.
    """
    device = problem.out.device
    ladder = [info for info in kernels(problem.op) if only is None or info.name in only]
    rows = [_checked(problem, info.name, info.summary) for info in ladder]
    calls = {row.name: _bound(problem, row.name) for row in rows if row.status == "ok"}
    samples = interleaved({**calls, **problem.peers}, device)

    rows += [_row(problem, name, "torch", "") for name in problem.peers]
    first = samples.get(rows[0].name)
    for row in rows:
        if row.name not in samples:
            continue
        timed = samples[row.name].spread
        row.ms, row.ms_p20, row.ms_p80 = (
            seconds * 1e3 for seconds in (timed.median, timed.p20, timed.p80)
        )
        row.rounds = timed.rounds
        row.rate = problem.work / timed.median / 1e9
        row.shares = {name: floor / timed.median for name, floor in problem.floors.items()}
        speedup = first and samples[row.name].ratio(first)
        if speedup:
            row.speedup = speedup.median
            row.speedup_p20, row.speedup_p80 = speedup.p20, speedup.p80
    return rows


def _checked(problem: Problem, name: str, summary: str) -> Row:
    """Run the kernel ``name`` into a poisoned output and judge the result."""
    row = _row(problem, name, "kernel", summary)
    problem.out.fill_(math.nan)
    try:
        problem.run_kernel(name)
    except RuntimeError as error:
        # The package's own refusals name the op; everything else (a fault of the device, memory
        # used up) is no property of the kernel.
        if not str(error).startswith(f"smem.{problem.op}: kernel "):
            raise
        row.status, row.detail = "n/a", str(error).splitlines()[0]
        return row
    difference = (problem.out.double() - problem.reference).abs()
    if not bool((difference <= problem.tolerance).all()):  # a NaN is never within the tolerance
        row.status, row.detail = "wrong", f"off by up to {difference.max().item():.3g}"
    return row


def _row(problem: Problem, name: str, kind: str, summary: str) -> Row:
    return Row(problem.op, problem.title, name, kind, summary, unit=problem.unit)


def _bound(problem: Problem, name: str) -> Call:
    return lambda: problem.run_kernel(name)


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _sum_eps(dtype: torch.dtype) -> float:
    """Of the type that sums of ``dtype`` are held in."""
    return _eps(torch.float64 if dtype == torch.float64 else torch.float32)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
