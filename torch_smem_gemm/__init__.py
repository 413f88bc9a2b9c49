"""GEMM, transpose and sum kernels for PyTorch, from the naive one up.

>>> import torch, torch_smem_gemm as smem
>>> smem.gemm(torch.ones(2, 3), torch.ones(3, 2))
tensor([[3., 3.],
        [3., 3.]])
"""

import importlib
from typing import TYPE_CHECKING, Any

from torch_smem_gemm._extension import load as _load

_load()

from torch_smem_gemm._flops import register_when_imported as _register_flops  # noqa: E402
from torch_smem_gemm._kernels import KernelInfo, kernels  # noqa: E402
from torch_smem_gemm._version import __version__  # noqa: E402
from torch_smem_gemm.convert import Converted, convert, revert  # noqa: E402
from torch_smem_gemm.nn import Linear  # noqa: E402
from torch_smem_gemm.ops.extrema import amax, amin  # noqa: E402
from torch_smem_gemm.ops.gemm import gemm  # noqa: E402
from torch_smem_gemm.ops.linear import linear  # noqa: E402
from torch_smem_gemm.ops.sum import mean, sum  # noqa: E402
from torch_smem_gemm.ops.transpose import transpose  # noqa: E402

if TYPE_CHECKING:
    from torch_smem_gemm import analysis
    from torch_smem_gemm.invariance import InvarianceReport, check_batch_invariance
    from torch_smem_gemm.invariance.mode import batch_invariant
    from torch_smem_gemm.ops.plan import Plan, plan
    from torch_smem_gemm.raw_kernel import CompileError, KernelFault, RawKernel
    from torch_smem_gemm.trace_report import Trace
    from torch_smem_gemm.tracing import trace

_register_flops()

# Tools that a program which only computes never asks for: their modules are imported at first use.
_LAZY = {
    "CompileError": "torch_smem_gemm.raw_kernel",
    "InvarianceReport": "torch_smem_gemm.invariance",
    "KernelFault": "torch_smem_gemm.raw_kernel",
    "Plan": "torch_smem_gemm.ops.plan",
    "RawKernel": "torch_smem_gemm.raw_kernel",
    "Trace": "torch_smem_gemm.trace_report",
    "batch_invariant": "torch_smem_gemm.invariance.mode",
    "check_batch_invariance": "torch_smem_gemm.invariance",
    "plan": "torch_smem_gemm.ops.plan",
    "trace": "torch_smem_gemm.tracing",
}


def load_ipython_extension(shell: Any) -> None:
    """Define the magic ``%%smem_trace`` in a notebook: ``%load_ext torch_smem_gemm``."""
    importlib.import_module("torch_smem_gemm.notebook").register(shell)


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return importlib.import_module("torch_smem_gemm.analysis")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "CompileError",
    "Converted",
    "InvarianceReport",
    "KernelFault",
    "KernelInfo",
    "Linear",
    "Plan",
    "RawKernel",
    "Trace",
    "__version__",
    "amax",
    "amin",
    "analysis",
    "batch_invariant",
    "check_batch_invariance",
    "convert",
    "gemm",
    "kernels",
    "linear",
    "mean",
    "plan",
    "revert",
    "sum",
    "trace",
    "transpose",
]
