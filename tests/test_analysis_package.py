"""torch_smem_gemm.analysis as a whole: what it needs, what it offers, its examples."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from torch_smem_gemm import analysis

MODULES = [module.name for module in pkgutil.iter_modules(analysis.__path__)]


def test_needs_the_standard_library_alone() -> None:
    """Under -S no installed package can be found; the parent, which loads torch, is stubbed."""
    script = """
import sys, types
parent = types.ModuleType("torch_smem_gemm")
parent.__path__ = [sys.argv[1]]
sys.modules["torch_smem_gemm"] = parent
from torch_smem_gemm import analysis
assert analysis.occupancy(256, 32, 0, "A100").blocks == 8
assert "torch" not in sys.modules
print("done")
"""
    package = Path(analysis.__file__).parents[1]
    command = [sys.executable, "-I", "-S", "-c", script, str(package)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("done\n", "")


def test_offers_what_it_says() -> None:
    assert len(set(analysis.__all__)) == len(analysis.__all__)
    assert all(hasattr(analysis, name) for name in analysis.__all__)


@pytest.mark.parametrize("module", ["__init__", *MODULES])
def test_examples(module: str) -> None:
    name = analysis.__name__ if module == "__init__" else f"{analysis.__name__}.{module}"
    assert doctest.testmod(importlib.import_module(name)).failed == 0
