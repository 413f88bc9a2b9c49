"""Recognises errors for lack of memory."""

from __future__ import annotations

import torch

# Of torch's RuntimeErrors, which have a type of their own for CUDA memory only.
_TEXTS = ("DefaultCPUAllocator: ", "Storage size calculation overflowed")


def lacks_memory(error: BaseException) -> bool:
    """Whether ``error`` says that a tensor, of a CPU or a GPU, found no memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)
