"""smem.gemm on sizes for a GPU: hundreds of tiles, the largest panel, more than 2^31 elements."""

import pytest
import torch
from gemm_kernels import largest_k, of_the_same_bits
from helpers import (
    FLOATS,
    FLOATS_BUT_TWO_BY_SWEEP,
    GEMMS,
    TENSOR_CORE_GEMMS,
    assert_accurate,
    floats_of,
    laid_out,
    normal,
    poisoned,
    runs_needed,
    same_bits,
    short,
    small_integers,
)

import torch_smem_gemm as smem

every_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=short)
every_kernel = pytest.mark.parametrize("kernel", ["auto", *GEMMS, *TENSOR_CORE_GEMMS])
ANY_K = {"auto": True} | {row.name: row.any_k for row in smem.kernels("gemm")}


@pytest.mark.gpu
@every_dtype
@every_kernel
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(512, 512, 512), (1024, 768, 640), (1023, 641, 1025), (1, 700, 1100), (1100, 701, 3)],
)
def test_large(kernel: str, dtype: torch.dtype, m: int, k: int, n: int) -> None:
    if k > largest_k(kernel, dtype, "cuda"):
        pytest.skip("more shared memory than this GPU has")
    for turn_a, turn_b in ((False, False), (False, True), (True, False), (True, True)):
        a = normal(*((k, m) if turn_a else (m, k)), dtype=dtype, device="cuda")
        b = normal(*((n, k) if turn_b else (k, n)), dtype=dtype, device="cuda")
        a, b = a.mT if turn_a else a, b.mT if turn_b else b
        out = poisoned((m, n), dtype, "cuda")
        assert_accurate(torch.matmul, (smem.gemm(a, b, kernel=kernel, out=out), (a, b)))
        first = of_the_same_bits(kernel, dtype, "cuda", n, k)[0]
        if kernel != first:
            assert same_bits(out, smem.gemm(a, b, kernel=first))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=short)
@pytest.mark.parametrize("kernel", ["auto", *TENSOR_CORE_GEMMS])
@pytest.mark.parametrize(("k", "n"), [(1024, 4096), (1001, 515), (4096, 136)])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "unaligned"])
def test_a_row_has_the_same_bits_in_tiles_of_every_size(
    kernel: str, dtype: torch.dtype, k: int, n: int, layout: str
) -> None:
    """Which tile it is computed in depends on M: a row alone, some rows, and many."""
    a = laid_out(normal(4096, k, dtype=dtype, device="cuda"), layout)
    b = laid_out(normal(k, n, dtype=dtype, device="cuda"), layout)
    whole = smem.gemm(a, b, kernel=kernel)
    for m in (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300, 1000, 2049):
        for start in (0, 1, 4096 - m):
            part = smem.gemm(a[start : start + m], b, kernel=kernel)
            assert same_bits(part, whole[start : start + m]), (m, start)


@pytest.mark.parametrize("dtype", FLOATS_BUT_TWO_BY_SWEEP, ids=short)
@pytest.mark.parametrize("kernel", [name for name, any_k in ANY_K.items() if any_k])
def test_long_k(kernel: str, dtype: torch.dtype, device: str) -> None:
    m, n = (9, 31) if device == "cpu" else (130, 131)
    for k in (1500, 5001):
        a, b = (normal(*s, dtype=dtype, device=device) for s in ((m, k), (k, n)))
        assert_accurate(torch.matmul, (smem.gemm(a, b, kernel=kernel), (a, b)))


@every_dtype
def test_panel_takes_the_k_that_fills_shared_memory(dtype: torch.dtype, device: str) -> None:
    k = largest_k("panel", dtype, device)
    runs = []
    for _ in range(runs_needed(17 * 3)):
        a, b = (normal(*s, dtype=dtype, device=device) for s in ((17, k), (k, 3)))
        runs.append((smem.gemm(a, b, kernel="panel"), (a, b)))
    assert_accurate(torch.matmul, *runs)
    a, b = (torch.empty(s, dtype=dtype, device=device) for s in ((1, k + 1), (k + 1, 1)))
    with pytest.raises(RuntimeError, match=f"the largest K is {k} for {short(dtype)}, got {k + 1}"):
        smem.gemm(a, b, kernel="panel")


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=12)
@every_kernel
def test_operands_that_begin_beyond_2_31_elements(kernel: str) -> None:
    dtype = floats_of(kernel)[-1]
    m, k, n, start = 70, 50, 90, 2**31 + 5
    buffer = torch.empty(start + m * k + k * n + m * n, dtype=dtype, device="cuda")
    a, b, out = (
        part.view(shape)
        for part, shape in zip(
            buffer[start:].split([m * k, k * n, m * n]), ((m, k), (k, n), (m, n)), strict=True
        )
    )
    a.copy_(small_integers(m, k))
    b.copy_(small_integers(k, n))
    out.fill_(torch.nan)
    expected = (a.double() @ b.double()).to(dtype)
    assert smem.gemm(a, b, kernel=kernel, out=out) is out
    assert torch.equal(out, expected)


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=12)
@every_kernel
@pytest.mark.parametrize("operand", ["a", "b", "out"])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_more_than_2_31_elements_apart(kernel: str, operand: str, turned: bool) -> None:
    """The last rows of an operand lie beyond 2^31 elements, turned: its last columns."""
    dtype = floats_of(kernel)[-1]
    step = 2**27 + 1
    buffer = torch.empty(17 * step, dtype=dtype, device="cuda")
    view = buffer.as_strided((17, 40), (step, 1))
    args = {"a": small_integers(17, 40), "b": small_integers(40, 40)}
    if operand == "b":
        args = {"a": small_integers(40, 17), "b": small_integers(17, 40)}
    if turned:
        args = {"a": args["b"].mT, "b": args["a"].mT}
    args = {name: x.to("cuda", dtype) for name, x in args.items()}
    expected = (args["a"].double() @ args["b"].double()).to(dtype)
    place = view.mT if turned else view
    if operand == "out":
        result = smem.gemm(**args, kernel=kernel, out=place.fill_(torch.nan))
    else:
        name = operand if not turned else {"a": "b", "b": "a"}[operand]
        args[name] = place.copy_(args[name])
        result = smem.gemm(**args, kernel=kernel)
    assert torch.equal(result, expected)


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=20)
@every_kernel
def test_result_of_more_than_2_31_elements(kernel: str) -> None:
    dtype = floats_of(kernel)[-1]
    m, n = 2**16 + 3, 2**15 + 5
    a, b = (small_integers(*s, dtype=dtype, device="cuda") for s in ((m, 2), (2, n)))
    out = poisoned((m, n), dtype, "cuda")
    smem.gemm(a, b, kernel=kernel, out=out)
    for part, rows in zip(out.split(2**12), a.split(2**12), strict=True):
        assert torch.equal(part, rows @ b)


@pytest.mark.gpu
@every_kernel
def test_batch_of_more_members_than_a_grid_has_rows(kernel: str) -> None:
    """65535 is the most blocks along a grid's second and third dimension."""
    dtype = floats_of(kernel)[-1]
    a = small_integers(70_000, 3, 5, dtype=dtype, device="cuda")
    b = small_integers(70_000, 5, 2, dtype=dtype, device="cuda")
    assert torch.equal(smem.gemm(a, b, kernel=kernel), (a.double() @ b.double()).to(dtype))
