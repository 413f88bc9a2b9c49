"""The forms that an ATen operator has beside the functional one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

# Called as kernel(torchs, *args, **kwargs), where torchs(*args, **kwargs) is torch's own kernel.
Kernel = Callable[..., Any]


def with_out(kernel: Kernel) -> Kernel:
    """Return the form of ``kernel`` with ``out=``."""

    def into(torchs: Kernel, *args: Any, out: Tensor, **kwargs: Any) -> Tensor:
        def torchs_into_out(*args: Any, **kwargs: Any) -> Any:
            return torchs(*args, out=out, **kwargs)

        result = kernel(torchs_into_out, *args, **kwargs)
        if result is not out:
            if out.shape != result.shape:
                out.resize_(result.shape)
            out.copy_(result)
        return out

    return into


def in_place(kernel: Kernel) -> Kernel:
    """Return the form of ``kernel`` that writes to its first argument."""

    def into(torchs: Kernel, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = kernel(torchs, x, *args, **kwargs)
        return x if result is x else x.copy_(result)

    return into
