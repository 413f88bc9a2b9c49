"""The figures of one problem: who is right, who is timed, and what a row says."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import helpers
import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench import peers, rows
from torch_smem_gemm.bench.measure import Ceilings
from torch_smem_gemm.bench.peers import NotAvailable, Peer
from torch_smem_gemm.bench.problems import Function, Problem, make_problem
from torch_smem_gemm.bench.shapes import GemmShape, Shape, SumShape, TransposeShape

CPU = torch.device("cpu")
CEILINGS = Ceilings(ffma_gflops=100.0, copy_gbs=10.0, read_gbs=20.0, cublas_bf16_gflops=1000.0)
PROBLEMS: list[tuple[str, Shape]] = [
    ("gemm", GemmShape(20, 30, 40)),
    ("linear", GemmShape(8, 24, 16, layout="nt", activation="gelu_tanh")),
    ("transpose", TransposeShape((3, 20, 30))),
    ("sum", SumShape((20, 30), (1,))),
]

pytestmark = pytest.mark.usefixtures("hasty")


def problem(op: str = "gemm", dtype: torch.dtype = torch.float32) -> Problem:
    return make_problem(op, dict(PROBLEMS)[op], dtype, CPU)


def peer(name: str, function: Function | NotAvailable, *, same: bool = True) -> rows.Contender:
    return rows.against(Peer(name, "a peer", lambda problem: function, same))


def measure(
    problem: Problem, *contenders: rows.Contender, baseline: str | None = None
) -> dict[str, rows.Row]:
    found = rows.measure("a set", problem, contenders, CEILINGS, budget=0.001, baseline=baseline)
    assert [row.name for row in found] == [contender.name for contender in contenders]
    return {row.name: row for row in found}


@pytest.mark.parametrize(("op", "shape"), PROBLEMS, ids=str)
def test_a_row_says_what_and_how_fast(op: str, shape: Shape) -> None:
    bounds = peers.available(op, CPU)
    found = measure(problem(op), rows.ours(), *map(rows.against, bounds.values()))
    for row in found.values():
        assert (row.set, row.op, row.shape, row.dtype) == ("a set", op, str(shape), "float32")
        assert row.problem == f"{op} {shape.title} float32"
        assert row.status == "ok"
        assert row.detail == ""
        assert 0 < row.ms_p20 <= row.ms <= row.ms_p80
        assert row.rounds == 5
        assert row.host_us is row.graph_ms is None  # on a CPU
        work = row.operations if row.unit == "GFLOP/s" else row.bytes
        assert row.rate == pytest.approx(work / row.ms / 1e6)
    ours = found.pop("smem")
    assert ours.kind == "kernel"
    assert ours.ratios.keys() == found.keys()
    assert not any(row.ratios for row in found.values())
    assert found["torch"].kind == "peer"
    assert [row.name for row in found.values() if row.kind == "bound"] == (
        ["copy"] if op == "transpose" else []
    )


@pytest.mark.parametrize("op", [op for op, _ in PROBLEMS])
@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        (lambda result: result.view(-1)[-1].add_(1), "off by up to 1"),
        (lambda result: result.fill_(math.nan), "are NaN or infinite"),
        (lambda result: result.view(-1)[0].fill_(math.nan), "1 of "),
    ],
    ids=["one element off", "all NaN", "one NaN"],
)
def test_a_broken_kernel_is_wrong_and_has_no_time(
    op: str,
    fault: Callable[[Tensor], object],
    detail: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if op == "linear":  # the check calls the op itself, which takes an out
        linear = torch.ops.smem.linear

        class Broken:
            @staticmethod
            def out(*args: Any, out: Tensor) -> None:
                linear.out(*args, out=out)
                fault(out)

        monkeypatch.setattr(torch.ops.smem, "linear", Broken)
    else:
        helpers.break_kernel(monkeypatch, op, "auto", fault)
    row = measure(problem(op), rows.ours())["smem"]
    assert row.status == "wrong"
    assert detail in row.detail
    assert row.ms is row.ms_p20 is row.rate is row.rounds is None
    assert not row.shares
    assert not row.ratios


def test_a_kernel_that_writes_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smem, "gemm", lambda *args, out=None, **kwargs: out)
    assert (
        measure(problem(), rows.ours())["smem"].detail == "600 of 600 elements are NaN or infinite"
    )
    monkeypatch.setattr(smem, "transpose", lambda *args, out=None, **kwargs: out)
    integers = make_problem("transpose", TransposeShape((20, 30)), torch.uint8, CPU)
    assert measure(integers, rows.ours())["smem"].status == "wrong"


def test_a_wrong_peer_has_no_time_and_no_ratio() -> None:
    found = measure(
        problem(),
        rows.ours(),
        peer("right", torch.matmul),
        peer("wrong", lambda a, b: a @ b + 1),
        peer("missing", NotAvailable("no compiler")),
        peer("bound", lambda a, b: a, same=False),
    )
    assert {name: row.status for name, row in found.items()} == {
        "smem": "ok",
        "right": "ok",
        "wrong": "wrong",
        "missing": "n/a",
        "bound": "ok",
    }
    assert found["missing"].detail == "no compiler"
    assert found["smem"].ratios.keys() == {"right", "bound"}
    assert found["bound"].kind == "bound"


def test_ladder_gets_ratios_to_its_first_kernel() -> None:
    contenders = rows.ladder("gemm", torch.float32, CPU, only=["naive", "tiled16"])
    found = measure(problem(), *contenders, peer("torch", torch.matmul), baseline="naive")
    assert [row.summary for row in found.values()][:2] == [
        kernel.summary for kernel in smem.kernels("gemm") if kernel.name in ("naive", "tiled16")
    ]
    assert found["naive"].ratios["naive"].median == 1
    assert found["tiled16"].ratios.keys() == {"naive", "torch"}
    assert found["torch"].ratios.keys() == {"naive"}


def test_refusals_are_told_from_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError("smem.gemm: kernel 'panel' takes a K of 2, got 40\nmore")

    monkeypatch.setattr(smem, "gemm", refuse)
    row = measure(problem(), *rows.ladder("gemm", torch.float32, CPU, only=["panel"]))["panel"]
    assert (row.status, row.detail) == ("n/a", "smem.gemm: kernel 'panel' takes a K of 2, got 40")

    def out_of_memory(*args: Any, **kwargs: Any) -> Tensor:
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr(smem, "gemm", out_of_memory)
    assert measure(problem(), rows.ours())["smem"].detail == "no more"

    def fault(*args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError("smem: launching kernel 'naive' failed: an illegal memory access")

    monkeypatch.setattr(smem, "gemm", fault)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        measure(problem(), rows.ours())


def test_floors() -> None:
    gemm = problem()
    assert rows.floor_seconds(gemm, CEILINGS) == {
        "FMA": gemm.operations / 100e9,
        "read": gemm.least_bytes / 20e9,
    }
    half = problem(dtype=torch.bfloat16)
    assert rows.floor_seconds(half, CEILINGS)["tensor cores"] == half.operations / 1000e9
    tf32 = dataclasses.replace(gemm, arithmetic="tf32")
    assert rows.floor_seconds(tf32, CEILINGS)["tensor cores"] == tf32.operations / 500e9
    assert rows.floor_seconds(problem(dtype=torch.float64), CEILINGS).keys() == {"read"}
    assert rows.floor_seconds(gemm, Ceilings(None, 10.0, 20.0)).keys() == {"read"}
    transpose = problem("transpose")
    assert rows.floor_seconds(transpose, CEILINGS) == {"copy": transpose.least_bytes / 10e9}
    assert rows.floor_seconds(problem("sum"), CEILINGS).keys() == {"read"}


@pytest.mark.gpu
@pytest.mark.parametrize(("op", "shape"), PROBLEMS, ids=str)
def test_short_calls_are_timed_in_graphs(op: str, shape: Shape) -> None:
    device = torch.device("cuda")
    made = make_problem(op, shape, torch.float32, device)
    found = {
        row.name: row
        for row in rows.measure(
            "a set",
            made,
            [rows.ours(), rows.against(peers.available(op, device)["torch"])],
            CEILINGS,
            budget=0.02,
        )
    }
    for row in found.values():
        assert row.status == "ok"
        assert row.graph_ms > 0
        assert row.host_us > 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["compile", "compile-max", "triton", "cublas", "cublaslt"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_peers_of_a_gpu(name: str, dtype: torch.dtype) -> None:
    device = torch.device("cuda")
    made = make_problem("gemm", GemmShape(257, 128, 100), dtype, device)
    there = peers.available("gemm", device)
    (row,) = rows.measure("a set", made, [rows.against(there[name])], CEILINGS, budget=0.02)
    assert row.status == "ok", row.detail
