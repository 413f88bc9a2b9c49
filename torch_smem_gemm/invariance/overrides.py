"""The kernels that torch's operators call for CUDA tensors while the mode is in force.

They are registered when the mode is first used, and stay: a registration cannot be taken back
safely while other threads call the operator. Outside of the mode they call torch's own kernel.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from torch_smem_gemm.invariance import (
    attention,
    convolutions,
    products,
    reductions,
    scatters,
)
from torch_smem_gemm.invariance.forms import Kernel
from torch_smem_gemm.invariance.mode import is_in_force

_library: torch.library.Library | None = None


def install() -> None:
    """Register all kernels, once, if there is a GPU."""
    global _library
    if _library is not None or not torch.cuda.is_available():
        return
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        _register(library)
    _library = library


def _register(library: torch.library.Library) -> None:
    for module in (products, reductions, convolutions, scatters):
        for op, kernel in module.KERNELS.items():
            _override(library, op, kernel, "CUDA")
    # torch makes it of other operators before it differentiates. Below Autograd there is only
    # inference mode.
    for key in ("AutogradCUDA", "CUDA"):
        for op, kernel in attention.KERNELS.items():
            _override(library, op, kernel, key)
    for op, kernel in attention.KERNELS_BELOW_AUTOGRAD.items():
        _override(library, op, kernel, "CUDA")


def _override(library: torch.library.Library, op: str, kernel: Kernel, key: str) -> None:
    # None of these kernels of torch looks at the key set. To be given the call's own takes 0.5 us.
    keyset = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    original = torch.library.get_kernel(f"aten::{op}", key)
    torchs = functools.partial(original.call_boxed, keyset)

    def choose(*args: Any, **kwargs: Any) -> Any:
        if is_in_force(args[0].get_device()):
            return kernel(torchs, *args, **kwargs)
        return torchs(*args, **kwargs)

    library.impl(op, choose, key, allow_override=True)
