"""``--arg`` and ``--check`` of ``trace``: what they mean, and that nothing of them is executed."""

import contextlib
import math
import sys
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from torch_smem_gemm.cli._trace_arguments import Argument, Variable, parse_argument
from torch_smem_gemm.cli._trace_check import Check
from torch_smem_gemm.cli._trace_expression import ExpressionError
from torch_smem_gemm.raw_kernel.arguments import Parameter


def parameter(kind: str = "v", size: int = 1, *, passed: str = "p") -> Parameter:
    """A pointer to a type; to void unless it says so."""
    return Parameter("a", 0, "T", passed, 8, kind, size, False)


def made(text: str, of: Parameter | None = None) -> Any:
    """The value of an ``--arg``."""
    random = torch.Generator().manual_seed(0)
    return parse_argument(text).make(of or parameter(), {}, random)


def problem(text: str, parse: type[Check] | Any = parse_argument) -> str:
    """The error of an expression."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return str(caught.value)


# --------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("256", 256),
        (" n = 256 ", 256),
        ("-3", -3),
        ("+3", 3),
        ("0x1f", 31),
        ("0x1fu", 31),
        ("3ull", 3),
        ("1e-3", 1e-3),
        ("-1.5e+2f", -150.0),
        (".5f", 0.5),
        ("256f", 256.0),
        ("1_000", 1000),
        ("2 * 3 + 4 - 1", 9),
        ("True", 1),
        ("False", 0),
        ("None", None),
        ("inf", math.inf),
        ("-inf", -math.inf),
        (str(2**64 - 1), 2**64 - 1),
    ],
)
def test_numbers(text: str, value: float | None) -> None:
    found = made(text)
    assert found == value
    assert isinstance(found, float) == isinstance(value, float)


def test_names() -> None:
    assert [parse_argument(text).name for text in ("3", "x=3", " größe = 3", "in=3")] == [
        *("", "x", "größe", "in")
    ]
    assert parse_argument("y = x", variables=True).value == Variable("x")
    assert "expected a tensor or a number" in problem("y = x")


# --------------------------------------------------------------------------------------- tensors

F32, I64 = torch.float32, torch.int64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zeros(2, 3)", torch.zeros(2, 3)),
        ("zeros((2, 3))", torch.zeros(2, 3)),
        ("zeros([2])", torch.zeros(2)),
        ("zeros()", torch.zeros(())),
        ("ones(2 * 3, dtype=int64)", torch.ones(6, dtype=I64)),
        ("ones(2, dtype=torch.bfloat16)", torch.ones(2, dtype=torch.bfloat16)),
        ("ones(2, dtype=half)", torch.ones(2, dtype=torch.float16)),
        ("full((2, 2), -1.5)", torch.full((2, 2), -1.5)),
        ("full(2, 7, dtype=uint16)", torch.full((2,), 7, dtype=torch.uint16)),
        ("arange(5)", torch.arange(5)),
        ("arange(2, 5)", torch.arange(2, 5)),
        ("arange(5, 0, -2)", torch.arange(5, 0, -2)),
        ("arange(0, 1, .25)", torch.arange(0, 1, 0.25)),
        ("arange(5, 2)", torch.arange(0)),
        ("arange(3, dtype=float64)", torch.arange(3.0, dtype=torch.float64)),
        ("eye(2)", torch.eye(2)),
        ("eye(2, 3, dtype=bool)", torch.eye(2, 3, dtype=torch.bool)),
        ("tensor([[1, 2], [3, 4]])", torch.tensor([[1, 2], [3, 4]])),
        ("tensor([1, 2.5])", torch.tensor([1, 2.5])),
        ("tensor([True, False], dtype=bool)", torch.tensor([True, False])),
        ("tensor(3)", torch.tensor(3)),
        ("tensor([])", torch.tensor([], dtype=I64)),
        ("empty(2)", torch.tensor([math.nan, math.nan])),
        ("empty(2, dtype=uint8)", torch.tensor([0xCD, 0xCD], dtype=torch.uint8)),
        ("empty(1, dtype=int32)", torch.tensor([0xCDCDCDCD - 2**32], dtype=torch.int32)),
        ("empty(1, dtype=bool)", torch.tensor([True])),
    ],
)
def test_tensors(text: str, expected: Tensor) -> None:
    torch.testing.assert_close(made(text), expected, rtol=0, atol=0, equal_nan=True)


def test_random_tensors() -> None:
    normal, uniform = made("randn(1000)"), made("rand(50, 20)")
    assert abs(normal.mean()) < 0.2 < 0.8 < normal.std()
    assert uniform.shape == (50, 20)
    assert 0 <= uniform.min() < 0.1 < 0.9 < uniform.max() < 1
    whole = made("randint(-3, 3, (10, 20))")
    assert (whole.dtype, whole.shape) == (I64, (10, 20))
    assert (whole.min(), whole.max()) == (-3, 2)
    assert made("randint(0, 2, 3, 4)").shape == (3, 4)


@pytest.mark.parametrize(
    ("kind", "size", "dtype"),
    [("f", 8, torch.float64), ("h", 2, torch.float16), ("u", 1, torch.uint8), ("i", 4, torch.int)],
)
def test_the_dtype_is_the_parameters(kind: str, size: int, dtype: torch.dtype) -> None:
    of = parameter(kind, size)
    for text in ("zeros(3)", "empty(3)", "arange(3)", "randint(0, 5, 3)", "tensor([1])"):
        assert made(text, of).dtype == dtype
    assert made("zeros(3, dtype=int8)", of).dtype == torch.int8


def test_a_struct_by_value() -> None:
    of = parameter(passed="s")
    assert made("tensor([1, 2], dtype=int16)", of) == b"\1\0\2\0"
    assert made("tensor(1, dtype=bfloat16)", of) == b"\x80\x3f"


@pytest.mark.parametrize(
    ("text", "said", "column"),
    [
        ("", "got nothing", 0),
        ("x = ", "got nothing", 4),
        ("randn(3", "cannot read this", 5),
        ("x = rnd(3)", "expected one of randn, ", 4),
        ("ünï = rnd(3)", "expected one of randn, ", 6),
        ("randn(3, device=1)", "takes the keyword dtype, got device", 9),
        ("randn(3, dtype=int33)", "got int33", 15),
        ("randn(4, -1)", "expected a size, got -1", 9),
        ("randn(1.5)", "expected an integer, got 1.5", 6),
        ("randn(99999, 99999)", "at most 4 GiB, and this has 75", 0),
        ("full(3)", "expected full(shape, number), got 1 values", 0),
        ("eye(1, 2, 3)", "expected eye(rows)", 0),
        ("eye((1, 2, 3))", "expected eye(rows)", 0),
        ("arange(1, 2, 0)", "a step that is not 0", 0),
        ("arange(inf)", "expected finite numbers", 0),
        ("randint(3, 3, 1)", "expected low < high, got 3 and 3", 0),
        ("randint(3)", "expected randint(low, high, shape)", 0),
        ("tensor([[1], [2, 3]])", "rows of one length", 7),
        ("tensor(['a'])", "expected a number, got 'a'", 8),
        ("[1, 2]", "expected a tensor or a number", 0),
        ("10 ** 10", "expected a number, got 10 ** 10", 0),
        (str(2**64), "more than 64 bits", 0),
        ("__import__('os').system('ls')", "expected one of randn", 0),
        ("(lambda: 1)()", "cannot read this", 7),
        ("-" * 200 + "1", "at most 100 levels", 0),
        ("(" * 500, "cannot read this", 60),
        ("1" * 20_000, "at most 10,000 characters", 0),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_errors_of_arguments(text: str, said: str, column: int) -> None:
    message, _, caret = problem(text).split("\n")
    assert said in message
    assert caret.index("^") - 2 in (column, column + 1)  # Python's own errors differ by one


# ---------------------------------------------------------------------------------------- checks

X = torch.arange(20.0).reshape(4, 5)
AFTER: dict[str, Any] = {
    "x": X,
    "out": X.T.clone(),
    "half": (X / 3).half(),
    "i": torch.arange(20).reshape(4, 5),
    "mask": torch.tensor([True, False]),
    "array": numpy.arange(4, dtype=numpy.uint8),
    "big": torch.tensor([2**53 + 1]),
    "nan": torch.tensor([math.nan]),
    "in": 3,
    "s": 0.1,
    "pair": b"12345678",
    "cube": torch.zeros(2, 3, 4),
}
BEFORE = AFTER | {"x": X + 1}


def holds(text: str) -> bool:
    return not any(one.wrong for one in Check(text).compare(AFTER, BEFORE))


@pytest.mark.parametrize(
    "text",
    [
        "out == x.T",
        "out.mT == x and x < 20 and x <= 19 and 20 > x and x >= 0",
        "x.before == x + 1",
        "x < x.before < 21",
        "out[:in, 0] == x[0, :in]",
        "x[-1] == x[3]",
        "x[..., None] == x[:, :, None]",
        "x[in - 1, 0] == 10",
        "i.sum(1) == sum(i, 1)",
        "i.sum() == 190",
        "sum(x, dim=0) == x.cumsum(0)[-1]",
        "x.mean(1) == x.sum(1) / 5",
        "mean(i) == 9.5",
        "x.max(1) == x[:, 4] and x.min() == 0 and max(i) == 19",
        "softmax(x, 1).sum(1) == 1",
        "softmax(i, 0) == exp(i) / exp(i).sum(0)[None]",
        "sqrt(x * x) == abs(-x)",
        "relu(x - 10) >= 0 and relu(x - 10).max() == 9",
        "x @ out == x @ x.T",
        "i @ i.mT == x @ x.T",
        "half == x / 3",
        "i / 2 == i * 0.5",
        "mask == array[:2] - array[:2] + 1 - array[:2]",
        "array.sum() == 6",
        "s == 0.1",
        "s * x == x / 10",
    ],
)
def test_what_holds(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "out == x.T + 1e-3",
        "x == x.before",
        "x < 19",
        "x > 0",
        "big == 9007199254740992",  # in float64 they are equal
        "nan == nan",
        "x == 1 / 0",
        "half == x / 3 * 1.01",
        "x == x and x == 2 * x",
    ],
)
def test_what_does_not_hold(text: str) -> None:
    assert not holds(text)


def test_a_failed_comparison_says_where() -> None:
    found = Check("x == x and i[1:3] == 7 and x < 19").compare(AFTER, BEFORE)
    assert str(found[0]) == "Check holds: x == x"
    assert str(found[1]).splitlines() == [
        "CHECK FAILED: i[1:3] == 7: 9 of 10 elements",
        "  at [0, 0]: 5, expected 7",
        "  at [0, 1]: 6, expected 7",
        "  at [0, 3]: 8, expected 7",
        "  at [0, 4]: 9, expected 7",
        "  at [1, 0]: 10, expected 7",
        "  ...",
    ]
    assert found[2].first == (((3, 4), 19.0, 19),)


@pytest.mark.parametrize(
    ("value", "dtype", "equal"),
    [
        (1 + 1e-6, torch.float32, True),
        (1 + 1e-4, torch.float32, False),
        (1 + 1e-3, torch.float16, True),
        (1 + 1e-2, torch.float16, False),
        (1 + 1e-2, torch.bfloat16, True),
        (1 + 1e-1, torch.bfloat16, False),
        (1 + 1e-13, torch.float64, True),
        (1 + 1e-10, torch.float64, False),
    ],
)
def test_tolerances(value: float, dtype: torch.dtype, equal: bool) -> None:
    values = {"x": torch.full((3,), value, dtype=torch.float64), "y": torch.ones(3, dtype=dtype)}
    (found,) = Check("x == y").compare(values, values)
    assert (found.wrong == 0) == equal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("out", "expected a comparison"),
        ("not x == x", "expected a comparison"),
        ("x == x or x == x", "expected a comparison"),
        ("x != x", "expected one of ==, <"),
        ("x is x", "cannot read this"),
        ("out = x", "cannot read this"),
        ("b == 1", "no argument of numbers called b; there are: x, out, half, i"),
        ("pair == 1", "no argument of numbers called pair"),
        ("x.T.before == 1", "not known here: .before"),
        ("out == x", "expected equal shapes, got [5, 4] and [4, 5]"),
        ("x @ x == 1", "cannot be multiplied"),
        ("x + out == 1", "must match"),
        ("x.sum(9) == 1", "out of range"),
        ("x.sum(1, 2) == 1", "sum takes a tensor and one dimension"),
        ("exp(x, 1) == 1", "exp takes a tensor and no dimension"),
        ("sum() == 1", "sum takes a tensor"),
        ("softmax(x) == 1", "softmax takes"),
        ("x.sum(axis=1) == 1", "not known here"),
        ("x[99] == 1", "out of bounds"),
        ("x[0.5] == 1", "expected an integer as an index"),
        ("x[::-1] == 1", "step must be greater than zero"),
        ("cube.T == 1", "expected a matrix before .T"),
        ("x == 'a'", "expected a number"),
        ("x.numpy() == 1", "not known here: x.numpy()"),
        ("x.__class__ == 1", "not known here: .__class__"),
        ("eval('1') == 1", "not known here: eval('1')"),
        ("[x] == 1", "not known here: [x]"),
        ("x[x := 1] == 1", "not known here"),
        ("x ** 2 == 1", "not known here: x ** 2"),
    ],
)
def test_errors_of_checks(text: str, said: str) -> None:
    assert said in problem(text, lambda text: Check(text).compare(AFTER, BEFORE))


# -------------------------------------------------------------------------------- nothing is run

WORDS = """x out i in n randn zeros arange full tensor randint eye empty sum softmax before T mT
dtype float16 and or not if else lambda import eval exec open __import__ __class__ os system 1 2 0
1e9 0x1f -1 'a' { } ( ) [ ] , . : = == < + - * / @ ** ~ := ... ; # f' None True yield await for"""
PIECES = st.sampled_from([*WORDS.split(), "\\", "\0", "\n", "\t", '"""', "ü", "核", "\ud800"])
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES, max_size=25).map("".join),
    st.lists(PIECES, max_size=25).map(" ".join),
    st.sampled_from("-([{~").flatmap(lambda c: st.integers(1, 3000).map(lambda n: c * n + "1")),
    st.sampled_from([".T", "[0]", "()", "+1"]).flatmap(
        lambda c: st.integers(1, 3000).map(lambda n: f"x{c * n} == 1")
    ),
)

_executed: list[str] = []
_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in ("exec", "open", "import", "os.system", "subprocess.Popen"):
        _executed.append(event)


@pytest.fixture(scope="module")
def _watched() -> None:
    """Note what the interpreter executes, by its audit events; a hook stays for good."""
    sys.addaudithook(_watch)


def _tried(text: str) -> None:
    """Parse a text as either option; any other error than their own is raised."""
    with contextlib.suppress(ExpressionError):
        parse_argument(text)
    with contextlib.suppress(ExpressionError):
        parse_argument(text, variables=True)
    with contextlib.suppress(ExpressionError):
        Check(text).compare(AFTER, BEFORE)


@pytest.mark.usefixtures("_watched")
@given(TEXTS)
def test_parsers_raise_only_their_own_error_and_execute_nothing(text: str) -> None:
    global _watching
    _executed.clear()
    _watching = True
    try:
        _tried(text)
    finally:
        _watching = False
    assert _executed == []


@pytest.mark.usefixtures("_watched")
def test_an_execution_would_be_noticed() -> None:
    global _watching
    _executed.clear()
    _watching = True
    try:
        eval("1 + 1")
    finally:
        _watching = False
    assert _executed == ["exec"]


@given(
    st.sampled_from(["zeros", "ones", "empty", "randn", "rand"]),
    st.lists(st.integers(0, 5), max_size=4),
    st.sampled_from(["float64", "float16", "bfloat16", "float32"]),
)
def test_any_shape_and_dtype(maker: str, shape: list[int], dtype: str) -> None:
    sizes = ", ".join(map(str, shape))
    argument: Argument = parse_argument(f"{maker}({sizes}{', ' if shape else ''}dtype={dtype})")
    value = argument.make(parameter(), {}, torch.Generator())
    assert (list(value.shape), value.dtype) == (shape, getattr(torch, dtype))
