"""The texts of errors: pinned, and the same wherever a call goes wrong.

A call can be checked in Python (CPU tensors without a kernel's name, fake tensors) or in C++ (named
kernels, CUDA tensors). ``Place`` makes the tensors of each way and calls the ops by it.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers import GEMMS, SUMS, TRANSPOSES
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_smem_gemm as smem
from torch_smem_gemm.ops._dispatch import asking_torch_for_memory

OPS = torch.ops.smem
NAMED_GEMMS = [row.name for row in smem.kernels("gemm")]
WGMMA = [
    name
    for row in smem.kernels("gemm")
    if row.name == "wgmma"
    for name in (row.name, *(f"wgmma:{variant}" for variant in row.variants))
]
NAMED = {"gemm": GEMMS[2], "transpose": TRANSPOSES[0], "sum": SUMS[0]}
FLOAT = torch.float32


class Place:
    """A way for a call to go: where its tensors are, and how the ops are called."""

    def __init__(self, device: str, how: str) -> None:
        self.device, self.how = device, how
        self.kernels = dict.fromkeys(NAMED, "auto") if how == "auto" else NAMED

    def t(self, *shape: int, dtype: torch.dtype = FLOAT) -> Tensor:
        """A tensor there."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def gemm(self, a: Tensor, b: Tensor, out: Tensor | None = None, **kw: Any) -> Tensor:
        if self.how != "bare":
            return smem.gemm(a, b, out=out, kernel=self.kernels["gemm"], **kw)
        args = a, b, kw.get("bias"), kw.get("c"), 1.0, kw.get("beta", 0.0), 0, 0, 1
        return OPS._gemm(*args) if out is None else OPS._gemm.out(*args, out=out)

    def good_gemm(self, **kw: Any) -> Tensor:
        """A gemm whose a and b fit; the result is 3x5."""
        return self.gemm(self.t(3, 4), self.t(4, 5), **kw)

    def linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        op = OPS._linear if self.how == "bare" else OPS.linear
        if out is not None:
            return op.out(x, weight, bias, out=out)
        return smem.linear(x, weight, bias) if self.how == "auto" else op(x, weight, bias)

    def transpose(self, x: Tensor, *dims: int, out: Tensor | None = None) -> Tensor:
        if self.how != "bare":
            return smem.transpose(x, *dims, kernel=self.kernels["transpose"], out=out)
        args = (x, *(dims or (-2, -1)), 1)
        return OPS._transpose(*args) if out is None else OPS._transpose.out(*args, out=out)

    def sum(
        self,
        x: Tensor,
        *dims: int,
        dtype: torch.dtype | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        if self.how != "bare":
            return smem.sum(x, dims, dtype=dtype, kernel=self.kernels["sum"], out=out)
        args = x, dims, False, dtype, 1
        return OPS._sum(*args) if out is None else OPS._sum.out(*args, out=out)


@pytest.fixture(
    params=[
        *[("cpu", how) for how in ("auto", "named", "bare")],
        *[("fake", how) for how in ("auto", "named", "bare")],
        *[pytest.param(("cuda", how), marks=pytest.mark.gpu) for how in ("auto", "named", "bare")],
    ],
    ids="-".join,
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each way in turn."""
    device, how = request.param
    with FakeTensorMode() if device == "fake" else contextlib.nullcontext():
        yield Place("cpu" if device == "fake" else device, how)


Call = Callable[[Place], Tensor]
I32, F16, F64 = torch.int32, torch.float16, torch.float64
GEMM_DTYPES = "expected float64, float32, float16 or bfloat16"
SUM_DTYPES = "expected a float, complex, bool, uint8 or signed integer dtype of torch.sum"

MESSAGES: list[tuple[Call, str]] = [
    # gemm: a and b
    (
        lambda p: p.gemm(p.t(4), p.t(4, 5)),
        "smem.gemm: a is 4, expected a matrix or a batch of matrices",
    ),
    (
        lambda p: p.gemm(p.t(3, 4), p.t()),
        "smem.gemm: b is scalar, expected a matrix or a batch of matrices",
    ),
    (
        lambda p: p.gemm(p.t(3, 4, dtype=I32), p.t(4, 5, dtype=I32)),
        f"smem.gemm: a has dtype int32, {GEMM_DTYPES}",
    ),
    (
        lambda p: p.gemm(p.t(3, 4, dtype=torch.complex64), p.t(4, 5, dtype=torch.complex64)),
        f"smem.gemm: a has dtype complex64, {GEMM_DTYPES}",
    ),
    (
        lambda p: p.gemm(p.t(3, 4, dtype=torch.float8_e4m3fn), p.t(4, 5)),
        f"smem.gemm: a has dtype float8_e4m3fn, {GEMM_DTYPES}",
    ),
    (
        lambda p: p.gemm(p.t(3, 4), p.t(4, 5, dtype=F64)),
        "smem.gemm: b has dtype float64, expected float32 as a has",
    ),
    (
        lambda p: p.gemm(p.t(3, 4), p.t(5, 6)),
        "smem.gemm: a is 3x4 and b is 5x6: inner sizes 4 and 5 differ",
    ),
    (
        lambda p: p.gemm(p.t(2, 3, 4), p.t(3, 4, 5)),
        "smem.gemm: a is 2x3x4 and b is 3x4x5: batch sizes 2 and 3 do not broadcast",
    ),
    (
        lambda p: p.gemm(p.t(7, 1, 3, 4), p.t(6, 2, 4, 5)),
        "smem.gemm: a is 7x1x3x4 and b is 6x2x4x5: batch sizes 7 and 6 do not broadcast",
    ),
    # gemm: bias and c
    (
        lambda p: p.good_gemm(bias=p.t(3)),
        "smem.gemm: bias is 3, expected 5, an element a column of the result",
    ),
    (
        lambda p: p.good_gemm(bias=p.t(1, 5)),
        "smem.gemm: bias is 1x5, expected 5, an element a column of the result",
    ),
    (
        lambda p: p.good_gemm(bias=p.t()),
        "smem.gemm: bias is scalar, expected 5, an element a column of the result",
    ),
    (
        lambda p: p.good_gemm(bias=p.t(5, dtype=F16)),
        "smem.gemm: bias has dtype float16, expected float32 as a has",
    ),
    (lambda p: p.good_gemm(beta=1.0), "smem.gemm: beta is not 0, expected c"),
    (
        lambda p: p.good_gemm(c=p.t(2, 5)),
        "smem.gemm: c is 2x5, which does not broadcast to the result's 3x5",
    ),
    (
        lambda p: p.good_gemm(c=p.t(1, 3, 5)),
        "smem.gemm: c is 1x3x5, which does not broadcast to the result's 3x5",
    ),
    (
        lambda p: p.good_gemm(c=p.t(3, 5, dtype=F64)),
        "smem.gemm: c has dtype float64, expected float32 as a has",
    ),
    # gemm: out
    (lambda p: p.good_gemm(out=p.t(5, 3)), "smem.gemm: out is 5x3, expected 3x5"),
    (lambda p: p.good_gemm(out=p.t(1, 3, 5)), "smem.gemm: out is 1x3x5, expected 3x5"),
    (
        lambda p: p.good_gemm(out=p.t(3, 5, dtype=F16)),
        "smem.gemm: out has dtype float16, expected float32",
    ),
    (
        lambda p: p.good_gemm(out=p.t(5).expand(3, 5)),
        "smem.gemm: out is expanded: several of its elements share memory",
    ),
    # linear
    (
        lambda p: p.linear(p.t(), p.t(5, 4)),
        "smem.linear: x is scalar, expected at least 1 dimension",
    ),
    (
        lambda p: p.linear(p.t(3, 4), p.t(4)),
        "smem.linear: weight is 4, expected out_features x in_features",
    ),
    (
        lambda p: p.linear(p.t(3, 4), p.t(1, 5, 4)),
        "smem.linear: weight is 1x5x4, expected out_features x in_features",
    ),
    (
        lambda p: p.linear(p.t(3, 4, dtype=I32), p.t(5, 4, dtype=I32)),
        f"smem.linear: x has dtype int32, {GEMM_DTYPES}",
    ),
    (
        lambda p: p.linear(p.t(3, 4), p.t(5, 4, dtype=F16)),
        "smem.linear: weight has dtype float16, expected float32 as x has",
    ),
    (
        lambda p: p.linear(p.t(2, 3, 4), p.t(5, 6)),
        "smem.linear: x is 2x3x4 and weight is 5x6: in_features 4 and 6 differ",
    ),
    (
        lambda p: p.linear(p.t(4), p.t(5, 4), p.t(4)),
        "smem.linear: bias is 4, expected 5, an element a column of the result",
    ),
    (
        lambda p: p.linear(p.t(4), p.t(5, 4), p.t(5, dtype=F64)),
        "smem.linear: bias has dtype float64, expected float32 as x has",
    ),
    (lambda p: p.linear(p.t(4), p.t(5, 4), out=p.t(1, 5)), "smem.linear: out is 1x5, expected 5"),
    # transpose
    (lambda p: p.transpose(p.t(3, 4), 2, 0), "smem.transpose: dim0 is 2, expected -2 to 1"),
    (lambda p: p.transpose(p.t(3, 4), 0, -3), "smem.transpose: dim1 is -3, expected -2 to 1"),
    (lambda p: p.transpose(p.t(3)), "smem.transpose: dim0 is -2, expected -1 to 0"),
    (lambda p: p.transpose(p.t(), 0, 1), "smem.transpose: dim1 is 1, expected -1 to 0"),
    (lambda p: p.transpose(p.t(3, 4), out=p.t(3, 4)), "smem.transpose: out is 3x4, expected 4x3"),
    (
        lambda p: p.transpose(p.t(3, 4), out=p.t(4, 3, dtype=I32)),
        "smem.transpose: out has dtype int32, expected float32",
    ),
    (
        lambda p: p.transpose(p.t(3, 4), out=p.t(4, 1).expand(4, 3)),
        "smem.transpose: out is expanded: several of its elements share memory",
    ),
    # sum
    (lambda p: p.sum(p.t(3, 4), 2), "smem.sum: dim holds 2, expected -2 to 1"),
    (lambda p: p.sum(p.t(3, 4), 0, -3), "smem.sum: dim holds -3, expected -2 to 1"),
    (lambda p: p.sum(p.t(), 1), "smem.sum: dim holds 1, expected -1 to 0"),
    (lambda p: p.sum(p.t(3, 4), 1, -1), "smem.sum: dim holds dimension 1 more than once"),
    (
        lambda p: p.sum(p.t(3, 4, dtype=torch.uint16), 1),
        f"smem.sum: x has dtype uint16, {SUM_DTYPES}",
    ),
    (
        lambda p: p.sum(p.t(3, dtype=torch.float8_e5m2), dtype=FLOAT),
        f"smem.sum: x has dtype float8_e5m2, {SUM_DTYPES}",
    ),
    (lambda p: p.sum(p.t(3, 4), 1, dtype=torch.uint64), f"smem.sum: dtype is uint64, {SUM_DTYPES}"),
    (lambda p: p.sum(p.t(3, 4), 1, out=p.t(4)), "smem.sum: out is 4, expected 3"),
    (lambda p: p.sum(p.t(3, 4), out=p.t(1)), "smem.sum: out is 1, expected scalar"),
    (
        lambda p: p.sum(p.t(3, 4), 1, out=p.t(3, dtype=F64)),
        "smem.sum: out has dtype float64, expected float32",
    ),
    (
        lambda p: p.sum(p.t(3, 4, dtype=I32), 1, out=p.t(3, dtype=I32)),
        "smem.sum: out has dtype int32, expected int64",
    ),
    (
        lambda p: p.sum(p.t(3, 4), 1, out=p.t(1).expand(3)),
        "smem.sum: out is expanded: several of its elements share memory",
    ),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES, ids=[text for _, text in MESSAGES])
def test_message(call: Call, message: str, place: Place) -> None:
    with pytest.raises(RuntimeError) as caught:
        call(place)
    assert type(caught.value) is RuntimeError
    assert str(caught.value) == message


# ------------------------------------------------------------------------------ unknown choices


def _valid(names: list) -> str:
    return ", ".join(map(repr, names))


ACTIVATION_NAMES = _valid([None, "relu", "gelu", "gelu_tanh", "silu"])
PRECISION_NAMES = _valid([None, "fp32", "ieee", "tf32"])

CHOICES = [
    (
        lambda x: smem.gemm(x, x, activation="tanh"),
        ValueError,
        f"smem.gemm: activation is 'tanh', expected one of {ACTIVATION_NAMES}",
    ),
    (
        lambda x: smem.linear(x, x, activation=torch.relu),
        TypeError,
        f"smem.linear: activation is {torch.relu!r}, expected one of {ACTIVATION_NAMES}",
    ),
    (
        lambda x: smem.gemm(x, x, precision="fp64"),
        ValueError,
        f"smem.gemm: precision is 'fp64', expected one of {PRECISION_NAMES}",
    ),
    (
        lambda x: smem.linear(x, x, precision=32),
        TypeError,
        f"smem.linear: precision is 32, expected one of {PRECISION_NAMES}",
    ),
    (
        lambda x: smem.gemm(x, x, kernel="cublas"),
        ValueError,
        f"smem.gemm: kernel is 'cublas', expected one of {_valid(['auto', *NAMED_GEMMS])}",
    ),
    (
        lambda x: smem.gemm(x, x, kernel=None),
        TypeError,
        f"smem.gemm: kernel is None, expected one of {_valid(['auto', *NAMED_GEMMS])}",
    ),
    (
        lambda x: smem.gemm(x, x, kernel="wgmma:1x1"),
        ValueError,
        f"smem.gemm: kernel is 'wgmma:1x1', expected one of {_valid(WGMMA)}",
    ),
    (
        lambda x: smem.gemm(x, x, kernel="naive:1x1"),
        ValueError,
        f"smem.gemm: kernel is 'naive:1x1', expected one of {_valid(['auto', *NAMED_GEMMS])}",
    ),
    (
        lambda x: smem.transpose(x, kernel="tree"),
        ValueError,
        f"smem.transpose: kernel is 'tree', expected one of {_valid(['auto', *TRANSPOSES])}",
    ),
    (
        lambda x: smem.sum(x, kernel=["tree"]),
        TypeError,
        f"smem.sum: kernel is ['tree'], expected one of {_valid(['auto', *SUMS])}",
    ),
    (
        lambda x: smem.kernels("matmul"),
        ValueError,
        "smem.kernels: op is 'matmul', expected one of gemm, transpose, sum, mean, amax, amin",
    ),
]


# Without addresses, which differ from process to process: pytest-xdist compares the ids.
CHOICE_IDS = [message.partition(" at 0x")[0] for _, _, message in CHOICES]


@pytest.mark.parametrize(("call", "error", "message"), CHOICES, ids=CHOICE_IDS)
def test_unknown_choice(call: Callable, error: type, message: str, device: str) -> None:
    with pytest.raises(error) as caught:
        call(torch.empty(2, 2, device=device))
    assert str(caught.value) == message


# ---------------------------------------------------------------------------------- wrong types

NO_NUMBER, NO_TENSOR = "expected a real number", "expected a Tensor"
TYPES: list[tuple[Callable[[Tensor, str], Any], str]] = [
    (lambda x, k: smem.gemm(x, x, alpha=1j, kernel=k), f"gemm: alpha is 1j, {NO_NUMBER}"),
    (lambda x, k: smem.gemm(x, x, alpha="2", kernel=k), f"gemm: alpha is '2', {NO_NUMBER}"),
    (
        lambda x, k: smem.gemm(x, x, alpha=x, kernel=k),
        f"gemm: alpha is a torch.Tensor, {NO_NUMBER}",
    ),
    (lambda x, k: smem.gemm(x, x, c=x, beta=1j, kernel=k), f"gemm: beta is 1j, {NO_NUMBER}"),
    (lambda x, k: smem.gemm(None, x, kernel=k), f"gemm: a is None, {NO_TENSOR}"),
    (lambda x, k: smem.gemm(x, None, kernel=k), f"gemm: b is None, {NO_TENSOR}"),
    (lambda x, k: smem.gemm(x, [1, 2], kernel=k), f"gemm: b is [1, 2], {NO_TENSOR}"),
    (
        lambda x, k: smem.gemm(x, x.cpu().numpy(), kernel=k),
        f"gemm: b is a numpy.ndarray, {NO_TENSOR}",
    ),
    (lambda x, k: smem.gemm(x, x, bias=3, kernel=k), f"gemm: bias is 3, {NO_TENSOR} or None"),
    (lambda x, k: smem.gemm(x, x, out=3, kernel=k), f"gemm: out is 3, {NO_TENSOR} or None"),
    (
        lambda x, k: smem.gemm(x, x, out_dtype="float32", kernel=k),
        "gemm: out_dtype is 'float32', expected a torch.dtype or None",
    ),
    (
        lambda x, k: smem.linear(x, x, out_dtype="float32"),
        "linear: out_dtype is 'float32', expected a torch.dtype or None",
    ),
    (lambda x, k: smem.plan(x, None), f"gemm: b is None, {NO_TENSOR}"),
    (
        lambda x, k: smem.Linear(2, 2, cache_split="off"),
        "Linear: cache_split is 'off', expected a bool",
    ),
    (
        lambda x, k: smem.convert(torch.nn.Linear(2, 2), cache_split="off"),
        "convert: cache_split is 'off', expected a bool",
    ),
    (lambda x, k: smem.revert(3), "revert: model is a int, expected a torch.nn.Module"),
    (lambda x, k: smem.linear(x, None), f"linear: weight is None, {NO_TENSOR}"),
    (lambda x, k: smem.linear(None, x), f"linear: x is None, {NO_TENSOR}"),
    (lambda x, k: smem.transpose(2), f"transpose: x is 2, {NO_TENSOR}"),
    (lambda x, k: smem.transpose(x, "0"), "transpose: dim0 is '0', expected dimensions by number"),
    (lambda x, k: smem.sum(None), f"sum: x is None, {NO_TENSOR}"),
    (lambda x, k: smem.sum(x, 1.0), "sum: dim is 1.0, expected dimensions by number"),
    (
        lambda x, k: smem.mean(x, dtype="float32"),
        "mean: dtype is 'float32', expected a torch.dtype or None",
    ),
    (lambda x, k: smem.amax(x, "ab"), "amax: dim is 'ab', expected dimensions by number"),
]


@pytest.mark.parametrize("kernel", ["auto", "naive"])
@pytest.mark.parametrize(("call", "message"), TYPES, ids=[text for _, text in TYPES])
def test_wrong_type(call: Callable, message: str, kernel: str, device: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(torch.ones(2, 2, device=device), kernel)
    assert str(caught.value) == f"smem.{message}"


@pytest.mark.parametrize("kernel", ["auto", "naive"])
@pytest.mark.parametrize("number", [2, np.float32(2), np.int64(2), torch.tensor(2.0)], ids=repr)
def test_real_numbers_of_any_type(number: Any, kernel: str, device: str) -> None:
    x = torch.ones(2, 2, device=device)
    found = smem.gemm(x, x, alpha=number, c=x, beta=number, kernel=kernel)
    assert torch.equal(found, torch.full_like(x, 6))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda dense, sparse: smem.gemm(sparse, dense, kernel="naive"), "gemm: a"),
        (lambda dense, sparse: smem.gemm(dense, sparse, kernel="naive"), "gemm: b"),
        (lambda dense, sparse: smem.gemm(sparse, dense, kernel="naive", out=dense), "gemm: a"),
        (lambda dense, sparse: smem.transpose(sparse, kernel="tiled"), "transpose: x"),
        (lambda dense, sparse: smem.transpose(sparse), "transpose: x"),
        (lambda dense, sparse: smem.sum(sparse, kernel="tree"), "sum: x"),
    ],
)
def test_sparse_tensors(call: Callable, name: str, device: str) -> None:
    dense = torch.ones(2, 2, device=device)
    with pytest.raises(RuntimeError) as caught:
        call(dense, dense.to_sparse())
    expected = "is sparse (its layout is torch.sparse_coo), expected a dense tensor"
    assert str(caught.value) == f"smem.{name} {expected}"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda dense, nested: smem.gemm(nested, dense), "gemm: a"),
        (lambda dense, nested: smem.gemm(dense, nested), "gemm: b"),
        (lambda dense, nested: smem.linear(nested, dense), "linear: x"),
        (lambda dense, nested: smem.linear(dense, nested), "linear: weight"),
        (lambda dense, nested: smem.transpose(nested), "transpose: x"),
        (lambda dense, nested: smem.sum(nested), "sum: x"),
        (lambda dense, nested: smem.mean(nested), "mean: x"),
        (lambda dense, nested: smem.amax(nested), "amax: x"),
    ],
)
def test_nested_tensors(call: Callable, name: str, device: str) -> None:
    dense = torch.ones(2, 2, device=device)
    with pytest.raises(RuntimeError) as caught:
        call(dense, torch.nested.nested_tensor([dense, dense]))
    expected = "is nested (its layout is torch.strided), expected a dense tensor"
    assert str(caught.value) == f"smem.{name} {expected}"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: smem.gemm(x, x, kernel=GEMMS[0]),
        lambda x: smem.transpose(x, 0, 1, kernel=TRANSPOSES[0]),
        lambda x: smem.sum(x, 0, kernel=SUMS[0]),
        lambda x: smem.amax(x, 0),
        lambda x: smem.mean(x),
    ],
    ids=["gemm", "transpose", "sum", "amax", "mean"],
)
def test_more_dimensions_than_torchs_operators_take(call: Callable, device: str) -> None:
    with pytest.raises(RuntimeError, match=r"65 dimensions|up to 64 dim|at most 64"):
        call(torch.zeros([1] * 65, device=device))


@pytest.mark.parametrize("op", ["gemm", "transpose", "sum"])
def test_unknown_kernel_code(op: str, device: str) -> None:
    """Direct calls choose by number."""
    x = torch.ones(2, 2, device=device)
    count = len(smem.kernels(op))
    message = rf"^smem\.{op}: kernel 99 is unknown, expected 0 \(auto\) to {count}$"
    with pytest.raises(RuntimeError, match=message):
        getattr(OPS, op)(*((x, x) if op == "gemm" else (x,)), kernel_id=99)


def test_unknown_variant_code(device: str) -> None:
    x = torch.ones(2, 2, device=device)
    for code in (-256, -512, 256):
        with pytest.raises(RuntimeError, match=r"^smem\.gemm: kernel '\w+' has \d+ variants, got"):
            OPS.gemm(x, x, kernel_id=code)


# ----------------------------------------------------------------------------- different devices

# A matrix and a vector on the host, the same on the device.
DEVICES: list[tuple[Callable[..., Tensor], str]] = [
    (lambda m, v, dm, dv: smem.gemm(dm, m), "gemm: b is on cpu, expected cuda:0 where a is"),
    (lambda m, v, dm, dv: smem.gemm(m, dm), "gemm: b is on cuda:0, expected cpu where a is"),
    (
        lambda m, v, dm, dv: smem.gemm(m, dm, kernel=GEMMS[0]),
        "gemm: b is on cuda:0, expected cpu where a is",
    ),
    (
        lambda m, v, dm, dv: smem.gemm(dm, dm, bias=v, kernel=GEMMS[0]),
        "gemm: bias is on cpu, expected cuda:0 where a is",
    ),
    (
        lambda m, v, dm, dv: smem.gemm(m, m, c=dm, beta=1.0),
        "gemm: c is on cuda:0, expected cpu where a is",
    ),
    (lambda m, v, dm, dv: smem.gemm(dm, dm, out=m), "gemm: out is on cpu, expected cuda:0"),
    (
        lambda m, v, dm, dv: smem.linear(dm, m),
        "linear: weight is on cpu, expected cuda:0 where x is",
    ),
    (
        lambda m, v, dm, dv: smem.linear(m, m, dv),
        "linear: bias is on cuda:0, expected cpu where x is",
    ),
    (lambda m, v, dm, dv: smem.transpose(m, out=dm), "transpose: out is on cuda:0, expected cpu"),
    (lambda m, v, dm, dv: smem.transpose(dm, out=m), "transpose: out is on cpu, expected cuda:0"),
    (lambda m, v, dm, dv: smem.sum(dm, 0, out=v), "sum: out is on cpu, expected cuda:0"),
    (lambda m, v, dm, dv: smem.sum(m, 0, out=dv), "sum: out is on cuda:0, expected cpu"),
]


@pytest.mark.parametrize("where", ["fake", pytest.param("real", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("call", "message"), DEVICES, ids=[text for _, text in DEVICES])
def test_different_devices(call: Callable, message: str, where: str) -> None:
    with FakeTensorMode() if where == "fake" else contextlib.nullcontext():
        tensors = [torch.empty(s, device=d) for d in ("cpu", "cuda:0") for s in ((2, 2), 2)]
        with pytest.raises(RuntimeError) as caught:
            call(*tensors)
        assert str(caught.value) == "smem." + message


def test_cpu_and_meta() -> None:
    """torch.mm returns memory that nothing has written where only its second is on meta."""
    there, nowhere = torch.ones(2, 2), torch.ones(2, 2, device="meta")
    with pytest.raises(RuntimeError, match=r"gemm: b is on meta, expected cpu where a is"):
        smem.gemm(there, nowhere)
    with pytest.raises(RuntimeError, match=r"gemm: b is on cpu, expected meta where a is"):
        smem.gemm(nowhere, there)
    with pytest.raises(RuntimeError, match=r"linear: weight is on meta, expected cpu where x is"):
        smem.linear(there, nowhere)


def test_no_memory_for_what_an_op_works_in_is_torchs_error() -> None:
    """The results have room, so that torch has no reason to complain by itself."""
    calls = []

    def op(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        if x.numel() > 2:
            raise RuntimeError("smem.gemm: out of memory: allocating 9 of uint8")
        raise RuntimeError("smem.gemm: something else")

    call = asking_torch_for_memory(op, lambda x: ([2], torch.float32))
    with pytest.raises(torch.OutOfMemoryError, match=r"^smem.gemm: out of memory: allocating 9 of"):
        call(torch.empty(3))
    assert len(calls) == 2
    with pytest.raises(RuntimeError, match="something else"):
        call(torch.empty(1))
    assert len(calls) == 3
