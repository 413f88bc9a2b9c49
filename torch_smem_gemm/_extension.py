"""Loads the compiled extension, which registers ``torch.ops.smem.*``."""

import importlib


def load() -> None:
    """Import ``_C``; raise an ImportError that says what to do where it is missing or unfit."""
    import torch  # noqa: F401  (its libraries must be loaded before the extension is)

    try:
        importlib.import_module("torch_smem_gemm._C")
    except ImportError as error:
        raise ImportError(
            "torch_smem_gemm's compiled extension (torch_smem_gemm/_C.abi3.so) is missing or was "
            f"built for an older torch: {error}. Build it with `pip install --no-build-isolation .`"
        ) from error
