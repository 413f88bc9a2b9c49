"""What ``import torch_smem_gemm`` brings, and what it leaves for those who ask."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import torch_smem_gemm as smem

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import json, sys
import torch
before = set(sys.modules)
import torch_smem_gemm as smem
plain = sorted(set(sys.modules) - before)
assert set(smem.__all__) <= set(dir(smem))
namespace = {}
exec("from torch_smem_gemm import *", namespace)
missing = [name for name in smem.__all__ if namespace[name] is not getattr(smem, name)]
print(json.dumps([plain, sorted(set(sys.modules) - before), missing]))
"""


def test_tools_are_imported_at_first_use() -> None:
    answer = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True, cwd=ROOT)
    plain, later, missing = json.loads(answer)
    assert missing == []
    for name in ("analysis", "ops.plan", "trace_report", "tracing"):
        assert f"torch_smem_gemm.{name}" not in plain
        assert f"torch_smem_gemm.{name}" in later
    others = ("torch.distributed", "torch._dynamo", "torch_smem_gemm.bench", "torch_smem_gemm.cli")
    assert [name for name in plain if name.startswith(others)] == []


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'torch_smem_gemm' has no attribute 'matmul'"):
        smem.matmul  # noqa: B018
