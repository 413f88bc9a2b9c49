"""smem.sum: torch.sum's results for every kernel, dtype, shape and set of dimensions."""

import math

import numpy as np
import pytest
import torch
from helpers import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    LAYOUTS,
    SUMS,
    any_bits,
    assert_accurate,
    assert_same_specials,
    by_sweep,
    laid_out,
    normal,
    poisoned,
    poisoned_out,
    runs_needed,
    same_bits,
    short,
    small_integers,
)
from torch import Tensor

import torch_smem_gemm as smem

pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]

every_kernel = pytest.mark.parametrize("kernel", ["auto", *SUMS])
every_float = pytest.mark.parametrize("dtype", FLOATS, ids=short)

CHUNK = 8192  # longer sums are cut


def check_exact(x: Tensor, dim: object, kernel: str, dtype: torch.dtype | None = None) -> None:
    """Compare with torch.sum, where rounding plays no part."""
    for keepdim in (False, True):
        expected = torch.sum(x, dim, keepdim, dtype=dtype)
        result = smem.sum(x, dim, keepdim, dtype=dtype, kernel=kernel)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        assert torch.equal(result, expected), (tuple(x.shape), dim, dtype)
        out = poisoned(expected.shape, expected.dtype, str(x.device))
        assert smem.sum(x, dim, keepdim, dtype=dtype, kernel=kernel, out=out) is out
        assert same_bits(out, result)


CASES = [
    # (shape, dim)
    *[((5, 7), None), ((5, 7), ()), ((5, 7), 0), ((5, 7), 1), ((5, 7), (1,)), ((5, 7), (-1, 0))],
    *[((3, 20, 35), d) for d in (0, 1, 2, -1, (0, 1), (0, 2), (2, 1), (0, 1, 2))],
    *[((), None), ((), 0), ((), -1), ((), ()), ((1,), 0), ((1, 1, 1), (0, 2))],
    *[((300,), None), ((33, 300), 1), ((300, 33), 0), ((2, 129, 3), 1)],
    *[((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), (0, 1)), ((2, 0, 3), 1), ((2, 0, 3), 0)],
    *[((2, 3, 2, 3, 2), d) for d in ((0, 2, 4), (1, 3), (4, 0))],
    ((2,) * 12, tuple(range(0, 12, 2))),
]


@every_kernel
@pytest.mark.parametrize(
    "dtype",
    by_sweep(
        [*FLOATS, *INTEGERS, *COMPLEX],
        *(torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64),
    ),
    ids=short,
)
def test_shapes_and_dims(kernel: str, dtype: torch.dtype, device: str) -> None:
    for shape, dim in CASES:
        limit = 1 if dtype in (torch.float16, torch.bfloat16) else 4
        x = small_integers(*shape, device=device, limit=limit).to(dtype)
        if dtype.is_complex:
            x = torch.complex(x.real, small_integers(*shape, device=device).to(x.real.dtype))
        check_exact(x, dim, kernel)


@every_kernel
def test_more_dimensions_than_a_kernel_has_loops(kernel: str, device: str) -> None:
    x = small_integers(*(2,) * 20, device=device)
    check_exact(x, tuple(range(0, 20, 2)), kernel)
    check_exact(x.permute(*range(19, -1, -1)), tuple(range(0, 20, 2)), kernel)


@every_kernel
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "dtype",
    by_sweep(
        (torch.float32, torch.bfloat16, torch.int8, torch.complex64), torch.float32, torch.int8
    ),
    ids=short,
)
def test_layouts(kernel: str, layout: str, dtype: torch.dtype, device: str) -> None:
    limit = 1 if dtype == torch.bfloat16 else 4
    x = laid_out(small_integers(2, 19, 33, device=device, limit=limit).to(dtype), layout)
    for dim in (None, 0, 1, 2, (0, 1), (1, 2), (0, 2)):
        check_exact(x, dim, kernel)


@every_kernel
def test_expanded_and_permuted(kernel: str, device: str) -> None:
    x = small_integers(1, device=device).expand(33, 40)
    y = small_integers(5, 1, 7, device=device).expand(5, 35, 7)
    z = small_integers(5, 6, 7, 8, device=device).permute(2, 0, 3, 1)
    for dim in (None, 0, 1, (0, 1)):
        for tensor in (x, y, z, z[::2, 1:, ::3]):
            check_exact(tensor, dim, kernel)


DTYPES_TO = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.complex64, torch.complex128),
)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=short)
def test_columns_whose_rows_begin_anywhere(dtype: torch.dtype, device: str) -> None:
    for first, columns, pitch in (
        (0, 67, 67),
        (1, 130, 131),
        (3, 64, 200),
        (5, 97, 103),
        (2, 70, 72),
        (8, 512, 521),
    ):
        for rows in (1, 9, 300):
            x = small_integers(rows, pitch, device=device).to(dtype)[:, first : first + columns]
            check_exact(x, 0, "columns")
            assert torch.equal(smem.amax(x, 0, kernel="columns"), x.amax(0))


WAYS_DOWN_COLUMNS = {
    "few rows": ((6, 5, 64), 1),
    "few rows in four groups": ((6, 31, 64), 1),
    "few rows of single elements": ((7, 9, 33), 1),
    "narrow": ((19_999, 8), 0),
    "narrow, no whole vectors": ((16_501, 3), 0),
    "narrow, several matrices": ((2, 17_000, 16), 1),
    "few side by side": ((6, 128, 64), 1),
    "from anywhere on": ((30, 300, 65), 1),
    "several chunks": ((5000, 160), 0),
    "alone": ((640, 260, 50), 1),
    "alone by vectors": ((33, 253_440), 0),
    "alone by pairs": ((35, 270_347), 0),
}


@pytest.mark.parametrize(
    ("way", "dtype"),
    [
        # A CPU takes a quarter of a minute for each of the widest, and seconds for the next one.
        pytest.param(
            *(way, dtype),
            marks=[pytest.mark.sweep]
            if way.startswith("alone by")
            or (way == "alone" and dtype in (torch.float64, torch.float16))
            else [],
        )
        for way in WAYS_DOWN_COLUMNS
        for dtype in (*FLOATS, torch.int8)
    ],
    ids=short,
)
@pytest.mark.one_in(3)
def test_every_way_down_columns_has_the_bits_of_rows(
    way: str, dtype: torch.dtype, device: str
) -> None:
    shape, dim = WAYS_DOWN_COLUMNS[way]
    x = normal(*shape, device=device).mul(40).to(dtype)
    rows = x.movedim(dim, -1).contiguous()
    assert same_bits(smem.sum(x, dim, kernel="columns"), smem.sum(rows, -1, kernel="rows"))
    assert same_bits(smem.amin(x, dim, kernel="columns"), smem.amin(rows, -1, kernel="rows"))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8], ids=short)
def test_rows_have_the_same_bits_wherever_they_begin(dtype: torch.dtype, device: str) -> None:
    for count in (65, 139, 255, 300, 515, 1030, 2047, 2048, 2050, 4099, 8193, 16_390):
        pitch = (count + 31) // 16 * 16
        x = normal(9, pitch, device=device).mul(40).to(dtype)[:, :count]
        expected = [f(x, 1, kernel="rows") for f in (smem.sum, smem.amax)]
        for first in (0, 1, 3, 8, 13):
            y = torch.empty(9, count + 14, dtype=dtype, device=device)[:, first : first + count]
            y.copy_(x)
            assert same_bits(smem.sum(y, 1, kernel="rows"), expected[0]), (count, first)
            assert same_bits(smem.amax(y, 1, kernel="rows"), expected[1]), (count, first)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int16, torch.int8], ids=short)
def test_rows_of_few_vectors_have_the_bits_of_columns(dtype: torch.dtype, device: str) -> None:
    for count in (65, 73, 130, 139, 250, 257, 380, 510, 640, 1000, 1024, 1273, 1529, 2033):
        x = normal(7, count + 3, device=device).mul(40).to(dtype)
        for rows in (x[:, :count].contiguous(), x[:, 1:-2], x[2:3, 3:]):
            down = smem.sum(rows.t().contiguous(), 0, kernel="columns")
            assert same_bits(smem.sum(rows, 1, kernel="rows"), down), count
        zeros = torch.zeros_like(rows).neg() if dtype.is_floating_point else rows * 0
        assert same_bits(smem.sum(zeros, 1), torch.zeros_like(down)), count


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=short)
def test_many_rows_have_the_bits_of_few(dtype: torch.dtype, device: str) -> None:
    x = normal(10_560, 272, device=device).mul(40).to(dtype)
    few = [smem.sum(rows, 1, kernel="rows") for rows in x.split(1056)]
    assert same_bits(smem.sum(x, 1, kernel="rows"), torch.cat(few))


@every_kernel
@pytest.mark.parametrize("dtype_in", DTYPES_TO, ids=short)
@pytest.mark.one_in(2)
def test_dtypes(kernel: str, dtype_in: torch.dtype, device: str) -> None:
    """The input is converted first, as torch.sum does it."""
    x = small_integers(9, 40, device=device, limit=2)
    x = (x if dtype_in.is_signed or dtype_in == torch.bool else x.abs()).to(dtype_in)
    halves = x / 2 if dtype_in.is_floating_point else x
    for dtype in DTYPES_TO:
        # What a number below zero is as uint8 is defined for integers only.
        y = halves * halves if dtype == torch.uint8 and dtype_in not in INTEGERS else halves
        check_exact(y, 1, kernel, dtype)
        check_exact(y, None, kernel, dtype)


@every_kernel
@pytest.mark.parametrize("dtype", INTEGERS, ids=short)
def test_integers_are_exact_and_wrap_as_in_torch(
    kernel: str, dtype: torch.dtype, device: str
) -> None:
    x = any_bits(5, 700, dtype=dtype, device=device)
    for dim in (None, 0, 1):
        check_exact(x, dim, kernel)
        for narrow in (torch.int8, torch.uint8, torch.int16, torch.int32):
            check_exact(x, dim, kernel, narrow)


# --------------------------------------------------------------------------------------- accuracy


def _cancelling(*shape: int, dtype: torch.dtype, device: str) -> Tensor:
    """Pairs that cancel, among others that they are 100 times as large as."""
    x = normal(*shape, dtype=dtype, device=device)
    pairs = shape[-1] // 4
    x[..., :pairs] *= 100
    x[..., pairs : 2 * pairs] = -x[..., :pairs]
    x[..., 2 * pairs :].abs_()
    return x[..., torch.randperm(shape[-1], device=device)]


DATA = {
    "normal": normal,
    "positive": lambda *shape, **kind: torch.rand(shape, **kind),
    "cancelling": _cancelling,
}


def total(x: Tensor, dim: int) -> Tensor:
    """torch.sum; of float64, rounded from a sum in long double where the platform has it."""
    if x.dtype != torch.float64:
        return torch.sum(x, dim)
    total = np.asarray(x.cpu().numpy().sum(dim, dtype=np.longdouble)).astype(np.float64)
    return torch.from_numpy(total).to(x)


@every_kernel
@pytest.mark.parametrize(
    ("dtype", "n", "data"),
    [
        # Long sums of the data that are hardest to add, and short ones of all.
        pytest.param(
            *(dtype, n, data),
            marks=[pytest.mark.sweep]
            if n > 257 and (data != "cancelling" or dtype not in (torch.float32, torch.bfloat16))
            else [],
        )
        for dtype in FLOATS
        for n in (1, 2, 33, 257, CHUNK - 1, CHUNK, CHUNK + 1, 70_000)
        for data in DATA
    ],
    ids=short,
)
@pytest.mark.one_in(2)
def test_accuracy(kernel: str, dtype: torch.dtype, n: int, data: str, device: str) -> None:
    x = DATA[data](100, n, dtype=dtype, device=device)
    out = poisoned((100,), dtype, device)
    smem.sum(x, 1, kernel=kernel, out=out)
    assert_accurate(total, (out, (x, 1)))
    if n <= CHUNK + 1:
        assert_accurate(total, (smem.sum(x.mT, 0, kernel=kernel), (x.mT, 0)))


@every_kernel
@pytest.mark.parametrize("dtype", [torch.complex32, *COMPLEX], ids=short)
def test_accuracy_of_complex(kernel: str, dtype: torch.dtype, device: str) -> None:
    if dtype == torch.complex32 and device == "cpu" and kernel == "auto":
        pytest.skip("torch.sum has no complex32 on the CPU")
    part = torch.float64 if dtype == torch.complex128 else torch.float32
    x = torch.complex(*(normal(24, 300, dtype=part, device=device) for _ in "ab")).to(dtype)
    result = smem.sum(x, 1, kernel=kernel)
    assert result.dtype == dtype
    if dtype == torch.complex32:
        expected = torch.view_as_real(x).double().sum(1)
        close = torch.view_as_real(result).double()
        torch.testing.assert_close(close, expected, rtol=2**-11, atol=2**-11)
    else:
        assert_accurate(torch.sum, (result, (x, 1)))


@every_float
@every_kernel
def test_half_precision_is_summed_in_single(kernel: str, dtype: torch.dtype, device: str) -> None:
    """A running sum in bfloat16 would stop at 256, one in float16 at 2048."""
    x = torch.ones(20_000, dtype=dtype, device=device)
    assert smem.sum(x, kernel=kernel).item() == torch.tensor(20_000, dtype=dtype).item()


@every_float
@every_kernel
def test_non_finite(kernel: str, dtype: torch.dtype, device: str) -> None:
    x = normal(8, 300, dtype=dtype, device=device)
    x[1, 7] = x[2, 0] = x[2, 299] = math.inf
    x[3, 7], x[3, 200] = math.inf, -math.inf
    x[4, 299] = -math.inf
    x[5, 0] = math.nan
    x[6, :] = torch.finfo(dtype).max
    result, expected = smem.sum(x, 1, kernel=kernel), x.double().sum(1)
    assert_same_specials(result, expected)
    torch.testing.assert_close(result[0], x[0].sum())
    assert smem.sum(x, kernel=kernel).isnan()


# ------------------------------------------------------------------------------------------- bits


@every_float
@pytest.mark.parametrize("kernel", ["auto", *SUMS])
def test_bits_do_not_depend_on_other_outputs(kernel: str, dtype: torch.dtype, device: str) -> None:
    if kernel == "auto" and device == "cpu":
        pytest.skip("auto is ATen on CPU tensors, which promises no bits")
    for n in (100, 3000, CHUNK + 1, 20_000):
        x = normal(7, n, dtype=dtype, device=device)
        whole = smem.sum(x, 1, kernel=kernel)
        for _ in range(3):
            assert same_bits(smem.sum(x, 1, kernel=kernel), whole), "run to run"
        for i in range(7):
            assert same_bits(smem.sum(x[i], kernel=kernel), whole[i])
            assert same_bits(smem.sum(x[i : i + 1], 1, kernel=kernel)[0], whole[i])
        assert same_bits(smem.sum(x[2:5], 1, kernel=kernel), whole[2:5])
        assert same_bits(smem.sum(x.mT.contiguous(), 0, kernel=kernel), whole), "another layout"
        x[0], x[2:] = math.nan, math.inf
        assert same_bits(smem.sum(x, 1, kernel=kernel)[1], whole[1])


# -------------------------------------------------------------------------------------------- out


@every_kernel
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "unaligned", "step2", "apart"])
def test_out_of_any_layout(kernel: str, layout: str, device: str) -> None:
    for dtype in (torch.float32, torch.int64, torch.complex64):
        x = small_integers(5, 300, 7, device=device).to(dtype)
        for keepdim, shape in ((False, (5, 7)), (True, (5, 1, 7))):
            out, check_gaps = poisoned_out(shape, dtype, device, layout)
            smem.sum(x, 1, keepdim, out=out, kernel=kernel)
            assert torch.equal(out, x.sum(1, keepdim))
            check_gaps()


@every_kernel
def test_out_may_overlap_the_input(kernel: str, device: str) -> None:
    for of in (lambda x: x[0], lambda x: x[-1], lambda x: x[:, 3], lambda x: x.diagonal()):
        x = small_integers(90, 90, device=device)
        expected = x.sum(0)
        smem.sum(x, 0, out=of(x), kernel=kernel)
        assert torch.equal(of(x), expected)


@every_kernel
def test_result_shares_nothing_with_the_input(kernel: str, device: str) -> None:
    x = torch.ones(4, 1, device=device)
    for dim in (1, None):
        smem.sum(x, dim, kernel=kernel).zero_()
    scalar = torch.ones((), device=device)
    smem.sum(scalar, kernel=kernel).zero_()
    assert x.sum() + scalar == 5


# ------------------------------------------------------------------------------------- large, GPU


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=8)
@every_kernel
def test_more_than_2_31_elements(kernel: str) -> None:
    x = torch.randint(0, 256, (2**31 + 77,), dtype=torch.uint8, device="cuda")
    assert smem.sum(x, kernel=kernel).item() == x.sum().item()
    matrix = x[: 2**31 + 64].view(64, -1)
    for dim in (0, 1):
        assert torch.equal(smem.sum(matrix, dim, kernel=kernel), matrix.sum(dim))


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=12)
@every_kernel
def test_more_than_2_31_outputs(kernel: str) -> None:
    x = torch.randint(0, 256, (2, 2**31 + 5), dtype=torch.uint8, device="cuda")
    out = poisoned((2**31 + 5,), torch.uint8, "cuda")
    smem.sum(x, 0, dtype=torch.uint8, kernel=kernel, out=out)
    for part, pair in zip(out.split(2**26), x.split(2**26, 1), strict=True):
        assert torch.equal(part, pair[0] + pair[1])


@pytest.mark.gpu
@every_float
@every_kernel
def test_large(kernel: str, dtype: torch.dtype) -> None:
    x = normal(1023, 4097, dtype=dtype, device="cuda")
    for dim in (0, 1):
        assert_accurate(total, (smem.sum(x, dim, kernel=kernel), (x, dim)))
    rows = [normal(1_000_001, dtype=dtype, device="cuda") for _ in range(runs_needed(1))]
    assert_accurate(total, *((smem.sum(row, kernel=kernel), (row, 0)) for row in rows))
