"""analysis.occupancy against the driver's own calculator, for every kernel and block size."""

import json

import pytest
import torch

import torch_smem_gemm as smem
from torch_smem_gemm import _C, analysis
from torch_smem_gemm._kernels import OPS, kernel_resources

pytestmark = pytest.mark.gpu

GEMM_DTYPES = ("float64", "float32", "float16", "bfloat16")
SUM_DTYPES = (*GEMM_DTYPES, "int64", "int32", "int16", "int8", "uint8", "bool")


def key(op: str, dtype: str) -> int:
    """What the kernel table calls a dtype: its code, or an element's bytes."""
    return int(dtype.removesuffix("-byte")) if op == "transpose" else SUM_DTYPES.index(dtype)


@pytest.mark.parametrize("dynamic_shared_bytes", [0, 1, 1024, 20_000, 49_152, 100_000])
@pytest.mark.parametrize(
    ("op", "kernel"), [(row.op, row.name) for row in smem.kernels()], ids=lambda value: value
)
def test_blocks_of_every_size(op: str, kernel: str, dynamic_shared_bytes: int) -> None:
    major, minor = torch.cuda.get_device_capability()
    names = [row.name for row in smem.kernels(op)]
    for entry in kernel_resources():
        if (entry["op"], entry["name"]) != (op, kernel):
            continue
        blocks = json.loads(
            _C.active_blocks(
                OPS.index(op),
                names.index(kernel),
                key(op, entry["dtype"]),
                entry["max_threads"],
                dynamic_shared_bytes,
            )
        )
        ours = [
            analysis.occupancy(
                threads,
                entry["registers"],
                entry["shared_bytes"] + dynamic_shared_bytes,
                (major, minor),
            ).blocks
            for threads in range(1, entry["max_threads"] + 1)
        ]
        assert len(blocks) == entry["max_threads"] >= 64
        assert ours == blocks, entry["dtype"]
