"""What the tests of ``trace`` share: its kernels, and how they call it."""

from pathlib import Path

import pytest

from torch_smem_gemm.cli import main

SOURCE = """#define TILE 32
#ifndef PAD
#define PAD 0
#endif

__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[TILE][TILE + PAD];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += blockDim.y)
    tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += blockDim.y)
    out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
LAUNCH = ["--grid", "2,2", "--block", "32,8"]
ARGS = ["--arg", "randn(64, 64)", "--arg", "empty(64, 64)", "--arg", "64"]
CHECK = ["--check", "out == in.T"]


def trace(
    capsys: pytest.CaptureFixture[str], file: Path, *options: str, status: int = 0
) -> tuple[str, str]:
    """What the command prints, and its errors."""
    try:
        ended = main(["trace", str(file), *options])
    except SystemExit as exit_:  # argparse
        ended = exit_.code
    said = capsys.readouterr()
    assert ended == status, said.err
    return said.out, said.err


def said(capsys: pytest.CaptureFixture[str], file: Path, *options: str, status: int = 0) -> str:
    """What the command prints where it ends with ``status``."""
    return trace(capsys, file, *options, status=status)[0]


def error(capsys: pytest.CaptureFixture[str], file: Path, *options: str, status: int = 2) -> str:
    """The error of the command."""
    out, err = trace(capsys, file, *options, status=status)
    assert out == ""
    assert "Traceback" not in err
    return err
