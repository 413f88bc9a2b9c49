"""python -m torch_smem_gemm explain: what it prints, and the errors."""

import dataclasses
import json
from typing import Any

import pytest
import torch
from explain_command import LADDERS, SMALL, every_kernel, report, text
from helpers import GEMMS, SUMS, refusal
from trace_lines import lines

import torch_smem_gemm as smem
from torch_smem_gemm.cli import explain, main
from torch_smem_gemm.cli._explain_problem import Problem
from torch_smem_gemm.cli._trace_text import expression
from torch_smem_gemm.trace_report import LOADS, STORES, Fault, Trace


def ones(op: str) -> list[Any]:
    """The arguments of ``SMALL``'s problem."""
    sizes = [int(size) for size in SMALL[op][1::2]]
    if op == "gemm":
        m, n, k = sizes
        return [torch.ones(m, k), torch.ones(k, n)]
    return [torch.ones(sizes)] if op == "transpose" else [torch.ones(sizes), 1]


# ------------------------------------------------------------------------------------- one kernel


@every_kernel
def test_shows_every_line_of_the_source(
    op: str, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = text(capsys, op, "--kernel", kernel, *SMALL[op])
    trace = smem.trace(op, *ones(op), kernel=kernel)
    for line in trace.launches[0].lines:
        assert f"{line.file.removeprefix(op + '/')}:{line.line}" in shown
        assert line.text[:24] in shown
    for what in ("Totals", "Occupancy on H200", "Least times on H200", f"No faults in {kernel}"):
        assert what in shown
    assert ("Roofline of H200" if op == "gemm" else "Bandwidth of H200") in shown


def test_shows_each_access_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """As and Bs are read in one line: the table tells them apart."""
    shown = text(capsys, "gemm", "--kernel", "tiled16", "-m", "16", "-n", "16", "-k", "32")
    cells = [line.split() for line in shown.splitlines()]
    loads = [row for row in cells if row[1:4] == ["load", "shared", "4"]]
    assert [row[:1] for row in loads] == [["As[ty][k]"], ["Bs[k][tx]"]]
    # 8 warps read 32 values of each in one pass; four values of As can be one load of two passes.
    assert loads[0][4:] == ["256", "1", "0.5", "1", "0"]
    assert loads[1][4:] == ["256", "1", "1", "0"]


def test_default_kernel_is_the_last_or_what_auto_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for op, names in LADDERS.items():
        name = "rows" if op == "sum" else names[-1]
        assert f"kernel {name}\n" in text(capsys, op, *SMALL[op])


@every_kernel
def test_json_is_the_trace(
    op: str, kernel: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traces: list[Trace] = []
    original = smem.trace

    def trace(*args: Any, **kwargs: Any) -> Trace:
        traces.append(original(*args, **kwargs))
        return traces[-1]

    monkeypatch.setattr(smem, "trace", trace)
    found = report(capsys, op, "--kernel", kernel, *SMALL[op])
    (own,) = traces
    assert found["trace"] == json.loads(json.dumps(own.to_dict()))
    assert found.keys() >= {"problem", "device", "residency", "rooflines", "least_seconds"}
    expected = original(op, *ones(op), kernel=kernel)
    for name in ("op", "kernel", "dtype", "shapes", "tensor_bytes", "flop", "global_bytes_loaded"):
        assert getattr(own, name) == getattr(expected, name)


def test_layouts_and_dim_and_dtype(capsys: pytest.CaptureFixture[str]) -> None:
    def sectors(found: dict[str, Any], memory: str) -> float:
        lines = found["trace"]["launches"][0]["lines"]
        reads = ("load", "copy_from")
        (line,) = (x for x in lines if x["memory"] == memory and x["action"] in reads)
        return line["sectors"] / line["requests"]

    sizes = ["--kernel", "naive", "-m", "32", "-n", "32", "-k", "64"]
    by_layout = {
        layout: report(capsys, "gemm", *sizes, "--layout", layout)
        for layout in ("nn", "nt", "tn", "tt")
    }
    # Lanes lie along N: neighbours in memory unless B is a transposed view.
    of_b = {layout: sectors(found, "b") for layout, found in by_layout.items()}
    assert of_b == {"nn": 4, "nt": 32, "tn": 4, "tt": 32}
    assert by_layout["nt"]["problem"] == "gemm 32 x 32 x 64 float32 nt"

    sums = [report(capsys, "sum", "-m", "256", "-n", "256", "--dim", dim) for dim in "01"]
    assert [sectors(found, "x") for found in sums] == [16, 16]
    assert [found["trace"]["kernel"] for found in sums] == ["columns", "rows"]
    narrow = report(capsys, "transpose", *SMALL["transpose"], "--dtype", "int8")
    assert narrow["trace"]["dtype"] == "int8"
    assert narrow["trace"]["tensor_bytes"] == {"x": 40 * 36, "out": 40 * 36}


def test_a_long_sum_shows_both_launches(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["-m", "2", "-n", "20000", "--dtype", "float16"]
    shown = text(capsys, "sum", "--kernel", "shuffle", *sizes)
    assert "launch 1 of 2" in shown
    assert "launch 2 of 2" in shown
    assert "6 blocks of 256 threads" in shown
    assert "2 blocks of 32 threads" in shown


@pytest.mark.usefixtures("with_and_without_rich")
def test_with_and_without_rich(capsys: pytest.CaptureFixture[str]) -> None:
    shown = text(capsys, "gemm", "--kernel", "tiled32", *SMALL["gemm"])
    assert "As[ty][tx] = a_element;" in shown
    assert max(map(len, shown.splitlines())) <= 160


def test_expression_of_an_access() -> None:
    trace = smem.trace("gemm", torch.ones(40, 40), torch.ones(40, 40), kernel="tiled32")
    found = {(line.action, line.memory, expression(line)) for line in trace.launches[0].lines}
    for access in (
        ("load", "a", "const T a_element = row < M && k0 + tx < K ? *a : T(0.0f);"),
        ("store", "shared", "As[ty][tx]"),
        ("load", "shared", "Bs[k][tx]"),
        ("store", "out", "out(row, col)"),
        ("barrier", "", "__syncthreads();"),
    ):
        assert access in found
    (line, _) = lines(trace, LOADS, "shared", "As[")
    texts = {
        "x = As[i][j[k]] + Bs[i];": "As[i][j[k]]",
        "x = As[i] + As[i];": "As[i]",
        "x = As[i] + As[j];": "x = As[i] + As[j];",
        "x = *p;": "x = *p;",
    }
    for text_, access in texts.items():
        assert expression(dataclasses.replace(line, text=text_)) == access


# ---------------------------------------------------------------------------------------- ladder


@pytest.mark.parametrize("op", LADDERS)
def test_ladder_lists_all_kernels(op: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = text(capsys, op, "--ladder", *SMALL[op])
    first = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert [word for word in first if word in LADDERS[op]] == LADDERS[op]
    assert "No faults in any of them." in shown


def test_ladder_shows_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    shown = text(capsys, "transpose", "--ladder", "-m", "64", "-n", "64")
    rows = {words[0]: words for words in map(str.split, shown.splitlines()) if words}
    # loaded, sectors a load and a store, times read, wavefronts, conflicts, n-way, barriers
    assert rows["naive"][1:8] == ["16.38", "kB", "4", "32", "1", "x", "0"]
    assert rows["tiled"][1:11] == ["16.38", "kB", "4", "4", "1", "x", "4,224", "3,968", "32", "1"]
    assert rows["padded"][1:11] == ["16.38", "kB", "4", "4", "1", "x", "256", "0", "1", "1"]


def test_ladder_of_kernels_that_use_different_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    """Not all need partial sums."""
    shown = text(capsys, "sum", "--ladder", "-m", "2", "-n", "20000")
    rows = {words[0]: " ".join(words) for words in map(str.split, shown.splitlines()) if words}
    assert "x read partial read" in rows["kernel"]
    assert " 1 x 1 x " in rows["tree"]
    assert " 1 x 0 x " in rows["rows"]


def test_ladder_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "sum", "--ladder", *SMALL["sum"])
    assert [kernel["kernel"] for kernel in found["kernels"]] == SUMS
    for kernel in found["kernels"]:
        assert kernel["refusal"] == ""
        assert kernel["trace"]["kernel"] == kernel["kernel"]


def test_ladder_says_why_a_kernel_does_not_take_the_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ["-m", "8", "-n", "8", "-k", "910", "--dtype", "float64"]  # 227 KiB hold 908
    shown = text(capsys, "gemm", "--ladder", *sizes)
    why = "smem.gemm: kernel 'panel' needs shared memory in proportion to K"
    assert f"panel: {why}" in shown
    found = report(capsys, "gemm", "--ladder", *sizes)["kernels"]
    (refused,) = (kernel for kernel in found if kernel["refusal"])
    assert refused["kernel"] == "panel"
    assert "trace" not in refused
    with pytest.raises(SystemExit, match=why):
        main(["explain", "gemm", "--kernel", "panel", *sizes])


# ---------------------------------------------------------------------------------------- faults


def faulty(original: Trace) -> Trace:
    """The trace with two faults."""
    launch = original.launches[0]
    fault = Fault("race", launch.kernel, "f.cu", 7, (1, 0, 0), "3 and 35", "no barrier", 2)
    launch = dataclasses.replace(launch, faults=(fault,))
    return dataclasses.replace(original, launches=(launch,))


def test_faults_end_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = smem.trace
    monkeypatch.setattr(smem, "trace", lambda *args, **kwargs: faulty(original(*args, **kwargs)))
    words = "FAULT: race in tree at f.cu:7, block (1, 0, 0), thread 3 and 35: no barrier (2 times)"
    shown = text(capsys, "sum", "--kernel", "tree", *SMALL["sum"], status=1)
    assert words in shown
    shown = text(capsys, "sum", "--ladder", *SMALL["sum"], status=1)
    assert words in shown
    assert "FAULTS" in shown
    assert "No faults" not in shown


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def trace(*args: Any, **kwargs: Any) -> Trace:
        raise RuntimeError("smem: something else broke")

    monkeypatch.setattr(smem, "trace", trace)
    with pytest.raises(RuntimeError, match="something else broke"):
        main(["explain", "sum", "--ladder"])


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ([], ["required: OP"]),
        (["conv"], ["'conv'", "gemm", "transpose", "sum"]),
        (["gemm", "--kernel", "fastest"], ["'fastest'", *GEMMS]),
        (["sum", "--kernel", "naive"], ["'naive'", *SUMS]),
        (["gemm", "--dtype", "int8"], ["'int8'", "float32", "bfloat16"]),
        (["sum", "--dtype", "complex64"], ["'complex64'", "int64", "bool"]),
        (["gemm", "--layout", "nx"], ["'nx'", "nn", "tt"]),
        (["gemm", "--device", "Abacus"], ["'Abacus'", "expected one of", "H200", "RTX 5090"]),
        (["gemm", "-m", "0"], ["0 is less than 1"]),
        (["transpose", "-n", "-3"], ["-3 is less than 1"]),
        (["transpose", "-k", "3"], ["-k"]),
        (["sum", "--dim", "2"], ["2", "0, 1"]),
        (["gemm", "--ladder", "--kernel", "naive"], ["not allowed with"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_arguments_are_named(
    arguments: list[str], texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "explain", *arguments)
    for word in texts:
        assert word in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["gemm", "-m", "4096", "-n", "4096", "-k", "4096"],
        ["gemm", "-m", "1", "-n", "1", "-k", "1000000"],  # a whole tile's work
        ["gemm", "--ladder", "-m", "512", "-n", "512", "-k", "256"],
        ["transpose", "-m", "100000", "-n", "100000"],
        ["sum", "-m", "100000000", "-n", "1"],
        ["sum", "-m", "1", "-n", "100000000", "--dim", "0"],
    ],
    ids=" ".join,
)
def test_a_problem_that_takes_too_long(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "explain", *arguments)
    assert "accesses of threads, the limit is 5e+08" in said
    assert "--force" in said


def test_force_lifts_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain, "LIMIT", 10)
    with pytest.raises(SystemExit):
        main(["explain", "sum", *SMALL["sum"]])
    capsys.readouterr()
    assert "No faults" in text(capsys, "sum", *SMALL["sum"], "--force")


@every_kernel
def test_no_kernel_makes_many_more_accesses_than_estimated(op: str, kernel: str) -> None:
    sizes = {"gemm": [(40, 36, 32), (1, 1, 64), (130, 5, 17)], "sum": [(3, 500), (1, 9000), (9, 1)]}
    for size in sizes.get(op, [(40, 36), (1, 1)]):
        problem = Problem(op, size, "float32")
        accesses = problem.trace(kernel).count("lanes", actions=[*LOADS, *STORES])
        assert accesses <= 1.3 * problem.accesses
