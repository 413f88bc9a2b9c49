"""Additions to places that an index names: torch's deterministic kernels, in the mode."""

from __future__ import annotations

import threading
from typing import Any

import torch

from torch_smem_gemm.invariance.forms import Kernel

# torch has one setting for all threads.
_setting = threading.RLock()


def _deterministic(torchs: Kernel, *args: Any, **kwargs: Any) -> Any:
    """Call torch's kernel under torch.use_deterministic_algorithms.

    It adds the values for a place in the order of the index, instead of by atomics.
    """
    with _setting:
        before = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        # torch.use_deterministic_algorithms would import torch.compile's backend.
        torch._C._set_deterministic_algorithms(True, warn_only=True)
        try:
            return torchs(*args, **kwargs)
        finally:
            torch._C._set_deterministic_algorithms(before, warn_only=warn_only)


_OPS = (
    "index_add",
    "index_add.out",
    "index_add_",
    "scatter_add",
    "scatter_add.out",
    "scatter_add_",
    "index_put_",
    "_index_put_impl_",
    "embedding_dense_backward",
)

KERNELS: dict[str, Kernel] = dict.fromkeys(_OPS, _deterministic)
