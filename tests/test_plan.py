"""The kernel table, and what ``auto`` chooses from it: a pure function, tested without a GPU."""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable

import pytest
import torch
from helpers import FLOATS, short

import torch_smem_gemm as smem
from torch_smem_gemm import _C, _kernels
from torch_smem_gemm._kernels import OPS, build_info, chip
from torch_smem_gemm.ops.plan import (
    GemmProblem,
    gemm_problem,
    plan_problem,
    plan_transpose,
    transpose_problem,
)

DTYPES = {
    "gemm": ("float64", "float32", "float16", "bfloat16"),
    "transpose": tuple(f"{size}-byte" for size in (1, 2, 4, 8, 16)),
    "sum": (
        *("float64", "float32", "float16", "bfloat16"),
        *("int64", "int32", "int16", "int8", "uint8", "bool"),
    ),
}


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
            assert row.dtypes == DTYPES[op] or not row.on_cpu
    ladder = (
        "naive panel tiled16 tiled32 tiled32_padded vectorized register_tiled double_buffered simt "
        "gemv tensor_core mma wgmma fp16x3"
    )
    assert [row.name for row in smem.kernels("gemm")] == ladder.split()
    transposes = "naive tiled padded swizzled strided_copy unaligned vectorized"
    assert [row.name for row in smem.kernels("transpose")] == transposes.split()
    assert [row.name for row in smem.kernels("sum")][:2] == ["tree", "shuffle"]
    assert [row.name for row in smem.kernels() if not row.any_k] == ["panel"]


def test_tensor_cores_in_the_table() -> None:
    gemms = smem.kernels("gemm")
    assert [row for row in smem.kernels() if not row.on_cpu] == gemms[10:]
    row = next(row for row in gemms if row.name == "tensor_core")
    assert row.dtypes == ("float32", "float16", "bfloat16")
    assert row.float32_precision == "tf32"
    assert {row.float32_precision for row in smem.kernels() if row.on_cpu} == {"ieee"}
    assert (row.capability, row.capability_alone) == ((8, 0), False)
    assert row.float16_capability == (8, 0)
    mma, wgmma, fp16x3 = gemms[-3:]
    assert mma.float16_capability == (7, 5)
    assert all(row.emulated for row in smem.kernels())
    assert (wgmma.capability, wgmma.capability_alone) == ((9, 0), True)
    assert (fp16x3.capability, fp16x3.capability_alone) == ((8, 0), False)
    assert fp16x3.variants == ("wgmma", "mma")
    assert "128x256_cluster2" in wgmma.variants
    assert (fp16x3.dtypes, fp16x3.float32_precision) == (("float32",), "fp32")
    assert not row.takes(torch.float16, "cpu")
    assert gemms[0].takes(torch.float16, "cpu")
    assert smem.kernels("transpose")[0].takes(torch.complex64, "cpu")
    assert not smem.kernels("sum")[0].takes(torch.complex64, "cpu")


@pytest.mark.parametrize(
    ("found", "oldest_taken", "alone_taken"),
    [((7, 5), False, False), ((8, 0), True, True), ((8, 6), True, False), ((10, 0), True, False)],
)
def test_the_gpus_that_a_kernel_takes(
    found: tuple, oldest_taken: bool, alone_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 10 * found[0] + found[1]
    chip = _kernels.Chip(number, 108, 163 * 1024, number)
    monkeypatch.setattr(_kernels, "chip", lambda device: chip)
    row = next(row for row in smem.kernels("gemm") if row.name == "tensor_core")
    alone = dataclasses.replace(row, capability_alone=True)
    assert row.takes(torch.float16, "cuda") == oldest_taken
    assert alone.takes(torch.float16, "cuda") == alone_taken
    assert row.takes(torch.float32, "cuda", "tf32") == oldest_taken
    assert not row.takes(torch.float32, "cuda")
    assert not row.takes(torch.float64, "cuda", "tf32")
    monkeypatch.setattr(_kernels, "chip", lambda device: chip._replace(code_capability=75))
    assert not row.takes(torch.float16, "cuda")


@pytest.mark.parametrize(
    ("code", "half", "bfloat", "tf32", "single"),
    [
        ((9, 0), "wgmma", "wgmma", "wgmma", "fp16x3"),
        ((8, 0), "mma", "mma", "mma", "fp16x3"),
        ((7, 5), "mma", "register_tiled", "register_tiled", "register_tiled"),
    ],
)
def test_auto_takes_what_the_build_holds_code_for(
    code: tuple[int, int], half: str, bfloat: str, tf32: str, single: str
) -> None:
    problem = GemmProblem.contiguous(4096, 4096, 4096)
    hopper = {"capability": (9, 0), "code": code}
    assert plan_problem(torch.bfloat16, problem, **hopper).kernel == bfloat
    assert plan_problem(torch.float16, problem, **hopper).kernel == half
    assert plan_problem(torch.float32, problem, precision="tf32", **hopper).kernel == tf32
    assert plan_problem(torch.float32, problem, **hopper).kernel == single


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
        for capability, sms in (((7, 5), 40), ((9, 0), 132)):
            problem = GemmProblem.contiguous(m, n, k, batch)
            plan = plan_problem(dtype, problem, capability=capability, sms=sms)
            assert plan.kernel in takes_all
            assert plan.reason
            (row,) = (row for row in smem.kernels("gemm") if row.name == plan.kernel)
            assert short(dtype) in row.dtypes
            assert row.on_cpu or row.oldest(dtype) <= capability


@pytest.mark.parametrize("precision", ["fp32", "ieee", "tf32"])
@pytest.mark.parametrize("dtype", FLOATS, ids=short)
def test_the_kind_of_arithmetic_does_not_depend_on_m(dtype: torch.dtype, precision: str) -> None:
    """SIMT kernels and tensor cores differ in bits, and a row's bits must not depend on M."""
    on_cpu = {row.name: row.on_cpu for row in smem.kernels("gemm")}
    for capability in ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0)):
        options = {"capability": capability, "precision": precision}
        for n, k in itertools.product(SIZES, (0, *SIZES)):
            kinds = {
                on_cpu[
                    plan_problem(dtype, GemmProblem.contiguous(m, n, k, batch), **options).kernel
                ]
                for m in SIZES
                for batch in (1, 1000)
            }
            assert len(kinds) == 1
            assert kinds != {False} or dtype.itemsize == 2 or precision != "ieee"


PLANS = [
    # dtype, (m, n, k, batch), kernel, part of the reason; float32 in precision ieee
    (torch.float32, (4096, 4096, 4096, 1), "simt", "; tiles 128x128, a packed first"),
    (torch.float32, (4096, 4096, 4097, 1), "simt", "; tiles 128x128, a packed first"),
    (torch.float32, (4096, 4097, 4096, 1), "simt", "; tiles 128x128, a and b packed first"),
    (torch.float64, (4096, 4096, 4096, 1), "simt", "IEEE float64; tiles 128x128, a packed first"),
    (torch.float32, (256, 256, 4096, 1), "simt", "; tiles 64x128, K in 32 slices"),
    (torch.float32, (256, 256, 4096, 64), "simt", "; tiles 128x128: "),
    (torch.float32, (16, 16, 1 << 20, 1), "simt", "; tiles 16x16, K in 512 slices"),
    (torch.float32, (1, 16384, 4096, 1), "simt", "; tiles 4x128, K in "),
    (torch.float64, (1, 16384, 4096, 1), "simt", "; tiles 8x128"),
    (torch.float32, (999, 1001, 1003, 1), "simt", "; tiles 64x64, a and b packed first"),
    (torch.float32, (16384, 7, 4096, 1), "simt", "; tiles 128x8, K in "),
    (torch.float32, (16, 16, 16, 65536), "simt", "; tiles 16x16: "),
    (torch.float32, (127, 129, 131, 1024), "simt", "; tiles 64x144: "),
    (torch.float32, (64, 64, 0, 1), "simt", "; tiles "),
    (torch.bfloat16, (1, 4096, 4096, 1), "wgmma", "bfloat16 on Hopper's tensor cores; tiles 64x"),
    (torch.float16, (4096, 4096, 4096, 1), "wgmma", "; tiles 128x256"),
    # Whole tiles where narrower ones would begin within cache lines; widths that leave little over.
    (torch.bfloat16, (768, 768, 768, 1), "wgmma", "; tiles 128x64 by 72 blocks"),
    (torch.bfloat16, (512, 10240, 8192, 1), "wgmma", "; tiles 128x160 by 132 blocks"),
    (torch.float16, (4096, 4096, 4097, 1), "wgmma", ", a packed first"),
    # Rows that begin anywhere, written by a kernel of little code; rows that cut sectors.
    (
        torch.bfloat16,
        (4095, 4097, 4099, 1),
        "wgmma",
        "; tiles 128x208_cluster2 by 132 blocks, a and b",
    ),
    (torch.bfloat16, (1001, 1000, 1000, 1), "wgmma", "; tiles 64x128_cluster2 by 128 blocks"),
    (torch.bfloat16, (1024, 1024, 1024, 1), "wgmma", "; tiles 128x64 by 128 blocks"),
    (torch.bfloat16, (2048, 128, 6144, 1), "wgmma", "; tiles 64x64 by 64 blocks: "),
    (torch.float16, (64, 64, 262144, 1), "wgmma", "K in 64 slices"),
    (torch.bfloat16, (64, 1024, 24576, 1), "wgmma", "K in 8 slices"),
    (torch.bfloat16, (64, 1024, 24575, 1), "wgmma", "; tiles 64x32 by 32 blocks, a packed"),
    (torch.bfloat16, (64, 256, 3072, 1), "wgmma", "K in 4 slices"),
    (torch.bfloat16, (64, 256, 3008, 1), "wgmma", "; tiles 64x32 by 8 blocks: "),
    (torch.bfloat16, (64, 512, 6144, 1), "wgmma", "K in 8 slices"),
    (torch.bfloat16, (64, 512, 6080, 1), "wgmma", "; tiles 64x32 by 16 blocks: "),
    (torch.float16, (64, 64, 0, 1), "wgmma", "left to tensor_core"),
    # An MN-major B, by half of the SMs, and where 64x32 would take nearly all of them.
    (torch.bfloat16, (10, 2048, 6144, 1), "wgmma", "; tiles 64x32 by 64 blocks: "),
    (torch.bfloat16, (512, 512, 3072, 1), "wgmma", "; tiles 64x64 by 64 blocks: "),
    # A batch of small products: several blocks on each SM.
    (torch.bfloat16, (16, 16, 16, 65536), "wgmma", "; tiles 64x64_3cta of 16 columns by 396 "),
    # Few rows, few columns, and few of both, without stages in shared memory.
    (torch.bfloat16, (963092, 1, 4, 5), "mma", "; tiles 256x16_ldg: "),
    (torch.bfloat16, (2, 506030, 22, 2), "mma", "; tiles 16x256_ldg: "),
    (torch.bfloat16, (14, 3, 4, 1), "mma", "; tiles 32x32_ldg: "),
]


@pytest.mark.parametrize(("dtype", "sizes", "kernel", "reason"), PLANS, ids=short)
def test_plans_on_an_h200(dtype: torch.dtype, sizes: tuple, kernel: str, reason: str) -> None:
    plan = plan_problem(dtype, GemmProblem.contiguous(*sizes), precision="ieee")
    assert plan.kernel == kernel
    assert reason in plan.reason


LAYERS = [
    # dtype, (m, n, k) of a linear layer, part of the reason
    (torch.bfloat16, (128, 8192, 8192), "; tiles 64x128 by 128 blocks"),
    (torch.bfloat16, (128, 10240, 8192), "; tiles 128x128 by 80 blocks"),
    (torch.float32, (512, 4096, 4096), "; tiles 128x128 by 128 blocks"),
    (torch.float32, (8192, 200, 6144), "; tiles 128x128 by 128 blocks: "),
    # Narrower tiles where they fill more SMs.
    (torch.bfloat16, (2048, 128, 6144), "; tiles 64x64 of 32 columns by 128 blocks"),
    (torch.bfloat16, (12544, 384, 4608), "; tiles 128x128 by 132 blocks"),
    # K in intervals that a block adds up, where all columns fit into one tile.
    (torch.bfloat16, (12544, 192, 12544), "; tiles 128x192_cluster2 by 98 blocks: "),
    (torch.float32, (50176, 192, 3136), "; tiles 128x192_cluster2 by 132 blocks: "),
    # Rows of out that begin within sectors: tiles overlap, but not where K is long.
    (
        torch.bfloat16,
        (16384, 11001, 64),
        "; tiles 128x256 of 240 columns and 16 more by 132 blocks",
    ),
    (
        torch.bfloat16,
        (16384, 11000, 64),
        "; tiles 128x256 of 240 columns and 16 more by 132 blocks",
    ),
    (torch.bfloat16, (16384, 11008, 64), "; tiles 128x256 by 132 blocks"),
    (torch.bfloat16, (4096, 4097, 4096), "; tiles 128x208_cluster2 by 132 blocks"),
    # Few blocks and a long K: narrow stages hide the latency of loads.
    (torch.bfloat16, (6, 2048, 32000), "; tiles 64x32 by 64 blocks: "),
    (torch.float32, (128, 1024, 13824), "; tiles 64x32 by 64 blocks: "),
    (torch.bfloat16, (6, 2048, 512), "; tiles 64x64 by 32 blocks: "),
]


@pytest.mark.parametrize(("dtype", "sizes", "reason"), LAYERS, ids=short)
def test_plans_of_layers_on_an_h200(dtype: torch.dtype, sizes: tuple, reason: str) -> None:
    m, n, k = sizes
    problem = GemmProblem(m, n, k, strides=((k, 1), (1, k), (n, 1)))
    plan = plan_problem(dtype, problem, precision="tf32")
    assert plan.kernel == "wgmma"
    assert reason in plan.reason


def test_elements_are_fetched_by_32_bits() -> None:
    """Tiles whose blocks count so are not for larger strides."""
    for stride, fetched in ((2**25, True), (2**26, False)):
        strides = ((stride, 1), (129, 1), (129, 1))
        problem = GemmProblem(1270, 129, 131, strides, batch=((100, 0, 129 * 131, 1270 * 129),))
        plan = plan_problem(torch.float32, problem, precision="ieee")
        assert ("tiles 64x144" in plan.reason) == fetched


def test_float32_by_three_products() -> None:
    """Where that is faster, at any M: by N and K, and by the rates of the GPU's units."""

    def kernel(n: int, k: int, m: int = 4096, **options: object) -> str:
        return plan_problem(torch.float32, GemmProblem.contiguous(m, n, k), **options).kernel

    assert kernel(256, 512) == kernel(256, 512, 1) == kernel(65, 4096) == "fp16x3"
    assert kernel(4096, 47) == kernel(63, 65536) == kernel(4096, 4096, precision="ieee") == "simt"
    assert kernel(4096, 48) == kernel(4096, 48, 1) == "fp16x3"
    assert (kernel(2730, 48), kernel(2731, 48)) == ("simt", "fp16x3")
    assert kernel(4096, 4096, precision="tf32") == "wgmma"
    assert kernel(4096, 4096, precision="tf32", capability=(8, 0)) == "mma"
    assert kernel(255, 512) == kernel(255, 512, capability=(8, 0)) == "simt"
    assert (kernel(64, 4096), kernel(64, 8191), kernel(64, 8192)) == ("simt", "simt", "simt")
    assert (kernel(65, 8191), kernel(65, 8192)) == ("fp16x3", "fp16x3")
    for fast in ((8, 0), (10, 0), (10, 3), (11, 0)):
        assert kernel(256, 512, capability=fast) == kernel(256, 512, 1, capability=fast) == "fp16x3"
        assert kernel(4096, 127, capability=fast) == "simt", fast
    for slow in ((8, 6), (8, 7), (8, 9), (12, 0), (12, 1)):
        assert kernel(4096, 4096, capability=slow) == "simt", slow
    assert kernel(4096, 4096, capability=(7, 5)) == "register_tiled", "no cp.async"


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
    found = gemm_problem(a, b)
    assert (found.m, found.n, found.k, math.prod(size for size, *_ in found.batch)) == problem
    if device == "cuda":
        gpu = chip(device)
        assert smem.plan(a, b) == plan_problem(
            torch.float32,
            found,
            capability=divmod(gpu.capability, 10),
            sms=gpu.sms,
            shared_bytes=gpu.shared_bytes,
        )
    else:
        assert smem.plan(a, b).kernel == "aten"


def test_rows_that_lie_apart_stay_a_batch() -> None:
    a = torch.empty(8, 6, 4)[:, :3]
    assert gemm_problem(a, torch.empty(4, 5)) == GemmProblem(
        3, 5, 4, ((4, 1), (5, 1), (5, 1)), (0, 0), ((8, 24, 0, 15),)
    )


def test_operands_lie_as_the_tensors_do() -> None:
    problem = gemm_problem(torch.empty(7, 70).mT, torch.empty(50, 8)[:, 1:].mT[:, :7].mT)
    assert problem.strides == ((1, 70), (8, 1), (7, 1))
    assert problem.misaligned == (0, 4)


def test_plan_raises_what_gemm_raises(device: str) -> None:
    a, b = torch.empty(3, 4, device=device), torch.empty(5, 6, device=device)
    with pytest.raises(RuntimeError, match=r"^smem.gemm: a is 3x4 and b is 5x6: inner sizes"):
        smem.plan(a, b)


# ------------------------------------------------------------------------------------- transpose


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


COLLAPSED = [
    # x, dimensions, (element bytes, rows, columns, batch sizes), kernel
    (lambda: empty(70, 50), (0, 1), (4, 70, 50, ()), "strided_copy"),
    (lambda: empty(1400, 999), (0, 1), (4, 1400, 999, ()), "unaligned"),
    (lambda: empty(9, 70, 50), (1, 2), (4, 70, 50, (9,)), "strided_copy"),
    (lambda: empty(3, 4, 70, 50), (-2, -1), (4, 70, 50, (12,)), "strided_copy"),
    # NCHW to NHWC as two exchanges of one dimension, and back
    (lambda: empty(8, 64, 1, 56 * 56), (1, 3), (4, 64, 3136, (8,)), "vectorized"),
    (lambda: empty(8, 3, 20, 20).permute(0, 2, 3, 1), (1, 1), (4, 3, 400, (8,)), "strided_copy"),
    # Outer dimensions that move together
    (lambda: empty(6, 5, 7).permute(1, 2, 0), (0, 0), (4, 6, 35, ()), "strided_copy"),
    # What stays last is a run: of 16-byte elements where it has whole ones
    (lambda: empty(2, 5, 3, 64), (1, 2), (16, 16, 5, (2, 3)), "strided_copy"),
    (lambda: empty(2, 5, 3, 7), (1, 2), (4, 7, 5, (2, 3)), "strided_copy"),
    (lambda: empty(2, 5, 3, 6), (1, 2), (8, 3, 5, (2, 3)), "strided_copy"),
    (lambda: empty(2, 5, 3, 80, dtype=torch.bfloat16), (1, 2), (16, 10, 5, (2, 3)), "strided_copy"),
    # A run that is one larger element vanishes
    (lambda: empty(100, 90, 2), (0, 1), (8, 100, 90, ()), "vectorized"),
    (lambda: empty(100, 90, 4, dtype=torch.uint8), (0, 1), (4, 100, 90, ()), "strided_copy"),
    (lambda: empty(100, 90, 16, dtype=torch.uint8), (0, 1), (16, 100, 90, ()), "vectorized"),
    # No movement at all is a copy
    (lambda: empty(4, 8, 16), (1, 1), (16, 128, 1, ()), "strided_copy"),
    (lambda: empty(4, 1, 16), (0, 1), (16, 16, 1, ()), "strided_copy"),
    (lambda: empty(1, 77), (0, 1), (4, 77, 1, ()), "strided_copy"),
    (lambda: empty(70, 50).mT, (0, 1), (16, 875, 1, ()), "strided_copy"),
    (lambda: empty(1, 1, 1), (0, 2), (4, 1, 1, ()), "strided_copy"),
    # Elements that lie apart
    (lambda: empty(70, 100)[:, ::2], (0, 1), (4, 70, 50, ()), "strided_copy"),
    (lambda: empty(1400, 2000)[:, ::2], (0, 1), (4, 1400, 1000, ()), "padded"),
    (lambda: empty(1).expand(33, 40), (0, 1), (4, 1320, 1, ()), "strided_copy"),
]


@pytest.mark.parametrize(("make", "dims", "expected", "kernel"), COLLAPSED)
def test_the_smallest_problem_that_a_transpose_comes_to(
    make: Callable[[], torch.Tensor], dims: tuple, expected: tuple, kernel: str
) -> None:
    x = make()
    problem = transpose_problem(x, *dims)
    batch = tuple(size for size, _, _ in problem.batch)
    assert (problem.element_bytes, problem.rows, problem.cols, batch) == expected
    plan = plan_transpose(x, *dims)
    assert plan.kernel == kernel
    assert plan.reason


def test_a_transpose_widens_its_elements_only_where_everything_fits() -> None:
    """Addresses, steps and runs must all be whole numbers of the larger element."""

    def element_bytes(x: torch.Tensor, **options: torch.Tensor) -> int:
        return transpose_problem(x, 0, 1, **options).element_bytes

    whole = empty(10 * 12 * 8 + 8)
    x = whole[:960].view(10, 12, 8)
    assert element_bytes(x) == 16
    assert element_bytes(whole[2:962].view(10, 12, 8)) == 8
    assert element_bytes(whole[1:961].view(10, 12, 8)) == 4
    assert element_bytes(empty(10, 12, 10)[..., :8]) == 8
    assert element_bytes(empty(10, 12, 9)[..., :8]) == 4
    assert element_bytes(x[..., :6]) == 8
    assert element_bytes(x, out=empty(12, 10, 10)[..., :8]) == 8
    assert element_bytes(x, out=empty(12, 10, 16)[..., ::2]) == 4


def test_strides_of_a_collapsed_transpose() -> None:
    problem = transpose_problem(empty(3, 70, 50)[:, :, :45], 1, 2)
    assert (problem.in_strides, problem.out_strides) == ((50, 1), (1, 70))
    assert problem.batch == ((3, 3500, 3150),)
    turned = transpose_problem(empty(70, 50), 0, 1, out=empty(70, 50).mT)
    assert (turned.rows, turned.cols) == (3500 * 4 // 16, 1), "written as it is read"


TILES = [
    # rows, columns, dtype, batch, kernel, tile in the reason
    (8192, 8192, torch.float32, 1, "vectorized", "tiles of 64x64"),
    (8192, 8192, torch.bfloat16, 1, "vectorized", "tiles of 128x128"),
    (8192, 8192, torch.uint8, 1, "vectorized", "tiles of 128x256"),
    (16384, 16384, torch.uint8, 1, "vectorized", "tiles of 256x256"),
    # What is written stays in L2
    (1024, 2048, torch.bfloat16, 1, "vectorized", "tiles of 128x64, in registers"),
    (1024, 1024, torch.bfloat16, 1, "swizzled", "no more than 2 MiB"),
    (1023, 1025, torch.uint8, 1, "padded", "tiles of 32x32"),
    (1 << 20, 8, torch.float32, 1, "vectorized", "tiles of 512x8"),
    (8, 1 << 20, torch.float32, 1, "vectorized", "tiles of 8x512"),
    (64, 64, torch.uint8, 4096, "vectorized", "tiles of 128x128, in registers"),
    (8191, 8193, torch.float32, 1, "unaligned", "tiles of 128x123"),
    (8191, 8193, torch.bfloat16, 1, "unaligned", "tiles of 256x119"),
    (8191, 8193, torch.uint8, 1, "unaligned", "tiles of 256x235"),
    # One or two per SM
    (1001, 3003, torch.uint8, 1, "unaligned", "tiles of 192x137"),
    (3000, 3001, torch.uint8, 1, "unaligned", "tiles of 256x137"),
    (1023, 1025, torch.float32, 1, "unaligned", "tiles of 104x40"),
    (100003, 17, torch.float32, 1, "unaligned", "tiles of 128x32"),  # flat to read
    (100003, 17, torch.uint8, 1, "unaligned", "tiles of 128x32"),
    (8, 1 << 20, torch.uint8, 1, "unaligned", "tiles of 8x2048"),  # flat to write
    (37, 200003, torch.float64, 1, "unaligned", "tiles of 64x64"),
    (63, 65, torch.bfloat16, 4096, "unaligned", "4 matrices per block"),
    # Matrices that would fill little of a tile of `unaligned`
    (2338, 4, torch.bfloat16, 271, "strided_copy", "2338x4 fill too little of the tiles"),
]


@pytest.mark.parametrize(("rows", "cols", "dtype", "batch", "kernel", "tile"), TILES, ids=short)
def test_tiles_on_an_h200(
    rows: int, cols: int, dtype: torch.dtype, batch: int, kernel: str, tile: str
) -> None:
    numbers = [dtype.itemsize, rows, cols, cols, 1, 1, rows, 0, 0]
    numbers += [batch, rows * cols, rows * cols] if batch > 1 else []
    plan = json.loads(_C.plan_transpose(numbers, (90, 132, 227 * 1024, 90)))
    assert plan["kernel"] == kernel
    assert re.search(f"{tile}(,|$)", plan["reason"])
