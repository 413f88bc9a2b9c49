"""``bench gemm --assume A100``: what would run on a GPU that is not there, and its model's time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from torch_smem_gemm.analysis import Device
from torch_smem_gemm.bench.shapes import GemmShape
from torch_smem_gemm.bench.suite import Job, numbers, operations
from torch_smem_gemm.cli._text import table
from torch_smem_gemm.ops.plan import GemmProblem, plan_for

EXPECTED = " us expected"
HOPPER = 9, 0


def check(device: Device) -> None:
    """Raise ValueError for a device that is too old."""
    plan_for(device, torch.float32, GemmProblem.contiguous(1, 1, 1))


def print_plans(jobs: Sequence[Job], device: Device) -> None:
    """Print a table for each set and dtype. Nothing is measured, and no tensor is made."""
    capability = ".".join(map(str, device.capability))
    print(f"{device.name}, of compute capability {capability}: what a build for it would run.")
    print(
        "Nothing was measured. model us: by the kernel's cost model, if it knows this GPU's rates."
    )
    print("floor us: by the peak and the bandwidth of the data sheet.")
    print()
    for (name, arithmetic), group in itertools.groupby(jobs, lambda job: (job.set, job.arithmetic)):
        rows = [_row(job, device) for job in group]
        table(
            f"{name}, {arithmetic}", ["problem", "kernel", ">model us", ">floor us", "plan"], rows
        )


def gemm_problem(shape: GemmShape) -> GemmProblem:
    """Return the problem of a shape, with aligned operands and a contiguous out."""

    def operand(rows: int, cols: int, layout: str) -> tuple[tuple[int, int], int]:
        """Return the strides of rows and columns, and that of the batch."""
        if layout == "t":
            (col_stride, row_stride), matrix = operand(cols, rows, "n")
            return (row_stride, col_stride), matrix
        return (cols + shape.gap, 1), rows * (cols + shape.gap)

    m, n, k = shape.m, shape.n, shape.k
    of_a, matrix_a = operand(m, k, shape.layout[0])
    of_b, matrix_b = operand(k, n, shape.layout[1])
    batch = ((shape.batch, matrix_a, matrix_b, m * n),) if shape.batch > 1 else ()
    return GemmProblem(m, n, k, (of_a, of_b, (n, 1)), batch=batch)


def floor_us(shape: GemmShape, arithmetic: str, kernel: str, device: Device) -> float:
    """Return the most of bytes over bandwidth and operations over the peak of what computes them.

    fp16x3 computes three products of float16.
    """
    bytes_ = {"float64": 8, "float32": 4, "tf32": 4}.get(arithmetic, 2)
    tensor = device.tensor_tflops / (3 if kernel == "fp16x3" else 2 if arithmetic == "tf32" else 1)
    on_cuda_cores = arithmetic in ("float32", "float64") and kernel != "fp16x3"
    tflops = device.tflops(arithmetic) if on_cuda_cores else tensor or device.fp32_tflops
    return max(
        numbers(shape) * bytes_ / device.bandwidth_gbs / 1e3,
        operations(shape) / tflops / 1e6,
    )


def _row(job: Job, device: Device) -> list[str]:
    assert isinstance(job.shape, GemmShape)
    precision = "tf32" if job.arithmetic == "tf32" else "fp32"
    plan = plan_for(device, job.dtype, gemm_problem(job.shape), precision=precision)
    how, _, model = plan.reason.removesuffix(EXPECTED).rpartition(": ")
    if not plan.reason.endswith(EXPECTED):
        how, model = plan.reason, ""
    elif plan.kernel not in ("mma", "fp16x3") and device.capability != HOPPER:
        model = ""  # the other kernels' models have an H200's rates
    floor = floor_us(job.shape, job.arithmetic, plan.kernel, device)
    return [job.shape.title, plan.kernel, model, f"{floor:,.1f}", how]
