"""The files that take longest to compile. They start first, so that no core ends alone with one."""

from pathlib import Path

LONGEST = {
    "csrc/activation/backward.cu",
    "csrc/activation/backward_host.cpp",
    "csrc/gemm/fp16x3/gemm.cu",
    "csrc/gemm/fp16x3/skinny_m.cu",
    "csrc/gemm/fp16x3/skinny_m_mn_major.cu",
    "csrc/gemm/fp16x3/skinny_m_mn_major_host.cpp",
    "csrc/gemm/fp16x3/cp_async_skinny_m.cu",
    "csrc/gemm/fp16x3/cp_async_skinny_m_host.cpp",
    "csrc/gemm/ladder/tensor_core.cu",
    "csrc/gemm/ladder/tensor_core_bf16.cu",
    "csrc/gemm/ladder/tensor_core_tf32.cu",
    "csrc/gemm/simt/simt.cu",
    "csrc/gemm/simt/simt_float64.cu",
    "csrc/gemm/simt/simt_host.cpp",
    "csrc/gemm/sm80/mma_bf16.cu",
    "csrc/gemm/sm80/mma_f16.cu",
    "csrc/gemm/sm80/mma_host.cpp",
    "csrc/gemm/sm80/mma_tf32.cu",
    "csrc/gemm/sm90/instances/tf32.cu",
    "csrc/gemm/sm90/instances/tile_128x256_cluster2.cu",
    "csrc/reduce/columns.cu",
    "csrc/reduce/columns_host.cpp",
    "csrc/reduce/columns_max.cu",
    "csrc/reduce/reduce_host.cpp",
    "csrc/reduce/rows.cu",
    "csrc/reduce/rows_max.cu",
}
# How often longer than the others one of them takes: 20 to 30 s on a core, where they take 4.
WEIGHT = 6


def is_long(source: str, root: Path) -> bool:
    """Whether this file is one of them; its path begins at ``root`` or in the working directory."""
    return source.removeprefix(f"{root}/") in LONGEST
