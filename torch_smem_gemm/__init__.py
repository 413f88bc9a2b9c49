"""GEMM, transpose and sum kernels for PyTorch, from the naive one up.

>>> import torch, torch_smem_gemm as smem
>>> smem.gemm(torch.ones(2, 3), torch.ones(3, 2))
tensor([[3., 3.],
        [3., 3.]])
"""

from torch_smem_gemm._extension import load as _load

_load()

from torch_smem_gemm import analysis  # noqa: E402
from torch_smem_gemm._flops import register_when_imported as _register_flops  # noqa: E402
from torch_smem_gemm._kernels import KernelInfo, kernels  # noqa: E402
from torch_smem_gemm._version import __version__  # noqa: E402
from torch_smem_gemm.convert import Converted, convert, revert  # noqa: E402
from torch_smem_gemm.nn import Linear  # noqa: E402
from torch_smem_gemm.ops.extrema import amax, amin  # noqa: E402
from torch_smem_gemm.ops.gemm import gemm  # noqa: E402
from torch_smem_gemm.ops.linear import linear  # noqa: E402
from torch_smem_gemm.ops.plan import Plan, plan  # noqa: E402
from torch_smem_gemm.ops.sum import mean, sum  # noqa: E402
from torch_smem_gemm.ops.transpose import transpose  # noqa: E402
from torch_smem_gemm.trace_report import Trace  # noqa: E402
from torch_smem_gemm.tracing import trace  # noqa: E402

_register_flops()

__all__ = [
    "Converted",
    "KernelInfo",
    "Linear",
    "Plan",
    "Trace",
    "__version__",
    "amax",
    "amin",
    "analysis",
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
