"""The sets of problem sizes: those shipped, those of a user's file, and random ones."""

import math
from pathlib import Path

import pytest

from torch_smem_gemm.bench.random_shapes import COUNTS, random_shapes
from torch_smem_gemm.bench.shapes import (
    GemmShape,
    SumShape,
    TransposeShape,
    load,
    names,
    parse,
)

OPS = ("gemm", "linear", "transpose", "sum")


def test_sets_shipped():
    wanted = ["activation", "batched", "llm", "ragged", "skinny", "squares", "sum", "transpose"]
    assert names() == wanted


@pytest.mark.parametrize("name", names())
def test_every_shipped_set_parses_and_repeats_nothing(name: str):
    op = {"transpose": "transpose", "sum": "sum", "activation": "linear"}.get(name, "gemm")
    shapes = load(name, op)
    marked = load(name, op, marked=True)
    assert 3 <= len(marked) < len(shapes)
    assert set(marked) < set(shapes)
    assert len(set(shapes)) == len(shapes) > 5
    for shape in shapes:
        assert parse(op, str(shape).split()) == shape


def test_sets_hold_what_they_promise():
    sides = [shape.m for shape in load("squares", "gemm")]
    assert (sides[0], sides[-1]) == (256, 16384)
    llm = load("llm", "linear")
    assert {shape.m for shape in llm} == {1, 8, 16, 32, 64, 128, 512, 2048, 8192}
    assert {shape.layout for shape in llm} == {"nt"}
    assert len(llm) == 2 * 4 * 9
    assert GemmShape(64, 64, 262144) in load("skinny", "gemm")
    assert SumShape((128, 1000003), (0,)) in load("sum", "sum")


def test_file(tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_text("# mine\n\n3 4 5  # small\n3 4 5 batch=2 layout=tn\n")
    both = [GemmShape(3, 4, 5), GemmShape(3, 4, 5, 2, "tn")]
    assert load(str(file), "gemm") == load(str(file), "gemm", marked=True) == both
    file.write_text("3 4 5\n* 3 4 5 batch=2 layout=tn\n")
    assert load(str(file), "gemm") == both
    assert load(str(file), "gemm", marked=True) == both[1:]


def test_other_ops():
    assert parse("transpose", ["2", "3", "4"]) == TransposeShape((2, 3, 4))
    assert parse("sum", ["7", "all"]) == SumShape((7,))
    assert parse("sum", ["7", "8", "1"]) == SumShape((7, 8), (1,))
    assert parse("sum", ["7", "8", "9", "2,0"]) == SumShape((7, 8, 9), (2, 0))
    heads = TransposeShape((2, 3, 4), (0, 1))
    assert parse("transpose", ["2", "3", "4", "dims=0,1"]) == heads
    stored = TransposeShape((2, 3, 4), (0, 1), (2, 0, 1))
    assert parse("transpose", ["2", "3", "4", "dims=0,1", "order=2,0,1"]) == stored
    assert parse("sum", ["7", "8", "1", "order=1,0"]) == SumShape((7, 8), (1,), (1, 0))
    assert parse("gemm", ["3", "4", "5", "gap=2"]) == GemmShape(3, 4, 5, gap=2)
    linear = GemmShape(3, 4, 5, activation="silu")
    assert parse("linear", ["3", "4", "5", "activation=silu"]) == linear


def test_titles():
    assert GemmShape(3, 4, 5).title == "3 x 4 x 5"
    assert GemmShape(3, 4, 5, 2, "tn").title == "2 of 3 x 4 x 5 tn"
    assert GemmShape(3, 4, 5, activation="relu").title == "3 x 4 x 5 relu"
    assert TransposeShape((2, 3, 4)).title == "2 x 3 x 4"
    assert TransposeShape((2, 3, 4), (0, 1)).title == "2 x 3 x 4 dims 0,1"
    assert SumShape((7, 8, 9), (0, 2)).title == "7 x 8 x 9 over dims 0,2"
    assert SumShape((7,)).title == "7 over all"
    assert SumShape((7, 8), (1,)).title == "7 x 8 over dim 1"
    assert SumShape((7, 8), order=(1, 0)).title == "7 x 8 over all order 1,0"
    assert TransposeShape((2, 3), order=(1, 0)).title == "2 x 3 order 1,0"
    assert GemmShape(3, 4, 5, gap=2).title == "3 x 4 x 5 gap 2"


@pytest.mark.parametrize(
    ("op", "line", "message"),
    [
        ("gemm", "3 4", "expected M N K [batch=B] [layout=nn|nt|tn|tt] [gap=G], got '3 4'"),
        ("gemm", "*", "expected M N K [batch=B] [layout=nn|nt|tn|tt] [gap=G], got ''"),
        (
            "gemm",
            "3 4 5 activation=relu",
            "expected M N K [batch=B] [layout=nn|nt|tn|tt] [gap=G], got",
        ),
        (
            "linear",
            "3 4 5 activation=swish",
            "expected an activation of relu, gelu, gelu_tanh, silu",
        ),
        ("gemm", "3 4 5 6", "got '3 4 5 6'"),
        ("gemm", "3 4 5 batch=2 batch=2", "got '3 4 5 batch=2 batch=2'"),
        ("gemm", "3 4 x", "expected a size of 1 or more, got 'x'"),
        ("gemm", "3 0 4", "expected a size of 1 or more, got '0'"),
        ("gemm", "3 4 5 layout=nx", "expected a layout of nn, nt, tn, tt, got 'nx'"),
        ("transpose", "3", "expected SIZE SIZE ... [dims=D,D] [order=D,D...], got '3'"),
        ("transpose", "dims=0,1 3 4", "[dims=D,D] [order=D,D...], got 'dims=0,1 3 4'"),
        ("transpose", "3 4 order=1", "expected an order of all 2 dims, got '1'"),
        ("transpose", "3 4 order=1,1", "expected different dims from 0 to 1, got '1,1'"),
        ("sum", "3 4 all size=3", "got '3 4 all size=3'"),
        ("gemm", "3 4 5 gap=0", "expected a size of 1 or more, got '0'"),
        ("transpose", "3 4 dims=0,2", "expected different dims from 0 to 1, got '0,2'"),
        ("transpose", "3 4 dims=1", "expected two dims, got 'dims=1'"),
        ("sum", "all", "expected SIZE ... all|D[,D...] [order=D,D...], got 'all'"),
        ("sum", "3 4 2", "expected different dims from 0 to 1, got '2'"),
        ("sum", "3 4 1,1", "expected different dims from 0 to 1, got '1,1'"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, op: str, line: str, message: str):
    file = tmp_path / "bad.txt"
    file.write_text(f"# a comment\n{line}\n")
    with pytest.raises(ValueError, match="bad") as caught:
        load(str(file), op)
    assert str(caught.value).startswith(f"{file}:2: ")
    assert message in str(caught.value)


def test_no_such_set_and_an_empty_one(tmp_path: Path):
    with pytest.raises(ValueError, match=r"expected one of activation, batched, .* got 'circles'"):
        load("circles", "gemm")
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n")
    with pytest.raises(ValueError, match="got none"):
        load(str(empty), "gemm")
    with pytest.raises(ValueError, match="got 'conv'"):
        parse("conv", ["1", "2", "3"])


@pytest.mark.parametrize("op", OPS)
def test_random_shapes_by_seed(op: str):
    shapes = random_shapes(op, 20, seed=1)
    assert shapes == random_shapes(op, 20, seed=1)
    assert shapes != random_shapes(op, 20, seed=2)
    for shape in shapes:
        assert parse(op, str(shape).split()) == shape


def test_random_products_are_of_every_kind():
    shapes = random_shapes("gemm", COUNTS["gemm"], seed=5)
    assert {shape.layout for shape in shapes} == {"nn", "nt", "tn", "tt"}
    for size in ("m", "n", "k"):
        found = [getattr(shape, size) for shape in shapes]
        assert min(found) == 1
        assert max(found) > 1 << 18
        assert sum(one % 2 for one in found) > len(found) / 4
    assert 30 < sum(shape.batch > 1 for shape in shapes) < 200
    assert 30 < sum(shape.gap > 0 for shape in shapes) < 200
    assert 100 < sum(shape.m % 8 == shape.n % 8 == shape.k % 8 == 0 for shape in shapes) < 300
    assert max(2 * s.batch * s.m * s.n * s.k for s in shapes) <= 1 << 42
    layers = random_shapes("linear", 50, seed=5)
    assert {shape.layout for shape in layers} == {"nt"}
    assert len({shape.activation for shape in layers}) == 5


@pytest.mark.parametrize("op", ["transpose", "sum"])
def test_random_tensors_are_of_every_kind(op: str):
    shapes = random_shapes(op, COUNTS[op], seed=5)
    assert {len(shape.sizes) for shape in shapes} == {2, 3, 4}
    assert 20 < sum(shape.order is not None for shape in shapes) < 80
    assert len({shape.dims for shape in shapes}) >= 6
    for shape in shapes:
        assert 100_000 <= math.prod(shape.sizes) <= 300_000_000


def test_random_shapes_that_fit():
    shapes = random_shapes("sum", 30, seed=5, fits=lambda shape: len(shape.sizes) == 2)
    assert [len(shape.sizes) for shape in shapes] == [2] * 30


def test_random_shapes_of_an_unknown_op():
    with pytest.raises(ValueError, match="got 'conv'"):
        random_shapes("conv", 1, seed=0)
