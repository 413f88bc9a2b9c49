"""The kernel table, and what ``auto`` chooses from it: a pure function, tested without a GPU."""

import itertools

import pytest
import torch
from helpers import FLOATS, short

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import OPS, build_info
from torch_smem_gemm.ops.plan import plan_problem


def test_table() -> None:
    assert OPS == ("gemm", "transpose", "sum")
    assert smem.kernels() == [row for op in OPS for row in smem.kernels(op)]
    for op in OPS:
        names = [row.name for row in smem.kernels(op)]
        assert len(set(names)) == len(names) >= 2
        for row in smem.kernels(op):
            assert row.op == op
            assert row.summary
            assert row.requires
    ladder = "naive panel tiled16 tiled32 tiled32_padded vectorized register_tiled double_buffered"
    assert [row.name for row in smem.kernels("gemm")][:8] == ladder.split()
    assert [row.name for row in smem.kernels("transpose")][:3] == ["naive", "tiled", "padded"]
    assert [row.name for row in smem.kernels("sum")][:2] == ["tree", "shuffle"]
    assert [row.name for row in smem.kernels() if not row.any_k] == ["panel"]


def test_build_info() -> None:
    info = build_info()
    assert set(info) == {"cuda", "archs", "torch_target", "torch_built", "compiler"}
    assert (info["cuda"] is None) == (info["archs"] == [])
    assert all(info[key] for key in ("torch_target", "torch_built", "compiler"))


SIZES = (1, 16, 100, 1000, 4096, 100_000)


@pytest.mark.parametrize("dtype", FLOATS, ids=short)
def test_auto_chooses_a_kernel_that_takes_the_problem(dtype: torch.dtype) -> None:
    takes_all = {row.name for row in smem.kernels("gemm") if row.any_k}
    for m, n, k, batch in itertools.product(SIZES, SIZES, (0, *SIZES), (1, 1000)):
        for capability, multiprocessors in (((7, 5), 40), ((9, 0), 132)):
            plan = plan_problem(
                dtype, m, n, k, batch=batch, capability=capability, multiprocessors=multiprocessors
            )
            assert plan.kernel in takes_all
            assert plan.reason


PLANS = [
    # dtype, (m, n, k, batch), kernel, part of the reason
    (torch.float32, (4096, 4096, 4096, 1), "double_buffered", "1024 tiles of 128x128"),
    (torch.float64, (4096, 4096, 4096, 1), "double_buffered", "4096 tiles of 64x64"),
    (torch.float32, (256, 256, 4096, 1), "vectorized", "only 4 tiles"),
    (torch.float32, (256, 256, 4096, 64), "double_buffered", "256 tiles"),
    (torch.bfloat16, (1, 4096, 4096, 1), "vectorized", "M or N fills at most a quarter"),
    (torch.bfloat16, (4096, 7, 4096, 1), "vectorized", "M or N fills at most a quarter"),
]


@pytest.mark.parametrize(("dtype", "sizes", "kernel", "reason"), PLANS, ids=short)
def test_plans_on_an_h200(dtype: torch.dtype, sizes: tuple, kernel: str, reason: str) -> None:
    m, n, k, batch = sizes
    plan = plan_problem(dtype, m, n, k, batch=batch)
    assert plan.kernel == kernel
    assert reason in plan.reason


PROBLEMS = [
    # a, b, (M, N, K, batch) after batch dimensions were taken into M where that is one product
    ((3, 4), (4, 5), (3, 5, 4, 1)),
    ((8, 3, 4), (4, 5), (24, 5, 4, 1)),
    ((2, 8, 3, 4), (4, 5), (48, 5, 4, 1)),
    ((8, 3, 4), (8, 4, 5), (3, 5, 4, 8)),
    ((3, 4), (8, 4, 5), (3, 5, 4, 8)),
    ((2, 8, 3, 4), (2, 1, 4, 5), (24, 5, 4, 2)),
    ((2, 1, 3, 4), (1, 8, 4, 5), (3, 5, 4, 16)),
    ((8, 1, 4), (4, 5), (8, 5, 4, 1)),
    ((1, 1, 3, 4), (1, 4, 5), (3, 5, 4, 1)),
]


@pytest.mark.parametrize(("shape_a", "shape_b", "problem"), PROBLEMS, ids=short)
def test_the_problem_that_shapes_make(
    shape_a: tuple, shape_b: tuple, problem: tuple, device: str
) -> None:
    a, b = torch.empty(shape_a, device=device), torch.empty(shape_b, device=device)
    assert tuple(torch.ops.smem._gemm_problem(a, b)) == problem
    m, n, k, batch = problem
    if device == "cuda":
        card = torch.cuda.get_device_properties(0)
        assert smem.plan(a, b) == plan_problem(
            torch.float32,
            m,
            n,
            k,
            batch=batch,
            capability=(card.major, card.minor),
            multiprocessors=card.multi_processor_count,
            shared_bytes=card.shared_memory_per_block_optin,
        )
    else:
        assert smem.plan(a, b).kernel == "aten"


def test_rows_that_lie_apart_stay_a_batch() -> None:
    a = torch.empty(8, 6, 4)[:, :3]
    assert tuple(torch.ops.smem._gemm_problem(a, torch.empty(4, 5))) == (3, 5, 4, 8)


def test_plan_raises_what_gemm_raises(device: str) -> None:
    a, b = torch.empty(3, 4, device=device), torch.empty(5, 6, device=device)
    with pytest.raises(RuntimeError, match=r"^smem.gemm: a is 3x4 and b is 5x6: inner sizes"):
        smem.plan(a, b)
