"""Plans for GPUs that are not there: named devices, older capabilities, mma's choices on each."""

import functools
import itertools
import json
import re
from pathlib import Path

import pytest
import torch
from helpers import short

import torch_smem_gemm as smem
from torch_smem_gemm import _C, _kernels, analysis
from torch_smem_gemm.ops.plan import GemmProblem, plan_problem


@pytest.mark.parametrize(
    ("text", "capability", "kib", "code"),
    [("8.6", 86, 99, 86), ("80", 80, 163, 80), ("7.5", 75, 64, 75), ("9.0", 90, 227, 90)],
)
def test_a_gpu_that_passes_for_an_older_one(
    text: str, capability: int, kib: int, code: int
) -> None:
    h200 = _kernels.Chip(90, 132, 227 * 1024, 90)
    assumed = _kernels.Chip(*json.loads(_C.assumed_chip(h200, text)))
    assert assumed == (capability, 132, kib * 1024, code)
    built_for_75 = h200._replace(code_capability=75)
    assert json.loads(_C.assumed_chip(built_for_75, text))[3] == 75


@pytest.mark.parametrize("text", ["", "7.0", "10.0", "x", "8.6a", "-80", "99999999999"])
def test_a_gpu_cannot_pass_for_these(text: str) -> None:
    message = rf"SMEM_CAPABILITY is '{text}', expected a compute capability from 7.5 to .* 9.0"
    with pytest.raises(RuntimeError, match=message):
        _C.assumed_chip((90, 132, 227 * 1024, 90), text)


@pytest.mark.parametrize(
    ("device", "dtype", "precision", "kernel"),
    [
        ("T4", torch.float16, None, "mma"),
        ("T4", torch.bfloat16, None, "register_tiled"),
        ("A100", torch.bfloat16, None, "mma"),
        ("NVIDIA GeForce RTX 4090", torch.float32, "tf32", "mma"),
        ("A100", torch.float32, None, "fp16x3"),
        ("B200", torch.float32, None, "fp16x3"),
        ("A10", torch.float32, None, "simt"),
        ("H200", torch.float32, None, "fp16x3"),
        ("H100", torch.bfloat16, None, "wgmma"),
        ("B200", torch.bfloat16, None, "mma"),
        (analysis.device("L4"), torch.float64, None, "simt"),
    ],
)
def test_plan_for_another_device(
    device: analysis.Device | str, dtype: torch.dtype, precision: str | None, kernel: str
) -> None:
    a = torch.empty(2048, 2048, dtype=dtype)
    assert smem.plan(a, a, precision=precision, device=device).kernel == kernel


def test_plan_takes_tensors_without_memory() -> None:
    a, b = (torch.empty(70_000, 30_000, device="meta", dtype=torch.bfloat16) for _ in range(2))
    assert smem.plan(a, b.mT, device="A100").kernel == "mma"
    assert "a and b packed first" in smem.plan(a[:, 1:], b[:, 1:].mT, device="A100").reason
    assert smem.plan(a[:0], b.mT, device="A100").kernel == "mma"
    large = torch.empty(2**20, 2**20, device="meta")
    assert smem.plan(large, large, device="A100").kernel == "fp16x3"
    with pytest.raises(ValueError, match=r"smem.plan: a is on meta, expected a tensor on a CPU or"):
        smem.plan(a, b.mT)


# M, N, K; device; kernel; part of the reason.
NAMED = [
    ((8192, 8192, 8192), "A100", "mma", "tiles 128x256: "),
    ((8192, 8192, 8192), "A10", "mma", "tiles 128x128_k32: "),  # a block has 99 KiB
    ((4096, 4096, 4097), "A100", "mma", ", a packed first"),
    ((64, 256, 8192), "L4", "mma", ", K in 8 slices"),
    ((1, 4096, 4096), "A100", "mma", "tiles 64x64: "),
    ((256, 256, 0), "A100", "mma", "left to tensor_core"),
    ((512, 512, 512), "A100", "mma:64x64", "tiles 64x64: "),
    ((512, 512, 512), "H200", "wgmma:64x64", "tiles 64x64 by 64 blocks"),
    ((512, 512, 512), "H200", "wgmma:64x32", "tiles 64x32 by 128 blocks"),
    ((512, 512, 512), "T4", "register_tiled", "named"),
]


@pytest.mark.parametrize(("sizes", "device", "kernel", "reason"), NAMED, ids=short)
def test_plan_of_a_named_kernel(
    sizes: tuple[int, int, int], device: str, kernel: str, reason: str
) -> None:
    m, n, k = sizes
    a = torch.empty(m, k, dtype=torch.bfloat16)
    b = torch.empty(k, n, dtype=torch.bfloat16)
    plan = smem.plan(a, b, kernel=kernel, device=device)
    assert plan.kernel == kernel.partition(":")[0]
    assert reason in plan.reason


def test_a_tile_without_kernels_for_the_majors_of_the_operands() -> None:
    """Its fallback computes the problem."""
    a, b = torch.empty(512, 512).mT, torch.empty(512, 512)
    plan = smem.plan(a, b, kernel="wgmma:64x32", precision="tf32", device="H200")
    assert "tiles 64x64 of 32 columns by 128 blocks" in plan.reason


def test_rows_that_are_4_gib_apart() -> None:
    """mma counts the bytes between rows in 32 bits, so it packs such rows; TMA reads them."""
    for stride, kernel, capability, packed in (
        (2**30, "mma", (8, 0), True),
        (2**30 - 2048, "mma", (8, 0), False),
        (2**30, "wgmma", (9, 0), False),
    ):
        problem = GemmProblem(64, 64, 64, strides=((stride, 1), (64, 1), (64, 1)))
        plan = plan_problem(
            torch.float32, problem, precision="tf32", kernel=kernel, capability=capability
        )
        assert (", a packed first" in plan.reason) == packed, (stride, kernel)
    giant = GemmProblem.contiguous(2, 2, 2**30)
    plan = plan_problem(torch.float32, giant, precision="tf32", kernel="mma", capability=(8, 0))
    assert "left to tensor_core" in plan.reason


def test_plan_of_a_kernel_that_the_device_cannot_run() -> None:
    a = torch.empty(64, 64, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match=r"'mma' .* capability 8.0 or newer, got 7.5"):
        smem.plan(a, a, kernel="mma", device="T4")
    with pytest.raises(RuntimeError, match=r"'mma' has no variant '128x256' for bfloat16"):
        smem.plan(a, a, kernel="mma:128x256", device="A10")
    with pytest.raises(RuntimeError, match=r"'simt' has no variant '128x128' for float64"):
        smem.plan(a.double(), a.double(), kernel="simt:128x128", device="A10")
    with pytest.raises(ValueError, match=r"smem.gemm: kernel is 'mme', expected one of"):
        smem.plan(a, a, kernel="mme", device="A100")
    assert smem.plan(a, a, kernel="mma").kernel == "mma"


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((4096, 4096, 4096), "tiles 128x128_k32: "),
        ((48, 1024, 64), "tiles 64x64: "),
        ((1, 16, 64), "tiles 16x32: "),
        ((256, 256, 0), "left to register_tiled"),
    ],
    ids=short,
)
def test_plan_of_mma_on_the_oldest_gpu(sizes: tuple[int, int, int], reason: str) -> None:
    """It multiplies float16 only, and has no other tiles than those for it."""
    m, n, k = sizes
    a, b = torch.empty(m, k, dtype=torch.float16), torch.empty(k, n, dtype=torch.float16)
    assert reason in smem.plan(a, b, kernel="mma", device="T4").reason
    message = r"smem.gemm: kernel 'mma' has no variant '128x256' for float16"
    with pytest.raises(RuntimeError, match=message):
        smem.plan(a, b, kernel="mma:128x256", device="T4")


# M, N, K; device; kernel; the reason.
FP16X3 = [
    ((4096, 4096, 4096), "H200", "fp16x3", "named; by wgmma"),
    ((16, 4096, 4096), "H200", "fp16x3", "named; by the kernel for a small M"),
    ((64, 4096, 4096), "H200", "fp16x3", "named; by the kernel for a small M"),
    ((100, 512, 512), "H200", "fp16x3", "named; by the kernel for a small M, 25 rows at a time"),
    ((100, 512, 512), "H200", "fp16x3:wgmma", "named; by wgmma"),
    ((4096, 4096, 4096), "H200", "fp16x3:mma", "named; by mma.sync in tiles 128x128: "),
    ((4096, 4096, 4096), "A100", "fp16x3", "named; by mma.sync in tiles 128x128: "),
    ((1024, 1024, 1024), "H200", "fp16x3:mma", "named; by mma.sync in tiles 128x64: "),
    ((16, 2048, 4096), "A100", "fp16x3", "named; by the kernel for a small M"),
    ((64, 2048, 4096), "H200", "fp16x3:mma", "named; by the kernel for a small M"),
    ((65, 2048, 4096), "A100", "fp16x3", "named; by mma.sync in tiles 128x32: "),
    ((4096, 4096, 4096), "B200", "fp16x3", "named; by mma.sync in tiles 128x128: "),
    # A block has 99 KiB there.
    ((4096, 4096, 4096), "A10", "fp16x3", "named; by mma.sync in tiles 128x32: "),
    ((4096, 4096, 4096), "RTX 4090", "fp16x3", "named; by mma.sync in tiles 128x32: "),
    ((16, 4096, 4096), "A10", "fp16x3", "named; by mma.sync in tiles 128x32: "),
    ((4096, 4096, 0), "A100", "fp16x3", "named; left to double_buffered"),
]


@pytest.mark.parametrize(("sizes", "device", "kernel", "reason"), FP16X3, ids=short)
def test_the_path_of_fp16x3(
    sizes: tuple[int, int, int], device: str, kernel: str, reason: str
) -> None:
    m, n, k = sizes
    plan = smem.plan(torch.empty(m, k), torch.empty(k, n), kernel=kernel, device=device)
    assert plan.kernel == "fp16x3"
    assert re.fullmatch(reason + (r"\d+ us expected" if reason.endswith(": ") else ""), plan.reason)


# M, N, K and us on an H200, splits included (bench/NOTES.md, 3.7).
FP16X3_BY_MMA = [
    *((4096, 4096, 4096, 1150), (2048, 2048, 2048, 166), (8192, 8192, 4096, 4411)),
    *((1024, 1024, 1024, 34.8), (512, 2048, 2048, 60), (256, 4096, 4096, 151)),
    *((128, 4096, 4096, 151), (128, 2048, 4096, 128), (768, 768, 768, 27.3)),
]


@pytest.mark.parametrize(("m", "n", "k", "measured"), FP16X3_BY_MMA)
def test_what_fp16x3_by_mma_sync_is_expected_to_take(
    m: int, n: int, k: int, measured: float
) -> None:
    a, b = torch.empty(m, k, device="meta"), torch.empty(k, n, device="meta")
    reason = smem.plan(a, b, kernel="fp16x3:mma", device="H200").reason
    expected = int(re.search(r": (\d+) us expected", reason)[1])
    assert 0.75 < expected / measured < 1.15


def test_a_path_of_fp16x3_that_the_device_cannot_run() -> None:
    a = torch.empty(64, 64)
    for kernel, device, needed, got in (
        ("fp16x3", "T4", "8.0 or newer", "7.5"),
        ("fp16x3:mma", "T4", "8.0 or newer", "7.5"),
        ("fp16x3:wgmma", "A100", "9.0", "8.0"),
        ("fp16x3:wgmma", "B200", "9.0", "10.0"),
    ):
        with pytest.raises(RuntimeError) as caught:
            smem.plan(a, a, kernel=kernel, device=device)
        assert str(caught.value) == (
            f"smem.gemm: kernel '{kernel}' runs on tensor cores and needs a GPU of compute "
            f"capability {needed}, got {got}"
        )
    problem = GemmProblem.contiguous(65, 64, 64)
    hopper = {"capability": (9, 0), "code": (8, 0)}
    with pytest.raises(RuntimeError, match=r"'fp16x3:wgmma' needs code for compute capability 9.0"):
        plan_problem(torch.float32, problem, kernel="fp16x3:wgmma", **hopper)
    for kernel in ("fp16x3", "fp16x3:mma"):
        reason = plan_problem(torch.float32, problem, kernel=kernel, **hopper).reason
        assert reason.startswith("named; by mma.sync in tiles 128x32: ")


def test_every_tile_of_mma_is_the_best_for_some_problem() -> None:
    """On some GPU and for some size: a tile that the model never chooses would be dead."""
    tiles = next(row.variants for row in smem.kernels("gemm") if row.name == "mma")
    sizes = (1, 16, 48, 128, 512, 1024, 2048, 8192, 50_257)
    gpus = (((8, 0), 108, 163), ((8, 6), 72, 99), ((8, 9), 128, 99), ((9, 0), 132, 227))
    chosen = {
        plan_problem(
            torch.bfloat16,
            GemmProblem.contiguous(m, n, k),
            capability=capability,
            sms=sms,
            shared_bytes=kib * 1024,
            kernel="mma",
        )
        .reason.split()[2]
        .rstrip(":,")
        for (capability, sms, kib) in gpus
        for m, n, k in itertools.product(sizes, sizes, (1, 63, 64, 4095, 4096))
    }
    assert chosen == set(tiles)


def test_the_table_of_gpus_in_the_documents() -> None:
    text = (Path(__file__).parent.parent / "docs" / "support.md").read_text()
    _, table = text.split("## Which kernel a GPU gets")
    rows = [line for line in table.partition("## Limits")[0].splitlines() if line[:2] == "| "]
    assert len(rows) == 7
    empty = functools.partial(torch.empty, 4096, 4096)
    for row in rows[1:]:
        devices, _, half, bfloat, single, tf32 = (cell.strip(" `") for cell in row.split("|")[1:7])
        for device in devices.split(", "):
            for dtype, precision, expected in (
                (torch.float16, None, half),
                (torch.bfloat16, None, bfloat),
                (torch.float32, "fp32", single),
                (torch.float32, "tf32", tf32),
            ):
                a = empty(dtype=dtype)
                plan = smem.plan(a, a, precision=precision, device=device)
                assert plan.kernel == expected, (device, dtype, precision)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("V100", "smem.plan: device is V100 SXM2, of compute capability 7.0, expected 7.5 or "),
        ("Radeon", "name is 'Radeon', expected one of .*A100 40GB"),
    ],
)
def test_plan_for_a_device_that_there_is_not(device: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        smem.plan(torch.empty(2, 2), torch.empty(2, 2), device=device)
