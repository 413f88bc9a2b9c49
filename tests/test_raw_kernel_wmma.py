"""nvcuda::wmma in users' kernels on the CPU: Hopper's bits, accesses and instructions.

Which instructions a fragment's functions are is what nvcc 13.0 makes of them for sm_90.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from coverage_kernels import FOLDER, counts, marked, trace
from helpers import same_bits, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.analysis import device
from torch_smem_gemm.cli._explain_kernel import judge

sys.path.append(str(Path(__file__).parent.parent / "bench"))
from tensor_core_model import LEAST_EXPONENT, instruction, rounded_to_tf32

FILE = "wmma.cu"
OF_T = {
    torch.float16: ("half, half", 16),
    torch.bfloat16: ("__nv_bfloat16, __nv_bfloat16", 16),
    torch.float32: ("wmma::precision::tf32, float", 8),
}
SHAPES = ((16, 16), (32, 8), (8, 32))
CASES = [
    (dtype, shape, torch.float32)
    for dtype in OF_T
    for shape in SHAPES
    if dtype != torch.float32 or shape == (16, 16)
] + [(torch.float16, shape, torch.float16) for shape in SHAPES]


def operand(rows: int, cols: int, dtype: torch.dtype) -> Tensor:
    """Numbers of very different magnitudes, so that alignment cuts off many of their bits."""
    x = torch.randn(rows, cols, dtype=torch.float64)
    x = (x * torch.randint(-4, 4, (rows, cols)).double().exp2()).to(dtype)
    return rounded_to_tf32(x) if dtype == torch.float32 else x


def by_rows_and_columns(x: Tensor) -> Tensor:
    return torch.cat([x.flatten(), x.T.flatten()])


def product(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """c + a @ b by instructions of 16 k; of 4 k in tf32."""
    step = 4 if a.dtype == torch.float32 else 16
    rows, cols, total = a.double().numpy(), b.T.double().numpy(), c.double().numpy()
    for k in range(0, a.shape[1], step):
        at = slice(k, k + step)
        total = instruction(total, rows[:, at], cols[:, at], LEAST_EXPONENT[a.dtype])
        total = torch.from_numpy(total).to(c.dtype).double().numpy()
    return torch.from_numpy(np.asarray(total)).to(c.dtype)


@pytest.mark.parametrize(("dtype", "shape", "sums"), CASES, ids=short)
def test_fragments_of_all_types_shapes_and_layouts(
    dtype: torch.dtype, shape: tuple[int, int], sums: torch.dtype
) -> None:
    (m, n), (types, k), total = shape, OF_T[dtype], 48
    a, b, c = operand(m, total, dtype), operand(total, n, dtype), operand(m, n, sums)
    of_c = "half" if sums == torch.float16 else "float"
    d = torch.empty(4, m * n, dtype=sums)
    kernel = f"layouts<{types}, {of_c}, {m}, {n}, {k}>"
    traced = trace(FILE, kernel, 1, 32, *map(by_rows_and_columns, (a, b, c)), d, total)
    expected = product(a, b, c)
    for i, found in enumerate(d):
        matrix = found.view(m, n) if i < 2 else found.view(n, m).T
        assert same_bits(matrix.contiguous(), expected), i
    # Two instructions of 16 x 8 for each 16 k, four of half the length for each 8 k in tf32.
    (launch,) = traced.launches
    assert launch.count("requests", actions=["mma"]) == 4 * total // k * (4 if k == 8 else 2)
    assert launch.count("tensor_flop") == 4 * 2 * m * n * total
    assert launch.tensor_cycles == launch.count("tensor_flop") / (2048 if k == 8 else 4096)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=short)
def test_fragments_from_shared_memory(dtype: torch.dtype) -> None:
    a, b = (torch.randint(-2, 3, (32, 32)).to(dtype) for _ in range(2))
    out = torch.empty(32, 32)
    kernel = f"staged<{OF_T[dtype][0].split(',')[0]}>"
    traced = trace(FILE, kernel, 1, 64, a, b, out)
    assert torch.equal(out, 2 * (a.float() @ b.float()) + 1)
    # Two warps; two steps of k, for B and the product two columns each. half: one ldmatrix.x4 each,
    # 16 bytes a row; bfloat16: four loads of 4 bytes. Eight bytes by each store of two floats.
    each = ("load", 16, 1) if dtype == torch.float16 else ("load", 4, 4)
    assert counts(FILE, traced) == {
        ("load_a", *each[:2]): 2 * 2 * each[2],
        ("load_b", *each[:2]): 2 * 4 * each[2],
        ("multiply", "mma", 0): 2 * 4 * 2,
        ("store", "store", 8): 2 * 2 * 4,
    }
    assert not traced.count("conflicts", actions=["load"], memory="shared")


@pytest.mark.parametrize(("m", "n"), [(32, 8), (8, 32)])
def test_uneven_fragments_from_shared_memory(m: int, n: int) -> None:
    """Of 32 x 16 elements two ldmatrix.x4, of 8 x 16 one ldmatrix.x2, whose rows 16 lanes name."""
    a, b = torch.randint(-2, 3, (m, 16)).half(), torch.randint(-2, 3, (16, n)).half()
    out = torch.empty(m, n).half()
    traced = trace(FILE, f"uneven<{m}, {n}>", 1, 32, a, b, out)
    assert torch.equal(out, (a.float() @ b.float() + 1).half())
    lanes = {mark: line.lanes for mark, (line,) in marked(FILE, traced).items()}
    assert lanes == {"load_a": 64 if m == 32 else 16, "load_b": 64 if n == 32 else 16}


def test_rows_of_32_halves_in_shared_memory_conflict() -> None:
    """Eight rows, 64 bytes apart, begin in two banks: a matrix of ldmatrix takes four passes."""
    a, out = torch.ones(32, 32).half(), torch.empty(32, 32)
    kernel = smem.RawKernel(FOLDER / FILE, "staged<half>", options=("-DPITCH=32",))
    traced = kernel.trace(1, 64, (a, a, out))
    (load,) = marked(FILE, traced)["load_a"]
    assert (load.requests, load.wavefronts, load.conflicts) == (4, 4 * 16, 4 * 12)


def test_a_race_with_fragments_is_found() -> None:
    a, out = torch.ones(32, 32).half(), torch.empty(32, 32)
    kernel = smem.RawKernel(FOLDER / FILE, "staged<half>", options=("-DRACE",))
    faults = kernel.trace(1, 64, (a, a, out)).faults
    assert "race" in {fault.kind for fault in faults}


def test_elements_of_fragments() -> None:
    a, t = torch.arange(256.0).view(16, 16).half(), torch.randn(8, 16)
    x, y = torch.empty(32, 16).half(), torch.empty(32, 4)
    trace(FILE, "elements", 1, 32, a, x, t, y)
    for lane in range(32):
        row, k = lane // 4, lane % 4 * 2
        rows = [row, row, row + 8, row + 8] * 2
        own = a[rows, [k, k + 1, k, k + 1, k + 8, k + 9, k + 8, k + 9]]
        assert torch.equal(x[lane], own.repeat(2))
        k, col = lane % 4, lane // 4
        floats = t[[k, k + 4, k, k + 4], [col, col, col + 8, col + 8]]
        # Ties away from zero, unlike TMA's rounding to even.
        bits = floats.contiguous().view(torch.int32)
        assert torch.equal(y[lane], (bits + 0x1000 & ~0x1FFF).view(torch.float32))


def test_what_wmma_does_not_define_is_a_fault() -> None:
    kernel = smem.RawKernel(FOLDER / FILE, "wrong")
    a, out = torch.ones(16, 24).half(), torch.empty(16, 16)
    assert kernel.trace(1, 32, (a, out, 0, 24)).faults == ()
    assert torch.equal(out, torch.full((16, 16), 16.0))

    def found(block: int, *args: int) -> set[tuple[str, str]]:
        source = (FOLDER / FILE).read_text().splitlines()
        faults = kernel.trace(1, block, (a, out, *args)).faults
        return {(fault.kind, source[fault.line - 1].split("HERE: ")[-1]) for fault in faults}

    assert found(32, 8, 24) == {("misaligned", "load")}
    assert found(32, 0, 20) == {("misaligned", "load")}
    assert found(16, 0, 24) == {("absent lanes", "multiply")}
    assert ("out of bounds", "load") in found(32, 16, 24)


def test_a_lane_that_does_not_come_is_a_deadlock() -> None:
    kernel = smem.RawKernel(FOLDER / FILE, "wrong", options=("-DDIVERGED",))
    (fault,) = kernel.trace(1, 32, (torch.ones(16, 24).half(), torch.empty(16, 16), 0, 24)).faults
    assert fault.kind == "deadlock"
    assert "31 at an instruction of the whole warp (wmma.cu:" in fault.detail


def test_least_times_of_a_kernel_with_fragments() -> None:
    a, out = torch.ones(32, 32).half(), torch.empty(32, 32)
    traced = smem.RawKernel(FOLDER / FILE, "staged<half>").trace(1, 64, (a, a, out))
    found = judge(traced, device("H200"))
    assert found.least_seconds["tensor cores"] == pytest.approx(2 * 32**3 / 4096 / 1.98e9)
    assert found.peak_tflops == pytest.approx(132 * 4096 * 1.98e-3)


@pytest.mark.parametrize(
    "fragment",
    [
        "wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major>",
        "wmma::fragment<wmma::accumulator, 8, 8, 4, double>",
        "wmma::fragment<wmma::matrix_a, 16, 16, 8, half, wmma::row_major>",
    ],
)
def test_other_fragments_are_refused_by_name(fragment: str) -> None:
    head = "#include <mma.h>\nusing namespace nvcuda;\n"
    code = f"{head}__global__ void k() {{\n  {fragment} f;\n}}\n"
    with pytest.raises(smem.CompileError, match=r"kernel.cu:4.*fragment<.*has incomplete type"):
        smem.RawKernel(code, "k").compile()
