"""Compiles csrc/ into torch_smem_gemm/_C.abi3.so; everything else stands in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup

try:
    import torch
except ImportError:
    sys.exit(
        "torch_smem_gemm is compiled against the PyTorch you have, and there is none here: run "
        "`pip install torch ninja`, then `pip install --no-build-isolation .`"
    )

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 11):
    sys.exit(f"torch_smem_gemm needs torch 2.11 or newer, and this is torch {torch.__version__}")

sys.path.insert(0, str(Path(__file__).parent))

from build_tools.extension import BuildExt, make_extension

setup(
    ext_modules=[make_extension()],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
