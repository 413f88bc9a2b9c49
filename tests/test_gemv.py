"""The kernel gemv: a matrix with contiguous rows times a vector."""

import functools

import pytest
import torch
from helpers import normal, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.bounds import bound

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=short)
gemv = functools.partial(smem.gemm, kernel="gemv")

# K: less than a vector; few lanes; a partial vector; one warp; several; a slice of eight warps and
# what is left; several slices.
LENGTHS = (1, 3, 8, 33, 77, 128, 600, 1001, 4096, 5000, 16_384, 33_001)


def matrix(m: int, k: int, dtype: torch.dtype, device: str, layout: str = "contiguous") -> Tensor:
    """Random numbers, in rows that begin at any address or at multiples of 16 bytes."""
    values = normal(m, k, dtype=torch.float64).to(device, dtype)
    pitch, first = {
        "contiguous": (k, 0),
        "aligned": (-(-k // 8) * 8, 0),
        "words": (k + k % 2 + 2, 2),
        "odd": (k | 1, 1),
    }[layout]
    rows = torch.zeros(first + m * pitch, dtype=dtype, device=device)[first:].view(m, pitch)[:, :k]
    return rows.copy_(values)


def vector(k: int, dtype: torch.dtype, device: str, step: int = 1) -> Tensor:
    """Random numbers, ``step`` elements apart."""
    values = normal(k, 1, dtype=torch.float64).to(device, dtype)
    return torch.zeros(k, step, dtype=dtype, device=device)[:, :1].copy_(values)


@every_dtype
@pytest.mark.parametrize("k", LENGTHS)
def test_accurate_and_the_same_bits_in_every_layout(
    k: int, dtype: torch.dtype, device: str
) -> None:
    a, b = matrix(37, k, dtype, device), vector(k, dtype, device)
    result = gemv(a, b, out_dtype=torch.float32)
    wide, magnitudes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    limit = bound("ieee", 1, k) * 2.0**-24 * magnitudes
    assert ((result.double() - wide).abs() <= limit).all()
    for layout in ("aligned", "words", "odd"):
        for step in (1, 3):
            operands = matrix(37, k, dtype, device, layout), vector(k, dtype, device, step)
            for operand, numbers in zip(operands, (a, b), strict=True):
                operand.copy_(numbers)
            assert same_bits(gemv(*operands, out_dtype=torch.float32), result)


@every_dtype
@pytest.mark.parametrize("k", LENGTHS)
def test_a_row_has_the_same_bits_at_every_m(k: int, dtype: torch.dtype, device: str) -> None:
    """With few rows blocks divide K, and with many they do not."""
    many = 3000 if device == "cuda" else 300 if k < 5000 else 40
    a, b = matrix(many, k, dtype, device, "odd"), vector(k, dtype, device)
    whole = gemv(a, b)
    for first, rows in ((0, 1), (5, 3), (7, 30), (many - 1, 1)):
        assert same_bits(gemv(a[first : first + rows], b), whole[first : first + rows])


@pytest.mark.gpu
@every_dtype
def test_split_and_unsplit_have_the_same_bits(dtype: torch.dtype) -> None:
    a, b = matrix(3000, 40_000, dtype, "cuda"), vector(40_000, dtype, "cuda")
    assert "slices" in smem.plan(a[:5], b).reason
    assert "slices" not in smem.plan(a, b).reason
    assert same_bits(smem.gemm(a[:5], b), smem.gemm(a, b)[:5])


@every_dtype
def test_batches_and_epilogue(dtype: torch.dtype, device: str) -> None:
    a = normal(3, 2, 20, 130, dtype=dtype, device=device)
    b = normal(2, 130, 1, dtype=dtype, device=device)
    bias, c = normal(1, dtype=dtype, device=device), normal(20, 1, dtype=dtype, device=device)
    options = {"bias": bias, "c": c, "alpha": 0.5, "beta": 2.0, "activation": "gelu"}
    result = gemv(a, b, **options)
    z = 0.5 * (a.double() @ b.double()) + 2 * c.double() + bias.double()
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(
        result.double(), torch.nn.functional.gelu(z), rtol=tolerance, atol=tolerance
    )
    for i, j in ((0, 0), (2, 1)):
        assert same_bits(gemv(a[i, j], b[j], **options), result[i, j])


@every_dtype
def test_elements_beyond_k_are_not_used(dtype: torch.dtype, device: str) -> None:
    """The words that are read beside a row may hold anything."""
    for k in (33, 77, 1001):
        rows = torch.full((9, k + 3), torch.nan, dtype=dtype, device=device)
        rows[:, 1 : k + 1] = normal(9, k, dtype=dtype, device=device)
        b = torch.full((k + 2, 1), torch.inf, dtype=dtype, device=device)
        b[1 : k + 1] = normal(k, 1, dtype=dtype, device=device)
        a, b = rows[:, 1 : k + 1], b[1 : k + 1]
        assert same_bits(gemv(a, b), gemv(a.contiguous(), b.contiguous()))


@pytest.mark.parametrize("device", ["T4", "A10", "A100", "H100", "B200"])
def test_plan(device: str) -> None:
    def kernel(m: int, n: int, k: int, dtype: torch.dtype, **options: str) -> str:
        a, b = torch.empty(m, k, dtype=dtype), torch.empty(k, n, dtype=dtype)
        return smem.plan(a, b, device=device, **options).kernel

    for dtype in DTYPES:
        assert {kernel(m, 1, 4096, dtype) for m in (1, 100, 100_000)} == {"gemv"}
        assert kernel(100, 2, 4096, dtype) != "gemv"
        assert kernel(100, 1, 31, dtype) != "gemv"
        a, b = torch.empty(4096, 100, dtype=dtype).mT, torch.empty(4096, 1, dtype=dtype)
        assert smem.plan(a, b, device=device).kernel != "gemv"
    assert kernel(100, 1, 4096, torch.float32, precision="tf32") == "gemv"
    assert kernel(100, 1, 4096, torch.float32, precision="ieee") != "gemv"
    assert kernel(100, 1, 4096, torch.float64) != "gemv"


def test_what_it_leaves_to_another_kernel(device: str) -> None:
    a, b = normal(20, 50, device=device), normal(50, 3, device=device)
    assert same_bits(gemv(a, b), smem.gemm(a, b, kernel="register_tiled"))
    row_major = normal(50, 20, device=device).mT
    result = gemv(row_major, b[:, :1])
    assert same_bits(result, smem.gemm(row_major, b[:, :1], kernel="register_tiled"))


def test_a_trace_reads_a_matrix_once() -> None:
    m, k = 64, 1024
    (launch,) = smem.trace("gemm", normal(m, k), normal(k, 1), kernel="gemv").launches
    assert launch.kernel == "gemv"
    assert launch.fma == m * k
    read = launch.count("bytes", actions=["load"], memory="global")
    assert read == 4 * m * k + 4 * k * (m // 4)  # a lane reads b for four rows
    assert sum(line.conflicts for line in launch.lines) == 0


@every_dtype
@pytest.mark.parametrize("k", [33, 77, 2001])
def test_a_trace_finds_no_fault(k: int, dtype: torch.dtype) -> None:
    """Nothing before the first element is read, and nothing after the last one."""
    a, b = matrix(10, k, dtype, "cpu", "odd")[:9], vector(k, dtype, "cpu", 2)
    assert not smem.trace("gemm", a, b, kernel="gemv").faults
