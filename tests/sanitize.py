"""Launches every kernel once a dtype on awkward shapes, for compute-sanitizer to watch.

    make sanitize            (memcheck, racecheck, synccheck and initcheck)
    compute-sanitizer --tool racecheck python tests/sanitize.py sum wgmma     (of these only)

Without torch's caching allocator every tensor is an allocation of its own, so that memcheck sees
the bounds of each. Results are compared with torch's on the way.

initcheck does not see what TMA writes. Where TMA may write, all that torch allocates is
filled with NaN first: then an element that is left out shows in the comparison.
"""

import contextlib
import functools
import itertools
import math
import os
import sys
from collections.abc import Callable

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # or cuBLAS refuses deterministic algorithms

import torch

import torch_smem_gemm as smem
from torch_smem_gemm.ops._codes import kernel_code

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
# (batch, M, N, K, a turned, b turned): single elements, ragged edges, whole tiles, both layouts.
SHAPES = (
    ((), 1, 1, 1, False, False),
    ((), 17, 31, 13, True, False),
    ((2,), 33, 65, 40, False, True),
    ((), 129, 130, 36, True, True),
    ((), 128, 128, 32, False, False),
)
# For gemv: lanes and warps that divide K, rows at any address, several slices.
VECTOR_SHAPES = (
    ((), 300, 1, 700, False, False),
    ((3,), 9, 1, 77, False, False),
    ((), 70, 1, 4098, False, True),
    ((), 5, 1, 33_001, False, False),
)
# For kernels with variants: several pieces of work a block, K in slices, operands packed first.
LONGER_SHAPES = (
    ((), 700, 520, 200, False, True),
    ((), 40, 24, 8200, False, False),
    ((), 20, 31, 2100, False, False),
    ((3,), 70, 129, 77, False, True),
)


def matrix(
    batch: tuple[int, ...],
    rows: int,
    cols: int,
    turned: bool,
    dtype: torch.dtype,
    whole_vectors: bool = False,
):
    """Random numbers that torch wrote, so that initcheck knows them; turned: a transposed view.

    ``whole_vectors``: the allocation is a multiple of 16 bytes.
    """
    shape = (*batch, cols, rows) if turned else (*batch, rows, cols)
    size = math.prod(shape)
    allocated = -(-size // 16) * 16 if whole_vectors else size
    values = torch.randn(allocated, device="cuda", dtype=torch.float32).to(dtype)[:size].view(shape)
    return values.mT if turned else values


@contextlib.contextmanager
def poisoned(is_poisoned: bool = True):
    """What torch.empty gives is NaN, and the largest number where there is none."""
    torch.use_deterministic_algorithms(is_poisoned)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def has_variant(kernel: smem.KernelInfo, variant: str, dtype: torch.dtype) -> bool:
    """Of wgmma's tiles some are not built for float32; fp16x3:wgmma is for Hopper."""
    x = torch.ones(16, 16, device="cuda", dtype=dtype)  # whole vectors: see gemms
    try:
        name = f"{kernel.name}:{variant}"
        smem.gemm(x, x, precision=kernel.float32_precision, kernel=name)
    except RuntimeError as error:
        if "has no variant" not in str(error) and "needs a GPU" not in str(error):
            raise
        return False
    return True


def gemms(kernel: smem.KernelInfo) -> int:
    launches = 0
    dtypes = [dtype for dtype in FLOATS if kernel.takes(dtype, "cuda", kernel.float32_precision)]
    for dtype in dtypes:
        precision = kernel.float32_precision
        is_tf32 = dtype == torch.float32 and precision == "tf32"
        variants = kernel.variants if is_tf32 or dtype == dtypes[-1] else ()
        variants = [v for v in variants if has_variant(kernel, v, dtype)]
        names = (kernel.name, *(f"{kernel.name}:{variant}" for variant in variants))
        shapes = SHAPES + (LONGER_SHAPES if kernel.variants else ())
        shapes += VECTOR_SHAPES if kernel.name == "gemv" else ()
        # memcheck takes a cp.async that reads fewer bytes than it writes for one of all 16 bytes.
        whole_vectors = kernel.name == "mma"
        for name, (batch, m, n, k, turn_a, turn_b) in itertools.product(names, shapes):
            a = matrix(batch, m, k, turn_a, dtype, whole_vectors)
            b = matrix((), k, n, turn_b, dtype, whole_vectors)
            bias, c = matrix((), 1, n, False, dtype)[0], matrix((), m, 1, False, dtype)
            product, bias64 = a.double() @ b.double(), bias.double()
            tolerance = 1e-1 if dtype.itemsize == 2 or precision == "tf32" else 1e-3
            # The ways out of a kernel: with C, without, and with an activation alone.
            for options, z in (
                ({}, product),
                ({"bias": bias, "activation": "gelu"}, product + bias64),
                (
                    {"alpha": 0.5, "c": c, "beta": 2.0, "bias": bias, "activation": "gelu"},
                    0.5 * product + 2 * c.double() + bias64,
                ),
            ):
                result = smem.gemm(a, b, **options, precision=precision, kernel=name).double()
                expected = torch.nn.functional.gelu(z) if "activation" in options else z
                torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
            launches += 1
    return launches


def outliers_and_fallback() -> int:
    """Rows and columns of fp16x3 with one outlier, and those that its fallback computes.

    B is split by the call, or its split is kept.
    """
    row = next(row for row in smem.kernels("gemm") if row.name == "fp16x3")
    if not row.takes(torch.float32, "cuda"):
        return 0
    launches = 0
    # The others are skinny, and split B inside the product: two with split-K, one with single
    # elements of many columns. Warpgroups split those of `columns`. Of a short K are the first one
    # and the last two.
    shapes = ((40, 50, 9), (300, 140, 700), (40, 24, 4200), (20, 24, 4200), (7, 68, 268))
    columns = ((9, 8500, 132), (30, 8448, 268), (50, 8500, 400))
    shapes = (*shapes, (60, 68, 268), (9, 4243, 140), *columns, (50, 40, 64), (9, 4200, 128))
    for m, n, k in shapes:
        for transposed in (False, True):
            a = matrix((), m, k, transposed, torch.float32).clone()
            b = matrix((), k, n, transposed, torch.float32).clone()
            a[3, 1] = b[2, 5] = 1e-20
            a[4, 1:3] = b[3:5, 6] = 1e-20
            a[5, 0], b[0, 7] = math.inf, math.nan
            split = torch.ops.smem._split_weight(b.mT)
            for kernel in ("fp16x3", "fp16x3:mma"):
                code = kernel_code("gemm", kernel)
                for result in (
                    smem.gemm(a, b, kernel=kernel),
                    torch.ops.smem._linear_split(a, b.mT, split, kernel_id=code),
                ):
                    torch.testing.assert_close(result, a @ b, rtol=1e-3, atol=1e-3, equal_nan=True)
                    launches += 1
    return launches


@poisoned()
def long_products() -> int:
    """Products whose work tiles are so many, or take so long, that a counter gives them out."""
    launches = 0
    for kernel, dtype, m, n, k in (
        ("wgmma:64x64", torch.bfloat16, 6500, 1001, 400),
        ("wgmma:64x64", torch.float32, 6500, 1001, 400),
        ("wgmma:64x128_cluster2", torch.float16, 13000, 1000, 400),
        ("fp16x3:wgmma", torch.float32, 1030, 2100, 3700),
        ("fp16x3:wgmma", torch.float32, 1200, 2100, 3700),  # by clusters
    ):
        row = next(row for row in smem.kernels("gemm") if row.name == kernel.split(":")[0])
        if not has_variant(row, kernel.split(":")[1], dtype):
            continue
        a, b = matrix((), m, k, False, dtype), matrix((), k, n, True, dtype)
        precision = row.float32_precision
        for _ in range(2):  # the first one leaves the counter at zero
            result = smem.gemm(a, b, kernel=kernel, precision=precision).double()
            torch.testing.assert_close(result, a.double() @ b.double(), rtol=1e-1, atol=1e-1)
            launches += 1
    return launches


@poisoned()
def trainings() -> int:
    """Forward and backward of a layer: what gradients need is stored, and taken by one kernel."""
    steps = 0
    for dtype in FLOATS:
        for activation in ("relu", "gelu", "gelu_tanh", "silu"):
            for m, n, k in ((1, 1, 1), (33, 65, 40), (300, 128, 32), (2100, 36, 8)):
                x, weight = matrix((), m, k, False, dtype), matrix((), n, k, False, dtype)
                leaves = [
                    t.requires_grad_() for t in (x, weight, matrix((), 1, n, False, dtype)[0])
                ]
                for out_dtype in (None, torch.float32 if dtype.itemsize == 2 else dtype):
                    result = smem.linear(*leaves, activation=activation, out_dtype=out_dtype)
                    for grad in torch.autograd.grad(result, leaves, torch.ones_like(result)):
                        assert grad.isfinite().all()
                    steps += 1
    return steps


def transposes() -> int:
    launches = 0
    for kernel in ("auto", *(row.name for row in smem.kernels("transpose"))):
        for dtype in (torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128):
            # Single elements, ragged tiles, whole ones, several, a narrow matrix each way, runs.
            for shape, dim0 in (
                *(((1, 1), 0), ((33, 65), 0), ((3, 70, 31), 1), ((256, 128), 0)),
                *(((300, 530), 0), ((1000, 3), 0), ((5, 2000), 0)),
                *(((2, 6, 5, 16), 1), ((20, 30, 3), 0)),
            ):
                values = (torch.randn(1 + math.prod(shape), device="cuda") * 9).abs().to(dtype)
                for first in (0, 1):  # at a multiple of 16 bytes, and beside one
                    x = values[first : first + math.prod(shape)].view(shape)
                    result = smem.transpose(x, dim0, dim0 + 1, kernel=kernel)
                    assert torch.equal(result, x.transpose(dim0, dim0 + 1))
                    launches += 1
    return launches


REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
}
# Short rows, whole and odd; several warps and several launches a row; columns, few and many.
REDUCED = (
    *[((1,), 0), ((5, 70), 1), ((70, 64), 1), ((2, 9000), 1), ((3, 70_001), 1), ((1, 2**19), 1)],
    *[((70, 5), 0), ((700, 96), 0), ((70_001, 3), 0), ((3, 300, 40), 1), ((3, 40, 60), (0, 2))],
    *[((300, 1031), 0), ((2100, 133), 0), ((3, 70, 131), 1)],  # rows that begin anywhere
)


def reductions() -> int:
    launches = 0
    for name, reference in REDUCTIONS.items():
        kernels = [row for row in smem.kernels("sum") if name == "sum" or row.any_operator]
        for kernel in ["auto", *(row.name for row in kernels)]:
            for dtype in (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.bool):
                if name == "mean" and dtype not in FLOATS:
                    continue
                for shape, dim in REDUCED:
                    x = (torch.randn(shape, device="cuda") * 3).to(dtype)
                    # Compared on the CPU: torch's own reductions read what nobody wrote.
                    torch.testing.assert_close(
                        getattr(smem, name)(x, dim, kernel=kernel).cpu().double(),
                        reference(x.cpu().double(), dim),
                        rtol=1e-2,
                        atol=1e-1,
                    )
                    launches += 1
    return launches


def gemms_of(kernel: smem.KernelInfo) -> int:
    with poisoned(kernel.name in ("mma", "wgmma")):
        return gemms(kernel)


def attention_parts() -> int:
    launches = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for sequences, parts, group, heads, features in ((2, 3, 4, 1, 128), (1, 17, 1, 2, 200)):
            rows = sequences * parts * group
            out = torch.randn(rows, heads, features, device="cuda").to(dtype)
            scores = torch.randn(heads, rows, device="cuda")
            lengths = torch.ones(sequences * parts, dtype=torch.int32, device="cuda")
            lengths[parts - 1] = 0
            combined = torch.ops.smem._combine_parts(out, scores, lengths, parts, group)
            assert not combined.isnan().any()
            launches += 1
    return launches


def index_adds() -> int:
    launches = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for rows, count, features in ((5, 3, 1000), (40, 600, 7), (3, 300, 1025)):
            x = torch.randn(rows, features, device="cuda").to(dtype)
            source = torch.randn(count, features, device="cuda").to(dtype)
            index = torch.arange(count, device="cuda").square() % rows
            sums = x.cpu().double().index_add(0, index.cpu(), source.cpu().double())
            ascending, order = index.sort(stable=True)
            for operands in ((index, source), (ascending, source, order)):
                result = x.clone()
                torch.ops.smem._index_add_(result, *operands)
                torch.testing.assert_close(result.cpu().double(), sums, rtol=1e-2, atol=1e-1)
                launches += 1
    return launches


PARTS: dict[str, Callable[[], int]] = {
    **{row.name: functools.partial(gemms_of, row) for row in smem.kernels("gemm")},
    "outliers": outliers_and_fallback,
    "long_products": long_products,
    "training": trainings,
    "transpose": transposes,
    "sum": reductions,
    "attention_parts": attention_parts,
    "index_add": index_adds,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        print(f"{part}: {PARTS[part]()} right", flush=True)
