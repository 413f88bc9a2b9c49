"""Builds for other GPUs than this one, run on this one (missing_code.py); `make other-builds`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MISSING = {
    "7.5+PTX": ("tensor_core", "mma/bfloat16", "mma/float32", "wgmma", "fp16x3"),
    "8.0+PTX": ("wgmma", "fp16x3:wgmma"),
    "9.0": (),
}


@pytest.mark.gpu
@pytest.mark.parametrize("archs", MISSING)
def test_a_build_for_another_gpu(archs: str, hopper: None) -> None:
    build = ROOT / "build" / "other" / archs
    if not list(build.glob("torch_smem_gemm/_C*.so")):
        pytest.skip(f"needs a build for {archs}: make other-builds")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "missing_code.py"), *MISSING[archs]],
        cwd=build,
        env=os.environ | {"PYTHONPATH": str(build)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
