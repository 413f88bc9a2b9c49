"""The problems that ``explain`` can trace: which sizes and dtypes, and the op's arguments."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm import _C
from torch_smem_gemm._kernels import OPS
from torch_smem_gemm._trace_size import gemm_accesses, reduction_accesses, transpose_accesses
from torch_smem_gemm.cli._text import positive
from torch_smem_gemm.trace_report import Trace

# Enough blocks for half the SMs of a large GPU or more, and no more than seconds of tracing.
SIZES = {"gemm": (512, 512, 64), "transpose": (1024, 1024), "sum": (256, 8192)}
LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Problem:
    """An op's inputs by their properties; they are made when a kernel is traced.

    ``sizes`` are M, N, K of a GEMM, rows and columns of the others' x. ``layout`` is a GEMM's,
    ``dim`` the one that a sum is over.
    """

    op: str
    sizes: tuple[int, ...]
    dtype: str
    layout: str = "nn"
    dim: int = 1

    @property
    def title(self) -> str:
        """The problem in words."""
        special = {"gemm": f" {self.layout}", "sum": f" over dim {self.dim}"}.get(self.op, "")
        return f"{self.op} {' x '.join(map(str, self.sizes))} {self.dtype}{special}"

    @property
    def accesses(self) -> int:
        """Estimate the loads and stores of the busiest ladder kernel."""
        if self.op == "gemm":
            return gemm_accesses(*self.sizes)
        m, n = self.sizes
        if self.op == "transpose":
            return transpose_accesses(m, n)
        return reduction_accesses(*((n, m) if self.dim == 1 else (m, n)))

    def trace(self, kernel: str) -> Trace:
        """Run one kernel under the tracer, however long it takes."""
        return smem.trace(self.op, *self._arguments(), kernel=kernel, max_accesses=None)

    def _arguments(self) -> tuple[Tensor | int, ...]:
        dtype = getattr(torch, self.dtype)
        m, n = self.sizes[:2]
        if self.op == "gemm":
            k = self.sizes[2]
            return _matrix(m, k, dtype, self.layout[0]), _matrix(k, n, dtype, self.layout[1])
        x = torch.ones(m, n, dtype=dtype)
        return (x, self.dim) if self.op == "sum" else (x,)


def _matrix(rows: int, columns: int, dtype: torch.dtype, layout: str) -> Tensor:
    """Ones: no count depends on the numbers."""
    if layout == "t":
        return torch.ones(columns, rows, dtype=dtype).t()
    return torch.ones(rows, columns, dtype=dtype)


def dtypes() -> dict[str, list[str]]:
    """Return the dtypes of each op's kernels, float32 first."""
    found: dict[str, list[str]] = {op: [] for op in OPS}
    for row in json.loads(_C.kernel_symbols()):
        if row["dtype"] not in found[row["op"]]:
            found[row["op"]].append(row["dtype"])
    found["transpose"] = [*found["sum"], "complex64", "complex128"]  # any dtype of these sizes
    return {op: sorted(names, key=lambda name: name != "float32") for op, names in found.items()}


def add_problem_arguments(parser: argparse.ArgumentParser, op: str) -> None:
    """Declare sizes, dtype and layout of ``op``."""
    meanings = {
        "gemm": ("rows of A and C", "columns of B and C", "columns of A, rows of B"),
        "transpose": ("rows of x", "columns of x"),
        "sum": ("rows of x", "columns of x"),
    }
    for name, default, meaning in zip("mnk", SIZES[op], meanings[op], strict=False):
        parser.add_argument(
            f"-{name}", type=positive, default=default, help=f"{meaning} (default: {default})"
        )
    parser.add_argument("--dtype", choices=dtypes()[op], default="float32")
    if op == "gemm":
        parser.add_argument(
            "--layout",
            choices=LAYOUTS,
            default="nn",
            help="A and B: n as it is, row-major, t the transposed view of such a one",
        )
    if op == "sum":
        parser.add_argument(
            "--dim", type=int, choices=(0, 1), default=1, help="summed over (default: 1)"
        )


def problem_of(op: str, args: argparse.Namespace) -> Problem:
    """The problem that the arguments describe."""
    sizes = tuple(getattr(args, name) for name in "mnk"[: len(SIZES[op])])
    special = {name: getattr(args, name) for name in ("layout", "dim") if hasattr(args, name)}
    return Problem(op, sizes, args.dtype, **special)
