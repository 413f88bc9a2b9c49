"""A kernel written with views compiles to as little machine code as one written by hand."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from torch.utils.cpp_extension import include_paths

ROOT = Path(__file__).parent.parent
NVCC = shutil.which("nvcc")

pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc")

# The launch parameters, and what both kernels are called: their names must not differ.
HEAD = """
#include "device/tile.h"
#include "device/vector.h"
struct Problem { const float* a; const float* b; float* c; int64_t M, N, K; };
using namespace smem;
constexpr int T = 32;
extern "C" __global__ void __launch_bounds__(1024) kernel(const __grid_constant__ Problem p) {
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = int64_t{blockIdx.y} * T + ty, col = int64_t{blockIdx.x} * T + tx;
"""

VIEWS = """
  __shared__ Tile<float, T, T> As;
  __shared__ Tile<float, T, T> Bs;
  const Matrix<const float> A{p.a, p.M, p.K, p.K, 1}, B{p.b, p.K, p.N, p.N, 1};
  const Matrix<float> C{p.c, p.M, p.N, p.N, 1};
  float sum = 0;
#pragma unroll 1
  for (int64_t k0 = 0; k0 < p.K; k0 += T) {
    As(ty, tx) = A.at_or_zero(row, k0 + tx);
    Bs(ty, tx) = B.at_or_zero(k0 + ty, col);
    __syncthreads();
    for (int k = 0; k < T; ++k) sum = fma(As(ty, k), Bs(k, tx), sum);
    __syncthreads();
  }
  if (C.contains(row, col)) C(row, col) = sum;
}
"""

BY_HAND = """
  __shared__ __align__(16) float As[T][T];
  __shared__ __align__(16) float Bs[T][T];
  float sum = 0;
#pragma unroll 1
  for (int64_t k0 = 0; k0 < p.K; k0 += T) {
    As[ty][tx] = row < p.M && k0 + tx < p.K ? p.a[row * p.K + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < p.K && col < p.N ? p.b[(k0 + ty) * p.N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < T; ++k) sum = fmaf(As[ty][k], Bs[k][tx], sum);
    __syncthreads();
  }
  if (row < p.M && col < p.N) p.c[row * p.N + col] = sum;
}
"""


def compiled(body: str, folder: Path, arch: str) -> tuple[bytes, str]:
    """The machine code of the kernel, and what ptxas says of it."""
    source, cubin = folder / "kernel.cu", folder / "kernel.cubin"
    source.write_text(HEAD + body)
    includes = [f"-I{ROOT / 'csrc'}", *(f"-I{path}" for path in include_paths())]
    command = [NVCC, "-std=c++20", "-O3", f"-arch={arch}", "-Xptxas=-v", "-cubin"]
    done = subprocess.run(
        [*command, *includes, "-o", cubin, source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return section(cubin.read_bytes(), ".text.kernel"), done.stderr


def section(elf: bytes, name: str) -> bytes:
    """The contents of one section of a 64-bit little-endian ELF file."""

    def integer(at: int, size: int) -> int:
        return int.from_bytes(elf[at : at + size], "little")

    headers, size, count, names = integer(40, 8), integer(58, 2), integer(60, 2), integer(62, 2)
    name_table = integer(headers + names * size + 24, 8)
    for index in range(count):
        header = headers + index * size
        start = name_table + integer(header, 4)
        if elf[start : elf.index(b"\0", start)].decode() == name:
            offset, length = integer(header + 24, 8), integer(header + 32, 8)
            return elf[offset : offset + length]
    raise AssertionError(f"no section {name}")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_as_little_code(arch: str, tmp_path: Path) -> None:
    by_hand, hand_report = compiled(BY_HAND, tmp_path, arch)
    views, views_report = compiled(VIEWS, tmp_path, arch)
    registers = [int(re.search(r"Used (\d+) reg", text)[1]) for text in (views_report, hand_report)]
    assert registers[0] <= registers[1] + 1
    assert "0 bytes spill stores" in views_report
    # 16 bytes an instruction; nvcc pads with up to 7 NOPs.
    assert 1000 < len(views) <= len(by_hand) + 8 * 16
