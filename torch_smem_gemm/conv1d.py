"""GPT-2's ``Conv1D`` by :func:`torch_smem_gemm.gemm`; the only module that imports transformers.

:func:`torch_smem_gemm.convert` imports it if a model can contain such modules. The class is defined
at the top level of a module, because pickle requires that of the classes of converted models.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import pytorch_utils

from torch_smem_gemm.ops.gemm import gemm
from torch_smem_gemm.split_cache import CachesSplit

torch.fx.wrap("gemm")  # as in nn.py


class Conv1D(pytorch_utils.Conv1D, CachesSplit):
    """``transformers.pytorch_utils.Conv1D`` computed by :func:`torch_smem_gemm.gemm`.

    ``y = x @ weight + bias``, with a weight of shape ``(nx, nf)``: a Linear whose weight is stored
    transposed. Parameters, their names and ``state_dict`` are those of the original.

    Args:
        nf: size N of each output row.
        nx: size K of each input row.
    """

    # As in torch_smem_gemm.Linear: convert() makes objects of this class without __init__.
    precision: str | None = None
    _converted: bool = False

    # From the original, whose module has no types.
    weight: Tensor
    bias: Tensor
    nf: int

    def __repr__(self) -> str:
        return f"smem.{super().__repr__()}"

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x`` of shape ``(*, nx)``."""
        rows = x.reshape(-1, x.shape[-1])
        y: Tensor | None = None
        if self.cache_split:
            y = self.multiply_by_kept(rows, is_transposed=True)
        if y is None:
            y = gemm(rows, self.weight, bias=self.bias, precision=self.precision)
        return y.view(*x.shape[:-1], self.nf)
