"""python -m torch_smem_gemm bench gemm | linear | transpose | sum | ladder | all."""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helpers
import pytest
import torch
from helpers import refusal
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench import results, suite
from torch_smem_gemm.bench.problems import make_problem
from torch_smem_gemm.bench.shapes import GemmShape
from torch_smem_gemm.cli import _bench_assume, main
from torch_smem_gemm.ops import plan

LADDER = ["bench", "ladder", "--device", "cpu", "--size", "24"]
PNG = b"\x89PNG"
LINES = {
    "gemm": "20 30 40\n* 8 9 10 layout=tn\n4 5 6 batch=3\n",
    "linear": "20 30 40 layout=nt\n* 20 30 40 layout=nt activation=silu\n",
    "transpose": "20 30\n* 3 20 30\n",
    "sum": "20 30 all\n* 20 30 1\n20 30 0\n",
}

pytestmark = pytest.mark.usefixtures("hasty")


def bench(op: str, tmp_path: Path, *more: str) -> list[str]:
    """The command that measures some tiny problems of ``op`` on the CPU."""
    shapes = tmp_path / "tiny.txt"
    shapes.write_text(LINES[op])
    return ["bench", op, "--device", "cpu", "--shapes", str(shapes), *more]


@pytest.mark.parametrize("op", LINES)
@pytest.mark.usefixtures("with_and_without_rich")
def test_an_op(op: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new folder" / "results.json"
    dtypes = ["float32", "bfloat16"]
    assert main([*bench(op, tmp_path, "--json", str(out)), "--dtype", *dtypes]) == 0
    found = results.load(out)
    assert found["command"].startswith(f"python -m torch_smem_gemm bench {op} --device cpu")
    assert found["interrupted"] is False
    ours = [row for row in found["rows"] if row.name == "smem"]
    lines = [line.removeprefix("* ") for line in LINES[op].splitlines()]
    assert [(row.dtype, row.shape) for row in ours] == [
        (dtype, line) for dtype in dtypes for line in lines
    ]
    assert {row.status for row in found["rows"]} == {"ok"}
    assert all("torch" in row.ratios for row in ours)
    text = capsys.readouterr().out
    for row in ours:
        assert row.shape in text
    assert "x torch" in text
    assert "Times as fast as the fastest peer" in text
    assert f"{len(ours)} problems in " in text


def test_quick_measures_the_marked_problems(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    assert main(bench("sum", tmp_path, "--quick", "--json", str(out))) == 0
    assert {row.shape for row in results.load(out)["rows"]} == {"20 30 1"}


def test_against_whom(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    assert main(bench("transpose", tmp_path, "--against", "copy", "--json", str(out))) == 0
    assert {row.name for row in results.load(out)["rows"]} == {"smem", "copy"}


def test_default_sets_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gemm", "--device", "cpu", "--quick"]) == 0
    text = capsys.readouterr().out
    assert "problems are too large for a CPU and left out" in text
    assert "4 problems in " in text
    assert "256 256 256" in text
    assert main(["bench", "transpose", "--device", "cpu", "--quick"]) == 0
    assert "1024 1024" in capsys.readouterr().out


@pytest.mark.sweep
def test_all_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(suite, "CPU_OPERATIONS", 2**26)  # the small ones of each set
    out, plot = tmp_path / "all.json", tmp_path / "all.png"
    command = ["bench", "all", "--device", "cpu", "--quick", "--json", str(out)]
    assert main([*command, "--plot", str(plot)]) == 0
    assert {row.op for row in results.load(out)["rows"]} >= {"gemm", "transpose", "sum"}
    assert "problems are too large for a CPU and left out" in capsys.readouterr().out
    assert plot.read_bytes().startswith(PNG)


def test_a_line_that_is_no_problem_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = tmp_path / "mine.txt"
    shapes.write_text("3 4 5\n3 4\n")
    assert "mine.txt:2: expected M N K" in refusal(
        capsys, "bench", "gemm", "--device", "cpu", "--shapes", str(shapes)
    )


def test_missing_matplotlib_is_told_before_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"pip install 'torch-smem-gemm\[bench\]'"):
        main([*LADDER, "--plot", "ladder.png"])


# --- files, memory, accidents


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_a_file_that_cannot_be_written_is_told_before_measuring(
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if option == "--plot":
        pytest.importorskip("matplotlib")
    monkeypatch.setattr(suite, "run", None)
    folder, file = tmp_path / "folder.png", tmp_path / "file"
    folder.mkdir()
    file.touch()
    for path, why in ((folder, "Is a directory"), (file / "out.png", "file")):
        assert why in refusal(capsys, *bench("sum", tmp_path, option, str(path)))
    assert not any(folder.iterdir())


def test_a_problem_that_finds_no_memory_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes, out = tmp_path / "mine.txt", tmp_path / "results.json"
    shapes.write_text("8 9 10\n1000000000000 8 8\n4 5 6\n")
    command = ["bench", "gemm", "--device", "cpu", "--shapes", str(shapes), "--json", str(out)]
    assert main(command) == 0
    statuses = [(row.shape, row.status) for row in results.load(out)["rows"] if row.name == "smem"]
    assert statuses == [("8 9 10", "ok"), ("1000000000000 8 8", "n/a"), ("4 5 6", "ok")]
    assert "4 5 6" in capsys.readouterr().out


def test_an_accident_leaves_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = smem.gemm

    def breaks(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
        if a.dim() == 3:
            raise RuntimeError("the device is gone")
        return original(a, b, **kwargs)

    monkeypatch.setattr(smem, "gemm", breaks)
    out = tmp_path / "results.json"
    with pytest.raises(RuntimeError, match="the device is gone"):
        main(bench("gemm", tmp_path, "--json", str(out)))
    found = results.load(out)
    assert found["interrupted"] is True
    assert {row.shape for row in found["rows"]} == {"20 30 40", "8 9 10 layout=tn"}
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, found: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(results, "save", full)
    out = tmp_path / "results.json"
    assert main(bench("gemm", tmp_path, "--json", str(out))) == 1
    printed = capsys.readouterr()
    assert "4 5 6 batch=3" in printed.out
    assert "results.json is not written: [Errno 28] No space left on device" in printed.err


def test_results_replace_a_file_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    assert main(bench("sum", tmp_path, "--json", str(out))) == 0
    before = out.read_text()
    found = results.load(out)
    (tmp_path / "results.json.part").mkdir()  # in the way of the new one
    with pytest.raises(OSError, match=r"results\.json\.part"):
        results.save(out, found)
    assert out.read_text() == before


# --- wrong results


@pytest.mark.parametrize("op", ["gemm", "transpose", "sum"])
@pytest.mark.parametrize(
    "fault",
    [lambda result: result.view(-1)[-1].mul_(1.01), lambda result: result.fill_(torch.nan)],
    ids=["one element off by a hundredth", "nothing written"],
)
def test_wrong_is_printed_instead_of_a_time(
    op: str,
    fault: Callable[[Tensor], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    helpers.break_kernel(monkeypatch, op, "auto", fault)
    out = tmp_path / "results.json"
    assert main(bench(op, tmp_path, "--json", str(out))) == 1
    text = capsys.readouterr().out
    ours = [row for row in results.load(out)["rows"] if row.name == "smem"]
    assert {row.status for row in ours} == {"wrong"}
    assert all(row.ms is None for row in ours)
    assert text.count("WRONG") == len(ours)
    for row in ours:
        assert f"{row.shape}, smem: {row.detail}" in text
    assert "Times as fast" not in text


@pytest.mark.parametrize("op", ["gemm", "transpose", "sum"])
def test_a_wrong_kernel_of_a_ladder(
    op: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = smem.kernels(op)[1].name
    helpers.break_kernel(monkeypatch, op, kernel, lambda result: result.view(-1)[-1].mul_(1.01))
    assert main(LADDER) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if "WRONG" in line]
    assert wrong
    assert all(line.split()[:2] == [kernel, "WRONG"] for line in wrong)


# --- the ladder


def test_ladder_json_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "ladder.json", tmp_path / "ladder.png"
    assert main([*LADDER, "--json", str(out), "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(PNG)
    found = json.loads(out.read_text())
    assert found["versions"].keys() >= {"torch_smem_gemm", "commit", "torch", "driver"}
    assert found["device"].startswith("CPU")
    assert found["telemetry"] is None
    peers = {"gemm": ["torch"], "transpose": ["torch", "copy"], "sum": ["torch"]}
    ladders = results.problems(results.load(out)["rows"])
    assert [rows[0].problem for rows in ladders] == [
        "gemm 24 x 24 x 24 float32",
        "transpose 24 x 24 float32",
        "sum 576 over all float32",
        "sum 24 x 24 over dim 1 float32",
    ]
    text = capsys.readouterr().out
    for rows in ladders:
        op, first = rows[0].op, rows[0].name
        kernels = [kernel.name for kernel in smem.kernels(op) if kernel.on_cpu]
        assert [row.name for row in rows] == kernels + peers[op]
        for row in rows:
            assert row.set == suite.LADDER
            assert row.status == "ok"
            assert row.ratios[first].median > 0
            assert row.name in text


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_ladder_of_other_dtypes(dtype: str) -> None:
    assert main([*LADDER, "--dtype", dtype]) == 0


# --- Ctrl-C


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = smem.gemm

    def impatient(a: Tensor, b: Tensor, **kwargs: Any) -> Tensor:
        if a.dim() == 3:
            raise KeyboardInterrupt
        return original(a, b, **kwargs)

    monkeypatch.setattr(smem, "gemm", impatient)
    out = tmp_path / "results.json"
    assert main(bench("gemm", tmp_path, "--json", str(out))) == 130
    found = results.load(out)
    assert found["interrupted"] is True
    assert {row.shape for row in found["rows"]} == {"20 30 40", "8 9 10 layout=tn"}
    text = capsys.readouterr().out
    assert "interrupted: the problem that was being timed is left out" in text
    assert "20 30 40" in text


# --- on a GPU


@pytest.mark.gpu
def test_ladder_on_a_gpu(tmp_path: Path) -> None:
    out = tmp_path / "ladder.json"
    assert main(["bench", "ladder", "--device", "cuda", "--json", str(out)]) == 0
    found = results.load(out)
    assert found["device"] == torch.cuda.get_device_name()
    assert {row.name for row in found["rows"] if row.status != "ok"} <= {"panel"}
    for row in found["rows"]:
        assert all(share > 0 for share in row.shares.values())


@pytest.mark.gpu
@pytest.mark.parametrize("op", LINES)
def test_an_op_on_a_gpu(op: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = bench(op, tmp_path, "--json", str(out))
    command[command.index("cpu")] = "cuda"
    assert main([*command, "--against", "torch,compile"]) == 0
    for row in results.load(out)["rows"]:
        assert row.status == "ok", row.detail
        assert row.host_us > 0
        assert row.graph_ms > 0


@pytest.mark.parametrize(
    ("arithmetic", "kernel", "small", "floor"),
    # 2 * 4096 * 4096 * 4097 operations by 312, 156 and 312 / 3 TFLOP/s.
    [
        ("bfloat16", "mma", "mma", "440.8"),
        ("tf32", "mma", "mma", "881.6"),
        ("float32", "fp16x3", "simt", "1,322.4"),
    ],
)
@pytest.mark.usefixtures("with_and_without_rich")
def test_plans_for_a_gpu_that_is_not_there(
    arithmetic: str,
    kernel: str,
    small: str,
    floor: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shapes = tmp_path / "some.txt"
    shapes.write_text("512 512 512\n4096 4096 4097 layout=nt gap=3\n8 16 32 batch=4 layout=tn\n")
    command = ["bench", "gemm", "--shapes", str(shapes), "--dtype", arithmetic]
    assert main([*command, "--assume", "A100"]) == 0
    text = capsys.readouterr().out
    assert "A100 40GB, of compute capability 8.0: what a build for it would run." in text
    for title in ("512 x 512 x 512", "4096 x 4096 x 4097 nt gap 3", "4 of 8 x 16 x 32 tn"):
        (line,) = (line for line in text.splitlines() if line.startswith(f"{title} "))
        cells = line.removeprefix(title).split()
        assert cells[0] == (small if title.startswith("4 of") else kernel)
        # simt's model does not know the rates of an A100.
        assert cells[1].isdecimal() == (cells[0] != "simt")
        if "gap" in title:
            assert floor in cells
            # Rows of 4100 elements: vectors of 16 bytes reach those of tf32. fp16x3 splits any.
            assert ("a and b packed first" in line) == (arithmetic == "bfloat16")


def test_plans_for_a_gpu_that_is_too_old(capsys: pytest.CaptureFixture[str]) -> None:
    message = "smem.plan: device is V100 SXM2, of compute capability 7.0, expected 7.5 or newer"
    assert message in refusal(capsys, "bench", "gemm", "--assume", "V100")


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_plans_are_not_written(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plans.png"
    text = refusal(capsys, "bench", "gemm", "--assume", "A100", option, str(out))
    assert "--assume measures nothing: there is nothing to write" in text
    assert not out.exists()


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("gap", [0, 3])
def test_the_problem_of_a_shape_is_that_of_its_tensors(layout: str, gap: int) -> None:
    shape = GemmShape(4, 5, 6, batch=3, layout=layout, gap=gap)
    problem = make_problem("gemm", shape, torch.float32, torch.device("cpu"))
    found = plan.gemm_problem(*problem.inputs[0])
    assert _bench_assume.gemm_problem(shape) == dataclasses.replace(found, misaligned=(0, 0))
